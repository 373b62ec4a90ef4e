"""NAME: first in, first out; marks ECT(1) that has waited longer than a threshold."""

from collections import deque

from l4slab.own import Link, Packet, Queue, gauge, time, whole


class CLASS(Queue):
    """First in, first out; marks ECT(1) that has waited longer than a threshold."""

    # Parameters: the words behind the name, `limit 100 threshold 2ms`. An object finds their values.
    limit = whole(1000, "packets that it holds", least=1)
    threshold = time("1ms", "an ECT(1) packet that has waited longer is marked")
    # A column of the time series.
    step_marks = gauge("marks since the start")

    def __init__(self) -> None:
        self.waiting: deque[Packet] = deque()
        self.marked = 0

    def enqueue(self, packet: Packet, link: Link) -> None:
        """Keeps the packet, if there is room."""
        if len(self.waiting) >= self.limit:
            link.drop(packet, overflow=True)
        else:
            self.waiting.append(packet)

    def dequeue(self, link: Link) -> Packet | None:
        """The oldest packet."""
        if not self.waiting:
            return None
        packet = self.waiting.popleft()
        if packet.ecn == "ect1" and link.now_ns - packet.arrived_ns > self.threshold:
            self.marked += link.mark(packet)
        self.step_marks = self.marked
        return packet
