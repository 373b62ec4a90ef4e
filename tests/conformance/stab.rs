//! Size tables, against `__qdisc_calculate_pkt_len` of Linux and `tc_calc_size_table` of iproute2, by hand.

use l4slab_core::aqm::stab::{SizeTable, split};

fn sizes<const N: usize>(words: &str, lengths: [u32; N]) -> [u32; N] {
    let (config, rest) = split(&format!("stab {words} pfifo limit 3")).unwrap();
    assert_eq!(rest, "pfifo limit 3");
    let table = SizeTable::new(&config.expect("there is one"));
    lengths.map(|len| table.size(len))
}

#[test]
fn without_cells_and_least_only_the_overhead_counts() {
    assert_eq!(sizes("overhead 38", [64, 1514]), [102, 1552]);
    assert_eq!(sizes("overhead -14 linklayer ethernet", [14, 15, 1514]), [1, 1, 1500]);
}

#[test]
fn a_table_of_atm_has_steps_of_four_bytes() {
    // 2047 bytes in 512 slots: a slot is 4 bytes, and counts as its longest packet.
    // 46 + 2 = 48 bytes are one cell, 49 and up two; 1514 + 24 = 1538 counts as 1540, which is 33 cells.
    assert_eq!(sizes("overhead 2 linklayer atm", [46, 47]), [53, 106]);
    assert_eq!(sizes("overhead 24 linklayer adsl", [66, 1514]), [2 * 53, 33 * 53]);
}

#[test]
fn what_is_longer_than_the_table_counts_as_several() {
    // 600 bytes in 16 slots: a slot is 64 bytes, the table has 1024. 1514 is slot 23: the last one, and the one with number 7.
    assert_eq!(sizes("linklayer atm mtu 600 tsize 16", [1024, 1514]), [22 * 53, 22 * 53 + 11 * 53]);
}

#[test]
fn a_least_size_fills_the_short_slots() {
    assert_eq!(sizes("mpu 64", [14, 64, 65, 1514]), [64, 64, 68, 1516]);
    // 100000 does not fit into 16 bits: it is kept in steps of 2.
    assert_eq!(sizes("mpu 100000", [14, 1514]), [100_000, 100_000]);
}

#[test]
fn keywords_may_be_short_and_nothing_is_guessed() {
    let canonical = |text: &str| split(text).map(|(_, rest)| rest).map_err(|e| e.to_string());
    assert_eq!(canonical("stab over 24 link atm htb default 10").unwrap(), "htb default 10");
    assert_eq!(canonical("fq_codel limit 3").unwrap(), "fq_codel limit 3");
    assert!(canonical("stab mtu 1600 htb default 10").unwrap_err().contains("overhead"));
    assert!(canonical("stab overhead 1 overhead 2 pfifo").unwrap_err().contains("twice"));
    assert!(canonical("stab overhead x pfifo").unwrap_err().contains('x'));
}
