//! Custom queues (see [`crate::own`]).
//!
//! A queue is generic over its packets, and code from outside cannot be. So the packets stay here, and
//! the custom code gets numbers. It orders them as it wants and says which one leaves.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::{Aqm, Backlog, DropReason, LinkInfo, MarkReason, Pkt, QueueCx, in_order};
use crate::ecn::Ecn;
use crate::own::{self, Entry, HASH, Registry};
use crate::packet::Packet;
use crate::params::declared::Values;
use crate::params::{Changed, Gauge, Refused};
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::Time;

/// The view of a packet for custom code.
#[derive(Copy, Clone, Debug)]
pub struct Seen {
    /// Identifies the packet as long as it is in the queue.
    pub id: u32,
    /// See [`Pkt`].
    pub frame_len: u32,
    pub flow_hash: u32,
    pub ecn: Ecn,
    pub dscp: u8,
    pub enqueued_at: Time,
}

/// Actions of custom code on packets in the queue.
pub trait Cx {
    /// Uniform in [0, 1), from the link's stream.
    fn random(&mut self) -> f64;
    /// It will be CE when it leaves; false for Not-ECT, upon which the caller normally drops.
    fn mark(&mut self, id: u32) -> bool;
    fn drop(&mut self, id: u32, why: DropReason);
    /// The inner queue that the packet is counted in ([`Aqm::bands`]): said while it arrives, before it is dropped.
    fn band(&mut self, id: u32, band: usize);
}

/// The law of a queue: which of its packets leaves next, with a mark or not.
pub trait Law: Send {
    fn enqueue(&mut self, now: Time, packet: &Seen, cx: &mut dyn Cx);
    /// The packet to send; `None`: there is none, or it is not its time yet.
    fn dequeue(&mut self, now: Time, cx: &mut dyn Cx) -> Option<u32>;
    fn next_timer(&self) -> Time;
    fn on_timer(&mut self, now: Time, cx: &mut dyn Cx);
    fn probe(&self, out: &mut dyn Gauges);
}

/// Makes a link's queue.
pub trait Maker: Send + Sync {
    fn make(&self, parameters: &Values, link: LinkInfo) -> Box<dyn Aqm<Packet>>;
}

/// All of them.
pub static QDISCS: Registry<dyn Maker> = Registry::new();

/// A queue from outside, with its parameters.
#[derive(Clone)]
pub struct OwnQdisc {
    reference: String,
    entry: Arc<Entry<dyn Maker>>,
    parameters: Values,
}

impl OwnQdisc {
    /// Finds a queue and reads its words; `None`: the name is of another kind.
    pub fn parse<'a>(
        name: &str,
        words: impl Iterator<Item = &'a str>,
    ) -> Option<Result<OwnQdisc, Refused>> {
        let found = QDISCS.find("qdisc", name)?;
        Some(found.and_then(|entry| {
            let parameters = entry.table.read_words(words)?;
            Ok(OwnQdisc { reference: name.to_owned(), entry, parameters })
        }))
    }
    /// Other words for the same queue.
    pub fn changed<'a>(
        &self,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<Changed<OwnQdisc>, Refused> {
        let Changed { config, words } = self.entry.table.change_words(&self.parameters, words)?;
        Ok(Changed { config: OwnQdisc { parameters: config, ..self.clone() }, words })
    }
    pub fn name(&self) -> &str {
        &self.reference
    }
    pub fn canonical(&self) -> String {
        format!("{} {}", self.reference, self.parameters.write_words()).trim_end().to_owned()
    }
    pub fn gauges(&self) -> Vec<Gauge> {
        self.entry.table.gauges.clone()
    }
    pub fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        let queue: Box<dyn Any> = Box::new(self.entry.maker().make(&self.parameters, link));
        *queue.downcast().expect("makers make queues of the simulator's packets")
    }
}

impl PartialEq for OwnQdisc {
    fn eq(&self, other: &OwnQdisc) -> bool {
        self.reference == other.reference && self.parameters == other.parameters
    }
}

impl fmt::Debug for OwnQdisc {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = self.reference.split(HASH).next();
        f.debug_struct("OwnQdisc").field("name", &name).finish_non_exhaustive()
    }
}

/// The packets of a queue, by number. Numbers are used again.
struct Packets<P> {
    /// A packet that has left stays until its place is reused, because packets are moved only as a whole.
    places: Vec<P>,
    states: Vec<State>,
    bands: Vec<usize>,
    free: Vec<u32>,
    /// The drops of the current call.
    dropped: Vec<(P, DropReason, usize)>,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum State {
    Gone,
    Waits,
    /// It is CE when it leaves.
    Marked,
}

impl<P: Pkt> Packets<P> {
    fn new() -> Packets<P> {
        Packets {
            places: Vec::new(),
            states: Vec::new(),
            bands: Vec::new(),
            free: Vec::new(),
            dropped: Vec::new(),
        }
    }
    #[inline(always)]
    fn put(&mut self, pkt: P) -> u32 {
        if let Some(id) = self.free.pop() {
            self.places[id as usize] = pkt;
            self.states[id as usize] = State::Waits;
            self.bands[id as usize] = 0;
            return id;
        }
        self.places.push(pkt);
        self.states.push(State::Waits);
        self.bands.push(0);
        self.places.len() as u32 - 1
    }
    fn take_all(&mut self) -> impl Iterator<Item = P> {
        (0..self.places.len() as u32).filter_map(|id| self.take(id)).map(|(pkt, _)| pkt)
    }
    /// The packet, and whether it is to be marked.
    #[inline(always)]
    fn take(&mut self, id: u32) -> Option<(P, bool)> {
        let state = self.states.get_mut(id as usize)?;
        let was = std::mem::replace(state, State::Gone);
        if was == State::Gone {
            return None;
        }
        self.free.push(id);
        Some((self.places[id as usize].clone(), was == State::Marked))
    }
}

/// Whether these parameters are of the queue that was declared with this name.
pub fn is_of(name: &'static str, parameters: &dyn Any) -> bool {
    let own = parameters.downcast_ref::<OwnQdisc>();
    own.is_some_and(|own| std::ptr::eq(own.entry.table.name, name))
}

/// The actions of the custom queue during one call.
struct Actions<'a, P> {
    packets: &'a mut Packets<P>,
    rng: &'a mut Rng,
    /// It named a packet that is not in the queue.
    stranger: Option<&'static str>,
}

impl<P: Pkt> Cx for Actions<'_, P> {
    fn random(&mut self) -> f64 {
        self.rng.unit()
    }
    fn mark(&mut self, id: u32) -> bool {
        let states = &mut self.packets.states;
        let Some(state) = states.get_mut(id as usize).filter(|state| **state != State::Gone) else {
            self.stranger = Some("marks");
            return false;
        };
        let is_capable = self.packets.places[id as usize].ecn().is_capable();
        if is_capable {
            *state = State::Marked;
        }
        is_capable
    }
    fn drop(&mut self, id: u32, why: DropReason) {
        match self.packets.take(id) {
            Some((pkt, _)) => {
                self.packets.dropped.push((pkt, why, self.packets.bands[id as usize]));
            }
            None => self.stranger = Some("drops"),
        }
    }
    fn band(&mut self, id: u32, band: usize) {
        self.packets.bands[id as usize] = band;
    }
}

/// A queue whose law comes from outside.
pub struct Own<P, L> {
    name: &'static str,
    bands: &'static [&'static str],
    law: L,
    packets: Packets<P>,
    /// When it was called last.
    now: Time,
}

impl<P: Pkt, L: Law> Own<P, L> {
    /// `name`: what sentences about it begin with.
    pub fn new(name: &'static str, bands: &'static [&'static str], law: L, now: Time) -> Own<P, L> {
        Own { name, bands, law, packets: Packets::new(), now }
    }
    #[inline(always)]
    fn call<R>(&mut self, cx: &mut QueueCx<P>, call: impl FnOnce(&mut L, &mut dyn Cx) -> R) -> R {
        self.now = cx.now;
        // The link's context itself is not handed out, so that it can stay in registers.
        let mut actions = Actions { packets: &mut self.packets, rng: &mut *cx.rng, stranger: None };
        let done = call(&mut self.law, &mut actions);
        if let Some(does) = actions.stranger {
            stranger(self.name, does);
        }
        if !self.packets.dropped.is_empty() {
            for (pkt, why, band) in self.packets.dropped.drain(..) {
                cx.band(band);
                cx.drop(pkt, why);
            }
        }
        done
    }
}

/// Ends the run: custom code marks, drops or sends a packet that is not in the queue.
#[cold]
pub fn stranger(name: &str, does: &str) -> ! {
    own::fail(format!(
        "{name} {does} a packet that is not in the queue; it was sent or dropped before"
    ))
}

/// Ends the run if the timer wants to be called at `next` again, which would never end.
pub fn late_timer(name: &str, next: Time, now: Time) {
    if next <= now {
        let (next, now) = (next.as_secs_f64(), now.as_secs_f64());
        own::fail(format!(
            "{name} wants its timer at {next} s again, which is not after {now} s; the next time must be later"
        ));
    }
}

impl<P: Pkt + Send, L: Law> Aqm<P> for Own<P, L> {
    #[inline(always)]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let (frame_len, flow_hash) = (pkt.frame_len(), pkt.flow_hash());
        let (ecn, dscp, enqueued_at) = (pkt.ecn(), pkt.dscp(), pkt.enqueued_at());
        let id = self.packets.put(pkt);
        let seen = Seen { id, frame_len, flow_hash, ecn, dscp, enqueued_at };
        let now = cx.now;
        self.call(cx, |law, cx| law.enqueue(now, &seen, cx));
        cx.band(self.packets.bands[id as usize]);
    }
    #[inline(always)]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let now = cx.now;
        let id = self.call(cx, |law, cx| law.dequeue(now, cx))?;
        let Some((mut pkt, is_marked)) = self.packets.take(id) else {
            stranger(self.name, "sends");
        };
        cx.band(self.packets.bands[id as usize]);
        if is_marked {
            cx.mark(&mut pkt, MarkReason::Aqm);
        }
        Some(pkt)
    }
    fn backlog(&self) -> Backlog {
        let places = self.packets.places.iter().zip(&self.packets.states);
        let packets = places.filter(|(_, state)| **state != State::Gone).map(|(pkt, _)| pkt);
        packets.fold(Backlog::default(), |Backlog { packets, bytes }, pkt| Backlog {
            packets: packets + 1,
            bytes: bytes + u64::from(pkt.frame_len()),
        })
    }
    /// A law does not know of changes: a new one gets what waits.
    fn change(&mut self, to: &dyn Any, _cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        Err(if is_of(self.name, to) { in_order(self.packets.take_all()) } else { Vec::new() })
    }
    fn bands(&self) -> &'static [&'static str] {
        self.bands
    }
    fn next_timer(&self) -> Time {
        self.law.next_timer().max(self.now)
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        let now = cx.now;
        self.call(cx, |law, cx| law.on_timer(now, cx));
        late_timer(self.name, self.law.next_timer(), self.now);
    }
    fn probe(&self, out: &mut dyn Gauges) {
        self.law.probe(out);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// A packet of so many bytes.
    #[derive(Clone, Debug, PartialEq)]
    struct Bytes(u32, Ecn);

    impl Pkt for Bytes {
        fn frame_len(&self) -> u32 {
            self.0
        }
        fn ecn(&self) -> Ecn {
            self.1
        }
        fn set_ecn(&mut self, ecn: Ecn) {
            self.1 = ecn;
        }
        fn enqueued_at(&self) -> Time {
            Time::ZERO
        }
        fn flow_hash(&self) -> u32 {
            0
        }
        fn source_hash(&self, _hosts: &crate::aqm::hosts::Hosts) -> u32 {
            0
        }
        fn destination_hash(&self, _hosts: &crate::aqm::hosts::Hosts) -> u32 {
            0
        }
        fn dscp(&self) -> u8 {
            0
        }
        fn set_dscp(&mut self, _dscp: u8) {}
        fn corrupt(&mut self) {}
    }

    /// Last in, first out; drops a packet of one byte, marks all others, and twice gives the one of two bytes.
    #[derive(Default)]
    struct Stack {
        ids: Vec<u32>,
        twice: Option<u32>,
    }

    impl Law for Stack {
        fn enqueue(&mut self, _now: Time, packet: &Seen, cx: &mut dyn Cx) {
            match packet.frame_len {
                1 => cx.drop(packet.id, DropReason::Aqm),
                len => {
                    cx.mark(packet.id);
                    self.ids.push(packet.id);
                    self.twice = (len == 2).then_some(packet.id).or(self.twice);
                }
            }
        }
        fn dequeue(&mut self, _now: Time, _cx: &mut dyn Cx) -> Option<u32> {
            self.ids.pop().or(self.twice)
        }
        fn next_timer(&self) -> Time {
            Time(5)
        }
        fn on_timer(&mut self, _now: Time, _cx: &mut dyn Cx) {}
        fn probe(&self, _out: &mut dyn Gauges) {}
    }

    fn stack() -> Own<Bytes, Stack> {
        Own::new("x.py:X", &[], Stack::default(), Time::ZERO)
    }

    #[test]
    fn packets_leave_in_the_order_of_the_law_marked_and_counted() {
        let (mut rng, mut drops) = (Rng::stream(1, "own", 0), Vec::new());
        let mut queue = stack();
        let mut cx = QueueCx::new(Time(1), &mut rng, &mut drops);
        for (bytes, ecn) in [(100, Ecn::Ect1), (1, Ecn::Ect1), (200, Ecn::NotEct)] {
            queue.enqueue(Bytes(bytes, ecn), &mut cx);
        }
        assert_eq!(queue.backlog(), Backlog { packets: 2, bytes: 300 });
        let first = queue.dequeue(&mut cx);
        assert_eq!((first, cx.marks().ce()), (Some(Bytes(200, Ecn::NotEct)), false));
        let second = queue.dequeue(&mut cx);
        assert_eq!((second, cx.marks().ce()), (Some(Bytes(100, Ecn::Ce)), true));
        assert_eq!(queue.dequeue(&mut cx), None);
        assert_eq!((queue.backlog(), drops.len()), (Backlog::default(), 1));
    }

    #[test]
    fn a_packet_that_leaves_twice_and_a_timer_that_stands_still_end_the_run() {
        let (mut rng, mut drops) = (Rng::stream(1, "own", 0), Vec::new());
        let mut sentence = |event: fn(&mut Own<Bytes, Stack>, &mut QueueCx<Bytes>)| {
            let mut cx = QueueCx::new(Time(5), &mut rng, &mut drops);
            let ended = catch_unwind(AssertUnwindSafe(|| event(&mut stack(), &mut cx)));
            let why = ended.expect_err("it ends the run").downcast::<own::Failure>();
            why.expect("with a sentence").0
        };
        let twice = sentence(|queue, cx| {
            queue.enqueue(Bytes(2, Ecn::Ect0), cx);
            let _ = (queue.dequeue(cx), queue.dequeue(cx));
        });
        assert!(twice.starts_with("x.py:X sends a packet that is not in the queue"), "{twice}");
        let still = sentence(|queue, cx| queue.on_timer(cx));
        assert!(still.starts_with("x.py:X wants its timer at 0.000000005 s again"), "{still}");
    }
}
