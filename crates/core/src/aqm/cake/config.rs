//! The parameters of CAKE in the words of `tc`.

use super::Cake;
use super::diffserv::Diffserv;
use super::hash::FlowMode;
use super::shaper::{Framing, Overhead};
use crate::aqm::Aqm;
use crate::aqm::Pkt;
use crate::aqm::registry::{LinkInfo, Qdisc};
use crate::tc::{self, Args, Param, TcError, param};
use crate::time::Span;
use crate::units::{MTU_FRAME, Rate};

/// The target is this part of the round trip time (`tc`), 5 ms of 100 ms.
const RTT_TO_TARGET: u64 = 20;
/// Most that a buffer holds: so many full frames (Linux).
const LIMIT_PACKETS: u64 = 10_240;
/// A shaped buffer holds four intervals, but no less than this (Linux).
const BUFFER_INTERVALS: u64 = 4;
const BUFFER_MIN: u64 = 4 << 20;
/// `tc`'s bounds for `overhead` and `mpu`.
const OVERHEAD_MIN: i32 = -64;
const WIRE_BYTES_MAX: u32 = 256;

/// Round trip times by name, in microseconds.
const PRESETS: [(&str, u64); 8] = [
    ("datacentre", 100),
    ("lan", 1_000),
    ("metro", 10_000),
    ("regional", 30_000),
    ("internet", 100_000),
    ("oceanic", 300_000),
    ("satellite", 1_000_000),
    ("interplanetary", 1_000_000_000),
];

/// Framings by name: what they add to each packet, how they cut it up, and the smallest packet. Those
/// without framing (`None`) leave it as it is.
const OVERHEADS: [(&str, i32, Option<Framing>, Option<u32>); 13] = [
    ("ipoa-vcmux", 8, Some(Framing::Atm), None),
    ("ipoa-llcsnap", 16, Some(Framing::Atm), None),
    ("bridged-vcmux", 24, Some(Framing::Atm), None),
    ("bridged-llcsnap", 32, Some(Framing::Atm), None),
    ("pppoa-vcmux", 10, Some(Framing::Atm), None),
    ("pppoa-llc", 14, Some(Framing::Atm), None),
    ("pppoe-vcmux", 32, Some(Framing::Atm), None),
    ("pppoe-llcsnap", 40, Some(Framing::Atm), None),
    ("pppoe-ptm", 30, Some(Framing::Ptm), None),
    ("bridged-ptm", 22, Some(Framing::Ptm), None),
    ("ethernet", 38, None, Some(84)),
    ("ether-vlan", 4, None, None),
    ("docsis", 18, Some(Framing::Plain), Some(64)),
];
/// `conservative` replaces any overhead: one ATM cell's payload.
const CONSERVATIVE: i32 = 48;

const FRAMINGS: [(&str, Framing); 3] =
    [("noatm", Framing::Plain), ("atm", Framing::Atm), ("ptm", Framing::Ptm)];

/// The parameters, by their names in `tc`.
#[derive(Clone, PartialEq, Debug)]
pub struct CakeConfig {
    /// Bytes per second; 0 is unlimited.
    pub rate: u64,
    pub autorate: bool,
    pub diffserv: Diffserv,
    pub flow_mode: FlowMode,
    pub nat: bool,
    pub wash: bool,
    pub split_gso: bool,
    /// Bytes; 0 follows from the rate.
    pub memlimit: u32,
    pub rtt: Span,
    pub overhead: Overhead,
    pub ingress: bool,
}

impl Default for CakeConfig {
    fn default() -> Self {
        CakeConfig {
            rate: 0,
            autorate: false,
            diffserv: Diffserv::Diffserv3,
            flow_mode: FlowMode::TRIPLE_ISOLATE,
            nat: false,
            wash: false,
            split_gso: true,
            memlimit: 0,
            rtt: Span::from_millis(100),
            overhead: Overhead { from_ip: false, bytes: 0, mpu: 0, framing: Framing::Plain },
            ingress: false,
        }
    }
}

impl CakeConfig {
    pub fn target(&self) -> Span {
        Span::from_micros((self.rtt.as_micros() / RTT_TO_TARGET).max(1))
    }

    /// What the buffer may hold, in bytes of memory.
    pub fn memory_limit(&self) -> u64 {
        let most = LIMIT_PACKETS * u64::from(MTU_FRAME);
        match (self.memlimit, self.rate) {
            (0, 0) => most,
            (0, rate) => {
                let standing =
                    rate.saturating_mul(self.rtt.as_micros()) / (1_000_000 / BUFFER_INTERVALS);
                standing.clamp(BUFFER_MIN, most)
            }
            (given, _) => u64::from(given),
        }
    }

    fn preset(&mut self, name: &str) -> bool {
        let found = PRESETS.iter().find(|(preset, _)| *preset == name);
        found.is_some_and(|&(_, us)| {
            self.rtt = Span::from_micros(us);
            true
        })
    }

    fn framing(&mut self, name: &str) -> bool {
        if let Some(&(_, framing)) = FRAMINGS.iter().find(|(keyword, _)| *keyword == name) {
            self.overhead.framing = framing;
            return true;
        }
        let Some(&(_, bytes, framing, mpu)) = OVERHEADS.iter().find(|o| o.0 == name) else {
            return false;
        };
        self.overhead.bytes += bytes;
        self.overhead.framing = framing.unwrap_or(self.overhead.framing);
        self.overhead.mpu = mpu.unwrap_or(self.overhead.mpu);
        self.overhead.from_ip = true;
        true
    }
}

/// One of a table's keywords with the value it stands for.
fn by_name<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(keyword, _)| *keyword == name).map(|&(_, value)| value)
}

fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, other)| other == value).map_or("", |&(name, _)| name)
}

impl Qdisc for CakeConfig {
    const NAME: &'static str = "cake";
    const SUMMARY: &'static str =
        "shaper, tins, fairness among hosts and flows, and COBALT (CoDel with BLUE)";
    const PARAMS: &'static [Param] = &[
        param("bandwidth", "RATE", "", "shape to this rate"),
        param("unlimited", "", "yes", "no shaping"),
        param("autorate-ingress", "", "", "shape to 15/16 of the rate that arrives"),
        param("rtt", "TIME", "100ms", "COBALT's interval; its target is a twentieth"),
        param("datacentre", "", "", "rtt 100us"),
        param("lan", "", "", "rtt 1ms"),
        param("metro", "", "", "rtt 10ms"),
        param("regional", "", "", "rtt 30ms"),
        param("internet", "", "yes", "rtt 100ms"),
        param("oceanic", "", "", "rtt 300ms"),
        param("satellite", "", "", "rtt 1s"),
        param("interplanetary", "", "", "rtt 1000s"),
        param("besteffort", "", "", "one tin"),
        param("precedence", "", "", "eight tins, by the three upper bits of ToS"),
        param("diffserv3", "", "yes", "Bulk, Best Effort, Voice"),
        param("diffserv4", "", "", "Bulk, Best Effort, Video, Voice"),
        param("diffserv", "", "", "the same as diffserv4"),
        param("diffserv8", "", "", "eight tins"),
        param("flowblind", "", "", "one queue per tin"),
        param("srchost", "", "", "a queue per source"),
        param("dsthost", "", "", "a queue per destination"),
        param("hosts", "", "", "a queue per pair of hosts"),
        param("flows", "", "", "a queue per flow"),
        param("dual-srchost", "", "", "a queue per flow, fair among sources"),
        param("dual-dsthost", "", "", "a queue per flow, fair among destinations"),
        param("triple-isolate", "", "yes", "a queue per flow, fair among sources and destinations"),
        param("nat", "", "", "accepted, without effect: no address is translated"),
        param("nonat", "", "yes", "accepted, without effect"),
        param("wash", "", "", "clear the DSCP once the tin is chosen"),
        param("nowash", "", "yes", "leave it"),
        param("split-gso", "", "yes", "accepted; every packet is a segment already"),
        param("no-split-gso", "", "", "accepted, without effect"),
        param("no-ack-filter", "", "yes", "accepted; the ACK filter is not modelled"),
        param(
            "memlimit",
            "BYTES",
            "0",
            "memory, 894 B per packet besides its frame; 0: 4 rtt of bandwidth, 4 to 15.5 MB",
        ),
        param("raw", "", "yes", "count Ethernet frames, plus overhead"),
        param("overhead", "BYTES", "", "count IP packets plus these, -64 to 256"),
        param("mpu", "BYTES", "0", "a packet counts as no less, 0 to 256"),
        param("noatm", "", "yes", "bytes are bytes"),
        param("atm", "", "", "cells of 53 bytes carry 48"),
        param("ptm", "", "", "64 bytes cost 65"),
        param("conservative", "", "", "overhead 48 atm"),
        param("ipoa-vcmux", "", "", "8 bytes more, atm"),
        param("ipoa-llcsnap", "", "", "16 bytes more, atm"),
        param("bridged-vcmux", "", "", "24 bytes more, atm"),
        param("bridged-llcsnap", "", "", "32 bytes more, atm"),
        param("pppoa-vcmux", "", "", "10 bytes more, atm"),
        param("pppoa-llc", "", "", "14 bytes more, atm"),
        param("pppoe-vcmux", "", "", "32 bytes more, atm"),
        param("pppoe-llcsnap", "", "", "40 bytes more, atm"),
        param("pppoe-ptm", "", "", "30 bytes more, ptm"),
        param("bridged-ptm", "", "", "22 bytes more, ptm"),
        param("via-ethernet", "", "yes", "accepted, without effect, as by tc"),
        param("ethernet", "", "", "38 bytes more, mpu 84"),
        param("ether-vlan", "", "", "4 bytes more"),
        param("docsis", "", "", "18 bytes more, mpu 64"),
        param("ingress", "", "", "charge dropped packets as well: the link to control lies before"),
        param("egress", "", "yes", "charge what is sent"),
    ];

    fn parse(args: &mut Args) -> Result<Self, TcError> {
        let mut config = CakeConfig::default();
        let mut preset = None;
        // `raw` holds wherever it stands, though later words may still change the number.
        let mut raw = false;
        while let Some(keyword) = args.keyword() {
            match keyword {
                "bandwidth" => {
                    config.rate = args.value("a rate above zero such as 50mbit", |s| {
                        tc::parse_rate(s).map(|rate| rate.bps() / 8).filter(|&bytes| bytes > 0)
                    })?;
                    config.autorate = false;
                }
                "unlimited" => (config.rate, config.autorate) = (0, false),
                "autorate-ingress" => config.autorate = true,
                "rtt" => config.rtt = args.time()?,
                "diffserv" => config.diffserv = Diffserv::Diffserv4,
                "nat" => config.nat = true,
                "nonat" => config.nat = false,
                "wash" => config.wash = true,
                "nowash" => config.wash = false,
                "split-gso" => config.split_gso = true,
                "no-split-gso" => config.split_gso = false,
                "no-ack-filter" | "via-ethernet" => {}
                "ack-filter" | "ack-filter-aggressive" => {
                    return Err(
                        args.not_modelled("write no-ack-filter, or thin the ACKs otherwise")
                    );
                }
                "fwmark" => {
                    return Err(args.not_modelled(
                        "packets have no firewall marks; choose tins by dscp and diffserv4",
                    ));
                }
                "memlimit" => {
                    config.memlimit = args.value("a size such as 4mb", tc::parse_size)?;
                }
                "raw" => {
                    raw = true;
                    config.overhead.bytes = 0;
                    config.overhead.framing = Framing::Plain;
                }
                "overhead" => {
                    config.overhead.bytes = args.value("a whole number from -64 to 256", |s| {
                        let most = WIRE_BYTES_MAX as i32;
                        s.parse().ok().filter(|n| (OVERHEAD_MIN..=most).contains(n))
                    })?;
                    config.overhead.from_ip = true;
                }
                "mpu" => {
                    config.overhead.mpu = args.value("a whole number from 0 to 256", |s| {
                        tc::parse_count(s).filter(|&n| n <= WIRE_BYTES_MAX)
                    })?;
                }
                "conservative" => {
                    config.overhead.bytes = CONSERVATIVE;
                    config.overhead.framing = Framing::Atm;
                    config.overhead.from_ip = true;
                }
                "ingress" => config.ingress = true,
                "egress" => config.ingress = false,
                name if config.preset(name) => {
                    if let Some(first) = preset.replace(name) {
                        let fix = format!("{first} stands there already, and tc takes one of them");
                        return Err(args.refuse("the preset", name.to_owned(), fix));
                    }
                }
                name if config.framing(name) => {}
                name => {
                    if let Some(diffserv) = by_name(&Diffserv::ALL, name) {
                        config.diffserv = diffserv;
                    } else if let Some(mode) = by_name(&FlowMode::ALL, name) {
                        config.flow_mode = mode;
                    } else {
                        return Err(args.unknown());
                    }
                }
            }
        }
        config.overhead.from_ip &= !raw;
        Ok(config)
    }

    fn canonical(&self) -> String {
        let choose = |yes, when: &'static str, otherwise| if yes { when } else { otherwise };
        let rate = match self.rate {
            0 => "unlimited".to_owned(),
            bytes => format!("bandwidth {}bit", Rate::from_bps(bytes * 8).bps()),
        };
        format!(
            "{rate}{} {} {}{} {} {} no-ack-filter rtt {} {}overhead {} mpu {} {} memlimit {} {}",
            choose(self.autorate, " autorate-ingress", ""),
            name_of(&Diffserv::ALL, &self.diffserv),
            name_of(&FlowMode::ALL, &self.flow_mode),
            // A kernel without connection tracking refuses both words.
            choose(self.nat, " nat", ""),
            choose(self.wash, "wash", "nowash"),
            choose(self.split_gso, "split-gso", "no-split-gso"),
            tc::format_time(self.rtt),
            choose(self.overhead.from_ip, "", "raw "),
            self.overhead.bytes,
            self.overhead.mpu,
            name_of(&FRAMINGS, &self.overhead.framing),
            self.memlimit,
            choose(self.ingress, "ingress", "egress"),
        )
    }

    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Cake::new(self.clone(), link.now))
    }
}
