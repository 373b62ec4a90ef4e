//! `twin_codel_af`: two classes of traffic, each a Cheap Nasty Queue with approximate fairness.
//!
//! Packets with the DSCP of "minimise delay" form class 1, whose times are all a fifth of those of
//! class 0. The capacity goes to the classes in proportion to the flows in them: a packet of one
//! class is charged with the number of flows in the other, and who owes less is served. Both
//! classes share the shaper and the states of the flows.
//!
//! Source: github.com/chromi/sce (`sch_twin_codel_af.c`, the later of its two schedulers: a class
//! with packets is never kept waiting for one without). SCE marks are on unless turned off.

use std::any::Any;

use super::cnq::{self, Cnq, PerFlow, flow_of};
use super::cobalt_sce::{self, CobaltConfig, CobaltParams, Weight};
use super::line::Line;
use super::shaper::{Pace, Shaper};
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, Marking, Pkt, Qdisc, QueueCx, Room, Separation,
};
use crate::params::kinds::{nested, params};
use crate::params::{Described, Gauge, Given, Refused, gauge};
use crate::time::Time;

/// DSCP of class 1 (TOS "minimise delay"), and by how much its times are shorter (Linux).
pub const DSCP: u8 = 0b000100;
pub const DIVISOR: u64 = 5;
/// rtt / 4 = 25 ms (Linux).
const SCE_THRESH: u32 = 4;

#[derive(Debug)]
struct Class<P> {
    queue: Cnq<P>,
    params: CobaltParams,
    /// Its debt to the other class.
    deficit: u64,
}

/// The queue at work.
#[derive(Debug)]
pub struct TwinCodelAf<P> {
    classes: [Class<P>; 2],
    flows: PerFlow,
    line: Line,
    shaper: Shaper,
}

impl<P: Pkt> TwinCodelAf<P> {
    fn new(config: &CobaltConfig) -> Self {
        let class = |params| Class { queue: Cnq::new(), params, deficit: 0 };
        let short = config.params_divided(DIVISOR);
        TwinCodelAf {
            classes: [class(config.params()), class(short)],
            flows: PerFlow::new(),
            line: config.line.clone(),
            shaper: Shaper::new(Pace::new(config.line.rate)),
        }
    }

    #[inline]
    fn packets(&self) -> u64 {
        self.classes.iter().map(|class| class.queue.backlog().packets).sum()
    }

    /// Chooses the class to serve and charges it.
    #[inline]
    fn schedule(&mut self) -> usize {
        let [zero, one] = &self.classes;
        let class = if one.queue.is_empty() {
            0
        } else if zero.queue.is_empty() {
            1
        } else {
            usize::from(zero.deficit >= one.deficit)
        };
        let other = &self.classes[1 - class].queue;
        let charge = other.bulk_flows() + other.sparse_flows();
        self.classes[class].deficit += charge;
        let both = self.classes[0].deficit.min(self.classes[1].deficit);
        for class in &mut self.classes {
            class.deficit -= both;
        }
        class
    }

    #[inline]
    fn drops(&mut self, class: usize, pkt: &mut P, sparse: bool, cx: &mut QueueCx<P>) -> bool {
        let total = self.packets() + 1;
        let Class { queue, params, .. } = &self.classes[class];
        let flow = flow_of(pkt);
        let cobalt = self.flows.of(flow);
        if sparse {
            cobalt.empty(params, cx.now);
            return false;
        }
        let slots = queue.slots(flow);
        let weight = Weight { flow: slots + 1, flows: queue.bulk_flows(), total };
        // A flow keeps its last packet.
        cobalt.drops(params, weight, pkt, cx) && slots > 0
    }
}

impl<P: Pkt + Send> Aqm<P> for TwinCodelAf<P> {
    #[inline]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        if self.packets() == 0 {
            self.shaper.begins(cx.now);
        }
        let class = usize::from(pkt.dscp() == DSCP);
        cx.band(class);
        self.classes[class].queue.push(pkt);
    }

    #[inline]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        if self.packets() == 0 || !self.shaper.ready(cx.now) {
            return None;
        }
        loop {
            let class = self.schedule();
            cx.band(class);
            let (mut pkt, sparse) = self.classes[class].queue.pop()?;
            if self.drops(class, &mut pkt, sparse, cx) {
                cx.drop(pkt, DropReason::Aqm);
                continue;
            }
            self.shaper.charge(self.line.on_wire(pkt.frame_len()), false);
            let [zero, one] = &self.classes;
            self.flows.calm_next(&zero.params, cx.now, |flow| {
                zero.queue.slots(flow) == 0 && one.queue.slots(flow) == 0
            });
            for class in &mut self.classes {
                class.queue.discard_dummies();
            }
            return Some(pkt);
        }
    }

    fn backlog(&self) -> Backlog {
        let [zero, one] = self.classes.each_ref().map(|class| class.queue.backlog());
        Backlog { packets: zero.packets + one.packets, bytes: zero.bytes + one.bytes }
    }
    fn next_timer(&self) -> Time {
        self.shaper.wake()
    }
    fn on_timer(&mut self, _cx: &mut QueueCx<P>) {
        self.shaper.woken();
    }
    fn change(&mut self, to: &dyn Any, _cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = &to.downcast_ref::<TwinCodelAfConfig>().ok_or_else(Vec::new)?.cobalt;
        let params = [config.params(), config.params_divided(DIVISOR)];
        for (class, params) in self.classes.iter_mut().zip(params) {
            class.params = params;
        }
        self.shaper.pace = Pace::new(config.line.rate);
        self.line = config.line.clone();
        Ok(())
    }
    fn bands(&self) -> &'static [&'static str] {
        &["class0", "class1"]
    }
    /// Counts and BLUE's probability of the flow served last, and the flows of each class.
    fn probe(&self, out: &mut dyn Gauges) {
        self.flows.probe(out);
        out.gauge("bulk_flows_class0", self.classes[0].queue.bulk_flows() as f64);
        out.gauge("bulk_flows_class1", self.classes[1].queue.bulk_flows() as f64);
    }
}

params! {
    /// The parameters, by their names in `tc`.
    pub struct TwinCodelAfConfig {
        cobalt: CobaltConfig = CobaltConfig { sce_thresh: SCE_THRESH, ..CobaltConfig::default() }, nested();
    }
}

impl Described for TwinCodelAfConfig {
    const NAME: &'static str = "twin_codel_af";
    const SUMMARY: &'static str =
        "two classes by DSCP with a shaper; COBALT and SCE marks by flow, approximately fair";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        cobalt_sce::CE_COUNT,
        cobalt_sce::SCE_COUNT,
        cobalt_sce::P_BLUE,
        gauge("bulk_flows_class0", "", "flows that wait in the bulk queue of class 0"),
        gauge("bulk_flows_class1", "", "the same of class 1"),
    ];

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        self.cobalt.line.finish(given)
    }
    fn renew(&mut self, given: &Given) {
        self.cobalt.line.renew(given);
    }
    fn finish_change(&mut self, given: &Given) -> Result<(), Refused> {
        self.cobalt.line.finish_change(given)
    }
}

impl Qdisc for TwinCodelAfConfig {
    const SEPARATION: Separation = Separation::Approximate;
    const MARKING: Marking = Marking::Always;

    fn room(&self, _link: LinkInfo) -> Room {
        Room { always: 2 * cnq::SLOTS + cnq::STATES, ..Room::ENDLESS }.shaped(self.cobalt.line.rate)
    }
    fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(TwinCodelAf::new(&self.cobalt))
    }
}
