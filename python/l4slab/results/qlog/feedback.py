"""ECN as the ACKs of a connection echo it, as the counts that an ACK of QUIC has (RFC 9000, 19.3.2): packets."""

from __future__ import annotations

from l4slab.results.qlog.frames import ACK, AE, CWR, ECE, SYN, Segment

# What the byte counters of the option begin with (RFC 9768, 3.2.1).
_FIRST = {"ect0": 1, "ce": 0, "ect1": 1}
# What the counter of packets begins with, and after how many it comes round.
_ACE_FIRST, _ACE = 5, 8


class Feedback:
    """The counts of one connection."""

    def __init__(self) -> None:
        self.mode = "off"
        self._offered = 0
        self._ace = _ACE_FIRST
        self._echoing = False
        self._bytes = dict(_FIRST)
        self._ce = 0

    def offer(self, syn: Segment) -> None:
        """The SYN leaves."""
        self._offered = syn.flags & (AE | CWR | ECE)

    def agree(self, answer: Segment) -> None:
        """The SYN/ACK arrives: what both ends do (RFC 9768, 3.1)."""
        bits = answer.flags & (AE | CWR | ECE)
        if self._offered == AE | CWR | ECE and bits not in (0, ECE, AE | ECE, AE | CWR | ECE):
            self.mode = "accecn"
        elif self._offered & (CWR | ECE) == CWR | ECE and bits & (CWR | ECE) == ECE:
            self.mode = "classic"

    def hear(self, ack: Segment, counters: dict[str, int], newly: int, payload: int) -> dict[str, int]:
        """The counts after an ACK that newly acknowledges so many packets, `payload` bytes in each full one.

        With AccECN CE is exact: ACE counts packets, and where more than seven may have come with an ACK the option's
        bytes tell how often it went round. Of ECT only bytes are told. Classic ECN has no counts: each time the echo
        begins is one.
        """
        if self.mode == "off" or ack.flags & SYN or not ack.flags & ACK:
            return {}
        if self.mode == "classic":
            echoing = bool(ack.flags & ECE)
            self._ce += echoing and not self._echoing
            self._echoing = echoing
            return {"ce": self._ce}
        before = self._bytes["ce"]
        for name, low in counters.items():
            self._bytes[name] += (low - self._bytes[name]) & 0xFFFFFF
        ace = (bool(ack.flags & AE) << 2) | (bool(ack.flags & CWR) << 1) | bool(ack.flags & ECE)
        delta = (ace - self._ace) % _ACE
        self._ace = ace
        if newly >= _ACE and payload and "ce" in counters:
            delta += round(max(0, (self._bytes["ce"] - before) / payload - delta) / _ACE) * _ACE
        self._ce += delta
        of_bytes = {name: round((self._bytes[name] - _FIRST[name]) / payload) if payload else 0 for name in _FIRST}
        return {"ect0": of_bytes["ect0"], "ect1": of_bytes["ect1"], "ce": self._ce}
