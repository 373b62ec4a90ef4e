//! A link whose capacity is given over time, by rates or by single opportunities to deliver.
//!
//! The capacity up to a time is a sum that only grows: rates add to it steadily, opportunities at once.
//! A packet leaves as soon as earlier packets are paid for, as with a token bucket, and only while the link
//! has a rate or an opportunity. Unused time at a rate leaves a burst; unused opportunities leave nothing.

use crate::time::{Span, Time};
use crate::units::Rate;

/// Bits times nanoseconds per second, so that nothing is rounded.
type Amount = u128;

const PER_BIT: Amount = 1_000_000_000;

fn of_bytes(bytes: u64) -> Amount {
    Amount::from(bytes) * 8 * PER_BIT
}

/// From `at` on: at once so many bytes, and then this rate.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Step {
    pub at: Time,
    pub bytes: u64,
    pub rate: Rate,
}

/// Steps in the order of time, the first at zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Steps {
    pub steps: Vec<Step>,
    /// Then they begin again; without, the last one holds.
    pub period: Option<Span>,
}

impl Steps {
    /// When the step with this number ends.
    fn end(&self, step: usize) -> Time {
        let last = self.period.map_or(Time::NEVER, |period| Time(period.0));
        self.steps.get(step + 1).map_or(last, |next| next.at)
    }
    /// The step's capacity, if it ends.
    fn amount(&self, step: usize) -> Amount {
        let Step { at, bytes, rate } = self.steps[step];
        of_bytes(bytes) + Amount::from(rate.bps()) * Amount::from(self.end(step).since(at).0)
    }
    /// The capacity of one period.
    fn round(&self) -> Amount {
        (0..self.steps.len()).map(|step| self.amount(step)).sum()
    }
    /// Whether the capacity ever ends.
    pub fn runs_dry(&self) -> bool {
        match self.period {
            Some(_) => self.round() == 0,
            None => self.steps.last().is_none_or(|last| last.rate.bps() == 0),
        }
    }
    /// The capacity before `until`, in bits.
    pub fn bits_before(&self, until: Time) -> f64 {
        let (rounds, rest) = match self.period {
            Some(period) => (until.0 / period.0, until.0 % period.0),
            None => (0, until.0),
        };
        let begun = self.steps.partition_point(|step| step.at.0 < rest);
        let mut amount = if rounds > 0 { self.round() * Amount::from(rounds) } else { 0 };
        amount += (0..begun.saturating_sub(1)).map(|step| self.amount(step)).sum::<Amount>();
        if let Some(last) = begun.checked_sub(1).map(|step| self.steps[step]) {
            let since = Time(rest).since(last.at);
            amount += of_bytes(last.bytes) + Amount::from(last.rate.bps()) * Amount::from(since.0);
        }
        (amount / PER_BIT) as f64 + (amount % PER_BIT) as f64 * 1e-9
    }
    /// Upper bounds of rate and burst.
    pub fn peak(&self) -> (Rate, u64) {
        let rate = self.steps.iter().map(|step| step.rate).max().unwrap_or_default();
        let burst = self.steps.iter().map(|step| step.bytes).max().unwrap_or_default();
        let gaps =
            self.steps.windows(2).map(|two| two[1].at.since(two[0].at).0).filter(|ns| *ns > 0);
        let gap = gaps.min().unwrap_or(1_000_000_000);
        let of_bursts = of_bytes(burst) / Amount::from(gap);
        let of_bursts = u64::try_from(of_bursts).unwrap_or(u64::MAX);
        (Rate::from_bps(rate.bps().max(of_bursts).max(1)), burst)
    }
}

/// Decides what a link with such a capacity may send, and when.
#[derive(Clone, Debug)]
pub struct Trace {
    steps: Steps,
    /// The most that unused time leaves.
    burst: Amount,
    /// The current step, its start, and the capacity before it.
    step: usize,
    since: Time,
    before: Amount,
    /// Capacity that has been used, or has passed.
    used: Amount,
    /// When the next packet may leave if it has been waiting since the last one.
    next: Time,
}

impl Trace {
    pub fn new(steps: Steps, burst_bytes: u64) -> Trace {
        let burst =
            if steps.steps.iter().any(|step| step.bytes > 0) { 0 } else { of_bytes(burst_bytes) };
        let mut trace = Trace {
            steps,
            burst,
            step: 0,
            since: Time::ZERO,
            before: 0,
            used: 0,
            next: Time::ZERO,
        };
        trace.next = trace.seek(Time::ZERO);
        trace
    }
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// When the next packet may leave, as far as it was looked for.
    pub fn next(&self) -> Time {
        self.next
    }

    /// When a packet that waits at `now` may leave.
    pub fn ready(&mut self, now: Time) -> Time {
        if now > self.next {
            self.next = self.seek(now);
        }
        self.next
    }

    /// A packet of `bytes` leaves at `now`, which is when it may.
    pub fn charge(&mut self, now: Time, bytes: u32) {
        let Step { bytes: at_once, rate, .. } = self.steps.steps[self.step];
        // An opportunity is not one of those that have passed.
        let fresh = if now == self.since { of_bytes(at_once) } else { 0 };
        let passed = self.before + of_bytes(at_once) - fresh
            + Amount::from(rate.bps()) * Amount::from(now.since(self.since).0);
        self.used = self.used.max(passed.saturating_sub(self.burst)) + of_bytes(bytes.into());
        self.next = self.seek(now);
    }

    /// The first time from `from` on at which there is a rate or an opportunity, and all that was used is
    /// paid for.
    fn seek(&mut self, from: Time) -> Time {
        loop {
            let Step { at, bytes, rate } = self.steps.steps[self.step];
            let end = match self.steps.end(self.step) {
                Time::NEVER => Time::NEVER,
                end => self.since + end.since(at),
            };
            let at_once = self.before + of_bytes(bytes);
            if self.since >= from && bytes > 0 && at_once > self.used {
                return self.since;
            }
            if rate.bps() > 0 {
                let missing = self.used.saturating_sub(at_once);
                let wait = missing.div_ceil(Amount::from(rate.bps())) as u64;
                let time = self.since.saturating_add(Span(wait)).max(from);
                if time < end {
                    return time;
                }
            }
            if end == Time::NEVER {
                return Time::NEVER;
            }
            self.before += self.steps.amount(self.step);
            self.since = end;
            self.step += 1;
            if self.step == self.steps.steps.len() {
                self.step = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::service::TokenBucket;

    fn step(ms: u64, bytes: u64, mbit: u64) -> Step {
        Step { at: Time(ms * 1_000_000), bytes, rate: Rate::from_bps(mbit * 1_000_000) }
    }

    /// With one rate it is the token bucket, to the nanosecond.
    #[test]
    fn one_rate_is_a_token_bucket() {
        let rate = Rate::from_bps(30_000_001);
        let steps = vec![Step { at: Time::ZERO, bytes: 0, rate }];
        let mut trace = Trace::new(Steps { steps, period: None }, 1600);
        let mut bucket = TokenBucket::new(rate, 1600);
        let mut now = Time(5_000_000);
        for i in 0..10_000_u64 {
            let expected = bucket.ready_at().max(now);
            now = trace.ready(now);
            assert!(now.0.abs_diff(expected.0) <= 2, "packet {i}");
            trace.charge(now, 1514);
            bucket.charge(now, 1514);
            // Now and then it is idle.
            now += Span(if i % 100 == 0 { 2_000_000 } else { 0 });
        }
    }

    /// Each opportunity takes a full packet, or small ones of the same sum; unused ones are lost.
    #[test]
    fn an_opportunity_is_used_or_lost() {
        let steps = vec![step(0, 0, 0), step(3, 1514, 0), step(3, 1514, 0), step(7, 1514, 0)];
        let mut trace = Trace::new(Steps { steps, period: Some(Span::from_millis(10)) }, 1600);
        let mut left = Vec::new();
        let mut send = |trace: &mut Trace, from: u64, bytes: u32| {
            let at = trace.ready(Time(from * 1_000_000));
            trace.charge(at, bytes);
            left.push(at.0 / 1_000_000);
        };
        for from in [0, 3, 3, 7] {
            send(&mut trace, from, 1514);
        }
        // Those of 17 ms and 23 ms pass; two halves are one packet.
        send(&mut trace, 24, 757);
        send(&mut trace, 27, 757);
        send(&mut trace, 27, 1514);
        assert_eq!(left, [3, 3, 7, 13, 27, 27, 33]);
    }

    /// An outage sends nothing, and owes nothing afterwards.
    #[test]
    fn nothing_leaves_in_an_outage() {
        let steps =
            Steps { steps: vec![step(0, 0, 10), step(10, 0, 0), step(20, 0, 10)], period: None };
        assert!((steps.bits_before(Time(15_000_000)) - 1e5).abs() < 1e-6);
        assert!((steps.bits_before(Time(30_000_000)) - 2e5).abs() < 1e-6);
        let mut trace = Trace::new(steps, 1600);
        assert_eq!(trace.ready(Time(12_000_000)), Time(20_000_000));
        trace.charge(Time(20_000_000), 1514);
        // The burst of 1600 B that was left when it began pays for it.
        assert_eq!(trace.ready(Time(20_000_000)), Time(20_000_000));
    }

    #[test]
    fn what_it_carries_is_known_over_many_rounds() {
        let steps = vec![step(0, 0, 8), step(5, 100, 0)];
        let steps = Steps { steps, period: Some(Span::from_millis(10)) };
        let bits = |ms: u64| steps.bits_before(Time(ms * 1_000_000));
        assert_eq!(
            [bits(0), bits(5), bits(6), bits(10), bits(25)],
            [0.0, 40_000.0, 40_800.0, 40_800.0, 121_600.0]
        );
    }
}
