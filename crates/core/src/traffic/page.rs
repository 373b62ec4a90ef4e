//! Page loads: a browser fetches the objects of a page in two waves, over one HTTP/2 connection per origin.
//!
//! The first origin gives the document; the style sheets, scripts and fonts in it are the first wave. When three
//! quarters of these are there, the browser knows of the second one: images and the rest. Sizes and numbers are a
//! median page of the HTTP Archive (October 2024, desktop: 2.6 MB in 71 requests). Pages open as a Poisson process,
//! whatever became of those before. What is drawn comes from streams of the source's own.

use std::collections::VecDeque;

use serde::Deserialize;

use super::connections::{self, Ends, Request, Source, patience};
use super::poisson::Poisson;
use super::tcp::Hosts;
use super::{Begins, Demand, Place, Traffic};
use crate::element::{ArrivalChain, ArrivalList, End, Flow, Outbox, PathState, catch_up};
use crate::error::ScenarioError;
use crate::math;
use crate::packet::{ACK_FRAME, Flags, Packet};
use crate::probe::{SenderState, Totals, Transfer, TransferKind};
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::transport::receiver::Receiver;
use crate::transport::sender::Sender;
use crate::transport::stream::Mark;

/// Servers that a page's objects are on.
const ORIGINS: u64 = 12;
/// The document, and the mean time that the server takes to make it.
const DOCUMENT: f64 = 18e3;
const THINK: Span = Span::from_millis(50);
/// Number and size of what the first wave has.
const FIRST_WAVE: [(u32, f64); 3] = [(8, 10e3), (24, 25e3), (4, 33e3)];
/// Number, mean size, and deviation of the logarithm of the size, of what the second one has.
const SECOND_WAVE: [(u32, f64, f64); 2] = [(18, 58e3, 1.3), (16, 47e3, 1.5)];
/// All of them together, about, for what a page may need of memory.
const PAGE: f64 = 2.6e6;
/// What of the first wave has to be there before the second one, a part in four.
const SEEN_QUARTERS: usize = 3;
/// Certificates, bytes.
const TLS: u64 = 4000;
/// A server sends objects in turn, so much of each, and keeps no more than twice this ready.
const PIECE: u64 = 16_384;
/// Payload of a request.
const REQUEST: u32 = 200;

/// Users who open pages.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spec {
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "super::tcp::Keys"))]
    hosts: Hosts,
    /// Mean time between pages.
    interval_ns: u64,
    /// Factor of all sizes.
    scale: f64,
}

impl Traffic for Spec {
    fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |what: &str| Err(ScenarioError(what.to_owned()));
        if self.interval_ns == 0 {
            return wrong("pages come one after the other: interval must be above 0");
        }
        if !(0.001..=1000.0).contains(&self.scale) {
            return wrong("scale must be between 0.001 and 1000");
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
        Demand {
            begins: Begins::alike(self.interval_ns, PAGE * self.scale, 85e3),
            ..self.hosts.demand(None)
        }
    }
    fn build(&self, place: &Place) -> Box<dyn Flow> {
        let stream =
            |what: &str| Rng::stream(place.seed, &format!("{what} {}", place.name), place.index);
        let opened = Poisson::new(Span(self.interval_ns), stream("pages"), place.start, place.stop);
        Box::new(Pages {
            hosts: self.hosts.clone(),
            scale: self.scale,
            source: Source::new(place),
            path: PathState::default(),
            opened,
            rng: stream("page sizes"),
            pages: Vec::new(),
            connections: Vec::new(),
            busy: Vec::new(),
            done: Vec::new(),
        })
    }
}

/// All that users of this place do.
struct Pages {
    hosts: Hosts,
    scale: f64,
    source: Source,
    path: PathState,
    opened: Poisson,
    rng: Rng,
    pages: Vec<Page>,
    connections: Vec<Connection>,
    /// Connections with a timer or with something to do.
    busy: Vec<u32>,
    done: Vec<Transfer>,
}

struct Page {
    opened: Time,
    objects: Vec<Object>,
    /// The connection to each origin.
    origins: [Option<u32>; ORIGINS as usize],
    /// Objects of the first wave that are there, and of all waves that are not.
    seen: usize,
    missing: usize,
    has_second: bool,
    /// When the first wave was there.
    first_done: Option<Time>,
}

#[derive(Copy, Clone)]
struct Object {
    bytes: u64,
    origin: usize,
    wave: u8,
    /// How long the server takes to make it.
    think: Span,
}

/// A connection to an origin. Each side reads of the other's only what has reached it in a packet.
struct Connection {
    page: u32,
    server: Sender,
    client: Receiver,
    /// Server: whether it has sent its certificates, objects that it is making, with the time when they are there, and
    /// those that it is sending, with what is left.
    has_tls: bool,
    making: VecDeque<(Time, usize)>,
    sending: VecDeque<(usize, u64)>,
    /// Objects whose last piece is in the stream and not with the client, in that order.
    done: VecDeque<usize>,
    /// Pieces in the stream, in order: whose they are, and whether it is its last. And where they end.
    pieces: VecDeque<(Piece, Option<u32>)>,
    /// How many of these have an end.
    cut: usize,
    /// Client: objects to ask for once TLS is there, and requests under way.
    is_ready: bool,
    wanted: Vec<usize>,
    asked: Vec<Asked>,
}

#[derive(Copy, Clone)]
enum Piece {
    Tls,
    Part,
    Last,
}

struct Asked {
    object: usize,
    request: Request,
}

impl Pages {
    fn connection(&self, flow: u32) -> Option<usize> {
        let number = self.source.connection(flow) as usize;
        (number < self.connections.len()).then_some(number)
    }

    /// A user opens a page, whose objects are drawn.
    fn open(&mut self, now: Time, out: &mut Outbox) {
        self.opened.advance(now);
        let (scale, rng) = (self.scale, &mut self.rng);
        let think = rng.exponential(THINK);
        let bytes = |size: f64| ((size * scale).round() as u64).max(1);
        let mut objects = vec![Object { bytes: bytes(DOCUMENT), origin: 0, wave: 0, think }];
        let mut add = |rng: &mut Rng, wave: u8, size: f64| {
            // Half of all are on the first origin.
            let other = 1 + rng.below(ORIGINS - 1) as usize;
            let origin = if rng.below(2) == 0 { 0 } else { other };
            objects.push(Object { bytes: bytes(size), origin, wave, think: Span::ZERO });
        };
        for (n, size) in FIRST_WAVE {
            (0..n).for_each(|_| add(rng, 1, size));
        }
        for (n, mean, sigma) in SECOND_WAVE {
            for _ in 0..n {
                let exponent = sigma * rng.normal() - sigma * sigma / 2.0;
                add(rng, 2, mean * math::exp(exponent));
            }
        }
        let missing = objects.len();
        self.pages.push(Page {
            opened: now,
            objects,
            origins: [None; ORIGINS as usize],
            seen: 0,
            missing,
            has_second: false,
            first_done: None,
        });
        self.want(now, self.pages.len() - 1, 0, out);
    }

    /// The browser knows of the objects of a wave.
    fn want(&mut self, now: Time, page: usize, wave: u8, out: &mut Outbox) {
        for object in 0..self.pages[page].objects.len() {
            let Object { origin, wave: its, .. } = self.pages[page].objects[object];
            if its != wave {
                continue;
            }
            let known = self.pages[page].origins[origin];
            let connection = known.unwrap_or_else(|| self.connect(now, page, out));
            self.pages[page].origins[origin] = Some(connection);
            let c = &mut self.connections[connection as usize];
            if c.is_ready {
                self.ask(now, connection as usize, object, out);
            } else {
                c.wanted.push(object);
            }
        }
    }

    fn connect(&mut self, now: Time, page: usize, out: &mut Outbox) -> u32 {
        let connection = self.connections.len() as u32;
        let place = self.source.place(connection, now, Time::NEVER);
        let (mut server, mut client) = self.hosts.connect(&place, place.number, None, true);
        server.listen(now);
        out.set_clock(now);
        client.connect(now, out);
        self.connections.push(Connection {
            page: page as u32,
            server,
            client,
            has_tls: false,
            making: VecDeque::new(),
            sending: VecDeque::new(),
            done: VecDeque::new(),
            pieces: VecDeque::new(),
            cut: 0,
            is_ready: false,
            wanted: Vec::new(),
            asked: Vec::new(),
        });
        self.busy.push(connection);
        connection
    }

    /// The browser asks for an object.
    fn ask(&mut self, now: Time, connection: usize, object: usize, out: &mut Outbox) {
        // A connection that was quiet has a timer again.
        self.wake(connection);
        let c = &mut self.connections[connection];
        c.asked.push(Asked { object, request: Request::sent(now, patience(c.client.rtt())) });
        out.set_clock(now);
        let request = c.request(object, self.source.dscp);
        out.push(request);
    }

    /// Requests whose acknowledgement has not come are sent again.
    fn repeat(&mut self, now: Time, connection: usize, out: &mut Outbox) {
        let (forward, dscp) = (self.path.forward, self.source.dscp);
        let c = &mut self.connections[connection];
        let patience = patience(c.client.rtt());
        for at in 0..c.asked.len() {
            if c.asked[at].request.repeat(now, forward, patience) {
                out.set_clock(now);
                out.push(c.request(c.asked[at].object, dscp));
            }
        }
    }

    /// The client's timers up to `until`.
    fn catch_up_client(&mut self, connection: usize, until: Time, out: &mut Outbox) -> Time {
        loop {
            let c = &mut self.connections[connection];
            let again = c.again();
            let next = catch_up(&mut c.client, until.min(again), out);
            if again >= until {
                return next.min(again);
            }
            self.repeat(again, connection, out);
        }
    }

    fn on_data(&mut self, now: Time, connection: usize, pkt: &Packet, out: &mut Outbox) {
        self.catch_up_client(connection, now, out);
        let c = &mut self.connections[connection];
        out.set_clock(now);
        End::on_packet(&mut c.client, now, pkt, out);
        let next = c.client.next();
        let page = c.page as usize;
        let is_here = |end: Option<u32>| end.is_some_and(|end| end < next);
        while let Some(&(piece, end)) = self.connections[connection].pieces.front()
            && is_here(end)
        {
            let c = &mut self.connections[connection];
            c.pieces.pop_front();
            c.cut -= 1;
            match piece {
                Piece::Part => {}
                Piece::Last => {
                    let object = c.done.pop_front().expect("in the order of its last pieces");
                    self.on_object(now, page, object, out);
                }
                Piece::Tls => {
                    c.is_ready = true;
                    for object in std::mem::take(&mut c.wanted) {
                        self.ask(now, connection, object, out);
                    }
                }
            }
        }
    }

    fn on_object(&mut self, now: Time, number: usize, object: usize, out: &mut Outbox) {
        let page = &mut self.pages[number];
        let wave = page.objects[object].wave;
        page.missing -= 1;
        let first: usize = FIRST_WAVE.iter().map(|(n, _)| *n as usize).sum();
        page.seen += usize::from(wave == 1);
        if page.seen == first && wave == 1 {
            page.first_done = Some(now);
        }
        if wave == 0 {
            self.want(now, number, 1, out);
        } else if 4 * page.seen >= SEEN_QUARTERS * first && !page.has_second {
            page.has_second = true;
            self.want(now, number, 2, out);
        }
        let page = &self.pages[number];
        if page.missing == 0 {
            self.done.push(Transfer {
                group: self.source.group.number,
                kind: TransferKind::Page,
                start: page.opened,
                bytes: Some(page.objects.iter().map(|o| o.bytes).sum()),
                completion: now.since(page.opened),
                response: page.first_done.map(|at| at.since(page.opened)),
                idle: None,
                ideal: None,
                retransmits: None,
            });
        }
    }

    /// The server's timers up to `until`.
    fn catch_up_server(&mut self, connection: usize, until: Time, out: &mut Outbox) -> Time {
        loop {
            let c = &mut self.connections[connection];
            let made = c.making.front().map_or(Time::NEVER, |(at, _)| *at);
            // An ACK or a timer lets the sender go on: it writes what follows.
            let next = c.server.deadline().min(made);
            if next >= until {
                return next;
            }
            out.set_clock(next);
            if made <= next {
                let (_, object) = c.making.pop_front().expect("just seen");
                let bytes = self.pages[c.page as usize].objects[object].bytes;
                c.sending.push_back((object, bytes));
            } else {
                c.server.on_timer(next, out);
            }
            c.write(next, out);
        }
    }

    fn on_request(&mut self, now: Time, connection: usize, object: usize) {
        let c = &mut self.connections[connection];
        let Some(asked) = c.asked.iter_mut().find(|a| a.object == object) else { return };
        if asked.request.known.is_some() {
            return;
        }
        asked.request.known = Some(now);
        let ready = now + self.pages[c.page as usize].objects[object].think;
        let at = c.making.partition_point(|(at, _)| *at <= ready);
        c.making.insert(at, (ready, object));
    }

    fn wake(&mut self, connection: usize) {
        if !self.busy.contains(&(connection as u32)) {
            self.busy.push(connection as u32);
        }
    }
}

impl Connection {
    fn ends(&self) -> Ends<'_> {
        (&self.server, &self.client)
    }

    fn request(&self, object: usize, dscp: u8) -> Packet {
        let flags = Flags::ACK.with(Flags::MESSAGE);
        let (flow, group) = (self.server.flow(), self.server.group());
        let mut p =
            Packet::new(flow, group, flags, ACK_FRAME + REQUEST, self.client.request_field());
        (p.payload, p.seq, p.dscp) = (REQUEST as u16, object as u32, dscp);
        p
    }

    /// When a request is due to be repeated.
    fn again(&self) -> Time {
        self.asked.iter().map(|a| a.request.again).min().unwrap_or(Time::NEVER)
    }

    fn is_quiet(&self) -> bool {
        let timers = self.server.deadline().min(self.client.deadline()).min(self.again());
        timers == Time::NEVER && self.making.is_empty()
    }

    /// The server writes what the client has asked for, object after object a piece, as the sender takes it.
    fn write(&mut self, now: Time, out: &mut Outbox) {
        if self.server.was_asked() && !self.has_tls {
            self.has_tls = true;
            self.put(now, Piece::Tls, TLS, out);
        }
        while self.server.unsent() < PIECE
            && let Some((object, left)) = self.sending.pop_front()
        {
            let bytes = left.min(PIECE);
            if bytes == left {
                self.done.push_back(object);
                self.put(now, Piece::Last, bytes, out);
            } else {
                self.sending.push_back((object, left - bytes));
                self.put(now, Piece::Part, bytes, out);
            }
        }
        self.see_marks();
    }

    fn put(&mut self, now: Time, piece: Piece, bytes: u64, out: &mut Outbox) {
        self.pieces.push_back((piece, None));
        self.server.write(now, bytes, out);
        self.see_marks();
    }

    fn see_marks(&mut self) {
        while let Some(mark) = self.server.take_mark() {
            if let Mark::Last(seq) = mark {
                self.pieces[self.cut].1 = Some(seq);
                self.cut += 1;
            }
        }
    }
}

impl Flow for Pages {
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time {
        while let Some(pkt) = arrivals.next(until, out) {
            let now = pkt.enqueued_at;
            let Some(connection) = self.connection(pkt.flow) else {
                out.sacks.take(pkt.sack());
                continue;
            };
            self.wake(connection);
            self.catch_up_server(connection, now, out);
            if pkt.flags.has(Flags::MESSAGE) {
                self.on_request(now, connection, pkt.seq as usize);
                continue;
            }
            let c = &mut self.connections[connection];
            out.set_clock(now);
            End::on_packet(&mut c.server, now, pkt, out);
            c.write(now, out);
        }
        let mut next = Time::NEVER;
        for at in 0..self.busy.len() {
            next = next.min(self.catch_up_server(self.busy[at] as usize, until, out));
        }
        next
    }

    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time {
        let before = out.packets.len();
        while let Some(pkt) = arrivals.next(until, out) {
            let now = pkt.enqueued_at;
            while self.opened.next() < now {
                self.open(self.opened.next(), out);
            }
            if let Some(connection) = self.connection(pkt.flow) {
                self.wake(connection);
                self.on_data(now, connection, pkt, out);
            }
        }
        while self.opened.next() < until {
            self.open(self.opened.next(), out);
        }
        let mut next = self.opened.next();
        for at in 0..self.busy.len() {
            next = next.min(self.catch_up_client(self.busy[at] as usize, until, out));
        }
        // What has no timer is quiet until a packet comes.
        let connections = &self.connections;
        self.busy.retain(|c| !connections[*c as usize].is_quiet());
        connections::sort(out, before);
        next
    }

    fn starts(&self) -> (Time, Time) {
        (Time::NEVER, self.opened.next())
    }
    fn set_path(&mut self, path: &PathState) {
        self.path = *path;
    }
    fn stop(&mut self, _now: Time) {
        self.opened.stop();
    }
    fn totals(&self) -> Totals {
        connections::totals(Totals::default(), self.connections.iter().map(Connection::ends))
    }
    fn senders(&self, each: &mut dyn FnMut(SenderState)) {
        connections::show(self.busy.iter().map(|c| &self.connections[*c as usize].server), each);
    }
    fn ecn_mode(&self) -> Option<&'static str> {
        connections::mode(None, self.connections.iter().map(Connection::ends))
    }
    fn take_transfers(&mut self, into: &mut Vec<Transfer>) {
        into.append(&mut self.done);
    }
    fn unfinished(&self, since: Time) -> u64 {
        self.pages.iter().filter(|p| p.opened >= since && p.missing > 0).count() as u64
    }
}
