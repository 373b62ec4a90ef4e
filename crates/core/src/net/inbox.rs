//! Packets that were sent to an element and have not arrived yet.

use crate::aqm::service::{LinkArrivals, PLACE_BITS, place};
use crate::packet::{FlowId, Packet};
use crate::time::Time;

/// Packets on their way to an element, which takes them in the order of their arrival. Those that arrive together are
/// taken by [`rank`], and those of one rank as they were sent.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Not in order.
    pub packets: Vec<Packet>,
    /// See [`LinkArrivals`]. Those before `next` have been taken; between two windows that is all.
    keys: Vec<u64>,
    base: Time,
    next: usize,
    /// The keys are in order, and what comes now is put between them.
    is_sorted: bool,
    /// Some packets may come from other elements than hosts.
    is_mixed: bool,
    scratch: Vec<u64>,
    counts: Vec<u32>,
}

impl Inbox {
    /// From another element.
    pub fn push(&mut self, pkt: Packet) {
        self.is_mixed = true;
        match self.is_sorted {
            true => self.insert(pkt),
            false => self.packets.push(pkt),
        }
    }

    /// Puts a packet behind those that arrive at the same time: it comes from another link of a circle.
    fn insert(&mut self, pkt: Packet) {
        let (time, place) = (pkt.enqueued_at.0 - self.base.0, self.packets.len());
        assert!(place < 1 << PLACE_BITS, "too many packets for one window");
        self.packets.push(pkt);
        let before = |k: &u64| k >> PLACE_BITS <= time;
        let at = self.next + self.keys[self.next..].partition_point(before);
        let key = time << PLACE_BITS | place as u64;
        if self.next == 0 {
            self.keys.insert(at, key);
        } else {
            // There is room where packets have been taken, and most often it is next to it.
            self.keys.copy_within(self.next..at, self.next - 1);
            self.next -= 1;
            self.keys[at - 1] = key;
        }
    }

    /// Puts what there is into order; nothing arrives before `now`.
    pub fn sort(&mut self, now: Time) {
        debug_assert!(!self.is_sorted && self.next == self.keys.len());
        self.next = 0;
        assert!(self.packets.len() < 1 << PLACE_BITS, "too many packets for one window");
        self.base = now;
        self.is_sorted = true;
        let Order { runs, mut bounds, is_ranked } = match self.is_mixed {
            true => self.make_keys(rank),
            false => self.make_keys(|pkt| pkt.flow),
        };
        match runs {
            1 => {}
            2..=FEW_RUNS => merge(&mut self.keys, &mut self.scratch, &mut bounds[..=runs]),
            _ => sort(&mut self.keys, &mut self.scratch, &mut self.counts),
        }
        if !is_ranked {
            self.order_ties();
        }
    }

    /// Makes the keys, in the order of the packets.
    #[inline(always)]
    fn make_keys(&mut self, rank: impl Fn(&Packet) -> FlowId) -> Order {
        let (base, mut last, mut last_rank) = (self.base, 0, 0);
        let (mut runs, mut bounds, mut is_ranked) = (1, [0; FEW_RUNS + 1], true);
        // The keys of the window before are written over, so that nothing is filled in vain.
        self.keys.resize(self.packets.len(), 0);
        for (place, (pkt, key)) in self.packets.iter().zip(&mut self.keys).enumerate() {
            debug_assert!(pkt.enqueued_at >= base, "a packet from the past");
            *key = (pkt.enqueued_at.0 - base.0) << PLACE_BITS | place as u64;
            if *key < last {
                if runs < FEW_RUNS {
                    bounds[runs] = place;
                }
                runs += 1;
            }
            last = *key;
            let rank = rank(pkt);
            if rank < last_rank {
                is_ranked = false;
            }
            last_rank = rank;
        }
        if runs <= FEW_RUNS {
            bounds[runs] = self.keys.len();
        }
        Order { runs, bounds, is_ranked }
    }

    /// Puts packets that arrive together into the order of their ranks.
    #[cold]
    fn order_ties(&mut self) {
        let packets = &self.packets;
        let rank_of = |key: &u64| rank(&packets[place(*key)]);
        let are_wrong =
            |k: &[u64]| k[0] >> PLACE_BITS == k[1] >> PLACE_BITS && rank_of(&k[0]) > rank_of(&k[1]);
        let mut rest = &mut self.keys[..];
        while let Some(wrong) = rest.windows(2).position(are_wrong) {
            let time = rest[wrong] >> PLACE_BITS;
            let first = rest[..wrong].partition_point(|key| key >> PLACE_BITS < time);
            let end = wrong + rest[wrong..].partition_point(|key| key >> PLACE_BITS == time);
            rest[first..end].sort_by_key(rank_of);
            rest = &mut rest[end..];
        }
    }

    /// Between two windows: when the first packet arrives.
    pub fn earliest(&self) -> Time {
        self.packets.iter().map(|p| p.enqueued_at).min().unwrap_or(Time::NEVER)
    }

    /// In a window: when the next packet arrives.
    pub fn next_time(&self) -> Time {
        self.arrivals().time()
    }

    /// The packets in order.
    pub fn arrivals(&self) -> LinkArrivals<'_, Packet> {
        LinkArrivals {
            packets: &self.packets,
            keys: self.keys[self.next..].iter(),
            base: self.base,
        }
    }
    /// Measuring has not begun for packets that arrive before `until`.
    pub fn note_warmup(&mut self, until: Time) {
        for key in &self.keys[self.next..] {
            if Time(self.base.0 + (key >> PLACE_BITS)) >= until {
                break;
            }
            self.packets[place(*key)].set_of_warmup();
        }
    }
    /// Of which so many are left.
    pub fn leave(&mut self, left: usize) {
        self.next = self.keys.len() - left;
    }

    /// The next packet that arrives before `until`.
    pub fn take(&mut self, until: Time) -> Option<Packet> {
        if self.next_time() >= until {
            return None;
        }
        let pkt = self.arrivals().take().copied();
        self.next += 1;
        pkt
    }

    /// The window is over: what has not been taken waits for the next one.
    pub fn close(&mut self) {
        self.is_sorted = false;
        if self.next < self.keys.len() {
            let rest = &self.keys[self.next..];
            self.packets = rest.iter().map(|key| self.packets[place(*key)]).collect();
        } else {
            self.packets.clear();
            self.is_mixed = false;
        }
        self.next = self.keys.len();
    }
}

/// The order of packets that arrive together: first those of hosts, by flow; then those of other elements, which keep
/// their order, such as that of a netem that lets go of many at once.
#[inline(always)]
fn rank(pkt: &Packet) -> FlowId {
    if pkt.hop == 0 { pkt.flow } else { FlowId::MAX }
}

/// Up to so many ascending runs are merged; more are spread over buckets.
const FEW_RUNS: usize = 8;

/// The order in which keys come.
struct Order {
    /// How many ascending runs they form.
    runs: usize,
    /// Where these begin, and the end of the last one, if they are few.
    bounds: [usize; FEW_RUNS + 1],
    /// All packets come by rank, as most often. Then those that arrive together do, too.
    is_ranked: bool,
}

/// Sorts keys that come in a few ascending runs, as those of a few flows do; `bounds`: where these begin, and the end of
/// the last one.
fn merge(keys: &mut Vec<u64>, scratch: &mut Vec<u64>, bounds: &mut [usize]) {
    let mut runs = bounds.len() - 1;
    while runs > 1 {
        scratch.resize(keys.len(), 0);
        let pairs = runs.div_ceil(2);
        for pair in 0..pairs {
            // The last run may have no other beside it.
            let [begin, middle, end] = [0, 1, 2].map(|i| bounds[(2 * pair + i).min(runs)]);
            merge_two(&keys[begin..middle], &keys[middle..end], &mut scratch[begin..end]);
            bounds[pair] = begin;
        }
        bounds[pairs] = keys.len();
        runs = pairs;
        std::mem::swap(keys, scratch);
    }
}

fn merge_two(mut left: &[u64], mut right: &[u64], into: &mut [u64]) {
    let mut at = 0;
    while let ([l, after_l @ ..], [r, after_r @ ..]) = (left, right) {
        if l <= r {
            into[at] = *l;
            left = after_l;
        } else {
            into[at] = *r;
            right = after_r;
        }
        at += 1;
    }
    let (of_left, of_right) = into[at..].split_at_mut(left.len());
    of_left.copy_from_slice(left);
    of_right.copy_from_slice(right);
}

/// Sorts keys of many flows: first they are spread over buckets of time.
fn sort(keys: &mut Vec<u64>, scratch: &mut Vec<u64>, counts: &mut Vec<u32>) {
    let n = keys.len();
    // As long as the longest key, and quicker found.
    let longest = keys.iter().fold(0, |all, key| all | key);
    let buckets = n.next_power_of_two().max(2);
    let shift = (u64::BITS - longest.leading_zeros()).saturating_sub(buckets.trailing_zeros());
    counts.clear();
    counts.resize(buckets + 1, 0);
    for key in keys.iter() {
        counts[(key >> shift) as usize + 1] += 1;
    }
    let mut sum = 0;
    for count in counts.iter_mut() {
        sum += *count;
        *count = sum;
    }
    scratch.resize(n, 0);
    for &key in keys.iter() {
        let count = &mut counts[(key >> shift) as usize];
        scratch[*count as usize] = key;
        *count += 1;
    }
    std::mem::swap(keys, scratch);
    if !insert(keys, 16 * n) {
        keys.sort_unstable();
    }
}

/// Insertion sort, given up after so many moves.
fn insert(keys: &mut [u64], mut moves: usize) -> bool {
    for i in 1..keys.len() {
        let key = keys[i];
        if keys[i - 1] <= key {
            continue;
        }
        let mut j = i;
        while j > 0 && keys[j - 1] > key {
            keys[j] = keys[j - 1];
            j -= 1;
        }
        keys[j] = key;
        match moves.checked_sub(i - j) {
            Some(left) => moves = left,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::Ecn;
    use crate::packet::{Flags, GroupId};
    use crate::rng::Rng;

    #[test]
    fn keys_are_sorted_however_they_come() {
        let mut rng = Rng::stream(1, "keys", 0);
        for n in [0, 1, 2, 10, 1000, 5000] {
            for range in [1, 10, 1 << 20, u64::MAX >> 24] {
                let mut keys: Vec<u64> =
                    (0..n).map(|i| rng.below(range) << PLACE_BITS | i).collect();
                let mut expected = keys.clone();
                expected.sort_unstable();
                let mut runs = keys.clone();
                if n > 1 {
                    sort(&mut keys, &mut Vec::new(), &mut Vec::new());
                    let begins = |i: &usize| *i == 0 || runs[*i] < runs[i - 1];
                    let mut bounds: Vec<_> = (0..runs.len()).filter(begins).collect();
                    bounds.push(runs.len());
                    merge(&mut runs, &mut Vec::new(), &mut bounds);
                }
                assert!(keys == expected && runs == expected, "{n} {range}");
            }
        }
    }

    /// What an element lets go of at once stays in its order, behind what hosts send.
    #[test]
    fn an_elements_packets_keep_their_order() {
        let packet = |flow, hop| {
            let mut p = Packet::new(flow, GroupId::default(), Flags::UDP, 100, Ecn::NotEct);
            (p.enqueued_at, p.hop) = (Time(5), hop);
            p
        };
        let mut inbox = Inbox::default();
        inbox.packets.push(packet(3, 0));
        for flow in [2, 0, 1, 0] {
            inbox.push(packet(flow, 1));
        }
        inbox.sort(Time(0));
        let order: Vec<u32> = std::iter::from_fn(|| inbox.take(Time(9))).map(|p| p.flow).collect();
        assert_eq!(order, [3, 2, 0, 1, 0]);
    }

    /// What comes from another link of a circle is taken behind what arrives at the same time.
    #[test]
    fn what_comes_in_a_window_finds_its_place() {
        let packet = |flow, at| {
            let mut p = Packet::new(flow, GroupId::default(), Flags::UDP, 100, Ecn::NotEct);
            p.enqueued_at = Time(at);
            p
        };
        let mut inbox = Inbox::default();
        inbox.packets.extend([packet(0, 5), packet(1, 7), packet(2, 9)]);
        inbox.sort(Time(0));
        inbox.push(packet(3, 4));
        inbox.push(packet(4, 5));
        let mut order = vec![inbox.take(Time(9)).unwrap().flow];
        inbox.push(packet(5, 7));
        inbox.push(packet(6, 5));
        order.extend(std::iter::from_fn(|| inbox.take(Time(9))).map(|p| p.flow));
        assert_eq!(order, [3, 0, 4, 6, 1, 5]);
        inbox.close();
        assert_eq!(inbox.packets.iter().map(|p| p.flow).collect::<Vec<_>>(), [2]);
    }

    /// However many windows there are, packets come by (time, flow, emission).
    #[test]
    fn the_order_does_not_depend_on_windows() {
        let mut rng = Rng::stream(1, "inbox", 0);
        let mut sent = Vec::new();
        for flow in 0..5 {
            let mut at = 0;
            for seq in 0..50 {
                at += rng.below(4);
                let mut p = Packet::new(flow, GroupId::default(), Flags::UDP, 100, Ecn::NotEct);
                (p.enqueued_at, p.seq) = (Time(at), seq);
                sent.push(p);
            }
        }
        let mut expected = sent.clone();
        expected.sort_by_key(|p| (p.enqueued_at, p.flow, p.seq));
        for window in [1, 7, 100, 1000] {
            let mut inbox = Inbox::default();
            let mut taken = Vec::new();
            let mut now = 0;
            inbox.packets.clone_from(&sent);
            while taken.len() < sent.len() {
                inbox.sort(Time(now));
                now += window;
                taken.extend(std::iter::from_fn(|| inbox.take(Time(now))));
                inbox.close();
            }
            let order = |p: &[Packet]| p.iter().map(|p| (p.flow, p.seq)).collect::<Vec<_>>();
            assert_eq!(order(&taken), order(&expected), "windows of {window}");
        }
    }
}
