//! Builds the elements of a run from its description.

use super::accounts::{Account, Group};
use super::changes::Plan;
use super::network::Served;
use super::precision::Estimate;
use super::taps::Taps;
use super::watching::Shown;
use super::{Chain, FlowSlot, Network, Path, Simulation};
use crate::aqm::hosts::Hosts;
use crate::aqm::service::{FlowCounters, TokenBucket};
use crate::aqm::trace::Trace;
use crate::aqm::tree::Queue;
use crate::element::Outbox;
use crate::error::ScenarioError;
use crate::net::Node;
use crate::net::access::Place;
use crate::net::air::Way;
use crate::net::deadlines::Deadlines;
use crate::net::host_queue::HostQueue;
use crate::net::impair::Impair;
use crate::net::ledger::Ledger;
use crate::net::link::Link;
use crate::net::port::Port;
use crate::net::rewrite::Rewrite;
use crate::net::split::Split;
use crate::net::tap::Tap;
use crate::net::thin::Thin;
use crate::net::tunnel::{Entry, Exit};
use crate::packet::GroupId;
use crate::rng::Rng;
use crate::scenario::{Direction, FlowSpec, LinkSpec, Run, Side};
use crate::time::{Span, Time};
use crate::traffic::Place as FlowPlace;
use crate::units::{MTU_FRAME, Rate};

/// A window is at most as long as this many full packets of all links take, whatever the delays, because
/// its packets are kept in memory.
pub(crate) const PACKETS_PER_WINDOW: u64 = 65536;
/// A window is also at most this long: an inbox stores times in a window, and places in it, in a few bits.
pub(crate) const LONGEST_WINDOW: Span = Span::from_millis(100);
/// Flows that are there from the start are numbered from 0, and their connections by that plus multiples of
/// how many there are. Those that come later have this bit, and multiples of this number.
const LATER: u32 = 1 << 31;
const LATER_STRIDE: u32 = 1 << 16;

/// An `[impair]` table: its elements by direction.
pub(super) struct ImpairPlace {
    link: usize,
    forward: Option<usize>,
    back: Option<usize>,
    /// Thins the ACKs before that.
    thin: Option<usize>,
}

/// A direction of a `[tunnel]`: its two ends.
#[derive(Copy, Clone)]
pub(super) struct TunnelPlace {
    entry: usize,
    exit: usize,
}

/// Elements of the network; links come first.
pub(super) struct Wiring<'a> {
    run: &'a Run,
    impairs: Vec<ImpairPlace>,
    /// Of each tunnel, there and back.
    tunnels: Vec<[TunnelPlace; 2]>,
    /// All but the links.
    others: Vec<Box<dyn Node>>,
}

impl<'a> Wiring<'a> {
    /// The impairments are there, the rest comes with the paths.
    pub(super) fn new(run: &'a Run) -> Result<Wiring<'a>, ScenarioError> {
        let mut wiring =
            Wiring { run, impairs: Vec::new(), tunnels: Vec::new(), others: Vec::new() };
        wiring.add_impairs()?;
        for (number, spec) in run.tunnels.iter().enumerate() {
            let both = [(); 2].map(|()| TunnelPlace {
                entry: wiring.add(Box::new(Entry::new(spec, number))),
                exit: wiring.add(Box::new(Exit::new(spec))),
            });
            wiring.tunnels.push(both);
        }
        Ok(wiring)
    }

    /// Of each impairment the places of its elements.
    pub(super) fn places(&self) -> Vec<Vec<usize>> {
        let of = |p: &ImpairPlace| p.forward.iter().chain(&p.back).copied().collect();
        self.impairs.iter().map(of).collect()
    }

    /// Of each tunnel the places of its ends.
    pub(super) fn tunnel_places(&self) -> Vec<Vec<usize>> {
        let of =
            |both: &[TunnelPlace; 2]| both.iter().flat_map(|way| [way.entry, way.exit]).collect();
        self.tunnels.iter().map(of).collect()
    }

    /// The tunnel that a flow is in on a link of one of its paths, and whether that is the first and the last such link.
    fn tunnel(
        &self,
        flow: &FlowSpec,
        is_back: bool,
        link: usize,
    ) -> Option<(TunnelPlace, bool, bool)> {
        let path = if is_back { &flow.reverse_path } else { &flow.path };
        let specs = self.run.tunnels.iter().zip(&self.tunnels);
        let mut around = specs.filter_map(|(spec, ways)| {
            let (first, last) = self.run.inside(flow, path, spec)?;
            let way = ways[usize::from(is_back)];
            (first..=last).contains(&link).then_some((way, link == first, link == last))
        });
        around.next()
    }

    /// All elements, once the paths are known.
    pub(super) fn into_nodes(mut self) -> (Vec<Box<dyn Node>>, Vec<Served>) {
        let (mut nodes, media) = self.links();
        nodes.append(&mut self.others);
        (nodes, media)
    }

    fn add(&mut self, node: Box<dyn Node>) -> usize {
        self.others.push(node);
        self.run.links.len() + self.others.len() - 1
    }

    fn add_impairs(&mut self) -> Result<(), ScenarioError> {
        for (i, spec) in self.run.impairs.iter().enumerate() {
            let mut element = |not: Direction, stream: &str| {
                (spec.direction != not).then(|| {
                    let rng = Rng::stream(self.run.seed, stream, i as u64);
                    self.add(Box::new(Impair::new(spec.netem.clone(), rng)))
                })
            };
            let forward = element(Direction::Reverse, "impair");
            let back = element(Direction::Forward, "impair reverse");
            let thin = spec.ack_thinning.map(|n| Thin::new(n, Span(spec.ack_wait_ns)));
            let thin = thin.map(|thin| self.add(Box::new(thin)));
            let link = self.run.link(&spec.before)?;
            self.impairs.push(ImpairPlace { link, forward, back, thin });
        }
        Ok(())
    }

    /// The elements that rewrite a group's packets on one side of a link.
    fn rewrite(&mut self, flow: &FlowSpec, link: &str, side: Side) -> Option<usize> {
        let rules = self.run.rewrites.iter();
        let rules = rules.filter(|r| r.flow == flow.name && r.link == link && r.side == side);
        let rules: Vec<_> = rules.map(|r| (r.from, r.to)).collect();
        (!rules.is_empty())
            .then(|| self.add(Box::new(Rewrite { rules, ledger: Ledger::default() })))
    }

    /// The elements on a group's way to its receivers, and on the way back.
    pub(super) fn paths(
        &mut self,
        flow: &FlowSpec,
    ) -> Result<(Vec<usize>, Vec<usize>), ScenarioError> {
        let (mut forward, mut back) = (Vec::new(), Vec::new());
        for (i, name) in flow.path.iter().enumerate() {
            let link = self.run.link(name)?;
            let tunnel = self.tunnel(flow, false, i);
            if let Some((way, true, _)) = tunnel {
                if flow.traffic.joins_segments() {
                    forward.push(self.add(Box::<Split>::default()));
                }
                forward.push(way.entry);
            }
            let impairs = self.impairs.iter().filter(|p| p.link == link);
            forward.extend(impairs.filter_map(|p| p.forward));
            forward.extend(self.rewrite(flow, name, Side::Before));
            if flow.traffic.joins_segments() && self.run.splits(&self.run.links[link]) {
                forward.push(self.add(Box::<Split>::default()));
            }
            forward.push(link);
            forward.extend(self.rewrite(flow, name, Side::After));
            forward.extend(tunnel.filter(|(.., is_last)| *is_last).map(|(way, ..)| way.exit));
        }
        let links = flow.reverse_path.iter().map(|name| self.run.link(name));
        let links: Vec<usize> = links.collect::<Result<_, _>>()?;
        // ACKs are impaired where they start, whichever links they cross themselves.
        let crossed = |p: &&ImpairPlace| forward.contains(&p.link) || links.contains(&p.link);
        let of_acks = |p: &ImpairPlace| [p.thin, p.back].into_iter().flatten();
        let impairs = self.impairs.iter().filter(crossed).flat_map(of_acks);
        let first = self.tunnel(flow, true, 0).map(|(way, ..)| way.entry);
        back.extend(first.into_iter().chain(impairs));
        for (i, link) in links.iter().enumerate() {
            let tunnel = self.tunnel(flow, true, i);
            back.extend(
                tunnel.filter(|(_, is_first, _)| *is_first && i > 0).map(|(way, ..)| way.entry),
            );
            back.push(*link);
            back.extend(tunnel.filter(|(.., is_last)| *is_last).map(|(way, ..)| way.exit));
        }
        if forward.len().max(back.len()) > usize::from(u8::MAX) {
            let what = "a path with more than 255 links and impairments";
            return Err(ScenarioError(format!("flow \"{}\": {what} is not supported", flow.name)));
        }
        Ok((forward, back))
    }

    /// The hosts whose addresses a flow's packets have on a link: those of the flow, or the ends of a tunnel.
    fn hosts_at(&self, flow: &FlowSpec, link: &LinkSpec) -> [Option<u32>; 2] {
        let around = self.run.tunnels.iter().position(|spec| {
            [&flow.path, &flow.reverse_path].iter().any(|path| {
                let inside = self.run.inside(flow, path, spec);
                inside.is_some_and(|(first, last)| path[first..=last].contains(&link.name))
            })
        });
        let Some(number) = around else { return [flow.host, flow.peer_host] };
        let first = self.run.flows.len() + self.run.hosts.len() + 2 * number;
        [Some(first as u32), Some(first as u32 + 1)]
    }

    /// The links, and the media that serve some of them.
    fn links(&self) -> (Vec<Box<dyn Node>>, Vec<Served>) {
        let mut media = Vec::new();
        let mut nodes: Vec<Box<dyn Node>> = Vec::new();
        for (i, l) in self.run.links.iter().enumerate() {
            let bucket = TokenBucket::new(Rate::from_bps(self.run.rate_of(l)), l.burst_bytes);
            let rng = Rng::stream(self.run.seed, "link", i as u64);
            let trace = l.rate_trace.as_ref().map(|trace| Trace::new(trace.steps(), l.burst_bytes));
            let mut link = Link::new(l.name.clone(), bucket, trace, &l.qdisc, l.stab.clone(), rng);
            if let Some(policer) = &l.policer {
                link.police(Time::ZERO, policer);
            }
            if !self.run.hosts.is_empty() || !self.run.tunnels.is_empty() {
                link.know_hosts(Hosts::named(self.run.flows.iter().map(|f| self.hosts_at(f, l))));
            }
            let Some(medium) = self.run.medium_of(l) else {
                nodes.push(match l.on_host {
                    false => Box::new(link),
                    true => Box::new(HostQueue::new(link, &l.qdisc)),
                });
                continue;
            };
            if let Queue::One(qdisc) = &l.qdisc {
                let way = if l.up_of.is_none() { Way::Down } else { Way::Up };
                link.serve_by_medium(medium.parts(way, &self.run.subscribers(l)), qdisc);
            }
            nodes.push(Box::new(Port::new(link)));
            if let Some(up) = self.run.links.iter().position(|u| u.up_of.as_ref() == Some(&l.name))
            {
                let place = Place { seed: self.run.seed, number: i as u64 };
                let users = self.run.subscribers(l);
                media.push(Served {
                    medium: medium.build(&place, &users),
                    sides: [i, up],
                    stations: users.names,
                });
            }
        }
        (nodes, media)
    }
}

impl<T: Tap> Simulation<T> {
    /// Builds the elements of `run`, with every packet shown to `tap` at the ends of its path.
    ///
    /// # Errors
    /// One sentence if the description is inconsistent.
    pub fn tapped(run: &Run, tap: T) -> Result<Simulation<T>, ScenarioError> {
        let mut wiring = Wiring::new(run)?;
        let mut groups: Vec<Group> = Vec::new();
        for spec in &run.flows {
            let (forward, back) = wiring.paths(spec)?;
            let mut links = forward.iter().filter(|node| **node < run.links.len());
            let first = *links.next().expect("a path has a link");
            let first_and_last = (first, *links.next_back().unwrap_or(&first));
            let on_host = run.links[first].on_host;
            let (forward, back) = (Path::new(forward), Path::new(back));
            groups.push(Group::new(spec, forward, back, first_and_last, on_host));
        }
        let impairs = wiring.places();
        let tunnels = wiring.tunnel_places();
        let (nodes, media) = wiring.into_nodes();
        let mut places: Vec<String> =
            run.links.iter().map(|l| format!("link.{}", l.name)).collect();
        places.resize(nodes.len(), "rewrite".to_owned());
        for (spec, of_impair) in run.impairs.iter().zip(&impairs) {
            for n in of_impair {
                places[*n] = format!("impair.{}", spec.name);
            }
        }
        for (spec, ends) in run.tunnels.iter().zip(tunnels) {
            ends.into_iter().for_each(|n| places[n] = format!("tunnel.{}", spec.name));
        }
        let paths = groups.iter().flat_map(|g| [&g.forward, &g.back]);
        let hops: Vec<_> =
            paths.flat_map(|p| p.nodes.windows(2)).map(|hop| (hop[0], hop[1])).collect();
        let network = Network::new(nodes, &hops, media);
        let mut simulation = Simulation {
            now: Time::ZERO,
            end: Time(run.duration_ns),
            warmup: Time(run.warmup_ns),
            seed: run.seed,
            sample: Span(run.sample_ns),
            next_sample: Time(run.sample_ns),
            is_measuring: false,
            plan: Plan::new(run)?,
            window: Span::ZERO,
            longest_delay: Span::ZERO,
            lookahead: Span::ZERO,
            groups,
            accounts: Vec::new(),
            per_flow: run.per_flow,
            initial_flows: run.flows.iter().map(|f| f.count as usize).sum(),
            slots: Vec::new(),
            chains: Vec::new(),
            senders: Deadlines::default(),
            back: Deadlines::default(),
            receivers: Deadlines::default(),
            due: Vec::new(),
            network,
            local: (0..run.links.len()).filter(|link| run.links[*link].on_host).collect(),
            places,
            ends: Ledger::default(),
            impairs,
            out: Outbox::default(),
            transfers: Vec::new(),
            shown: Shown::new(Span(run.sample_ns)),
            estimate: run.precision.map(Estimate::new),
            delivered_packets: 0,
            taps: Taps::new(tap),
        };
        simulation.measure_window();
        simulation.record_rates();
        for (number, spec) in run.flows.iter().enumerate() {
            if !run.per_flow {
                simulation.add_account(number);
            }
            for index in 0..u64::from(spec.count) {
                // A source of many connections does not open them together.
                let jitter = match spec.traffic.is_spread() {
                    true => 0,
                    false => Rng::stream(run.seed, &spec.name, index).below(run.start_jitter_ns),
                };
                let stop = spec.stop_ns.map_or(Time::NEVER, Time);
                simulation.add_flow(number, Time(spec.start_ns + jitter), stop);
            }
        }
        Ok(simulation)
    }

    /// A group's accounts.
    fn add_account(&mut self, group: usize) {
        let g = &mut self.groups[group];
        g.accounts.push(self.accounts.len());
        for i in 0..self.network.links().count() {
            let (first, last) = g.first_and_last;
            let link = self.network.link_mut(i);
            let counters = match g.forward.nodes.contains(&i) {
                true => FlowCounters {
                    first: i == first,
                    last: i == last,
                    only: i == first && i == last && link.behind().is_none(),
                    ..FlowCounters::default()
                },
                false => FlowCounters::default(),
            };
            link.add_account(counters);
        }
        self.accounts.push(Account::new(group));
    }

    /// Adds a flow to a group.
    pub(super) fn add_flow(&mut self, group: usize, start: Time, stop: Time) {
        if self.per_flow {
            self.add_account(group);
        }
        let slot = self.slots.len();
        let (number, stride) = match slot.checked_sub(self.initial_flows) {
            None => (slot as u32, self.initial_flows as u32),
            Some(later) => (LATER | later as u32, LATER_STRIDE),
        };
        let g = &mut self.groups[group];
        let account = *g.accounts.last().expect("it was made before");
        let path = g.path();
        let place = FlowPlace {
            seed: self.seed,
            name: &g.name,
            group: GroupId { number: group as u16, account: account as u16 },
            index: g.begun,
            number,
            stride,
            start,
            stop,
            measured_from: self.warmup,
            rtt: path.forward + path.back,
            dscp: g.dscp,
            on_host: g.on_host,
        };
        let mut flow = g.traffic.build(&place);
        flow.set_path(&path);
        let (sends, receives) = flow.starts();
        self.senders.push(sends.saturating_add(g.forward.delay));
        self.back.push(Time::NEVER);
        self.receivers.push(receives);
        g.begun += 1;
        g.active.push(slot);
        self.accounts[account].slots.push(slot);
        self.slots.push(FlowSlot {
            flow,
            group,
            acks: Vec::with_capacity(16),
            read: 0,
            account,
            member: g.begun as u32,
            received_before: 0,
            received_shown: 0,
            held: Vec::new(),
            released: 0,
        });
        self.chains.push(Chain::EMPTY);
    }

    /// The time for which no element depends on another one's actions. A sending end learns of data that it
    /// sent a round trip ago. If the way back has links, ends and these links depend on each other after the
    /// shorter of both delays. With a queue in a host, this is at once.
    pub(super) fn measure_window(&mut self) {
        let answered = self.groups.iter().filter(|g| g.traffic.is_answered());
        let depends = answered.map(|g| match g.back.nodes.is_empty() {
            true => g.forward.delay + g.back.delay,
            false => g.forward.delay.min(g.back.delay),
        });
        let rate: u64 = self.network.links().map(|link| link.peak().0.bps()).sum();
        let longest = Rate::from_bps(rate).time_for(u64::from(MTU_FRAME) * PACKETS_PER_WINDOW);
        let window = depends.min().unwrap_or(longest).min(longest).min(LONGEST_WINDOW);
        self.window = if self.local.is_empty() { window.max(Span(1)) } else { Span(1) };
        let delays = self.groups.iter().map(|g| g.forward.delay);
        self.longest_delay = delays.max().unwrap_or_default();
        self.measure_lookahead();
    }
}

/// The slot of a flow or connection, from its number.
pub(super) fn slot_of(flow: u32, initial_flows: usize) -> usize {
    match flow & LATER {
        0 => flow as usize % initial_flows,
        _ => initial_flows + (flow % LATER_STRIDE) as usize,
    }
}
