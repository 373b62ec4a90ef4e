//! A link's queue that is a library's.

use std::any::Any;

use l4slab_core::aqm::own::{Maker, is_of, late_timer, stranger};
use l4slab_core::aqm::{Aqm, Backlog, LinkInfo, MarkReason, Pkt, QueueCx, in_order};
use l4slab_core::own::fail;
use l4slab_core::packet::Packet;
use l4slab_core::params::declared::{Table, Values};
use l4slab_core::probe::Gauges;
use l4slab_core::time::Time;

use super::calls::{Api, Object};
use super::l4slab::{Link, QueueTable};
use super::packets::{Actions, Packets};
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
        let (packets, now) = (Packets::default(), link.now);
        match table.bands {
            [] => Box::new(Queue::<false> { api, table, object, packets, now }),
            _ => Box::new(Queue::<true> { api, table, object, packets, now }),
        }
    }
}

/// `APART`: the queues inside are reported apart.
struct Queue<const APART: bool> {
    api: Api<QueueTable>,
    table: &'static Table,
    object: Object,
    /// After the object, which has pointers to them.
    packets: Packets,
    /// When it was called last.
    now: Time,
}

impl<const APART: bool> Queue<APART> {
    /// Makes a call that may drop and mark.
    #[inline(always)]
    fn call<R>(
        &mut self,
        cx: &mut QueueCx<Packet>,
        call: impl FnOnce(&Api<QueueTable>, &Object, &mut Link) -> R,
    ) -> R {
        self.now = cx.now;
        let mut actions = Actions { packets: &mut self.packets, rng: &mut *cx.rng, stranger: None };
        let mut link = actions.link(self.now);
        let done = call(&self.api, &self.object, &mut link);
        if let Some(does) = actions.stranger {
            stranger(self.table.name, does);
        }
        if !self.packets.dropped.is_empty() {
            for (packet, why, band) in self.packets.dropped.drain(..) {
                count_in(self.table, cx, band);
                cx.drop(packet, why);
            }
        }
        done
    }
}

/// Says the packet's inner queue.
fn count_in(table: &Table, cx: &mut QueueCx<Packet>, band: u8) {
    let band = usize::from(band);
    if band >= table.bands.len().max(1) {
        let (name, count) = (table.name, table.bands.len());
        fail(format!("{name} puts a packet into band {band}; it declares {count}, from 0 on"));
    }
    cx.band(band);
}

impl<const APART: bool> Aqm<Packet> for Queue<APART> {
    #[inline(always)]
    fn enqueue(&mut self, packet: Packet, cx: &mut QueueCx<Packet>) {
        let packet = self.packets.put(packet);
        self.call(cx, |api, object, link| api.enqueue(object, packet, link));
        if APART {
            // SAFETY: it was put there.
            count_in(self.table, cx, unsafe { self.packets.settle(packet) });
        }
    }
    #[inline(always)]
    fn dequeue(&mut self, cx: &mut QueueCx<Packet>) -> Option<Packet> {
        let given = self.call(cx, |api, object, link| api.dequeue(object, link));
        if given.is_null() {
            return None;
        }
        if APART {
            // SAFETY: it is one of those that the library was given, here and below.
            count_in(self.table, cx, unsafe { self.packets.band(given) });
        }
        // SAFETY: see above.
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
    /// A law does not know of changes: a new one gets what waits.
    fn change(&mut self, to: &dyn Any, _cx: &mut QueueCx<Packet>) -> Result<(), Vec<Packet>> {
        let is_it = is_of(self.table.name, to);
        Err(if is_it { in_order(self.packets.take_all()) } else { Vec::new() })
    }
    fn bands(&self) -> &'static [&'static str] {
        self.table.bands
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
