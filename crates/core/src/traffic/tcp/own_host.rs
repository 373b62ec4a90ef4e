//! A sending end whose first queue is in its own host: what the queue answers comes to it like a timer.

use std::collections::VecDeque;

use super::writer::Writes;
use crate::element::{Answer, End, Outbox};
use crate::offload;
use crate::packet::{Flags, Packet};
use crate::time::Time;
use crate::transport::sender::Sender;

/// The answers that the sender has not taken.
#[derive(Debug)]
pub(super) struct Answers {
    waiting: VecDeque<(Packet, Answer)>,
    /// ACKs that came while the sender waits for an answer.
    acks: VecDeque<Packet>,
    /// When it tries again, if the queue has refused all that it had.
    retry_at: Time,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers { waiting: VecDeque::new(), acks: VecDeque::new(), retry_at: Time::NEVER }
    }
}

impl Answers {
    pub fn push(&mut self, pkt: &Packet, answer: Answer) {
        self.waiting.push_back((*pkt, answer));
    }
}

/// A sender, or what drives one.
pub(super) trait Sends: End {
    fn sender(&mut self) -> &mut Sender;
}

impl Sends for Sender {
    fn sender(&mut self) -> &mut Sender {
        self
    }
}
impl Sends for Writes<'_> {
    fn sender(&mut self) -> &mut Sender {
        self.0
    }
}

/// TCP behind a queue in its own host. Its bursts are one packet each.
pub(super) struct OnHost<'a, E>(pub &'a mut E, pub &'a mut Answers);

impl<E: Sends> OnHost<'_, E> {
    /// Takes the ACKs that have come, each after the queue has answered what the one before set off.
    fn take_acks(&mut self, now: Time, out: &mut Outbox) {
        while !self.0.sender().awaits_answer()
            && let Some(ack) = self.1.acks.pop_front()
        {
            self.act(out, |own, out| own.0.on_packet(now, &ack, out));
        }
    }

    fn act(&mut self, out: &mut Outbox, act: impl FnOnce(&mut Self, &mut Outbox)) {
        self.0.sender().stand_by();
        let before = out.packets.len();
        act(self, out);
        offload::join(&mut out.packets, before);
        let data = out.packets[before..].iter().filter(|pkt| is_data(pkt));
        let segments = data.map(offload::count).sum();
        self.0.sender().handed_down(segments);
    }
}

/// It is numbered: the handshake's packets are not, and are sent without looking at the queue.
fn is_data(pkt: &Packet) -> bool {
    pkt.flags.has(Flags::DATA) && !pkt.flags.has(Flags::SYN)
}

impl<E: Sends> End for OnHost<'_, E> {
    fn deadline(&self) -> Time {
        let answer = self.1.waiting.front().map_or(Time::NEVER, |(pkt, _)| pkt.enqueued_at);
        self.0.deadline().min(answer).min(self.1.retry_at)
    }
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        self.act(out, |own, out| {
            let OnHost(end, answers) = own;
            let is_due = |(pkt, _): &&(Packet, Answer)| pkt.enqueued_at <= now;
            if let Some((pkt, answer)) = answers.waiting.front().filter(is_due).copied() {
                answers.waiting.pop_front();
                let of = (pkt.seq, offload::count(&pkt), pkt.payload.into());
                if is_data(&pkt)
                    && let Some(at) = end.sender().on_answer(now, of, answer, out)
                {
                    answers.retry_at = at;
                }
            } else if answers.retry_at <= now {
                answers.retry_at = Time::NEVER;
                end.sender().try_again(now, out);
            } else {
                end.on_timer(now, out);
            }
        });
        self.take_acks(now, out);
    }
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        self.1.acks.push_back(*pkt);
        self.take_acks(now, out);
    }
}
