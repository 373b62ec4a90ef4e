//! The arrivals of a live run in the simulator: it has to decide the same, bit for bit.

use std::collections::VecDeque;
use std::io::BufRead;
use std::sync::{Arc, Mutex, PoisonError};

use l4slab_core::aqm::DropReason;
use l4slab_core::element::{ArrivalChain, ArrivalList, Flow, Outbox};
use l4slab_core::packet::{Flags, Packet};
use l4slab_core::probe::Totals;
use l4slab_core::scenario::Run;
use l4slab_core::sim::Simulation;
use l4slab_core::time::{Span, Time};
use l4slab_core::traffic::{Place, Traffic};
use serde::Serialize;
use serde_json::Value;

use crate::Refused;
use crate::log::{IS_CORRUPT, Log, Record, id};

/// When which packet left, and with which ECN field.
type Departure = (Time, u32, u8);
/// When which packet was lost, and where on its path.
type Loss = (Time, u32, u8);

/// What came out of paths: departures by flow group and direction, and losses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub departures: Vec<Vec<Departure>>,
    pub losses: Vec<Loss>,
}

/// How a log and the simulator compare.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pub build: String,
    pub arrivals: usize,
    pub departures: usize,
    pub marked: usize,
    pub lost: usize,
    /// Where they differ for the first time; `None`: nowhere.
    pub difference: Option<String>,
}

/// The packets of both hosts, each with the time at which it was sent, in order.
type Sent = [VecDeque<(Time, Packet)>; 2];

/// Traffic that sends what was recorded.
#[derive(Debug)]
struct Recorded {
    sent: Mutex<Sent>,
    arrived: Arc<Mutex<[Vec<Departure>; 2]>>,
}

/// Both hosts.
struct Hosts {
    sent: Sent,
    arrived: Arc<Mutex<[Vec<Departure>; 2]>>,
}

impl Traffic for Recorded {
    fn sender_name(&self) -> &str {
        "recorded"
    }
    // Packets that arrive at the same time are in the order of their flows' numbers, as in a live run.
    fn is_spread(&self) -> bool {
        true
    }
    fn joins_segments(&self) -> bool {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.iter().flatten().any(|(_, pkt)| pkt.flags.has(Flags::SUPER))
    }
    fn build(&self, place: &Place) -> Box<dyn Flow> {
        let mut sent =
            std::mem::take(&mut *self.sent.lock().unwrap_or_else(PoisonError::into_inner));
        sent.iter_mut().flatten().for_each(|(_, pkt)| pkt.group = place.group);
        Box::new(Hosts { sent, arrived: Arc::clone(&self.arrived) })
    }
}

impl Hosts {
    fn next(&self, side: usize) -> Time {
        self.sent[side].front().map_or(Time::NEVER, |(at, _)| *at)
    }
    fn arrive(&mut self, side: usize, pkt: &Packet) {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived[side].push((pkt.enqueued_at, id(pkt), pkt.ecn.get().bits()));
    }
    fn send(&mut self, side: usize, until: Time, out: &mut Outbox) -> Time {
        while self.next(side) < until {
            let (at, pkt) = self.sent[side].pop_front().expect("there is one");
            out.set_clock(at);
            out.push(pkt);
        }
        self.next(side)
    }
}

impl Flow for Hosts {
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time {
        while let Some(pkt) = arrivals.next(until, out) {
            self.arrive(1, pkt);
        }
        self.send(0, until, out)
    }
    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time {
        while let Some(pkt) = arrivals.next(until, out) {
            self.arrive(0, pkt);
        }
        self.send(1, until, out)
    }
    fn starts(&self) -> (Time, Time) {
        (self.next(0), self.next(1))
    }
    fn stop(&mut self, _: Time) {}
    fn totals(&self) -> Totals {
        Totals { received_bytes: 0, retransmitted: 0 }
    }
}

/// Runs the simulator of `run`, whose flow groups send `sent` instead, up to `end`, exclusively.
///
/// # Errors
/// One sentence: the run is not valid.
pub fn simulate(mut run: Run, sent: Vec<Sent>, end: Time) -> Result<Outcome, Refused> {
    let arrived: Vec<Arc<Mutex<[Vec<Departure>; 2]>>> =
        sent.iter().map(|_| Arc::default()).collect();
    let wrong = |e: l4slab_core::error::ScenarioError| Refused::input(e.to_string());
    for ((flow, sent), arrived) in run.flows.iter_mut().zip(sent).zip(&arrived) {
        let recorded = Recorded { sent: Mutex::new(sent), arrived: Arc::clone(arrived) };
        flow.traffic = Arc::new(recorded);
        (flow.count, flow.start_ns, flow.stop_ns) = (1, 0, None);
    }
    run.start_jitter_ns = 0;
    // Nobody asks for the time series.
    run.sample_ns = end.0.max(run.sample_ns);
    let mut simulation = Simulation::new(&run).map_err(wrong)?;
    simulation.keep_fates();
    simulation.run_until(end.saturating_sub(Span(1)));
    let fates = simulation.take_fates();
    // A forwarder sends on what is corrupt, and the host at the end discards it.
    let of_the_network = fates.lost.iter().filter(|(_, why)| *why != DropReason::Checksum);
    let mut losses: Vec<_> =
        of_the_network.map(|(pkt, _)| (pkt.enqueued_at, id(pkt), pkt.hop)).collect();
    losses.sort_unstable();
    let of = |one: &Arc<Mutex<[Vec<Departure>; 2]>>| {
        std::mem::take(&mut *one.lock().unwrap_or_else(PoisonError::into_inner))
    };
    let departures = arrived.iter().flat_map(of).collect();
    let mut outcome = Outcome { departures, losses };
    outcome.cut(end);
    Ok(outcome)
}

impl Outcome {
    /// Only what happened before `end`.
    fn cut(&mut self, end: Time) {
        self.departures.iter_mut().for_each(|all| all.retain(|(at, ..)| *at < end));
        self.losses.retain(|(at, ..)| *at < end);
    }

    fn difference(&self, simulated: &Outcome) -> Option<String> {
        let said = |what: &Option<(Time, u32, u8)>, name: &str| match what {
            None => "nothing more".to_owned(),
            Some((at, id, value)) => format!("packet {id} at {} ns with {name} {value}", at.0),
        };
        let both = self.departures.iter().zip(&simulated.departures).enumerate();
        let departures = both.map(|(n, (live, simulated))| {
            let way = if n % 2 == 0 { "there" } else { "back" };
            (format!("flow {}: departure {way}", n / 2 + 1), "ECN", live, simulated)
        });
        let losses = ("loss".to_owned(), "hop", &self.losses, &simulated.losses);
        let mut lists = departures.chain([losses]);
        lists.find_map(|(what, name, live, simulated)| {
            let n = live.iter().zip(simulated).take_while(|(a, b)| a == b).count();
            let (a, b) = (live.get(n).copied(), simulated.get(n).copied());
            (a != b).then(|| {
                let (a, b) = (said(&a, name), said(&b, name));
                format!("{what} {n}: the log has {a}, the simulator {b}")
            })
        })
    }
}

/// The run with the changes that somebody has made.
fn changed_run(text: &str, records: &[Record]) -> Result<Run, Refused> {
    let wrong = |e: serde_json::Error| Refused::input(e.to_string());
    let mut run: Value = serde_json::from_str(text).map_err(wrong)?;
    for record in records {
        if let Record::Change(text) = record {
            add_change(&mut run, serde_json::from_str(text).map_err(wrong)?);
        }
    }
    Run::from_json(&run.to_string()).map_err(|e| Refused::input(e.to_string()))
}

/// Puts a change at the end of those of a run's description.
pub fn add_change(run: &mut Value, change: Value) {
    match &mut run["at"] {
        Value::Array(changes) => changes.push(change),
        none => *none = Value::Array(vec![change]),
    }
}

/// Compares a log with the simulator.
///
/// # Errors
/// One sentence: the log cannot be read.
pub fn replay(from: impl BufRead) -> Result<Comparison, Refused> {
    let Log { header, records, end } = Log::read(from)?;
    let run = changed_run(header.run.get(), &records)?;
    let flows = run.flows.len();
    let mut sent: Vec<Sent> = vec![Sent::default(); flows];
    let mut live = Outcome { departures: vec![Vec::new(); 2 * flows], losses: Vec::new() };
    let (mut arrivals, mut marked) = (0_u32, 0);
    let mut came = Vec::new();
    let damaged = || Refused::input("is damaged: a packet of no flow group");
    for record in &records {
        match record {
            Record::Arrival(at, arrival) => {
                let pkt = arrival.packet(arrivals);
                let flow = usize::from(pkt.group.number);
                came.push((pkt.ecn.get().bits(), flow));
                let of_flow = sent.get_mut(flow).ok_or_else(damaged)?;
                of_flow[usize::from(pkt.is_ack())].push_back((*at, pkt));
                arrivals += 1;
            }
            Record::Departure { due, id, ecn, flags, .. } => {
                let (before, flow) = *came.get(*id as usize).ok_or_else(damaged)?;
                marked += usize::from(before != *ecn && *ecn == 3);
                // The simulator's host discards what is corrupt.
                if flags & IS_CORRUPT == 0 {
                    live.departures[2 * flow + usize::from(flags & 1)].push((*due, *id, *ecn));
                }
            }
            Record::Loss { at, id, hop, .. } => live.losses.push((*at, *id, *hop)),
            Record::Headers { .. } | Record::Change(_) | Record::Step { .. } | Record::End(_) => {}
        }
    }
    live.losses.sort_unstable();
    live.cut(end);
    let simulated = simulate(run, sent, end)?;
    Ok(Comparison {
        build: header.build,
        arrivals: arrivals as usize,
        departures: live.departures.iter().map(Vec::len).sum(),
        marked,
        lost: live.losses.len(),
        difference: live.difference(&simulated),
    })
}

#[cfg(test)]
mod tests {
    use l4slab_core::ecn::Ecn;
    use l4slab_core::element::Fates;
    use l4slab_core::packet::GroupId;
    use l4slab_core::rng::Rng;
    use l4slab_core::sim::transit::Transit;

    use super::*;
    use crate::log::{flow_number, set_id};

    /// A path with everything: links on both ways, impairments, changes of rate, queue, RTT and netem.
    fn run(qdisc: &str, more: &str) -> String {
        format!(
            r#"{{"duration_ns": 1000000000, "seed": 7, "links": [
                {{"name": "a", "rate_bps": 20000000, "qdisc": {qdisc} {more}}},
                {{"name": "b", "rate_bps": 5000000, "qdisc": "fq_codel"}}],
              "flows": [{{"name": "f", "kind": "cbr", "rate_bps": 1, "rtt_ns": 3000000, "path": ["a"],
                "reverse_path": ["b"]}},
                {{"name": "g", "kind": "cbr", "rate_bps": 1, "rtt_ns": 7000000, "path": ["b", "a"]}}],
              "impairs": [{{"name": "i", "netem": "delay 1ms 500us loss 1% duplicate 1% reorder 5% corrupt 1%",
                "before": "a", "direction": "both", "ack_thinning": 2, "ack_wait_ns": 1000000}}],
              "rewrites": [{{"flow": "f", "where": "after", "link": "a", "from": "ect0", "to": "drop"}}],
              "at": [{{"time_ns": 100000000, "link": "a", "rate_bps": 10000000}},
                {{"time_ns": 150000000, "flow": "f", "rtt_ns": 9000000}},
                {{"time_ns": 200000000, "impair": "i", "netem": "delay 2ms loss 2%"}},
                {{"time_ns": 250000000, "flow": "f", "rtt_ns": 1000000}}]}}"#
        )
    }

    /// Packets of some flows in both directions, some of them at the same time.
    fn traffic(rng: &mut Rng, group: u16, is_back: bool) -> VecDeque<(Time, Packet)> {
        let mut at = 0;
        let mut sent = VecDeque::new();
        while at < 400_000_000 {
            at += rng.below(if is_back { 1_500_000 } else { 700_000 }).saturating_sub(1_000);
            let direction = if is_back { Flags::ACK } else { Flags(0) };
            let is_data = rng.below(3) > 0;
            let kind = if is_data { Flags::DATA } else { Flags(0) };
            let length = if is_data { 200 + rng.below(1_300) as u32 } else { 66 };
            let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ect1][rng.below(4) as usize];
            let hash = [5, 77, 0x7fff_ffff][rng.below(3) as usize];
            let flow = flow_number(hash, group.into(), 2);
            let of = GroupId { number: group, account: 0 };
            let mut pkt = Packet::new(flow, of, direction.with(kind), length, ecn);
            pkt.payload = if is_data { length as u16 - 66 } else { 0 };
            pkt.seq = sent.len() as u32;
            sent.push_back((Time(at), pkt));
        }
        sent
    }

    /// Steps the network as a forwarder with a bad clock does.
    fn step(run: &Run, sent: &[Sent], rng: &mut Rng, end: Time) -> Outcome {
        let mut transit = Transit::new(run).unwrap();
        let (mut outcome, mut fates) = (Outcome::default(), Fates::default());
        outcome.departures = vec![Vec::new(); 2 * sent.len()];
        let sent: Vec<_> = sent.iter().flatten().collect();
        let mut next = vec![0; sent.len()];
        let mut now = 0;
        while transit.reached() < end {
            now += rng.below(3_000_000);
            for (sent, next) in sent.iter().zip(&mut next) {
                while let Some((at, pkt)) = sent.get(*next).filter(|(at, _)| at.0 < now) {
                    transit.send(*at, *pkt);
                    *next += 1;
                }
            }
            let horizon = transit.horizon(Time(now));
            transit.run_until(horizon.min(end));
            transit.take_fates(&mut fates);
            let departed = transit.departed.iter_mut().flatten();
            for (departed, found) in departed.zip(&mut outcome.departures) {
                for pkt in departed.drain(..).filter(|pkt| !pkt.flags.has(Flags::CORRUPT)) {
                    found.push((pkt.enqueued_at, id(&pkt), pkt.ecn.get().bits()));
                }
            }
        }
        outcome.losses = fates.lost.iter().map(|(p, _)| (p.enqueued_at, id(p), p.hop)).collect();
        outcome.losses.sort_unstable();
        outcome.cut(end);
        outcome
    }

    /// Steps decide as the simulator does, in three ways to cut the time.
    fn compare(text: &str, what: &str, seed: u64) {
        let read = || Run::from_json(text).unwrap();
        let mut rng = Rng::stream(seed, "replay", 0);
        let mut of = |group| [false, true].map(|is_back| traffic(&mut rng, group, is_back));
        let mut sent = vec![of(0), of(1)];
        for (number, (_, pkt)) in sent.iter_mut().flatten().flatten().enumerate() {
            set_id(pkt, number as u32);
        }
        let end = Time(420_000_000);
        let simulated = simulate(read(), sent.clone(), end).unwrap();
        for round in 0..3 {
            let stepped = step(&read(), &sent, &mut Rng::stream(round, "clock", 0), end);
            assert_eq!(stepped.difference(&simulated), None, "{what} {round}");
            assert!(stepped.departures.iter().all(|all| all.len() > 100), "{what}");
            assert!(stepped.losses.len() > 20, "{what}");
        }
    }

    #[test]
    fn media_in_steps_decide_as_in_the_simulator() {
        let media =
            ["wifi n20 mcs 3 per 0.2", "docsis down 20mbit up 5mbit", "leo loss 0.03", "nr"];
        for (seed, medium) in media.into_iter().enumerate() {
            let text = format!(
                r#"{{"duration_ns": 1000000000, "seed": 7, "links": [
                {{"name": "a", "rate_bps": 20000000, "qdisc": "pfifo limit 5", "medium": "{medium}"}},
                {{"name": "a.up", "rate_bps": 5000000, "qdisc": "pfifo limit 20", "up_of": "a"}}],
              "flows": [{{"name": "f", "kind": "cbr", "rate_bps": 1, "rtt_ns": 3000000, "path": ["a"],
                "reverse_path": ["a.up"]}},
                {{"name": "g", "kind": "cbr", "rate_bps": 1, "rtt_ns": 7000000, "path": ["a"],
                "reverse_path": ["a.up"], "station": "s"}}],
              "at": [{{"time_ns": 150000000, "flow": "f", "rtt_ns": 9000000}}]}}"#
            );
            compare(&text, medium, seed as u64);
        }
    }

    #[test]
    fn a_network_in_steps_decides_as_the_simulator() {
        let tree = r#", "classes": [{"id": "1", "rate_bps": 5000000, "ceil_bps": 20000000, "prio": 0, "quantum_bytes": 1514, "qdisc": "dualpi2"},
            {"id": "2", "rate_bps": 5000000, "ceil_bps": 20000000, "prio": 0, "quantum_bytes": 1514, "qdisc": "fq_codel"}],
            "filters": [{"ecn": "ect1", "class": "1"}]"#;
        let trace = r#", "rate_trace": {"steps": [[0, 20000000], [30000000, 4000000]], "repeat_ns": 60000000}"#;
        let cases = [
            ("\"dualpi2\"", ""),
            ("\"cake bandwidth 15mbit ack-filter\"", ""),
            ("\"fq_codel ce_threshold 1ms\"", ""),
            ("\"pfifo limit 20\"", ""),
            ("\"htb default 2\"", tree),
            ("\"pie ecn\"", trace),
        ];
        for (seed, (qdisc, more)) in cases.into_iter().enumerate() {
            let mut text = run(qdisc, more);
            if !more.is_empty() {
                // Neither a link with classes nor one with a trace changes its rate that way.
                text = text
                    .replace(r#"{"time_ns": 100000000, "link": "a", "rate_bps": 10000000},"#, "");
            }
            compare(&text, qdisc, seed as u64);
        }
    }
}
