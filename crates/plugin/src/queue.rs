//! A link's queue that is a library's.

use l4slab_core::aqm::own::{Maker, late_timer, stranger};
use l4slab_core::aqm::{Aqm, Backlog, LinkInfo, MarkReason, Pkt, QueueCx};
use l4slab_core::own::fail;
use l4slab_core::packet::Packet;
use l4slab_core::params::declared::{Table, Values};
use l4slab_core::probe::Gauges;
use l4slab_core::time::Time;

use super::calls::{Api, Object};
use super::l4slab::{Link, QueueTable};
use super::packets::{Deeds, Packets};
use super::{numbers, tell};

pub struct QueueMaker {
    pub api: Api<QueueTable>,
    pub table: &'static Table,
}

impl Maker for QueueMaker {
    fn make(&self, parameters: &Values, link: LinkInfo) -> Box<dyn Aqm<Packet>> {
        let name = self.table.name;
        let object = self.api.create(&numbers(parameters), link.rate.bps(), link.now.0);
        let object =
            object.unwrap_or_else(|| fail(format!("{name} has no memory: create gave NULL")));
        let (api, table) = (self.api.clone(), self.table);
        Box::new(Queue { api, table, object, packets: Packets::default(), now: link.now })
    }
}

struct Queue {
    api: Api<QueueTable>,
    table: &'static Table,
    object: Object,
    /// After the object, which has pointers to them.
    packets: Packets,
    /// When it was called last.
    now: Time,
}

impl Queue {
    /// Makes a call that may drop and mark.
    #[inline(always)]
    fn call<R>(
        &mut self,
        cx: &mut QueueCx<Packet>,
        call: impl FnOnce(&Api<QueueTable>, &Object, &mut Link) -> R,
    ) -> R {
        self.now = cx.now;
        let mut deeds = Deeds { packets: &mut self.packets, rng: &mut *cx.rng, stranger: None };
        let mut link = deeds.link(self.now);
        let done = call(&self.api, &self.object, &mut link);
        if let Some(does) = deeds.stranger {
            stranger(self.table.name, does);
        }
        if !self.packets.dropped.is_empty() {
            for (packet, why) in self.packets.dropped.drain(..) {
                cx.drop(packet, why);
            }
        }
        done
    }
}

impl Aqm<Packet> for Queue {
    #[inline(always)]
    fn enqueue(&mut self, packet: Packet, cx: &mut QueueCx<Packet>) {
        let packet = self.packets.put(packet);
        self.call(cx, |api, object, link| api.enqueue(object, packet, link));
    }
    #[inline(always)]
    fn dequeue(&mut self, cx: &mut QueueCx<Packet>) -> Option<Packet> {
        let given = self.call(cx, |api, object, link| api.dequeue(object, link));
        if given.is_null() {
            return None;
        }
        // SAFETY: it is one of those that the library was given.
        let Some((mut packet, is_marked)) = (unsafe { self.packets.take(given) }) else {
            stranger(self.table.name, "sends");
        };
        if is_marked {
            cx.mark(&mut packet, MarkReason::Aqm);
        }
        Some(packet)
    }
    fn backlog(&self) -> Backlog {
        let waiting = self.packets.waiting();
        waiting.fold(Backlog::default(), |Backlog { packets, bytes }, packet| Backlog {
            packets: packets + 1,
            bytes: bytes + u64::from(packet.frame_len()),
        })
    }
    fn next_timer(&self) -> Time {
        Time(self.api.next_timer(&self.object)).max(self.now)
    }
    fn on_timer(&mut self, cx: &mut QueueCx<Packet>) {
        self.call(cx, |api, object, link| api.on_timer(object, link));
        late_timer(self.table.name, Time(self.api.next_timer(&self.object)), self.now);
    }
    fn probe(&self, out: &mut dyn Gauges) {
        let mut values = vec![f64::NAN; self.table.gauges.len()];
        self.api.probe(&self.object, &mut values);
        tell(&self.table.gauges, &values, out);
    }
}
