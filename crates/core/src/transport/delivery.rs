//! What has been delivered, and at which rate (draft-cheng-iccrg-delivery-rate).

use crate::cc::RateSample;
use crate::time::{Span, Time};

/// Running totals of what has been delivered.
#[derive(Copy, Clone, Debug, Default)]
pub struct Delivery {
    /// Segments delivered, by cumulative or selective acknowledgement.
    pub segments: u32,
    /// Payload bytes, likewise.
    pub bytes: u64,
    /// Segments reported as marked.
    pub ce: u32,
    /// When the last one was, µs.
    pub at_us: u64,
    /// When the current flight began, µs.
    pub first_sent_us: u64,
    /// Segments in flight, of the last one sent while the application had no data; 0: not limited.
    pub app_limited_until: u32,
}

/// The state of the connection when a segment was sent.
#[derive(Copy, Clone, Debug)]
pub struct Departure {
    pub sent_at: Time,
    /// How long before it was sent its flight began.
    pub flight_us: u32,
    /// How long before it was sent something was delivered last.
    pub since_delivery_us: u32,
    /// `Delivery::segments` when it was sent.
    pub delivered: u32,
    pub app_limited: bool,
}

/// Zero if `earlier` is the later one. What is longer than 4295 s counts as this.
#[inline]
pub fn micros_between(later: Time, earlier: Time) -> u32 {
    fit(later.micros_since(earlier))
}

/// The same of two instants that are known to be in this order.
#[inline(always)]
pub fn micros_after(earlier: Time, later: Time) -> u32 {
    fit(later.as_micros() - earlier.as_micros())
}

#[inline(always)]
fn fit(us: u64) -> u32 {
    us.min(u64::from(u32::MAX)) as u32
}

impl Delivery {
    /// The first segment of a flight leaves.
    #[inline(always)]
    pub fn begin_flight(&mut self, now: Time) {
        self.first_sent_us = now.as_micros();
        self.at_us = now.as_micros();
    }
    #[inline(always)]
    pub fn count(&mut self, now: Time, segments: u32, bytes: u32) {
        self.segments += segments;
        self.bytes += u64::from(bytes);
        self.at_us = now.as_micros();
    }
    #[inline(always)]
    pub fn departure(&self, now: Time) -> Departure {
        let us = now.as_micros();
        Departure {
            sent_at: now,
            flight_us: fit(us - self.first_sent_us),
            since_delivery_us: fit(us - self.at_us),
            delivered: self.segments,
            app_limited: self.app_limited_until > 0,
        }
    }
    /// With so many segments in flight, the application or the controller holds the sender back.
    pub fn limit(&mut self, in_flight: u32) {
        self.app_limited_until = (self.segments + in_flight).max(1);
    }
    /// What was sent while the application had no data may all have been delivered.
    #[inline(always)]
    pub fn update_limit(&mut self) {
        if self.app_limited_until > 0 && self.segments > self.app_limited_until {
            self.app_limited_until = 0;
        }
    }
    /// The rate sample of an ACK whose newest segment left so.
    #[inline(always)]
    pub fn sample(&self, now: Time, sent: Departure, min_rtt_us: u32) -> RateSample {
        let ack_phase = micros_between(now, sent.sent_at).saturating_add(sent.since_delivery_us);
        let interval_us = sent.flight_us.max(ack_phase);
        // Faster than the smallest RTT: ACK compression or an ambiguous retransmission.
        let void = interval_us < min_rtt_us;
        RateSample {
            delivered: self.segments - sent.delivered,
            interval: Span::from_micros(if void { 0 } else { interval_us.into() }),
            prior_delivered: sent.delivered,
            app_limited: sent.app_limited,
            ..RateSample::default()
        }
    }
}
