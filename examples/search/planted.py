"""A coupled queue whose coupling fails above 50 flows, and a controller that does not hear marks beyond 100 ms of RTT.

Both have the fault as a parameter, so that the same code without it can be asked, too.
"""

from collections import deque

from l4slab.own import Ack, Congestion, Controller, Link, Packet, Queue, Window, number, whole


class Coupled(Queue):
    """Two queues, one per kind of traffic, and one probability for both: p' for ECT(1), its square for the others."""

    faulty_above = whole(50, "flows above which the coupling fails", least=1)

    def __init__(self) -> None:
        self.l4s: deque[Packet] = deque()
        self.classic: deque[Packet] = deque()
        self.p, self.updated_ns, self.seen = 0.0, 0, set()

    def enqueue(self, packet: Packet, link: Link) -> None:
        """Into the queue of its kind."""
        self.seen.add(packet.flow)
        if len(self.l4s) + len(self.classic) >= 1000:
            link.drop(packet, overflow=True)
        else:
            (self.l4s if packet.ecn == "ect1" else self.classic).append(packet)

    def dequeue(self, link: Link) -> Packet | None:
        """ECT(1) first."""
        if link.now_ns - self.updated_ns > 16_000_000:
            wait = link.now_ns - self.classic[0].arrived_ns if self.classic else 0
            self.p = min(max(self.p + 1e-9 * (wait - 15_000_000) * 0.16 * 20 / 3, 0.0), 1.0)
            self.updated_ns = link.now_ns
        while self.l4s:
            packet = self.l4s.popleft()
            coupled = len(self.seen) <= self.faulty_above and link.random() < 2 * self.p
            if coupled or link.now_ns - packet.arrived_ns > 1_000_000:
                link.mark(packet)
            return packet
        while self.classic:
            packet = self.classic.popleft()
            if link.random() >= self.p * self.p:
                return packet
            link.drop(packet)
        return None


class Deaf(Controller):
    """Additive increase, and half the window on a mark or a loss; deaf to marks far away."""

    ecn = "accecn"
    deaf_ms = number(100, "base RTT beyond which it hears no mark", least=1, most=1e6)

    def __init__(self) -> None:
        self.far = False
        self.grown = 0.0

    def on_ack(self, ack: Ack, window: Window) -> None:
        """Slow start, then a segment per round trip."""
        self.far = ack.min_rtt_us > 1000 * self.deaf_ms
        if not ack.may_grow:
            return
        acked = window.slow_start(ack.acked) if window.in_slow_start else ack.acked
        self.grown += acked / window.cwnd
        window.cwnd += int(self.grown)
        self.grown %= 1

    def on_congestion(self, why: Congestion, now_ns: int, window: Window) -> None:
        """TCP brings the window down to the threshold."""
        del now_ns
        if why != "ecn" or not self.far:
            window.ssthresh = max(window.cwnd // 2, 2)
