//! htb while its classes change: `htb_change_class` and `htb_qlen_notify` of `net/sched/sch_htb.c`, step by step.
//! What classes get from each other is in `tests/laws/classes.rs`.

use l4slab_core::aqm::tree::ClassSpec;
use l4slab_core::aqm::tree::htb::{Htb, Turn};
use l4slab_core::time::Time;
use serde_json::json;

const LEN: u32 = 1000;

/// Without a parent; rates in Mbit/s, at 8 of which a byte takes a microsecond.
fn class(id: &str, mbps: u64, burst: u64, prio: u8, quantum: u32) -> ClassSpec {
    let bps = mbps * 1_000_000;
    let text = json!({"id": id, "rate_bps": bps, "ceil_bps": bps, "burst_bytes": burst,
                      "cburst_bytes": burst, "prio": prio, "quantum_bytes": quantum, "qdisc": "pfifo"});
    serde_json::from_value(text).expect("a class")
}

/// Leaves that hold packets of one length.
struct Tree {
    htb: Htb,
    waiting: Vec<u32>,
    /// Who was asked for a packet.
    asked: Vec<usize>,
}

impl Tree {
    fn new(classes: &[ClassSpec]) -> Tree {
        let htb = Htb::new(classes, Time::ZERO);
        Tree { htb, waiting: vec![0; classes.len()], asked: Vec::new() }
    }
    fn put(&mut self, leaf: usize, packets: u32) {
        self.waiting[leaf] += packets;
        self.htb.activate(leaf);
    }
    /// From which leaf a packet comes, if one may.
    fn take(&mut self, us: u64) -> Option<usize> {
        let Tree { htb, waiting, asked } = self;
        htb.dequeue(Time(us * 1000), |leaf| {
            asked.push(leaf);
            if waiting[leaf] == 0 {
                return Turn::Empty;
            }
            waiting[leaf] -= 1;
            Turn::Sent { pkt: leaf, bytes: LEN, more: waiting[leaf] > 0 }
        })
    }
    /// When packets leave from then on, up to a time, in microseconds.
    fn times(&mut self, from: u64, until: u64) -> Vec<u64> {
        let (mut at, mut found) = (from, Vec::new());
        while at < until {
            match self.take(at) {
                Some(_) => found.push(at),
                None => at = self.htb.next_event().0.div_ceil(1000),
            }
        }
        found
    }
    fn order(&mut self, packets: usize) -> Vec<usize> {
        (0..packets).map(|_| self.take(0).expect("nobody waits for tokens")).collect()
    }
}

/// Buckets hold time: what is missing is missing for as long, whatever the new rate, and nothing is given besides.
#[test]
fn a_new_rate_neither_fills_nor_empties_the_buckets() {
    let mut tree = Tree::new(&[class("a", 8, 2000, 0, 1000)]);
    tree.put(0, 100);
    // 2 ms of tokens, and the one packet more that a bucket at zero lets go.
    assert_eq!(tree.times(0, 250), [0, 0, 0]);
    tree.htb.change(&class("a", 4, 2000, 0, 1000));
    // 1 ms was missing, and is; from then on a packet takes 2 ms.
    assert_eq!(tree.times(250, 6000), [1000, 3000, 5000]);
    tree.htb.change(&class("a", 8, 2000, 0, 1000));
    assert_eq!(tree.times(6000, 9500), [7000, 8000, 9000]);
}

/// A bucket has its new size when it is next charged.
#[test]
fn a_new_burst_counts_from_the_next_packet_on() {
    let mut tree = Tree::new(&[class("a", 8, 4000, 0, 1000)]);
    tree.htb.change(&class("a", 8, 1000, 0, 1000));
    tree.put(0, 100);
    assert_eq!(tree.times(0, 2500), [0, 0, 1000, 2000]);
    tree.waiting[0] = 0;
    tree.times(2500, 3500);
    tree.htb.change(&class("a", 8, 3000, 0, 1000));
    tree.put(0, 100);
    assert_eq!(tree.times(100_000, 101_500), [100_000, 100_000, 100_000, 100_000, 101_000]);
}

/// A class is listed by the priority that it had when it got its first packet.
#[test]
fn a_new_prio_counts_when_the_class_has_been_empty() {
    let classes = |prio| [class("a", 8, 50_000, prio, 1000), class("b", 8, 50_000, 1, 1000)];
    let mut tree = Tree::new(&classes(0));
    tree.put(0, 3);
    tree.put(1, 4);
    assert_eq!(tree.order(1), [0]);
    tree.htb.change(&classes(2)[0]);
    assert_eq!(tree.order(3), [0, 0, 1]);
    tree.put(0, 2);
    assert_eq!(tree.order(5), [1, 1, 1, 0, 0]);
}

/// What is left of a turn stays; the next one is as long as the new quantum.
#[test]
fn a_new_quantum_counts_from_the_next_turn_on() {
    let classes = |quantum| [class("a", 8, 50_000, 0, quantum), class("b", 8, 50_000, 0, 1000)];
    let mut tree = Tree::new(&classes(1000));
    tree.put(0, 20);
    tree.put(1, 20);
    assert_eq!(tree.order(4), [0, 1, 0, 1]);
    tree.htb.change(&classes(3000)[0]);
    assert_eq!(tree.order(9), [0, 1, 0, 0, 0, 1, 0, 0, 0]);
}

/// Where the queue of a class goes away, its turn does at once.
#[test]
fn a_class_whose_queue_is_replaced_is_asked_no_more() {
    let three = ["a", "b", "c"].map(|id| class(id, 8, 50_000, 0, 1000));
    let mut tree = Tree::new(&three);
    (0..3).for_each(|leaf| tree.put(leaf, 20));
    assert_eq!(tree.order(4), [0, 1, 2, 0]);
    tree.waiting[1] = 0;
    tree.htb.emptied(1);
    tree.asked.clear();
    assert_eq!(tree.order(3), [2, 0, 2]);
    assert_eq!(tree.asked, [2, 0, 2]);
    tree.put(1, 1);
    assert_eq!(tree.order(3), [0, 1, 2]);
}
