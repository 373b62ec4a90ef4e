//! A flow whose two ends are outside of the simulator, such as a transport stack in a test. They hand packets over as
//! [`crate::sim::outside`] says; here is what arrives for them.

use serde::Deserialize;

use super::cbr::Copies;
use super::{Demand, Ends, Place, Traffic};
use crate::element::{self, ArrivalChain, ArrivalList, End, Flow, Outbox};
use crate::error::ScenarioError;
use crate::packet::Packet;
use crate::probe::Totals;
use crate::time::Time;
use crate::units::{ETHERNET_HEADER, MTU_FRAME};

/// What an end may hand over. A frame is longer by `header_bytes`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The largest IP packet.
    #[serde(default = "full_packet")]
    mtu_bytes: u32,
    /// What its frames have besides the bytes of an end.
    #[serde(default = "of_udp")]
    header_bytes: u32,
}

fn full_packet() -> u32 {
    MTU_FRAME - ETHERNET_HEADER
}
fn of_udp() -> u32 {
    ETHERNET_HEADER + crate::packet::UDP_IP_HEADERS
}

/// From the least that every link takes (RFC 791) to jumbo frames.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=9000;

impl Spec {
    fn frame(&self) -> u32 {
        self.mtu_bytes + ETHERNET_HEADER
    }
}

impl Traffic for Spec {
    fn check(&self) -> Result<(), ScenarioError> {
        let (least, most) = (MTU_RANGE.start(), MTU_RANGE.end());
        if !MTU_RANGE.contains(&self.mtu_bytes) {
            return Err(ScenarioError(format!("mtu must be between {least}B and {most}B")));
        }
        if self.header_bytes >= self.frame() {
            return Err(ScenarioError("header must be smaller than a frame of the mtu".to_owned()));
        }
        Ok(())
    }
    fn sender_name(&self) -> &str {
        "endpoint"
    }
    fn outside(&self) -> Option<Ends> {
        let header = self.header_bytes;
        Some(Ends { header, most: self.frame() - header })
    }
    fn demand(&self) -> Demand {
        Demand { frame: self.frame(), ..Demand::GREEDY }
    }
    fn build(&self, _: &Place) -> Box<dyn Flow> {
        Box::<Outside>::default()
    }
}

/// Both ends.
#[derive(Default)]
struct Outside {
    near: Near,
    far: Far,
}

#[derive(Default)]
struct Near;

#[derive(Default)]
struct Far {
    received_bytes: u64,
    copies: Copies,
}

impl End for Near {
    fn deadline(&self) -> Time {
        Time::NEVER
    }
    fn on_timer(&mut self, _now: Time, _out: &mut Outbox) {}
    fn on_packet(&mut self, _now: Time, pkt: &Packet, out: &mut Outbox) {
        out.outside.push(*pkt);
    }
}

impl End for Far {
    fn deadline(&self) -> Time {
        Time::NEVER
    }
    fn on_timer(&mut self, _now: Time, _out: &mut Outbox) {}
    fn on_packet(&mut self, _now: Time, pkt: &Packet, out: &mut Outbox) {
        if self.copies.is_new(pkt) {
            self.received_bytes += u64::from(pkt.payload);
        }
        out.outside.push(*pkt);
    }
}

impl Flow for Outside {
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time {
        element::run(&mut self.near, arrivals, until, out)
    }
    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time {
        element::run(&mut self.far, arrivals, until, out)
    }
    fn starts(&self) -> (Time, Time) {
        (Time::NEVER, Time::NEVER)
    }
    fn stop(&mut self, _now: Time) {}
    fn totals(&self) -> Totals {
        Totals { received_bytes: self.far.received_bytes, retransmitted: 0 }
    }
}
