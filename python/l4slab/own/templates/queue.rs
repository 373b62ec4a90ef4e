//! NAME: first in, first out; marks ECT(1) that has waited longer than a threshold. Build it with: cargo build --release

mod l4slab;

use std::collections::VecDeque;
use std::ffi::CStr;

use l4slab::{ECT1, Gauge, Link, Packet, Parameter, Queue, TIME, WHOLE};

struct CLASS {
    limit: usize,
    threshold_ns: u64,
    waiting: VecDeque<&'static Packet>,
    marked: u64,
}

l4slab::queue!(CLASS);

impl Queue for CLASS {
    const SUMMARY: &'static CStr = c"first in, first out; marks ECT(1) that has waited longer than a threshold";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(c"limit", WHOLE, c"1000", c"packets that it holds").within(1.0, 1e6),
        Parameter::new(c"threshold", TIME, c"1ms", c"an ECT(1) packet that has waited longer is marked"),
    ];
    const GAUGES: &'static [Gauge] = &[Gauge::new(c"step_marks", c"", c"marks since the start")];

    fn create(parameters: &[f64], _rate_bps: u64, _now_ns: u64) -> Self {
        let (limit, threshold_ns) = (parameters[0] as usize, parameters[1] as u64);
        CLASS { limit, threshold_ns, waiting: VecDeque::new(), marked: 0 }
    }

    fn enqueue(&mut self, packet: &'static Packet, link: &mut Link) {
        if self.waiting.len() >= self.limit {
            link.overflow(packet);
        } else {
            self.waiting.push_back(packet);
        }
    }

    fn dequeue(&mut self, link: &mut Link) -> Option<&'static Packet> {
        let packet = self.waiting.pop_front()?;
        if packet.ecn == ECT1 && link.now_ns - packet.arrived_ns > self.threshold_ns {
            self.marked += u64::from(link.mark(packet));
        }
        Some(packet)
    }

    fn probe(&self, gauges: &mut [f64]) {
        gauges[0] = self.marked as f64;
    }
}
