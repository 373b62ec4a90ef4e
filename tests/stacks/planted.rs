//! NewReno of RFC 9002, Appendix B, with a fault on demand.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;

/// What differs from the RFC: the factor on a mark, and the least window in packets.
#[derive(Debug, Clone, Copy)]
pub struct Planted {
    pub on_mark: f64,
    pub least: u64,
}

#[derive(Debug, Clone)]
struct Reno {
    of: Planted,
    mtu: u64,
    window: u64,
    ssthresh: u64,
    acked: u64,
    recovery_began: Instant,
}

impl ControllerFactory for Planted {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let mtu = u64::from(mtu);
        Box::new(Reno { of: *self, mtu, window: 14720, ssthresh: u64::MAX, acked: 0, recovery_began: now })
    }
}

impl Controller for Reno {
    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, app_limited: bool, _: &RttEstimator) {
        if app_limited || sent <= self.recovery_began {
            return;
        }
        if self.window < self.ssthresh {
            self.window += bytes;
            return;
        }
        self.acked += bytes;
        if self.acked >= self.window {
            self.acked -= self.window;
            self.window += self.mtu;
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        if sent <= self.recovery_began {
            return;
        }
        self.recovery_began = now;
        // quinn tells of a mark as of a loss of nothing.
        let factor = if lost == 0 { self.of.on_mark } else { 0.5 };
        let least = self.of.least * self.mtu;
        self.window = ((self.window as f64 * factor) as u64).max(least);
        self.ssthresh = self.window;
        if persistent {
            self.window = least;
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut told = ControllerMetrics::default();
        told.congestion_window = self.window;
        told.ssthresh = Some(self.ssthresh);
        told
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        14720
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
