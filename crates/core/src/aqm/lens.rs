//! A queue that sees its packets through a lens: longer than they are, or later. What it is told of a packet travels with
//! the packet, so that queues may reorder, copy and drop as they like.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::hosts::Hosts;
use super::tree::ClassSpec;
use super::{
    Aqm, Asked, Backlog, Classes, Dropped, LinkInfo, Pkt, QueueCx, ReadsHosts, ReadsSacks,
    TcpHeader,
};
use crate::ecn::Ecn;
use crate::probe::Gauges;
use crate::time::Time;

/// What travels with a packet.
pub trait View: Clone + Send + 'static {
    fn frame_len(&self, real: u32) -> u32 {
        real
    }
    fn enqueued_at(&self, real: Time) -> Time {
        real
    }
}

/// How a queue sees its packets.
pub trait Lens: Send {
    type View: View;

    /// Of a packet that comes.
    fn view(&mut self, frame_len: u32) -> Self::View;
    /// A packet with this leaves.
    fn leave(&mut self, _: Self::View) {}
    fn asked(&mut self) -> Option<&mut dyn Asked> {
        None
    }
}

/// A packet as its queue sees it.
#[derive(Clone, Debug)]
pub struct Viewed<P, V> {
    pkt: P,
    view: V,
}

impl<P: Pkt, V: View> Pkt for Viewed<P, V> {
    fn frame_len(&self) -> u32 {
        self.view.frame_len(self.pkt.frame_len())
    }
    fn segment_len(&self) -> u32 {
        self.pkt.segment_len()
    }
    fn truesize(&self) -> u32 {
        self.pkt.truesize()
    }
    fn ecn(&self) -> Ecn {
        self.pkt.ecn()
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.pkt.set_ecn(ecn);
    }
    fn enqueued_at(&self) -> Time {
        self.view.enqueued_at(self.pkt.enqueued_at())
    }
    fn flow_hash(&self) -> u32 {
        self.pkt.flow_hash()
    }
    fn source_hash(&self, hosts: &Hosts) -> u32 {
        self.pkt.source_hash(hosts)
    }
    fn destination_hash(&self, hosts: &Hosts) -> u32 {
        self.pkt.destination_hash(hosts)
    }
    fn dscp(&self) -> u8 {
        self.pkt.dscp()
    }
    fn set_dscp(&mut self, dscp: u8) {
        self.pkt.set_dscp(dscp);
    }
    fn corrupt(&mut self) {
        self.pkt.corrupt();
    }
    fn set_copied(&mut self) {
        self.pkt.set_copied();
    }
    fn tcp(&self) -> Option<TcpHeader> {
        self.pkt.tcp()
    }
}

/// A queue behind a lens.
pub struct Through<P, L: Lens> {
    lens: L,
    queue: Box<dyn Aqm<Viewed<P, L::View>>>,
    /// The queue's events in the current call.
    drops: Vec<Dropped<Viewed<P, L::View>>>,
}

impl<P: Pkt, L: Lens> Through<P, L> {
    pub fn new(lens: L, queue: Box<dyn Aqm<Viewed<P, L::View>>>) -> Self {
        Through { lens, queue, drops: Vec::new() }
    }

    fn call<T>(
        &mut self,
        cx: &mut QueueCx<P>,
        what: impl FnOnce(&mut dyn Aqm<Viewed<P, L::View>>, &mut QueueCx<Viewed<P, L::View>>) -> T,
    ) -> T {
        let mut inside = QueueCx::new(cx.now, cx.rng, &mut self.drops);
        let result = what(&mut *self.queue, &mut inside);
        cx.copied = inside.copied.take().map(|copied| copied.pkt).or(cx.copied.take());
        (cx.band, cx.marks) = (inside.band, inside.marks);
        cx.duplicates += inside.duplicates;
        let told = self.drops.drain(..);
        cx.drops.extend(told.map(|told| Dropped {
            pkt: told.pkt.pkt,
            why: told.why,
            band: told.band,
        }));
        result
    }
}

impl<P: Pkt + Send, L: Lens> Aqm<P> for Through<P, L> {
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let view = self.lens.view(pkt.frame_len());
        self.call(cx, |queue, cx| queue.enqueue(Viewed { pkt, view }, cx));
    }
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let Viewed { pkt, view } = self.call(cx, |queue, cx| queue.dequeue(cx))?;
        self.lens.leave(view);
        Some(pkt)
    }
    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
    fn next_timer(&self) -> Time {
        self.queue.next_timer()
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.call(cx, |queue, cx| queue.on_timer(cx));
    }
    fn bands(&self) -> &'static [&'static str] {
        self.queue.bands()
    }
    fn waiting_in(&self, band: usize) -> u64 {
        self.queue.waiting_in(band)
    }
    fn probe(&self, out: &mut dyn Gauges) {
        self.queue.probe(out);
    }
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let changed = self.call(cx, |queue, cx| queue.change(to, cx));
        changed.map_err(|waiting| waiting.into_iter().map(|viewed| viewed.pkt).collect())
    }
    fn hosts(&mut self) -> Option<&mut dyn ReadsHosts> {
        self.queue.hosts()
    }
    fn sacks(&mut self) -> Option<&mut dyn ReadsSacks> {
        self.queue.sacks()
    }
    fn asked(&mut self) -> Option<&mut dyn Asked> {
        self.lens.asked()
    }
    fn classes(&mut self) -> Option<&mut dyn Classes<P>> {
        match self.queue.classes() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl<P: Pkt, L: Lens> Classes<P> for Through<P, L> {
    fn change_class(&mut self, to: &ClassSpec, link: LinkInfo, cx: &mut QueueCx<P>) {
        self.call(cx, |queue, cx| {
            if let Some(classes) = queue.classes() {
                classes.change_class(to, link, cx);
            }
        });
    }
}

/// When packets that wait for the same permission can be sent at the earliest. Whoever gives permissions may put that off
/// while they wait.
#[derive(Clone, Debug)]
pub struct Earliest(Arc<AtomicU64>);

impl Earliest {
    pub fn new(at: Time) -> Earliest {
        Earliest(Arc::new(AtomicU64::new(at.0)))
    }
    pub fn get(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }
    pub fn put_off(&self, to: Time) {
        self.0.fetch_max(to.0, Ordering::Relaxed);
    }
}

impl View for Option<Earliest> {
    fn enqueued_at(&self, real: Time) -> Time {
        self.as_ref().map_or(real, |earliest| earliest.get().max(real))
    }
}

/// The wait of a packet in its queue begins when it can be sent at the earliest.
#[derive(Debug, Default)]
pub struct FromEarliest {
    /// Of the packet that comes, and of the one that left last.
    next: Option<Earliest>,
    last: Option<Earliest>,
}

impl Lens for FromEarliest {
    type View = Option<Earliest>;

    fn view(&mut self, _: u32) -> Option<Earliest> {
        self.next.take()
    }
    fn leave(&mut self, view: Option<Earliest>) {
        self.last = view;
    }
    fn asked(&mut self) -> Option<&mut dyn Asked> {
        Some(self)
    }
}

impl Asked for FromEarliest {
    fn expect(&mut self, earliest: Earliest) {
        self.next = Some(earliest);
    }
    fn earliest(&mut self) -> Time {
        self.last.as_ref().map_or(Time::ZERO, Earliest::get)
    }
}
