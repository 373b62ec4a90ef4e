//! A run: elements built from the description, the event loop, and the recording.

mod applications;
pub mod recording;

use std::collections::VecDeque;

use applications::Connections;
pub use recording::Recording;
use recording::Transfer;

use crate::aqm::registry::QdiscConfig;
use crate::cc::EcnWish;
use crate::ecn::Ecn;
use crate::event::{ElementId, EventQueue};
use crate::net::impair::Impair;
use crate::net::link::{Link, is_payload};
use crate::net::pipe::Pipe;
use crate::net::tap::{End, NoTap, Tap};
use crate::packet::{Flags, FlowId, GroupId, Outbox, Packet};
use crate::prefetch::{AHEAD, prefetch};
use crate::probe::{Distribution, Series};
use crate::rng::Rng;
use crate::scenario::{
    Direction, EcnSetting, FlowSpec, ImpairSpec, Kind, Run, ScenarioError, Side, parse_qdisc,
};
use crate::time::{Span, Time};
use crate::traffic::Source;
use crate::traffic::cbr::Cbr;
use crate::traffic::udp_prague::{self, UdpPrague};
use crate::traffic::video::Video;
use crate::traffic::web::Web;
use crate::transport::ecn::EcnSupport;
use crate::transport::receiver::{Echo, Receiver};
use crate::transport::sack::SackStore;
use crate::transport::sender::{Sender, SenderConfig};
use crate::units::{MTU_FRAME, Rate};

/// One direction of a group's path: a delay, then links and what impairs packets before them.
#[derive(Clone, Debug)]
struct Path {
    pipe: Option<usize>,
    hops: Vec<Hop>,
    /// Of data that sets out on it.
    dscp: u8,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Hop {
    Link(usize),
    Impair(usize),
}

impl Path {
    /// The place of the first link.
    fn first_link(&self) -> usize {
        self.hops.iter().take_while(|hop| matches!(hop, Hop::Impair(_))).count()
    }
    fn links(&self) -> impl Iterator<Item = usize> {
        self.hops.iter().filter_map(|hop| match hop {
            Hop::Link(link) => Some(*link),
            Hop::Impair(_) => None,
        })
    }
}

/// An `[impair]` table: its elements by direction.
struct ImpairPlace {
    link: usize,
    forward: Option<usize>,
    reverse: Option<usize>,
}

/// Rewriting of the ECN field of a group's data at a place of its path.
#[derive(Copy, Clone, Debug)]
struct RewriteRule {
    link: usize,
    side: Side,
    from: Ecn,
    to: Ecn,
}

/// Data packets of a flow group: that reached the first link, left the last one, left it with CE,
/// left it as ECT(1) by a queue, and were dropped.
#[derive(Copy, Clone, Debug, Default)]
struct Packets {
    sent: u64,
    delivered: u64,
    ce: u64,
    sce: u64,
    dropped: u64,
}

impl std::ops::Sub for Packets {
    type Output = Packets;
    fn sub(self, before: Packets) -> Packets {
        Packets {
            sent: self.sent - before.sent,
            delivered: self.delivered - before.delivered,
            ce: self.ce - before.ce,
            sce: self.sce - before.sce,
            dropped: self.dropped - before.dropped,
        }
    }
}

/// What is counted per flow group over the measured interval.
#[derive(Clone, Debug, Default)]
struct GroupStats {
    delivered_bytes: u64,
    /// Total time in queues of a delivered packet.
    sojourn: Distribution,
    /// Smoothed RTT, sampled at fixed intervals.
    srtt: Distribution,
}

/// A flow group: one `[[flow]]` table.
struct Group {
    name: String,
    /// Congestion control of TCP flows, else the kind.
    cc: String,
    kind: Kind,
    count: u32,
    /// Numbers of the flows that are there from the start.
    flows: std::ops::Range<FlowId>,
    /// Places of the ends of its TCP connections, those of a web source that are open.
    ends: Vec<u32>,
    /// Numbers of its web sources or videos.
    applications: std::ops::Range<usize>,
    forward: Path,
    /// The place of the first link in it.
    first_link: u8,
    reverse: Path,
    rewrites: Vec<RewriteRule>,
    stats: GroupStats,
    /// Packets since the start, at the last sample, and when measuring began.
    packets: Packets,
    sampled_packets: Packets,
    base_packets: Packets,
    /// `delivered_bytes` and acknowledged payload at the last sample.
    sampled_delivered: u64,
    sampled_acked: u64,
    /// Acknowledged payload and retransmissions when measuring began.
    base_acked: u64,
    base_retransmitted: u64,
    /// Frame bytes delivered, and payload acknowledged (UDP: received), since the start.
    total_delivered: u64,
    acked_bytes: u64,
    /// Web requests that began in the measured interval.
    begun: u64,
    /// Of connections that were closed: retransmissions, and what was negotiated.
    closed_retransmitted: u64,
    closed_mode: Option<&'static str>,
}

impl Group {
    /// The number of the video that an end belongs to.
    #[inline]
    fn video(&self, end: usize) -> Option<usize> {
        (self.kind == Kind::Video)
            .then(|| self.applications.start + end - self.flows.start as usize)
    }
    fn note_mode(&mut self, sender: &Sender, receiver: &Receiver) {
        self.closed_mode = Some(common_mode(self.closed_mode, sender, receiver));
    }
}

/// The mode of a set of connections and one more; `mixed` where they differ.
fn common_mode(so_far: Option<&'static str>, sender: &Sender, receiver: &Receiver) -> &'static str {
    // SCE is not negotiated: it is there where both ends have it.
    let sce = sender.answers_sce() && receiver.echoes_sce();
    let one = if sce { "sce" } else { sender.mode().name() };
    if so_far.is_none_or(|m| m == one) { one } else { "mixed" }
}

/// Elements of a TCP flow in the event queue, in this order: the sender's transmission timer, its
/// pacing timer, the receiver's timer.
const ELEMENTS_PER_FLOW: u32 = 3;
/// From here on the state of all flows exceeds a second-level cache.
const MANY_FLOWS: usize = 500;

/// Elements that are not flows.
#[derive(Copy, Clone, Debug)]
enum Element {
    Pipe(usize),
    /// The shaper has tokens for the next packet.
    Service(usize),
    /// The queue's own timer.
    Timer(usize),
    Impair(usize),
    Source(usize),
    Web(usize),
    Video(usize),
    Agenda,
    Sample,
}

/// The pipes, and what is between two elements.
struct Air<T> {
    pipes: Vec<Pipe>,
    elements: Vec<ElementId>,
    /// Packets of paths without delay: they are taken up when the event at hand is done.
    waiting: Outbox,
    sacks: SackStore,
    tap: T,
}

impl<T: Tap> Air<T> {
    /// Lets an end send into the pipe of its path.
    #[inline]
    fn launch(
        &mut self,
        path: &Path,
        now: Time,
        events: &mut EventQueue,
        send: impl FnOnce(&mut SackStore, &mut Outbox),
    ) {
        let Some(p) = path.pipe else {
            let before = self.waiting.len();
            send(&mut self.sacks, &mut self.waiting);
            self.show_departures(path, before, now);
            return;
        };
        let pipe = &mut self.pipes[p];
        let before = pipe.len();
        if pipe.fill(now, |out| send(&mut self.sacks, out)) {
            events.set(self.elements[p], pipe.next());
        }
        self.show_departures(path, before, now);
    }

    /// Shows the tap what has been sent into a path after so many others.
    #[inline]
    fn show_departures(&mut self, path: &Path, before: usize, now: Time) {
        if !T::ON {
            return;
        }
        let under_way = path.pipe.map_or(&self.waiting, |p| self.pipes[p].under_way());
        for p in under_way.range(before..) {
            let (mut p, end) = (*p, if is_ack(p) { End::Server } else { End::Client });
            // In the simulation data gets its codepoint where a queue first reads it.
            if is_payload(&p) {
                p.dscp = path.dscp;
            }
            self.tap.see(now, end, &p, &self.sacks.get(p.sack));
        }
    }
    #[inline]
    fn show_arrival(&mut self, now: Time, pkt: &Packet) {
        if T::ON {
            let end = if is_ack(pkt) { End::Client } else { End::Server };
            self.tap.see(now, end, pkt, &self.sacks.get(pkt.sack));
        }
    }
}

/// Something that happens at a fixed time.
#[derive(Clone, Debug)]
enum Deed {
    Start(FlowId),
    StartWeb(usize),
    Stop(GroupId),
    Rate(usize, Rate),
    Qdisc(usize, QdiscConfig),
    Measure,
}

/// A simulation, ready to run.
pub struct Simulation<T = NoTap> {
    seed: u64,
    now: Time,
    end: Time,
    warmup: Time,
    sample: Span,
    events: EventQueue,
    elements: Vec<Element>,
    service_elements: Vec<ElementId>,
    timer_elements: Vec<ElementId>,
    impair_elements: Vec<ElementId>,
    source_elements: Vec<ElementId>,
    web_elements: Vec<ElementId>,
    video_elements: Vec<ElementId>,
    agenda_element: ElementId,
    sample_element: ElementId,
    first_flow_element: ElementId,
    air: Air<T>,
    links: Vec<Link>,
    impairs: Vec<Impair>,
    /// Ends of TCP flows, by flow number, and then of the connections that come and go.
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    tcp_flows: usize,
    connections: Connections,
    /// Sources of the other flows.
    sources: Vec<Source>,
    webs: Vec<Web>,
    videos: Vec<Video>,
    /// What has been transferred, apart from flows that last.
    transfers: Vec<Transfer>,
    groups: Vec<Group>,
    agenda: VecDeque<(Time, Deed)>,
    series: Series,
    last_sample: Time,
    delivered_total: u64,
    events_total: u64,
    /// More flows than the cache holds: fetching ahead pays.
    many_flows: bool,
}

impl Simulation {
    /// Builds the elements of `run`.
    ///
    /// # Errors
    /// One sentence if the description is inconsistent.
    pub fn new(run: &Run) -> Result<Simulation, ScenarioError> {
        Simulation::tapped(run, NoTap)
    }
}

impl<T: Tap> Simulation<T> {
    /// The same, with every packet shown to `tap` at the ends of its path.
    ///
    /// # Errors
    /// One sentence if the description is inconsistent.
    pub fn tapped(run: &Run, tap: T) -> Result<Simulation<T>, ScenarioError> {
        // TCP flows are numbered first, then sources, then what comes and goes: a number tells what a
        // flow is.
        let count = |is: fn(Kind) -> bool| -> u32 {
            run.flows.iter().filter(|f| is(f.kind)).map(|f| f.count).sum()
        };
        let tcp_flows = count(Kind::is_tcp_flow);
        let sources = count(Kind::is_source);
        let mut b = Simulation {
            seed: run.seed,
            now: Time::ZERO,
            end: Time(run.duration_ns),
            warmup: Time(run.warmup_ns),
            sample: Span(run.sample_ns),
            events: EventQueue::new(event_spacing(run)),
            elements: Vec::new(),
            service_elements: Vec::new(),
            timer_elements: Vec::new(),
            impair_elements: Vec::new(),
            source_elements: Vec::new(),
            web_elements: Vec::new(),
            video_elements: Vec::new(),
            agenda_element: 0,
            sample_element: 0,
            first_flow_element: 0,
            air: Air {
                pipes: Vec::new(),
                elements: Vec::new(),
                waiting: Outbox::new(),
                sacks: SackStore::default(),
                tap,
            },
            links: Vec::new(),
            impairs: Vec::new(),
            senders: Vec::new(),
            receivers: Vec::new(),
            tcp_flows: tcp_flows as usize,
            connections: Connections::new(tcp_flows + sources),
            sources: Vec::new(),
            webs: Vec::new(),
            videos: Vec::new(),
            transfers: Vec::new(),
            groups: Vec::new(),
            agenda: VecDeque::new(),
            series: Series::default(),
            last_sample: Time::ZERO,
            delivered_total: 0,
            events_total: 0,
            many_flows: false,
        };
        let mut agenda = vec![(Time(run.warmup_ns), Deed::Measure)];
        for (i, l) in run.links.iter().enumerate() {
            let rng = Rng::stream(run.seed, "link", i as u64);
            let rate = Rate::from_bps(l.rate_bps);
            let qdisc = parse_qdisc(&l.qdisc)?;
            b.links.push(Link::new(l.name.clone(), rate, l.burst_bytes, qdisc, rng));
        }
        let mut places = Vec::new();
        for (i, spec) in run.impairs.iter().enumerate() {
            places.push(b.add_impair(run, spec, i as u64)?);
        }
        for spec in &run.flows {
            b.add_group(run, spec, &places, &mut agenda)?;
        }
        b.many_flows = b.senders.len() > MANY_FLOWS;
        for c in &run.at {
            let link = run.link(&c.link)?;
            let at = Time(c.time_ns);
            if let Some(bps) = c.rate_bps {
                agenda.push((at, Deed::Rate(link, Rate::from_bps(bps))));
            }
            if let Some(q) = &c.qdisc {
                agenda.push((at, Deed::Qdisc(link, parse_qdisc(q)?)));
            }
        }
        agenda.sort_by_key(|(at, _)| *at);
        b.agenda = agenda.into();
        b.register_elements();
        Ok(b)
    }

    fn add_impair(
        &mut self,
        run: &Run,
        spec: &ImpairSpec,
        number: u64,
    ) -> Result<ImpairPlace, ScenarioError> {
        let config = spec.config()?;
        let mut element = |not: Direction, name: &str| {
            (spec.direction != not).then(|| {
                let rng = Rng::stream(run.seed, name, number);
                self.impairs.push(Impair::new(config.clone(), rng));
                self.impairs.len() - 1
            })
        };
        Ok(ImpairPlace {
            link: run.link(&spec.before)?,
            forward: element(Direction::Reverse, "impair"),
            reverse: element(Direction::Forward, "impair reverse"),
        })
    }

    fn add_group(
        &mut self,
        run: &Run,
        spec: &FlowSpec,
        places: &[ImpairPlace],
        agenda: &mut Vec<(Time, Deed)>,
    ) -> Result<(), ScenarioError> {
        let group = self.groups.len() as GroupId;
        let links = |names: &[String]| -> Result<Vec<usize>, ScenarioError> {
            names.iter().map(|n| run.link(n)).collect()
        };
        let (forward_links, reverse_links) = (links(&spec.path)?, links(&spec.reverse_path)?);
        let mut forward_hops = Vec::new();
        for &link in &forward_links {
            let before = places.iter().filter(|p| p.link == link);
            forward_hops.extend(before.filter_map(|p| p.forward).map(Hop::Impair));
            forward_hops.push(Hop::Link(link));
        }
        // ACKs are impaired where they set out, whichever links they cross themselves.
        let crossed =
            |p: &&ImpairPlace| forward_links.contains(&p.link) || reverse_links.contains(&p.link);
        let impaired = places.iter().filter(crossed).filter_map(|p| p.reverse).map(Hop::Impair);
        let reverse_hops = impaired.chain(reverse_links.iter().copied().map(Hop::Link)).collect();
        // Half of the base RTT before the links, half on the way back.
        let half = Span(spec.rtt_ns / 2);
        let forward = Path { pipe: self.pipe(half), hops: forward_hops, dscp: spec.dscp };
        let back = self.pipe(Span(spec.rtt_ns) - half);
        let reverse = Path { pipe: back, hops: reverse_hops, dscp: 0 };
        if forward.hops.len().max(reverse.hops.len()) > usize::from(u8::MAX) {
            let what = "a path with more than 255 links and impairments";
            return Err(ScenarioError(format!("flow \"{}\": {what} is not supported", spec.name)));
        }
        let first = match spec.kind {
            Kind::Tcp | Kind::Video => self.senders.len() as FlowId,
            Kind::Cbr | Kind::UdpPrague => (self.tcp_flows + self.sources.len()) as FlowId,
            Kind::Web => 0,
        };
        let first_application =
            if spec.kind == Kind::Web { self.webs.len() } else { self.videos.len() };
        let mut ends = Vec::new();
        for i in 0..spec.count {
            let (flow, index) = (first + i, u64::from(i));
            match spec.kind {
                Kind::Tcp | Kind::Video => {
                    let (sender, receiver) = make_tcp(run.seed, spec, flow, group, spec.bytes);
                    self.senders.push(sender);
                    self.receivers.push(receiver);
                    ends.push(flow);
                    if spec.kind == Kind::Video {
                        self.videos.push(Video::new(run.seed, spec, flow, group, index));
                    }
                }
                Kind::Cbr => self.sources.push(Source::Cbr(make_cbr(spec, flow, group))),
                Kind::UdpPrague => {
                    let frame = spec.packet_bytes.unwrap_or(udp_prague::FRAME);
                    let source = UdpPrague::new(flow, group, frame, spec.pace_bps);
                    self.sources.push(Source::UdpPrague(Box::new(source)));
                }
                Kind::Web => {
                    make_tcp(run.seed, spec, 0, group, None);
                    agenda.push((Time(spec.start_ns), Deed::StartWeb(self.webs.len())));
                    self.webs.push(Web::new(run.seed, spec, group, index));
                    continue;
                }
            }
            let mut rng = Rng::stream(run.seed, &spec.name, index);
            let jitter = rng.below(run.start_jitter_ns);
            agenda.push((Time(spec.start_ns + jitter), Deed::Start(flow)));
        }
        let (flows, applications) = match spec.kind {
            Kind::Web => (0..0, first_application..self.webs.len()),
            _ => (first..first + spec.count, first_application..self.videos.len()),
        };
        if let Some(stop) = spec.stop_ns {
            agenda.push((Time(stop), Deed::Stop(group)));
        }
        let mut rewrites = Vec::new();
        for r in run.rewrites.iter().filter(|r| r.flow == spec.name) {
            let link = run.link(&r.link)?;
            rewrites.push(RewriteRule { link, side: r.side, from: r.from, to: r.to });
        }
        let cc = match spec.kind {
            kind if kind.is_source() => kind.name().to_owned(),
            _ => spec.cc.clone().unwrap_or_else(|| "cubic".to_owned()),
        };
        self.groups.push(Group {
            name: spec.name.clone(),
            cc,
            kind: spec.kind,
            count: spec.count,
            flows,
            ends,
            applications,
            first_link: forward.first_link() as u8,
            forward,
            reverse,
            rewrites,
            stats: GroupStats::default(),
            packets: Packets::default(),
            sampled_packets: Packets::default(),
            base_packets: Packets::default(),
            sampled_delivered: 0,
            sampled_acked: 0,
            base_acked: 0,
            base_retransmitted: 0,
            total_delivered: 0,
            acked_bytes: 0,
            begun: 0,
            closed_retransmitted: 0,
            closed_mode: None,
        });
        Ok(())
    }

    /// The pipe of this delay, shared by all who have it; none for no delay.
    fn pipe(&mut self, delay: Span) -> Option<usize> {
        if delay == Span::ZERO {
            return None;
        }
        let pipes = &mut self.air.pipes;
        Some(pipes.iter().position(|p| p.delay() == delay).unwrap_or_else(|| {
            pipes.push(Pipe::new(delay));
            pipes.len() - 1
        }))
    }

    fn register_elements(&mut self) {
        let mut add = |e: Element| {
            self.elements.push(e);
            self.events.add_element()
        };
        self.agenda_element = add(Element::Agenda);
        self.air.elements = (0..self.air.pipes.len()).map(|i| add(Element::Pipe(i))).collect();
        self.service_elements = (0..self.links.len()).map(|i| add(Element::Service(i))).collect();
        self.timer_elements = (0..self.links.len()).map(|i| add(Element::Timer(i))).collect();
        self.impair_elements = (0..self.impairs.len()).map(|i| add(Element::Impair(i))).collect();
        self.source_elements = (0..self.sources.len()).map(|i| add(Element::Source(i))).collect();
        self.web_elements = (0..self.webs.len()).map(|i| add(Element::Web(i))).collect();
        self.video_elements = (0..self.videos.len()).map(|i| add(Element::Video(i))).collect();
        self.sample_element = add(Element::Sample);
        // Those of connections that come and go follow.
        self.first_flow_element = self.elements.len() as ElementId;
        for _ in 0..self.senders.len() * ELEMENTS_PER_FLOW as usize {
            self.events.add_element();
        }
        if let Some((at, _)) = self.agenda.front() {
            self.events.set(self.agenda_element, *at);
        }
        for (i, l) in self.links.iter().enumerate() {
            self.events.set(self.timer_elements[i], l.next_timer());
        }
        self.events.set(self.sample_element, Time::ZERO + self.sample);
    }

    /// Runs to the end and returns what was recorded.
    pub fn run(mut self) -> Recording {
        self.run_until(self.end);
        recording::finish(self)
    }

    /// Runs up to and including `until`.
    pub fn run_until(&mut self, until: Time) {
        while let Some((at, element)) = self.events.pop(until) {
            debug_assert!(at >= self.now, "time went back");
            self.now = at;
            self.events_total += 1;
            self.wake(element);
            while let Some(pkt) = self.air.waiting.pop_front() {
                self.proceed(pkt);
            }
        }
        self.now = until;
    }

    pub fn links(&self) -> &[Link] {
        &self.links
    }
    pub fn impairs(&self) -> &[Impair] {
        &self.impairs
    }
    /// ACKs with SACK blocks that are under way.
    pub fn sacks_under_way(&self) -> usize {
        self.air.sacks.in_use()
    }

    #[inline]
    fn wake(&mut self, element: ElementId) {
        if self.many_flows
            && let Some(next) = self.events.likely_next()
            && next >= self.first_flow_element
        {
            self.prefetch_sender((next - self.first_flow_element) / ELEMENTS_PER_FLOW);
        }
        if element >= self.first_flow_element {
            self.wake_flow(element - self.first_flow_element);
            return;
        }
        match self.elements[element as usize] {
            Element::Pipe(i) => self.empty_pipe(i),
            Element::Service(i) => self.serve(i),
            Element::Timer(i) => {
                self.links[i].on_timer(self.now);
                self.events.set(self.timer_elements[i], self.links[i].next_timer());
                if self.links[i].has_drops() {
                    self.account_drops(i);
                }
                if self.idle(i) {
                    self.serve(i);
                }
            }
            Element::Impair(i) => self.release(i),
            Element::Source(i) => {
                let now = self.now;
                self.with_source(i, |source, out| source.on_timer(now, out));
            }
            Element::Web(i) => self.wake_web(i),
            Element::Video(i) => self.wake_video(i),
            Element::Agenda => self.follow_agenda(),
            Element::Sample => {
                self.take_sample();
                self.events.set(self.sample_element, self.now + self.sample);
            }
        }
    }

    #[inline]
    fn empty_pipe(&mut self, i: usize) {
        while let Some(pkt) = self.air.pipes[i].pop(self.now) {
            if self.many_flows {
                self.look_ahead(i);
            }
            self.proceed(pkt);
        }
        self.events.set(self.air.elements[i], self.air.pipes[i].next());
    }

    /// Fetches what the next packets of a pipe will need: the end itself two packets ahead, what it
    /// points to one packet ahead.
    #[inline]
    fn look_ahead(&self, pipe: usize) {
        let pipe = &self.air.pipes[pipe];
        if let Some(far) = pipe.peek(AHEAD) {
            prefetch(far);
        }
        if let Some(second) = pipe.peek(1)
            && second.flags.has(Flags::ACK)
            && let Some(end) = self.end(second.flow)
        {
            self.prefetch_sender(end as u32);
        }
        let Some(first) = pipe.peek(0) else { return };
        if first.flags.has(Flags::ACK) {
            if let Some(end) = self.end(first.flow) {
                self.senders[end].prefetch();
            }
        } else {
            self.prefetch_receiver(first.flow);
        }
    }

    /// Brings the state of a sender towards the cache, before it is needed.
    #[inline]
    fn prefetch_sender(&self, end: u32) {
        if let Some(sender) = self.senders.get(end as usize) {
            prefetch(sender);
            self.events.prefetch(self.first_flow_element + end * ELEMENTS_PER_FLOW);
        }
    }
    #[inline]
    fn prefetch_receiver(&self, flow: FlowId) {
        if let Some(end) = self.end(flow) {
            prefetch(&self.receivers[end]);
        }
    }

    /// The place of a flow's ends; `None` if it is not TCP, or over.
    #[inline]
    fn end(&self, flow: FlowId) -> Option<usize> {
        let end = flow as usize;
        if end < self.tcp_flows { Some(end) } else { self.connections.end(flow) }
    }

    /// `element` counts from the first element of the flows.
    #[inline]
    fn wake_flow(&mut self, element: u32) {
        let now = self.now;
        let end = (element / ELEMENTS_PER_FLOW) as usize;
        if element % ELEMENTS_PER_FLOW == 2 {
            self.with_receiver(end, |receiver, sacks, out| receiver.on_timer(now, sacks, out));
        } else {
            if self.many_flows {
                self.senders[end].prefetch();
            }
            match element % ELEMENTS_PER_FLOW {
                0 => self.with_sender(end, |sender, _, out| sender.on_timer(now, out)),
                _ => self.with_sender(end, |sender, _, out| sender.on_pacing(now, out)),
            }
        }
    }

    // Calls of an end: it sends into the pipe of its path, then its deadlines are read back.

    #[inline]
    fn with_sender(
        &mut self,
        end: usize,
        call: impl FnOnce(&mut Sender, &mut SackStore, &mut Outbox),
    ) {
        let sender = &mut self.senders[end];
        let group = &mut self.groups[usize::from(sender.group())];
        let acked = sender.acked_bytes;
        self.air.launch(&group.forward, self.now, &mut self.events, |sacks, out| {
            call(sender, sacks, out);
        });
        group.acked_bytes += sender.acked_bytes - acked;
        let (transmission, pacing) = sender.deadlines();
        let element = self.first_flow_element + end as u32 * ELEMENTS_PER_FLOW;
        self.events.set(element, transmission);
        self.events.set(element + 1, pacing);
        if let Some(video) = group.video(end) {
            self.after_video_sender(video, end);
        }
    }
    #[inline]
    fn with_receiver(
        &mut self,
        end: usize,
        call: impl FnOnce(&mut Receiver, &mut SackStore, &mut Outbox),
    ) {
        let receiver = &mut self.receivers[end];
        let group = &self.groups[usize::from(receiver.group())];
        self.air.launch(&group.reverse, self.now, &mut self.events, |sacks, out| {
            call(receiver, sacks, out);
        });
        let element = self.first_flow_element + end as u32 * ELEMENTS_PER_FLOW + 2;
        self.events.set(element, receiver.deadline());
        if let Some(video) = group.video(end) {
            self.after_video_receiver(video, end);
        }
    }
    #[inline]
    fn with_source(&mut self, i: usize, call: impl FnOnce(&mut Source, &mut Outbox)) {
        let source = &mut self.sources[i];
        let path = &self.groups[usize::from(source.group())].forward;
        self.air.launch(path, self.now, &mut self.events, |_, out| call(source, out));
        self.events.set(self.source_elements[i], source.deadline());
    }

    /// A packet goes to the next element of its path.
    fn proceed(&mut self, mut pkt: Packet) {
        let g = &mut self.groups[usize::from(pkt.group)];
        let is_ack = is_ack(&pkt);
        let path = if is_ack { &g.reverse } else { &g.forward };
        let link = match path.hops.get(usize::from(pkt.hop)) {
            Some(&Hop::Link(link)) => link,
            Some(&Hop::Impair(i)) => return self.impair(i, pkt),
            None => return self.arrive(pkt, is_ack),
        };
        if is_payload(&pkt) {
            if pkt.hop == g.first_link {
                g.packets.sent += 1;
                pkt.dscp = g.forward.dscp;
            }
            rewrite(&g.rewrites, link, Side::Before, &mut pkt);
        }
        let duplicates = self.links[link].arrive(self.now, pkt);
        if duplicates > 0 {
            self.air.sacks.share(pkt.sack, duplicates);
        }
        if self.links[link].has_drops() {
            self.account_drops(link);
        }
        if self.idle(link) {
            self.serve(link);
        }
    }

    #[cold]
    fn impair(&mut self, i: usize, pkt: Packet) {
        let duplicates = self.impairs[i].arrive(self.now, pkt);
        self.air.sacks.share(pkt.sack, duplicates);
        for lost in self.impairs[i].drain_drops() {
            self.air.sacks.take(lost.sack);
        }
        self.release(i);
    }

    /// Passes on what an impairment lets go of.
    fn release(&mut self, i: usize) {
        while let Some(mut pkt) = self.impairs[i].depart(self.now) {
            pkt.hop += 1;
            self.proceed(pkt);
        }
        self.events.set(self.impair_elements[i], self.impairs[i].next());
    }

    /// A link that waits for its shaper need not be asked for a packet; any other may have one.
    #[inline]
    fn idle(&self, link: usize) -> bool {
        self.events.wanted(self.service_elements[link]) == Time::NEVER
    }

    /// Lets a link send what its shaper allows.
    #[inline]
    fn serve(&mut self, i: usize) {
        loop {
            let link = &mut self.links[i];
            if link.backlog() == 0 {
                self.events.set(self.service_elements[i], Time::NEVER);
                return;
            }
            let ready = link.shaper.ready_at();
            if ready > self.now {
                self.events.set(self.service_elements[i], ready);
                return;
            }
            let departed = link.depart(self.now);
            if link.has_drops() {
                self.account_drops(i);
            }
            if self.many_flows
                && let Some(next) = self.links[i].aqm().likely_next()
            {
                self.prefetch_receiver(next.flow);
            }
            if let Some(pkt) = departed {
                self.leave(i, pkt);
            } else if self.links[i].backlog() > 0 {
                // The queue holds packets back and tells by its timer when to ask again.
                self.events.set(self.service_elements[i], Time::NEVER);
                self.events.set(self.timer_elements[i], self.links[i].next_timer());
                return;
            }
        }
    }

    #[inline]
    fn leave(&mut self, link: usize, mut pkt: Packet) {
        pkt.hop += 1;
        if is_payload(&pkt) {
            let g = &mut self.groups[usize::from(pkt.group)];
            if usize::from(pkt.hop) == g.forward.hops.len() {
                let s = &mut g.stats;
                let bytes = u64::from(pkt.frame_len);
                s.delivered_bytes += bytes;
                g.total_delivered += bytes;
                g.packets.delivered += 1;
                g.packets.ce += u64::from(pkt.ecn == Ecn::Ce);
                g.packets.sce += u64::from(pkt.sce && pkt.ecn == Ecn::Ect1);
                s.sojourn.record(Span(u64::from(pkt.queued_ns)));
            }
            rewrite(&g.rewrites, link, Side::After, &mut pkt);
        }
        self.proceed(pkt);
    }

    /// A packet has reached the end of its path.
    #[inline]
    fn arrive(&mut self, pkt: Packet, is_ack: bool) {
        let now = self.now;
        self.air.show_arrival(now, &pkt);
        if pkt.flags.has(Flags::CORRUPT.with(Flags::MESSAGE)) {
            self.air.sacks.take(pkt.sack);
            if !pkt.flags.has(Flags::CORRUPT) {
                self.on_message(&pkt);
            }
            return;
        }
        if is_ack {
            if let Some(end) = self.end(pkt.flow) {
                self.with_sender(end, |sender, sacks, out| {
                    sender.on_packet(now, &pkt, sacks, out);
                });
                if end >= self.tcp_flows && self.senders[end].is_done() {
                    self.close(end);
                }
            } else if let Some(i) = self.source(pkt.flow) {
                self.with_source(i, |source, out| source.on_feedback(now, &pkt, out));
            } else {
                self.air.sacks.take(pkt.sack);
            }
            return;
        }
        self.delivered_total += 1;
        if pkt.flags.has(Flags::UDP) {
            let source = self.source(pkt.flow);
            let group = &mut self.groups[usize::from(pkt.group)];
            group.acked_bytes += u64::from(pkt.payload);
            if let Some(i) = source {
                let source = &mut self.sources[i];
                self.air.launch(&group.reverse, now, &mut self.events, |_, out| {
                    source.on_data(&pkt, out);
                });
            }
        } else if let Some(end) = self.end(pkt.flow) {
            self.with_receiver(end, |receiver, sacks, out| {
                receiver.on_packet(now, &pkt, sacks, out);
            });
        }
    }

    #[cold]
    fn account_drops(&mut self, link: usize) {
        let Simulation { links, groups, air, .. } = self;
        for pkt in links[link].drain_drops() {
            if is_payload(&pkt) {
                groups[usize::from(pkt.group)].packets.dropped += 1;
            }
            air.sacks.take(pkt.sack);
        }
    }

    fn follow_agenda(&mut self) {
        while let Some((at, _)) = self.agenda.front() {
            if *at > self.now {
                self.events.set(self.agenda_element, *at);
                return;
            }
            let (_, deed) = self.agenda.pop_front().expect("front exists");
            match deed {
                Deed::Start(flow) => self.start(flow),
                Deed::StartWeb(web) => self.start_web(web),
                Deed::Stop(group) => self.stop(group),
                Deed::Rate(link, rate) => {
                    self.links[link].set_rate(self.now, rate);
                    self.serve(link);
                }
                Deed::Qdisc(link, qdisc) => {
                    self.links[link].replace_qdisc(self.now, qdisc);
                    self.account_drops(link);
                    self.events.set(self.timer_elements[link], self.links[link].next_timer());
                }
                Deed::Measure => self.begin_measuring(),
            }
        }
    }
}

impl<T: Tap> Simulation<T> {
    /// The number of a source among the sources; `None` for a TCP flow.
    #[inline]
    fn source(&self, flow: FlowId) -> Option<usize> {
        let source = (flow as usize).checked_sub(self.tcp_flows)?;
        (source < self.sources.len()).then_some(source)
    }

    fn start(&mut self, flow: FlowId) {
        let now = self.now;
        match self.source(flow) {
            Some(i) => self.with_source(i, |source, out| source.start(now, out)),
            None => self.with_sender(flow as usize, |sender, _, out| sender.start(now, out)),
        }
    }

    /// Nothing new is sent or asked for.
    fn stop(&mut self, group: GroupId) {
        let now = self.now;
        let g = &self.groups[usize::from(group)];
        let (kind, applications, flows) = (g.kind, g.applications.clone(), g.flows.clone());
        match kind {
            Kind::Web => applications.for_each(|web| self.stop_web(web)),
            Kind::Video => applications.for_each(|video| self.stop_video(video)),
            Kind::Tcp => flows.for_each(|flow| {
                self.with_sender(flow as usize, |sender, _, _| sender.stop());
            }),
            Kind::Cbr | Kind::UdpPrague => flows.for_each(|flow| {
                let i = flow as usize - self.tcp_flows;
                self.with_source(i, |source, _| source.stop(now));
            }),
        }
    }
}

/// How often something happens, about: three events per full packet of all links together.
fn event_spacing(run: &Run) -> Span {
    let rate: u64 = run.links.iter().map(|l| l.rate_bps).sum();
    Rate::from_bps(rate.max(1_000_000)).time_for(u64::from(MTU_FRAME) / 3)
}

/// Travels from receiver to sender.
#[inline]
fn is_ack(pkt: &Packet) -> bool {
    pkt.flags.has(Flags::ACK)
}

/// Applies the first matching rule of a place.
#[inline]
fn rewrite(rules: &[RewriteRule], link: usize, side: Side, pkt: &mut Packet) {
    for r in rules {
        if r.link == link && r.side == side && pkt.ecn == r.from {
            pkt.ecn = r.to;
            return;
        }
    }
}

fn make_cbr(spec: &FlowSpec, flow: FlowId, group: GroupId) -> Cbr {
    let ecn = match spec.ecn {
        Some(EcnSetting::Codepoint(c)) => c,
        _ => Ecn::NotEct,
    };
    let rate = Rate::from_bps(spec.rate_bps.unwrap_or(1));
    let frame = spec.packet_bytes.unwrap_or(MTU_FRAME);
    Cbr::new(flow, group, rate, frame, spec.batch.unwrap_or(1), ecn)
}

fn make_tcp(
    seed: u64,
    spec: &FlowSpec,
    flow: FlowId,
    group: GroupId,
    bytes: Option<u64>,
) -> (Sender, Receiver) {
    let options = spec
        .controller
        .as_ref()
        .expect("a TCP flow's controller was resolved when the run was read");
    let mut cc = options.build();
    cc.seed(Rng::stream(seed, "controller", u64::from(flow)));
    let support = match spec.ecn {
        Some(EcnSetting::Support(s)) => s,
        _ => cc.ecn().support(),
    };
    let peer = spec.peer_ecn.unwrap_or(support);
    // ACKs of an AccECN connection carry the codepoint of its data.
    let ack_codepoint = match (support, cc.ecn()) {
        (EcnSupport::AccEcn, EcnWish::Ect1AccEcn) => Ecn::Ect1,
        _ => Ecn::Ect0,
    };
    let config = SenderConfig {
        flow,
        group,
        ecn: support,
        pace_bps: spec.pace_bps,
        bytes,
        receive_window: spec.receive_window_bytes,
        stream: spec.kind == Kind::Video,
    };
    // Only a peer with the same controller echoes runs. One with another setting is an ordinary host,
    // and the handshake does not tell the sender.
    let echo = match cc.ecn() {
        EcnWish::Ect0Runs if peer == support => Echo::Runs,
        _ => Echo::UntilCwr,
    };
    let receiver = Receiver::new(flow, group, peer, ack_codepoint, echo);
    (Sender::new(config, cc), receiver)
}
