//! Web load: clients that ask a server for something, each over a TCP connection of its own.
//!
//! Open loop: requests come as a Poisson process, whatever became of those before. What a server sends
//! has a bounded Pareto size, and then it closes. When requests come and how much they get is drawn from
//! streams of the source's own: in all runs of one seed it is the same, whatever the queue.

use serde::Deserialize;

use super::connections::{self, Ends, Source};
use super::poisson::Poisson;
use super::tcp::{self, Hosts};
use super::{Begins, Demand, Place, Traffic};
use crate::element::{ArrivalChain, ArrivalList, End, Flow, Outbox, PathState, catch_up};
use crate::error::ScenarioError;
use crate::math;
use crate::packet::Packet;
use crate::probe::{SenderState, Totals, Transfer};
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::transport::receiver::Receiver;
use crate::transport::sender::Sender;

/// The sizes of web objects in the DualQ evaluations ("Dual Queue Coupled AQM", section V).
pub const ALPHA: f64 = 0.9;
pub const SMALLEST: u64 = 1_000;
pub const LARGEST: u64 = 1_000_000;

/// The Pareto distribution between two bounds.
#[derive(Copy, Clone, Debug)]
pub struct BoundedPareto {
    pub alpha: f64,
    pub smallest: u64,
    pub largest: u64,
}

impl BoundedPareto {
    /// About: from a hundred quantiles, because the closed form has no value where alpha is 1.
    pub fn mean(&self) -> f64 {
        (0..100).map(|n| self.quantile((f64::from(n) + 0.5) / 100.0) as f64).sum::<f64>() / 100.0
    }
    /// The value below which the part `u` of all values is.
    pub fn quantile(&self, u: f64) -> u64 {
        let (low, high) = (self.smallest as f64, self.largest as f64);
        let tail = 1.0 - math::pow(low / high, self.alpha);
        let x = low * math::pow(1.0 - u * tail, -1.0 / self.alpha);
        (x.round() as u64).clamp(self.smallest, self.largest)
    }
}

/// A client that asks for something again and again.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spec {
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "super::tcp::Keys"))]
    hosts: Hosts,
    /// Mean time between requests.
    interval_ns: u64,
    #[serde(default = "default_alpha")]
    size_alpha: f64,
    #[serde(default = "default_smallest")]
    size_min_bytes: u64,
    #[serde(default = "default_largest")]
    size_max_bytes: u64,
}

fn default_alpha() -> f64 {
    ALPHA
}
fn default_smallest() -> u64 {
    SMALLEST
}
fn default_largest() -> u64 {
    LARGEST
}

impl Spec {
    fn sizes(&self) -> BoundedPareto {
        BoundedPareto {
            alpha: self.size_alpha,
            smallest: self.size_min_bytes,
            largest: self.size_max_bytes,
        }
    }
}

impl Traffic for Spec {
    fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |what: &str| Err(ScenarioError(what.to_owned()));
        if self.interval_ns == 0 {
            return wrong("requests come one after the other: interval must be above 0");
        }
        if self.size_min_bytes == 0 || self.size_max_bytes < self.size_min_bytes {
            return wrong("the smallest size must be above 0 and not above the largest");
        }
        if !(self.size_alpha > 0.0 && self.size_alpha.is_finite()) {
            return wrong("alpha must be above 0");
        }
        Ok(())
    }
    fn sender_name(&self) -> &str {
        self.hosts.cc()
    }
    fn is_spread(&self) -> bool {
        true
    }
    fn demand(&self) -> Demand {
        let payload = self.sizes().mean();
        let begins =
            Begins { interval_ns: self.interval_ns, payload, finished: 800.0, open: 5000.0 };
        Demand { begins: Some(begins), ..self.hosts.demand(None) }
    }
    fn build(&self, place: &Place) -> Box<dyn Flow> {
        let stream =
            |what: &str| Rng::stream(place.seed, &format!("{what} {}", place.name), place.index);
        let requests = stream("web requests");
        Box::new(Web {
            hosts: self.hosts.clone(),
            source: Source::new(place),
            path: PathState::default(),
            requests: Poisson::new(Span(self.interval_ns), requests, place.start, place.stop),
            sizes: self.sizes(),
            rng: stream("web sizes"),
            places: Vec::new(),
            connections: Vec::new(),
            free: Vec::new(),
            closed: Totals::default(),
            closed_mode: None,
            transfers: Vec::new(),
        })
    }
}

/// A source of requests, with the connections that are open.
///
/// Each connection has a flow number of its own, so that a late packet finds nobody; its ends are in a
/// place that serves one connection after the other.
struct Web {
    hosts: Hosts,
    source: Source,
    path: PathState,
    requests: Poisson,
    sizes: BoundedPareto,
    rng: Rng,
    /// Of each connection so far its place, or [`NOWHERE`].
    places: Vec<u32>,
    connections: Vec<Connection>,
    free: Vec<u32>,
    /// Of connections that are over.
    closed: Totals,
    closed_mode: Option<&'static str>,
    transfers: Vec<Transfer>,
}

const NOWHERE: u32 = u32::MAX;

struct Connection {
    server: Sender,
    client: Receiver,
    /// When the client hears of its end: its forward delay after the server has closed it.
    closes: Time,
    is_open: bool,
    /// Its transfer was handed over.
    is_told: bool,
}

impl Connection {
    fn ends(&self) -> Ends<'_> {
        (&self.server, &self.client)
    }
}

impl Web {
    /// The place of a packet's connection.
    fn place(&self, pkt: &Packet) -> Option<usize> {
        let place = *self.places.get(self.source.connection(pkt.flow) as usize)?;
        (place != NOWHERE).then_some(place as usize)
    }

    /// A client opens a connection to ask for what is drawn next.
    fn open(&mut self, now: Time, out: &mut Outbox) {
        self.requests.advance(now);
        let bytes = self.sizes.quantile(self.rng.unit());
        let place = self.source.place(self.places.len() as u32, now, Time::NEVER);
        let (mut server, mut client) = self.hosts.connect(&place, place.number, Some(bytes), false);
        server.listen(now);
        out.set_clock(now);
        client.connect(now, out);
        let connection =
            Connection { server, client, closes: Time::NEVER, is_open: true, is_told: false };
        match self.free.pop() {
            Some(free) => {
                self.connections[free as usize] = connection;
                self.places.push(free);
            }
            None => {
                self.places.push(self.connections.len() as u32);
                self.connections.push(connection);
            }
        }
    }

    fn open_connections(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().filter(|c| c.is_open && c.closes == Time::NEVER)
    }

    /// The server has sent everything, and has been told that it arrived.
    fn close(&mut self, place: usize, now: Time) {
        let c = &mut self.connections[place];
        c.closes = now + self.path.forward;
        if !c.is_told {
            self.transfers.extend(tcp::transfer(&c.server, &c.client, &self.path));
            c.is_told = true;
        }
        self.closed = connections::totals(self.closed, [c.ends()].into_iter());
        self.closed_mode = connections::mode(self.closed_mode, [c.ends()].into_iter());
    }

    /// The client's timers up to `until`, or its end.
    fn catch_up_client(&mut self, place: usize, until: Time, out: &mut Outbox) -> Time {
        let c = &mut self.connections[place];
        let next = catch_up(&mut c.client, until.min(c.closes), out);
        if c.closes < until {
            c.is_open = false;
            self.places[self.source.connection(c.server.flow()) as usize] = NOWHERE;
            self.free.push(place as u32);
            return Time::NEVER;
        }
        next.min(c.closes)
    }
}

impl Flow for Web {
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time {
        while let Some(pkt) = arrivals.next(until, out) {
            let now = pkt.enqueued_at;
            let place = self.place(pkt).filter(|p| self.connections[*p].closes == Time::NEVER);
            let Some(place) = place else {
                out.sacks.take(pkt.sack());
                continue;
            };
            let server = &mut self.connections[place].server;
            catch_up(server, now, out);
            out.set_clock(now);
            End::on_packet(server, now, pkt, out);
            if server.is_done() {
                self.close(place, now);
            }
        }
        let mut next = Time::NEVER;
        for c in self.connections.iter_mut().filter(|c| c.closes == Time::NEVER) {
            next = next.min(catch_up(&mut c.server, until, out));
        }
        next
    }

    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time {
        let before = out.packets.len();
        while let Some(pkt) = arrivals.next(until, out) {
            let now = pkt.enqueued_at;
            let Some(place) = self.place(pkt) else { continue };
            self.catch_up_client(place, now, out);
            let c = &mut self.connections[place];
            if c.is_open && now < c.closes {
                out.set_clock(now);
                End::on_packet(&mut c.client, now, pkt, out);
            }
        }
        while self.requests.next() < until {
            self.open(self.requests.next(), out);
        }
        let mut next = self.requests.next();
        for place in 0..self.connections.len() {
            if self.connections[place].is_open {
                next = next.min(self.catch_up_client(place, until, out));
            }
        }
        connections::sort(out, before);
        next
    }

    fn starts(&self) -> (Time, Time) {
        (Time::NEVER, self.requests.next())
    }
    fn set_path(&mut self, path: &PathState) {
        self.path = *path;
    }
    fn stop(&mut self, _now: Time) {
        self.requests.stop();
    }
    fn totals(&self) -> Totals {
        connections::totals(self.closed, self.open_connections().map(Connection::ends))
    }
    fn senders(&self, each: &mut dyn FnMut(SenderState)) {
        connections::show(self.open_connections().map(|c| &c.server), each);
    }
    fn ecn_mode(&self) -> Option<&'static str> {
        connections::mode(self.closed_mode, self.open_connections().map(Connection::ends))
    }
    fn take_transfers(&mut self, into: &mut Vec<Transfer>) {
        into.append(&mut self.transfers);
        for c in self.connections.iter_mut().filter(|c| c.is_open && !c.is_told) {
            let done = tcp::transfer(&c.server, &c.client, &self.path);
            c.is_told = done.is_some();
            into.extend(done);
        }
    }
    fn unfinished(&self, since: Time) -> u64 {
        let open = self.open_connections().filter(|c| c.server.started_at >= since);
        open.filter(|c| c.client.completed_at.is_none()).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: BoundedPareto =
        BoundedPareto { alpha: ALPHA, smallest: SMALLEST, largest: LARGEST };

    /// The distribution function of the bounded Pareto distribution, written down apart.
    fn below(x: f64) -> f64 {
        (1.0 - math::pow(1e3 / x, 0.9)) / (1.0 - math::pow(1e-3, 0.9))
    }

    #[test]
    fn quantiles_invert_the_distribution() {
        assert_eq!((SIZES.quantile(0.0), SIZES.quantile(1.0)), (1_000, 1_000_000));
        for u in [0.01, 0.25, 0.5, 0.9, 0.99, 0.999] {
            let x = SIZES.quantile(u);
            assert!((below(x as f64) - u).abs() < 1e-3, "{u}: {x}");
        }
        assert_eq!(SIZES.quantile(0.5), 2155);
    }

    /// Mean 8975 B, 90 % below 12.7 kB, 99 % below 136.5 kB (the published files of samples have 141 kB),
    /// 99.9 % below 637 kB; and the mean by its integral, alpha L^alpha (H^(1-alpha) - L^(1-alpha)) /
    /// ((1-alpha)(1 - (L/H)^alpha)).
    #[test]
    fn sizes_have_the_moments_of_the_published_load() {
        let mut rng = Rng::stream(7, "sizes", 0);
        let n = 4_000_000;
        let mut sizes: Vec<u64> = (0..n).map(|_| SIZES.quantile(rng.unit())).collect();
        sizes.sort_unstable();
        let mean = sizes.iter().sum::<u64>() as f64 / f64::from(n);
        let pow = math::pow;
        let integral =
            0.9 * pow(1e3, 0.9) * (pow(1e6, 0.1) - pow(1e3, 0.1)) / (0.1 * (1.0 - pow(1e-3, 0.9)));
        assert!((integral - 8975.0).abs() < 1.0, "{integral}");
        assert!((mean / integral - 1.0).abs() < 0.01, "{mean}");
        let at = |q: f64| sizes[(q * f64::from(n)) as usize] as f64;
        for (q, size) in [(0.5, 2155.0), (0.9, 12_700.0), (0.99, 136_500.0), (0.999, 637_000.0)] {
            assert!((at(q) / size - 1.0).abs() < 0.02, "{q}: {}", at(q));
        }
    }
}
