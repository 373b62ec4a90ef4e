//! Queue protection of DOCSIS (RFC 9957): which packets a low-latency queue should not take.
//!
//! A flow is held responsible for queuing, not for its rate. Each of its packets adds
//! prob_native times its size to the flow's score, and the score sinks at the constant rate AGING.
//! Divided by AGING the score is a time, and the time at which it will be used up, `expiry`, is all
//! that has to be kept: it ages by itself. So a flow whose marked bytes come at less than AGING has
//! no state between its packets, and few buckets serve many flows.
//!
//! A packet is sanctioned, that is, sent to the classic queue instead, if the queue is too long now
//! and its flow has a record: qdelay > CRITICALqL and score qdelay/CRITICALqL > CRITICALqLSCORE. Also
//! if its score has reached the maximum, whatever the queue.
//!
//! Where the ns-3 model of CableLabs differs, this is RFC 9957:
//!
//! | | here and in RFC 9957 | ns-3 `docsis-ns3` |
//! |---|---|---|
//! | default of CRITICALqL | MAXTH as configured | MAXTH as raised for a slow link |
//! | score at its maximum | sanctioned | no rule |

use crate::params::kinds::{count, params, some_time};
use crate::time::{Span, Time};

/// Buckets that a flow's hash can choose (BI_SIZE, NBUCKETS), and how many it may try.
const INDEX_BITS: u32 = 5;
const BUCKETS: usize = 1 << INDEX_BITS;
const ATTEMPTS: u32 = 2;
/// The bucket for all flows that found no other.
const DREGS: usize = BUCKETS;
/// qLSCORE_MAX.
const SCORE_MAX: Span = Span::from_secs(5);
/// AGING is 2^(LG_AGING - 30) B/ns: 2^30 stands for the 10^9 ns of a second, so 2^19 "B/s" are
/// 3.9 Mb/s.
const LG_NANOSECONDS: u32 = 30;

params! {
    /// The operator's parameters, RFC 9957, 4.1.
    #[derive(Copy)]
    pub struct Thresholds {
        /// no sanction while the delay of L is at most this (CRITICALqL); maxth if given
        critical_ql: Span = Span::from_millis(1), some_time(), "RFC 9957: MAXTH";
        /// nor while the flow's score is below this at that delay (CRITICALqLSCORE)
        critical_score: Span = Span::from_millis(4), some_time(), "RFC 9957";
        /// scores age at 2^NUMBER marked bytes a second
        lg_aging: u8 = 19, count(1..=30), "RFC 9957";
    }
}

#[derive(Copy, Clone, Default, Debug)]
struct Bucket {
    /// The hash of the flow that used it last.
    flow: Option<u32>,
    /// When its score is used up.
    expiry: Time,
}

/// The buckets.
#[derive(Clone, Debug)]
pub struct QueueProtection {
    buckets: [Bucket; BUCKETS + 1],
    thresholds: Thresholds,
    sanctioned: u64,
}

impl QueueProtection {
    pub fn new(thresholds: Thresholds) -> QueueProtection {
        QueueProtection { buckets: [Bucket::default(); BUCKETS + 1], thresholds, sanctioned: 0 }
    }

    /// Continues with other thresholds; what flows have scored stays.
    pub fn change(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// A packet of `bytes` of a flow arrives, the low-latency queue delays by `qdelay` and would mark
    /// natively with `prob_native`. Must it go to the classic queue? (`qprotect`)
    pub fn sanctions(
        &mut self,
        now: Time,
        flow: u32,
        bytes: u32,
        qdelay: Span,
        prob_native: f64,
    ) -> bool {
        let bucket = self.pick_bucket(now, flow);
        let score = self.fill_bucket(now, bucket, bytes, prob_native);
        let Thresholds { critical_ql, critical_score, .. } = self.thresholds;
        let product = |a: Span, b: Span| u128::from(a.0) * u128::from(b.0);
        let sanctions = score >= SCORE_MAX
            || qdelay > critical_ql
                && product(qdelay, score) > product(critical_ql, critical_score);
        self.sanctioned += u64::from(sanctions);
        sanctions
    }

    /// The flow's own bucket, else the first expired one that its hash leads to, else the dregs. No
    /// bucket is taken over before all of them were looked at for the flow's own.
    pub fn pick_bucket(&mut self, now: Time, flow: u32) -> usize {
        let tried = |attempt| (flow >> (INDEX_BITS * attempt)) as usize % BUCKETS;
        let mut tries = (0..ATTEMPTS).map(tried);
        let own = tries.clone().find(|&i| self.buckets[i].flow == Some(flow));
        let expired = || tries.find(|&i| self.buckets[i].expiry <= now);
        let picked = own.or_else(expired).unwrap_or(DREGS);
        let bucket = &mut self.buckets[picked];
        bucket.flow = Some(flow);
        bucket.expiry = bucket.expiry.max(now);
        picked
    }

    /// Adds a packet to the score, and returns that.
    fn fill_bucket(&mut self, now: Time, bucket: usize, bytes: u32, prob_native: f64) -> Span {
        let per_byte = 1_u64 << (LG_NANOSECONDS - u32::from(self.thresholds.lg_aging));
        let added = Span((prob_native * (u64::from(bytes) * per_byte) as f64) as u64);
        let bucket = &mut self.buckets[bucket];
        let score = (bucket.expiry.since(now) + added).min(SCORE_MAX);
        bucket.expiry = now + score;
        score
    }

    /// The remaining score of a bucket. The last bucket is the shared one ("dregs").
    pub fn score(&self, now: Time, bucket: usize) -> Span {
        self.buckets[bucket].expiry.since(now)
    }

    /// The highest score of any bucket.
    pub fn highest_score(&self, now: Time) -> Span {
        self.buckets.iter().map(|b| b.expiry.since(now)).max().unwrap_or_default()
    }

    /// Packets sanctioned so far.
    pub fn sanctioned(&self) -> u64 {
        self.sanctioned
    }
}
