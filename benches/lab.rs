//! How long labs take, and what they give: `cargo bench --package l4slab --bench lab`. The digests are the same on every
//! machine and in every profile.

#![allow(clippy::disallowed_types)] // a benchmark reads the clock

use std::time::{Duration, Instant};

use l4slab::{Ecn, Event, Packet, Setup};

/// An endpoint of 10 Mb/s in full packets, with an answer to each, on a link of 20 Mb/s next to a CUBIC flow or alone.
fn ten_mbps(seed: u64, has_rival: bool) -> u64 {
    let rtt = Duration::from_millis(20);
    let setup = Setup::new().link("b", 20_000_000, "dualpi2").seed(seed);
    let setup = if has_rival { setup.rival("cubic", rtt) } else { setup };
    let mut lab = setup.endpoint("mine", rtt).start().expect("a lab");
    let [near, far] = lab.ends("mine").expect("it is there");
    let interval = Duration::from_nanos(1514 * 8 * 100);
    let mut digest = 0_u64;
    lab.wake_at(Duration::ZERO, 0);
    while let Some(event) = lab.next_event() {
        match event {
            Event::Timer(_) => {
                lab.send(near, Packet::new(vec![0; 1472]).ecn(Ecn::Ect1)).expect("it fits");
                lab.wake_at(lab.now() + interval, 0);
            }
            Event::Arrival(end) => {
                let packet = lab.receive(end).expect("it has come");
                let word = lab.now().as_nanos() as u64 ^ u64::from(packet.ecn.bits());
                digest = (digest ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
                if end == far {
                    lab.send(far, Packet::new([packet.ecn.bits()])).expect("it fits");
                }
            }
        }
    }
    digest ^ lab.finish().expect("10 s").delivered_packets
}

/// A thousand seconds of one round trip per second.
fn seldom() -> u64 {
    let setup = Setup::new().link("b", 20_000_000, "dualpi2").duration(Duration::from_secs(1000));
    let mut lab = setup.endpoint("mine", Duration::from_millis(20)).start().expect("a lab");
    let [near, far] = lab.ends("mine").expect("it is there");
    let mut arrived = 0;
    lab.wake_at(Duration::ZERO, 0);
    while let Some(event) = lab.next_event() {
        match event {
            Event::Timer(_) => {
                lab.send(near, Packet::new(vec![0; 1000])).expect("it fits");
                lab.wake_at(lab.now() + Duration::from_secs(1), 0);
            }
            Event::Arrival(end) => {
                arrived += 1;
                let packet = lab.receive(end).expect("it has come");
                if end == far {
                    lab.send(far, packet).expect("it fits");
                }
            }
        }
    }
    arrived
}

fn timed(what: &str, run: impl FnOnce() -> u64) {
    let begin = Instant::now();
    let digest = run();
    println!("{what}: {:.2} s, digest {digest:016x}", begin.elapsed().as_secs_f64());
}

fn hundred(has_rival: bool) -> u64 {
    (0..100).map(|seed| ten_mbps(seed, has_rival)).fold(0, |all, one| all.rotate_left(1) ^ one)
}

fn main() {
    timed("100 runs of 10 s with 10 Mb/s", || hundred(false));
    timed("100 runs of 10 s with 10 Mb/s next to CUBIC", || hundred(true));
    timed("1000 s with a round trip per second", seldom);
}
