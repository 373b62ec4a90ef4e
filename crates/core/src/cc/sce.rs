//! The common part of SCE senders (github.com/chromi/sce, `tcp_dctcp_sce.c` and `tcp_reno_sce.c`).
//!
//! Some Congestion Experienced: a queue turns ECT(0) into ECT(1), and the receiver reports this with ESCE. The
//! sender responds to every ACK with ESCE in proportion to the acknowledged data, not once per round trip. CE
//! keeps its meaning of RFC 3168, but reduces less if SCE was seen recently.
//!
//! Growth and reductions share one counter. Whenever it has moved by a window, the window moves by a segment. So
//! a round trip of unmarked ACKs gains one segment, and one of marked ACKs costs as many segments as the
//! algorithm takes per marked one.
//!
//! The kernel's CE response acts when CWR ends. Proportional rate reduction has then already halved the window,
//! and the threshold keeps falling as long as ESCE arrives. Here the factors in the kernel's comments are TCP's
//! target in CWR. Marks that arrive while TCP reduces cause no further reduction.

use super::{Ack, Congestion, CongestionControl, Constants, EcnWish, MIN_WINDOW, Window};
use crate::params::{Gauge, gauge};
use crate::probe::Gauges;
use crate::time::Time;

/// A CE mark takes 1/2^2 of the window, 1/2^3 if there were SCE marks lately.
const CE_SHIFT: u32 = 2;
const CE_SHIFT_AFTER_SCE: u32 = 3;

pub const GAUGES: &[Gauge] = &[gauge("recent_sce", "", "1 if SCE was seen lately")];

/// SCE was seen within as many ACKs as the window had segments.
#[derive(Clone, Debug, Default)]
pub struct RecentSce(u32);

impl RecentSce {
    /// An ACK arrives; true if SCE requires a response. If the ACK reports CE too, the response is to CE.
    pub fn see(&mut self, ack: &Ack, cwnd: u32) -> bool {
        let marked = ack.esce && ack.ce == 0;
        self.0 = if marked { cwnd } else { self.0.saturating_sub(1) };
        marked
    }
    pub fn any(&self) -> bool {
        self.0 > 0
    }
    pub fn forget(&mut self) {
        self.0 = 0;
    }
    pub fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("recent_sce", f64::from(u8::from(self.any())));
    }
}

/// SCE has ended slow start: it does not resume below half the window.
pub fn leave_slow_start(w: &mut Window) {
    w.ssthresh = (w.cwnd / 2).max(MIN_WINDOW);
}

/// The algorithm: how much a marked segment takes off the counter, in half segments.
pub trait Law: Clone + Send {
    fn cut(&self, cwnd: u32) -> u32;
    /// The window has made a step of one segment.
    fn stepped(&mut self, _cwnd: u32, _up: bool) {}
    /// TCP has moved the window: slow start, or a reduction.
    fn moved(&mut self, _cwnd: u32) {}
}

/// Reno's growth with a law for SCE.
#[derive(Clone, Debug)]
pub struct Additive<L> {
    law: L,
    /// Half segments.
    count: i64,
    cwnd: u32,
    recent: RecentSce,
}

impl<L: Law> Additive<L> {
    pub fn new(law: L) -> Additive<L> {
        Additive { law, count: 0, cwnd: 0, recent: RecentSce::default() }
    }

    fn settle(&mut self, w: &mut Window) {
        let step = 2 * i64::from(w.cwnd);
        while self.count <= -step {
            self.count += step;
            if w.cwnd > MIN_WINDOW {
                w.cwnd -= 1;
                self.law.stepped(w.cwnd, false);
            }
        }
        while self.count >= step {
            self.count -= step;
            w.cwnd += 1;
            self.law.stepped(w.cwnd, true);
        }
        self.cwnd = w.cwnd;
    }
}

impl<L: Law> CongestionControl for Additive<L> {
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        if self.cwnd != w.cwnd {
            self.law.moved(w.cwnd);
        }
        let marked = self.recent.see(ack, w.cwnd);
        if ack.state.reducing {
            return;
        }
        let grows = ack.state.may_grow && ack.usage.cwnd_limited;
        if marked {
            self.count -= i64::from(ack.acked) * i64::from(self.law.cut(w.cwnd));
            leave_slow_start(w);
        } else if grows && !w.in_slow_start() {
            self.count += 2 * i64::from(ack.acked);
        }
        self.settle(w);
        if grows && w.in_slow_start() {
            self.count += 2 * i64::from(w.slow_start(ack.acked));
        }
    }

    fn on_congestion(&mut self, why: Congestion, _at: Time, w: &mut Window) {
        let shift = match why {
            Congestion::Ecn if self.recent.any() => CE_SHIFT_AFTER_SCE,
            Congestion::Ecn => CE_SHIFT,
            Congestion::Loss | Congestion::Timeout | Congestion::TailLoss => 1,
        };
        let less = (w.cwnd >> shift).max(1);
        w.ssthresh = w.cwnd.saturating_sub(less).max(MIN_WINDOW);
        self.count = 0;
    }

    fn constants(&self) -> Constants {
        Constants { ecn: EcnWish::Ect0Sce, ..Constants::default() }
    }

    fn probe(&self, out: &mut dyn Gauges) {
        self.recent.probe(out);
    }
}

/// ACK vectors for the laws of SCE senders.
#[cfg(test)]
pub(super) mod vectors {
    use super::*;
    use crate::cc::{AckRtt, AckState, AckUsage};
    use crate::time::Span;

    pub fn ack(acked: u32, esce: bool) -> Ack {
        Ack {
            acked,
            esce,
            usage: AckUsage { cwnd_limited: true, ..AckUsage::default() },
            state: AckState { may_grow: true, ..AckState::default() },
            ..Ack::default()
        }
    }

    pub fn window(cwnd: u32) -> Window {
        Window { cwnd, ssthresh: cwnd / 2, ..Window::new(1448, 52) }
    }

    /// The window after so many round trips of ACKs for two segments each, all with ESCE or none.
    pub fn rounds(
        cc: &mut dyn CongestionControl,
        w: &mut Window,
        rounds: u32,
        esce: bool,
        rtt: Span,
    ) -> u32 {
        let mut now = Time::ZERO + Span::from_secs(10);
        for _ in 0..rounds {
            let acks = w.cwnd / 2;
            for _ in 0..acks {
                now += rtt / u64::from(acks.max(1));
                let rtt_us = Some(rtt.as_micros() as u32);
                let a = Ack {
                    now,
                    rtt: AckRtt {
                        newest_us: rtt_us,
                        srtt8: rtt.as_micros() * 8,
                        ..AckRtt::default()
                    },
                    ..ack(2, esce)
                };
                cc.on_ack(&a, w);
            }
        }
        w.cwnd
    }
}

#[cfg(test)]
mod tests {
    use super::vectors::{ack, window};
    use super::*;
    use crate::cc::AckState;

    #[derive(Clone)]
    struct One;
    impl Law for One {
        fn cut(&self, _cwnd: u32) -> u32 {
            20
        }
    }

    /// Ten segments off the counter per marked one, twenty per ACK.
    #[test]
    fn every_ack_is_answered() {
        let mut cc = Additive::new(One);
        let mut w = window(16);
        let mut seen = Vec::new();
        for _ in 0..4 {
            cc.on_ack(&ack(2, true), &mut w);
            seen.push(w.cwnd);
        }
        // 20 = 16 + 4, 24 = 15 + 9, 29 = 14 + 14 + 1, 21 = 12 + 9.
        assert_eq!(seen, [15, 14, 12, 11]);
    }

    #[test]
    fn ce_takes_a_quarter_and_an_eighth_beside_sce() {
        let mut cc = Additive::new(One);
        let mut w = window(80);
        cc.on_congestion(Congestion::Ecn, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 60);
        cc.on_ack(&ack(1, true), &mut w);
        cc.on_congestion(Congestion::Ecn, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 70);
        for _ in 0..79 {
            cc.on_ack(&ack(0, false), &mut w);
        }
        cc.on_congestion(Congestion::Ecn, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 70, "79 ACKs later");
        cc.on_ack(&ack(0, false), &mut w);
        cc.on_congestion(Congestion::Ecn, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 60, "80 ACKs later");
        cc.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 40);
    }

    #[test]
    fn sce_ends_slow_start() {
        let mut cc = Additive::new(One);
        let mut w = Window::new(1448, 52);
        cc.on_ack(&ack(2, false), &mut w);
        assert_eq!(w.cwnd, 12);
        cc.on_ack(&ack(1, true), &mut w);
        assert!(!w.in_slow_start());
    }

    /// CE together with ESCE is one event for TCP and none for SCE; nor is SCE answered while TCP
    /// brings the window down.
    #[test]
    fn marks_are_not_answered_twice() {
        let mut cc = Additive::new(One);
        let mut w = window(16);
        for _ in 0..20 {
            cc.on_ack(
                &Ack {
                    ce: 1,
                    state: AckState { may_grow: false, ..AckState::default() },
                    ..ack(1, true)
                },
                &mut w,
            );
            cc.on_ack(
                &Ack {
                    state: AckState { reducing: true, may_grow: false, ..AckState::default() },
                    ..ack(1, true)
                },
                &mut w,
            );
        }
        assert_eq!((w.cwnd, w.ssthresh), (16, 8));
    }
}
