//! Responsiveness under working conditions (draft-ietf-ippm-responsiveness): TCP connections load the path, and small
//! probes measure round trips per minute.
//!
//! The client opens one more load connection per interval until goodput no longer rises: after handshake and TLS it
//! asks there for an object without end. It probes all the while. A foreign probe makes three round trips on a new
//! connection: handshake, TLS, request. A self probe is a request on a load connection: its answer goes behind what the
//! server has committed to that connection. The test ends when goodput and then responsiveness are stable.

mod client;
mod exchange;
mod score;

use std::collections::VecDeque;

use client::{Client, LOADS, Wish};
use exchange::Sends;
use serde::Deserialize;

use super::connections::{self, Ends, Request, Source};
use super::tcp::Hosts;
use super::{Begins, Demand, Place, Traffic};
use crate::ecn::Ecn;
use crate::element::{ArrivalChain, ArrivalList, End, Flow, Outbox, PathState, catch_up};
use crate::error::ScenarioError;
use crate::packet::{ACK_FRAME, Flags, Packet, SYN_FRAME, TCP_IP_HEADERS};
use crate::probe::{Responsiveness, SenderState, Totals};
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::transport::receiver::Receiver;
use crate::transport::sender::Sender;

/// Payloads of a self probe and its answer.
const SELF_REQUEST: u32 = 37;
const SELF_ANSWER: u64 = 70;
/// The number of the request for the object without end, which no self probe has.
const OBJECT: u32 = u32::MAX;
/// What a server with a small certificate sends for TLS.
const TLS: u64 = 1852;
/// What it writes for the object: its settings, the answer to those of the client, a header with the first piece, and the
/// rest (captures of Go's HTTP/2). So less than an initial window of full segments leaves at once.
const OPENING: [u64; 4] = [61, 44, 1483, u64::MAX / 2];

/// A test of responsiveness towards the receiver of the path.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spec {
    /// Of load and probes.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "super::tcp::Keys"))]
    hosts: Hosts,
    /// Between two looks at goodput and responsiveness (the draft's ID).
    interval_ns: u64,
    /// Between two probes at the least: foreign and self ones take turns.
    probe_interval_ns: u64,
    /// Most load connections (MNP).
    connections: u32,
    /// What the server has committed to a connection beyond what TCP has sent.
    notsent_bytes: u64,
    /// How long foreign probes measure the idle path before the load.
    idle_ns: u64,
}

impl Traffic for Spec {
    fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |what: &str| Err(ScenarioError(what.to_owned()));
        if self.interval_ns == 0 || self.probe_interval_ns == 0 {
            return wrong("interval and probes of responsiveness must be above 0");
        }
        if !(1..=LOADS).contains(&self.connections) {
            return Err(ScenarioError(format!("connections must be from 1 to {LOADS}")));
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
        let begins = Begins::alike(self.probe_interval_ns, f64::INFINITY, 300.0);
        let state = f64::from(self.connections) * 16e3;
        Demand { begins, state, ..self.hosts.demand(None) }
    }
    fn build(&self, place: &Place) -> Box<dyn Flow> {
        let rng = |what: &str| {
            Rng::stream(place.seed, &format!("responsiveness {what} {}", place.name), place.index)
        };
        let (handshake, data) = self.hosts.codepoints(rng("codepoints"));
        Box::new(Test {
            source: Source::new(place),
            notsent: self.notsent_bytes,
            segment: self.hosts.mtu() - TCP_IP_HEADERS,
            fields: [handshake, data],
            hosts: self.hosts.clone(),
            path: PathState::default(),
            loads: Vec::new(),
            client: Client::new(
                client::Rules {
                    interval: Span(self.interval_ns),
                    gap: Span(self.probe_interval_ns),
                    connections: self.connections,
                    idle: Span(self.idle_ns),
                },
                place.start,
                place.stop,
                rng("self probes"),
            ),
            next_repeat: Time::NEVER,
        })
    }
}

struct Test {
    hosts: Hosts,
    source: Source,
    notsent: u64,
    /// Payload of a full segment.
    segment: u32,
    /// Codepoints of a handshake, and of what follows.
    fields: [Ecn; 2],
    path: PathState,
    loads: Vec<Load>,
    client: Client,
    /// When the next request of a self probe is repeated.
    next_repeat: Time,
}

/// A load connection.
struct Load {
    server: Sender,
    client: Receiver,
    /// The server has answered TLS.
    has_tls: bool,
    /// The object has begun to come.
    is_ready: bool,
    /// Requests without an answer, in the order of asking. The first one of all is that for the object.
    asked: VecDeque<Asked>,
}

impl Load {
    fn ends(&self) -> Ends<'_> {
        (&self.server, &self.client)
    }
    /// The first message of TLS has come: it is answered.
    fn answer_tls(&mut self, now: Time, out: &mut Outbox) {
        if self.server.was_asked() && !self.has_tls {
            self.has_tls = true;
            self.server.write(now, TLS, out);
        }
    }
}

/// A self probe, or the request for the object.
struct Asked {
    number: u32,
    at: Time,
    request: Request,
    /// The segment that a probe's answer ends in, or the first one of the object, once the server knows of it.
    end: Option<u32>,
}

impl Test {
    fn packet(&self, connection: u32, flags: Flags, len: u32, ecn: Ecn) -> Packet {
        let mut p = Packet::new(self.source.flow(connection), self.source.group, flags, len, ecn);
        p.dscp = self.source.dscp;
        p
    }

    /// What one end sends for a stage of a foreign probe.
    fn send_stage(&self, sends: Sends, connection: u32, stage: u32, out: &mut Outbox) {
        for (index, payload) in exchange::payloads(sends, stage).iter().enumerate() {
            let payload = (*payload).min(self.segment);
            let way = match sends {
                Sends::Client => Flags::ACK,
                Sends::Server if payload > 0 => Flags::DATA,
                Sends::Server => Flags::default(),
            };
            let (flags, len, field) = match stage {
                exchange::HANDSHAKE => (Flags::SYN.with(way), SYN_FRAME, self.fields[0]),
                _ => (way.with(Flags::MESSAGE), ACK_FRAME + payload, self.fields[1]),
            };
            let mut p = self.packet(connection, flags, len, field);
            (p.payload, p.seq) = (payload as u16, exchange::number(stage, index));
            out.push(p);
        }
    }

    /// The server knows of a request on a load connection. The object begins at once, and the answer to a self probe
    /// ends behind what was committed before it.
    fn on_request(&mut self, now: Time, load: usize, number: u32, out: &mut Outbox) {
        let Load { server, asked, .. } = &mut self.loads[load];
        // What the server sends by its timers before comes before the answer.
        catch_up(server, now, out);
        let Some(question) = asked.iter_mut().find(|p| p.number == number) else { return };
        if question.end.is_some() {
            return;
        }
        let mut end = server.next();
        if number == OBJECT {
            out.set_clock(now);
            OPENING.iter().for_each(|bytes| server.write(now, *bytes, out));
        } else {
            let before = self.notsent + SELF_ANSWER - 1;
            end = end.wrapping_add((before / u64::from(self.segment)) as u32);
        }
        question.request.known = Some(now);
        question.end = Some(end);
    }

    /// The client does what is due up to `until`, exclusively.
    fn run_client(&mut self, until: Time, out: &mut Outbox) -> Time {
        loop {
            let now = self.client.deadline().min(self.next_repeat);
            if now >= until {
                return now;
            }
            if self.next_repeat <= now {
                self.repeat(now, out);
                continue;
            }
            let received = self.loads.iter().map(|l| l.client.received_bytes).sum();
            out.set_clock(now);
            match self.client.act(now, received, self.loads.len() as u32) {
                Some(Wish::Open) => self.open(now, out),
                Some(Wish::Foreign { connection, stage }) => {
                    self.send_stage(Sends::Client, connection, stage, out);
                }
                Some(Wish::Own { number, load }) => self.ask(now, number, load, out),
                Some(Wish::Stop) => {
                    // The server hears of it a way later.
                    let heard = now + self.path.back;
                    self.loads.iter_mut().for_each(|l| l.server.stop_at(heard));
                }
                None => {}
            }
        }
    }

    fn open(&mut self, now: Time, out: &mut Outbox) {
        let connection = self.loads.len() as u32;
        let place = self.source.place(connection, now, self.client.stop());
        let (mut server, mut client) = self.hosts.connect(&place, place.number, None, true);
        server.listen(now);
        client.connect(now, out);
        let asked = VecDeque::new();
        self.loads.push(Load { server, client, has_tls: false, is_ready: false, asked });
    }

    /// Asks for the object; or for a self probe's answer, if the object has begun to come.
    fn ask(&mut self, now: Time, number: u32, load: u32, out: &mut Outbox) {
        let request = Request::sent(now, self.client.patience());
        let Load { asked, is_ready, .. } = &mut self.loads[load as usize];
        if *is_ready || number == OBJECT {
            self.next_repeat = self.next_repeat.min(request.again);
            asked.push_back(Asked { number, at: now, request, end: None });
            self.send_request(load, number, out);
        }
    }

    fn send_request(&self, load: u32, number: u32, out: &mut Outbox) {
        let flags = Flags::ACK.with(Flags::MESSAGE);
        let mut p = self.packet(load, flags, ACK_FRAME + SELF_REQUEST, self.fields[1]);
        (p.payload, p.seq) = (SELF_REQUEST as u16, number);
        out.push(p);
    }

    /// Requests are repeated that nobody has acknowledged.
    fn repeat(&mut self, now: Time, out: &mut Outbox) {
        self.next_repeat = Time::NEVER;
        if self.client.is_over() {
            return;
        }
        let patience = self.client.patience();
        for load in 0..self.loads.len() {
            for at in 0..self.loads[load].asked.len() {
                let probe = &mut self.loads[load].asked[at];
                let is_sent = probe.request.repeat(now, self.path.forward, patience);
                self.next_repeat = self.next_repeat.min(probe.request.again);
                if is_sent {
                    let number = probe.number;
                    out.set_clock(now);
                    self.send_request(load as u32, number, out);
                }
            }
        }
    }

    fn on_data(&mut self, now: Time, load: usize, pkt: &Packet, out: &mut Outbox) {
        let Load { client, asked, is_ready, .. } = &mut self.loads[load];
        catch_up(client, now, out);
        out.set_clock(now);
        let before = client.next();
        End::on_packet(client, now, pkt, out);
        let next = client.next();
        while asked.front().is_some_and(|p| p.end.is_some_and(|end| end < next)) {
            let Some(answered) = asked.pop_front() else { break };
            if answered.number == OBJECT {
                *is_ready = true;
            } else {
                self.client.on_self_answer(now.since(answered.at));
            }
        }
        let after_tls = TLS.div_ceil(u64::from(self.segment)) as u32;
        if before < after_tls && next >= after_tls {
            self.ask(now, OBJECT, load as u32, out);
        }
    }
}

impl Flow for Test {
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time {
        while let Some(pkt) = arrivals.next(until, out) {
            let now = pkt.enqueued_at;
            let connection = self.source.connection(pkt.flow);
            let load = connection as usize;
            if connection >= LOADS {
                if let Some(stage) = exchange::answered(pkt.seq) {
                    out.set_clock(now);
                    self.send_stage(Sends::Server, connection, stage, out);
                }
            } else if pkt.flags.has(Flags::MESSAGE) {
                self.on_request(now, load, pkt.seq, out);
            } else if let Some(load) = self.loads.get_mut(load) {
                catch_up(&mut load.server, now, out);
                out.set_clock(now);
                End::on_packet(&mut load.server, now, pkt, out);
                load.answer_tls(now, out);
            } else {
                out.sacks.take(pkt.sack());
            }
        }
        let servers = self.loads.iter_mut().map(|l| catch_up(&mut l.server, until, out));
        servers.min().unwrap_or(Time::NEVER)
    }

    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time {
        let before = out.packets.len();
        while let Some(pkt) = arrivals.next(until, out) {
            let now = pkt.enqueued_at;
            self.run_client(now, out);
            let connection = self.source.connection(pkt.flow);
            if connection >= LOADS {
                if let Some(stage) = self.client.on_answer(now, connection, pkt.seq) {
                    out.set_clock(now);
                    self.send_stage(Sends::Client, connection, stage, out);
                }
            } else if (connection as usize) < self.loads.len() {
                self.on_data(now, connection as usize, pkt, out);
            }
        }
        let mut next = self.run_client(until, out);
        for load in &mut self.loads {
            next = next.min(catch_up(&mut load.client, until, out));
        }
        connections::sort(out, before);
        next
    }

    fn starts(&self) -> (Time, Time) {
        (Time::NEVER, self.client.deadline())
    }
    fn set_path(&mut self, path: &PathState) {
        self.path = *path;
    }
    fn stop(&mut self, now: Time) {
        self.client.end(now);
        self.loads.iter_mut().for_each(|l| l.server.stop_at(now));
    }
    fn totals(&self) -> Totals {
        connections::totals(Totals::default(), self.loads.iter().map(Load::ends))
    }
    fn senders(&self, each: &mut dyn FnMut(SenderState)) {
        connections::show(self.loads.iter().map(|l| &l.server), each);
    }
    fn ecn_mode(&self) -> Option<&'static str> {
        connections::mode(None, self.loads.iter().map(Load::ends))
    }
    fn responsiveness(&self) -> Option<Responsiveness> {
        Some(self.client.score())
    }
}
