//! A QUIC upload shares a bottleneck with a CUBIC flow, or the test fails.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use l4slab::Setup;
use lab_quinn::upload;
use quinn_proto::congestion::{Controller, ControllerFactory, CubicConfig, NewReno, NewRenoConfig};

const SECOND: Duration = Duration::from_secs(1);

/// The share of the goodput that quinn gets next to CUBIC on 20 Mb/s, and the 99th percentile of the queueing delay, ms.
fn next_to_cubic<C: ControllerFactory + Send + Sync + 'static>(controller: C) -> (f64, f64) {
    let setup = Setup::new().link("b", 20_000_000, "dualpi2").rival("cubic", SECOND / 50);
    let setup = setup.endpoint("quinn", SECOND / 50).duration(SECOND * 20).warmup(SECOND * 5);
    let mut lab = setup.start().expect("a lab");
    assert!(upload(&mut lab, "quinn", controller) > 1_000_000);
    let results = lab.finish().expect("20 s");
    let quinn = results.flow("quinn").expect("its row");
    println!("share {:?}, sojourn {:?} ms", quinn.share, quinn.sojourn_ms_p99);
    (quinn.share.expect("traffic"), quinn.sojourn_ms_p99.expect("traffic"))
}

fn is_fair((share, p99): (f64, f64)) {
    assert!((0.3..0.7).contains(&share), "share {share}");
    assert!(p99 < 60.0, "queueing delay {p99} ms");
}

#[test]
fn cubic_shares_with_cubic() {
    let first = next_to_cubic(CubicConfig::default());
    is_fair(first);
    assert_eq!(first, next_to_cubic(CubicConfig::default()), "the same again");
}

#[test]
#[should_panic = "share"]
fn a_controller_that_is_deaf_does_not() {
    is_fair(next_to_cubic(Deaf));
}

/// NewReno that does not listen to losses and marks.
struct Deaf;
struct DeafReno(NewReno);

impl ControllerFactory for Deaf {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(DeafReno(NewReno::new(Arc::<NewRenoConfig>::default(), now, mtu)))
    }
}

impl Controller for DeafReno {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &quinn_proto::RttEstimator) {
        self.0.on_ack(now, sent, bytes, app_limited, rtt);
    }
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}
    fn on_mtu_update(&mut self, mtu: u16) {
        self.0.on_mtu_update(mtu);
    }
    fn window(&self) -> u64 {
        self.0.window().min(500_000)
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(DeafReno(self.0.clone()))
    }
    fn initial_window(&self) -> u64 {
        self.0.initial_window()
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
