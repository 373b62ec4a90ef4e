//! How much memory a run may take, estimated from its description before it runs.
//!
//! The estimate is of what can happen: queues hold what comes faster than it leaves, up to their limits; senders have
//! in flight what the path holds; each row of the time series is kept. `tests/memory` compares it with the allocator.

use std::collections::{BTreeMap, BTreeSet};

use crate::aqm::hosts::Hosts;
use crate::aqm::registry::QdiscConfig;
use crate::aqm::tree::{Load, Queue};
use crate::aqm::{LinkInfo, Qdisc};
use crate::error::ScenarioError;
use crate::packet::{ACK_FRAME, Packet};
use crate::scenario::{Direction, FlowSpec, LinkSpec, Run, Whole};
use crate::sim::{LONGEST_WINDOW, PACKETS_PER_WINDOW};
use crate::time::{Span, Time};
use crate::traffic::Demand;
use crate::traffic::events::most_at_once;
use crate::units::{MTU_FRAME, Rate};

/// Bytes of a packet in a queue: rings double, so they are three quarters full on average.
const QUEUED: f64 = size_of::<Packet>() as f64 * 4.0 / 3.0;
/// Of its segment in the sender's scoreboard, and what a recovery notes about it (measured).
const OUTSTANDING: f64 = 150.0;
/// Of a packet under way in a window of time: in inboxes, departures and lists of ACKs (measured).
const UNDER_WAY: f64 = 200.0;
/// Of a packet that a sender of acknowledged data has in flight beyond the queues, with its segment (measured).
const IN_FLIGHT: f64 = 400.0;
/// Of a run, a link, a class with its rows in Python, and what an account has in each band (measured).
const RUN: f64 = 30e3;
const LINK: f64 = 4e3;
const CLASS: f64 = 9e3;
const BAND: f64 = 48.0;
/// Of a flow in a queue that keeps flows apart (measured).
const QUEUED_FLOW: f64 = 600.0;
/// Of an event of `at` (measured).
const EVENT: f64 = 300.0;
/// Of a distribution, for each octave of times that it covers above the first millisecond.
const OCTAVE: f64 = 4096.0;
/// Of an account's distribution of sojourns or RTTs, with what results have of it and of the link's (measured).
const DISTRIBUTION: f64 = 1.75;
/// Bytes of a value in the time series, with the room that a column grows into; what a row has besides, and its columns
/// for every flow and link.
const VALUE: f64 = 8.0 * 4.0 / 3.0;
const ROW: f64 = 44.0 * 4.0 / 3.0;
const COLUMNS: usize = 16;
/// A queue between two instants of overload never empties: what unresponsive flows send may exceed a link's rate by this.
const NEARLY: f64 = 0.98;

/// For what does not depend on the link.
const UNLINKED: LinkInfo = LinkInfo { rate: Rate::from_bps(1_000_000), now: Time::ZERO };

/// What takes the memory.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The run itself, and all links and classes.
    Run,
    /// The queue of the link or the impairment with this name.
    Queue,
    Impair,
    /// What the flows of this group are, the distributions of their delays, what they have in flight, and begin.
    State,
    Times,
    Flight,
    Transfers,
    /// The time series.
    Samples,
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Part::Run => "run",
            Part::Queue => "queue",
            Part::Impair => "impair",
            Part::State => "state",
            Part::Times => "times",
            Part::Flight => "flight",
            Part::Transfers => "transfers",
            Part::Samples => "samples",
        }
    }
}

/// A part of the estimate.
#[derive(Clone, Debug)]
pub struct Term {
    pub part: Part,
    /// Of the link, impairment or flow group.
    pub name: String,
    pub bytes: f64,
    /// How many packets, rows, flows or transfers that is.
    pub count: f64,
}

/// A flow group, with the largest values that it has while it runs.
struct Sender<'a> {
    flow: &'a FlowSpec,
    demand: Demand,
    count: f64,
    /// All flows that it ever has.
    begun: f64,
    rtt: f64,
    seconds: f64,
    /// Bits per second that its flows together want to send, and can send into their path.
    wanted: f64,
}

/// What a link's queues hold at most: packets, the rate at which they let go, and bytes of tables.
struct Held {
    packets: f64,
    rate: f64,
    always: f64,
    tables: f64,
}

/// Estimates the memory of a run by its parts.
///
/// # Errors
/// One sentence if a change is wrong.
pub fn terms(run: &Run) -> Result<Vec<Term>, ScenarioError> {
    let later = run.whole()?;
    let links = Links::of(run, &later);
    let senders: Vec<_> = run.flows.iter().map(|flow| sender(run, &links, flow)).collect();
    let loads: Vec<_> = run.links.iter().map(|link| loads_of(run, link, &senders)).collect();
    let mut terms = vec![of_run(run)];
    terms.extend(of_queues(run, &links, &senders, &loads));
    terms.extend(of_impairs(run, &later, &senders));
    let delay = longest_delay(run, &links, &terms);
    terms.extend(senders.iter().flat_map(|sender| of_flows(run, &links, sender, delay)));
    terms.push(of_samples(run, &loads));
    Ok(terms)
}

/// Rates of the links while they run, and the queues that they ever have.
struct Links<'a> {
    by_name: BTreeMap<&'a str, usize>,
    least: Vec<f64>,
    most: Vec<f64>,
    later: Vec<Vec<QdiscConfig>>,
}

impl Links<'_> {
    fn of<'a>(run: &'a Run, later: &[Whole]) -> Links<'a> {
        let rates: Vec<f64> = run.links.iter().map(|link| run.rate_of(link) as f64).collect();
        let by_name =
            run.links.iter().enumerate().map(|(i, link)| (link.name.as_str(), i)).collect();
        let mut links = Links {
            by_name,
            least: rates.clone(),
            most: rates,
            later: vec![Vec::new(); run.links.len()],
        };
        for (i, link) in run.links.iter().enumerate() {
            if let Some(trace) = &link.rate_trace {
                let steps = trace.steps.iter().map(|&(_, bps)| bps as f64);
                links.most[i] = steps.fold(links.most[i], f64::max);
            }
            if link.rate_trace.is_some() || run.medium_of(link).is_some() {
                links.least[i] = 0.0;
            }
        }
        for (change, whole) in run.at.iter().zip(later) {
            let Some(&i) = change.link.as_deref().and_then(|name| links.by_name.get(name)) else {
                continue;
            };
            if let Some(bps) = change.rate_bps {
                links.least[i] = links.least[i].min(bps as f64);
                links.most[i] = links.most[i].max(bps as f64);
            }
            links.later[i].extend(whole.qdisc.clone());
            links.later[i].extend(whole.classes.iter().filter_map(|class| class.qdisc.clone()));
        }
        links
    }
    fn slowest(&self, path: &[String]) -> f64 {
        let rates = path.iter().filter_map(|name| self.by_name.get(name.as_str()));
        rates.map(|&i| self.most[i]).fold(f64::INFINITY, f64::min)
    }
}

fn sender<'a>(run: &Run, links: &Links, flow: &'a FlowSpec) -> Sender<'a> {
    let mut demand = flow.traffic.demand();
    let (mut count, mut begun) = (f64::from(flow.count), f64::from(flow.count));
    let added = flow.delay_trace.iter().flat_map(|trace| &trace.steps).map(|&(_, ns)| ns).max();
    let mut rtt_ns = flow.rtt_ns + added.unwrap_or(0);
    for change in run.at.iter().filter(|change| change.flow.as_deref() == Some(&flow.name)) {
        rtt_ns = rtt_ns.max(change.rtt_ns.unwrap_or(0));
        let more = f64::from(change.count.unwrap_or(0));
        (count, begun) = (count.max(more), begun + more);
        if let (Some(most), Some(bps)) = (&mut demand.rate_bps, change.rate_bps) {
            *most = most.max(bps as f64);
        }
    }
    let lives = flow.lives(run.seed, run.duration_ns);
    (count, begun) = (count + most_at_once(&lives) as f64, begun + lives.len() as f64);
    let end_ns = flow.stop_ns.unwrap_or(run.duration_ns).min(run.duration_ns);
    let path = links.slowest(&flow.path);
    let wanted = count * demand.rate_bps.unwrap_or(path);
    Sender {
        flow,
        demand,
        count,
        begun,
        rtt: rtt_ns as f64 * 1e-9,
        seconds: end_ns.saturating_sub(flow.start_ns) as f64 * 1e-9,
        wanted: if demand.is_answered { wanted.min(path) } else { wanted },
    }
}

impl Sender<'_> {
    /// Packets that it sends, or has outstanding beyond its path, at most.
    fn packets(&self) -> f64 {
        let frame = f64::from(self.demand.frame);
        let bytes = self.wanted / 8.0 * self.seconds;
        let bytes = self.demand.bytes.map_or(bytes, |most| bytes.min(most as f64 * self.begun));
        let begun = self.demand.begins.map_or(f64::INFINITY, |begins| {
            // The first ones may come early, and large.
            let transfers = 1.0 + self.count * self.seconds * 1e9 / begins.interval_ns as f64;
            2.0 * transfers * begins.payload
        });
        let bytes = bytes.min(begun);
        let window =
            self.demand.window_bytes.map_or(f64::INFINITY, |window| window as f64 * self.count);
        bytes.min(window) / frame
    }
}

/// What waits in the queues: at most what they have room for, and what comes faster than it leaves.
fn of_queues(
    run: &Run,
    links: &Links,
    senders: &[Sender],
    loads: &[Vec<Option<Load>>],
) -> Vec<Term> {
    let crossing_each: Vec<Vec<&Sender>> = run
        .links
        .iter()
        .map(|link| senders.iter().filter(|one| one.flow.path.contains(&link.name)).collect())
        .collect();
    let rooms: Vec<Held> = run
        .links
        .iter()
        .enumerate()
        .map(|(i, link)| {
            let crossing = &crossing_each[i];
            let info = LinkInfo { rate: Rate::from_bps(links.most[i] as u64), now: Time::ZERO };
            let frame = crossing.iter().map(|one| one.demand.frame).min().unwrap_or(MTU_FRAME);
            room_of(link, &links.later[i], info, frame, &loads[i])
        })
        .collect();
    // A queue's own shaper may be far below its link.
    let passes = |name: &String| {
        let i = links.by_name[name.as_str()];
        links.most[i].min(rooms[i].rate)
    };
    let each = run.links.iter().enumerate();
    each.map(|(i, link)| {
        let (crossing, room) = (&crossing_each[i], &rooms[i]);
        let arriving: f64 = crossing.iter().map(|s| s.wanted.min(upstream(links, s, i))).sum();
        let leaving = links.least[i].min(room.rate);
        let answered = crossing.iter().any(|sender| sender.demand.is_answered);
        let comes: f64 = crossing.iter().map(|sender| sender.packets()).sum();
        let fills = arriving > NEARLY * leaving;
        let mut count = if !fills {
            // Bursts meet.
            crossing.iter().map(|sender| sender.count * sender.demand.burst).sum::<f64>().min(comes)
        } else if answered {
            comes
        } else {
            let part = (arriving - leaving).max(arriving * 1e-3) / arriving;
            comes * part
        };
        count = count.min(room.packets);
        let back = senders.iter().filter(|sender| sender.flow.reverse_path.contains(&link.name));
        let (mut acks, mut outstanding) = (0.0, 0.0);
        let mut flows: f64 = crossing.iter().map(|sender| sender.begun).sum();
        for one in back {
            flows += one.begun;
            let rate = one.flow.path.iter().map(passes).fold(one.wanted, f64::min);
            acks += rate / 8.0 / f64::from(one.demand.frame) / 2.0;
            outstanding += one.packets() / 2.0;
        }
        let surplus = acks - leaving / 8.0 / f64::from(ACK_FRAME);
        if surplus > 0.0 {
            let waiting = surplus * run.duration_ns as f64 * 1e-9;
            count += waiting.min(outstanding).min(room.packets);
        }
        let per_packet = if answered { QUEUED + OUTSTANDING } else { QUEUED };
        let of_flows = if room.tables > 0.0 { flows * QUEUED_FLOW } else { 0.0 };
        let bytes = count * per_packet + room.always + room.tables + of_flows;
        Term { part: Part::Queue, name: link.name.clone(), bytes, count }
    })
    .collect()
}

/// The rate at which a sender's packets can reach a link: that of the links before it.
fn upstream(links: &Links, sender: &Sender, link: usize) -> f64 {
    let before = sender.flow.path.iter().map(|name| links.by_name[name.as_str()]);
    before.take_while(|&i| i != link).map(|i| links.most[i]).fold(f64::INFINITY, f64::min)
}

/// What may come to each queue of a link's classes. Its filters say which; behind a tunnel they see other hosts.
fn loads_of(run: &Run, link: &LinkSpec, senders: &[Sender]) -> Vec<Option<Load>> {
    let Queue::Tree(tree) = &link.qdisc else { return Vec::new() };
    let hosts = Hosts::named(run.flows.iter().map(|flow| [flow.host, flow.peer_host]));
    let mut groups = Vec::new();
    for (group, sender) in senders.iter().enumerate() {
        let between = [false, true].map(|receiving| hosts.of(group as u16, receiving));
        let (packets, frame) = (sender.packets(), sender.demand.frame);
        if sender.flow.path.contains(&link.name) {
            groups.push((between, Load { packets, frame }));
        }
        if sender.flow.reverse_path.contains(&link.name) {
            groups.push((between, Load { packets: packets / 2.0, frame: ACK_FRAME }));
        }
    }
    let loads = tree.loads(&hosts, &groups);
    if run.tunnels.is_empty() || groups.is_empty() {
        return loads;
    }
    let mut all = groups[0].1;
    groups[1..].iter().for_each(|(_, load)| all += *load);
    vec![Some(all); loads.len()]
}

/// What a link's queues hold of packets with this frame. The classes of a tree hold what may come to them.
fn room_of(
    link: &LinkSpec,
    later: &[QdiscConfig],
    info: LinkInfo,
    frame: u32,
    loads: &[Option<Load>],
) -> Held {
    let held = |qdisc: &QdiscConfig, frame: u32| {
        let room = qdisc.room(info);
        let (always, tables) = (room.always as f64, room.tables as f64);
        Held {
            packets: room.for_frames(frame) as f64,
            rate: room.rate.bps() as f64,
            always,
            tables,
        }
    };
    let later = later.iter().map(|qdisc| held(qdisc, frame));
    match &link.qdisc {
        Queue::One(qdisc) => later.fold(held(qdisc, frame), |one, other| Held {
            packets: one.packets.max(other.packets),
            rate: one.rate.min(other.rate),
            always: one.always.max(other.always),
            tables: one.tables.max(other.tables),
        }),
        Queue::Tree(tree) => {
            let leaves = tree.qdiscs().into_iter().zip(loads).map(|((_, qdisc), load)| {
                let mut leaf = held(qdisc, load.map_or(frame, |load| load.frame));
                leaf.packets = leaf.packets.min(load.map_or(0.0, |load| load.packets));
                leaf.tables = if load.is_some() { leaf.tables } else { 0.0 };
                leaf
            });
            let none = Held { packets: 0.0, rate: 0.0, always: 0.0, tables: 0.0 };
            leaves.chain(later).fold(none, |sum, leaf| Held {
                packets: sum.packets + leaf.packets,
                rate: 0.0,
                always: sum.always + leaf.always,
                tables: sum.tables + leaf.tables,
            })
        }
    }
}

/// What netem holds back: the packets of its delay, up to its limit.
fn of_impairs(run: &Run, later: &[Whole], senders: &[Sender]) -> Vec<Term> {
    let each = run.impairs.iter();
    each.map(|impair| {
        let paths = |s: &Sender| {
            s.flow.path.contains(&impair.before) || s.flow.reverse_path.contains(&impair.before)
        };
        let comes: f64 = senders.iter().filter(|s| paths(s)).map(Sender::packets).sum();
        let changes =
            run.at.iter().zip(later).filter(|(at, _)| at.impair.as_ref() == Some(&impair.name));
        let netems = changes.filter_map(|(_, whole)| whole.netem.as_ref()).chain([&impair.netem]);
        let limit =
            netems.map(|netem| netem.room(UNLINKED).packets).max().unwrap_or_default() as f64;
        let sides = if impair.direction == Direction::Both { 2.0 } else { 1.0 };
        let count = sides * limit.min(comes);
        Term {
            part: Part::Impair,
            name: impair.name.clone(),
            bytes: count * (QUEUED + OUTSTANDING),
            count,
        }
    })
    .collect()
}

fn of_run(run: &Run) -> Term {
    let of_link = |link: &LinkSpec| if let Queue::Tree(_) = link.qdisc { bands(link) } else { 0 };
    let classes: usize = run.links.iter().map(of_link).sum();
    // Of the classes, an account crosses one or a few neighbours.
    let crossed = |link| if of_link(link) > 0 { 4.0 } else { bands(link).max(1) as f64 };
    let crossed: f64 = run.links.iter().map(crossed).sum::<f64>() * accounts(run) * BAND;
    let bytes = RUN + run.links.len() as f64 * LINK + classes as f64 * CLASS + crossed;
    let bytes = bytes + run.at.len() as f64 * EVENT;
    Term { part: Part::Run, name: String::new(), bytes, count: classes as f64 }
}

/// The queues inside a link's queue that are reported apart.
fn bands(link: &LinkSpec) -> usize {
    match &link.qdisc {
        Queue::One(QdiscConfig::Own(_)) => 0,
        Queue::One(qdisc) => qdisc.build::<Packet>(UNLINKED).bands().len(),
        Queue::Tree(tree) => tree.qdiscs().len(),
    }
}

fn accounts(run: &Run) -> f64 {
    let of_flow = |flow: &FlowSpec| if run.per_flow { f64::from(flow.count) } else { 1.0 };
    run.flows.iter().map(of_flow).sum()
}

/// The longest time that a packet takes: the delays of its path, and full queues.
fn longest_delay(run: &Run, links: &Links, terms: &[Term]) -> f64 {
    let queues = terms.iter().filter(|term| term.part == Part::Queue);
    let waits = queues.zip(&links.least).zip(&links.most).map(|((term, least), most)| {
        let rate = if *least > 0.0 { *least } else { most / 10.0 };
        term.count * f64::from(MTU_FRAME) * 8.0 / rate.max(1.0)
    });
    let seconds = run.duration_ns as f64 * 1e-9;
    let rtt = run.flows.iter().map(|flow| flow.rtt_ns).max().unwrap_or(0) as f64 * 1e-9;
    (waits.sum::<f64>() + rtt).min(seconds + rtt)
}

/// Bytes of a distribution of times up to this.
fn distribution(seconds: f64) -> f64 {
    let octaves = crate::math::log2((seconds * 1e3 / 1.049).max(1.0));
    OCTAVE * (1.0 + octaves)
}

fn of_flows(run: &Run, links: &Links, sender: &Sender, delay: f64) -> Vec<Term> {
    let Sender { flow, demand, .. } = sender;
    let term = |part, bytes, count| Term { part, name: flow.name.clone(), bytes, count };
    let accounts = if run.per_flow { sender.begun } else { 1.0 };
    let state = sender.begun * demand.state;
    let kinds = if demand.is_answered { 2.0 } else { 1.0 };
    let times = accounts * kinds * DISTRIBUTION * distribution(delay);
    // What a path of several groups holds is shared among them.
    let sharing = run.flows.iter().filter(|other| other.path.iter().any(|l| flow.path.contains(l)));
    let all: f64 = sharing.map(|other| f64::from(other.count.max(1))).sum();
    let share = match demand.rate_bps {
        None => links.slowest(&flow.path) * (sender.count / all.max(1.0)).min(1.0),
        Some(_) => sender.wanted,
    };
    let per_second = share / 8.0 / f64::from(demand.frame);
    let (bytes, count) = if demand.is_answered {
        let count = (per_second * sender.rtt).min(sender.packets());
        (count * IN_FLIGHT, count)
    } else {
        let count = per_second * window(run, links).min(sender.seconds);
        (count * UNDER_WAY, count)
    };
    let mut terms = vec![
        term(Part::State, state, sender.begun),
        term(Part::Times, times, delay),
        term(Part::Flight, bytes, count),
    ];
    if let Some(begins) = demand.begins {
        let count = sender.count * sender.seconds * 1e9 / begins.interval_ns as f64;
        let carried = links.slowest(&flow.path) / 8.0 * sender.seconds;
        let finished = count.min(carried / begins.payload);
        let bytes = finished * begins.finished + (count - finished) * begins.open;
        terms.push(term(Part::Transfers, bytes, count));
    }
    terms
}

/// Seconds whose packets are under way at once: the windows in which the elements run, about
/// (`Simulation::measure_window`), and the way from the senders, which run ahead for a sample.
fn window(run: &Run, links: &Links) -> f64 {
    let answered = run.flows.iter().filter(|flow| flow.traffic.is_answered());
    let shortest = answered.map(|flow| flow.rtt_ns).min().unwrap_or(u64::MAX);
    let longest_way = run.flows.iter().map(|flow| flow.rtt_ns / 2).max().unwrap_or(0);
    let rates: f64 = links.most.iter().sum();
    let longest = PACKETS_PER_WINDOW as f64 * f64::from(MTU_FRAME) * 8.0 / rates.max(1.0);
    let seconds = |ns: u64| Span(ns).as_secs_f64();
    seconds(shortest.min(LONGEST_WINDOW.0)).min(longest) + seconds(longest_way)
}

fn of_samples(run: &Run, loads: &[Vec<Option<Load>>]) -> Term {
    let names: BTreeSet<_> = run.gauges().iter().map(|gauge| gauge.name).collect();
    // A class that nothing comes to has no rows.
    let inside = |(link, loads): (&LinkSpec, &Vec<Option<Load>>)| match link.qdisc {
        Queue::Tree(_) => loads.iter().flatten().count(),
        Queue::One(_) => bands(link),
    };
    let queues = run.links.iter().zip(loads).map(|each| 1 + inside(each));
    let rows = run.flows.len() + queues.sum::<usize>();
    let samples = run.duration_ns as f64 / run.sample_ns.max(1) as f64;
    let count = rows as f64 * samples;
    let row = ROW + VALUE * (COLUMNS + names.len()) as f64;
    Term { part: Part::Samples, name: String::new(), bytes: count * row, count }
}
