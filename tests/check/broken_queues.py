"""Queues with a planted fault, each a change of `Plain`."""

from __future__ import annotations

from collections import deque

from l4slab.own import Link, Packet, Queue, time, whole


class Plain(Queue):
    """PI2 with ECN: the square of a probability that follows the delay (RFC 9332, Appendix A, without L)."""

    limit = whole(1000, "packets that it holds", least=1)
    target = time("15ms", "delay that it aims at")

    def __init__(self) -> None:
        self.waiting: deque[Packet] = deque()
        self.p = self.was_ns = 0.0
        self.due_ns = 0

    def enqueue(self, packet: Packet, link: Link) -> None:
        if len(self.waiting) >= self.limit:
            link.drop(packet, overflow=True)
        else:
            self.waiting.append(packet)

    def next_packet(self, link: Link) -> Packet | None:
        return self.waiting.popleft() if self.waiting else None

    def signal(self, packet: Packet, link: Link) -> bool:
        """Whether the packet goes on."""
        if packet.ecn != "not-ect" and self.p < 0.5:
            link.mark(packet)
            return True
        link.drop(packet)
        return False

    def update(self, link: Link) -> None:
        while self.due_ns <= link.now_ns:
            delay = link.now_ns - self.waiting[0].arrived_ns if self.waiting else 0
            self.p += (0.16 * (delay - self.target) + 3.2 * (delay - self.was_ns)) / 1e9
            self.p, self.was_ns = min(max(self.p, 0.0), 1.0), delay
            self.due_ns += 16_000_000

    def dequeue(self, link: Link) -> Packet | None:
        self.update(link)
        while (packet := self.next_packet(link)) is not None:
            if len(self.waiting) < 2 or max(link.random(), link.random()) >= self.p or self.signal(packet, link):
                return packet
        return None


class Drops(Plain):
    """Loses a packet in twenty."""

    def enqueue(self, packet: Packet, link: Link) -> None:
        if link.random() < 0.05:
            link.drop(packet)
        else:
            super().enqueue(packet, link)


class Blind(Plain):
    """Marks also what is Not-ECT, and sends it."""

    def signal(self, packet: Packet, link: Link) -> bool:
        link.mark(packet)
        return True


class Shuffles(Plain):
    """Sends the newest packet first, one time in ten."""

    def next_packet(self, link: Link) -> Packet | None:
        if len(self.waiting) > 1 and link.random() < 0.1:
            return self.waiting.pop()
        return super().next_packet(link)


class Bytes(Plain):
    """Signals to packets in proportion to their length."""

    def signal(self, packet: Packet, link: Link) -> bool:
        return link.random() * 1514 > packet.length or super().signal(packet, link)


class Starves(Plain):
    """Two queues of which L goes first, always."""

    bands = ("L", "C")

    def __init__(self) -> None:
        super().__init__()
        self.low: deque[Packet] = deque()

    def enqueue(self, packet: Packet, link: Link) -> None:
        if packet.ecn in ("ect1", "ce") and len(self.low) < self.limit:
            packet.band = "L"
            self.low.append(packet)
        else:
            packet.band = "C"
            super().enqueue(packet, link)

    def dequeue(self, link: Link) -> Packet | None:
        self.update(link)
        if not self.low:
            return super().dequeue(link)
        packet = self.low.popleft()
        if link.random() < 2 * self.p or link.now_ns - packet.arrived_ns > 1_000_000:
            link.mark(packet)
        return packet
