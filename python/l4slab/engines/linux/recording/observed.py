"""The observations of a laboratory, packet by packet and sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from l4slab import _core
from l4slab.base.run import Change, Class, Run
from l4slab.base.run import Link as Spec
from l4slab.engines.linux.flows import CODEPOINTS, Flow
from l4slab.engines.linux.lab import FIRST_PORT, Lab, classid, handles_of, is_of_host
from l4slab.experimentfile.classes import MAY_HOLD, holder, holds
from l4slab.stacks.qlog import Log

Array = npt.NDArray[Any]
PACKET = np.dtype("u8,u8,u2,u2,u2,u2,u1,u1,u1,u1,u4,u4,u4")
PACKET.names = (
    *("in_ns", "out_ns", "flow", "conn", "id", "len", "ecn_in", "ecn_out", "kind", "headers", "number"),
    *("fresh", "damaged"),  # of the engine `real`, where it did not leave: why, as in REASONS from 1 on
)
# What each file of records begins with: `struct format` of lab.c. The version changes where a record does.
FORMAT = np.dtype("S8,u4,u4")
FORMAT.names = ("magic", "version", "record_size")
FORMAT_VERSION = 4
# The words of `union tcp_cc_info`, whose meaning depends on the congestion control.
CC_INFO = tuple(f"cc_{index}" for index in range(6))
SAMPLE = np.dtype("u8,u8,u8" + 20 * ",u4")
SAMPLE.names = (
    *("t_ns", "bytes_acked", "pacing", "flow", "conn", "state", "ecn_mode", "cwnd", "ssthresh"),
    *("srtt_us", "min_rtt_us", "retrans", "delivered", "delivered_ce", "sndbuf_ms"),
    *("mss", "in_flight", *CC_INFO),
)
# `kind` of a packet: forward with payload, forward without (SYN, FIN), and the same on the way back.
PAYLOAD, BACKWARD = 1, 2
NEVER = 0  # out_ns of a packet that did not leave
_NOT_LOST = ""
FOR_EVER = 1 << 62
ECT1, CE = 1, 3
ESTABLISHED, FIN_WAIT1, CLOSE_WAIT = 1, 4, 8
ECN_MODES = ("off", "classic", "accecn", "pending")
# Packets that have left a queue and are not yet on the wire.
_IN_SERVICE = 2
NETEM_LIMIT = 1000  # netem's default
_QDISCS = _core.qdiscs()
REASONS = _core.drop_reasons()
FIFOS = frozenset(one["name"] for one in _QDISCS if one["is_fifo"])
# Queues that drop what has waited, and those whose limit is one of packets.
LATE_DROPS = frozenset(one["name"] for one in _QDISCS if one["drops_waiting"])
PACKET_LIMITS = frozenset(one["name"] for one in _QDISCS if one["limits_packets"])
Span = tuple[int, int]  # from, to (not with it), ns


class CheckError(Exception):
    """The laboratory did not do what was asked; one sentence."""


def head_of(dtype: np.dtype[Any]) -> bytes:
    """The header of a file of these records."""
    return np.array((b"l4slab", FORMAT_VERSION, dtype.itemsize), FORMAT).tobytes()


def check_head(name: str, head: bytes, dtype: np.dtype[Any]) -> None:
    """Raises CheckError where a file is not of these records."""
    if head != head_of(dtype):
        is_other = len(head) == FORMAT.itemsize and head.startswith(b"l4slab\0")
        version = np.frombuffer(head, FORMAT)["version"][0] if is_other else "unknown"
        raise CheckError(
            f"{name} has format {version}, and this l4slab reads format {FORMAT_VERSION}; run l4slab linux build"
        )


class QdiscState(TypedDict, total=False):
    """The fields of `tc -s -j qdisc show` that are read by name. Counters are added to them."""

    kind: str
    handle: str
    parent: str
    qlen: int
    prob: float
    credit: int
    options: dict[str, float]


Output = list[QdiscState]


def count_of(told: QdiscState, *names: str) -> int | None:
    """The first of these counters that it has; None where it has none."""
    counters: Mapping[str, object] = told
    return next((found for name in names if isinstance(found := counters.get(name), int)), None)


def queue_under_test(output: Output) -> QdiscState:
    """The qdisc below the shaper in one output of `tc -s -j qdisc show`."""
    return next((entry for entry in output if entry.get("parent") == "1:1"), QdiscState())


class Call(NamedTuple):
    """The frames of a call in the order of their capture, arrays of one length; times in ns of the run."""

    captured: Array
    sizes: Array  # bytes
    complete: Array  # when all of it had come; INCOMPLETE: it had not


INCOMPLETE = -1


@dataclass
class Link:
    """The observations at one link. `packets` arrived within the run; the other arrays are per packet."""

    name: str
    packets: Array
    tc: list[tuple[int, Output]]
    spec: Spec
    changes: list[Change]
    duration_ns: int
    flows: Sequence[Flow] = ()
    behind_ns: Array | None = None  # how long it was in a medium behind the queue
    tells_drops: bool = False  # whether the packets say themselves which ones the queue dropped, and why

    @cached_property
    def left(self) -> Array:
        """Whether it left within the run."""
        return _left(self.packets, self.duration_ns)

    @cached_property
    def connection(self) -> Array:
        """A number for its connection and direction, within which queues keep the order."""
        packets = self.packets
        keys = (packets["flow"].astype(np.uint64) << 17 | packets["conn"].astype(np.uint64)) << 1 | packets["kind"] >> 1
        result: Array = np.unique(keys, return_inverse=True)[1]
        return result

    @cached_property
    def dropped(self) -> Array:
        """Whether the queue dropped it: it never left, and a later packet of its connection did; or none did any more,
        and fewer wait in the end.
        """
        packets = self.packets
        lost = packets["out_ns"] == NEVER
        if self.tells_drops:
            told: Array = self.reasons != _NOT_LOST
            return told
        last = np.zeros(int(self.connection.max(initial=-1)) + 1, np.uint64)
        # What leaves after the end tells of drops before it only where packets are dropped as they arrive.
        telling = np.where(self.drops_late, self.left, ~lost)
        np.maximum.at(last, self.connection[telling], packets["in_ns"][telling])
        result: Array = lost & (packets["in_ns"] <= last[self.connection])
        if not self.tc:
            return result
        time, outputs = self.tc[-1]
        inside = ~result & (packets["in_ns"] <= time) & (lost | (packets["out_ns"] > time))
        handles = handles_of(self.spec)
        parents = {one["id"]: classid(handles, one["id"]) for one in self.classes}
        of_parents = {one.get("parent"): one for one in outputs}
        queues = [(self.bands[number], of_parents.get(parent, {})) for number, parent in parents.items()]
        for which, queue in queues or [(np.ones(len(packets), bool), queue_under_test(outputs))]:
            waiting = queue.get("qlen")
            if waiting is not None and (more := int((inside & which).sum()) - int(waiting)) > _IN_SERVICE:
                gone = np.flatnonzero(inside & which & lost)
                result[gone[np.argsort(packets["in_ns"][gone], kind="stable")][:more]] = True
        return result

    @cached_property
    def reasons(self) -> Array:
        """Why the core lost it."""
        return _told(self.packets)

    @cached_property
    def dropped_by_queue(self) -> Array:
        """What its queue dropped, without what a medium behind it lost."""
        result: Array = self.dropped & (self.reasons != "medium") if self.tells_drops else self.dropped
        return result

    @property
    def dropped_ns(self) -> Array:
        """When a drop counts: with the arrival."""
        times: Array = self.packets["in_ns"]
        return times

    @cached_property
    def sojourn_ns(self) -> Array:
        """Time in the queue, of those that left."""
        return np.where(self.left, self.packets["out_ns"] - self.packets["in_ns"], 0).astype(np.int64)

    @property
    def passage_ns(self) -> Array:
        """Time in the queue and in a medium behind it, of those that left the queue."""
        return self.sojourn_ns if self.behind_ns is None else self.sojourn_ns + self.behind_ns

    @cached_property
    def marked(self) -> Array:
        """Whether the queue set CE on it."""
        result: Array = self.left & (self.packets["ecn_in"] != CE) & (self.packets["ecn_out"] == CE)
        return result

    @cached_property
    def qdiscs(self) -> list[tuple[Span, list[str]]]:
        """When each qdisc was in force, and its words, in order of time."""
        return _in_order(self.spec["qdisc"], [(change["time_ns"], change.get("qdisc")) for change in self.changes])

    def qdiscs_of(self, number: str) -> list[tuple[Span, list[str]]]:
        """The same of a class's queue."""
        first = next(one.get("qdisc") for one in self.spec["classes"] if one["id"] == number)
        changes = [(change["time_ns"], one) for change in self.changes for one in change.get("classes", ())]
        return _in_order(first or "", [(time, one.get("qdisc")) for time, one in changes if one["id"] == number])

    def came_in(self, span: Span) -> Array:
        """Which packets came within a span of time. What a qdisc has got leaves from it or is lost with it."""
        result: Array = (self.packets["in_ns"] >= span[0]) & (self.packets["in_ns"] < span[1])
        return result

    @cached_property
    def bands(self) -> dict[str, Array]:
        """The queues inside, of all qdiscs that have them: which packets they got."""
        if self.classes:
            return self._leaves()
        found: dict[str, Array] = {}
        for span, words in self.qdiscs:
            if words[0] == "dualpi2":
                ecn = self.packets["ecn_in"]
                low = ecn != 0 if "any_ect" in words else (ecn == ECT1) | (ecn == CE)
                for band, which in (("L", low), ("C", ~low)):
                    found[band] = found.get(band, False) | (which & self.came_in(span))
        return found

    @property
    def classes(self) -> list[Class]:
        """Those with a queue that holds no further classes."""
        classes = self.spec.get("classes", ())
        numbers = [one["id"] for one in classes]
        return [one for one in classes if (qdisc := one.get("qdisc")) and not holds(one["id"], qdisc, numbers)]

    def _leaves(self) -> dict[str, Array]:
        """By class, which packets it got: the first filter that fits decides."""
        ecn, flow = self.packets["ecn_in"], self.packets["flow"]
        # ACKs have none.
        dscps = [int(flow.spec["dscp"]) for flow in self.flows]
        dscp = np.where(self.packets["kind"] & BACKWARD, 0, np.array([0, *dscps])[flow])
        # A router takes a packet's priority from two bits of its DSCP (`ip_tos2prio`).
        priority = np.array([0, 2, 6, 4])[dscp >> 1 & 3]
        qdiscs = {"": self.spec["qdisc"]} | {
            one["id"]: qdisc for one in self.spec["classes"] if (qdisc := one.get("qdisc")) is not None
        }
        # A class stands before those in its queue.
        held = {outer: words.split() for outer, words in qdiscs.items() if holds(outer, words, qdiscs)}
        came = {"": np.ones(len(flow), bool)}
        for outer, words in held.items():
            if words[0] == MAY_HOLD:
                band = np.ones(len(flow), int)
            elif words[0] in ("htb", "hfsc"):
                band = np.full(len(flow), int(words[2], 16))
            elif words[0] == "drr":
                band = np.zeros(len(flow), int)
            else:
                band = np.array([int(band) + 1 for band in words[-16:]])[priority]
            for rule in reversed(self.spec["filters"]):
                if holder(rule["class"]) != outer:
                    continue
                fits = np.ones(len(flow), bool)
                if "dscp" in rule:
                    fits &= dscp == rule["dscp"]
                if (codepoint := rule.get("ecn")) is not None:
                    fits &= ecn == CODEPOINTS[codepoint]
                if (host := rule.get("host")) is not None:
                    fits &= np.array([False, *is_of_host(host, self.flows)])[flow]
                band[fits] = int(rule["class"].rpartition(":")[2], 16)
            own = [number for number in qdiscs if number and holder(number) == outer]
            came |= {number: came[outer] & (band == int(number.rpartition(":")[2], 16)) for number in own}
        return {one["id"]: came[one["id"]] for one in self.classes}

    def in_force(self, queue: str, begin_ns: int, end_ns: int) -> list[Span]:
        """The parts of a time in which a qdisc with this queue was in force."""
        spans = [span for span, words in self.qdiscs if queue == "all" or self.classes or words[0] == "dualpi2"]
        parts = [(max(begin, begin_ns), min(end, end_ns)) for begin, end in spans]
        return [(begin, end) for begin, end in parts if begin < end]

    @property
    def is_policed(self) -> bool:
        """Whether a policer may have dropped a packet, and not a queue."""
        return "policer" in self.spec or any("policer" in one for one in self.spec.get("filters", ()))

    @cached_property
    def overflowed(self) -> Array:
        """Which packets came to a full FIFO. Those that came after the last one that left it count as lost with it."""
        if self.tells_drops:
            told: Array = self.reasons == "overflow"
            return told
        found = np.zeros(len(self.packets), bool)
        for span, words in () if self.is_policed else self.qdiscs:
            came = self.came_in(span)
            if words[0] in FIFOS and (came & self.left).any():
                last = self.packets["in_ns"][came & self.left].max() if span[1] != FOR_EVER else FOR_EVER
                found |= came & self.dropped & (self.packets["in_ns"] <= last)
        return found

    @cached_property
    def rates(self) -> list[tuple[int, int]]:
        """Since when the link has had which rate, bit/s, in order of time."""
        changed = [(change["time_ns"], change["rate_bps"]) for change in self.changes if change["rate_bps"] is not None]
        return [(0, self.spec["rate_bps"]), *changed]

    def rate_at(self, time_ns: int) -> int:
        """Its rate then."""
        return [rate for begin, rate in self.rates if begin <= time_ns][-1]

    def capacity_bits(self, begin_ns: int, end_ns: int) -> float:
        """The shaper's capacity."""
        ends = [time for time, _ in self.rates[1:]] + [self.duration_ns]
        total = 0.0
        for (start, rate), end in zip(self.rates, ends, strict=True):
            total += rate * max(0, min(end, end_ns) - max(start, begin_ns)) * 1e-9
        return total

    def backlog(self, which: Array) -> tuple[Array, Array]:
        """Times and numbers of packets in the queue just after them. A queue does not tell when it dropped a packet:
        one that drops what has waited does so before the next packet of the connection leaves, others at the arrival.
        """
        out = np.where(self.dropped, self._given_up_ns, self.packets["out_ns"])
        which = which & (out != self.packets["in_ns"])
        begin, out = self.packets["in_ns"][which], out[which]
        end = out[out != NEVER]
        times = np.concatenate([begin, end])
        steps = np.concatenate([np.ones(len(begin), np.int64), -np.ones(len(end), np.int64)])
        # What leaves at an instant makes room for what comes then.
        order = np.lexsort((steps, times))
        return times[order], np.cumsum(steps[order])

    @cached_property
    def _given_up_ns(self) -> Array:
        """Until when a packet that was dropped can have waited."""
        begin = self.packets["in_ns"]
        found = begin.copy()
        waited = self.dropped & self.drops_late
        if not waited.any():
            return found
        # Ascends with the arrival, connection by connection.
        keys = self.connection.astype(np.uint64) << np.uint64(44) | begin
        gone = np.flatnonzero(self.packets["out_ns"] != NEVER)
        gone = gone[np.argsort(keys[gone], kind="stable")]
        at = np.searchsorted(keys[gone], keys[waited], side="right")
        next_one = gone[np.minimum(at, len(gone) - 1)] if len(gone) else np.zeros(len(at), np.int64)
        is_there = (at < len(gone)) & (self.connection[next_one] == self.connection[waited])
        last = np.where(is_there, self.packets["out_ns"][next_one], self.duration_ns).astype(np.uint64)
        found[waited] = np.maximum(last, begin[waited])
        return found

    @cached_property
    def drops_late(self) -> Array:
        """Whether it came to a queue that drops packets which have waited."""
        found = np.zeros(len(self.packets), bool)
        for span, words in self.qdiscs:
            found |= self.came_in(span) & (words[0] in LATE_DROPS)
        for one in self.classes:
            for span, words in self.qdiscs_of(one["id"]):
                found |= self.bands[one["id"]] & self.came_in(span) & (words[0] in LATE_DROPS)
        return found

    def limit(self, queue: str) -> int | None:
        """The most packets that this queue can have held; None where its limit is another."""
        queues = [self.qdiscs]
        if self.classes:
            used = [
                one["id"]
                for one in self.classes
                if queue == one["id"] or (queue == "all" and self.bands[one["id"]].any())
            ]
            queues = [self.qdiscs_of(number) for number in used]
        most = [[_packet_limit(words) for _, words in queue] for queue in queues]
        known = [
            max(limits) for one in most if len(limits := [limit for limit in one if limit is not None]) == len(one)
        ]
        return sum(known) if len(known) == len(most) else None


@dataclass
class Impairment:
    """The observations at an impairment in one direction. `packets` arrived within the run; the rest is per packet."""

    name: str
    packets: Array
    words: list[tuple[int, list[str]]]  # of its netem, since when
    waiting: int  # in the end
    duration_ns: int
    tells_drops: bool = False  # as for a link

    @cached_property
    def left(self) -> Array:
        """Whether it left within the run."""
        return _left(self.packets, self.duration_ns)

    @cached_property
    def dropped(self) -> Array:
        """Whether netem lost it: it never left, and is none of the latest, which wait."""
        if self.tells_drops:
            told: Array = self.reasons != _NOT_LOST
            return told
        lost: Array = self.packets["out_ns"] == NEVER
        last = np.flatnonzero(lost)
        last = last[np.argsort(self.packets["in_ns"][last], kind="stable")]
        result = lost.copy()
        result[last[len(last) - min(len(last), self.waiting) :]] = False
        return result

    @cached_property
    def reasons(self) -> Array:
        """Why, of those that were lost."""
        if self.tells_drops:
            return _told(self.packets)
        begin, out = self.packets["in_ns"], self.packets["out_ns"]
        came = np.sort(begin[~self.dropped])
        inside = np.searchsorted(came, begin, side="right") - np.searchsorted(np.sort(out[out != NEVER]), begin)
        found = np.full(len(begin), "loss", dtype=object)
        corrupts = False
        for since, words in self.words:
            later = begin >= since
            # What a change does not name stays, but for losses. Copies take places, too, and nobody sees them come.
            corrupts = float(words[words.index("corrupt") + 1].rstrip("%")) > 0 if "corrupt" in words else corrupts
            limit = int(words[words.index("limit") + 1]) if "limit" in words else NETEM_LIMIT
            found[later] = "loss" if "loss" in words else "checksum" if corrupts else "overflow"
            found[later & (inside >= limit)] = "overflow"
        return found


@dataclass
class Observed:
    """Everything a laboratory left."""

    lab: Lab
    links: list[Link]
    samples: Array
    ticks: list[int]
    events: list[list[str]]
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    teardown: str = ""
    impairments: dict[str, Impairment] = field(default_factory=dict)  # by namespace
    said: dict[str, str] = field(default_factory=dict)  # the last line of each output of a program, by file
    log: Log | None = None  # the qlog of the run's stack
    calls: dict[str, list[Call]] = field(default_factory=dict)  # by flow

    @property
    def run(self) -> Run:
        """The run's description."""
        return self.lab.run

    def of_flow(self, flow: Flow) -> Array:
        """A flow's TCP samples."""
        of: Array = self.samples[self.samples["flow"] == flow.number]
        return of if flow.only is None else of[of["conn"] == flow.only]

    def path(self, flow: Flow) -> list[Link]:
        """The links of a flow's data."""
        by_name = {link.name: link for link in self.links}
        return [by_name[name] for name in flow.spec["path"]]


def _in_order(first: str, changes: Sequence[tuple[int, str | None]]) -> list[tuple[Span, list[str]]]:
    """When each qdisc was in force, and its words."""
    words = [(0, first), *((time, qdisc) for time, qdisc in changes if qdisc is not None)]
    ends = [*(time for time, _ in words[1:]), FOR_EVER]
    return [((begin, end), text.split()) for (begin, text), end in zip(words, ends, strict=True)]


def _packet_limit(words: list[str]) -> int | None:
    return int(words[words.index("limit") + 1]) if words[0] in PACKET_LIMITS and "limit" in words else None


def payload_of(element: Link | Impairment, flow: Flow) -> Array:
    """Which packets of a link or an impairment have payload of this flow."""
    result: Array = (element.packets["flow"] == flow.number) & (element.packets["kind"] == PAYLOAD)
    return result if flow.only is None else result & (element.packets["conn"] == FIRST_PORT + flow.only)


def in_window(observed: Observed, times: Array) -> Array:
    """Which times are in the measured interval."""
    result: Array = (times >= observed.run["warmup_ns"]) & (times <= observed.run["duration_ns"])
    return result


def distribution(
    values: Array, name: str, scale: float, largest: bool = False, quantiles: Sequence[int] = (50, 99)
) -> dict[str, float | None]:
    """Mean, percentiles and, where asked for, maximum as columns; none without values."""
    if not len(values):
        return {}
    found: dict[str, float | None] = {f"{name}_mean": float(values.mean()) * scale}
    for quantile in quantiles:
        found[f"{name}_p{quantile}"] = float(np.percentile(values, quantile, method="inverted_cdf")) * scale
    if largest:
        found[f"{name}_max"] = float(values.max()) * scale
    return found


def percent(part: int, whole: int) -> float | None:
    """A part in percent; None of nothing."""
    return 100 * part / whole if whole else None


def _told(packets: Array) -> Array:
    """Why each one was lost, where it says so itself."""
    number = np.where(packets["out_ns"] == NEVER, packets["damaged"], 0)
    result: Array = np.array([_NOT_LOST, *REASONS], dtype=object)[number]
    return result


def _left(packets: Array, duration_ns: int) -> Array:
    out: Array = packets["out_ns"]
    result: Array = (out != NEVER) & (out <= duration_ns)
    return result
