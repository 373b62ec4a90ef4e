//! PI2, PI Improved with a Square (De Schepper et al., CoNEXT 2016), as the authors' Linux module of
//! 2016 has it (`sch_pi2` of olgabo/dualpi2).
//!
//! The PI controller of PIE without its heuristics moves one probability p. A scalable sender keeps
//! about 1/p packets in flight, so its packets are marked with p. A Reno-like sender keeps about
//! 1/sqrt(p), so its packets are dropped, or marked, with (p/k)^2: then the step of p that moves the
//! queue by so much is the same at every p, and PIE's tuning of gains is not needed. k makes up for
//! the constants of the two rate laws.
//!
//! Everything is decided when a packet arrives. p ends at 1 and with it the classic probability at
//! 1/k^2: whoever does not respond to that fills the queue to `limit`. Scalable packets are never
//! dropped by the law.
//!
//! With `dualq` (all ECT) or `dualq_ect1` the scalable packets wait in a queue L of their own; it is
//! served as a time-shifted FIFO and marks besides what waited longer than `l_thresh`. This is the
//! ancestor of DualPI2. There p' is the classic side of the coupling, here p is the scalable one:
//! p = k p', and so `alpha` and `beta` are k times those of DualPI2. The gauges are those of DualPI2.
//!
//! The module's integers are kept, with one surprise: p idles down not by 2 % at a time, but from
//! above 1 % to below at once, see [`Pi2::update`].

use super::pie::{DepartureRate, from_ticks, to_ticks};
use super::registry::{LinkInfo, Qdisc};
use super::scheduler::{BANDS, C, L, Queues, Scheduler, age};
use super::{Aqm, Backlog, DropReason, Gauges, MarkReason, Pkt, QueueCx, jiffies};
use crate::ecn::Ecn;
use crate::rng::Rng;
use crate::tc::{self, Args, Param, TcError, param};
use crate::time::{Span, Time};
use crate::units::MTU_FRAME;

/// Probability 1.
const MAX_PROB: u32 = u32::MAX;
/// Gains are given in 1/16 Hz and delays counted in ticks of 64 ns, as in PIE.
const TICKS_PER_SECOND: u32 = 15_625_000;
const GAIN_SHIFT: u32 = 4;
const ALPHA_MAX: u32 = 32_000;
const BETA_MAX: u32 = 320_000;
const K_MAX: u32 = 64;
/// No marks and no drops while less than two full frames wait.
const MIN_BACKLOG: u64 = 2 * MTU_FRAME as u64;
/// Bytes over which the departure rate is measured.
const RATE_THRESHOLD: u64 = 10_000;

/// The parameters, by their names in the module's `tc`.
#[derive(Clone, PartialEq, Debug)]
pub struct Pi2Config {
    /// In packets, both queues together.
    pub limit: u32,
    pub target: Span,
    pub tupdate: Span,
    /// In 1/16 Hz.
    pub alpha: u32,
    /// In 1/16 Hz.
    pub beta: u32,
    pub k: u32,
    pub bytemode: bool,
    pub ecn: EcnMode,
    pub scalable: Scalable,
    pub l_thresh: Span,
    pub t_shift: Span,
}

/// Are packets marked, and are there two queues?
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum EcnMode {
    Drop,
    Mark,
    /// ECT(1) and CE wait in L.
    DualQEct1,
    /// All ECT wait in L.
    DualQ,
}

/// Which packets are of scalable senders.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Scalable {
    None,
    /// ECT(1) and CE.
    Ect1,
    AllEct,
}

impl Default for Pi2Config {
    fn default() -> Self {
        Pi2Config {
            limit: 1000,
            target: Span::from_millis(20),
            tupdate: Span::from_millis(30),
            alpha: 10, // 0.625 Hz
            beta: 100, // 6.25 Hz
            k: 2,
            bytemode: false,
            ecn: EcnMode::Mark,
            scalable: Scalable::AllEct,
            l_thresh: Span::from_millis(1),
            t_shift: Span::from_millis(40),
        }
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct Pi2<P> {
    queues: Queues<P>,
    /// p in units of 1/MAX_PROB.
    p: u32,
    /// The delay that the last update saw, in ticks.
    qdelay: u64,
    /// Of C only; the backlog it is held against is that of both queues.
    rate: DepartureRate,
    scheduler: Scheduler,
    next_update: Time,
    config: Pi2Config,
}

impl<P: Pkt> Pi2<P> {
    fn update(&mut self) {
        let gain = |g: u32| i64::from(g.wrapping_mul(MAX_PROB / TICKS_PER_SECOND) >> GAIN_SHIFT);
        let backlog = self.queues.bytes();
        let (qdelay, last) = (self.rate.delay(backlog), self.qdelay);
        let target = to_ticks(self.config.target) as i64;
        let delta = ((qdelay as i64 - target) * gain(self.config.alpha))
            .wrapping_add((qdelay as i64 - last as i64) * gain(self.config.beta));
        // Of a change by 100 % or more, 32 bits are left; otherwise p stops at 0 and 1.
        let p = self.p.wrapping_add(delta as u32);
        let wrapped = if delta > 0 { p < self.p } else { p > self.p };
        self.p = match (wrapped, delta > 0) {
            (false, _) => p,
            (true, true) => MAX_PROB,
            (true, false) => 0,
        };
        if qdelay == 0 && last == 0 && backlog == 0 {
            // 98 % of p, in 32 bits: of a p above 1/98 only the rest is left.
            self.p = self.p.wrapping_mul(98) / 100;
        }
        self.qdelay = qdelay;
    }

    fn is_scalable(&self, ecn: Ecn) -> bool {
        match (self.config.ecn, self.config.scalable) {
            (EcnMode::Drop, _) | (_, Scalable::None) => false,
            (_, Scalable::Ect1) => ecn.is_l4s(),
            (_, Scalable::AllEct) => ecn.is_capable(),
        }
    }

    fn band(&self, ecn: Ecn) -> usize {
        match self.config.ecn {
            EcnMode::DualQ if ecn.is_capable() => L,
            EcnMode::DualQEct1 if ecn.is_l4s() => L,
            _ => C,
        }
    }
    /// Tells the link which of two queues it is; one queue alone has no name.
    fn report(&self, band: usize, cx: &mut QueueCx<P>) {
        if self.config.is_dual() {
            cx.band(band);
        }
    }

    /// Marks or drops an arriving packet; true if it must be dropped.
    fn drops(&self, pkt: &mut P, cx: &mut QueueCx<P>) -> bool {
        if self.queues.bytes() < MIN_BACKLOG {
            return false;
        }
        let len = pkt.frame_len();
        let p = match self.config.bytemode && len <= MTU_FRAME {
            true => self.p / MTU_FRAME * len,
            false => self.p,
        };
        let hit = |rng: &mut Rng, p| rng.u32() < p;
        if self.is_scalable(pkt.ecn()) {
            if hit(cx.rng, p) {
                cx.mark(pkt, MarkReason::Aqm);
            }
            return false;
        }
        let p = p / self.config.k;
        let both = hit(cx.rng, p) && hit(cx.rng, p);
        both && (self.config.ecn == EcnMode::Drop || !cx.mark(pkt, MarkReason::Aqm))
    }
}

impl<P: Pkt + Send> Aqm<P> for Pi2<P> {
    fn enqueue(&mut self, mut pkt: P, cx: &mut QueueCx<P>) {
        let band = self.band(pkt.ecn());
        self.report(band, cx);
        if self.queues.packets() >= self.config.limit as usize {
            return cx.drop(pkt, DropReason::Overflow);
        }
        if self.drops(&mut pkt, cx) {
            return cx.drop(pkt, DropReason::Aqm);
        }
        self.queues.of(band).push(pkt);
    }

    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let turn = self.scheduler.pick(&self.queues, cx.now)?;
        self.report(turn.band, cx);
        if turn.band == C {
            let pkt = self.queues.c.pop()?;
            self.rate.departed(cx.now, pkt.frame_len(), self.queues.c.bytes());
            return Some(pkt);
        }
        // The threshold is for a queue: the last packet is never marked.
        let beyond = age(&self.queues.l, cx.now) > self.config.l_thresh && self.queues.l.len() > 1;
        let mut pkt = self.queues.l.pop()?;
        if beyond {
            cx.mark(&mut pkt, MarkReason::Step);
        }
        Some(pkt)
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
    fn likely_next(&self) -> Option<&P> {
        self.queues.likely_next()
    }
    fn next_timer(&self) -> Time {
        self.next_update
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.update();
        self.next_update = self.config.next_update(cx.now);
    }
    fn bands(&self) -> &'static [&'static str] {
        if self.config.is_dual() { BANDS } else { &[] }
    }
    fn probe(&self, out: &mut dyn Gauges) {
        let p = f64::from(self.p) / f64::from(MAX_PROB);
        let base = p / f64::from(self.config.k);
        out.gauge("p_prime", base);
        out.gauge("p_c", base * base);
        out.gauge("p_l_coupled", p);
        out.gauge("qdelay_ms", from_ticks(self.qdelay).as_millis_f64());
    }
}

impl Qdisc for Pi2Config {
    const NAME: &'static str = "pi2";
    const SUMMARY: &'static str =
        "PI controller with a square for classic senders, one queue or two (CoNEXT 2016)";
    const PARAMS: &'static [Param] = &[
        param("limit", "PACKETS", "1000", "what both queues hold at most"),
        param("target", "TIME", "20ms", "delay that the controller aims at"),
        param("tupdate", "TIME", "30ms", "time between two updates, in jiffies of 4 ms plus one"),
        param("alpha", "NUMBER", "10", "integral gain in 1/16 Hz, up to 32000"),
        param("beta", "NUMBER", "100", "proportional gain in 1/16 Hz, up to 320000"),
        param("k", "NUMBER", "2", "coupling: classic packets have (p/k)^2"),
        param("bytemode", "", "", "signal smaller packets less"),
        param("nobytemode", "", "yes", "signal all sizes alike"),
        param("noecn", "", "", "drop all alike"),
        param("ecn", "", "yes", "mark ECT packets"),
        param("dualq_ect1", "", "", "mark, and ECT(1) and CE wait in the L queue"),
        param("dualq", "", "", "mark, and all ECT wait in the L queue"),
        param("no_scal", "", "", "all packets are of classic senders"),
        param("ect1_scal", "", "", "ECT(1) and CE are of scalable senders"),
        param("ecn_scal", "", "yes", "all ECT are of scalable senders"),
        param("l_thresh", "TIME", "1ms", "beyond, L marks every packet"),
        param("t_shift", "TIME", "40ms", "C goes first if its head is older than L's by more"),
    ];

    fn parse(args: &mut Args) -> Result<Self, TcError> {
        let mut config = Pi2Config::default();
        while let Some(keyword) = args.keyword() {
            match keyword {
                "limit" => config.limit = args.number(1, u32::MAX)?,
                "target" => config.target = args.time()?,
                "tupdate" => config.tupdate = args.time()?,
                "alpha" => config.alpha = args.number(0, ALPHA_MAX)?,
                "beta" => config.beta = args.number(0, BETA_MAX)?,
                "k" => config.k = args.number(1, K_MAX)?,
                "bytemode" => config.bytemode = true,
                "nobytemode" => config.bytemode = false,
                "l_thresh" => config.l_thresh = args.time()?,
                "t_shift" => config.t_shift = args.time()?,
                _ => match (named(&ECN_MODES, keyword), named(&SCALABLES, keyword)) {
                    (Some(mode), _) => config.ecn = mode,
                    (_, Some(scalable)) => config.scalable = scalable,
                    (None, None) => return Err(args.unknown()),
                },
            }
        }
        Ok(config)
    }

    fn canonical(&self) -> String {
        format!(
            "limit {} target {} tupdate {} alpha {} beta {} k {} {} {} {} l_thresh {} t_shift {}",
            self.limit,
            tc::format_time(self.target),
            tc::format_time(self.tupdate),
            self.alpha,
            self.beta,
            self.k,
            if self.bytemode { "bytemode" } else { "nobytemode" },
            name_of(&ECN_MODES, self.ecn),
            name_of(&SCALABLES, self.scalable),
            tc::format_time(self.l_thresh),
            tc::format_time(self.t_shift),
        )
    }

    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Pi2 {
            queues: Queues::default(),
            p: 0,
            qdelay: 0,
            rate: DepartureRate::new(RATE_THRESHOLD),
            scheduler: Scheduler::TimeShift(self.t_shift),
            next_update: self.next_update(link.now),
            config: self.clone(),
        })
    }
}

impl Pi2Config {
    fn is_dual(&self) -> bool {
        matches!(self.ecn, EcnMode::DualQ | EcnMode::DualQEct1)
    }
    fn next_update(&self, now: Time) -> Time {
        jiffies::expiry(now, jiffies::from_span(self.tupdate))
    }
}

const ECN_MODES: [(&str, EcnMode); 4] = [
    ("noecn", EcnMode::Drop),
    ("ecn", EcnMode::Mark),
    ("dualq_ect1", EcnMode::DualQEct1),
    ("dualq", EcnMode::DualQ),
];
const SCALABLES: [(&str, Scalable); 3] =
    [("no_scal", Scalable::None), ("ect1_scal", Scalable::Ect1), ("ecn_scal", Scalable::AllEct)];

fn named<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names.iter().find(|(n, _)| *n == name).map(|&(_, value)| value)
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, v)| *v == value).map_or("", |(name, _)| name)
}
