//! The network of a run without its hosts: packets come from outside and go back there. A program that has a clock
//! and real packets drives it, such as the crate `l4slab-bottleneck`.
//!
//! Elements, paths, delays, changes and random streams are those of [`Simulation`](super::Simulation) for the same run.
//! So the same arrivals give the same departures, losses and marks here and there, however the time is cut.

use std::collections::VecDeque;

use super::changes::{Event, agenda, events};
use super::network::Network;
use super::sampling::sample_link;
use super::wiring::Wiring;
use crate::aqm::service::FlowCounters;
use crate::element::{Fates, Outbox};
use crate::error::ScenarioError;
use crate::net::link::QueueReport;
use crate::net::tunnel::TunnelSpec;
use crate::packet::Packet;
use crate::probe::Series;
use crate::scenario::{DelayTrace, FlowSpec, Run};
use crate::time::{Span, Time};
use crate::units::Rate;

/// An inbox tells times in a window by a few bits.
const LONGEST_WINDOW: Span = Span::from_millis(50);

/// One direction of a flow group's path.
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
    fn new(run: &Run, flow: &FlowSpec, is_back: bool) -> Delays {
        let of_flow = run.at.iter().filter(|change| change.flow.as_ref() == Some(&flow.name));
        let mut changes: Vec<_> = of_flow
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

/// A packet's flow group and direction.
fn place_of(pkt: &Packet) -> (usize, usize) {
    (pkt.group.number.into(), pkt.is_ack().into())
}

/// What carries packets from sender to receiver: the network, each flow's path, and the scheduled changes.
pub struct Transit {
    network: Network,
    /// Of each flow group, there and back.
    ways: Vec<[Way; 2]>,
    agenda: VecDeque<(Time, Event)>,
    /// Of each impairment the places of its elements.
    impairs: Vec<Vec<usize>>,
    /// Everything before has happened.
    reached: Time,
    sampled_at: Time,
    out: Outbox,
    /// Packets that have left the network, by flow group and direction, in the order of `enqueued_at`, when they did.
    /// The caller takes them.
    pub departed: Vec<[VecDeque<Packet>; 2]>,
    /// Where somebody wants to know: packets as they came to their first element, with the time in `enqueued_at`, and
    /// as they left each one. The caller takes them.
    pub steps: Option<Vec<Step>>,
}

/// A packet between two elements of its path.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// How many elements it has crossed.
    pub crossed: u8,
    /// When it left the queue of the last one, behind which a medium may have taken longer.
    pub left: Time,
    pub pkt: Packet,
}

/// What stands on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Link(usize),
    Impair(usize),
    Rewrite,
}

impl Transit {
    /// The paths of the run's flow groups, whose traffic does not matter.
    ///
    /// # Errors
    /// One sentence if the description is inconsistent.
    pub fn new(run: &Run) -> Result<Transit, ScenarioError> {
        if run.flows.is_empty() {
            return Err(ScenarioError("a path needs a flow group".to_owned()));
        }
        if let Some(link) = run.links.iter().find(|link| link.on_host) {
            let name = &link.name;
            return Err(ScenarioError(format!("link \"{name}\" is in a host, and there are none")));
        }
        if let Some(TunnelSpec { name, .. }) = run.tunnels.first() {
            return Err(ScenarioError(format!(
                "tunnel \"{name}\" is for packets of the simulator"
            )));
        }
        let mut wiring = Wiring::new(run)?;
        let paths: Vec<_> =
            run.flows.iter().map(|flow| wiring.paths(flow)).collect::<Result<_, _>>()?;
        let impairs = wiring.places();
        let (nodes, media) = wiring.into_nodes();
        let nodes_of = paths.iter().flat_map(|(there, back)| [there, back]);
        let hops: Vec<_> =
            nodes_of.flat_map(|p| p.windows(2)).map(|hop| (hop[0], hop[1])).collect();
        let mut network = Network::new(nodes, &hops, media);
        for link in 0..run.links.len() {
            network.link_mut(link).add_account(FlowCounters::default());
            // From the first call on the link remembers them.
            network.take_pulls(link);
        }
        network.begin_measuring(Time::ZERO);
        let of_links = |(_, event): &(Time, Event)| {
            matches!(
                event,
                Event::Rate(..)
                    | Event::Qdisc(..)
                    | Event::Class(..)
                    | Event::Policer(..)
                    | Event::Netem(..)
            )
        };
        let way = |nodes, flow, is_back| Way {
            nodes,
            delays: Delays::new(run, flow, is_back),
            under_way: VecDeque::new(),
        };
        let ways = paths.into_iter().zip(&run.flows);
        let ways =
            ways.map(|((there, back), flow)| [way(there, flow, false), way(back, flow, true)]);
        let mut out = Outbox::default();
        out.fates = Some(Fates::default());
        Ok(Transit {
            network,
            ways: ways.collect(),
            agenda: agenda(run)?.into_iter().filter(of_links).collect(),
            impairs,
            reached: Time::ZERO,
            sampled_at: Time::ZERO,
            out,
            departed: run.flows.iter().map(|_| Default::default()).collect(),
            steps: None,
        })
    }

    /// A host sends `pkt` at `now`; its group says whose, and packets that are an ACK set out at the far end. The packets
    /// of each host come in the order of time, and not before what [`Transit::horizon`] was for the last call of [`Transit::run_until`].
    pub fn send(&mut self, now: Time, mut pkt: Packet) {
        let (flow, side) = place_of(&pkt);
        let way = &mut self.ways[flow][side];
        pkt.hop = 0;
        pkt.enqueued_at = way.delays.arrival(now);
        if let Some(steps) = &mut self.steps {
            steps.push(Step { crossed: 0, left: pkt.enqueued_at, pkt });
        }
        if way.nodes.is_empty() {
            self.departed[flow][side].push_back(pkt);
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
        self.ways.iter_mut().flatten().map(of).min().unwrap_or(Time::NEVER)
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

    /// Performs the last change of `run`, this network's description, which has to be one of a link or an impairment, at
    /// the time that has been reached: the same change planned for it gives the same bits.
    ///
    /// # Errors
    /// One sentence that names the part and the fix.
    pub fn change(&mut self, run: &Run) -> Result<(), ScenarioError> {
        let (Some(change), Some(whole)) = (run.at.last(), run.whole()?.pop()) else {
            return Ok(());
        };
        for event in events(run, change, whole)? {
            self.perform(event);
        }
        Ok(())
    }

    /// A row of each queue since the last sample, if any time has passed. That time in seconds.
    pub fn sample(&mut self, series: &mut Series) -> f64 {
        let span = self.reached.since(self.sampled_at);
        self.sampled_at = self.reached;
        let (t, seconds) = (self.reached.as_secs_f64(), span.as_secs_f64());
        if span > Span::ZERO {
            self.network.probe_media(span);
            for i in 0..self.network.links().count() {
                sample_link(self.network.link_mut(i), i as u16, t, seconds, series);
            }
        }
        seconds
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
    /// What stands on the path of a flow group, there (0) or back (1).
    pub fn path(&self, flow: usize, side: usize) -> Vec<Place> {
        let links = self.network.links().count();
        let of = |n: &usize| match self.impairs.iter().position(|places| places.contains(n)) {
            _ if *n < links => Place::Link(*n),
            Some(impair) => Place::Impair(impair),
            None => Place::Rewrite,
        };
        self.ways[flow][side].nodes.iter().map(of).collect()
    }
    /// The most that any link of the path gives.
    pub fn peak(&self) -> Rate {
        let nodes = self.ways.iter().flatten().flat_map(|way| &way.nodes);
        let links = nodes.filter_map(|n| self.network.link(*n));
        links.map(|link| link.peak().0).max().unwrap_or_default()
    }

    fn next_inside(&self) -> Time {
        let of = |way: &Way| way.under_way.front().map_or(Time::NEVER, |pkt| pkt.enqueued_at);
        let of_hosts = self.ways.iter().flatten().map(of).min();
        self.network.earliest().min(of_hosts.unwrap_or(Time::NEVER))
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
        for way in self.ways.iter_mut().flatten() {
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
        let mut pulls = self.network.take_pulls(n).into_iter().flatten();
        for mut pkt in departed.drain(..) {
            pkt.hop += 1;
            let left = pulls.next().unwrap_or(pkt.enqueued_at);
            if let Some(steps) = &mut self.steps {
                steps.push(Step { crossed: pkt.hop, left, pkt });
            }
            let (flow, side) = place_of(&pkt);
            match self.ways[flow][side].nodes.get(usize::from(pkt.hop)) {
                Some(next) => self.network.inbox(*next).push(pkt),
                None => self.departed[flow][side].push_back(pkt),
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
            Event::Policer(link, policer) => self.network.link_mut(link).police(now, &policer),
            Event::Netem(impair, netem) => {
                for n in &self.impairs[impair] {
                    self.network.impair_mut(*n).change(now, netem.clone());
                }
            }
            // The delays follow their changes themselves, and there are neither flows nor media.
            Event::Rtt(..)
            | Event::Delay(..)
            | Event::Begin(..)
            | Event::Count(..)
            | Event::FlowRate(..)
            | Event::Pause(..)
            | Event::Medium(..) => {}
        }
    }
}
