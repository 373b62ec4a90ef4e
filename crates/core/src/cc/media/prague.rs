//! Prague for media: the algorithm of UDP Prague ([`crate::cc::udp_prague`]) paces the packets of frames, and the
//! encoder aims at a part of its rate. It is the upper bound of what an L4S sender of media gets; no RTP standard exists.
//!
//! The packets' size is the flow's, where UDP Prague shrinks them at low rates. Its answer to a second of silence is not
//! here: the window lets a packet go after two round trips.

use super::{MediaController, MediaOptions, Rates, Report, Reports};
use crate::cc::Role;
use crate::cc::udp_prague::{Feedback, Law};
use crate::ecn::Ecn;
use crate::params::kinds::{params, real};
use crate::params::{Described, Gauge, gauge};
use crate::probe::Gauges;
use crate::time::{Span, Time};

/// RTP packet of 1200 bytes of media.
const FULL_PACKET: u64 = 1222;
/// So long a packet may have arrived before a report tells of it, where no longer time between reports was seen.
const HELD: Span = Reports::SCREAM.interval;

params! {
    pub struct Options {
        /// target rate over the rate of Prague: what is left lets a frame leave before the next one
        target: f64 = 0.8, real("FRACTION", "a number from 0.1 to 1", |x| (0.1..=1.0).contains(&x), (0.1, 1.0)), "l4slab";
    }
}

impl Described for Options {
    const NAME: &'static str = "prague";
    const SUMMARY: &'static str = "Prague (UDP Prague) as the rate of an encoder";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        gauge("alpha", "", "estimate of the fraction of marks"),
        gauge("prague_mbps", "Mb/s", "rate of Prague, at which packets leave"),
    ];
}

impl MediaOptions for Options {
    const ROLE: Option<Role> = Some(Role::Scalable);
    const LOOK: u8 = 0;
    const ECN: Ecn = Ecn::Ect1;
    fn build(&self, rates: Rates, _ecn: Ecn) -> Box<dyn MediaController> {
        Box::new(Prague::new(self, rates))
    }
}

/// Prague for media. Rates are bits per second.
#[derive(Clone, Debug)]
struct Prague {
    part: f64,
    rates: Rates,
    law: Law,
    now: Time,
    held: Span,
    totals: Feedback,
}

impl Prague {
    fn new(options: &Options, rates: Rates) -> Prague {
        let bytes = |bps: f64| (bps / options.target / 8.0) as u64;
        let mut law = Law::new(FULL_PACKET, bytes(rates.max), Time::ZERO);
        law.begin_at(bytes(rates.start));
        let totals = Feedback::default();
        Prague { part: options.target, rates, law, now: Time::ZERO, held: HELD, totals }
    }
}

impl MediaController for Prague {
    fn on_report(&mut self, report: &Report) {
        self.held = report.now.since(self.now).max(HELD);
        self.now = report.now;
        let (mut packets, mut bytes) = (0, 0);
        for packet in report.packets {
            match packet.arrived {
                Some(_) => (packets, bytes) = (packets + 1, bytes + u64::from(packet.size)),
                None => self.totals.lost += 1,
            }
            self.totals.ce += u32::from(packet.ce);
        }
        self.totals.received += packets;
        if packets > 0 {
            self.law.set_packet(bytes / u64::from(packets));
        }
        let known = self.totals.received + self.totals.lost;
        let sent = known + report.in_flight.div_ceil(self.law.packet()) as u32;
        self.law.on_feedback(report.now, report.rtt, self.totals, sent);
    }
    fn target_bps(&self) -> f64 {
        (self.part * 8.0 * self.law.rate() as f64).clamp(self.rates.min, self.rates.max)
    }
    fn pacing_bps(&self) -> f64 {
        // A frame of the lowest rate leaves in time, too.
        (8.0 * self.law.pacing_rate(self.now) as f64).max(self.rates.min / self.part)
    }
    /// UDP Prague's, which has a report for each packet, and what leaves until a report comes here.
    fn window(&self) -> u64 {
        let held = self.held.as_secs_f64() * self.law.rate() as f64;
        self.law.packet_window() * self.law.packet() + FULL_PACKET + held as u64
    }
    fn set_max(&mut self, bps: f64) {
        self.rates.set_max(bps);
        self.law.set_max_rate((bps / self.part / 8.0) as u64);
    }
    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("alpha", self.law.alpha());
        out.gauge("prague_mbps", 8e-6 * self.law.rate() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::media::Fate;

    const RTT: Span = Span::from_millis(25);

    fn prague(mbps: f64) -> Prague {
        Prague::new(&Options::default(), Rates { min: 1.5e5, start: mbps * 1e6, max: 40e6 })
    }

    /// A round trip's packets are reported at once.
    fn round(p: &mut Prague, n: u64, marked: usize, lost: usize) {
        let now = Time::ZERO + RTT * n;
        let per_rtt = (p.target_bps() * 0.025 / 8.0 / FULL_PACKET as f64) as usize;
        let packets: Vec<_> = (0..per_rtt.max(1))
            .map(|i| Fate {
                sent: now.saturating_sub(RTT),
                arrived: (i >= lost).then(|| now.saturating_sub(RTT / 2)),
                size: FULL_PACKET as u32,
                ce: i >= lost && i < marked.saturating_add(lost),
                cluster: 0,
            })
            .collect();
        let (acked, in_flight) = (packets.len() as u64 * FULL_PACKET, 0);
        let packets = &packets;
        let (rtt, one_way, max_in_flight) = (RTT, RTT / 2, acked);
        p.on_report(&Report { now, packets, rtt, one_way, acked, in_flight, max_in_flight });
    }

    /// The encoder gets 0.8 of Prague's rate, which leaves at the whole of it, 3 % more or less.
    #[test]
    fn the_encoder_aims_at_a_part() {
        let mut p = prague(8.0);
        assert!((p.target_bps() / 8e6 - 1.0).abs() < 1e-3, "{}", p.target_bps());
        for n in 1..5 {
            round(&mut p, n, 0, 0);
        }
        assert!((p.pacing_bps() / p.target_bps() * 0.8 - 1.0).abs() < 0.031);
        for n in 5..1000 {
            round(&mut p, n, 0, 0);
        }
        assert!((p.target_bps() / 40e6 - 1.0).abs() < 1e-6, "the encoder's highest rate");
        p.set_max(10e6);
        assert!((p.target_bps() / 10e6 - 1.0).abs() < 1e-6);
    }

    /// Marks on all packets make alpha 1, which halves per round trip; a loss halves at once.
    #[test]
    fn it_answers_marks_by_alpha_and_a_loss_by_half() {
        let mut p = prague(20.0);
        round(&mut p, 1, 0, 0);
        let before = p.target_bps();
        round(&mut p, 2, 0, 1);
        assert!((p.target_bps() / before - 0.5).abs() < 0.02, "{}", p.target_bps() / before);
        let mut p = prague(20.0);
        for n in 1..100 {
            round(&mut p, n, usize::MAX, 0);
        }
        assert!(p.law.alpha() > 0.99);
        assert_eq!(p.target_bps(), 1.5e5, "the encoder's lowest rate");
    }
}
