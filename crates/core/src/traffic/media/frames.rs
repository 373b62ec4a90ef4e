//! What becomes of frames: latency, late and lost ones, freezes (W3C webrtc-stats).

use std::collections::VecDeque;

use crate::probe::{Experience, Transfer, TransferKind};
use crate::time::{Span, Time};

/// After its deadline a frame is waited for as long as packets may be reordered.
const PATIENCE: Span = Span::from_secs(1);
/// A picture that stays three times as long as the mean of the last 30, and 150 ms longer than that, is
/// frozen (W3C webrtc-stats, `freezeCount`).
const USUAL: usize = 30;
const FROZEN_FACTOR: u64 = 3;
const FROZEN_MORE: Span = Span::from_millis(150);
const SECOND: Span = Span::from_secs(1);

/// A frame on its way.
#[derive(Copy, Clone, Debug)]
struct Frame {
    captured: Time,
    bytes: u64,
    /// Packets of it, and how many of these have come.
    packets: u32,
    came: u32,
    /// Number of its last packet, and when that left; `NEVER`: it has not.
    last: u32,
    sent: Time,
}

impl Frame {
    /// Whether a packet that left after all of the frame has come.
    fn is_passed(&self, newest: Option<u32>) -> bool {
        self.sent < Time::NEVER && newest.is_some_and(|seq| seq.wrapping_sub(self.last) as i32 > 0)
    }
}

/// Frames from the first that may still come.
#[derive(Clone, Debug)]
pub struct Frames {
    group: u16,
    deadline: Span,
    measured_from: Time,
    ring: VecDeque<Frame>,
    /// Number of the first frame of `ring`, and of the one that is leaving.
    first: u32,
    leaving: u32,
    /// How much of that one is left, and how much of it and of those behind it, bytes.
    left: u64,
    queued: u64,
    viewer: Viewer,
    /// Since when the encoder rests.
    paused: Option<Time>,
    so_far: Experience,
    bitrate: Bitrate,
    done: Vec<Transfer>,
}

impl Frames {
    pub fn new(group: u16, deadline: Span, measured_from: Time) -> Frames {
        Frames {
            group,
            deadline,
            measured_from,
            ring: VecDeque::new(),
            first: 0,
            leaving: 0,
            left: 0,
            queued: 0,
            viewer: Viewer { measured_from, ..Viewer::default() },
            paused: None,
            so_far: Experience::default(),
            bitrate: Bitrate::default(),
            done: Vec::new(),
        }
    }

    /// The encoder has a frame of so many packets.
    pub fn capture(&mut self, now: Time, bytes: u64, packets: u32) {
        let is_idle = self.waiting().is_none();
        let last = 0;
        let frame = Frame { captured: now, bytes, packets, came: 0, last, sent: Time::NEVER };
        self.ring.push_back(frame);
        self.queued += bytes;
        if is_idle {
            self.left = bytes;
        }
        if now >= self.measured_from {
            self.so_far.frames += 1;
            self.so_far.media_bytes += bytes;
            self.bitrate.add(now.since(self.measured_from), bytes);
        }
    }

    /// No frame follows those that are on their way.
    pub fn pause(&mut self, now: Time) {
        self.paused.get_or_insert(now);
    }
    /// Frames come again: the time without is no freeze.
    pub fn resume(&mut self, now: Time) {
        if self.paused.take().is_some() {
            self.viewer.resume(now);
        }
    }

    /// Number and bytes left of the frame that is to leave next.
    #[inline]
    pub fn waiting(&self) -> Option<(u32, u64)> {
        let at = self.leaving.wrapping_sub(self.first) as usize;
        (at < self.ring.len()).then_some((self.leaving, self.left))
    }
    /// Since when that one waits.
    pub fn waiting_since(&self) -> Option<Time> {
        self.ring.get(self.leaving.wrapping_sub(self.first) as usize).map(|f| f.captured)
    }
    /// Bytes of media that have not left.
    pub fn waiting_bytes(&self) -> u64 {
        self.queued
    }
    /// So many bytes of it have left in packet `seq`.
    #[inline]
    pub fn on_sent(&mut self, now: Time, bytes: u64, seq: u32) {
        self.left -= bytes;
        self.queued -= bytes;
        if self.left > 0 {
            return;
        }
        let at = self.leaving.wrapping_sub(self.first) as usize;
        (self.ring[at].last, self.ring[at].sent) = (seq, now);
        self.leaving = self.leaving.wrapping_add(1);
        self.left = self.ring.get(at + 1).map_or(0, |f| f.bytes);
    }

    /// A packet of a frame has come for the first time; `newest` is the newest packet that has come.
    #[inline]
    pub fn on_packet(&mut self, now: Time, number: u32, newest: Option<u32>) {
        let at = number.wrapping_sub(self.first) as usize;
        let Some(frame) = self.ring.get_mut(at) else { return };
        frame.came += 1;
        if frame.came == frame.packets {
            let frame = *frame;
            self.complete(now, number, frame, newest);
        }
    }

    fn complete(&mut self, now: Time, number: u32, frame: Frame, newest: Option<u32>) {
        let latency = now.since(frame.captured);
        if frame.captured >= self.measured_from && latency > self.deadline {
            self.so_far.late += 1;
        }
        self.done.push(Transfer {
            group: self.group,
            kind: TransferKind::MediaFrame,
            start: frame.captured,
            bytes: Some(frame.bytes),
            completion: latency,
            response: Some(now.since(frame.sent)),
            idle: None,
            ideal: None,
            retransmits: None,
        });
        self.viewer.show(now, number);
        while let Some(front) = self.ring.front() {
            let is_complete = front.came == front.packets;
            // The receiver knows from a later packet that all of a frame was sent. How far the sender has
            // got by now depends on windows.
            let is_lost =
                front.is_passed(newest) && now > front.captured + self.deadline + PATIENCE;
            if !is_complete && !is_lost {
                break;
            }
            self.so_far.lost += u64::from(!is_complete && front.captured >= self.measured_from);
            self.ring.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    pub fn take_done(&mut self, into: &mut Vec<Transfer>) {
        into.append(&mut self.done);
    }

    /// What the viewer has experienced if the run is over at `now`; frames and packets came to an end at
    /// `stop`, and `newest` is the newest packet that has come.
    pub fn experience(&self, now: Time, stop: Time, newest: Option<u32>) -> Experience {
        let mut all = self.so_far.clone();
        for frame in self.ring.iter().filter(|f| f.captured >= self.measured_from) {
            if frame.came == frame.packets {
                continue;
            }
            if now <= frame.captured + self.deadline {
                // Too soon to tell.
                all.frames -= 1;
            } else if frame.is_passed(newest) {
                all.lost += 1;
            } else {
                all.late += 1;
            }
        }
        (all.freezes, all.frozen) =
            self.viewer.freezes(now.min(stop).min(self.paused.unwrap_or(Time::NEVER)));
        (all.rate_changes, all.change_seconds_bytes) =
            (self.bitrate.changes, self.bitrate.compared);
        all
    }
}

/// A frame that another program has sent.
#[derive(Copy, Clone, Debug)]
pub struct SentFrame {
    pub captured: Time,
    pub bytes: u64,
    /// When all of it had come; `NEVER`: it has not.
    pub complete: Time,
}

/// What the viewer of such frames, in the order of their capture, has experienced. The encoder stopped at `stop`, and the
/// run was over at `now`.
pub fn experience_of(
    sent: &[SentFrame],
    deadline: Span,
    measured_from: Time,
    stop: Time,
    now: Time,
) -> Experience {
    let mut frames = Frames::new(0, deadline, measured_from);
    let mut arrivals: Vec<(Time, u32)> =
        sent.iter().zip(0..).map(|(frame, number)| (frame.complete, number)).collect();
    arrivals.sort_unstable();
    let mut arrivals = arrivals.into_iter().take_while(|&(time, _)| time <= now).peekable();
    let mut newest = None;
    let mut arrive = |frames: &mut Frames, until: Time| {
        while let Some((time, number)) = arrivals.next_if(|&(time, _)| time < until) {
            newest = newest.max(Some(number));
            frames.on_packet(time, number, newest);
        }
        newest
    };
    for (frame, number) in sent.iter().zip(0..) {
        arrive(&mut frames, frame.captured);
        frames.capture(frame.captured, frame.bytes, 1);
        frames.on_sent(frame.captured, frame.bytes, number);
    }
    let newest = arrive(&mut frames, Time::NEVER);
    frames.experience(now, stop, newest)
}

/// Shows each frame when it is complete, unless a later one was there before.
#[derive(Clone, Debug, Default)]
struct Viewer {
    measured_from: Time,
    shown: Option<(Time, u32)>,
    /// How long the last pictures were shown.
    gaps: VecDeque<Span>,
    sum: Span,
    freezes: u64,
    frozen: Span,
}

impl Viewer {
    fn show(&mut self, now: Time, number: u32) {
        if let Some((since, last)) = self.shown {
            if number.wrapping_sub(last) as i32 <= 0 {
                return;
            }
            let gap = now.since(since);
            (self.freezes, self.frozen) = self.freezes(now);
            if self.gaps.len() == USUAL {
                self.sum = self.sum - self.gaps.pop_front().unwrap_or_default();
            }
            self.gaps.push_back(gap);
            self.sum += gap;
        }
        self.shown = Some((now, number));
    }

    /// The picture of before a pause does not count as shown since then.
    fn resume(&mut self, now: Time) {
        self.shown = self.shown.map(|(since, number)| (since.max(now), number));
    }

    /// Freezes and their length, with the picture that is shown if it is replaced at `now`.
    fn freezes(&self, now: Time) -> (u64, Span) {
        let so_far = (self.freezes, self.frozen);
        let (Some((since, _)), n) = (self.shown, self.gaps.len() as u64) else { return so_far };
        if n == 0 || now <= self.measured_from {
            return so_far;
        }
        let mean = self.sum / n;
        if now.since(since) < (mean * FROZEN_FACTOR).max(mean + FROZEN_MORE) {
            return so_far;
        }
        (self.freezes + 1, self.frozen + now.since(since.max(self.measured_from)))
    }
}

/// How much the rate of the encoder changes from one second to the next.
#[derive(Clone, Debug, Default)]
struct Bitrate {
    /// The second at hand, what it has, and what the one before had, bytes.
    second: u64,
    bytes: u64,
    before: Option<u64>,
    /// Sum of the differences, and of the seconds that were compared with the one before.
    changes: u64,
    compared: u64,
}

impl Bitrate {
    fn add(&mut self, time: Span, bytes: u64) {
        while (self.second + 1) * SECOND.0 <= time.0 {
            if let Some(before) = self.before {
                self.changes += self.bytes.abs_diff(before);
                self.compared += self.bytes;
            }
            self.before = Some(self.bytes);
            self.bytes = 0;
            self.second += 1;
        }
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    /// Frames of two packets every 20 ms that take `latency(number)` ms; `None`: the second packet is lost.
    fn call(n: u32, end: u64, latency: impl Fn(u32) -> Option<u64>) -> Experience {
        let mut frames = Frames::new(0, MS * 100, at(0));
        let mut arrivals = Vec::new();
        for number in 0..n {
            let captured = u64::from(number) * 20;
            frames.capture(at(captured), 2000, 2);
            frames.on_sent(at(captured), 1000, 2 * number);
            frames.on_sent(at(captured + 2), 1000, 2 * number + 1);
            let second = latency(number);
            arrivals.push((captured + second.unwrap_or(10) - 5, number, 2 * number));
            arrivals.extend(second.map(|ms| (captured + ms, number, 2 * number + 1)));
        }
        arrivals.sort_unstable();
        arrivals.retain(|(ms, ..)| *ms < end);
        let mut newest = None;
        for (ms, number, seq) in &arrivals {
            newest = newest.max(Some(*seq));
            frames.on_packet(at(*ms), *number, newest);
        }
        let stop = at(u64::from(n) * 20);
        frames.experience(at(end), stop, newest)
    }

    #[test]
    fn late_and_lost_frames_are_counted() {
        let even = call(100, 2200, |_| Some(10));
        assert_eq!((even.frames, even.late, even.lost, even.freezes), (100, 0, 0, 0));
        let some = call(100, 2200, |n| (n != 50).then_some(if n % 10 == 3 { 101 } else { 100 }));
        assert_eq!((some.frames, some.late, some.lost), (100, 10, 1));
        // What may still come in time does not count; what is late and not passed by a later packet is late.
        let cut = call(100, 1950, |_| Some(400));
        assert_eq!((cut.frames, cut.late, cut.lost), (93, 93, 0));
    }

    /// 50 frames lost: the picture of frame 39 stays for 51 frames.
    #[test]
    fn frames_of_another_program_are_counted_alike() {
        let sent: Vec<SentFrame> = (0..100)
            .map(|n| SentFrame {
                captured: at(20 * n),
                bytes: 2000,
                complete: match n {
                    10..20 => Time::NEVER,
                    20..25 => at(20 * n + 150),
                    _ => at(20 * n + 10),
                },
            })
            .collect();
        let ours = experience_of(&sent, MS * 100, at(0), at(2000), at(4000));
        let model = call(100, 4000, |n| match n {
            10..20 => None,
            20..25 => Some(150),
            _ => Some(10),
        });
        assert_eq!((ours.frames, ours.late, ours.lost), (100, 5, 10));
        assert_eq!(format!("{ours:?}"), format!("{model:?}"));
    }

    #[test]
    fn a_hole_is_one_freeze() {
        let hole = call(200, 4200, |n| (!(40..90).contains(&n)).then_some(10));
        assert_eq!((hole.lost, hole.freezes, hole.frozen), (50, 1, MS * 1020));
        // 8 frames: 180 ms are above three gaps and above 20 + 150 ms; 7 frames are not.
        assert_eq!(call(200, 4200, |n| (!(40..48).contains(&n)).then_some(10)).freezes, 1);
        assert_eq!(call(200, 4200, |n| (!(40..47).contains(&n)).then_some(10)).freezes, 0);
        // Nothing comes any more.
        let dead = call(200, 4010, |n| (n < 100).then_some(10));
        assert_eq!((dead.freezes, dead.frozen), (1, MS * 2010));
    }

    #[test]
    fn changes_of_the_rate_are_between_seconds() {
        let mut rate = Bitrate::default();
        for (ms, bytes) in [(0, 100), (500, 100), (1000, 300), (2500, 50), (3000, 1)] {
            rate.add(MS * ms, bytes);
        }
        assert_eq!((rate.changes, rate.compared), (100 + 250, 300 + 50));
    }
}
