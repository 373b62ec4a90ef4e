//! What a sender of RTP remembers of its packets, and what a receiver reports about them: RFC 8888, or
//! transport-wide feedback (draft-holmer-rmcat-transport-wide-cc-extensions-01).
//!
//! Sender and receiver share one history. The receiver writes when a packet came. The sender reads only what
//! a report has told: it skips arrivals after the report left.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

pub use crate::cc::media::RTP;
use crate::cc::media::{Fate, Report, Reports};
use crate::ecn::Ecn;
use crate::packet::{EcnBytes, Flags, FlowId, GroupId, Packet, UDP_IP_HEADERS};
use crate::time::{Span, Time};
use crate::units::ETHERNET_HEADER;

/// What stands before an RTP packet.
pub const BELOW_RTP: u32 = UDP_IP_HEADERS + ETHERNET_HEADER;
/// All that is no media in a frame on the wire.
pub const OVERHEAD: u32 = BELOW_RTP + RTP;
/// SRTCP's index and authentication tag.
pub const SRTCP: u32 = 14;
/// A report covers so many packets again that an earlier one told of, so that a lost report costs nothing
/// (Ericsson's receiver reports the last 64 packets).
const REPEATED: u32 = 64;
/// The least time by which a packet may come later than those sent after it without being lost. It grows to
/// what is seen (RFC 8985, 6.2).
const LEAST_REORDERING: Span = Span::from_millis(1);
/// More packets than any path holds: the sender forgets older ones that no report told of.
const REMEMBERED: usize = 1 << 18;

/// The format of reports.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// RFC 8888, with the ECN field of each packet.
    #[default]
    Ccfb,
    /// Transport-wide sequence numbers, without ECN.
    Twcc,
}

impl Format {
    /// A report about `packets`, of which `came` came, as an Ethernet frame.
    fn frame_len(self, packets: u32, came: u32) -> u32 {
        let content = match self {
            // Sender, block of one stream with two bytes per packet, time stamp (RFC 8888, 3.1).
            Format::Ccfb => 8 + 8 + (2 * packets).next_multiple_of(4) + 4,
            // Two bits per packet in chunks of seven, and a byte for each arrival.
            Format::Twcc => (20 + 2 * packets.div_ceil(7) + came).next_multiple_of(4),
        };
        (BELOW_RTP + SRTCP + content).min(u32::from(u16::MAX))
    }
}

/// What is known of a packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Known {
    Nothing,
    Arrived,
    Lost,
}

#[derive(Copy, Clone, Debug)]
struct Entry {
    sent: Time,
    /// When it came for the first time.
    arrived: Time,
    /// Bytes of RTP packets sent up to here, itself included.
    end: u64,
    size: u16,
    cluster: u16,
    /// Its codepoint when it left, and when it came.
    left_with: Ecn,
    came_with: Ecn,
    known: Known,
}

/// The RTP packets whose fate is not known yet.
#[derive(Clone, Debug)]
pub struct History {
    entries: VecDeque<Entry>,
    /// Number of the first entry.
    first: u32,
    /// Of every packet before this one the fate is known.
    resolved: u32,
    sent_bytes: u64,
    /// Up to the newest packet that has arrived.
    acked_bytes: u64,
    newest: Option<u32>,
    last_report: Time,
    most_in_flight: u64,
    reordering: Span,
    lost_after: Option<u32>,
    /// The newest packet that was given up.
    last_lost: Option<u32>,
    /// Reports tell the ECN field.
    tells_ecn: bool,
    bleached: bool,
    fates: Vec<Fate>,
}

impl History {
    /// Of packets whose reports have this format; they are lost when so many later ones have left, or else by time.
    pub fn new(format: Format, lost_after: Option<u32>) -> History {
        History {
            entries: VecDeque::new(),
            first: 0,
            resolved: 0,
            sent_bytes: 0,
            acked_bytes: 0,
            newest: None,
            last_report: Time::ZERO,
            most_in_flight: 0,
            reordering: LEAST_REORDERING,
            lost_after,
            last_lost: None,
            tells_ecn: format == Format::Ccfb,
            bleached: false,
            fates: Vec::new(),
        }
    }
    /// Number of the next packet.
    pub fn next(&self) -> u32 {
        self.first.wrapping_add(self.entries.len() as u32)
    }
    /// Bytes of RTP packets sent after the newest one that is known to have arrived.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.sent_bytes - self.acked_bytes
    }
    /// ECT packets came as Not-ECT or with another codepoint: the path does not carry it.
    pub fn is_bleached(&self) -> bool {
        self.bleached
    }
    fn place(&self, seq: u32) -> usize {
        seq.wrapping_sub(self.first) as usize
    }

    #[inline]
    pub fn on_sent(&mut self, now: Time, size: u32, ecn: Ecn, cluster: u16) {
        if self.entries.len() >= REMEMBERED {
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1);
            if (self.resolved.wrapping_sub(self.first) as i32) < 0 {
                self.resolved = self.first;
            }
        }
        self.sent_bytes += u64::from(size);
        self.entries.push_back(Entry {
            sent: now,
            arrived: Time::NEVER,
            end: self.sent_bytes,
            size: size as u16,
            cluster,
            left_with: ecn,
            came_with: ecn,
            known: Known::Nothing,
        });
        self.most_in_flight = self.most_in_flight.max(self.in_flight());
    }

    /// The receiver has a packet.
    #[inline]
    pub fn on_arrival(&mut self, now: Time, pkt: &Packet) {
        let place = self.place(pkt.seq);
        if let Some(entry) = self.entries.get_mut(place).filter(|e| e.arrived == Time::NEVER) {
            (entry.arrived, entry.came_with) = (now, pkt.ecn.get());
        }
    }

    /// A report has come: what is new. `None` if a newer one has overtaken it, or it has no news.
    pub fn on_report(&mut self, now: Time, pkt: &Packet, srtt: Span) -> Option<Report<'_>> {
        let (begin, end, left) = (pkt.ecn_bytes.ce, pkt.seq, pkt.stamp);
        if left < self.last_report {
            return None;
        }
        self.last_report = left;
        self.fates.clear();
        self.look_for_late(begin, left, srtt);
        let from = match (self.resolved.wrapping_sub(begin) as i32) < 0 {
            true if self.lost_after.is_none() => begin,
            _ => self.resolved,
        };
        let mut newest = None;
        for seq in span(from, end).rev() {
            if self.entries.get(self.place(seq)).is_some_and(|e| e.arrived <= left) {
                newest = Some(seq);
                break;
            }
        }
        let newest = newest?;
        let last = self.entries[self.place(newest)];
        let rtt = now.since(last.sent) - left.since(last.arrived);
        let give_up_before = now.saturating_sub(rtt + self.reordering);
        let (mut resolved, mut all_known) = (from, true);
        for seq in span(from, end) {
            let place = self.place(seq);
            let Some(entry) = self.entries.get_mut(place) else { continue };
            if entry.known == Known::Nothing {
                let came = entry.arrived <= left;
                let is_given_up = match self.lost_after {
                    Some(packets) => newest.wrapping_sub(seq) as i32 > packets as i32,
                    None => entry.sent <= give_up_before && entry.end < last.end,
                };
                if came || is_given_up {
                    entry.known = if came { Known::Arrived } else { Known::Lost };
                    let ce = self.tells_ecn && came && entry.came_with == Ecn::Ce;
                    self.bleached |=
                        self.tells_ecn && came && !ce && entry.came_with != entry.left_with;
                    self.fates.push(Fate {
                        sent: entry.sent,
                        arrived: came.then_some(entry.arrived),
                        size: entry.size.into(),
                        ce,
                        cluster: entry.cluster,
                    });
                    if !came {
                        self.last_lost = Some(seq);
                    }
                } else {
                    all_known = false;
                }
            }
            if all_known {
                resolved = seq.wrapping_add(1);
            }
        }
        self.resolved = resolved;
        let acked = last.end.saturating_sub(self.acked_bytes);
        self.acked_bytes = self.acked_bytes.max(last.end);
        let is_newer = self.newest.is_none_or(|n| (newest.wrapping_sub(n) as i32) > 0);
        self.newest = if is_newer { Some(newest) } else { self.newest };
        while self.resolved.wrapping_sub(self.first) > REPEATED && !self.entries.is_empty() {
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        let in_flight = self.in_flight();
        let max_in_flight = std::mem::replace(&mut self.most_in_flight, in_flight);
        Some(Report {
            now,
            packets: &self.fates,
            rtt,
            one_way: last.arrived.since(last.sent),
            acked,
            in_flight,
            max_in_flight,
        })
    }

    /// What was given up and has come after all teaches how long to wait.
    fn look_for_late(&mut self, begin: u32, left: Time, srtt: Span) {
        let Some(lost) = self.last_lost else { return };
        if (lost.wrapping_sub(begin) as i32) < 0 {
            return;
        }
        let mut is_open = false;
        for seq in span(begin, self.resolved) {
            let place = self.place(seq);
            let next = self.entries.get(place + 1).copied();
            let Some(entry) = self.entries.get_mut(place).filter(|e| e.known == Known::Lost) else {
                continue;
            };
            if entry.arrived > left {
                is_open = true;
                continue;
            }
            entry.known = Known::Arrived;
            let usual = next.map_or(Span::ZERO, |e| e.arrived.since(e.sent));
            let late = entry.arrived.since(entry.sent) - usual;
            self.reordering = self.reordering.max(late.min(srtt));
        }
        if !is_open {
            self.last_lost = None;
        }
    }
}

/// The numbers from `from` up to `to`, exclusively; none if `to` is behind.
fn span(from: u32, to: u32) -> impl DoubleEndedIterator<Item = u32> {
    let n = to.wrapping_sub(from);
    let n = if n > u32::MAX / 2 { 0 } else { n };
    (0..n).map(move |i| from.wrapping_add(i))
}

/// A receiver's reports.
#[derive(Clone, Debug)]
pub struct Reporter {
    flow: FlowId,
    group: GroupId,
    format: Format,
    rule: Reports,
    /// The packet after the newest that has come, and the first that no report covers.
    end: u32,
    begin: u32,
    /// Came since the last report.
    came: u32,
    last: Time,
    deadline: Time,
    /// Ethernet frames of reports since measuring began, bytes.
    pub reported_bytes: u64,
    measured_from: Time,
}

impl Reporter {
    pub fn new(
        flow: FlowId,
        group: GroupId,
        format: Format,
        rule: Reports,
        measured_from: Time,
    ) -> Reporter {
        Reporter {
            flow,
            group,
            format,
            rule,
            end: 0,
            begin: 0,
            came: 0,
            last: Time::ZERO,
            deadline: Time::NEVER,
            reported_bytes: 0,
            measured_from,
        }
    }
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// A packet has come, the last of its frame or not. Returns a report that is due at once.
    #[inline]
    pub fn on_packet(&mut self, now: Time, seq: u32, is_last: bool) -> Option<Packet> {
        if (seq.wrapping_sub(self.end) as i32) >= 0 {
            self.end = seq.wrapping_add(1);
        } else if (seq.wrapping_sub(self.begin) as i32) < 0 {
            self.begin = seq;
        }
        self.came += 1;
        let soonest = self.last + self.rule.least;
        if self.rule.packets.is_some_and(|n| is_last || self.came >= n) {
            if soonest <= now || self.rule.least == Span::ZERO {
                return Some(self.report(now));
            }
            self.deadline = soonest;
        } else if self.deadline == Time::NEVER {
            let from = if self.rule.least == Span::ZERO { self.last } else { now };
            self.deadline = (from + self.rule.interval).max(soonest).max(now);
        }
        None
    }

    /// The report for the packets since the last one.
    pub fn report(&mut self, now: Time) -> Packet {
        let new = self.end.wrapping_sub(self.begin);
        let packets = match self.format {
            Format::Ccfb => new.max(REPEATED.min(self.end)),
            Format::Twcc => new,
        };
        let len = self.format.frame_len(packets, self.came);
        let mut p = Packet::new(self.flow, self.group, Flags::ACK, len, Ecn::NotEct);
        p.payload = (len - BELOW_RTP) as u16;
        p.stamp = now;
        p.seq = self.end;
        // The first packet that it tells of travels where an AccECN option has a counter.
        p.ecn_bytes = EcnBytes { ce: self.end.wrapping_sub(packets), ..EcnBytes::default() };
        (self.begin, self.came, self.last, self.deadline) = (self.end, 0, now, Time::NEVER);
        self.count(now, &p);
        p
    }

    /// A packet leaves that tells the sender something.
    pub fn count(&mut self, now: Time, pkt: &Packet) {
        if now >= self.measured_from {
            self.reported_bytes += u64::from(pkt.frame_len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    /// A sender and a receiver, 10 ms apart each way.
    struct Path {
        history: History,
        reporter: Reporter,
    }

    impl Path {
        fn new(format: Format, rule: Reports) -> Path {
            let reporter = Reporter::new(0, GroupId::default(), format, rule, Time::ZERO);
            Path { history: History::new(format, None), reporter }
        }
        fn send(&mut self, ms: u64) -> Packet {
            let mut p = Packet::new(0, GroupId::default(), Flags::UDP, 1042, Ecn::Ect1);
            p.seq = self.history.next();
            self.history.on_sent(at(ms), 1000, Ecn::Ect1, 0);
            p
        }
        fn arrive(&mut self, ms: u64, p: &Packet) -> Option<Packet> {
            self.history.on_arrival(at(ms), p);
            self.reporter.on_packet(at(ms), p.seq, false)
        }
        /// What the sender learns from a report that leaves at `ms`: arrived, lost, acknowledged bytes.
        fn report(&mut self, ms: u64) -> (usize, usize, u64) {
            let report = self.reporter.report(at(ms));
            let told = self.history.on_report(at(ms + 10), &report, MS * 20);
            told.map_or((0, 0, 0), |r| {
                let came = r.packets.iter().filter(|p| p.arrived.is_some()).count();
                (came, r.packets.len() - came, r.acked)
            })
        }
    }

    /// RFC 8888: 16 packets of one stream are 52 bytes of RTCP, 108 with SRTCP, UDP, IP and Ethernet.
    #[test]
    fn sizes_of_reports() {
        assert_eq!(Format::Ccfb.frame_len(16, 16), 108);
        assert_eq!(Format::Ccfb.frame_len(1, 1), 80);
        // 20 + two chunks of seven, and a byte for each arrival, in words.
        assert_eq!(Format::Twcc.frame_len(14, 12), 56 + 36);
    }

    /// libwebrtc: at the end of a frame, or 25 ms after the first packet; 25 ms apart at least.
    #[test]
    fn reports_of_libwebrtc() {
        let mut p = Path::new(Format::Ccfb, Reports::LIBWEBRTC);
        assert!(p.reporter.on_packet(at(30), 0, true).is_some());
        assert!(p.reporter.on_packet(at(35), 1, false).is_none());
        assert_eq!(p.reporter.deadline(), at(60));
        assert!(p.reporter.on_packet(at(40), 2, true).is_none());
        assert_eq!(p.reporter.deadline(), at(55));
        p.reporter.report(at(55));
        assert!(p.reporter.on_packet(at(79), 3, false).is_none());
        assert_eq!(p.reporter.deadline(), at(104));
        assert!(p.reporter.on_packet(at(90), 4, true).is_some());
    }

    #[test]
    fn a_report_follows_16_packets_or_a_frame_or_40_ms() {
        let mut p = Path::new(Format::Ccfb, Reports::SCREAM);
        let packets: Vec<_> = (0..40).map(|_| p.send(0)).collect();
        let due: Vec<_> = (0..40).filter(|&i| p.arrive(10, &packets[i]).is_some()).collect();
        assert_eq!(due, [15, 31]);
        assert_eq!(p.reporter.deadline(), at(50));
        assert!(p.reporter.on_packet(at(11), 40, true).is_some());
        assert_eq!(p.reporter.deadline(), Time::NEVER);
    }

    #[test]
    fn what_comes_after_the_report_is_not_known() {
        let mut p = Path::new(Format::Ccfb, Reports::every(MS * 100));
        let packets: Vec<_> = (0..4).map(|i| p.send(i)).collect();
        p.arrive(10, &packets[0]);
        p.arrive(11, &packets[1]);
        let report = p.reporter.report(at(11));
        p.arrive(12, &packets[2]);
        let r = p.history.on_report(at(21), &report, MS * 20).expect("news");
        assert_eq!((r.packets.len(), r.acked, r.in_flight), (2, 2000, 2000));
        assert_eq!((r.rtt, r.one_way, r.max_in_flight), (MS * 20, MS * 10, 4000));
        p.arrive(13, &packets[3]);
        assert_eq!(p.report(13), (2, 0, 2000));
    }

    /// A gap is a loss once a later packet was acknowledged and the reordering window has passed.
    #[test]
    fn a_gap_is_a_loss_after_the_reordering_window() {
        let mut p = Path::new(Format::Ccfb, Reports::every(MS * 100));
        let packets: Vec<_> = (0..6).map(|i| p.send(i)).collect();
        p.arrive(10, &packets[0]);
        p.arrive(12, &packets[2]);
        // Sent 1 ms before packet 2, which came after 20 ms: at 22 ms the window of 1 ms is just over.
        assert_eq!(p.report(12), (2, 1, 3000));
        // It comes after all, 5 ms later than the one behind it: from now on 5 ms are waited for.
        p.arrive(16, &packets[1]);
        p.arrive(16, &packets[5]);
        let (came, lost, acked) = p.report(16);
        assert_eq!((came, lost, acked), (1, 0, 3000));
        assert_eq!(p.history.reordering, MS * 5);
    }

    #[test]
    fn a_lost_report_costs_nothing_and_an_old_one_is_ignored() {
        let mut p = Path::new(Format::Ccfb, Reports::every(MS * 100));
        let packets: Vec<_> = (0..6).map(|i| p.send(i)).collect();
        p.arrive(10, &packets[0]);
        let lost = p.reporter.report(at(10));
        p.arrive(11, &packets[1]);
        assert_eq!(p.report(11), (2, 0, 2000));
        assert!(p.history.on_report(at(30), &lost, MS * 20).is_none());
    }

    #[test]
    fn a_path_that_bleaches_is_seen() {
        let mut p = Path::new(Format::Ccfb, Reports::every(MS * 100));
        let mut packet = p.send(0);
        packet.ecn.set(Ecn::Ce);
        p.arrive(10, &packet);
        let mut packet = p.send(1);
        packet.ecn.set(Ecn::NotEct);
        p.arrive(11, &packet);
        let report = p.reporter.report(at(11));
        assert!(!p.history.is_bleached(), "the sender has not heard of it");
        let r = p.history.on_report(at(21), &report, MS * 20).expect("news");
        assert_eq!(r.packets.iter().map(|p| p.ce).collect::<Vec<_>>(), [true, false]);
        assert!(p.history.is_bleached());
    }
}
