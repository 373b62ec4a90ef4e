//! Ends of flows under the clock of a simulation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use l4slab_core::net::tap::End;
use l4slab_core::packet::Packet as Carried;
use l4slab_core::scenario::Run;
use l4slab_core::sim::Simulation;
use l4slab_core::sim::outside::Sent;
use l4slab_core::time::{Span, Time};

use crate::{Ecn, Error, Results};

/// One of the two ends of an endpoint flow.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndId(usize);

impl EndId {
    /// Its number in the lab: twice that of the endpoint, and one more for the far end.
    pub fn number(self) -> usize {
        self.0
    }
    /// That of the same flow on the other side.
    pub fn peer(self) -> EndId {
        EndId(self.0 ^ 1)
    }
    fn is_far(self) -> bool {
        self.0 & 1 == 1
    }
}

/// What happens next outside.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A packet has arrived, which [`Lab::receive`] hands over.
    Arrival(EndId),
    /// The time of [`Lab::wake_at`] has come, with its token.
    Timer(u64),
}

/// The payload of a datagram and its marks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    pub bytes: Vec<u8>,
    /// What arrives has CE where a queue marked it.
    pub ecn: Ecn,
    /// Sent: by default that of the flow. Arrived: what the network left.
    pub dscp: Option<u8>,
    /// Of the source and the destination. The network carries them, and does not look at them.
    pub ports: [u16; 2],
}

impl Packet {
    /// Not-ECT, with the flow's DSCP.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Packet {
        Packet { bytes: bytes.into(), ecn: Ecn::NotEct, dscp: None, ports: [0; 2] }
    }
    /// With this codepoint.
    pub fn ecn(self, ecn: Ecn) -> Packet {
        Packet { ecn, ..self }
    }
}

/// Packets of both ends of a flow so far: `sent + copied = arrived + lost + in_flight`.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub struct Sum {
    pub sent: u64,
    /// That the network made (`netem duplicate`).
    pub copied: u64,
    pub arrived: u64,
    pub lost: u64,
    pub in_flight: u64,
}

/// Bytes under way, and how many packets have them.
struct UnderWay {
    packet: Packet,
    count: u32,
}

#[derive(Default)]
struct Outside {
    group: usize,
    next: u32,
    inbox: VecDeque<Packet>,
}

/// A run whose endpoints are in your program.
pub struct Lab {
    simulation: Simulation,
    now: Time,
    /// The network has got there: every arrival before is known.
    reached: Time,
    end: Time,
    names: Vec<String>,
    /// Two of each endpoint.
    ends: Vec<Outside>,
    /// The endpoint of a flow group.
    endpoint_of: BTreeMap<usize, usize>,
    under_way: BTreeMap<(usize, u32), UnderWay>,
    arrivals: VecDeque<(Time, EndId, Packet)>,
    timers: BTreeSet<(Time, u64)>,
    sums: Vec<Sum>,
    most: Vec<usize>,
}

impl Lab {
    /// The lab of a run's description, as the resolved file has it (`docs/generated/run.schema.json`; `l4slab.Lab(FILE)` in
    /// Python shows it as `.description`).
    ///
    /// # Errors
    /// One sentence that names the part and the fix.
    pub fn from_run(json: &str) -> Result<Lab, Error> {
        let run = Run::from_json(json)?;
        let refused = |text: &str| Err(Error(text.to_owned()));
        if run.precision.is_some() {
            return refused("a lab ends when its test ends; leave precision out");
        }
        let outside: Vec<_> = (0..run.flows.len())
            .filter_map(|i| Some((i, run.flows[i].traffic.outside()?)))
            .collect();
        if outside.is_empty() {
            return refused(
                "a lab needs a flow of kind = \"endpoint\", whose ends are in the test",
            );
        }
        let mut simulation = Simulation::new(&run)?;
        simulation.keep_fates();
        let groups = outside.iter().map(|(group, _)| *group);
        let both = groups.clone().flat_map(|group| [group, group]);
        Ok(Lab {
            simulation,
            now: Time::ZERO,
            reached: Time::ZERO,
            end: Time(run.duration_ns),
            names: groups.clone().map(|group| run.flows[group].name.clone()).collect(),
            ends: both.map(|group| Outside { group, ..Outside::default() }).collect(),
            endpoint_of: groups.enumerate().map(|(i, group)| (group, i)).collect(),
            under_way: BTreeMap::new(),
            arrivals: VecDeque::new(),
            timers: BTreeSet::new(),
            sums: vec![Sum::default(); outside.len()],
            most: outside.iter().map(|(_, ends)| ends.most as usize).collect(),
        })
    }

    /// The endpoints, in the order of the description.
    pub fn endpoints(&self) -> &[String] {
        &self.names
    }
    /// The near and the far end of an endpoint. What the near end sends crosses the `path` of the flow, and its row in the
    /// results is about that; what the far end sends crosses the `reverse_path`.
    ///
    /// # Errors
    /// One sentence if there is no such endpoint.
    pub fn ends(&self, name: &str) -> Result<[EndId; 2], Error> {
        let known =
            || format!("there is no endpoint \"{name}\"; there are {}", self.names.join(", "));
        let i = self.names.iter().position(|n| n == name).ok_or_else(|| Error(known()))?;
        Ok([EndId(2 * i), EndId(2 * i + 1)])
    }
    /// The time since the start.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now.0)
    }
    /// When the run ends.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.end.0)
    }
    /// The most bytes that an end can send at once.
    pub fn most_bytes(&self, end: EndId) -> usize {
        self.most[end.0 / 2]
    }

    /// An end sends now.
    ///
    /// # Errors
    /// One sentence if the packet is longer than the flow's MTU allows, as a host with "don't fragment" says (EMSGSIZE).
    pub fn send(&mut self, end: EndId, packet: Packet) -> Result<(), Error> {
        let (bytes, most, name) =
            (packet.bytes.len(), self.most_bytes(end), &self.names[end.0 / 2]);
        if bytes > most {
            let text =
                format!("endpoint \"{name}\": {bytes} bytes are more than the {most} of its mtu");
            return Err(Error(text));
        }
        if packet.dscp.is_some_and(|dscp| dscp > 63) {
            return Err(Error(format!("endpoint \"{name}\": dscp has six bits: 0 to 63")));
        }
        let from = &mut self.ends[end.0];
        let seq = from.next;
        from.next = seq.wrapping_add(1);
        let side = if end.is_far() { End::Server } else { End::Client };
        let sent = Sent { seq, bytes: bytes as u32, ecn: packet.ecn, dscp: packet.dscp };
        self.simulation.send(from.group, side, self.now, sent);
        self.under_way.insert((end.0, seq), UnderWay { packet, count: 1 });
        self.sums[end.0 / 2].sent += 1;
        Ok(())
    }

    /// The packet that has arrived at an end longest ago.
    pub fn receive(&mut self, end: EndId) -> Option<Packet> {
        self.ends[end.0].inbox.pop_front()
    }

    /// Asks for an [`Event::Timer`] at this time, or now if that has passed. The same time and token twice are one timer.
    pub fn wake_at(&mut self, at: Duration, token: u64) {
        self.timers.insert((Time(nanoseconds(at)).max(self.now), token));
    }
    /// Forgets the timers of a token.
    pub fn cancel(&mut self, token: u64) {
        self.timers.retain(|(_, other)| *other != token);
    }

    /// The next arrival or timer of the run, at which time it is then; without one, the run is over.
    pub fn next_event(&mut self) -> Option<Event> {
        self.step(Duration::MAX)
    }

    /// The same before `until`; without one, it is `until`.
    pub fn step(&mut self, until: Duration) -> Option<Event> {
        // What happens at the end is part of the run.
        let until = Time(nanoseconds(until)).min(self.end + Span(1));
        loop {
            let arrival = self.arrivals.front().map_or(Time::NEVER, |(at, ..)| *at);
            let timer = self.timers.first().map_or(Time::NEVER, |(at, _)| *at);
            let next = arrival.min(timer);
            if next < self.reached && next < until {
                self.now = next;
                if timer < arrival {
                    return self.timers.pop_first().map(|(_, token)| Event::Timer(token));
                }
                let (_, end, packet) = self.arrivals.pop_front()?;
                self.ends[end.0].inbox.push_back(packet);
                return Some(Event::Arrival(end));
            }
            if self.reached >= until {
                self.now = self.now.max(until.min(self.end));
                return None;
            }
            // Nothing happens outside until there.
            self.now = self.now.max(self.reached.min(self.end));
            self.reached = self.simulation.run_ahead(self.now);
            self.collect();
        }
    }

    /// Takes what has left the network.
    fn collect(&mut self) {
        let fates = self.simulation.take_fates();
        for (pkt, copies) in fates.copied {
            if let Some((key, under_way)) = self.of(&pkt) {
                under_way.count += copies;
                self.sums[key.0 / 2].copied += u64::from(copies);
            }
        }
        for (pkt, _) in fates.lost {
            if let Some((key, _)) = self.of(&pkt) {
                self.sums[key.0 / 2].lost += 1;
                self.take(key);
            }
        }
        for pkt in self.simulation.take_outside() {
            let Some((key, _)) = self.of(&pkt) else { continue };
            self.sums[key.0 / 2].arrived += 1;
            let Some(sent) = self.take(key) else { continue };
            let came = Packet { ecn: pkt.ecn.get(), dscp: Some(pkt.dscp), ..sent };
            self.arrivals.push_back((pkt.enqueued_at, EndId(key.0).peer(), came));
        }
    }

    /// What is known of a packet of the network, if an endpoint sent it: the number of that end, and its own.
    fn of(&mut self, pkt: &Carried) -> Option<((usize, u32), &mut UnderWay)> {
        let endpoint = self.endpoint_of.get(&usize::from(pkt.group.number))?;
        let key = (2 * endpoint + usize::from(pkt.is_ack()), pkt.seq);
        Some((key, self.under_way.get_mut(&key)?))
    }

    /// One of the packets with these bytes is no longer under way.
    fn take(&mut self, key: (usize, u32)) -> Option<Packet> {
        let under_way = self.under_way.get_mut(&key)?;
        under_way.count -= 1;
        match under_way.count {
            0 => self.under_way.remove(&key).map(|last| last.packet),
            _ => Some(under_way.packet.clone()),
        }
    }

    /// The packets of an endpoint so far, as far as the network has got.
    pub fn sum(&self, end: EndId) -> Sum {
        let of_flow = |key: &(usize, u32)| key.0 / 2 == end.0 / 2;
        let left = self.under_way.iter().filter(|(key, _)| of_flow(key));
        let in_flight = left.map(|(_, one)| u64::from(one.count)).sum();
        Sum { in_flight, ..self.sums[end.0 / 2] }
    }

    /// Ends the run as far as the network has got, which is at most half a round trip later than now, and returns the
    /// same tables as a whole run. To measure all of it, let [`Lab::next_event`] come to its end.
    ///
    /// # Errors
    /// One sentence if the warm-up is not over.
    pub fn finish(self) -> Result<Results, Error> {
        self.require_results()?;
        Ok(self.simulation.finish())
    }

    /// Whether [`Lab::finish`] has something to return.
    ///
    /// # Errors
    /// One sentence if not.
    pub fn require_results(&self) -> Result<(), Error> {
        if !self.simulation.is_measuring() {
            let text = "the run has ended in its warm-up, so there is nothing to report; run longer, or shorten the warm-up";
            return Err(Error(text.to_owned()));
        }
        Ok(())
    }
}

/// Of a length of time, no more than a run can last.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
