//! A run that goes on in steps, while somebody outside holds the window of a flow or the parameters of a
//! queue: the simulator's side of `l4slab.gym`.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use l4slab_core::aqm::tree::Queue as LinkQueue;
use l4slab_core::cc::own::{CONTROLLERS, MOST_WINDOW};
use l4slab_core::cc::{Ack, Congestion, CongestionControl, Constants, EcnWish, Pace, Window};
use l4slab_core::params::declared::{Declaration, Table, Values};
use l4slab_core::rng::Rng;
use l4slab_core::scenario::Run;
use l4slab_core::sim::Simulation;
use l4slab_core::time::{Span, Time};
use pyo3::prelude::*;

use super::refused;

/// The names of `cc` of the flow whose window is held: with ECT(1), and without its own ECN.
const HELD: [(&str, EcnWish); 2] =
    [("held-ect1#steps", EcnWish::Ect1AccEcn), ("held#steps", EcnWish::NotEct)];
const ENDLESS_NS: u64 = 1 << 60;

/// The decision from outside, and the connection's reports since then.
#[derive(Default)]
struct Hand {
    cwnd: u32,
    mss: u32,
    ack: Ack,
}

type Shared = Arc<Mutex<Hand>>;

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// Whose simulation is being made.
    static MAKING: RefCell<Shared> = RefCell::default();
}

struct Maker(EcnWish);

impl l4slab_core::cc::own::Maker for Maker {
    fn make(&self, _: &Values, _: Rng) -> Box<dyn CongestionControl> {
        Box::new(Held { hand: MAKING.with_borrow(Arc::clone), pacing_rate: None, ecn: self.0 })
    }
}

/// A window that nothing but the hand moves, paced over a round trip.
struct Held {
    hand: Shared,
    pacing_rate: Option<u64>,
    ecn: EcnWish,
}

impl CongestionControl for Held {
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        let mut hand = lock(&self.hand);
        hand.ack = ack.clone();
        hand.mss = w.mss;
        w.cwnd = hand.cwnd;
        let bytes = u64::from(w.cwnd) * u64::from(w.mss);
        self.pacing_rate = (bytes * 8_000_000).checked_div(ack.rtt.srtt8);
    }
    fn on_congestion(&mut self, _: Congestion, _: Time, w: &mut Window) {
        w.cwnd = lock(&self.hand).cwnd;
    }
    fn constants(&self) -> Constants {
        Constants::governing(self.ecn)
    }
    fn pace(&self) -> Pace {
        Pace { rate: self.pacing_rate, ..Pace::default() }
    }
}

/// A run that goes on in steps.
#[pyclass]
pub struct Steps {
    simulation: Mutex<Simulation>,
    hand: Shared,
    run: Run,
    now: Time,
}

/// Of a queue in a step: its name, packets that arrived, left, were marked and dropped, bytes that left, the sum
/// of their times in the queue in ns, and packets that wait.
type Queue = (&'static str, u64, u64, u64, u64, u64, u64, u64);

#[pymethods]
impl Steps {
    /// Begins a run. A ValueError says what is wrong with the description.
    #[new]
    fn new(run_json: &str) -> PyResult<Steps> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            for (name, ecn) in HELD {
                let nothing = Declaration {
                    name: name.to_owned(),
                    summary: String::new(),
                    parameters: Vec::new(),
                    gauges: Vec::new(),
                    bands: Vec::new(),
                };
                let table = Table::declare(nothing).expect("it declares nothing");
                CONTROLLERS.register(name, table, Some(Box::new(Maker(ecn))));
            }
        });
        let mut run = Run::from_json(run_json).map_err(refused)?;
        // It ends when nobody steps any more, and whoever steps takes the samples.
        (run.duration_ns, run.sample_ns) = (ENDLESS_NS, ENDLESS_NS);
        let hand = Shared::default();
        lock(&hand).cwnd = l4slab_core::cc::INITIAL_WINDOW;
        MAKING.set(hand.clone());
        let simulation = Simulation::new(&run).map_err(refused)?;
        Ok(Steps { simulation: Mutex::new(simulation), hand, run, now: Time::ZERO })
    }

    /// Runs on for `step_ns`; returns the time that has been reached.
    fn advance(&mut self, step_ns: u64) -> u64 {
        self.now += Span(step_ns);
        self.simulation.get_mut().unwrap_or_else(PoisonError::into_inner).run_until(self.now);
        self.now.0
    }

    /// The same with a window of the flow, segments, which holds from its next ACK on. Returns the time, and what
    /// its newest ACK told: payload of a segment, bytes; segments delivered, marked and lost so far; smoothed and
    /// least RTT, us; segments in flight.
    fn step(&mut self, step_ns: u64, cwnd: u32) -> (u64, u32, u32, u32, u64, u32, u32, u32) {
        lock(&self.hand).cwnd = cwnd.clamp(1, MOST_WINDOW);
        let now = self.advance(step_ns);
        let Hand { mss, ack: a, .. } = &*lock(&self.hand);
        let (srtt_us, in_flight) = (a.rtt.srtt_us(), a.flight.now);
        (
            now,
            *mss,
            a.totals.delivered,
            a.totals.delivered_ce,
            a.flight.lost_total,
            srtt_us,
            a.rtt.min_us,
            in_flight,
        )
    }

    /// The queues of a link since this was last asked: first all of it, then those inside.
    fn queues(&mut self, link: &str) -> PyResult<Vec<Queue>> {
        let number = self.run.link(link).map_err(refused)?;
        let simulation = self.simulation.get_mut().unwrap_or_else(PoisonError::into_inner);
        let sample = simulation.link_mut(number).sample();
        let in_force = sample.into_iter().filter(|queue| queue.is_present);
        let row = |q: l4slab_core::net::link::QueueSample| {
            let c = q.counts;
            (q.name, c.arrived, c.sent, c.marked, c.dropped, c.sent_bytes, c.sojourn_ns, q.backlog)
        };
        Ok(in_force.map(row).collect())
    }

    /// Other parameters of a link's queue, while packets wait (`tc qdisc change`). A ValueError says what is
    /// wrong with them.
    fn change_qdisc(&mut self, link: &str, qdisc: &str) -> PyResult<()> {
        let number = self.run.link(link).map_err(refused)?;
        let LinkQueue::One(before) = &self.run.links[number].qdisc else {
            return Err(refused(format!("link \"{link}\" has classes; give it one queue")));
        };
        let to = before.changed(qdisc).map_err(refused)?.config;
        let simulation = self.simulation.get_mut().unwrap_or_else(PoisonError::into_inner);
        simulation.set_qdisc(number, to);
        Ok(())
    }
}
