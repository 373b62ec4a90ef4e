//! Scripts in the place of network and receiver: what a sender does about losses, real and apparent.

use std::ops::Range;

use super::*;
use crate::cc::reno::Reno;
use crate::ecn::Ecn;
use crate::packet::{ACK_FRAME, Stamp};
use crate::transport::ecn::EcnSupport;
use crate::transport::sack::{Block, SackStore};
use crate::transport::sender::SenderConfig;

const RTT: u64 = 100;

/// A Reno sender; times in milliseconds.
struct Script {
    now: u64,
    sender: Sender,
    sacks: SackStore,
    out: Outbox,
    /// When each segment was last sent.
    sent_at: Vec<u64>,
}

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

impl Script {
    /// A connection of 100 ms RTT that has as many segments to send, and has sent the first ten.
    fn new(segments: u64, ecn: EcnSupport) -> Script {
        let config = SenderConfig {
            flow: 0,
            group: 0,
            ecn,
            pace_bps: None,
            bytes: Some(segments * 1448),
            receive_window: None,
            stream: false,
        };
        let mut s = Script {
            now: 0,
            sender: Sender::new(config, Box::new(Reno::plain())),
            sacks: SackStore::default(),
            out: Outbox::new(),
            sent_at: Vec::new(),
        };
        s.sender.start(Time::ZERO, &mut s.out);
        s.out.clear();
        let mut answer = Packet::new(0, 0, Flags::SYN.with(Flags::ACK), ACK_FRAME, Ecn::NotEct);
        answer.bits = ecn::answer_syn(ecn, ecn::syn_bits(ecn), Ecn::NotEct).1;
        answer.tsval = Stamp::of(ms(RTT));
        s.now = RTT;
        s.sender.on_packet(ms(RTT), &answer, &mut s.sacks, &mut s.out);
        assert_eq!(s.sent(), (0..10).collect::<Vec<_>>());
        s
    }

    /// The segments that have left since the last look.
    fn sent(&mut self) -> Vec<u32> {
        let data = self.out.drain(..).filter(|p| p.flags.has(Flags::DATA));
        let sent: Vec<u32> = data.map(|p| p.seq).collect();
        for &seq in &sent {
            let seq = seq as usize;
            self.sent_at.resize(self.sent_at.len().max(seq + 1), 0);
            self.sent_at[seq] = self.now;
        }
        sent
    }

    /// Lets time pass, with what timers send.
    fn wait_until(&mut self, until: u64) -> Vec<(u64, u32)> {
        let mut all = Vec::new();
        loop {
            let at = self.sender.deadlines().0;
            if at > ms(until) {
                break;
            }
            self.now = at.0 / 1_000_000;
            self.sender.on_timer(at, &mut self.out);
            let now = self.now;
            all.extend(self.sent().into_iter().map(|seq| (now, seq)));
        }
        self.now = until;
        all
    }

    /// An ACK that echoes the timestamp of `echo` milliseconds.
    fn ack(
        &mut self,
        next: u32,
        echo: u64,
        blocks: &[Range<u32>],
        more: (Flags, TcpBits),
    ) -> Vec<u32> {
        let mut p = Packet::new(0, 0, Flags::ACK.with(more.0), ACK_FRAME, Ecn::NotEct);
        p.seq = next;
        p.bits = more.1;
        p.stamp = ms(echo);
        p.tsval = Stamp::of(ms(self.now));
        if !blocks.is_empty() {
            let mut b = Blocks::default();
            blocks.iter().for_each(|r| assert!(b.push(Block::new(r.start, r.end))));
            p.sack = self.sacks.put(b);
        }
        self.sender.on_packet(ms(self.now), &p, &mut self.sacks, &mut self.out);
        self.sent()
    }

    fn show(&self, what: &str) {
        let w = self.sender.window();
        println!(
            "{} {what}: cwnd {} ssthresh {} {:?} lost {} retrans {} sacked {} inflight {}",
            self.now,
            w.cwnd,
            w.ssthresh as i32,
            self.sender.recovery.state,
            self.sender.board.lost_out,
            self.sender.board.retrans_out,
            self.sender.board.sacked_out,
            self.sender.board.in_flight()
        );
    }
}

const PLAIN: (Flags, TcpBits) = (Flags(0), TcpBits(0));
const DSACK: (Flags, TcpBits) = (Flags::DSACK, TcpBits(0));

#[test]
fn explore() {
    println!("--- eifel");
    let mut s = Script::new(1000, EcnSupport::Off);
    println!("{:?}", s.wait_until(700));
    s.show("after timeouts");
    println!("{:?}", s.ack(1, 100, &[], PLAIN));
    s.show("ack of the original");
    println!("{:?}", s.ack(2, 100, &[], PLAIN));
    s.show("ack of the next");

    println!("--- frto");
    let mut s = Script::new(1000, EcnSupport::Off);
    println!("{:?}", s.wait_until(700));
    let at = s.sent_at[0];
    println!("{:?}", s.ack(1, at, &[], PLAIN));
    s.show("ack of the retransmission");
    println!("{:?}", s.ack(3, at, &[], PLAIN));
    s.show("ack of originals");

    println!("--- frto real");
    let mut s = Script::new(1000, EcnSupport::Off);
    println!("{:?}", s.wait_until(700));
    let at = s.sent_at[0];
    println!("{:?}", s.ack(1, at, &[], PLAIN));
    s.show("ack of the retransmission");
    s.now += 100;
    println!("{:?}", s.ack(1, at, &[10..11], PLAIN));
    s.show("sack of new");
    println!("{:?}", s.ack(1, at, &[10..12], PLAIN));
    s.show("sack of new");

    println!("--- dsack after recovery");
    let mut s = Script::new(1000, EcnSupport::Off);
    s.now = 200;
    for n in 1..6 {
        println!("{:?}", s.ack(n, 100, &[], PLAIN));
        s.show("open");
    }
    for n in 7..10 {
        println!("{:?}", s.ack(5, 100, &[6..n], PLAIN));
        s.show("sack");
    }
    s.now = 300;
    println!("{:?}", s.ack(20, 201, &[], PLAIN));
    s.show("recovered");
    println!("{:?}", s.ack(20, 201, &[5..6], DSACK));
    s.show("dsack");
}
