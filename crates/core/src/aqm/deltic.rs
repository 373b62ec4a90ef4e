//! DelTiC, "delay time control": one queue, and three controllers that mark SCE, mark CE and drop.
//!
//! Each controller has a frequency f and aims at a delay of 1/f. A delta-sigma integrator sums up
//! the change of the delay and its distance from the target; an oscillator runs at f times that
//! sum, and each of its turns is one signal. At a delay that steps to the target and stays there,
//! the sum is 1 and the signals come at f. Drops come before CE, CE before SCE.
//!
//! Delays that come from the link's own pace (one frame after the other, or transmission in
//! bursts) are forgiven: the mean time between two departures, weighted by itself, is taken off.
//!
//! Source: github.com/chromi/sce (`deltic.c`, `sch_deltic-polya.c`; `tc` calls it `deltic_polya`
//! since it has siblings). Frequencies have 16 bits after the point there, as here; the packet
//! that leaves the queue empty is not dropped. There is no limit to what may wait.

use std::any::Any;

use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, MarkReason, Marking, Pkt, Qdisc, QueueCx,
    Separation,
};
use crate::params::kinds::{Spec, params, value};
use crate::params::{Described, Gauge, gauge};
use crate::tc;
use crate::time::{Span, Time};

const SECOND: i64 = 1_000_000_000;
/// Bits after the point of a frequency.
const SHIFT: u32 = 16;
/// Frequencies without `tc`'s keywords: targets of 5 ms, 25 ms and 125 ms (Linux).
const SCE_HZ: u32 = 200;
const ECN_HZ: u32 = 40;
const DROP_HZ: u32 = 8;

/// A frequency in units of 2^-16 Hz.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Frequency(pub u32);

impl Frequency {
    pub const fn hz(hz: u32) -> Frequency {
        Frequency(hz << SHIFT)
    }
    fn as_hz(self) -> f64 {
        f64::from(self.0) / f64::from(1 << SHIFT)
    }
}

/// a b, where both are in nanoseconds.
#[inline]
fn product(a: i64, b: i64) -> i64 {
    (i128::from(a) * i128::from(b) / i128::from(SECOND)) as i64
}

/// One controller. Its quantities are in units of 10^-9.
#[derive(Clone, Debug)]
pub struct Control {
    f: Frequency,
    target: i64,
    sum: i64,
    /// The delay it saw last.
    delay: i64,
    seen: Time,
    turn: i64,
}

impl Control {
    /// `None` at frequency 0.
    pub fn new(f: Frequency) -> Option<Control> {
        let target = ((SECOND as u64) << SHIFT).checked_div(u64::from(f.0))? as i64;
        Some(Control { f, target, sum: 0, delay: 0, seen: Time::ZERO, turn: 0 })
    }

    #[inline]
    fn times_f(&self, x: i64) -> i64 {
        ((i128::from(x) * i128::from(self.f.0)) >> SHIFT) as i64
    }

    /// A packet that waited `delay` leaves; true if it is to carry the signal.
    #[inline]
    pub fn signals(&mut self, now: Time, delay: Span) -> bool {
        let delay = delay.0 as i64;
        let mut interval = now.since(self.seen).0 as i64;
        if interval > SECOND {
            // After a pause: a short queue forgets, a long one counts a second.
            interval = SECOND;
            if delay < self.target {
                interval = 0;
                self.sum = 0;
            }
        }
        let change = delay - self.delay + product(delay - self.target, interval);
        self.sum += self.times_f(change);
        if self.sum < 0 {
            self.sum = 0;
            self.turn = 0;
        }
        self.delay = delay;
        self.seen = now;
        if delay * 2 < self.target {
            return false;
        }
        self.turn += self.times_f(product(self.sum, interval));
        let signal = self.turn >= SECOND;
        if signal {
            self.turn -= SECOND;
        }
        if self.turn > SECOND {
            // More signals than packets: the sum would only wind up.
            self.sum -= self.sum >> 4;
        }
        signal
    }

    /// Signals per second now.
    fn rate_hz(&self) -> f64 {
        self.sum as f64 * 1e-9 * self.f.as_hz()
    }
}

/// Mean time between departures from a queue that is not empty, each weighted by itself.
#[derive(Clone, Debug, Default)]
pub struct Jitter {
    /// The last departure, or when the queue was last empty.
    since: Time,
    mean: u64,
}

impl Jitter {
    #[inline]
    pub fn queue_begins(&mut self, now: Time) {
        self.since = now;
    }
    /// A packet leaves. The jitter after it.
    #[inline]
    pub fn departure(&mut self, now: Time) -> Span {
        let second = SECOND as u64;
        let interval = now.since(self.since).0.min(second);
        self.since = now;
        self.mean = (interval * interval + self.mean * (second - interval)) / second;
        Span(self.mean)
    }
}

params! {
    /// The parameters, by their names in `tc`; zero switches a controller off.
    pub struct DelticConfig {
        /// frequency of SCE marks, and 1 / their target
        sce_resonance: Frequency = Frequency::hz(SCE_HZ), frequency()
            .called(&["sce-resonance"]).or("no-sce", Frequency(0), "no SCE marks"), "chromi/sce: a target of 5 ms";
        /// frequency of CE marks, and 1 / their target
        ecn_resonance: Frequency = Frequency::hz(ECN_HZ), frequency()
            .called(&["ecn-resonance"]).or("no-ecn", Frequency(0), "no CE marks"), "chromi/sce: 25 ms";
        /// frequency of drops, and 1 / their target
        drop_resonance: Frequency = Frequency::hz(DROP_HZ), frequency()
            .called(&["drop-resonance"])
            .or("no-drop", Frequency(0), "no drops but those for CE marks on Not-ECT"), "chromi/sce: 125 ms";
    }
}

/// The three controllers.
#[derive(Clone, Debug)]
pub struct Controls {
    sce: Option<Control>,
    ecn: Option<Control>,
    drop: Option<Control>,
}

impl Controls {
    pub fn new(config: &DelticConfig) -> Controls {
        Controls {
            sce: Control::new(config.sce_resonance),
            ecn: Control::new(config.ecn_resonance),
            drop: Control::new(config.drop_resonance),
        }
    }

    /// Marks a packet that waited `delay`; true if it is to be dropped.
    #[inline]
    pub fn drops<P: Pkt>(&mut self, delay: Span, pkt: &mut P, cx: &mut QueueCx<P>) -> bool {
        let now = cx.now;
        let signals = |control: &mut Option<Control>| {
            control.as_mut().is_some_and(|control| control.signals(now, delay))
        };
        let (sce, ecn) = (signals(&mut self.sce), signals(&mut self.ecn));
        if signals(&mut self.drop) {
            return true;
        }
        if ecn {
            return !cx.mark(pkt, MarkReason::Aqm);
        }
        if sce {
            cx.mark_sce(pkt);
        }
        false
    }

    pub fn probe(&self, out: &mut dyn Gauges) {
        for (name, control) in SIGNALS.into_iter().zip([&self.sce, &self.ecn, &self.drop]) {
            if let Some(control) = control {
                out.gauge(name, control.rate_hz());
            }
        }
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct Deltic<P> {
    queue: Queue<P>,
    controls: Controls,
    jitter: Jitter,
}

impl<P: Pkt + Send> Aqm<P> for Deltic<P> {
    #[inline]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        if self.queue.is_empty() {
            self.jitter.queue_begins(cx.now);
        }
        self.queue.push(pkt);
    }

    #[inline]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        loop {
            let mut pkt = self.queue.pop()?;
            let jitter = self.jitter.departure(cx.now);
            let delay = cx.now.since(pkt.enqueued_at()) - jitter;
            if self.controls.drops(delay, &mut pkt, cx) && !self.queue.is_empty() {
                cx.drop(pkt, DropReason::Aqm);
                continue;
            }
            return Some(pkt);
        }
    }

    /// A controller whose frequency stays continues.
    fn change(&mut self, to: &dyn Any, _cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let fresh = Controls::new(to.downcast_ref::<DelticConfig>().ok_or_else(Vec::new)?);
        let Controls { sce, ecn, drop } = &mut self.controls;
        for (control, fresh) in [(sce, fresh.sce), (ecn, fresh.ecn), (drop, fresh.drop)] {
            let frequency = |control: &Option<Control>| control.as_ref().map(|control| control.f);
            if frequency(control) != frequency(&fresh) {
                *control = fresh;
            }
        }
        Ok(())
    }
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.queue.bytes() }
    }
    /// Signals per second of each controller, and the jitter forgiven.
    fn probe(&self, out: &mut dyn Gauges) {
        self.controls.probe(out);
        out.gauge("jitter_ms", Span(self.jitter.mean).as_millis_f64());
    }
}

fn frequency() -> Spec<Frequency> {
    value(
        "FREQ",
        "a frequency below 65536 Hz such as 200Hz, 0.2kHz or 200",
        |s| {
            let (number, unit) = tc::parse_float(s)?;
            let hz = number
                * match unit.to_ascii_lowercase().as_str() {
                    "" | "hz" => 1.0,
                    "khz" => 1e3,
                    _ => return None,
                };
            let fits = (0.0..65536.0).contains(&hz);
            fits.then(|| Frequency((hz * f64::from(1 << SHIFT)) as u32))
        },
        |f| format!("{}Hz", f.as_hz()),
        |rng| format!("{:.2}Hz", 500.0 * rng.unit()),
        vec!["65536".to_owned(), "-1Hz".to_owned(), "1s".to_owned()],
    )
}

const SIGNALS: [&str; 3] = ["sce_signals_hz", "ce_signals_hz", "drop_signals_hz"];

impl Described for DelticConfig {
    const NAME: &'static str = "deltic";
    const SUMMARY: &'static str =
        "delay time control: a delta-sigma integrator each for SCE marks, CE marks and drops";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        gauge(SIGNALS[0], "Hz", "SCE marks per second of the controller"),
        gauge(SIGNALS[1], "Hz", "the same of CE marks"),
        gauge(SIGNALS[2], "Hz", "the same of drops"),
        gauge("jitter_ms", "ms", "delay forgiven as the link's own pace"),
    ];
}

impl Qdisc for DelticConfig {
    const SEPARATION: Separation = Separation::Single;
    const MARKING: Marking = Marking::Always;

    fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
        let controls = Controls::new(self);
        Box::new(Deltic { queue: Queue::new(), controls, jitter: Jitter::default() })
    }
}
