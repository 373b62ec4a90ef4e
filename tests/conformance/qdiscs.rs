//! What every queue of the registry must hold, and the FIFOs' own rules. A new queue is tested here
//! by its registry line.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Bench, FRAME, Packet, ms};
use crate::parameters::{self, Case, Fair, case};
use l4slab_core::aqm::registry;
use l4slab_core::aqm::{Backlog, DropReason};
use l4slab_core::ecn::Ecn;
use l4slab_core::probe::Gauges;
use l4slab_core::rng::Rng;
use l4slab_core::time::Time;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

#[test]
fn pfifo_counts_packets() {
    let mut bench = Bench::new("pfifo limit 3");
    for _ in 0..5 {
        bench.put(0, Ecn::Ect1);
    }
    assert_eq!(bench.drops.iter().map(|d| d.pkt.id).collect::<Vec<_>>(), [3, 4], "tail drop");
    assert_eq!(bench.queue.backlog(), Backlog { packets: 3, bytes: 3 * u64::from(FRAME) });
    let ids: Vec<_> = std::iter::from_fn(|| bench.take(0)).map(|o| o.pkt.id).collect();
    assert_eq!(ids, [0, 1, 2]);

    let mut bench = Bench::new("pfifo");
    for _ in 0..1500 {
        bench.put(0, Ecn::NotEct);
    }
    assert_eq!((bench.packets(), bench.dropped(DropReason::Overflow)), (1000, 500));

    let mut bench = Bench::new("pfifo limit 0");
    bench.put(0, Ecn::NotEct);
    assert_eq!((bench.packets(), bench.drops.len()), (0, 1));
}

#[test]
fn bfifo_counts_bytes() {
    let mut bench = Bench::new("bfifo limit 3000b");
    bench.put_len(0, Ecn::NotEct, 1514);
    bench.put_len(0, Ecn::NotEct, 1487); // 3001: one too many
    bench.put_len(0, Ecn::NotEct, 1486); // 3000: fits
    assert_eq!(bench.queue.backlog(), Backlog { packets: 2, bytes: 3000 });
    assert_eq!(bench.drops[0].pkt.len, 1487);

    let mut bench = Bench::new("bfifo");
    for _ in 0..1500 {
        bench.put(0, Ecn::NotEct);
    }
    assert_eq!(bench.packets(), 1000);
}

#[test]
fn pfifo_head_drop_keeps_the_newest() {
    let mut bench = Bench::new("pfifo_head_drop limit 2");
    for _ in 0..4 {
        bench.put(0, Ecn::NotEct);
    }
    assert_eq!(bench.drops.iter().map(|d| d.pkt.id).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(bench.take(0).map(|o| o.pkt.id), Some(2));
    let mut bench = Bench::new("pfifo_head_drop limit 0");
    bench.put(0, Ecn::NotEct);
    assert_eq!((bench.packets(), bench.drops.len()), (0, 1));
}

/// Queues that change the order of packets of different flows.
const FLOW_QUEUES: &[&str] =
    &["cake", "cnq_", "fq", "hhf", "lfq_cobalt", "pfifo_fast", "sfq", "twin_codel_af"];

/// Packets that each queue gets, and how many of them with one set of parameters.
const PACKETS: u64 = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
const PACKETS_OF_A_SET: u64 = 20_000;
/// Values of DSCP; a flow has one of them.
const CLASSES: u64 = 8;

/// What a flow, or a band, waits for.
#[derive(Copy, Clone, Default)]
struct Waiting {
    packets: u64,
    /// What others like it had sent when it was served last, or began to wait.
    since: u64,
}

/// A queue under random load, with a tally of its own.
struct Trial<'c> {
    case: &'c Case,
    bench: Bench,
    random: Rng,
    now: u64,
    /// Codepoints by id.
    arrived: Vec<Ecn>,
    bytes_in: u64,
    delivered: u64,
    bytes_out: u64,
    dropped: u64,
    bytes_dropped: u64,
    /// By flow, or else by band: the id delivered last.
    last_id: BTreeMap<usize, u64>,
    by_flow: bool,
    flows: Vec<Waiting>,
    /// Flows that have waited for too long.
    late: Vec<u32>,
    /// Bytes that flows of each DSCP have sent.
    sent: [u64; CLASSES as usize],
    /// L and C, by the codepoint on arrival.
    bands: [Waiting; 2],
    band_sent: [u64; 2],
}

impl Trial<'_> {
    fn new(case: &Case, seed: u64) -> Trial<'_> {
        let mut random = Rng::stream(seed, "load", 0);
        let flows = (1 + random.below(40)) * CLASSES;
        Trial {
            case,
            bench: Bench::seeded(&case.tc, seed),
            random,
            now: 0,
            arrived: Vec::new(),
            bytes_in: 0,
            delivered: 0,
            bytes_out: 0,
            dropped: 0,
            bytes_dropped: 0,
            last_id: BTreeMap::new(),
            by_flow: FLOW_QUEUES.iter().any(|name| case.tc.starts_with(name)),
            flows: vec![Waiting::default(); flows as usize],
            late: Vec::new(),
            sent: [0; CLASSES as usize],
            bands: [Waiting::default(); 2],
            band_sent: [0; 2],
        }
    }

    /// Phases of different load, so that the queue both grows and empties; then it is emptied.
    fn run(&mut self) {
        while (self.arrived.len() as u64) < PACKETS_OF_A_SET {
            let load = 1 + self.random.below(99);
            for _ in 0..self.random.below(400) {
                let gap = match self.random.below(100) {
                    0..34 => 0,
                    34..98 => self.random.below(200_000),
                    _ => self.random.below(ms(40)),
                };
                self.advance(gap);
                if self.random.below(100) < load { self.arrival() } else { self.departure() }
            }
        }
        while self.bench.packets() > 0 {
            self.advance(1000);
            self.departure();
        }
    }

    fn advance(&mut self, gap: u64) {
        self.now += gap;
        while self.bench.queue.next_timer() <= Time(self.now) {
            let due = self.bench.queue.next_timer();
            self.bench.timer(due.0);
            assert!(self.bench.queue.next_timer() > due, "the timer moves on");
        }
    }

    fn arrival(&mut self) {
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][self.random.below(4) as usize];
        let len = 64 + self.random.below(u64::from(FRAME) - 63) as u32;
        // Half of the packets are those of one flow. All of a flow have one pair of hosts and one DSCP.
        let hog = self.random.below(2) == 0;
        let flow = if hog { 0 } else { self.random.below(self.flows.len() as u64) };
        let (n, class) = ((flow / CLASSES) as u32, flow % CLASSES);
        let dscp = (class as u8) << 3;
        let pkt =
            Packet { len, flow: flow as u32, hosts: (n % 3, n % 7), dscp, ..Packet::new(ecn) };
        let ahead = self.bench.queue.backlog().bytes;
        let before = self.bench.duplicates;
        self.bench.put_packet(self.now, pkt);
        let packets = 1 + self.bench.duplicates - before;
        self.arrived.push(ecn);
        self.bytes_in += u64::from(len) * packets;
        let flow = &mut self.flows[flow as usize];
        if flow.packets == 0 {
            flow.since = self.sent[class as usize];
            if matches!(self.case.fair, Fair::FlowsBehindQueue(_)) {
                flow.since += ahead;
            }
        }
        flow.packets += packets;
        let band = band_of(ecn);
        if self.bands[band].packets == 0 {
            self.bands[band].since = self.band_sent[1 - band];
        }
        self.bands[band].packets += packets;
        self.tally();
    }

    fn departure(&mut self) {
        let waiting = self.bench.packets();
        let mut taken = self.bench.take(self.now);
        // A queue that holds packets back says when to ask again.
        while taken.is_none() && self.bench.packets() > 0 {
            let due = self.bench.queue.next_timer();
            assert!(due > Time(self.now), "work conservation");
            assert!(due != Time::NEVER, "a queue lets go of its packets");
            self.now = due.0;
            self.bench.timer(self.now);
            taken = self.bench.take(self.now);
        }
        if let Some(out) = taken {
            assert!(waiting > 0, "a packet from nowhere");
            self.delivered += 1;
            self.bytes_out += u64::from(out.pkt.len);
            let order = if self.by_flow { out.pkt.flow as usize } else { out.band };
            if let Some(last) = self.last_id.insert(order, out.pkt.id) {
                let ordered = last < out.pkt.id || self.case.reorders;
                assert!(ordered, "order within a band or a flow");
            }
            let (was, is) = (self.arrived[out.pkt.id as usize], out.pkt.ecn);
            let ce = was != Ecn::NotEct && is == Ecn::Ce;
            let sce = was == Ecn::Ect0 && is == Ecn::Ect1 && out.marks.sce;
            assert!(is == was || ce || sce, "{was:?} became {is:?}");
            self.in_time(&out.pkt);
        }
        self.tally();
    }

    /// Neither its flow nor its band has waited for too long.
    fn in_time(&mut self, pkt: &Packet) {
        let class = pkt.flow as usize % CLASSES as usize;
        let each_class = self.flows.len() as u64 / CLASSES;
        let flow = &mut self.flows[pkt.flow as usize];
        let others = self.sent[class].saturating_sub(flow.since);
        let (each, exceptions) = match self.case.fair {
            Fair::Flows(each) => (each, 1),
            Fair::FlowsBehindQueue(each) => (each, 0),
            Fair::No | Fair::Bands(_) => (u64::MAX, 0),
        };
        if others > each.saturating_mul(each_class) && !self.late.contains(&pkt.flow) {
            self.late.push(pkt.flow);
            assert!(self.late.len() <= exceptions, "flow {} waited for {others} B", pkt.flow);
        }
        self.sent[class] += u64::from(pkt.len);
        flow.packets -= 1;
        flow.since = self.sent[class];
        if matches!(self.case.fair, Fair::FlowsBehindQueue(_)) {
            // Whatever waits now may stand between it and its next packet.
            flow.since += self.bench.queue.backlog().bytes;
        }
        let band = band_of(self.arrived[pkt.id as usize]);
        let others = self.band_sent[1 - band].saturating_sub(self.bands[band].since);
        if let Fair::Bands(bounds) = self.case.fair {
            assert!(others <= bounds[band], "band {band} waited for {others} B");
        }
        self.band_sent[band] += u64::from(pkt.len);
        self.bands[band].packets -= 1;
        self.bands[band].since = self.band_sent[1 - band];
    }

    fn tally(&mut self) {
        for dropped in self.bench.drops.drain(..) {
            self.dropped += 1;
            self.bytes_dropped += u64::from(dropped.pkt.len);
            let flow = &mut self.flows[dropped.pkt.flow as usize];
            flow.packets -= 1;
            if matches!(self.case.fair, Fair::FlowsBehindQueue(_)) {
                // Its turn has come, and what waits now may be before the next one.
                let class = dropped.pkt.flow as usize % CLASSES as usize;
                flow.since = self.sent[class] + self.bench.queue.backlog().bytes;
            }
            self.bands[band_of(self.arrived[dropped.pkt.id as usize])].packets -= 1;
        }
        let backlog = self.bench.queue.backlog();
        assert_eq!(
            self.arrived.len() as u64 + self.bench.duplicates,
            self.delivered + self.dropped + backlog.packets,
            "in + duplicates = out + dropped + backlog"
        );
        assert_eq!(self.bytes_in, self.bytes_out + self.bytes_dropped + backlog.bytes);
        let held = backlog.packets <= self.case.packets && backlog.bytes <= self.case.bytes;
        assert!(held, "limits: {backlog:?}");
    }
}

/// Where a dual queue puts a packet.
fn band_of(ecn: Ecn) -> usize {
    usize::from(!ecn.is_l4s())
}

/// Says upon a panic which queue it was.
struct Culprit<'c>(&'c Case, u64);

impl Drop for Culprit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}: {:?}", self.1, self.0);
        }
    }
}

#[derive(Default)]
struct Names(Vec<&'static str>);

impl Gauges for Names {
    fn gauge(&mut self, name: &'static str, _value: f64) {
        self.0.push(name);
    }
}

/// The first set of parameters are the defaults, the others are random.
fn keeps_its_promises(name: &str, required: &str) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let random = parameters::of(name);
    for seed in 0..PACKETS / PACKETS_OF_A_SET {
        let case = match &random {
            Some(random) if seed > 0 => random.new_tree(&mut runner).expect("a value").current(),
            _ => case(format!("{name} {required}"), u64::MAX, u64::MAX),
        };
        let _culprit = Culprit(&case, seed);
        let mut trial = Trial::new(&case, seed);
        trial.run();
        let mut told = Names::default();
        trial.bench.queue.probe(&mut told);
        let declared = registry::parse(&case.tc).expect("it was built").gauges();
        for name in told.0 {
            assert!(declared.iter().any(|gauge| gauge.name == name), "{name} is not declared");
        }
    }
}

#[test]
fn every_queue_keeps_its_promises() {
    let queues = registry::listing();
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(queue) = queues.get(next.fetch_add(1, Ordering::Relaxed)) {
                    keeps_its_promises(queue.info.name, queue.info.required);
                }
            });
        }
    });
}
