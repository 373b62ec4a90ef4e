//! What applications do in a run: requests that open and close connections, and video.

use super::recording::{Transfer, TransferKind};
use super::{ELEMENTS_PER_FLOW, Simulation, make_tcp};
use crate::net::tap::Tap;
use crate::packet::{FlowId, Packet};
use crate::time::{Span, Time};
use crate::traffic::web::ideal_transfer;
use crate::units::ETHERNET_HEADER;

/// Connections that come and go. Each has a flow number of its own, so that a late packet finds nobody;
/// its ends are in a place that serves one connection after the other.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// Number of the first one.
    first: FlowId,
    /// Where the ends of each one are; `NOWHERE` when it is over.
    ends: Vec<u32>,
    free: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Connections {
    pub fn new(first: FlowId) -> Connections {
        Connections { first, ..Connections::default() }
    }
    /// The place of a flow's ends.
    #[inline]
    pub fn end(&self, flow: FlowId) -> Option<usize> {
        let number = flow.checked_sub(self.first)?;
        let end = *self.ends.get(number as usize)?;
        (end != NOWHERE).then_some(end as usize)
    }
    /// The number that the next one gets.
    fn next(&self) -> FlowId {
        self.first + self.ends.len() as FlowId
    }
    fn close(&mut self, flow: FlowId) {
        let end = std::mem::replace(&mut self.ends[(flow - self.first) as usize], NOWHERE);
        self.free.push(end);
    }
}

impl<T: Tap> Simulation<T> {
    /// A source of web requests wants to be woken.
    pub(super) fn wake_web(&mut self, web: usize) {
        if self.webs[web].requests.next() <= self.now {
            self.webs[web].requests.advance(self.now);
            self.open(web);
        }
        self.set_web(web);
    }
    fn set_web(&mut self, web: usize) {
        self.events.set(self.web_elements[web], self.webs[web].requests.next());
    }
    pub(super) fn start_web(&mut self, web: usize) {
        self.webs[web].requests.start(self.now);
        self.set_web(web);
    }

    pub(super) fn stop_web(&mut self, web: usize) {
        self.webs[web].requests.stop(self.now);
        self.set_web(web);
    }

    /// A client opens a connection to ask for what is drawn next.
    fn open(&mut self, web: usize) {
        let flow = self.connections.next();
        let source = &mut self.webs[web];
        let (bytes, group) = (source.size(), source.group);
        let (mut sender, receiver) = make_tcp(self.seed, &source.spec, flow, group, Some(bytes));
        sender.listen(self.now);
        let end = match self.connections.free.pop() {
            Some(end) => {
                self.senders[end as usize] = sender;
                self.receivers[end as usize] = receiver;
                end
            }
            None => {
                self.senders.push(sender);
                self.receivers.push(receiver);
                for _ in 0..ELEMENTS_PER_FLOW {
                    self.events.add_element();
                }
                self.senders.len() as u32 - 1
            }
        };
        self.connections.ends.push(end);
        let g = &mut self.groups[usize::from(group)];
        g.ends.push(end);
        g.begun += u64::from(self.now >= self.warmup);
        let now = self.now;
        self.with_receiver(end as usize, |receiver, _, out| receiver.connect(now, out));
    }

    /// The place serves another connection from now on.
    pub(super) fn close(&mut self, end: usize) {
        let transfer = self.transfer_of(end);
        self.transfers.extend(transfer);
        let sender = &self.senders[end];
        let flow = sender.flow();
        let g = &mut self.groups[usize::from(sender.group())];
        g.closed_retransmitted += sender.retransmitted;
        g.note_mode(sender, &self.receivers[end]);
        g.ends.retain(|&e| e as usize != end);
        self.connections.close(flow);
        let first = self.first_flow_element + end as u32 * ELEMENTS_PER_FLOW;
        for element in first..first + ELEMENTS_PER_FLOW {
            self.events.set(element, Time::NEVER);
        }
    }

    /// What the client of a connection got, or the receiver of a flow with an end; `None`: not all of it.
    pub(super) fn transfer_of(&self, end: usize) -> Option<Transfer> {
        let (sender, receiver) = (&self.senders[end], &self.receivers[end]);
        let (bytes, done) = (sender.bytes()?, receiver.completed_at?);
        let asked_at = receiver.asked_at();
        let g = &self.groups[usize::from(sender.group())];
        // Before the first byte of data leaves: the handshake, and of a client its request.
        let forward = self.delay(g.forward.pipe);
        let backward = self.delay(g.reverse.pipe);
        let before = match asked_at {
            Some(_) => backward + forward + backward,
            None => forward + backward,
        };
        let window = sender.window();
        let frame = u64::from(window.mtu() + ETHERNET_HEADER);
        let segments = bytes.div_ceil(u64::from(window.mss));
        let shapers = g.forward.links().map(|l| &self.links[l].shaper);
        let slowest = shapers.min_by_key(|s| s.rate().bps())?;
        let (rate, burst) = (slowest.rate(), slowest.burst_bytes());
        let data = ideal_transfer(segments, frame, forward + backward, rate, burst);
        Some(Transfer {
            group: sender.group(),
            kind: if asked_at.is_some() { TransferKind::Request } else { TransferKind::Flow },
            start: sender.started_at,
            bytes: Some(bytes),
            completion: done.since(sender.started_at),
            response: Some(done.since(asked_at.unwrap_or(sender.established_at))),
            ideal: Some(before + data + forward),
            retransmits: Some(sender.retransmitted),
        })
    }
    fn delay(&self, pipe: Option<usize>) -> Span {
        pipe.map_or(Span::ZERO, |p| self.air.pipes[p].delay())
    }

    // --- video ------------------------------------------------------------------------------

    /// A frame is due, or a movement.
    pub(super) fn wake_video(&mut self, v: usize) {
        let now = self.now;
        let video = &mut self.videos[v];
        if video.next_frame() <= now {
            let bytes = video.frame(now);
            let end = video.flow() as usize;
            self.with_sender(end, |sender, _, out| sender.write(now, bytes, out));
        }
        let video = &mut self.videos[v];
        if video.next_movement() <= now {
            let message = video.movement(now);
            let path = &self.groups[usize::from(video.group())].reverse;
            self.air.launch(path, now, &mut self.events, |_, out| out.push_back(message));
        }
        self.set_video(v);
    }
    pub(super) fn stop_video(&mut self, v: usize) {
        self.videos[v].stop(self.now);
        self.set_video(v);
    }
    fn set_video(&mut self, v: usize) {
        let video = &self.videos[v];
        let next = video.next_frame().min(video.next_movement());
        self.events.set(self.video_elements[v], next);
    }

    /// The sender of a video's flow was called: its first frame follows the handshake.
    #[cold]
    pub(super) fn after_video_sender(&mut self, v: usize, end: usize) {
        let (video, sender) = (&mut self.videos[v], &mut self.senders[end]);
        while let Some(mark) = sender.take_mark() {
            video.on_sent(mark);
        }
        if sender.is_established() && !video.has_started() {
            video.start(self.now);
            self.set_video(v);
        }
    }
    #[cold]
    pub(super) fn after_video_receiver(&mut self, v: usize, end: usize) {
        let next = self.receivers[end].next();
        self.videos[v].on_received(self.now, next, &mut self.transfers);
    }

    /// A viewer's message has reached the server.
    #[cold]
    pub(super) fn on_message(&mut self, pkt: &Packet) {
        let g = &self.groups[usize::from(pkt.group)];
        if let Some(v) = g.video(pkt.flow as usize) {
            self.videos[v].on_message(self.now, pkt.seq);
        }
    }
}
