//! CoDel, Controlled Delay (RFC 8289), as Linux has it (`sch_codel` and `codel_impl.h`, 7.2).
//!
//! A good queue absorbs a burst and empties; a bad one stands. CoDel tells them apart by the least
//! delay: once every packet that left within `interval` had waited for `target` or longer, it drops
//! (or marks) one, the next after `interval`, and then after `interval/sqrt(count)`, ever faster,
//! until a packet has waited less. It decides when packets leave, on the delay of each.
//!
//! Where Linux and RFC 8289 differ, this is Linux:
//!
//! | | here and in Linux | RFC 8289 |
//! |---|---|---|
//! | no signals while at most … bytes wait | one full frame | the largest packet seen |
//! | the first one comes | after more than `interval` | after `interval` |
//! | 1/sqrt(count) | 16 bits, one Newton step per change | exact |
//! | drops at once | at most 256 | any number |
//! | `ce_threshold` | marks whatever waited longer | none |
//!
//! Delays are nanoseconds here, which Linux cuts to units of 1.024 us. The schedule of signals is in
//! those units here too: at thousands of drops per second, what is cut off makes a percent.

use super::fifo::Queue;
use super::inverse_sqrt::newton_step;
use super::registry::{LinkInfo, Qdisc};
use super::{Aqm, Backlog, DropReason, Gauges, MarkReason, Pkt, QueueCx};
use crate::tc::{self, Args, Param, TcError, param};
use crate::time::{Span, Time};
use crate::units::MTU_FRAME;

/// Linux; RFC 8289 has no limit.
const LIMIT: u32 = 1000;
/// As RFC 8289: 5 to 10 % of the interval.
const TARGET: Span = Span::from_millis(5);
/// As RFC 8289: longer than most RTTs.
const INTERVAL: Span = Span::from_millis(100);
/// No signals while no more than this waits (Linux).
const MIN_BACKLOG: u64 = MTU_FRAME as u64;
/// An episode that begins within so many intervals after the last one goes on from its rate (as
/// RFC 8289).
const RECENT: u64 = 16;
/// Drops per packet delivered (Linux 7.2; none before).
const MAX_DROPS: u32 = 256;
/// Linux counts time in 2^10 ns.
const TICK_LOG: u32 = 10;
/// Linux compares times as 32 signed bits of 1.024 us; longer ones would be negative.
const TIME_MAX: Span = Span::from_micros(2_199_023_255);

/// What `codel` and `fq_codel` have in common, by the names in `tc`.
#[derive(Clone, PartialEq, Debug)]
pub struct CodelParams {
    pub target: Span,
    pub interval: Span,
    /// Mark instead of dropping, where the packet can be marked.
    pub ecn: bool,
    /// Beyond this delay every packet is marked, besides the law and whatever `ecn` says.
    pub ce_threshold: Option<Span>,
    /// Only those whose DS field (DSCP and ECN), masked, has this value; a mask of 0 means all.
    pub ce_threshold_selector: u8,
    pub ce_threshold_mask: u8,
}

impl CodelParams {
    pub const fn new(ecn: bool) -> Self {
        CodelParams {
            target: TARGET,
            interval: INTERVAL,
            ecn,
            ce_threshold: None,
            ce_threshold_selector: 0,
            ce_threshold_mask: 0,
        }
    }

    #[inline]
    fn selects<P: Pkt>(&self, pkt: &P) -> bool {
        let ds_field = pkt.dscp() << 2 | pkt.ecn().bits();
        self.ce_threshold_mask == 0
            || ds_field & self.ce_threshold_mask == self.ce_threshold_selector
    }

    /// Reads the value of a keyword that both qdiscs have; false if it is none of those.
    pub fn read(&mut self, keyword: &str, args: &mut Args) -> Result<bool, TcError> {
        const EXPECTED: &str = "a time above zero such as 5ms, at most 2199s";
        let positive = |s: &str| tc::parse_time(s).filter(|&t| t > Span::ZERO && t <= TIME_MAX);
        match keyword {
            "target" => self.target = args.value(EXPECTED, positive)?,
            "interval" => self.interval = args.value(EXPECTED, positive)?,
            "ecn" => self.ecn = true,
            "noecn" => self.ecn = false,
            "ce_threshold" => {
                let any = |s: &str| tc::parse_time(s).filter(|&t| t <= TIME_MAX);
                self.ce_threshold = Some(args.value("a time such as 1ms, at most 2199s", any)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub fn canonical(&self) -> String {
        let mut text = format!(
            "target {} interval {} {}",
            tc::format_time(self.target),
            tc::format_time(self.interval),
            if self.ecn { "ecn" } else { "noecn" },
        );
        if let Some(threshold) = self.ce_threshold {
            text += &format!(" ce_threshold {}", tc::format_time(threshold));
        }
        text
    }
}

/// The law's memory: of one queue, or of one flow.
#[derive(Clone, Debug, Default)]
pub struct Codel {
    /// Signals of this episode; decides the time to the next.
    count: u32,
    /// What `count` was when this episode began.
    last_count: u32,
    dropping: bool,
    /// 1/sqrt(count) in 2^-16.
    inv_sqrt: u16,
    /// When the delay will have been above target for an interval; None while it is not.
    first_above: Option<Time>,
    drop_next: Time,
    /// Delay of the packet seen last.
    sojourn: Span,
}

impl Codel {
    /// The next packet to send (RFC 8289 Section 5.5). `take` removes the head of the queue and says
    /// how many bytes are left in the whole qdisc.
    #[inline]
    pub fn dequeue<P: Pkt>(
        &mut self,
        params: &CodelParams,
        cx: &mut QueueCx<P>,
        mut take: impl FnMut() -> Option<(P, u64)>,
    ) -> Option<P> {
        let (mut head, mut above) = self.look(params, cx.now, take());
        if !above {
            self.dropping = false;
        } else if self.dropping {
            let mut drops = 0;
            while self.dropping && cx.now >= self.drop_next {
                if drops == MAX_DROPS {
                    // Far behind schedule: it starts anew.
                    self.drop_next = self.after(cx.now, params.interval);
                    break;
                }
                drops += 1;
                self.count = self.count.wrapping_add(1);
                self.newton_step();
                let mut pkt = head?;
                if params.ecn && cx.mark(&mut pkt, MarkReason::Aqm) {
                    head = Some(pkt);
                    self.drop_next = self.after(self.drop_next, params.interval);
                    break;
                }
                cx.drop(pkt, DropReason::Aqm);
                (head, above) = self.look(params, cx.now, take());
                if above {
                    self.drop_next = self.after(self.drop_next, params.interval);
                } else {
                    self.dropping = false;
                }
            }
        } else {
            let mut pkt = head?;
            if params.ecn && cx.mark(&mut pkt, MarkReason::Aqm) {
                head = Some(pkt);
            } else {
                cx.drop(pkt, DropReason::Aqm);
                (head, _) = self.look(params, cx.now, take());
            }
            self.begin(cx.now, params.interval);
        }
        let mut pkt = head?;
        if params.ce_threshold.is_some_and(|threshold| self.sojourn > threshold)
            && params.selects(&pkt)
        {
            cx.mark(&mut pkt, MarkReason::Step);
        }
        Some(pkt)
    }

    /// Has the delay been above target for an interval? (RFC 8289 Section 5.6 `dodequeue`)
    #[inline]
    fn look<P: Pkt>(
        &mut self,
        params: &CodelParams,
        now: Time,
        taken: Option<(P, u64)>,
    ) -> (Option<P>, bool) {
        let Some((pkt, backlog)) = taken else {
            self.first_above = None;
            return (None, false);
        };
        self.sojourn = now.since(pkt.enqueued_at());
        let above = if self.sojourn < params.target || backlog <= MIN_BACKLOG {
            self.first_above = None;
            false
        } else {
            now > *self.first_above.get_or_insert(now + params.interval)
        };
        (Some(pkt), above)
    }

    /// An episode begins: with the rate that the last one needed, if that was a short while ago.
    fn begin(&mut self, now: Time, interval: Span) {
        let signals = self.count.wrapping_sub(self.last_count);
        let recent = self.last_count > 0 && now < self.drop_next + interval * RECENT;
        if signals > 1 && recent {
            self.count = signals;
            self.newton_step();
        } else {
            self.count = 1;
            self.inv_sqrt = u16::MAX;
        }
        self.dropping = true;
        self.last_count = self.count;
        self.drop_next = self.after(now, interval);
    }

    /// The control law: the time after `t` by interval/sqrt(count).
    #[inline]
    fn after(&self, t: Time, interval: Span) -> Time {
        let wait = ((interval.0 >> TICK_LOG) * u64::from(self.inv_sqrt)) >> 16;
        Time(((t.0 >> TICK_LOG) + wait.max(1)) << TICK_LOG)
    }

    /// Sixteen bits are few for a count of many thousands, and one step is little for a count that
    /// jumped; both shows in the rate of drops.
    #[inline]
    fn newton_step(&mut self) {
        self.inv_sqrt = (newton_step(u32::from(self.inv_sqrt) << 16, self.count) >> 16) as u16;
    }

    /// The queue overflowed and dropped so many packets: that is taken for as many signals.
    #[inline]
    pub fn overflowed(&mut self, dropped: u32) {
        self.count = self.count.wrapping_add(dropped);
    }

    /// What `tc -s` shows of the law; `drop_next` in the run's time.
    pub fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("count", f64::from(self.count));
        out.gauge("lastcount", f64::from(self.last_count));
        out.gauge("dropping", f64::from(u8::from(self.dropping)));
        out.gauge("drop_next_s", self.drop_next.as_secs_f64());
        out.gauge("ldelay_ms", self.sojourn.as_millis_f64());
    }
}

/// The parameters of `codel`.
#[derive(Clone, PartialEq, Debug)]
pub struct CodelConfig {
    /// In packets.
    pub limit: u32,
    pub params: CodelParams,
}

impl Default for CodelConfig {
    fn default() -> Self {
        CodelConfig { limit: LIMIT, params: CodelParams::new(false) }
    }
}

/// One queue under the law; tail drop at the limit.
#[derive(Debug)]
pub struct CodelQueue<P> {
    queue: Queue<P>,
    codel: Codel,
    config: CodelConfig,
}

impl<P: Pkt + Send> Aqm<P> for CodelQueue<P> {
    #[inline]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        if self.queue.len() < self.config.limit as usize {
            self.queue.push(pkt);
        } else {
            cx.drop(pkt, DropReason::Overflow);
        }
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let queue = &mut self.queue;
        let take = || queue.pop().map(|pkt| (pkt, queue.bytes()));
        self.codel.dequeue(&self.config.params, cx, take)
    }
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.queue.bytes() }
    }
    fn likely_next(&self) -> Option<&P> {
        self.queue.front()
    }
    fn probe(&self, out: &mut dyn Gauges) {
        self.codel.probe(out);
    }
}

pub(super) const TARGET_PARAM: Param =
    param("target", "TIME", "5ms", "a standing delay from here on is too long");
pub(super) const INTERVAL_PARAM: Param =
    param("interval", "TIME", "100ms", "how long it may stand; about the longest RTT");
pub(super) const CE_THRESHOLD_PARAM: Param =
    param("ce_threshold", "TIME", "", "beyond, every packet that can be marked is");

impl Qdisc for CodelConfig {
    const NAME: &'static str = "codel";
    const SUMMARY: &'static str = "one queue with controlled delay (CoDel, RFC 8289)";
    const PARAMS: &'static [Param] = &[
        param("limit", "PACKETS", "1000", "what the queue holds at most; tail drop"),
        TARGET_PARAM,
        INTERVAL_PARAM,
        param("ecn", "", "", "mark instead of dropping"),
        param("noecn", "", "yes", "drop, whatever the packet's codepoint"),
        CE_THRESHOLD_PARAM,
    ];

    fn parse(args: &mut Args) -> Result<Self, TcError> {
        let mut config = CodelConfig::default();
        while let Some(keyword) = args.keyword() {
            match keyword {
                "limit" => config.limit = args.number(1, u32::MAX)?,
                _ if config.params.read(keyword, args)? => {}
                _ => return Err(args.unknown()),
            }
        }
        Ok(config)
    }

    fn canonical(&self) -> String {
        format!("limit {} {}", self.limit, self.params.canonical())
    }

    fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
        let codel = Codel::default();
        Box::new(CodelQueue { queue: Queue::new(), codel, config: self.clone() })
    }
}
