"""A connection between a script's numbers and the core's: bytes there, segments here.

What a segment holds follows from where segments begin and end: those of the peer in the script, those of the host
where it has cut them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from l4slab import _core
from l4slab.tools.packetdrill.script import Options, Segment

START_NS = 16_384_000_000
"""The core's time when a script begins, on a tick of each level of the kernel's timers."""
_OWN_MSS, _OWN_WSCALE = 1460, 8
_STAMPS_LENGTH = 12
# ECN fields as scripts write them.
FIELDS = {"noecn": 0, "ect1": 1, "ect0": 2, "ce": 3}


class NotApplicable(Exception):
    """The script asks for what the simulator's TCP does not mean."""


@dataclass(frozen=True)
class Sysctls:
    """`net.ipv4.tcp_*` that matter, as the scripts' `defaults.sh` sets them."""

    values: Mapping[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int:
        return int(self.values.get(name, _DEFAULTS[name]).split()[0], 0)

    @property
    def controller(self) -> str:
        return self.values.get("congestion_control", "cubic")


_SWITCHES = ("slow_start_after_idle", "ecn_option", "ecn_fallback", "min_tso_segs", "paces")
_DEFAULTS = {
    "ecn": "0",
    "timestamps": "1",
    "sack": "1",
    "slow_start_after_idle": "0",
    "ecn_option": "2",
    "ecn_fallback": "1",
    "min_tso_segs": "2",
    "paces": "0",
}
_ASKS = {0: "off", 1: "classic", 2: "off", 3: "accecn", 4: "classic", 5: "off"}
_ACCEPTS = {0: "off", 1: "classic", 2: "classic", 3: "accecn", 4: "accecn", 5: "accecn"}


@dataclass
class Stamps:
    """Timestamps of the script and of the host's clock, ms."""

    known: dict[int, int] = field(default_factory=dict)
    offset: int | None = None

    def meet(self, of_script: int, live: int) -> int:
        """The host has said `live` where the script says `of_script`. Returns what it says in the script's count."""
        if self.offset is None:
            self.offset = of_script - live
        self.known[of_script] = live
        return live + self.offset

    def live(self, of_script: int) -> int:
        return self.known.get(of_script, of_script - (self.offset or 0))


class Connection:
    """One connection of the host under test. `peer`: the SYN or SYN/ACK of the other end, None if none comes;
    `data`: all segments of data that it sends.
    """

    def __init__(
        self, sysctls: Sysctls, now_ns: int, peer: Segment | None, data: Sequence[Segment], *, is_client: bool
    ) -> None:
        theirs = (peer.options if peer is not None else None) or Options()
        self.is_client, self.peer = is_client, theirs
        self.has_stamps = sysctls.number("timestamps") > 0 and (peer is None or theirs.stamps is not None)
        self.asks_stamps = sysctls.number("timestamps") > 0
        if peer is not None and not (theirs.sack_ok and sysctls.number("sack")):
            raise NotApplicable("a connection without SACK")
        mss = min(theirs.mss or 536, _OWN_MSS) if peer is not None else _OWN_MSS
        ecn = (_ASKS if is_client else _ACCEPTS).get(sysctls.number("ecn"), "off")
        self.end = _core.Endpoint(
            sysctls.controller,
            ecn,
            mss - _STAMPS_LENGTH * self.has_stamps,
            self.has_stamps,
            {name: sysctls.number(name) for name in _SWITCHES},
        )
        self.first = (peer.seq if peer is not None else 0) + 1
        self.stamps = Stamps()
        self.own_ends: list[int] = []
        self.their_ends = self._ends(data)
        self.offered = self.first
        self.has_fin = False
        self.end.start(now_ns, is_client)

    def _ends(self, data: Sequence[Segment]) -> list[int]:
        """Where each of the peer's segments ends. A FIN takes one number, and is a segment if it comes alone."""
        marks = set()
        for one in data:
            marks |= {one.seq, one.seq + one.length + one.has("F")}
        return sorted(mark for mark in marks if mark > self.first)

    # --- in ------------------------------------------------------------------------------------

    def arrive(self, now_ns: int, segment: Segment) -> None:
        """A packet of the script arrives."""
        options = segment.options or Options()
        if segment.has("R"):
            self.end.abort()
            return
        arrival: dict[str, Any] = {
            "is_syn": segment.has("S"),
            "bits": segment.bits,
            "field": self._field(segment.ecn),
            "window": self._window(segment),
            "is_pushed": segment.has("P"),
        }
        if segment.ack is not None and not (segment.has("S") and not self.is_client):
            if segment.ack > (self.own_ends or [1])[-1]:
                return
            arrival["ack"] = bisect_right(self.own_ends, segment.ack)
            blocks = [self._block(*block) for block in options.sack]
            arrival["is_dsack"] = self._is_dsack(segment, options)
            arrival["blocks"] = [block for block in blocks if block[0] < block[1]][:3]
        if options.stamps is not None and self.has_stamps:
            arrival["tsval_ms"] = options.stamps[0]
            if options.stamps[1]:
                arrival["echo_ms"] = self.stamps.live(options.stamps[1])
        if options.accecn is not None:
            arrival["option"] = tuple(options.accecn.get(name, default) for name, default in _COUNTERS)
        pieces = self._pieces(segment)
        for number, (index, payload, is_fin) in enumerate(pieces or [(None, 0, False)]):
            if number > 0:
                arrival.pop("ack", None)
            if index is not None:
                arrival |= {"data": (index, payload), "is_fin": is_fin}
            self.end.arrive(now_ns, arrival)

    def _pieces(self, segment: Segment) -> list[tuple[int, int, bool]]:
        """Number, payload and FIN of the peer's segments that a packet holds."""
        if segment.has("S") or segment.length + segment.has("F") == 0:
            return []
        end = segment.seq + segment.length + segment.has("F")
        low, high = bisect_right(self.their_ends, segment.seq), bisect_right(self.their_ends, end)
        pieces = []
        for index in range(low, high):
            begin = self._begin(index)
            is_fin = segment.has("F") and index == high - 1
            pieces.append((index, self.their_ends[index] - begin - is_fin, is_fin))
        self.has_fin |= segment.has("F")
        return pieces

    def _begin(self, index: int) -> int:
        return self.their_ends[index - 1] if index else self.first

    def _block(self, start: int, end: int) -> tuple[int, int]:
        begins = [1, *self.own_ends]
        return bisect_left(begins, start), bisect_right(self.own_ends, end)

    @staticmethod
    def _is_dsack(segment: Segment, options: Options) -> bool:
        """RFC 2883: the first block is below the ACK, or within the second."""
        if not options.sack or segment.ack is None:
            return False
        (start, end), second = options.sack[0], options.sack[1:2]
        return end <= segment.ack or any(s <= start and end <= e for s, e in second)

    def _window(self, segment: Segment) -> int:
        scale = self.peer.wscale or 0 if not segment.has("S") else 0
        return (segment.window or 0) << scale

    @staticmethod
    def _field(word: str) -> int:
        return next((number for name, number in FIELDS.items() if name in word.split(",")), 0)

    # --- out -----------------------------------------------------------------------------------

    def take(self) -> list[tuple[int, Segment]]:
        """What the host has sent since the last call, with the core's time in ns."""
        return [(sent["at_ns"], self._segment(sent)) for sent in self.end.take_sent()]

    def _segment(self, sent: Mapping[str, Any]) -> Segment:
        flags = "".join(letter for letter, bit in (("E", 1), ("W", 2), ("A", 4)) if sent["bits"] & bit)
        option = sent["option"]
        accecn = None if option is None else dict(zip(("e0b", "ceb", "e1b"), option, strict=True))
        stamps = (sent["tsval_ms"], sent["echo_ms"])
        if sent["is_syn"]:
            return self._syn(flags, self._word(sent), accecn, stamps)
        seq, length = self._place(sent)
        flags += "F" * sent["is_fin"] + "P" * sent["is_pushed"] + "."
        ack = self._begin(sent["ack"])
        sack = tuple((self._begin(start), self.their_ends[end - 1]) for start, end in sent["blocks"])
        options = Options(stamps=stamps if self.has_stamps else None, sack=sack, accecn=accecn)
        return Segment(False, flags, seq, length, ack, None, self._word(sent), options)

    def _syn(self, flags: str, field: str, accecn: Mapping[str, int] | None, stamps: tuple[int, int]) -> Segment:
        is_scaled = self.is_client or self.peer.wscale is not None
        options = Options(
            mss=_OWN_MSS,
            wscale=_OWN_WSCALE if is_scaled else None,
            sack_ok=True,
            stamps=stamps if (self.asks_stamps if self.is_client else self.has_stamps) else None,
            accecn=accecn,
        )
        if self.is_client:
            return Segment(False, f"S{flags}", 0, 0, None, None, field, options)
        return Segment(False, f"S{flags}.", 0, 0, self.first, None, field, options)

    def _place(self, sent: Mapping[str, Any]) -> tuple[int, int]:
        """Sequence number and payload."""
        seq, length = sent["seq"], sent["payload"]
        begin = self.own_ends[seq - 1] if seq else 1
        if sent["is_data"] and seq == len(self.own_ends):
            self.own_ends.append(begin + length + sent["is_fin"])
        # A probe of the window repeats what is acknowledged.
        is_probe = sent["is_again"] and not sent["is_data"]
        return begin - is_probe, length

    @staticmethod
    def _word(sent: Mapping[str, Any]) -> str:
        return next(name for name, number in FIELDS.items() if number == sent["field"])

    # --- for the application -------------------------------------------------------------------

    def received(self) -> int:
        """Bytes that have arrived in sequence."""
        _, segments, _ = self.end.received()
        return self._begin(segments) - self.first - (self.has_ended(segments))

    def has_ended(self, segments: int | None = None) -> bool:
        """The peer's FIN has arrived in sequence."""
        if segments is None:
            segments = self.end.received()[1]
        return self.has_fin and segments == len(self.their_ends)

    def info(self, now_ns: int) -> dict[str, int]:
        """`tcp_info`, with `tcpi_` before each name."""
        _, _, mode = self.end.received()
        options = 1 * self.has_stamps + 2 + 4 * (self.peer.wscale is not None) + 8 * (mode != "off")
        told = {f"tcpi_{name}": value for name, value in self.end.info(now_ns).items()}
        return told | {"tcpi_options": options, "tcpi_bytes_received": self.received()}


_COUNTERS = (("e0b", 1), ("ceb", 0), ("e1b", 1))
