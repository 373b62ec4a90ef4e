//! A run consists of elements. Each runs over a window of time on its own.
//!
//! A packet that leaves a host now can affect this host only after a round trip. Within a window of that
//! length, packets go only from senders to the network and from there to receivers. So each stage runs
//! through the whole window before the next one: the sending ends of all flows, then the elements of the
//! network, from the first link of the paths to the last, then the receiving ends. A packet carries the time
//! of its arrival at the next element.
//!
//! When several things happen at the same instant, a link first runs its queue's timer, then sends, then
//! accepts arrivals. A host handles packets before timers. Packets that arrive together are ordered:
//! first those from hosts, by flow number and within a flow in the order of sending; then those from other
//! elements, in the order in which these released them. So results do not depend on where windows begin.

use std::slice;

use crate::aqm::DropReason;
use crate::inside::Inside;
use crate::packet::{Flags, Packet};
use crate::probe::{Experience, Responsiveness, SenderState, Totals, Transfer};
use crate::sack::SackStore;
use crate::time::{Span, Time};

/// Where an element puts what it sends.
#[derive(Debug, Default)]
pub struct Outbox {
    pub packets: Vec<Packet>,
    /// From here to the next element.
    pub delay: Span,
    /// Earliest arrival: nothing overtakes packets that were sent when the delay was longer.
    pub not_before: Time,
    /// When what is sent now arrives there.
    arrival: Time,
    /// The SACK blocks of all ACKs under way.
    pub sacks: SackStore,
    /// What packets in tunnels have inside.
    pub inside: Inside,
    /// Arrivals at ends that are outside, until somebody takes them.
    pub outside: Vec<Packet>,
    /// The packets that were lost in the network and those that it copied, where somebody asks for each.
    pub fates: Option<Fates>,
}

/// The packets that the network lost or copied, until somebody takes them.
#[derive(Debug, Default)]
pub struct Fates {
    /// With the time of the loss as `enqueued_at`.
    pub lost: Vec<(Packet, DropReason)>,
    /// With the number of copies.
    pub copied: Vec<(Packet, u32)>,
}

impl Outbox {
    /// The following packets are sent at `now`.
    #[inline(always)]
    pub fn set_clock(&mut self, now: Time) {
        self.arrival = (now + self.delay).max(self.not_before);
    }
    #[inline(always)]
    pub fn push(&mut self, mut pkt: Packet) {
        pkt.enqueued_at = self.arrival;
        self.packets.push(pkt);
    }
    /// Sends one like this. There is room before it is copied, so that the copy does not take a detour over the stack.
    #[inline(always)]
    pub fn push_like(&mut self, pkt: &Packet) -> &mut Packet {
        self.packets.extend_from_slice(slice::from_ref(pkt));
        let pkt = self.packets.last_mut().expect("just pushed");
        pkt.enqueued_at = self.arrival;
        pkt
    }
    /// The network has lost a packet at this time.
    pub fn lose(&mut self, at: Time, pkt: &Packet, why: DropReason) {
        self.sacks.take(pkt.sack());
        let inner = pkt.flags.has(Flags::TUNNELLED).then(|| self.inside.take(pkt));
        if let Some(fates) = &mut self.fates {
            let mut lost = inner.unwrap_or(*pkt);
            lost.enqueued_at = at;
            fates.lost.push((lost, why));
        }
    }
    /// The network has made copies of a packet.
    pub fn copy(&mut self, pkt: &Packet, copies: u32) {
        self.sacks.share(pkt.sack(), copies);
        let is_inside = pkt.flags.has(Flags::TUNNELLED);
        if is_inside {
            self.inside.share(pkt, copies);
        }
        if let Some(fates) = &mut self.fates
            && copies > 0
        {
            fates.copied.push((if is_inside { self.inside.get(pkt) } else { *pkt }, copies));
        }
    }
}

/// Packets that have arrived for an end: consecutive in memory, or chained.
#[derive(Debug)]
pub struct Arrivals<'a, const CHAINED: bool> {
    pub packets: &'a [Packet],
    /// Of each packet in a chain, the place of the one after it.
    pub links: &'a [u32],
    /// The place of the next one.
    pub at: usize,
    /// For each packet taken, the number of packets sent before; only if somebody wants to know.
    pub log: Option<Vec<usize>>,
}

pub type ArrivalList<'a> = Arrivals<'a, false>;
pub type ArrivalChain<'a> = Arrivals<'a, true>;

/// The end of a chain of packets.
pub const CHAIN_END: u32 = u32::MAX;

impl<'a> ArrivalList<'a> {
    /// `packets` from the place `at` on.
    pub fn new(packets: &'a [Packet], at: usize) -> ArrivalList<'a> {
        Arrivals { packets, links: &[], at, log: None }
    }
}

impl<'a> ArrivalChain<'a> {
    /// The packets of `packets` that are chained by `links`, from the place `at` on.
    pub fn new(packets: &'a [Packet], links: &'a [u32], at: u32) -> ArrivalChain<'a> {
        Arrivals { packets, links, at: at as usize, log: None }
    }
}

impl<'a, const CHAINED: bool> Arrivals<'a, CHAINED> {
    /// The packets that are still there.
    pub fn rest(&self) -> Vec<Packet> {
        let mut arrivals = Arrivals::<CHAINED> { log: None, ..*self };
        let out = Outbox::default();
        std::iter::from_fn(|| arrivals.next(Time::NEVER, &out)).copied().collect()
    }
    /// The next packet that arrives before `until`; `out` holds what has been sent so far.
    #[inline(always)]
    pub fn next(&mut self, until: Time, out: &Outbox) -> Option<&'a Packet> {
        let pkt = self.packets.get(self.at).filter(|p| p.enqueued_at < until)?;
        self.at = if CHAINED { self.links[self.at] as usize } else { self.at + 1 };
        if let Some(log) = &mut self.log {
            log.push(out.packets.len());
        }
        Some(pkt)
    }
}

/// What a queue in the host that sends tells it of a packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Taken,
    /// It stays with the host, which knows at once.
    Refused,
    /// It is lost, and the host takes it for sent.
    Lost,
    /// There is congestion. One of the others follows.
    Congested,
    /// It has left the queue, or was dropped there.
    Gone,
}

/// An end of a flow's path.
pub trait End {
    /// Time of the next call of `on_timer`. It may be too early.
    fn deadline(&self) -> Time;
    fn on_timer(&mut self, now: Time, out: &mut Outbox);
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox);
}

/// Lets `end` take its arrivals and its timers up to `until`, exclusively. Returns its next deadline.
#[inline]
pub fn run<E: End, const CHAINED: bool>(
    end: &mut E,
    arrivals: &mut Arrivals<CHAINED>,
    until: Time,
    out: &mut Outbox,
) -> Time {
    while let Some(pkt) = arrivals.next(until, out) {
        let now = pkt.enqueued_at;
        catch_up(end, now, out);
        out.set_clock(now);
        end.on_packet(now, pkt, out);
    }
    catch_up(end, until, out)
}

/// Lets `end` take its timers up to `until`, exclusively. Returns its next deadline.
#[inline]
pub fn catch_up<E: End>(end: &mut E, until: Time, out: &mut Outbox) -> Time {
    loop {
        let now = end.deadline();
        if now >= until {
            return now;
        }
        out.set_clock(now);
        end.on_timer(now, out);
    }
}

/// A flow, or all connections of one source: both ends of a path.
pub trait Flow: Send {
    /// Runs the sending end, whose arrivals are ACKs. Returns its next deadline.
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time;
    /// Runs the receiving end, whose arrivals are data. Returns its next deadline.
    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time;
    /// When the sending end wants to run for the first time, and the receiving one.
    fn starts(&self) -> (Time, Time);
    /// Fetches into the cache what the sending end's turn touches, or the receiving one's.
    fn fetch(&self, _is_sender: bool) {}
    /// The same of what this state points to; it has been fetched itself.
    fn fetch_data(&self, _is_sender: bool) {}
    /// The path, before the run and when it has changed.
    fn set_path(&mut self, _path: &PathState) {}

    /// The queue in its host tells of a packet, at the time that this has in `enqueued_at`.
    fn on_answer(&mut self, _pkt: &Packet, _answer: Answer) {}
    /// From now on nothing new is sent.
    fn stop(&mut self, now: Time);
    /// Another rate from now on, bits per second, of traffic that has one.
    fn set_rate(&mut self, _now: Time, _bps: u64) {}
    /// Media only: the encoder rests, or makes frames again.
    fn pause(&mut self, _now: Time, _is_paused: bool) {}

    /// Counts since the start.
    fn totals(&self) -> Totals;
    /// Shows each active sender that responds to congestion.
    fn senders(&self, _each: &mut dyn FnMut(SenderState)) {}
    /// How ECN was negotiated; nothing without TCP.
    fn ecn_mode(&self) -> Option<&'static str> {
        None
    }
    /// Hands over the completed transfers, each once.
    fn take_transfers(&mut self, _into: &mut Vec<Transfer>) {}
    /// The fate of the frames of the measured interval, if the run ends at `now`.
    fn experience(&self, _now: Time) -> Option<Experience> {
        None
    }
    /// What a test of responsiveness has found so far.
    fn responsiveness(&self) -> Option<Responsiveness> {
        None
    }
    /// Transfers that began at `since` or later and are not complete.
    fn unfinished(&self, _since: Time) -> u64 {
        0
    }
}

/// A flow's knowledge of its path.
#[derive(Copy, Clone, Debug, Default)]
pub struct PathState {
    /// Delay before the links, and back.
    pub forward: Span,
    pub back: Span,
}

/// How a set of connections negotiated ECN, and one more; `mixed` where they differ.
pub fn common_mode(so_far: Option<&'static str>, one: &'static str) -> Option<&'static str> {
    Some(if so_far.is_none_or(|m| m == one) { one } else { "mixed" })
}
