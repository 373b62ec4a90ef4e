//! Segmentation offload: several segments of a connection as one packet, as hosts and queues of Linux have them (GSO,
//! GRO).
//!
//! Such a super-packet has the number of its first segment. `window` has how many it holds, and the first field of
//! `ecn_bytes` the payload of each but the last, which may be shorter; data uses neither otherwise.

use crate::packet::{Flags, Packet, Stamp, TcpBits};

/// Nothing follows it in the same packet.
const ENDS: Flags = Flags::FIN;

/// How many segments it holds.
pub fn count(pkt: &Packet) -> u32 {
    if pkt.flags.has(Flags::SUPER) { u32::from(pkt.window) } else { 1 }
}

/// Payload of its segments, but for the last.
fn size(pkt: &Packet) -> u32 {
    if pkt.flags.has(Flags::SUPER) { pkt.ecn_bytes.ect0 } else { u32::from(pkt.payload) }
}

/// The frame of its longest segment.
pub fn segment_len(pkt: &Packet) -> u32 {
    size(pkt) + (u32::from(pkt.frame_len) - u32::from(pkt.payload)) / count(pkt)
}

/// The segments of a packet, which may be one.
pub fn segments(pkt: &Packet) -> impl Iterator<Item = Packet> + use<> {
    let (pkt, n, size) = (*pkt, count(pkt), size(pkt));
    let headers = (u32::from(pkt.frame_len) - u32::from(pkt.payload)) / n;
    (0..n).map(move |i| {
        if n == 1 {
            return pkt;
        }
        let mut one = pkt;
        let payload = (u32::from(pkt.payload) - i * size).min(size);
        one.seq = pkt.seq + i;
        one.payload = payload as u16;
        one.frame_len = (payload + headers) as u16;
        one.flags = pkt.flags.without(Flags::SUPER);
        one.window = 0;
        one.ecn_bytes.ect0 = 0;
        if i > 0 {
            one.bits = one.bits.without(TcpBits::CWR);
        }
        if i + 1 < n {
            one.bits = one.bits.without(TcpBits::PSH);
            one.flags = one.flags.without(ENDS).with(Flags::FOLLOWED);
        }
        one
    })
}

/// Appends the next segment of the same connection, if it may be in the same packet; whether it was.
///
/// As in Linux's `tcp_gro_receive`, the ECN field and the time stamp (as it is on the wire) are the same in all of a
/// packet, only the last segment may be short or pushed, and only the first one announces CWR. The length is that of all
/// frames with their headers (`qdisc_pkt_len_segs_init`).
pub fn append(to: &mut Packet, next: &Packet) -> bool {
    let held = count(to);
    let (payload, frame) =
        (to.payload.checked_add(next.payload), to.frame_len.checked_add(next.frame_len));
    let (Some(payload), Some(frame_len)) = (payload, frame) else { return false };
    let own = ENDS.with(Flags::SUPER).with(Flags::COPIED).with(Flags::FOLLOWED);
    let same = |p: &Packet| p.flags.without(own);
    let fits = next.flags.has(Flags::DATA)
        && !next.flags.has(Flags::SUPER)
        && next.payload > 0
        && next.flow == to.flow
        && next.seq == to.seq.wrapping_add(held)
        && same(next) == same(to)
        && !to.flags.has(ENDS)
        && !to.bits.has(TcpBits::PSH)
        && !next.bits.has(TcpBits::CWR)
        && next.ecn.get() == to.ecn.get()
        && next.ecn.is_sce() == to.ecn.is_sce()
        && next.dscp == to.dscp
        && Stamp::of(next.stamp) == Stamp::of(to.stamp)
        && next.tsval == to.tsval
        && u32::from(next.payload) <= size(to)
        && u32::from(to.payload) == held * size(to);
    if fits {
        to.ecn_bytes.ect0 = size(to);
        to.window = (held + 1) as u16;
        (to.payload, to.frame_len) = (payload, frame_len);
        to.flags = to.flags.with(Flags::SUPER).with(Flags(next.flags.0 & ENDS.0));
        to.bits = to.bits.with(next.bits);
    }
    fits
}

/// Joins the packets from the place `from` on, which a sender has handed down one after the other: a burst of several
/// segments ends with one that is pushed.
pub fn join(packets: &mut Vec<Packet>, from: usize) {
    let mut kept = from;
    for i in from..packets.len() {
        let pkt = packets[i];
        if kept == from || !append(&mut packets[kept - 1], &pkt) {
            packets[kept] = pkt;
            kept += 1;
        }
    }
    packets.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::Ecn;
    use crate::packet::GroupId;
    use crate::time::Time;

    fn burst(n: u32, last: u16) -> Vec<Packet> {
        let mut all: Vec<Packet> = (0..n)
            .map(|seq| {
                let mut pkt = Packet::new(7, GroupId::default(), Flags::DATA, 1514, Ecn::Ect1);
                (pkt.seq, pkt.payload, pkt.stamp) = (seq, 1448, Time(5_000_000));
                pkt
            })
            .collect();
        let end = all.last_mut().expect("some");
        (end.payload, end.frame_len) = (last, last + 66);
        end.bits = TcpBits::PSH;
        all[0].bits = all[0].bits.with(TcpBits::CWR);
        all
    }

    #[test]
    fn a_burst_leaves_as_one_packet_and_its_segments_are_those_that_it_was_made_of() {
        for (n, last) in [(1, 1448), (2, 1), (10, 1448), (43, 700)] {
            let whole = burst(n, last);
            let mut joined = whole.clone();
            join(&mut joined, 0);
            assert_eq!(joined.len(), 1);
            assert_eq!(u32::from(joined[0].frame_len), (n - 1) * 1514 + u32::from(last) + 66);
            let mut again: Vec<_> = segments(&joined[0]).collect();
            let followed = again.iter().filter(|one| one.flags.has(Flags::FOLLOWED)).count();
            assert_eq!(followed, n as usize - 1);
            again.iter_mut().for_each(|one| one.flags = one.flags.without(Flags::FOLLOWED));
            assert_eq!(format!("{again:?}"), format!("{whole:?}"));
        }
    }

    #[test]
    fn what_ends_a_packet() {
        let pieces = |change: fn(&mut Packet)| {
            let mut packets = burst(6, 1448);
            change(&mut packets[3]);
            join(&mut packets, 0);
            packets.iter().map(count).collect::<Vec<_>>()
        };
        assert_eq!(pieces(|_| {}), [6]);
        assert_eq!(pieces(|p| p.bits = TcpBits::PSH), [4, 2]);
        assert_eq!(pieces(|p| p.bits = TcpBits::CWR), [3, 3]);
        assert_eq!(pieces(|p| p.ecn.set(Ecn::Ce)), [3, 1, 2]);
        assert_eq!(pieces(|p| p.payload = 100), [4, 2]);
        assert_eq!(pieces(|p| p.flags = p.flags.with(Flags::RETRANSMISSION)), [3, 1, 2]);
        assert_eq!(pieces(|p| p.stamp = Time(1)), [3, 1, 2]);
    }
}
