//! What an ACK sets off: the congestion states of Linux (Open, Disorder, CWR, Recovery, Loss),
//! proportional rate reduction (RFC 6937, also for ECN), undo, F-RTO, and timeouts.

use super::marks::Marks;
use super::reduction::Reduction;
use super::timers::{TIMEOUT_MIN, TailProbe, Timer};
use super::{Sender, View};
use crate::cc::registry::AckInfo;
use crate::cc::{Ack, AckFlight, AckRtt, AckState, Congestion, SSTHRESH_INFINITE, Window};
use crate::element::Outbox;
use crate::packet::{Flags, Packet, Stamp, TCP_IP_HEADERS};
use crate::sack::Blocks;
use crate::time::{Span, Time};
use crate::transport::ecn::EcnMode;
use crate::transport::rack::REORDERING_DEFAULT;
use crate::transport::scoreboard::{AckOutcome, Incoming};
use crate::transport::wheel;

/// Congestion state of a connection.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum CaState {
    #[default]
    Open,
    /// SACKs or retransmissions are out, no loss is proven.
    Disorder,
    /// Reducing because of ECN.
    Cwr,
    /// Fast retransmit.
    Recovery,
    /// After a timeout.
    Loss,
}

impl CaState {
    fn is_reducing(self) -> bool {
        matches!(self, CaState::Cwr | CaState::Recovery)
    }
    pub(super) fn is_repairing(self) -> bool {
        self >= CaState::Recovery
    }
    /// Tail loss probes are for connections that repair nothing.
    pub(super) fn may_probe(self) -> bool {
        matches!(self, CaState::Open | CaState::Cwr)
    }
}

/// State of the current episode.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    pub state: CaState,
    /// `snd_nxt` when the episode began; it ends when this is acknowledged.
    high_seq: u32,
    reduction: Reduction,
    /// To be restored by an undo; `None`: ECN asked for the reduction, which cannot be undone.
    prior_ssthresh: Option<u32>,
    /// When the first retransmission of the episode was sent.
    retransmission_stamp: Option<Time>,
    /// F-RTO (RFC 5682) is still open.
    frto: bool,
    /// A tail loss probe that is out.
    pub(super) probe: Option<TailProbe>,
}

impl Recovery {
    #[inline]
    pub(super) fn count_sent(&mut self, n: u32) {
        if self.state.is_reducing() {
            self.reduction.count_sent(n);
        }
    }
    pub(super) fn count_unsent(&mut self, n: u32) {
        if self.state.is_reducing() {
            self.reduction.count_unsent(n);
        }
    }
    pub(super) fn note_retransmission(&mut self, now: Time) {
        self.retransmission_stamp.get_or_insert(now);
    }
}

/// An ACK, as a controller may want to know it.
struct AckContext<'a> {
    view: View<'a>,
    now: Time,
    outcome: &'a AckOutcome,
    marks: Marks,
    may_grow: bool,
    reducing: bool,
    prior_lost: u64,
    prior_in_flight: u32,
}

impl AckInfo for AckContext<'_> {
    #[inline(always)]
    fn ack(&self, win: &Window) -> Ack {
        let AckContext { view, now, outcome, .. } = self;
        let general = view.ack_info(*now, win);
        Ack {
            acked: outcome.delivered,
            ce: self.marks.ce,
            esce: self.marks.esce,
            rtt: AckRtt { newest_us: outcome.rtt_newest_us, ..general.rtt },
            flight: AckFlight {
                before: self.prior_in_flight,
                lost: (view.board.lost_total - self.prior_lost) as u32,
                ..general.flight
            },
            state: AckState { may_grow: self.may_grow, reducing: self.reducing, ..general.state },
            rate: view.board.rate_sample(*now, outcome, view.rtt.min_us()),
            ..general
        }
    }
}

/// What came of a search for losses.
struct Search {
    /// The timer waits for segments that may only be reordered.
    awaits_reordering: bool,
    retransmission_lost: bool,
}

/// What came of an ACK that may mean trouble.
#[derive(Copy, Clone)]
struct Verdict {
    resend: Resend,
    /// See [`Search`].
    awaits_reordering: bool,
}

impl Verdict {
    const NOTHING: Verdict = Verdict { resend: Resend::Nothing, awaits_reordering: false };
}

/// What to send after an ACK has been digested.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Resend {
    Nothing,
    Lost,
    /// F-RTO: new data only.
    New,
}

impl Sender {
    fn congestion(&mut self, why: Congestion, at: Time) {
        self.cc.on_congestion(why, at, &mut self.win);
    }

    #[inline]
    pub(super) fn on_ack(&mut self, now: Time, pkt: &Packet, blocks: &Blocks, out: &mut Outbox) {
        let prior_una = self.board.una;
        // An ACK of new segments sets the timer anew.
        if pkt.seq <= prior_una {
            self.settle_probe();
        }
        if pkt.seq < prior_una {
            self.on_old_ack(now, pkt, blocks, out);
            return;
        }
        let prior_lost = self.board.lost_total;
        let prior_in_flight = self.board.in_flight();
        let mut outcome = self.board.on_ack(&self.incoming(now, pkt.seq, pkt, blocks));
        if outcome.una_advanced {
            self.timers.retransmits = 0;
        }
        outcome.rtt_newest_us = self.update_rtt(now, pkt, &outcome);
        self.board.update_reordering_window(&outcome);
        let marks = self.read_ecn(pkt, &outcome);
        let ece = marks.ce > 0;
        self.report_feedback();
        if let Some(probe) = self.recovery.probe {
            self.on_probe_answered(now, pkt.seq, probe, &outcome);
        }
        let mut verdict = Verdict::NOTHING;
        let progress = outcome.una_advanced || outcome.sacked;
        let dubious = !outcome.una_advanced
            || ece
            || outcome.sacked
            || outcome.dsack
            || self.recovery.state != CaState::Open;
        if dubious {
            verdict = self.alert(now, pkt, prior_una, &outcome, ece);
        }
        if outcome.una_advanced && !verdict.awaits_reordering {
            self.set_transmission_timer(now);
        }
        self.control(now, &outcome, marks, progress, prior_lost, prior_in_flight);
        self.resend_as(verdict.resend, now, out);
        self.transmit(now, out);
        self.write_on();
    }

    /// Nothing is missing, suspected or to be undone: an ACK of new segments can mean no more than marks.
    #[inline(always)]
    pub(super) fn is_undisturbed(&self) -> bool {
        self.board.is_clean()
            && self.recovery.state.may_probe()
            && self.recovery.probe.is_none()
            && !self.board.undo.is_proven()
    }

    /// An ACK of new segments while nothing is missing: what [`Self::on_ack`] comes down to then.
    #[inline(always)]
    pub(super) fn on_clean_ack(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        let (prior_lost, prior_in_flight) = (self.board.lost_total, self.board.in_flight());
        let mut outcome = self.board.on_clean_ack(now, pkt.seq);
        self.timers.retransmits = 0;
        outcome.rtt_newest_us = self.update_rtt(now, pkt, &outcome);
        self.board.update_reordering_window(&outcome);
        let marks = self.read_ecn(pkt, &outcome);
        self.report_feedback();
        self.recovery.retransmission_stamp = None;
        if self.recovery.state == CaState::Cwr && self.board.una > self.recovery.high_seq {
            self.end_reduction();
            self.set_state(CaState::Open);
        }
        if marks.ce > 0 {
            self.enter_cwr(now);
        }
        self.set_transmission_timer(now);
        self.control(now, &outcome, marks, true, prior_lost, prior_in_flight);
        self.transmit(now, out);
        self.write_on();
    }

    #[inline(always)]
    fn report_feedback(&mut self) {
        if self.takes_signals
            && let Some(signals) = self.cc.signals()
        {
            signals.on_feedback(&self.board.totals());
        }
    }

    /// An ACK that a newer one has overtaken. Its SACK blocks may still be news of losses; it is no
    /// sample of the RTT, of marks or for the controller (Linux `tcp_ack`).
    #[cold]
    fn on_old_ack(&mut self, now: Time, pkt: &Packet, blocks: &Blocks, out: &mut Outbox) {
        if blocks.is_empty() {
            return;
        }
        let una = self.board.una;
        let outcome = self.board.on_ack(&self.incoming(now, una, pkt, blocks));
        let verdict = self.alert(now, pkt, una, &outcome, false);
        self.resend_as(verdict.resend, now, out);
        self.transmit(now, out);
    }

    fn incoming<'a>(&self, now: Time, ack: u32, pkt: &Packet, blocks: &'a Blocks) -> Incoming<'a> {
        Incoming {
            at: now,
            ack,
            blocks,
            dsack: pkt.flags.has(Flags::DSACK),
            echo: Stamp::of(pkt.stamp),
            high_seq: self.recovery.high_seq,
            min_rtt_us: self.rtt.min_us(),
            probe_end: self.recovery.probe.map(|probe| probe.end),
        }
    }

    #[inline]
    fn resend_as(&mut self, resend: Resend, now: Time, out: &mut Outbox) {
        match resend {
            Resend::Nothing => {}
            Resend::Lost => self.retransmit_lost(now, out),
            Resend::New => {
                let before = self.board.nxt;
                self.transmit(now, out);
                // No new data could be sent: repair in the ordinary way.
                if self.board.nxt == before {
                    self.recovery.frto = false;
                    self.retransmit_lost(now, out);
                }
            }
        }
    }

    /// Returns the RTT of the newest segment acknowledged.
    #[inline(always)]
    fn update_rtt(&mut self, now: Time, pkt: &Packet, outcome: &AckOutcome) -> Option<u32> {
        let (una, nxt) = (self.board.una, self.board.nxt);
        if let Some(us) = outcome.rtt_oldest_us {
            if let Some(newest) = outcome.rtt_newest_us {
                self.rtt.sample_min(now, newest);
            }
            self.rtt.sample(us, una, nxt);
            self.timers.backoff = 0;
        } else if outcome.una_advanced && !self.config.switches.timestamps {
            self.timers.backoff = 0;
        } else if outcome.una_advanced {
            // Karn: a retransmission is ambiguous; the timestamp is not, but it is in milliseconds, and none of
            // them counts as one (Linux `tcp_rtt_tsopt_us`).
            let ms = Stamp::of(pkt.stamp).older_than(Stamp::of(now)).max(1);
            let us = (ms as u32).saturating_mul(1000);
            self.rtt.sample_min(now, us);
            self.rtt.sample(us, una, nxt);
            self.timers.backoff = 0;
            return Some(us);
        }
        outcome.rtt_newest_us
    }

    #[inline(always)]
    fn read_ecn(&mut self, pkt: &Packet, outcome: &AckOutcome) -> Marks {
        let marks = self.ecn.marks(pkt, outcome, self.win.mtu() - TCP_IP_HEADERS);
        self.board.delivery.ce += marks.counted;
        marks
    }

    /// Tells the controller, or reduces proportionally.
    #[inline(always)]
    fn control(
        &mut self,
        now: Time,
        outcome: &AckOutcome,
        marks: Marks,
        progress: bool,
        prior_lost: u64,
        prior_in_flight: u32,
    ) {
        let state = self.recovery.state;
        let reducing = state.is_reducing() && !self.constants.governs_window;
        // Where reordering is common, SACKed data may grow the window too.
        let growth = if self.board.rack.reordering > REORDERING_DEFAULT {
            progress
        } else {
            outcome.una_advanced
        };
        self.board.delivery.update_limit();
        let may_grow = growth && !reducing;
        let (view, cc, win) = self.parts();
        let context = AckContext {
            view,
            now,
            outcome,
            marks,
            may_grow,
            reducing,
            prior_lost,
            prior_in_flight,
        };
        let pace = cc.answer(&context, win);
        if pace.holds_back {
            self.board.delivery.limit(self.board.in_flight());
        }
        if reducing {
            let newly_lost = self.board.lost_total > prior_lost;
            self.reduce(outcome.delivered, newly_lost, outcome.una_advanced);
        }
        self.update_pacing(pace);
    }

    /// Lets the window come down.
    fn reduce(&mut self, delivered: u32, newly_lost: bool, una_advanced: bool) {
        let (in_flight, ssthresh) = (self.board.in_flight(), self.win.ssthresh);
        if !self.config.rules.prr {
            self.win.cwnd = self.win.cwnd.min(ssthresh);
            return;
        }
        let goes_well = una_advanced && !newly_lost;
        let window = self.recovery.reduction.window(delivered, in_flight, ssthresh, goes_well);
        self.win.cwnd = window.unwrap_or(self.win.cwnd);
    }

    // --- the state machine ------------------------------------------------------------------

    fn alert(
        &mut self,
        now: Time,
        pkt: &Packet,
        prior_una: u32,
        outcome: &AckOutcome,
        ece: bool,
    ) -> Verdict {
        if ece {
            self.recovery.prior_ssthresh = None;
        }
        let una = self.board.una;
        // Has the episode ended?
        match self.recovery.state {
            CaState::Open => self.recovery.retransmission_stamp = None,
            CaState::Cwr if una > self.recovery.high_seq => {
                // Strictly above, so that the CWR flag has reached the receiver.
                self.end_reduction();
                self.set_state(CaState::Open);
            }
            CaState::Recovery if una >= self.recovery.high_seq => {
                self.try_undo_recovery(pkt);
                self.end_reduction();
            }
            _ => {}
        }
        if self.recovery.state == CaState::Recovery {
            if outcome.una_advanced && self.try_undo_partial(pkt) {
                return Verdict::NOTHING;
            }
            if self.try_undo_by_dsack() {
                self.try_to_open(now, ece);
            }
            let Search { awaits_reordering, .. } = self.find_losses(now);
            if self.recovery.state != CaState::Recovery {
                if self.board.lost_out == 0 {
                    return Verdict { resend: Resend::Nothing, awaits_reordering };
                }
                self.enter_recovery(now, ece);
            }
            return Verdict { resend: Resend::Lost, awaits_reordering };
        }
        let awaits_reordering;
        if self.recovery.state == CaState::Loss {
            let resend = self.process_loss(pkt, prior_una, outcome);
            let search = self.find_losses(now);
            awaits_reordering = search.awaits_reordering;
            if self.recovery.state != CaState::Open && !search.retransmission_lost {
                return Verdict { resend, awaits_reordering };
            }
        } else {
            awaits_reordering = self.find_losses(now).awaits_reordering;
        }
        if self.recovery.state <= CaState::Disorder {
            self.try_undo_by_dsack();
        }
        if self.board.lost_out == 0 {
            self.try_to_open(now, ece);
            return Verdict { resend: Resend::Nothing, awaits_reordering };
        }
        self.enter_recovery(now, ece);
        Verdict { resend: Resend::Lost, awaits_reordering }
    }

    fn set_state(&mut self, state: CaState) {
        self.recovery.state = state;
        if state == CaState::Open {
            self.cc.on_recovered(&mut self.win);
        }
    }

    #[inline]
    fn find_losses(&mut self, now: Time) -> Search {
        if self.board.packets_out() == 0 {
            return Search { awaits_reordering: false, retransmission_lost: false };
        }
        let before = self.board.retrans_out;
        let wait = self.detect_loss(now, false);
        if let Some(wait) = wait {
            self.await_reordering(now, wait);
        }
        let retransmission_lost = self.board.retrans_out < before;
        Search { awaits_reordering: wait.is_some(), retransmission_lost }
    }

    /// Marks segments lost; returns how long to wait for those that may only be reordered.
    #[inline]
    fn detect_loss(&mut self, now: Time, force: bool) -> Option<Span> {
        let before = self.board.lost_total;
        let wait = self.board.detect_loss(
            now,
            self.recovery.state.is_repairing(),
            self.rtt.min_us(),
            self.rtt.srtt().as_micros() as u32,
            force,
        );
        if self.board.lost_total > before {
            self.report_losses(now);
        }
        wait
    }

    fn report_losses(&mut self, now: Time) {
        let Sender { board, cc, win, .. } = self;
        board.take_lost(|lost| {
            if let Some(signals) = cc.signals() {
                signals.on_lost(&lost, now, win);
            }
        });
    }

    fn await_reordering(&mut self, now: Time, wait: Span) {
        self.timers.set(Timer::Reordering, wheel::expiry(now, wait + TIMEOUT_MIN));
    }

    fn try_to_open(&mut self, now: Time, ece: bool) {
        if !self.board.any_retransmission_out() {
            self.recovery.retransmission_stamp = None;
        }
        if ece {
            self.enter_cwr(now);
        }
        if self.recovery.state != CaState::Cwr {
            self.keep_open();
        }
    }

    fn keep_open(&mut self) {
        let b = &self.board;
        let left_out = b.sacked_out + b.lost_out > 0 || b.any_retransmission_out();
        let state = if left_out { CaState::Disorder } else { CaState::Open };
        if state != self.recovery.state {
            self.set_state(state);
            self.recovery.high_seq = self.board.nxt;
        }
    }

    pub(super) fn enter_cwr(&mut self, now: Time) {
        self.recovery.prior_ssthresh = None;
        if self.recovery.state < CaState::Cwr {
            self.board.undo.end();
            self.begin_reduction(now, Congestion::Ecn);
            self.recovery.state = CaState::Cwr;
        }
    }

    fn enter_recovery(&mut self, now: Time, ece: bool) {
        if self.board.retrans_out == 0 {
            self.recovery.retransmission_stamp = None;
        }
        self.recovery.prior_ssthresh = None;
        self.board.undo.begin(self.board.una, self.board.retrans_out);
        if !self.recovery.state.is_reducing() {
            if !ece {
                self.recovery.prior_ssthresh = Some(self.current_ssthresh());
            }
            self.begin_reduction(now, Congestion::Loss);
        } else if self.constants.answers_loss_while_reducing {
            self.congestion(Congestion::Loss, now);
        }
        self.recovery.state = CaState::Recovery;
    }

    fn begin_reduction(&mut self, now: Time, why: Congestion) {
        let r = &mut self.recovery;
        r.high_seq = self.board.nxt;
        r.probe = None;
        r.reduction = Reduction::begin(self.win.cwnd);
        self.win.cwnd_count = 0;
        self.congestion(why, now);
        self.ecn.announces_cwr = self.ecn.mode == EcnMode::Classic;
    }

    fn end_reduction(&mut self) {
        if self.constants.governs_window {
            return;
        }
        let state = self.recovery.state;
        let reduced = state == CaState::Cwr || self.board.undo.is_open();
        if self.win.ssthresh < SSTHRESH_INFINITE && reduced {
            self.win.cwnd = self.win.ssthresh;
        }
    }

    /// The threshold to restore: what a reduction would not be counted against.
    fn current_ssthresh(&self) -> u32 {
        if self.recovery.state.is_reducing() {
            self.win.ssthresh
        } else {
            self.win.ssthresh.max(self.win.cwnd / 2 + self.win.cwnd / 4)
        }
    }

    // --- undo -------------------------------------------------------------------------------

    /// The ACK echoes a timestamp from before the first retransmission: the original arrived
    /// (Eifel, RFC 3522).
    fn original_was_delayed(&self, pkt: &Packet) -> bool {
        match self.recovery.retransmission_stamp {
            Some(_) if !self.config.switches.timestamps => false,
            Some(stamp) => Stamp::of(pkt.stamp).older_than(Stamp::of(stamp)) > 0,
            None => true,
        }
    }

    fn may_undo(&self, pkt: &Packet) -> bool {
        let undo = &self.board.undo;
        undo.is_proven() || undo.is_open() && self.original_was_delayed(pkt)
    }

    fn undo(&mut self, unmark_lost: bool) {
        if unmark_lost {
            self.board.unmark_lost();
        }
        if let Some(prior_ssthresh) = self.recovery.prior_ssthresh {
            self.cc.on_undo(self.recovery.reduction.prior_cwnd, &mut self.win);
            if prior_ssthresh > self.win.ssthresh {
                self.win.ssthresh = prior_ssthresh;
                self.ecn.announces_cwr = false;
            }
        }
        self.board.undo.end();
        self.board.rack.reexamine();
    }

    fn try_undo_recovery(&mut self, pkt: &Packet) {
        if self.may_undo(pkt) {
            self.undo(false);
        } else {
            self.board.rack.recovery_ended();
        }
        self.set_state(CaState::Open);
    }

    fn try_undo_partial(&mut self, pkt: &Packet) -> bool {
        if !self.board.undo.is_open() || !self.original_was_delayed(pkt) {
            return false;
        }
        if self.board.retrans_out > 0 {
            return true; // wait until it is certain
        }
        self.undo(true);
        self.keep_open();
        false
    }

    fn try_undo_by_dsack(&mut self) -> bool {
        let is_proven = self.board.undo.is_proven();
        if is_proven {
            self.undo(false);
        }
        is_proven
    }

    fn try_undo_loss(&mut self, pkt: &Packet, spurious: bool) -> bool {
        if !spurious && !self.may_undo(pkt) {
            return false;
        }
        self.undo(true);
        self.timers.retransmits = 0;
        self.set_state(CaState::Open);
        true
    }

    // --- timeouts and probes ----------------------------------------------------------------

    fn process_loss(&mut self, pkt: &Packet, prior_una: u32, outcome: &AckOutcome) -> Resend {
        let advanced = self.board.una > prior_una;
        let recovered = self.board.una >= self.recovery.high_seq;
        if advanced && self.try_undo_loss(pkt, false) {
            return Resend::Nothing;
        }
        if self.recovery.frto {
            // RFC 5682, 3.1, with SACK: data never retransmitted was acknowledged.
            if outcome.original_acked && self.try_undo_loss(pkt, true) {
                return Resend::Nothing;
            }
            if self.board.nxt > self.recovery.high_seq {
                if outcome.sacked || !advanced {
                    self.recovery.frto = false; // the loss was real
                }
            } else if advanced && !recovered {
                self.recovery.high_seq = self.board.nxt;
                if self.data.is_there() && self.receiver_room() > 0 {
                    return Resend::New;
                }
                self.recovery.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(pkt);
            return Resend::Nothing;
        }
        Resend::Lost
    }

    pub(super) fn on_retransmission_timeout(&mut self, now: Time, out: &mut Outbox) {
        if self.board.packets_out() == 0 {
            return;
        }
        self.enter_loss(now);
        self.timers.retransmits += 1;
        if !self.waits_in_host(self.board.una) {
            self.retransmit(now, self.board.una, 1, out);
        }
        self.timers.backoff += 1;
        self.timers.set(Timer::Retransmit, wheel::expiry(now, self.rto()));
    }

    fn enter_loss(&mut self, now: Time) {
        let state = self.recovery.state;
        let new_episode = state < CaState::Recovery;
        self.board.mark_lost_by_timeout(now);
        self.report_losses(now);
        if state <= CaState::Disorder
            || self.recovery.high_seq <= self.board.una
            || (state == CaState::Loss && self.timers.retransmits == 0)
        {
            self.recovery.prior_ssthresh = Some(self.current_ssthresh());
            self.recovery.reduction.prior_cwnd = self.win.cwnd;
            self.congestion(Congestion::Timeout, now);
            self.board.undo.begin(self.board.una, self.board.retrans_out);
        }
        self.win.cwnd = self.board.in_flight() + 1;
        self.win.cwnd_count = 0;
        self.recovery.state = CaState::Loss;
        self.recovery.high_seq = self.board.nxt;
        self.recovery.probe = None;
        self.ecn.announces_cwr = self.ecn.mode == EcnMode::Classic;
        self.recovery.frto = new_episode || self.timers.retransmits > 0;
        if let Some(signals) = self.cc.signals() {
            signals.on_timeout(self.board.lost_total, &self.win);
        }
    }

    pub(super) fn on_reordering_timeout(&mut self, now: Time, out: &mut Outbox) {
        let before = self.board.in_flight();
        let lost_before = self.board.lost_total;
        self.detect_loss(now, true);
        if self.board.in_flight() != before {
            if self.recovery.state != CaState::Recovery {
                self.enter_recovery(now, false);
                if !self.constants.governs_window {
                    self.reduce(1, self.board.lost_total > lost_before, false);
                }
            }
            self.retransmit_lost(now, out);
        }
        if self.timers.pending != Timer::Retransmit {
            self.rearm_retransmission(now);
        }
    }

    /// RFC 8985, 7.4.2: if the probe repaired a loss, the window is reduced as for any loss.
    fn on_probe_answered(&mut self, now: Time, ack: u32, probe: TailProbe, outcome: &AckOutcome) {
        if ack < probe.end {
            return;
        }
        if !probe.was_retransmission || outcome.probe_twice {
            self.recovery.probe = None;
        } else if ack > probe.end {
            self.begin_reduction(now, Congestion::TailLoss);
            self.recovery.state = CaState::Cwr;
            self.end_reduction();
            self.keep_open();
        } else if !outcome.una_advanced && !outcome.sacked {
            self.recovery.probe = None;
        }
    }
}

#[cfg(test)]
mod tests;
