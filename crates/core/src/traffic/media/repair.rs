//! What makes lost packets good: the receiver asks for them again (RFC 4585), and after losses the sender adds parity
//! packets (RFC 5109). Both as in libwebrtc, milestone 152, which sends parity among the media and repeats beside them.
//!
//! Packets of media and of parity have numbers of their own, in which the receiver sees gaps. As with
//! [`History`](crate::transport::rtp::History), both ends share what is known of them, and each reads of the other's part
//! only what a packet has told it.

use std::collections::VecDeque;

use super::frames::Frames;
use crate::cc::media::{Fate, Repair};
use crate::ecn::Ecn;
use crate::packet::{Flags, FlowId, GroupId, Packet};
use crate::time::{Span, Time};
use crate::transport::rtp::{BELOW_RTP, SRTCP};

/// A packet that did not come is asked for again after this time, and so often at most. It is the round trip that a
/// receiver assumes which sends no media itself (`nack_requester`).
const ASK_AGAIN: Span = Span::from_millis(100);
const MOST_ASKS: u8 = 10;
/// The newest so many missing packets are asked for.
const MOST_MISSING: usize = 1000;
/// The sender repeats packets that are younger than this or than three round trips; both ends forget them later.
const REPEATABLE: Span = Span::from_secs(1);
const REMEMBERED: Span = Span::from_secs(10);
/// Repeats are limited to the target rate over this time; the encoder gets what parity and repeats left over within the
/// last second, and at least a half.
const TENTH: Span = Span::from_millis(100);
const LIMITED: usize = 5;
const SHARED: usize = 10;
const MOST_OVERHEAD: f64 = 0.5;
/// A share of lost packets is one of so many at least, within the time between RTCP's receiver reports (0.5 to 1.5 s);
/// the highest of the last seconds counts.
const COUNTED: u32 = 20;
const REPORTED: Span = Span::from_secs(1);
const LOSSES: Span = Span::from_secs(10);
/// Parity: with shorter round trips repeats suffice, and small frames get none unless the round trip is long.
const LEAST_RTT: Span = Span::from_millis(20);
const LONG_RTT: Span = Span::from_millis(200);
const SMALL_FRAME: f64 = 700.0;
/// Protection: bounds in 255ths of all packets, and in 256ths of the media, from where on blocks are longer.
const PROTECTION: (f64, f64) = (51.0, 127.0);
const STRONG: u32 = 80;
/// Packets and frames of a block at most, packets at least with strong protection, and by how much parity may exceed
/// the protection for a block to end before (256ths).
const BLOCK: u32 = 48;
const BLOCK_FRAMES: f64 = 6.0;
const STRONG_BLOCK: u32 = 4;
const EXCESS: u32 = 50;
/// Parity leaves so long after its media, unless media wait (the pacer's next run; captures of libwebrtc).
const PARITY_DELAY: Span = Span::from_millis(5);
/// Headers of parity, and of a repeat, bytes.
const PARITY_HEADER: u32 = 14;
const REPEAT_HEADER: u32 = 2;

/// Number in the window field of parity packets, and of packets that ask.
pub const IS_PARITY: u16 = 3;
pub const IS_ASKING: u16 = 4;

#[derive(Copy, Clone, Debug)]
struct Sent {
    left: Time,
    size: u32,
    frame: u32,
    /// Of the sender: it waits to be repeated; when it was.
    waits: bool,
    repeated: Option<Time>,
    /// Of the receiver.
    came: bool,
}

/// Packets with their parity.
#[derive(Copy, Clone, Debug)]
struct Block {
    first: u32,
    media: u32,
    first_parity: u32,
    parity: u32,
    /// Of the receiver.
    parity_came: u32,
}

impl Block {
    fn end(&self) -> u32 {
        self.first_parity.wrapping_add(self.parity)
    }
    fn protects(&self, number: u32) -> bool {
        number.wrapping_sub(self.first) < self.media
    }
}

/// What is to leave before further media.
#[derive(Copy, Clone, Debug)]
pub enum Waiting {
    Repeat { number: u32, frame: u32, size: u32 },
    Parity { size: u32 },
}

impl Waiting {
    pub fn size(self) -> u32 {
        match self {
            Waiting::Repeat { size, .. } | Waiting::Parity { size } => size,
        }
    }
}

/// What both ends know of retransmitted packets and of parity packets.
#[derive(Clone, Debug)]
pub struct Repairs {
    with_parity: bool,
    flow: FlowId,
    group: GroupId,
    packets: VecDeque<Sent>,
    /// Number of the first of them.
    first: u32,
    blocks: VecDeque<Block>,
    /// Numbers that were asked for, with the number of the packet that asks.
    asked: VecDeque<(u32, u32)>,
    sender: Sender,
    receiver: Receiver,
}

#[derive(Clone, Debug, Default)]
struct Sender {
    open: OpenBlock,
    parity: Parity,
    repeats: VecDeque<u32>,
    counted: Counted,
    /// Shares of lost packets, each higher than those after it.
    losses: VecDeque<(Time, f64)>,
    repeated: u64,
    spent: Spent,
}

/// Media that has left since the last block ended.
#[derive(Copy, Clone, Debug, Default)]
struct OpenBlock {
    packets: u32,
    frames: u32,
    /// Bytes of the largest packet.
    largest: u32,
}

/// Parity that has not left: packets, bytes of each, and when they leave.
#[derive(Copy, Clone, Debug, Default)]
struct Parity {
    packets: u32,
    size: u32,
    due: Time,
}

/// Packets that reports told of since the last share was taken, and lost ones among them.
#[derive(Copy, Clone, Debug, Default)]
struct Counted {
    since: Time,
    packets: u32,
    lost: u32,
}

#[derive(Clone, Debug, Default)]
struct Receiver {
    /// After the newest number that has come.
    end: u32,
    missing: Vec<Missing>,
    asks: u32,
}

#[derive(Copy, Clone, Debug)]
struct Missing {
    number: u32,
    asked: Time,
    asks: u8,
}

/// Bytes in each of the last tenths of a second: all, parity and repeats, and repeats.
#[derive(Clone, Debug, Default)]
struct Spent {
    tenth: u64,
    bytes: [[u64; 3]; SHARED],
}

impl Spent {
    fn move_to(&mut self, now: Time) {
        let tenth = now.since(Time::ZERO).0 / TENTH.0;
        let passed = (tenth - self.tenth).min(SHARED as u64);
        for i in 1..=passed {
            self.bytes[((self.tenth + i) % SHARED as u64) as usize] = [0; 3];
        }
        self.tenth = tenth;
    }
    fn add(&mut self, now: Time, size: u32, waiting: Option<Waiting>) {
        self.move_to(now);
        let slot = &mut self.bytes[(self.tenth % SHARED as u64) as usize];
        let size = u64::from(size);
        slot[0] += size;
        slot[1] += if waiting.is_some() { size } else { 0 };
        slot[2] += if matches!(waiting, Some(Waiting::Repeat { .. })) { size } else { 0 };
    }
    fn sum(&self, what: usize, tenths: usize) -> u64 {
        let slots = (0..tenths as u64).filter_map(|i| self.tenth.checked_sub(i));
        slots.map(|t| self.bytes[(t % SHARED as u64) as usize][what]).sum()
    }
}

/// Protection in 256ths of the media, for a share of lost packets and the size of a mean frame, bits.
///
/// libwebrtc has a table (`kFecRateTable`), of which this is the line through its middle: within 15 of its 255ths from
/// 20 kbit per frame on.
fn protection(loss: f64, frame_bits: f64, srtt: Span) -> u32 {
    let loss = (255.0 * loss).floor();
    let is_small = frame_bits / 8.0 < SMALL_FRAME && srtt < LONG_RTT;
    if loss < 1.0 || srtt < LEAST_RTT || is_small {
        return 0;
    }
    // The table's rows are of 5 kbit per frame, for a picture of 640 by 360.
    let row = ((1.19 * frame_bits / 1e3 - 5.0) / 5.0).clamp(0.0, 49.0);
    let full_at = (80.0 - 3.5 * row).max(22.0);
    let most = PROTECTION.1.min(60.0 + 20.0 * row);
    let share = (30.0 + 97.0 * loss / full_at).max(PROTECTION.0).min(most);
    (0.5 + 255.0 * share / (255.0 - share)) as u32
}

fn parity_packets(media: u32, protection: u32) -> u32 {
    ((media * protection + 128) >> 8).max(1)
}

impl Repairs {
    /// `None` where nothing is repaired.
    pub fn new(repair: Repair, flow: FlowId, group: GroupId) -> Option<Repairs> {
        (repair != Repair::None).then(|| Repairs {
            with_parity: repair == Repair::NackFec,
            flow,
            group,
            packets: VecDeque::new(),
            first: 0,
            blocks: VecDeque::new(),
            asked: VecDeque::new(),
            sender: Sender::default(),
            receiver: Receiver::default(),
        })
    }

    fn packet(&mut self, number: u32) -> Option<&mut Sent> {
        self.packets.get_mut(number.wrapping_sub(self.first) as usize)
    }

    // The sender.

    /// Packets that were repeated.
    pub fn repeated(&self) -> u64 {
        self.sender.repeated
    }

    /// Share of the target rate that the encoder gets.
    pub fn encoder_share(&mut self, now: Time) -> f64 {
        let spent = &mut self.sender.spent;
        spent.move_to(now);
        let (all, over) = (spent.sum(0, SHARED), spent.sum(1, SHARED));
        1.0 - (over as f64 / all.max(1) as f64).min(MOST_OVERHEAD)
    }

    /// A report tells of packets.
    pub fn on_report(&mut self, now: Time, fates: &[Fate]) {
        let Sender { counted, losses, .. } = &mut self.sender;
        counted.packets += fates.len() as u32;
        counted.lost += fates.iter().filter(|fate| fate.arrived.is_none()).count() as u32;
        if counted.packets >= COUNTED && now >= counted.since + REPORTED {
            let share = f64::from(counted.lost) / f64::from(counted.packets);
            *counted = Counted { since: now, ..Counted::default() };
            while losses.back().is_some_and(|(_, loss)| *loss <= share) {
                losses.pop_back();
            }
            losses.push_back((now, share));
        }
    }

    /// The receiver asks for packets.
    pub fn on_asked(&mut self, now: Time, asking: &Packet, target_bps: f64, srtt: Span) {
        self.sender.spent.move_to(now);
        let young = REPEATABLE.max(srtt * 3);
        let most = (target_bps / 8.0 * TENTH.as_secs_f64() * LIMITED as f64) as u64;
        let mut used = self.sender.spent.sum(2, LIMITED);
        while let Some(&(asks, number)) = self.asked.front() {
            if (asks.wrapping_sub(asking.seq) as i32) > 0 {
                break;
            }
            self.asked.pop_front();
            // What a lost packet asked for stays unknown.
            let Some(sent) = self.packet(number).filter(|_| asks == asking.seq) else { continue };
            let is_again = sent.repeated.is_some_and(|at| now < at + srtt);
            // Parity has size 0 here: it is not repeated.
            if sent.size == 0 || sent.waits || is_again || sent.left + young < now {
                continue;
            }
            used += u64::from(sent.size);
            if used > most {
                continue;
            }
            sent.waits = true;
            self.sender.repeats.push_back(number);
        }
    }

    /// What is to leave before further media, which wait or not.
    pub fn waiting(&self, now: Time, media_wait: bool) -> Option<Waiting> {
        if let Some(&number) = self.sender.repeats.front() {
            let sent = self.packets.get(number.wrapping_sub(self.first) as usize)?;
            return Some(Waiting::Repeat {
                number,
                frame: sent.frame,
                size: sent.size + REPEAT_HEADER,
            });
        }
        let Parity { packets, size, due } = self.sender.parity;
        (packets > 0 && (media_wait || due <= now)).then_some(Waiting::Parity { size })
    }
    /// When parity leaves that still waits.
    pub fn parity_due(&self) -> Time {
        let Parity { packets, due, .. } = self.sender.parity;
        if packets > 0 { due } else { Time::NEVER }
    }

    fn add(&mut self, now: Time, size: u32, frame: u32) -> u32 {
        while self.packets.front().is_some_and(|sent| sent.left + REMEMBERED < now && !sent.waits) {
            self.packets.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        while self.blocks.front().is_some_and(|b| self.first.wrapping_sub(b.end()) as i32 >= 0) {
            self.blocks.pop_front();
        }
        let (waits, repeated, came) = (false, None, false);
        self.packets.push_back(Sent { left: now, size, frame, waits, repeated, came });
        self.first.wrapping_add(self.packets.len() as u32 - 1)
    }

    /// A packet of media leaves; its number.
    pub fn on_media(&mut self, now: Time, size: u32, frame: u32) -> u32 {
        self.sender.spent.add(now, size, None);
        let open = &mut self.sender.open;
        open.packets += 1;
        open.largest = open.largest.max(size);
        self.add(now, size, frame)
    }

    /// All of a frame has left. The encoder makes `target_bps`, and a frame every `interval`.
    pub fn on_frame(&mut self, now: Time, target_bps: f64, interval: Span, srtt: Span) {
        if !self.with_parity {
            return;
        }
        let Sender { open, losses, parity, .. } = &mut self.sender;
        while losses.front().is_some_and(|(told, _)| *told + LOSSES < now) {
            losses.pop_front();
        }
        let loss = losses.front().map_or(0.0, |(_, loss)| *loss);
        let protection = protection(loss, target_bps * interval.as_secs_f64(), srtt);
        open.frames += 1;
        let OpenBlock { packets: all, frames, largest } = *open;
        if protection == 0 {
            *open = OpenBlock::default();
            return;
        }
        let media = all.min(BLOCK);
        let packets = parity_packets(media, protection);
        let longest = 2.0 * srtt.as_secs_f64() / interval.as_secs_f64() + 0.5;
        let least =
            if protection > STRONG { STRONG_BLOCK } else { 1 } + u32::from(all >= 2 * frames);
        let is_enough = (packets << 8) / media < protection + EXCESS && media >= least;
        if !is_enough && f64::from(frames) < longest.clamp(1.0, BLOCK_FRAMES).floor() {
            return;
        }
        *open = OpenBlock::default();
        *parity = Parity { packets, size: largest + PARITY_HEADER, due: now + PARITY_DELAY };
        let first_parity = self.first.wrapping_add(self.packets.len() as u32);
        let first = first_parity.wrapping_sub(all);
        let (parity, parity_came) = (packets, 0);
        self.blocks.push_back(Block { first, media, first_parity, parity, parity_came });
    }

    /// What waited leaves; its number and its frame.
    pub fn on_sent(&mut self, now: Time, waiting: Waiting) -> (u32, u32) {
        self.sender.spent.add(now, waiting.size(), Some(waiting));
        match waiting {
            Waiting::Repeat { number, frame, .. } => {
                self.sender.repeats.pop_front();
                self.sender.repeated += 1;
                if let Some(sent) = self.packet(number) {
                    (sent.waits, sent.repeated) = (false, Some(now));
                }
                (number, frame)
            }
            Waiting::Parity { .. } => {
                self.sender.parity.packets -= 1;
                (self.add(now, 0, 0), 0)
            }
        }
    }

    // The receiver.

    /// When packets are asked for again.
    pub fn deadline(&self) -> Time {
        let times = self.receiver.missing.iter().map(|missing| missing.asked + ASK_AGAIN);
        times.min().unwrap_or(Time::NEVER)
    }

    /// A packet of media or parity has come. Returns a packet that asks for what is missing before it.
    pub fn on_packet(
        &mut self,
        now: Time,
        pkt: &Packet,
        frames: &mut Frames,
        newest: Option<u32>,
    ) -> Option<Packet> {
        let number = pkt.ecn_bytes.ect1;
        let from = self.receiver.end;
        let gap = number.wrapping_sub(from);
        if (gap as i32) >= 0 {
            let missing = (0..gap).map(|i| from.wrapping_add(i));
            let missing = missing.map(|number| Missing { number, asked: Time::ZERO, asks: 0 });
            self.receiver.missing.extend(missing);
            let over = self.receiver.missing.len().saturating_sub(MOST_MISSING);
            self.receiver.missing.drain(..over);
            self.receiver.end = number.wrapping_add(1);
        }
        self.receiver.missing.retain(|missing| missing.number != number);
        let is_new =
            self.packet(number).is_some_and(|sent| !std::mem::replace(&mut sent.came, true));
        if is_new && pkt.window != IS_PARITY {
            frames.on_packet(now, pkt.ecn_bytes.ect0, newest);
        }
        if is_new && self.with_parity {
            self.restore(now, number, frames, newest);
        }
        if (gap as i32) > 0 { self.ask(now) } else { None }
    }

    /// With as many packets of a block as it has of media, the missing ones are known.
    fn restore(&mut self, now: Time, number: u32, frames: &mut Frames, newest: Option<u32>) {
        let is_in = |b: &&mut Block| number.wrapping_sub(b.first) < b.end().wrapping_sub(b.first);
        let Some(block) = self.blocks.iter_mut().rev().find(is_in) else { return };
        if number.wrapping_sub(block.first_parity) < block.parity {
            block.parity_came += 1;
        }
        let block = *block;
        let media = (0..block.media).map(|i| block.first.wrapping_add(i));
        let lost: Vec<u32> = match block.parity_came {
            0 => return,
            _ => media.filter(|&n| self.packet(n).is_some_and(|sent| !sent.came)).collect(),
        };
        if lost.is_empty() || lost.len() as u32 > block.parity_came {
            return;
        }
        for number in lost {
            let Some(sent) = self.packet(number) else { continue };
            sent.came = true;
            let frame = sent.frame;
            frames.on_packet(now, frame, newest);
        }
        self.receiver.missing.retain(|missing| !block.protects(missing.number));
    }

    /// Asks for what is missing and was not asked for of late.
    pub fn ask(&mut self, now: Time) -> Option<Packet> {
        let Receiver { missing, asks, .. } = &mut self.receiver;
        let (mut entries, mut last) = (0, None::<u32>);
        for one in missing.iter_mut() {
            if one.asks > 0 && now < one.asked + ASK_AGAIN {
                continue;
            }
            (one.asks, one.asked) = (one.asks + 1, now);
            self.asked.push_back((*asks, one.number));
            // An entry names a packet and any of the 16 after it.
            if last.is_none_or(|last| one.number.wrapping_sub(last) > 16) {
                (entries, last) = (entries + 1, Some(one.number));
            }
        }
        missing.retain(|one| one.asks < MOST_ASKS);
        if entries == 0 {
            return None;
        }
        let len = BELOW_RTP + SRTCP + 12 + 4 * entries;
        let mut p = Packet::new(self.flow, self.group, Flags::ACK, len, Ecn::NotEct);
        p.payload = (len - BELOW_RTP) as u16;
        (p.stamp, p.seq, p.window) = (now, *asks, IS_ASKING);
        *asks = asks.wrapping_add(1);
        Some(p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::EcnBytes;

    const MS: Span = Span::from_millis(1);
    const FRAME: Span = Span::from_millis(20);
    const RTT: Span = Span::from_millis(50);
    const SIZE: u32 = 1000;

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    /// Frames of four packets, one each 20 ms, that a report told to lose a share of their packets.
    struct Call {
        repairs: Repairs,
        frames: Frames,
        sent: u32,
    }

    impl Call {
        fn new(repair: Repair) -> Call {
            let repairs = Repairs::new(repair, 0, GroupId::default()).expect("repairs");
            let frames = Frames::new(0, MS * 100, at(0));
            Call { repairs, frames, sent: 0 }
        }
        fn packet(&self, number: u32, frame: u32, window: u16) -> Packet {
            let mut p = Packet::new(0, GroupId::default(), Flags::UDP, 1042, Ecn::NotEct);
            p.ecn_bytes = EcnBytes { ect0: frame, ect1: number, ce: 0 };
            p.window = window;
            p
        }
        /// A frame leaves: its packets, and those of parity.
        fn frame(&mut self, ms: u64) -> Vec<Packet> {
            let frame = self.sent;
            self.sent += 1;
            self.frames.capture(at(ms), 4 * u64::from(SIZE), 4);
            let mut packets: Vec<_> = (0..4)
                .map(|i| {
                    let number = self.repairs.on_media(at(ms), SIZE, frame);
                    self.frames.on_sent(at(ms), u64::from(SIZE), 4 * frame + i);
                    self.packet(number, frame, 0)
                })
                .collect();
            self.repairs.on_frame(at(ms), 1.6e6, FRAME, RTT);
            packets.extend(self.waiting(ms));
            packets
        }
        /// What waits leaves.
        fn waiting(&mut self, ms: u64) -> Vec<Packet> {
            let mut packets = Vec::new();
            while let Some(waiting) = self.repairs.waiting(at(ms), true) {
                let (number, frame) = self.repairs.on_sent(at(ms), waiting);
                let is_parity = matches!(waiting, Waiting::Parity { .. });
                packets.push(self.packet(number, frame, if is_parity { IS_PARITY } else { 0 }));
            }
            packets
        }
        fn arrive(&mut self, ms: u64, pkt: &Packet) -> Option<Packet> {
            self.repairs.on_packet(at(ms), pkt, &mut self.frames, None)
        }
        fn complete(&mut self) -> usize {
            let mut done = Vec::new();
            self.frames.take_done(&mut done);
            done.len()
        }
        fn lose(&mut self, ms: u64, lost: usize, of: usize) {
            let fate = |came: bool| Fate {
                sent: at(0),
                arrived: came.then(|| at(1)),
                size: SIZE,
                ce: false,
                cluster: 0,
            };
            let fates: Vec<_> = (0..of).map(|i| fate(i >= lost)).collect();
            self.repairs.on_report(at(ms), &fates);
        }
    }

    #[test]
    fn a_gap_is_asked_for_at_once_and_repeated_once_per_round_trip() {
        let mut call = Call::new(Repair::Nack);
        let packets = call.frame(0);
        assert_eq!(packets.len(), 4);
        assert!(call.arrive(10, &packets[0]).is_none());
        // One entry names the two that are missing: 42 B below, SRTCP 14 B, RTCP 16 B.
        let asking = call.arrive(12, &packets[3]).expect("asks");
        assert_eq!(asking.frame_len, 72);
        call.repairs.on_asked(at(22), &asking, 1.6e6, RTT);
        let again = call.waiting(23);
        assert_eq!(again.iter().map(|p| p.ecn_bytes.ect1).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(call.repairs.repeated(), 2);
        // The first of them is lost again; asked for within a round trip, it is not repeated.
        assert_eq!(call.repairs.deadline(), at(112));
        assert!(call.arrive(33, &again[1]).is_none());
        let asking = call.repairs.ask(at(112)).expect("asks again");
        call.repairs.on_asked(at(23), &asking, 1.6e6, RTT);
        assert!(call.waiting(23).is_empty());
        let asking = call.repairs.ask(at(212)).expect("asks again");
        call.repairs.on_asked(at(222), &asking, 1.6e6, RTT);
        let again = call.waiting(222);
        assert_eq!((again.len(), call.complete()), (1, 0));
        call.arrive(232, &again[0]);
        // What comes twice counts once.
        call.arrive(233, &packets[1]);
        assert_eq!((call.complete(), call.repairs.deadline()), (1, Time::NEVER));
    }

    #[test]
    fn it_asks_ten_times_and_a_lost_request_costs_one_of_them() {
        let mut call = Call::new(Repair::Nack);
        let packets = call.frame(0);
        call.arrive(10, &packets[1]);
        let mut last = None;
        for n in 1..10 {
            last = call.repairs.ask(at(10 + 100 * n));
            assert!(last.is_some());
        }
        assert_eq!(call.repairs.deadline(), Time::NEVER);
        // Only the last request arrives, after a second in which the packet could be repeated.
        call.repairs.on_asked(at(920), &last.expect("asks"), 1.6e6, RTT);
        assert_eq!(call.waiting(920).len(), 1);
        assert!(call.repairs.asked.is_empty());
    }

    /// After an outage the newest thousand are asked for.
    #[test]
    fn a_long_gap_is_not_asked_for_whole() {
        let mut call = Call::new(Repair::Nack);
        let all: Vec<_> = (0..500).flat_map(|n| call.frame(n)).collect();
        let asking = call.arrive(600, &all[1999]).expect("asks");
        call.repairs.on_asked(at(610), &asking, 1e9, RTT);
        let again = call.waiting(610);
        assert_eq!((again.len(), again[0].ecn_bytes.ect1), (1000, 999));
    }

    /// A tenth of the packets lost, for ten seconds. Strong protection covers five packets at least, here two frames with three
    /// packets of parity: any eight of the eleven are both.
    #[test]
    fn parity_follows_the_highest_loss_of_ten_seconds() {
        let mut call = Call::new(Repair::NackFec);
        assert_eq!(call.frame(0).len(), 4);
        call.lose(10, 1, 20); // within the first second
        assert_eq!(call.frame(20).len(), 4);
        call.lose(1010, 3, 19);
        assert_eq!(call.repairs.sender.losses, [(at(1010), 4.0 / 39.0)]);
        call.lose(2020, 0, 19); // not yet twenty packets
        call.lose(3030, 0, 20);
        let mut packets = call.frame(10_980);
        packets.extend(call.frame(11_000));
        assert_eq!(packets.iter().filter(|p| p.window == IS_PARITY).count(), 3);
        for packet in &packets[3..10] {
            call.arrive(11_009, packet);
        }
        assert_eq!(call.complete(), 1);
        call.arrive(11_010, &packets[10]);
        assert_eq!(call.complete(), 1);
        // The frames before, of which nothing came, are asked for; what parity restored is not.
        assert_eq!(call.repairs.receiver.missing.len(), 8);
        assert_eq!(call.frame(11_011).len() + call.frame(11_031).len(), 8);
    }

    #[test]
    fn parity_leaves_5_ms_after_its_media_unless_media_wait() {
        let mut call = Call::new(Repair::NackFec);
        call.lose(1010, 3, 20);
        let repairs = &mut call.repairs;
        assert_eq!(repairs.parity_due(), Time::NEVER);
        for _ in 0..6 {
            repairs.on_media(at(1020), SIZE, 0);
        }
        repairs.on_frame(at(1020), 1.6e6, FRAME, RTT);
        assert_eq!(repairs.parity_due(), at(1025));
        assert!(repairs.waiting(at(1024), false).is_none());
        assert!(repairs.waiting(at(1024), true).is_some());
        assert!(repairs.waiting(at(1025), false).is_some());
    }

    #[test]
    fn the_encoder_gets_what_is_left_over_and_at_least_a_half() {
        let mut call = Call::new(Repair::NackFec);
        call.frame(0);
        assert_eq!(call.repairs.encoder_share(at(0)), 1.0);
        call.lose(1000, 2, 40);
        let mut sizes = [0.0; 2];
        for n in 1..200 {
            let packets = call.frame(20 * n);
            sizes[0] += 4.0 * f64::from(SIZE);
            sizes[1] += (packets.len() - 4) as f64 * f64::from(SIZE + PARITY_HEADER);
        }
        let share = call.repairs.encoder_share(at(3980));
        assert!((share - sizes[0] / (sizes[0] + sizes[1])).abs() < 0.01, "{share}");
        call.repairs.sender.spent.add(at(3980), 1_000_000, Some(Waiting::Parity { size: 0 }));
        assert_eq!(call.repairs.encoder_share(at(3980)), 0.5);
        assert_eq!(call.repairs.encoder_share(at(5100)), 1.0);
    }

    /// Entries of libwebrtc's table, 255ths of all packets: rows (5 kbit per frame from 5 kbit on) and losses (255ths).
    #[test]
    fn protection_is_near_libwebrtcs_table() {
        let table = [
            (5.0, 19.0, 69.0),
            (5.0, 46.0, 94.0),
            (7.0, 14.0, 58.0),
            (7.0, 43.0, 105.0),
            (11.0, 19.0, 71.0),
            (11.0, 41.0, 127.0),
            (14.0, 17.0, 80.0),
            (14.0, 32.0, 122.0),
            (17.0, 8.0, 57.0),
            (17.0, 14.0, 92.0),
            (17.0, 26.0, 127.0),
            (40.0, 26.0, 127.0),
        ];
        for (row, loss, wanted) in table {
            let bits = (5.0 * row + 7.5) * 1e3 / 1.19;
            let found = f64::from(protection((loss + 0.5) / 255.0, bits, RTT));
            let share = 255.0 * found / (255.0 + found);
            assert!(
                (share - wanted).abs() < 15.0,
                "row {row}, loss {loss}: {share}, table {wanted}"
            );
        }
        assert_eq!(protection(0.1, 32e3, MS * 19), 0);
        assert_eq!((protection(0.1, 5e3, RTT), protection(0.003, 32e3, RTT)), (0, 0));
        assert_eq!(parity_packets(4, protection(0.5, 100e3, RTT)), 4);
    }
}
