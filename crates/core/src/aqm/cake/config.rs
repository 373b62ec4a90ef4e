//! The parameters of CAKE in the words of `tc`.

use super::Cake;
use super::diffserv::Diffserv;
use super::hash::FlowMode;
use super::sce::{Sce, THRESH_MAX};
use crate::aqm::Aqm;
use crate::aqm::Pkt;
use crate::aqm::line::{self, Line};
use crate::aqm::registry::{LinkInfo, Qdisc};
use crate::tc::{self, Args, Param, TcError, param};
use crate::units::MTU_FRAME;

/// Most that a buffer holds: so many full frames (Linux).
const LIMIT_PACKETS: u64 = 10_240;
/// A shaped buffer holds four intervals, but no less than this (Linux).
const BUFFER_INTERVALS: u64 = 4;
const BUFFER_MIN: u64 = 4 << 20;

/// The parameters, by their names in `tc`.
#[derive(Clone, PartialEq, Debug)]
pub struct CakeConfig {
    pub line: Line,
    pub autorate: bool,
    pub diffserv: Diffserv,
    pub flow_mode: FlowMode,
    pub nat: bool,
    pub wash: bool,
    pub split_gso: bool,
    /// Bytes; 0 follows from the rate.
    pub memlimit: u32,
    pub ingress: bool,
    pub sce: Sce,
}

impl Default for CakeConfig {
    fn default() -> Self {
        CakeConfig {
            line: Line::default(),
            autorate: false,
            diffserv: Diffserv::Diffserv3,
            flow_mode: FlowMode::TRIPLE_ISOLATE,
            nat: false,
            wash: false,
            split_gso: true,
            memlimit: 0,
            ingress: false,
            sce: Sce::Off,
        }
    }
}

impl CakeConfig {
    /// What the buffer may hold, in bytes of memory.
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
    const PARAMS: &'static [Param] = &tc::join::<61>(&[
        &line::PARAMS,
        &[
            param("autorate-ingress", "", "", "shape to 15/16 of the rate that arrives"),
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
            param(
                "triple-isolate",
                "",
                "yes",
                "a queue per flow, fair among sources and destinations",
            ),
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
            param(
                "ingress",
                "",
                "",
                "charge dropped packets as well: the link to control lies before",
            ),
            param("egress", "", "yes", "charge what is sent"),
            param("sce", "", "", "sce-thresh 1"),
            param(
                "sce-thresh",
                "NUMBER",
                "",
                "SCE marks from half the target on, one in NUMBER packets at the target, 1 to 1024",
            ),
            param("sce-single", "", "", "SCE marks from the target on"),
            param("no-sce", "", "yes", "no SCE marks, as in Linux"),
        ],
    ]);

    fn parse(args: &mut Args) -> Result<Self, TcError> {
        let mut config = CakeConfig::default();
        let mut line = line::Reader::default();
        while let Some(keyword) = args.keyword() {
            match keyword {
                "autorate-ingress" => config.autorate = true,
                "diffserv" => config.diffserv = Diffserv::Diffserv4,
                "nat" => config.nat = true,
                "nonat" => config.nat = false,
                "wash" => config.wash = true,
                "nowash" => config.wash = false,
                "split-gso" => config.split_gso = true,
                "no-split-gso" => config.split_gso = false,
                "no-ack-filter" => {}
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
                "ingress" => config.ingress = true,
                "egress" => config.ingress = false,
                "sce" => config.sce = Sce::Thresh(1),
                "sce-thresh" => config.sce = Sce::Thresh(args.number(1, THRESH_MAX)?),
                "sce-single" => config.sce = Sce::Single,
                "no-sce" => config.sce = Sce::Off,
                name if line.takes(name, args)? => {
                    config.autorate &= !matches!(name, "bandwidth" | "unlimited");
                }
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
        config.line = line.finish();
        Ok(config)
    }

    fn canonical(&self) -> String {
        let choose = |yes, when: &'static str, otherwise| if yes { when } else { otherwise };
        format!(
            "{}{} {} {}{} {} {} no-ack-filter rtt {} {}overhead {} mpu {} {} memlimit {} {}{}",
            self.line.bandwidth(),
            choose(self.autorate, " autorate-ingress", ""),
            name_of(&Diffserv::ALL, &self.diffserv),
            name_of(&FlowMode::ALL, &self.flow_mode),
            // A kernel without connection tracking refuses both words.
            choose(self.nat, " nat", ""),
            choose(self.wash, "wash", "nowash"),
            choose(self.split_gso, "split-gso", "no-split-gso"),
            tc::format_time(self.line.rtt),
            choose(self.line.raw, "raw ", ""),
            self.line.overhead,
            self.line.mpu,
            self.line.cells.keyword(),
            self.memlimit,
            choose(self.ingress, "ingress", "egress"),
            self.sce.words(),
        )
    }

    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Cake::new(self.clone(), link.now))
    }
}
