//! The parameters of CAKE in the words of `tc`.

use super::ack_filter::AckFilter;
use super::diffserv::Diffserv;
use super::hash::FlowMode;
use super::sce::{Sce, THRESH_MAX};
use crate::aqm::line::Line;
use crate::params::kinds::{Spec, nested, number, params, size, words};
use crate::params::{Described, Gauge, Given, Refused, gauge};
use crate::units::MTU_FRAME;

/// Most that a buffer holds: so many full frames (Linux).
const LIMIT_PACKETS: u64 = 10_240;
/// A shaped buffer holds four intervals, but no less than this (Linux).
const BUFFER_INTERVALS: u64 = 4;
const BUFFER_MIN: u64 = 4 << 20;

params! {
    /// The parameters, by their names in `tc`.
    pub struct CakeConfig {
        line: Line = Line::default(), nested();
        autorate: bool = false, words([
            ("autorate-ingress", true, "shape to 15/16 of the rate that arrives"),
        ]), "tc";
        diffserv: Diffserv = Diffserv::Diffserv3, words([
            ("besteffort", Diffserv::Besteffort, "one tin"),
            ("precedence", Diffserv::Precedence, "eight tins, by the three upper bits of ToS"),
            ("diffserv3", Diffserv::Diffserv3, "Bulk, Best Effort, Voice"),
            ("diffserv4", Diffserv::Diffserv4, "Bulk, Best Effort, Video, Voice"),
            ("diffserv", Diffserv::Diffserv4, "the same as diffserv4"),
            ("diffserv8", Diffserv::Diffserv8, "eight tins"),
        ]), "Linux";
        flow_mode: FlowMode = FlowMode::TRIPLE_ISOLATE, words(FlowMode::ALL), "Linux";
        nat: bool = false, words([("nat", true, "accepted, without effect: no address is translated")])
            // A kernel without connection tracking refuses both words.
            .also("nonat", |nat| *nat = false, "accepted, without effect"), "Linux";
        wash: bool = false, words([
            ("wash", true, "clear the DSCP once the tin is chosen"),
            ("nowash", false, "leave it"),
        ]), "Linux";
        split_gso: bool = true, words([
            ("split-gso", true, "cut packets of several segments (`gso` of a flow)"),
            ("no-split-gso", false, "leave them whole"),
        ]), "Linux";
        ack_filter: AckFilter = AckFilter::Off, words([
            ("ack-filter", AckFilter::On, "drop ACKs that a later ACK makes redundant, except one of two"),
            ("ack-filter-aggressive", AckFilter::Aggressive, "drop all of them"),
            ("no-ack-filter", AckFilter::Off, "drop none"),
        ]), "Linux";
        /// kernel memory; 0: 4 rtt of bandwidth, 4 to 15.5 MB
        memlimit: u32 = 0, size(0..=u32::MAX), "Linux";
        /// accepted, without effect: packets have no firewall marks
        fwmark: Option<u32> = None, number(0..=u32::MAX).shown("MASK").optional(), "Linux";
        ingress: bool = false, words([
            ("ingress", true, "charge dropped packets as well: the link to control lies before"),
            ("egress", false, "charge what is sent"),
        ]), "Linux";
        /// SCE marks from half the target on, one in NUMBER packets at the target
        sce: Sce = Sce::Off, sce().not_in_linux(), "chromi/sce";
    }
}

/// Off is not said, since the `tc` of other kernels has no word for that.
fn sce() -> Spec<Sce> {
    number(1..=THRESH_MAX)
        .mapped(Sce::Thresh, |sce| match sce {
            Sce::Thresh(n) => Some(*n),
            Sce::Off | Sce::Single => None,
        })
        .called(&["sce-thresh"])
        .or("sce", Sce::Thresh(1), "sce-thresh 1")
        .or("sce-single", Sce::Single, "SCE marks from the target on")
        .also("no-sce", |sce| *sce = Sce::Off, "no SCE marks, as in Linux")
}

impl CakeConfig {
    /// The buffer's limit, in bytes of memory.
    pub fn memory_limit(&self) -> u64 {
        let most = LIMIT_PACKETS * u64::from(MTU_FRAME);
        match (self.memlimit, self.line.rate) {
            (0, 0) => most,
            (0, rate) => {
                let standing =
                    rate.saturating_mul(self.line.rtt.as_micros()) / (1_000_000 / BUFFER_INTERVALS);
                standing.clamp(BUFFER_MIN, most)
            }
            (given, _) => u64::from(given),
        }
    }
}

/// The last word about the rate.
fn last_of_rate(given: &Given) -> Option<&'static str> {
    given.of(&["autorate-ingress", "bandwidth", "unlimited"]).pop()
}

impl Described for CakeConfig {
    const NAME: &'static str = "cake";
    const SUMMARY: &'static str =
        "shaper, tins, fairness among hosts and flows, and COBALT (CoDel with BLUE)";
    /// As `tc` prints them.
    const ORDER: &'static [&'static str] = &[
        "bandwidth",
        "autorate-ingress",
        "besteffort",
        "flowblind",
        "nat",
        "wash",
        "split-gso",
        "ack-filter",
        "rtt",
        "raw",
        "overhead",
        "mpu",
        "noatm",
        "memlimit",
        "ingress",
        "sce-thresh",
    ];
    const GAUGES: &'static [Gauge] = &[
        gauge("pk_delay_ms", "ms", "peak delay of the tin with the longest"),
        gauge("av_delay_ms", "ms", "average delay of the tin with the longest"),
        gauge("sp_delay_ms", "ms", "delay of sparse flows of the tin with the longest"),
        gauge("cobalt_count", "", "largest count of COBALT"),
        gauge("p_drop", "", "largest drop probability of BLUE"),
        gauge("sparse_flows", "", "flows that send little, all tins"),
        gauge("bulk_flows", "", "flows that build queues, all tins"),
    ];
    const MORE_GAUGES: &'static [Gauge] =
        &[gauge("capacity_estimate_mbps", "Mb/s", "rate that autorate-ingress finds")];

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        self.autorate &= last_of_rate(given) == Some("autorate-ingress");
        self.line.finish(given)
    }
    fn renew(&mut self, given: &Given) {
        self.line.renew(given);
    }
    fn finish_change(&mut self, given: &Given) -> Result<(), Refused> {
        self.autorate &= last_of_rate(given).is_none_or(|last| last == "autorate-ingress");
        self.line.finish_change(given)
    }
    fn has_more_gauges(&self) -> bool {
        self.autorate
    }
}
