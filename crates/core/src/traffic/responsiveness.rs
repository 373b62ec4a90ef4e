//! Responsiveness under working conditions (draft-ietf-ippm-responsiveness): TCP connections load the path, and small
//! probes measure round trips per minute.
//!
//! The client opens one more load connection per interval until goodput no longer rises. It probes all the while.
//! A foreign probe makes three round trips on a new connection: handshake, TLS, request. A self probe is a request
//! on a load connection: its answer goes behind what the server has committed to that connection. The test ends when
//! goodput and then responsiveness are stable.

mod client;
mod score;

use std::collections::VecDeque;

use client::{Client, LOADS, Wish};
use serde::Deserialize;

use super::connections::{self, Ends, Request, Source};
use super::tcp::Hosts;
use super::{Place, Traffic};
use crate::ecn::Ecn;
use crate::element::{ArrivalChain, ArrivalList, End, Flow, Outbox, PathState, catch_up};
use crate::error::ScenarioError;
use crate::packet::{ACK_FRAME, Flags, Packet, SYN_FRAME, TCP_IP_HEADERS};
use crate::probe::{Responsiveness, SenderState, Totals};
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::transport::receiver::Receiver;
use crate::transport::sender::Sender;

/// Payload of the first message of TLS, of the request and its answer. TLS' answer fills a segment.
const HELLO: u32 = 517;
const REQUEST: u32 = 200;
const ANSWER: u32 = 250;

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
    fn build(&self, place: &Place) -> Box<dyn Flow> {
        let rng = |what: &str| {
            Rng::stream(place.seed, &format!("responsiveness {what} {}", place.name), place.index)
        };
        let (handshake, data) = self.hosts.codepoints(rng("codepoints"));
        Box::new(Test {
            source: Source::new(place),
            notsent: self.notsent_bytes,
            segment: self.hosts.mtu() - TCP_IP_HEADERS,
            fields: [handshake, data, data],
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
    /// Codepoints of a foreign probe's packets, by stage.
    fields: [Ecn; 3],
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
    /// Self probes without an answer, in the order of asking.
    asked: VecDeque<Asked>,
}

impl Load {
    fn ends(&self) -> Ends<'_> {
        (&self.server, &self.client)
    }
}

/// A self probe.
struct Asked {
    number: u32,
    at: Time,
    request: Request,
    /// The segment that the answer ends in, once the server knows of the probe.
    end: Option<u32>,
}

impl Test {
    fn packet(&self, connection: u32, flags: Flags, len: u32, ecn: Ecn) -> Packet {
        let mut p = Packet::new(self.source.flow(connection), self.source.group, flags, len, ecn);
        p.dscp = self.source.dscp;
        p
    }

    /// A request of a foreign probe: SYN, first message of TLS, or the request itself.
    fn request(&self, connection: u32, stage: u8) -> Packet {
        let ecn = self.fields[usize::from(stage)];
        let mut p = match stage {
            0 => self.packet(connection, Flags::SYN.with(Flags::ACK), SYN_FRAME, ecn),
            _ => {
                let payload = if stage == 1 { HELLO } else { REQUEST };
                let flags = Flags::ACK.with(Flags::MESSAGE);
                let mut p = self.packet(connection, flags, ACK_FRAME + payload, ecn);
                p.payload = payload as u16;
                p
            }
        };
        p.seq = u32::from(stage);
        p
    }

    /// The answer to it.
    fn answer(&self, connection: u32, stage: u32) -> Packet {
        let ecn = self.fields[stage.min(2) as usize];
        let mut p = match stage {
            0 => self.packet(connection, Flags::SYN, SYN_FRAME, ecn),
            _ => {
                let payload = if stage == 1 { self.segment } else { ANSWER.min(self.segment) };
                let flags = Flags::DATA.with(Flags::MESSAGE);
                let mut p = self.packet(connection, flags, ACK_FRAME + payload, ecn);
                p.payload = payload as u16;
                p
            }
        };
        p.seq = stage;
        p
    }

    /// The server knows of a self probe: its answer ends behind what was committed before it.
    fn on_self_probe(&mut self, now: Time, load: usize, number: u32, out: &mut Outbox) {
        let Load { server, asked, .. } = &mut self.loads[load];
        // What the server sends by its timers before comes before the answer.
        catch_up(server, now, out);
        let committed = self.notsent.div_ceil(u64::from(self.segment)) as u32;
        if let Some(probe) = asked.iter_mut().find(|p| p.number == number) {
            probe.request.known.get_or_insert(now);
            probe.end.get_or_insert(server.next().wrapping_add(committed));
        }
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
                    out.push(self.request(connection, stage));
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
        let (mut server, mut client) = self.hosts.connect(&place, place.number, None, false);
        server.listen(now);
        client.connect(now, out);
        self.loads.push(Load { server, client, asked: VecDeque::new() });
    }

    /// A self probe on the load connection, if that is established.
    fn ask(&mut self, now: Time, number: u32, load: u32, out: &mut Outbox) {
        let request = Request::sent(now, self.client.patience());
        let Load { client, asked, .. } = &mut self.loads[load as usize];
        if client.next() > 0 {
            self.next_repeat = self.next_repeat.min(request.again);
            asked.push_back(Asked { number, at: now, request, end: None });
            self.send_self_probe(load, number, out);
        }
    }

    fn send_self_probe(&self, load: u32, number: u32, out: &mut Outbox) {
        let flags = Flags::ACK.with(Flags::MESSAGE);
        let mut p = self.packet(load, flags, ACK_FRAME + REQUEST, self.fields[1]);
        (p.payload, p.seq) = (REQUEST as u16, number);
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
                    self.send_self_probe(load as u32, number, out);
                }
            }
        }
    }

    fn on_data(&mut self, now: Time, load: usize, pkt: &Packet, out: &mut Outbox) {
        let Load { client, asked, .. } = &mut self.loads[load];
        catch_up(client, now, out);
        out.set_clock(now);
        End::on_packet(client, now, pkt, out);
        let next = client.next();
        while asked.front().is_some_and(|p| p.end.is_some_and(|end| end < next)) {
            if let Some(probe) = asked.pop_front() {
                self.client.on_self_answer(now.since(probe.at));
            }
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
                out.set_clock(now);
                out.push(self.answer(connection, pkt.seq));
            } else if pkt.flags.has(Flags::MESSAGE) {
                self.on_self_probe(now, load, pkt.seq, out);
            } else if let Some(Load { server, .. }) = self.loads.get_mut(load) {
                catch_up(server, now, out);
                out.set_clock(now);
                End::on_packet(server, now, pkt, out);
            } else {
                out.sacks.take(pkt.sack);
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
                    out.push(self.request(connection, stage));
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
