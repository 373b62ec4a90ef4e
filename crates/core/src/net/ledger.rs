//! What is counted of packets where they meet no link: how many came and were lost, of those that came to the network in
//! the measured interval.

use crate::aqm::DropReason;
use crate::aqm::service::{Carried, Losses};
use crate::packet::Packet;
use crate::time::Time;

/// Per account, the packets that came, were copied, passed and were lost at one place of a path.
#[derive(Debug)]
pub struct Ledger {
    /// When measuring began.
    pub measured_from: Time,
    /// By account, packets that came here, and copies that were made of them.
    pub came: Vec<u64>,
    pub copied: Vec<u64>,
    pub losses: Losses,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            measured_from: Time::NEVER,
            came: Vec::new(),
            copied: Vec::new(),
            losses: Losses::new(),
        }
    }
}

impl Ledger {
    pub fn arrive(&mut self, now: Time, pkt: &mut Packet) {
        if now < self.measured_from {
            pkt.set_of_warmup();
        }
        count(&mut self.came, pkt, 1);
    }
    pub fn copy(&mut self, pkt: &Packet, copies: u32) {
        count(&mut self.copied, pkt, u64::from(copies));
    }
    pub fn lose(&mut self, now: Time, pkt: &Packet, why: DropReason) {
        if now >= self.measured_from && !pkt.is_of_warmup() {
            *self.losses.entry((pkt.counted(), why)).or_default() += 1;
        }
    }
}

/// How many are counted of an account.
pub fn of(counts: &[u64], account: usize) -> u64 {
    counts.get(account).copied().unwrap_or_default()
}

fn count(counts: &mut Vec<u64>, pkt: &Packet, packets: u64) {
    let Some(account) = pkt.counted().filter(|_| !pkt.is_of_warmup()) else { return };
    if counts.len() <= account {
        counts.resize(account + 1, 0);
    }
    counts[account] += packets;
}
