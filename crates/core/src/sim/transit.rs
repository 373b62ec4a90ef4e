//! The network of a run without its hosts: packets come from outside and go back there. A program that has a clock
//! and real packets drives it, such as the crate `l4slab-bottleneck`.
//!
//! Elements, paths, delays, changes and random streams are those of [`Simulation`](super::Simulation) for the same run.
//! So the same arrivals give the same departures, losses and marks here and there, however the time is cut.

use std::collections::VecDeque;

use super::changes::{Event, agenda};
use super::network::Network;
use super::wiring::Wiring;
use crate::aqm::service::FlowCounters;
use crate::element::{Fates, Outbox};
use crate::error::ScenarioError;
use crate::net::link::QueueReport;
use crate::packet::Packet;
use crate::scenario::{DelayTrace, Run};
use crate::time::{Span, Time};
use crate::units::Rate;

/// An inbox tells times in a window by a few bits.
const LONGEST_WINDOW: Span = Span::from_millis(50);

/// One direction of the path.
struct Way {
    nodes: Vec<usize>,
    delays: Delays,
    /// On the way from the host to the first element.
    under_way: VecDeque<Packet>,
}

/// The delay between a host and the network, over time.
#[derive(Clone)]
struct Delays {
    is_back: bool,
    /// The RTT from a time on, from the changes of the run.
    changes: VecDeque<(Time, Span)>,
    trace: Option<DelayTrace>,
    next_step: usize,
    rtt: Span,
    added: Span,
    delay: Span,
    /// See [`Outbox`].
    not_before: Time,
}

impl Delays {
    fn new(run: &Run, is_back: bool) -> Delays {
        let flow = &run.flows[0];
        let mut changes: Vec<_> = run
            .at
            .iter()
            .filter_map(|change| Some((Time(change.time_ns), Span(change.rtt_ns?))))
            .collect();
        changes.sort_by_key(|(at, _)| *at);
        let trace = flow.delay_trace.clone();
        let first = trace.as_ref().and_then(|trace| trace.step(0));
        let mut delays = Delays {
            is_back,
            changes: changes.into(),
            trace,
            next_step: 1,
            rtt: Span(flow.rtt_ns),
            added: first.map_or(Span::ZERO, |(_, added)| added),
            delay: Span::ZERO,
            not_before: Time::ZERO,
        };
        delays.set();
        delays
    }

    /// As in `Group::set_rtt`.
    fn set(&mut self) {
        let rtt = self.rtt + self.added;
        let forward = Span(rtt.0 / 2).max(Span(1));
        self.delay = if self.is_back { (rtt - forward).max(Span(1)) } else { forward };
    }

    /// When a packet that is sent at `now` reaches the network. Calls come in the order of time.
    fn arrival(&mut self, now: Time) -> Time {
        loop {
            let step = self.trace.as_ref().and_then(|trace| trace.step(self.next_step));
            let change = self.changes.front().copied();
            let at = |of: Option<(Time, Span)>| of.map_or(Time::NEVER, |(at, _)| at);
            let due = at(step).min(at(change));
            if due > now {
                return (now + self.delay).max(self.not_before);
            }
            let before = (self.rtt, self.added);
            if let Some((_, rtt)) = change.filter(|(at, _)| *at == due) {
                self.rtt = rtt;
                self.changes.pop_front();
            } else if let Some((_, added)) = step {
                self.added = added;
                self.next_step += 1;
                if before == (self.rtt, self.added) {
                    continue;
                }
            }
            self.not_before = self.not_before.max(due + self.delay);
            self.set();
        }
    }
}

/// See the module.
pub struct Transit {
    network: Network,
    there: Way,
    back: Way,
    agenda: VecDeque<(Time, Event)>,
    /// Of each impairment the places of its elements.
    impairs: Vec<Vec<usize>>,
    /// Everything before has happened.
    reached: Time,
    out: Outbox,
    /// Packets that have left the network, by direction, in the order of `enqueued_at`, when they did. The caller
    /// takes them.
    pub departed: [VecDeque<Packet>; 2],
}

impl Transit {
    /// The path of the run's only flow group, whose traffic does not matter.
    ///
    /// # Errors
    /// One sentence if the description is inconsistent.
    pub fn new(run: &Run) -> Result<Transit, ScenarioError> {
        let [flow] = &run.flows[..] else {
            return Err(ScenarioError("a path needs exactly one flow group".to_owned()));
        };
        let mut wiring = Wiring::new(run)?;
        let (there, back) = wiring.paths(flow)?;
        let impairs = wiring.places();
        let (nodes, media) = wiring.into_nodes();
        let hops: Vec<_> =
            [&there, &back].iter().flat_map(|p| p.windows(2)).map(|hop| (hop[0], hop[1])).collect();
        let mut network = Network::new(nodes, &hops, media);
        network.is_mixed = true;
        for link in 0..run.links.len() {
            network.link_mut(link).add_account(FlowCounters::default());
        }
        network.begin_measuring(Time::ZERO);
        let of_links = |(_, event): &(Time, Event)| {
            matches!(
                event,
                Event::Rate(..) | Event::Qdisc(..) | Event::Class(..) | Event::Netem(..)
            )
        };
        let way = |nodes, is_back| Way {
            nodes,
            delays: Delays::new(run, is_back),
            under_way: VecDeque::new(),
        };
        let mut out = Outbox::default();
        out.fates = Some(Fates::default());
        Ok(Transit {
            network,
            there: way(there, false),
            back: way(back, true),
            agenda: agenda(run)?.into_iter().filter(of_links).collect(),
            impairs,
            reached: Time::ZERO,
            out,
            departed: [VecDeque::new(), VecDeque::new()],
        })
    }

    /// A host sends `pkt` at `now`; packets that are an ACK set out at the far end. Each direction's packets come in the
    /// order of time, and not before what [`Transit::horizon`] was for the last call of [`Transit::run_until`].
    pub fn send(&mut self, now: Time, mut pkt: Packet) {
        let is_back = pkt.is_ack();
        let way = if is_back { &mut self.back } else { &mut self.there };
        pkt.hop = 0;
        pkt.enqueued_at = way.delays.arrival(now);
        if way.nodes.is_empty() {
            self.departed[usize::from(is_back)].push_back(pkt);
        } else {
            way.under_way.push_back(pkt);
        }
    }

    /// Packets that are sent from `now` on reach the network at this time at the earliest.
    pub fn horizon(&mut self, now: Time) -> Time {
        let of = |way: &mut Way| match way.nodes.is_empty() {
            true => Time::NEVER,
            false => way.delays.arrival(now),
        };
        of(&mut self.there).min(of(&mut self.back))
    }

    /// Lets everything before `until` happen.
    pub fn run_until(&mut self, until: Time) {
        while self.reached < until {
            let planned = self.agenda.front().map_or(Time::NEVER, |(at, _)| *at);
            if planned <= self.reached {
                let (_, event) = self.agenda.pop_front().expect("there is one");
                self.perform(event);
            } else {
                self.advance(planned.min(until));
            }
        }
    }

    /// When something happens next in the network, as far as it is known.
    pub fn next(&self) -> Time {
        let planned = self.agenda.front().map_or(Time::NEVER, |(at, _)| *at);
        self.next_inside().min(planned)
    }
    /// Everything before this has happened.
    pub fn reached(&self) -> Time {
        self.reached
    }
    /// What was lost and copied since this was last asked.
    pub fn take_fates(&mut self, into: &mut Fates) {
        if let Some(fates) = &mut self.out.fates {
            into.lost.append(&mut fates.lost);
            into.copied.append(&mut fates.copied);
        }
    }
    /// The queues of each link since the start.
    pub fn reports(&self) -> Vec<(String, Vec<QueueReport>)> {
        let of = |link: &crate::net::link::Link| (link.name.clone(), link.report(self.reached));
        self.network.links().map(of).collect()
    }
    /// The most that any link of the path gives.
    pub fn peak(&self) -> Rate {
        let nodes = self.there.nodes.iter().chain(&self.back.nodes);
        let links = nodes.filter_map(|n| self.network.link(*n));
        links.map(|link| link.peak().0).max().unwrap_or_default()
    }

    fn next_inside(&self) -> Time {
        let of = |way: &Way| way.under_way.front().map_or(Time::NEVER, |pkt| pkt.enqueued_at);
        self.network.earliest().min(of(&self.there)).min(of(&self.back))
    }

    fn advance(&mut self, until: Time) {
        while self.reached < until {
            self.reached = self.reached.max(self.next_inside()).min(until);
            let end = self.reached.saturating_add(LONGEST_WINDOW).min(until);
            if self.reached < end {
                self.run_window(end);
            }
            self.reached = end;
        }
    }

    fn run_window(&mut self, until: Time) {
        for way in [&mut self.there, &mut self.back] {
            while way.under_way.front().is_some_and(|pkt| pkt.enqueued_at < until) {
                let pkt = way.under_way.pop_front().expect("there is one");
                self.network.inbox(way.nodes[0]).packets.push(pkt);
            }
        }
        for cluster in 0..self.network.clusters() {
            let mut step = self.network.begin(cluster, self.reached, until, &mut self.out);
            while let Some((from, to)) = step {
                for member in 0..self.network.size(cluster) {
                    let n = self.network.run(cluster, member, from, to, &mut self.out);
                    self.forward(n);
                }
                step = self.network.next_step(cluster, from, until, &mut self.out);
            }
        }
        self.network.close();
    }

    /// Sends on what has left an element.
    fn forward(&mut self, n: usize) {
        let (mut departed, links, _) = self.network.take_departed(n);
        for mut pkt in departed.drain(..) {
            pkt.hop += 1;
            let way = if pkt.is_ack() { &self.back } else { &self.there };
            match way.nodes.get(usize::from(pkt.hop)) {
                Some(next) => self.network.inbox(*next).push(pkt),
                None => self.departed[usize::from(pkt.is_ack())].push_back(pkt),
            }
        }
        self.network.give_back(n, departed, links);
    }

    fn perform(&mut self, event: Event) {
        let now = self.reached;
        match event {
            Event::Rate(link, rate) => self.network.link_mut(link).set_rate(now, rate),
            Event::Qdisc(link, qdisc) => {
                self.network.link_mut(link).set_qdisc(now, &qdisc, &mut self.out);
            }
            Event::Class(link, class) => {
                self.network.link_mut(link).change_class(now, &class, &mut self.out);
            }
            Event::Netem(impair, netem) => {
                for n in &self.impairs[impair] {
                    self.network.impair_mut(*n).change(now, netem.clone());
                }
            }
            // The delays follow their changes themselves, and there are no flows.
            Event::Rtt(..)
            | Event::Delay(..)
            | Event::Count(..)
            | Event::FlowRate(..)
            | Event::Pause(..) => {}
        }
    }
}
