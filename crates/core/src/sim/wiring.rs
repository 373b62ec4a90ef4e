//! From the description of a run to its elements.

use super::accounts::{Account, Group};
use super::taps::Taps;
use super::{Deed, Network, Path, Seat, Simulation};
use crate::aqm::service::TokenBucket;
use crate::element::{NOBODY, Outbox, PathState};
use crate::error::ScenarioError;
use crate::net::Node;
use crate::net::deadlines::Deadlines;
use crate::net::impair::Impair;
use crate::net::link::Link;
use crate::net::rewrite::Rewrite;
use crate::net::tap::Tap;
use crate::packet::GroupId;
use crate::probe::Series;
use crate::rng::Rng;
use crate::scenario::{Direction, FlowSpec, Run, Side};
use crate::time::{Span, Time};
use crate::traffic::Place;
use crate::units::{MTU_FRAME, Rate};

/// A window is not longer than so many full packets of all links take, whatever the delays: what it
/// leaves behind is kept in memory.
const PACKETS_PER_WINDOW: u64 = 65536;
/// Nor than this: an inbox tells times in a window, and places in it, by a few bits.
const LONGEST_WINDOW: Span = Span::from_millis(100);

/// An `[impair]` table: its elements by direction.
struct ImpairPlace {
    link: usize,
    forward: Option<usize>,
    back: Option<usize>,
}

/// Elements of the network, of which those of links come first.
struct Wiring<'a> {
    run: &'a Run,
    impairs: Vec<ImpairPlace>,
    /// All but the links.
    others: Vec<Box<dyn Node>>,
}

impl Wiring<'_> {
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
            let link = self.run.link(&spec.before)?;
            self.impairs.push(ImpairPlace { link, forward, back });
        }
        Ok(())
    }

    /// What rewrites a group's packets on one side of a link.
    fn rewrite(&mut self, flow: &FlowSpec, link: &str, side: Side) -> Option<usize> {
        let rules = self.run.rewrites.iter();
        let rules = rules.filter(|r| r.flow == flow.name && r.link == link && r.side == side);
        let rules: Vec<_> = rules.map(|r| (r.from, r.to)).collect();
        (!rules.is_empty()).then(|| self.add(Box::new(Rewrite { rules })))
    }

    /// The elements on a group's way to its receivers, and on the way back.
    fn paths(&mut self, flow: &FlowSpec) -> Result<(Vec<usize>, Vec<usize>), ScenarioError> {
        let (mut forward, mut back) = (Vec::new(), Vec::new());
        for name in &flow.path {
            let link = self.run.link(name)?;
            let impairs = self.impairs.iter().filter(|p| p.link == link);
            forward.extend(impairs.filter_map(|p| p.forward));
            forward.extend(self.rewrite(flow, name, Side::Before));
            forward.push(link);
            forward.extend(self.rewrite(flow, name, Side::After));
        }
        let links = flow.reverse_path.iter().map(|name| self.run.link(name));
        let links: Vec<usize> = links.collect::<Result<_, _>>()?;
        // ACKs are impaired where they set out, whichever links they cross themselves.
        let crossed = |p: &&ImpairPlace| forward.contains(&p.link) || links.contains(&p.link);
        back.extend(self.impairs.iter().filter(crossed).filter_map(|p| p.back));
        back.extend(links);
        if forward.len().max(back.len()) > usize::from(u8::MAX) {
            let what = "a path with more than 255 links and impairments";
            return Err(ScenarioError(format!("flow \"{}\": {what} is not supported", flow.name)));
        }
        Ok((forward, back))
    }

    /// The links. `groups` have their paths.
    fn links(&self, groups: &[Group], accounts: &[Account]) -> Vec<Box<dyn Node>> {
        let mut nodes: Vec<Box<dyn Node>> = Vec::new();
        for (i, l) in self.run.links.iter().enumerate() {
            let crossings: Vec<_> = accounts
                .iter()
                .map(|account| {
                    let g = &groups[account.group];
                    let (first, last) = g.first_and_last;
                    let crossed = g.forward.nodes.contains(&i);
                    crossed.then_some([i == first, i == last, i == first && i == last])
                })
                .collect();
            let bucket = TokenBucket::new(Rate::from_bps(l.rate_bps), l.burst_bytes);
            let rng = Rng::stream(self.run.seed, "link", i as u64);
            nodes.push(Box::new(Link::new(l.name.clone(), bucket, &l.qdisc, rng, &crossings)));
        }
        nodes
    }
}

impl<T: Tap> Simulation<T> {
    /// Builds the elements of `run`, with every packet shown to `tap` at the ends of its path.
    ///
    /// # Errors
    /// One sentence if the description is inconsistent.
    pub fn tapped(run: &Run, tap: T) -> Result<Simulation<T>, ScenarioError> {
        let mut wiring = Wiring { run, impairs: Vec::new(), others: Vec::new() };
        wiring.add_impairs()?;
        let flows: u32 = run.flows.iter().map(|f| f.count).sum();
        let (mut groups, mut seats): (Vec<Group>, Vec<Seat>) = (Vec::new(), Vec::new());
        let mut accounts: Vec<Account> = Vec::new();
        let (mut near, mut far, mut back) = Default::default();
        for spec in &run.flows {
            let (forward_nodes, back_nodes) = wiring.paths(spec)?;
            // Half of the base RTT before the links, half on the way back. No answer comes at the instant
            // of the question.
            let least = if spec.traffic.is_answered() { Span(1) } else { Span::ZERO };
            let half = Span(spec.rtt_ns / 2).max(least);
            let (first, first_account) = (seats.len(), accounts.len());
            for index in 0..u64::from(spec.count) {
                let mut rng = Rng::stream(run.seed, &spec.name, index);
                // A source of many connections does not open them together.
                let jitter =
                    if spec.traffic.is_spread() { 0 } else { rng.below(run.start_jitter_ns) };
                if run.per_flow || index == 0 {
                    accounts.push(Account::new(groups.len(), seats.len()..seats.len()));
                }
                let (number, account) = (groups.len() as u16, accounts.len() as u16 - 1);
                accounts[usize::from(account)].seats.end += 1;
                let place = Place {
                    seed: run.seed,
                    name: &spec.name,
                    group: GroupId { number, account },
                    index,
                    number: seats.len() as u32,
                    flows,
                    start: Time(spec.start_ns + jitter),
                    stop: spec.stop_ns.map_or(Time::NEVER, Time),
                    dscp: spec.dscp,
                };
                let flow = spec.traffic.build(&place);
                let (sends, receives) = flow.starts();
                Deadlines::push(&mut near, sends.saturating_add(half));
                Deadlines::push(&mut back, Time::NEVER);
                Deadlines::push(&mut far, receives);
                seats.push(Seat {
                    flow,
                    group: groups.len(),
                    acks: Vec::new(),
                    read: 0,
                    held: Vec::new(),
                    released: 0,
                    first: NOBODY,
                    last: NOBODY,
                });
            }
            let is_link = |n: &&usize| **n < run.links.len();
            let mut links = forward_nodes.iter().filter(is_link);
            let first_link = *links.next().expect("a path has a link");
            let first_and_last = (first_link, *links.next_back().unwrap_or(&first_link));
            groups.push(Group::new(
                spec,
                first..seats.len(),
                first_account..accounts.len(),
                Path { delay: half, nodes: forward_nodes },
                Path { delay: (Span(spec.rtt_ns) - half).max(least), nodes: back_nodes },
                first_and_last,
            ));
        }
        let mut nodes = wiring.links(&groups, &accounts);
        nodes.append(&mut wiring.others);
        let paths = groups.iter().flat_map(|g| [&g.forward, &g.back]);
        let hops: Vec<_> =
            paths.flat_map(|p| p.nodes.windows(2)).map(|hop| (hop[0], hop[1])).collect();
        let mut network = Network::new(nodes, &hops);
        network.is_mixed = run.flows.iter().any(|f| f.traffic.is_spread());
        let mut simulation = Simulation {
            now: Time::ZERO,
            end: Time(run.duration_ns),
            warmup: Time(run.warmup_ns),
            sample: Span(run.sample_ns),
            next_sample: Time(run.sample_ns),
            is_measuring: false,
            agenda: agenda(run)?.into(),
            window: window(run, &groups),
            longest_delay: groups.iter().map(|g| g.forward.delay).max().unwrap_or_default(),
            groups,
            accounts,
            per_flow: run.per_flow,
            acked_before: vec![0; seats.len()],
            seats,
            near,
            back,
            far,
            network,
            out: Outbox::default(),
            series: Series::default(),
            delivered_packets: 0,
            taps: Taps::new(tap),
        };
        for seat in &mut simulation.seats {
            let group = &simulation.groups[seat.group];
            let (forward, back) = (group.forward.delay, group.back.delay);
            seat.flow.set_path(&PathState { forward, back });
        }
        simulation.note_rates();
        Ok(simulation)
    }
}

/// What happens to links, in the order of time.
fn agenda(run: &Run) -> Result<Vec<(Time, Deed)>, ScenarioError> {
    let mut agenda = Vec::new();
    for c in &run.at {
        let link = run.link(&c.link)?;
        let at = Time(c.time_ns);
        if let Some(bps) = c.rate_bps {
            agenda.push((at, Deed::Rate(link, Rate::from_bps(bps))));
        }
        if let Some(q) = &c.qdisc {
            agenda.push((at, Deed::Qdisc(link, q.clone())));
        }
    }
    agenda.sort_by_key(|(at, _)| *at);
    Ok(agenda)
}

/// How long no element depends on what another one does: what a sending end hears was sent to the
/// receiving end a round trip ago; where links are on the way back, these hear of what it sent on the way
/// there, and it hears of what left them, half as long ago.
fn window(run: &Run, groups: &[Group]) -> Span {
    let answered = run.flows.iter().zip(groups).filter(|(spec, _)| spec.traffic.is_answered());
    let depends = answered.map(|(_, g)| match g.back.nodes.is_empty() {
        true => g.forward.delay + g.back.delay,
        false => g.forward.delay.min(g.back.delay),
    });
    let rate: u64 = run.links.iter().map(|l| l.rate_bps).sum();
    let longest = Rate::from_bps(rate).time_for(u64::from(MTU_FRAME) * PACKETS_PER_WINDOW);
    depends.min().unwrap_or(longest).min(longest).min(LONGEST_WINDOW).max(Span(1))
}
