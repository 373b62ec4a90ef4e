//! The loop: reads packets of both ends, lets the network decide, and writes what is due.
//!
//! Half of the base RTT lies between a host and the network, so what leaves the network before `now + RTT / 2` is known
//! already when it is computed. The network is therefore ahead of the clock, a late wake-up delays only what is
//! written, and packets of one flow that are due within some 50 us leave as one super-packet.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use l4slab_core::distribution::{Bin, Distribution};
use l4slab_core::ecn::Ecn;
use l4slab_core::element::Fates;
use l4slab_core::live::series_as_json;
use l4slab_core::packet::{Flags, Packet};
use l4slab_core::probe::{Gauges, Series};
use l4slab_core::scenario::Run;
use l4slab_core::sim::transit::{Step, Transit};
use l4slab_core::time::{Span, Time};
use l4slab_core::units::Rate;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::frame::{MOST_HEADERS, Segment, Train, Unit, VNET};
use crate::log::{Arrival, IS_BACK, IS_CORRUPT, Record, flow_number, id, set_id};
use crate::probe;
use crate::replay::add_change;
use crate::system::{self, Gather, Poll};

/// A host whose access line is so far behind is not read.
const MOST_BEHIND: u64 = 20_000_000;
const READS: usize = 64;
const WRITES: usize = 16;
/// No packet is longer, and a super-packet of IPv6 has its header on top.
const LONGEST: usize = 65_536 + 64;
const LOG_CHUNK: usize = 1 << 18;
/// No wait is longer, ns.
const LONGEST_WAIT: u64 = 50_000_000;

/// So long after the last time it is asked again whether it is over, ns.
const ASK_AGAIN: u64 = 5_000_000;

/// Whether it is over.
pub enum Answer {
    Over,
    GoOn,
    AskAgain,
}

/// A time's distribution, in milliseconds.
#[derive(Serialize)]
pub struct Quantiles {
    count: u64,
    p50: Option<f64>,
    p99: Option<f64>,
    p999: Option<f64>,
    max: Option<f64>,
}

impl From<&Distribution> for Quantiles {
    fn from(d: &Distribution) -> Quantiles {
        Quantiles {
            count: d.count(),
            p50: d.quantile_ms(0.5),
            p99: d.quantile_ms(0.99),
            p999: d.quantile_ms(0.999),
            max: d.max_ms(),
        }
    }
}

/// Counters of the packets of one host.
#[derive(Default)]
struct Count {
    reads: u64,
    most_reads: usize,
    packets_in: u64,
    packets_out: u64,
    bytes_out: u64,
    payload_out: u64,
    writes: u64,
    refused: u64,
    ce_in: u64,
    ce_out: u64,
    lost: u64,
    copied: u64,
    late: Distribution,
    wait: Distribution,
    first: u64,
    last: u64,
}

#[derive(Serialize)]
pub struct Direction {
    reads: u64,
    most_reads_at_once: usize,
    packets_in: u64,
    packets_out: u64,
    bytes_out: u64,
    rate_bps: Option<f64>,
    writes: u64,
    refused_writes: u64,
    ce_in: u64,
    ce_out: u64,
    lost: u64,
    copied: u64,
    late_ms: Quantiles,
    wait_ms: Quantiles,
    /// Dropped by the device because its ring was full.
    pub device_drops: u64,
}

impl From<&Count> for Direction {
    fn from(c: &Count) -> Direction {
        let seconds = c.last.saturating_sub(c.first) as f64 * 1e-9;
        Direction {
            reads: c.reads,
            most_reads_at_once: c.most_reads,
            packets_in: c.packets_in,
            packets_out: c.packets_out,
            bytes_out: c.bytes_out,
            rate_bps: (seconds > 0.0).then(|| c.bytes_out as f64 * 8.0 / seconds),
            writes: c.writes,
            refused_writes: c.refused,
            ce_in: c.ce_in,
            ce_out: c.ce_out,
            lost: c.lost,
            copied: c.copied,
            late_ms: Quantiles::from(&c.late),
            wait_ms: Quantiles::from(&c.wait),
            device_drops: 0,
        }
    }
}

/// A queue of a link.
#[derive(Serialize)]
pub struct QueueRow {
    link: String,
    queue: &'static str,
    arrived: u64,
    sent: u64,
    sent_bytes: u64,
    dropped: u64,
    overflowed: u64,
    marked: u64,
    step_marked: u64,
    sojourn_ms: Quantiles,
    sojourn_mean_ms: Option<f64>,
    backlog_max: u64,
}

#[derive(Serialize)]
pub struct Summary {
    pub seconds: f64,
    /// From the client's side, from the server's side.
    pub directions: [Direction; 2],
    pub queues: Vec<QueueRow>,
    /// Of the forwarding thread.
    pub user_s: f64,
    pub system_s: f64,
    /// Frames written per second of its processor time.
    pub frames_per_cpu_s: f64,
    pub command_status: i32,
    pub realtime: bool,
    pub notes: Vec<String>,
}

/// As the log has them.
fn flags_of(pkt: &Packet) -> u8 {
    let is = |flag, bit| if pkt.flags.has(flag) { bit } else { 0 };
    is(Flags::ACK, IS_BACK) | is(Flags::CORRUPT, IS_CORRUPT)
}

/// A packet in the network, and how many copies of it there are.
struct Slot {
    segment: Segment,
    carriers: u32,
}

/// Writes the log on a thread of its own.
pub struct LogWriter {
    chunk: Vec<u8>,
    to: mpsc::Sender<Vec<u8>>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl LogWriter {
    pub fn start(mut file: File, header: Vec<u8>) -> std::io::Result<LogWriter> {
        let (to, chunks) = mpsc::channel::<Vec<u8>>();
        let write = move || chunks.into_iter().try_for_each(|chunk| file.write_all(&chunk));
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn(write)?;
        Ok(LogWriter { chunk: header, to, thread })
    }
    fn add(&mut self, record: &Record) {
        record.write(&mut self.chunk);
        if self.chunk.len() >= LOG_CHUNK {
            let full = std::mem::replace(&mut self.chunk, Vec::with_capacity(LOG_CHUNK + 64));
            // The thread tells what went wrong when it is joined.
            let _ = self.to.send(full);
        }
    }
    fn finish(self) -> std::io::Result<()> {
        let _ = self.to.send(self.chunk);
        drop(self.to);
        self.thread.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()))
    }
}

/// What packets are read from and written to.
pub enum Device {
    Tun(OwnedFd),
    Card(OwnedFd),
}

impl AsRawFd for Device {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Device::Tun(fd) | Device::Card(fd) => fd.as_raw_fd(),
        }
    }
}

/// One end.
struct Side {
    device: Device,
    /// When its last packet has left its access line, ns since the start.
    stamp: u64,
}

/// How the forwarder does it.
pub struct Manner {
    /// The servers' packets take the way there.
    pub reversed: bool,
    pub access: Rate,
    /// So long a packet that is due waits for another one to leave with, ns.
    pub hold: u64,
    /// UDP may be joined.
    pub joins_udp: bool,
    /// The log has the headers of each arrival.
    pub keeps_headers: bool,
    /// When the time of the run is zero; without, when forwarding begins.
    pub zero: Option<u64>,
}

/// What can be asked of a running bottleneck.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    /// An entry of a run's `at`, without its time.
    Change { change: Value },
    /// The news since this was last asked.
    Sample {},
    /// The queues since the start.
    Report {},
    /// How long packets have waited in them.
    Histograms {},
}

/// Those who watch the bottleneck and change it: a socket that listens, and the one who has connected last. Messages
/// are JSON: requests, and one answer to each, `{"ok": …}` or `{"refused": "one sentence"}`.
pub struct Control {
    listener: OwnedFd,
    peer: Option<OwnedFd>,
    /// The run's description with the changes so far.
    run: Value,
    flows: Vec<String>,
    links: Vec<String>,
    /// When the last sample was taken.
    counted: [u64; 5],
}

const LONGEST_REQUEST: usize = 1 << 16;

impl Control {
    pub fn new(listener: OwnedFd, run: &str) -> Control {
        let run: Value = serde_json::from_str(run).unwrap_or_default();
        let names = |what: &str| {
            let of = run[what].as_array().into_iter().flatten();
            of.map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
        };
        let (flows, links) = (names("flows"), names("links"));
        Control { listener, peer: None, run, flows, links, counted: [0; 5] }
    }
    fn poll(&self) -> Poll {
        Poll::new(self.peer.as_ref().unwrap_or(&self.listener))
    }
    /// The next request that is there.
    fn next(&mut self) -> Option<Request> {
        loop {
            if self.peer.is_none() {
                self.peer = Some(system::accept(&self.listener)?);
            }
            let mut bytes = vec![0; LONGEST_REQUEST];
            match system::receive(self.peer.as_ref()?, &mut bytes)? {
                0 => self.peer = None,
                n => match serde_json::from_slice(&bytes[..n]) {
                    Ok(request) => return Some(request),
                    Err(e) => self.tell(&json!({ "refused": e.to_string() })),
                },
            }
        }
    }
    fn tell(&self, answer: &Value) {
        if let Some(peer) = &self.peer {
            system::send(peer, answer.to_string().as_bytes());
        }
    }
}

/// Carries packets between clients and servers through the core's links, in real time.
pub struct Forwarder {
    transit: Transit,
    /// Client and server of each flow group.
    sides: Vec<[Side; 2]>,
    /// Of the packets from all clients, and from all servers.
    counts: [Count; 2],
    manner: Manner,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    arrivals: u32,
    log: Option<LogWriter>,
    control: Option<Control>,
    fates: Fates,
    buffer: Box<[u8]>,
    gather: Gather,
    begun: u64,
    cpu: [u64; 2],
}

impl Forwarder {
    pub fn new(
        transit: Transit,
        devices: Vec<[Device; 2]>,
        manner: Manner,
        log: Option<LogWriter>,
        control: Option<Control>,
    ) -> Forwarder {
        let side = |device| Side { device, stamp: 0 };
        Forwarder {
            transit,
            sides: devices.into_iter().map(|pair| pair.map(side)).collect(),
            counts: Default::default(),
            manner,
            slots: Vec::new(),
            free: Vec::new(),
            arrivals: 0,
            log,
            control,
            fates: Fates::default(),
            buffer: vec![0; LONGEST].into(),
            gather: Gather::new(),
            begun: system::clock(),
            cpu: system::processor_time(),
        }
    }

    fn elapsed(&self) -> u64 {
        system::clock().saturating_sub(self.begun)
    }
    /// The side whose packets take this way.
    fn source(&self, back: usize) -> usize {
        back ^ usize::from(self.manner.reversed)
    }

    /// Forwards until `ask` says that it is over; it is asked, with the time in ns, when a child process has ended.
    pub fn run(&mut self, children: &OwnedFd, mut ask: impl FnMut(u64) -> Answer) {
        let devices = self.sides.iter().flatten().map(|side| Poll::new(&side.device));
        let mut polls: Vec<_> = devices.chain([Poll::new(children)]).collect();
        let last = polls.len() - 1;
        polls.extend(self.control.as_ref().map(Control::poll));
        self.cpu = system::processor_time();
        self.begun = self.manner.zero.unwrap_or_else(system::clock);
        let mut asks = true;
        loop {
            let mut wake = u64::MAX;
            for (n, poll) in polls[..last].iter_mut().enumerate() {
                let (is_open, next) = self.read(n / 2, n % 2);
                poll.listen(is_open);
                wake = wake.min(next);
            }
            let now = self.elapsed();
            let horizon = self.transit.horizon(Time(now));
            self.transit.run_until(horizon.min(Time(now + 1_000_000_000)));
            self.settle();
            for n in 0..last {
                wake = wake.min(self.write(n / 2, n % 2));
            }
            wake = wake.min(self.transit.next().0);
            if polls[last].is_ready() {
                system::drain(children);
                asks = true;
            }
            if polls.get(last + 1).is_some_and(Poll::is_ready) {
                polls.truncate(last + 1);
                self.answer();
                polls.extend(self.control.as_ref().map(Control::poll));
            }
            if asks {
                match ask(self.elapsed()) {
                    Answer::Over => return,
                    Answer::GoOn => asks = false,
                    Answer::AskAgain => {}
                }
            }
            let now = self.elapsed();
            let longest = if asks { ASK_AGAIN } else { LONGEST_WAIT };
            system::wait(&mut polls, wake.saturating_sub(now).min(longest));
        }
    }

    /// Reads a ring until it is empty. Whether it is to be listened to, and when to come back in any case.
    fn read(&mut self, flow: usize, side: usize) -> (bool, u64) {
        for n in 0..READS {
            let now = self.elapsed();
            let behind = self.sides[flow][side].stamp.saturating_sub(now);
            if behind > MOST_BEHIND {
                return (false, now + behind - MOST_BEHIND);
            }
            let mut vnet = [0; VNET];
            let (length, waited) = match &self.sides[flow][side].device {
                Device::Tun(tun) => (system::read_packet(tun, &mut vnet, &mut self.buffer), None),
                Device::Card(card) => {
                    let (length, waited) = system::read_frame(card, &mut vnet, &mut self.buffer);
                    (length, Some(waited))
                }
            };
            if length == 0 {
                return (true, u64::MAX);
            }
            let count = &mut self.counts[side];
            count.reads += 1;
            count.most_reads = count.most_reads.max(n + 1);
            if let Some(waited) = waited {
                count.wait.record(Span(waited));
                if let Some(unit) = Unit::parse_frame(&vnet, &self.buffer[..length]) {
                    self.send(flow, side, now, unit);
                }
                continue;
            }
            let Some(unit) = Unit::parse(&vnet, &self.buffer[..length]) else { continue };
            if let Some(at) = probe::sent_at(&unit) {
                count.wait.record(Span(system::clock().saturating_sub(at)));
                continue;
            }
            self.send(flow, side, now, unit);
        }
        (true, 0)
    }

    /// Splits what was read; its packets leave the host at the rate of its access line.
    fn send(&mut self, flow: usize, side: usize, now: u64, unit: Unit) {
        let unit = Rc::new(unit);
        let is_back = (side == 1) != self.manner.reversed;
        for k in 0..unit.segments {
            let mut pkt = unit.packet(k, flow as u16, is_back);
            pkt.flow = flow_number(pkt.flow, flow, self.sides.len());
            let on_line = self.manner.access.time_for(pkt.frame_len.into()).0.max(1);
            let (Side { stamp, .. }, count) = (&mut self.sides[flow][side], &mut self.counts[side]);
            *stamp = now.max(*stamp + on_line);
            count.packets_in += 1;
            count.ce_in += u64::from(pkt.ecn == Ecn::Ce);
            let at = Time(*stamp);
            set_id(&mut pkt, self.arrivals);
            self.arrivals = self.arrivals.wrapping_add(1);
            let slot = Slot { segment: Segment { unit: Rc::clone(&unit), k }, carriers: 1 };
            if let Some(log) = &mut self.log {
                log.add(&Record::Arrival(at, Arrival::of(&pkt, unit.ends())));
                if self.manner.keeps_headers {
                    let bytes = Train::new(&slot.segment, &pkt).complete_headers();
                    log.add(&Record::Headers { id: id(&pkt), bytes });
                }
            }
            let handle = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            });
            self.slots[handle as usize] = Some(slot);
            pkt.ecn_bytes.ect0 = handle;
            self.transit.send(at, pkt);
        }
    }

    /// One of a packet's copies is gone.
    fn release(&mut self, pkt: &Packet) {
        let handle = pkt.ecn_bytes.ect0;
        let slot = &mut self.slots[handle as usize];
        let carriers = &mut slot.as_mut().expect("it is in the network").carriers;
        *carriers -= 1;
        if *carriers == 0 {
            *slot = None;
            self.free.push(handle);
        }
    }

    /// Counts what the network has lost and copied.
    fn settle(&mut self) {
        if let (Some(steps), Some(log)) = (&mut self.transit.steps, &mut self.log) {
            for Step { crossed, left, pkt } in steps.drain(..) {
                log.add(&Record::Step {
                    at: pkt.enqueued_at,
                    id: id(&pkt),
                    crossed,
                    ecn: pkt.ecn.get().bits(),
                    flags: flags_of(&pkt),
                    left,
                });
            }
        }
        let mut fates = std::mem::take(&mut self.fates);
        self.transit.take_fates(&mut fates);
        for (pkt, copies) in fates.copied.drain(..) {
            let slot = self.slots[pkt.ecn_bytes.ect0 as usize].as_mut();
            slot.expect("it is in the network").carriers += copies;
            let side = self.source(pkt.is_ack().into());
            self.counts[side].copied += u64::from(copies);
        }
        for (pkt, why) in fates.lost.drain(..) {
            let side = self.source(pkt.is_ack().into());
            self.counts[side].lost += 1;
            if let Some(log) = &mut self.log {
                let at = pkt.enqueued_at;
                log.add(&Record::Loss { at, id: id(&pkt), hop: pkt.hop, why: why as u8 });
            }
            self.release(&pkt);
        }
        self.fates = fates;
    }

    /// Writes what has left the network on one way and is due. When to come back.
    fn write(&mut self, flow: usize, back: usize) -> u64 {
        let from = self.source(back);
        for _ in 0..WRITES {
            let waiting = &self.transit.departed[flow][back];
            let Some(head) = waiting.front() else { return u64::MAX };
            let now = self.elapsed();
            let segment = |pkt: &Packet| {
                let slot = self.slots[pkt.ecn_bytes.ect0 as usize].as_ref();
                &slot.expect("it is in the network").segment
            };
            let mut train = Train::new(segment(head), head);
            let mut due = head.enqueued_at.0;
            if train.is_open(head) && (self.manner.joins_udp || head.flags.has(Flags::DATA)) {
                let limit = now.max(due + self.manner.hold);
                for pkt in waiting.iter().skip(1) {
                    if pkt.enqueued_at.0 > limit || !train.join(segment(pkt), pkt) {
                        break;
                    }
                    due = pkt.enqueued_at.0;
                }
            }
            if due > now {
                return due;
            }
            let device = &self.sides[flow][1 - from].device;
            let link = segment(head).unit.link();
            let written = if head.flags.has(Flags::CORRUPT) {
                let whole = train.corrupted();
                self.gather.write(device, [&[0; VNET][..], link, &whole].into_iter())
            } else {
                let (mut vnet, mut headers) = ([0; VNET], [0; MOST_HEADERS]);
                let length = train.write_headers(&mut vnet, &mut headers);
                let first = [&vnet[..], link, &headers[..length]].into_iter();
                let payloads = waiting.iter().take(train.count);
                let payloads = payloads.map(|pkt| Train::payload(segment(pkt)));
                self.gather.write(device, first.chain(payloads))
            };
            self.count(flow, back, train.count, now, written.is_err());
        }
        0
    }

    /// Counts and takes out what was written at `now`.
    fn count(&mut self, flow: usize, back: usize, packets: usize, now: u64, is_refused: bool) {
        let from = self.source(back);
        let count = &mut self.counts[from];
        count.writes += 1;
        count.refused += u64::from(is_refused);
        for _ in 0..packets {
            let pkt = self.transit.departed[flow][back].pop_front().expect("it was written");
            let count = &mut self.counts[from];
            count.late.record(Span(now - pkt.enqueued_at.0));
            count.packets_out += 1;
            count.bytes_out += u64::from(pkt.frame_len);
            count.payload_out += u64::from(pkt.payload);
            count.ce_out += u64::from(pkt.ecn == Ecn::Ce);
            if count.first == 0 {
                count.first = now;
            }
            count.last = now;
            self.record_departure(&pkt, Time(now));
            self.release(&pkt);
        }
    }

    fn record_departure(&mut self, pkt: &Packet, written: Time) {
        let Some(log) = &mut self.log else { return };
        log.add(&Record::Departure {
            due: pkt.enqueued_at,
            written,
            id: id(pkt),
            ecn: pkt.ecn.get().bits(),
            flags: flags_of(pkt),
        });
    }

    /// Answers those who watch the bottleneck and change it.
    fn answer(&mut self) {
        let Some(mut control) = self.control.take() else { return };
        while let Some(request) = control.next() {
            let answer = match &request {
                Request::Change { change } => self.change(&mut control, change),
                Request::Sample {} => Ok(self.sample(&mut control)),
                Request::Report {} => {
                    Ok(json!({ "now_ns": self.elapsed(), "queues": self.queues() }))
                }
                Request::Histograms {} => Ok(self.histograms()),
            };
            control
                .tell(&answer.map_or_else(|e| json!({ "refused": e }), |ok| json!({ "ok": ok })));
        }
        self.control = Some(control);
    }

    /// Changes a link from now on. The log has it, so a replay makes it, too.
    fn change(&mut self, control: &mut Control, change: &Value) -> Result<Value, String> {
        let at = self.transit.reached();
        let mut change = change.clone();
        match change.as_object_mut() {
            // The delays of the hosts are ahead of the network.
            Some(keys) if !keys.contains_key("flow") => {
                keys.insert("time_ns".to_owned(), at.0.into())
            }
            _ => return Err("only links and impairments can change".to_owned()),
        };
        let mut changed = control.run.clone();
        add_change(&mut changed, change.clone());
        let run = Run::from_json(&changed.to_string()).map_err(|e| e.to_string())?;
        run.check().map_err(|e| e.to_string())?;
        self.transit.change(&run).map_err(|e| e.to_string())?;
        control.run = changed;
        if let Some(log) = &mut self.log {
            log.add(&Record::Change(change.to_string()));
        }
        Ok(json!({ "time_ns": at.0 }))
    }

    /// What has happened since the last sample.
    fn sample(&mut self, control: &mut Control) -> Value {
        let mut series = Series::default();
        let seconds = self.transit.sample(&mut series);
        if seconds > 0.0 {
            let count = &self.counts[self.source(0)];
            let now =
                [count.bytes_out, count.payload_out, count.packets_out, count.ce_out, count.lost];
            let [bytes, payload, packets, ce, lost] =
                std::array::from_fn(|i| (now[i] - control.counted[i]) as f64);
            control.counted = now;
            series.row(self.transit.reached().as_secs_f64(), 0, u16::MAX, None);
            series.gauge("rate_mbps", bytes * 8e-6 / seconds);
            series.gauge("goodput_mbps", payload * 8e-6 / seconds);
            series.gauge("delivered_packets", packets);
            series.gauge("ce_packets", ce);
            series.gauge("dropped_packets", lost);
        }
        let text = series_as_json(&series, &control.flows, &control.links);
        let series: Value = serde_json::from_str(&text).unwrap_or_default();
        json!({ "now_ns": self.elapsed(), "series": series, "late_ms": Quantiles::from(&self.counts[0].late) })
    }

    fn histograms(&self) -> Value {
        let mut queues = Vec::new();
        for (link, reports) in self.transit.reports() {
            for queue in reports {
                let bins = queue.sojourn.bins();
                let row = |b: &Bin| (b.low.as_millis_f64(), b.high.as_millis_f64(), b.count);
                let bins: Vec<_> = bins.iter().map(row).collect();
                queues.push(json!({ "link": link, "queue": queue.name, "bins": bins }));
            }
        }
        queues.into()
    }

    fn queues(&self) -> Vec<QueueRow> {
        let mut queues = Vec::new();
        for (link, reports) in self.transit.reports() {
            queues.extend(reports.into_iter().map(|q| QueueRow {
                link: link.clone(),
                queue: q.name,
                arrived: q.counts.arrived,
                sent: q.counts.sent,
                sent_bytes: q.counts.sent_bytes,
                dropped: q.counts.dropped,
                overflowed: q.counts.overflowed,
                marked: q.counts.marked,
                step_marked: q.counts.step_marked,
                sojourn_ms: Quantiles::from(&q.sojourn),
                sojourn_mean_ms: q.sojourn.mean_ms(),
                backlog_max: q.backlog_max,
            }));
        }
        queues
    }

    /// Frames of both sides that came while the buffers of their sockets were full; of TUN devices nobody knows it here.
    pub fn card_drops(&self) -> Vec<Option<u64>> {
        let sides = self.sides.iter().flatten();
        let cards = sides.filter_map(|side| match &side.device {
            Device::Card(card) => Some(card),
            Device::Tun(_) => None,
        });
        cards.map(system::card_drops).collect()
    }

    /// Ends the log, and tells what was counted.
    pub fn finish(mut self, notes: &mut Vec<String>) -> Summary {
        let seconds = self.elapsed() as f64 * 1e-9;
        let cpu = system::processor_time();
        for pkt in std::mem::take(&mut self.transit.departed).into_iter().flatten().flatten() {
            self.record_departure(&pkt, Time::ZERO);
        }
        let end = self.transit.reached();
        if let Some(mut log) = self.log.take() {
            log.add(&Record::End(end));
            if let Err(e) = log.finish() {
                notes.push(format!("the log is not complete: {e}"));
            }
        }
        let spent = |i: usize| (cpu[i] - self.cpu[i]) as f64 * 1e-9;
        let frames: u64 = self.counts.iter().map(|count| count.packets_out).sum();
        let queues = self.queues();
        Summary {
            seconds,
            directions: self.counts.each_ref().map(Direction::from),
            queues,
            user_s: spent(0),
            system_s: spent(1),
            frames_per_cpu_s: frames as f64 / (spent(0) + spent(1)).max(1e-9),
            command_status: 0,
            realtime: false,
            notes: Vec::new(),
        }
    }
}
