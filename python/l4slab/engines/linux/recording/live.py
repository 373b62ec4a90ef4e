"""New observations of a running laboratory since the last request.

Its files grow while it runs; what is new in them is read, and of what was read is kept what the next step of the series
needs. A queue does not tell what it drops: a packet counts as dropped as soon as one that came after it, of the same
connection and with the same ECN field, has left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

import numpy as np

from l4slab.base.run import Change, Run
from l4slab.base.run import Link as Spec
from l4slab.engines.contract import LIVE_MEMBERS, LIVE_TRANSFERS
from l4slab.engines.linux import lab as labs
from l4slab.engines.linux.lab import Lab
from l4slab.engines.linux.recording.flows import active, transfers
from l4slab.engines.linux.recording.histograms import Bin, bins
from l4slab.engines.linux.recording.observed import (
    FORMAT,
    NEVER,
    PACKET,
    PAYLOAD,
    SAMPLE,
    Array,
    Link,
    Observed,
    Output,
    check_head,
)
from l4slab.engines.linux.recording.queues import queues_of, sent_of
from l4slab.engines.linux.recording.reading import parse_tc
from l4slab.engines.linux.recording.series import series

# A packet that has left a link is looked for at the next one of its path for so long.
_BETWEEN_LINKS_NS = 2_000_000_000
_MOST_EVENTS = 20_000
ARRIVES, LEAVES, IS_DROPPED = 0, 1, 2


class Growing:
    """A file that is written while it is read."""

    def __init__(self, path: Path):
        self._path = path
        self._file: BinaryIO | None = None
        self._has_begun = False

    def rest(self) -> bytes:
        """The new content; empty while the file does not exist."""
        if self._file is None:
            try:
                self._file = self._path.open("rb", buffering=0)
            except FileNotFoundError:
                return b""
        return self._file.read()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def records(self, dtype: np.dtype[Any]) -> Array:
        """The new content of a file of records."""
        content = self.rest()
        if content and not self._has_begun:
            check_head(self._path.name, content[: FORMAT.itemsize], dtype)
            content, self._has_begun = content[FORMAT.itemsize :], True
        return np.frombuffer(content, dtype)


@dataclass
class _Seen(Link):
    """A link in a part of the time; packets that were dropped are known with the time at which that was known."""

    lost_ns: Array = field(default_factory=lambda: np.empty(0, np.uint64))  # 0: it was not

    def __post_init__(self) -> None:
        self.__dict__["dropped"] = self.lost_ns > 0

    @property
    def dropped_ns(self) -> Array:
        return self.lost_ns


# A message's values, by column.
Columns = dict[str, list[object]]


class Watch(TypedDict, total=False):
    """The series that a page asks for."""

    sample_ns: int
    members: bool
    histograms: bool
    packets: bool


class Histogram(TypedDict):
    """Times in a queue since the end of the warm-up; a bin is low and high edge, ms, and count."""

    quantity: str
    flow: str | None
    link: str
    queue: str
    bins: list[list[float]]


class Sampled(TypedDict):
    """The events since the last call."""

    now_ns: int
    series: Columns
    members: Columns
    transfers: Columns
    histograms: list[Histogram]
    packets: dict[str, list[object] | bool]


class _Tap:
    """A link's packets: those that wait, and those of late."""

    def __init__(self, folder: Path, number: int):
        self._came = Growing(folder / f"arrivals.{number}.bin")
        self._left = Growing(folder / f"packets.{number}.bin")
        self._tc = Growing(folder / f"tc.{number}.json")
        self.files = (self._came, self._left, self._tc)
        self.waiting = np.empty(0, PACKET)
        self.left = np.empty(0, PACKET)
        self.lost = np.empty(0, PACKET)
        self.lost_ns = np.empty(0, np.uint64)
        self.tc: list[tuple[int, Output]] = []
        self.bytes = 0
        # Since it was last asked.
        self.new = (self.left, self.left, self.lost, self.lost_ns)

    def read(self, ticks: list[int]) -> None:
        came, left = self._came.records(PACKET), self._left.records(PACKET)
        self.bytes += came.nbytes + left.nbytes
        # Those whose number came round without their leaving are found by what overtook them.
        left = left[left["out_ns"] != NEVER]
        waiting = np.concatenate([self.waiting, came])
        waiting = waiting[~np.isin(waiting["number"], left["number"])]
        overtaken_ns = _overtaken(waiting, left)
        is_lost = overtaken_ns > 0
        lost, lost_ns = waiting[is_lost], overtaken_ns[is_lost]
        self.waiting = waiting[~is_lost]
        self.left = np.concatenate([self.left, left])
        self.lost, self.lost_ns = np.concatenate([self.lost, lost]), np.concatenate([self.lost_ns, lost_ns])
        self.new = (came, left, lost, lost_ns)
        self.tc += zip(ticks, parse_tc(self._tc.rest().decode(errors="replace")), strict=False)

    def forget(self, until_ns: int, packets_until_ns: int) -> None:
        """Forget observations before these times, except the last one of `tc` before them."""
        self.left = self.left[self.left["out_ns"] > packets_until_ns]
        later = self.lost_ns > until_ns
        self.lost, self.lost_ns = self.lost[later], self.lost_ns[later]
        self.tc = [one for one in self.tc if one[0] >= until_ns]

    def seen(self, spec: Spec, changes: list[Change], until_ns: int) -> _Seen:
        packets = np.concatenate([self.left, self.waiting, self.lost])
        lost_ns = np.zeros(len(packets), np.uint64)
        lost_ns[len(packets) - len(self.lost) :] = self.lost_ns
        return _Seen(spec["name"], packets, self.tc, spec, changes, until_ns, lost_ns=lost_ns)


def _overtaken(waiting: Array, left: Array) -> Array:
    """When the next one after it left, of the same connection and ECN field; 0 where none has."""
    if not len(waiting) or not len(left):
        return np.zeros(len(waiting), np.uint64)
    order = np.argsort(_key(left), kind="stable")
    keys, times = _key(left)[order], left["out_ns"][order]
    mine = _key(waiting)
    at = np.searchsorted(keys, mine)
    found = np.minimum(at, len(keys) - 1)
    overtaken = (at < len(keys)) & (keys[found] >> np.uint64(32) == mine >> np.uint64(32))
    result: Array = np.where(overtaken, times[found], 0)
    return result


def _key(packets: Array) -> Array:
    """Ascends with the order of arrival within what a queue keeps in order."""
    wide = [packets[name].astype(np.uint64) for name in ("flow", "conn", "ecn_in", "number")]
    result: Array = wide[0] << np.uint64(50) | wide[1] << np.uint64(34) | wide[2] << np.uint64(32) | wide[3]
    return result


class _Bins:
    """A histogram that grows: low and high edge, ms, and count."""

    def __init__(self) -> None:
        self.rows: list[list[float]] = []
        self._places: dict[float, int] = {}

    def add(self, more: list[Bin]) -> None:
        # A bin of 1.024 us times n is written shorter so, and is the same number.
        unknown = [one for one in more if one["low_ms"] not in self._places]
        if unknown:
            self.rows += [[round(one["low_ms"], 6), round(one["high_ms"], 6), 0] for one in unknown]
            self.rows.sort()
            known = [*self._places, *(one["low_ms"] for one in unknown)]
            self._places = {low: place for place, low in enumerate(sorted(known))}
        for one in more:
            self.rows[self._places[one["low_ms"]]][2] += one["count"]


class Recorder:
    """Gives samples of a laboratory that goes on, as docs/live.md describes them."""

    def __init__(self, lab: Lab, folder: Path, watch: Watch, columns: list[str]):
        self._lab = lab
        self._taps = {
            number: _Tap(folder, number)
            for number in range(len(lab.run["links"]))
            if lab.link_namespace(number) in lab.routes
        }
        self._samples = Growing(folder / "tcp.bin")
        self._ticks = Growing(folder / "ticks.tsv")
        self._events = Growing(folder / "events.tsv")
        self._files = [self._samples, self._ticks, self._events]
        self._files += [file for tap in self._taps.values() for file in tap.files]
        self._tcp = np.empty(0, SAMPLE)
        self._shown_ns = 0  # until when the series has been given
        self._counted: dict[tuple[str, str], _Bins] = {}
        self._known_from: dict[int, int] = {}
        self.columns = columns
        self.watch = watch
        self._forget_arrivals()

    @property
    def sample_ns(self) -> int:
        """The time between rows of the series."""
        return int(self.watch.get("sample_ns") or self._lab.run["sample_ns"])

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    @property
    def bytes(self) -> int:
        """How much has been captured."""
        return sum(tap.bytes for tap in self._taps.values())

    def set_watch(self, watch: Watch, now_ns: int) -> None:
        """Show these series from now on. A step that has already begun is left out."""
        sample_ns, told = self.sample_ns, self.watch.get("packets")
        self.watch = watch
        if now_ns and self.sample_ns != sample_ns:
            self._shown_ns = -(-now_ns // self.sample_ns) * self.sample_ns
        if not told:
            self._forget_arrivals()

    def _forget_arrivals(self) -> None:
        for number, tap in self._taps.items():
            # Of what came before, nothing is told any more.
            self._known_from[number] = int(tap.waiting["number"].max()) + 1 if len(tap.waiting) else 0

    def take(self, now_ns: int) -> Sampled:
        """The events from the last call until now."""
        ticks = [int(line) for line in self._ticks.rest().split()]
        for tap in self._taps.values():
            tap.read(ticks)
        self._tcp = np.concatenate([self._tcp, self._samples.records(SAMPLE)])
        events = [line.split("\t") for line in self._events.rest().decode().splitlines()]
        until_ns = max(self._shown_ns, now_ns // self.sample_ns * self.sample_ns)
        observed = self._observed(until_ns, events)
        rows = series(observed, self._shown_ns)
        found: Sampled = {
            "now_ns": now_ns,
            "series": {name: [row.get(name) for row in rows] for name in self.columns},
            "members": self._members(observed) if self.watch.get("members") else _columns([], LIVE_MEMBERS),
            "transfers": _columns(transfers(observed), LIVE_TRANSFERS),
            "histograms": self._histograms(observed),
            "packets": self._packets(),
        }
        self._shown_ns = until_ns
        several = any(len(flow.spec["path"]) > 1 for flow in self._lab.flows)
        for tap in self._taps.values():
            tap.forget(until_ns, until_ns - (_BETWEEN_LINKS_NS if several else 0))
        self._tcp = self._tcp[self._tcp["t_ns"] >= until_ns]
        return found

    def _observed(self, until_ns: int, events: list[list[str]]) -> Observed:
        """The time since the series was last given, as if it were a run."""
        warmup_ns = max(self._shown_ns + 1, self._lab.run["warmup_ns"])
        run: Run = {
            **self._lab.run,
            "sample_ns": self.sample_ns,
            "duration_ns": until_ns,
            "warmup_ns": warmup_ns,
        }
        links: list[Link] = []
        for number, spec in enumerate(run["links"]):
            changes = [change for change in run["at"] if change.get("link") == spec["name"]]
            tap = self._taps.get(number)
            if tap is not None:
                links.append(tap.seen(spec, changes, until_ns))
            else:
                links.append(_Seen(spec["name"], np.empty(0, PACKET), [], spec, changes, until_ns))
        lab = Lab(run, self._lab.flows, self._lab.namespaces, self._lab.edges, self._lab.routes)
        return Observed(lab, links, self._tcp, [], events)

    def _members(self, observed: Observed) -> Columns:
        """Each flow of each group that sends."""
        width, after, until = self.sample_ns, self._shown_ns, observed.run["duration_ns"]
        seconds = width * 1e-9
        names = {flow.number: flow.spec["name"] for flow in self._lab.flows}
        samples = observed.samples[(observed.samples["t_ns"] % width == 0) & (observed.samples["t_ns"] <= until)]
        samples = samples[active(samples) & (samples["t_ns"] > after)]
        states = {
            (t, flow, conn): (cwnd, srtt * 1e-3)
            for t, flow, conn, cwnd, srtt in zip(
                *(samples[name].tolist() for name in ("t_ns", "flow", "conn", "cwnd", "srtt_us")), strict=True
            )
        }
        gained = dict.fromkeys(states, 0)
        for flow in self._lab.flows:
            link = observed.path(flow)[-1]
            packets = link.packets[link.left & (link.packets["flow"] == flow.number)]
            packets = packets[(packets["kind"] == PAYLOAD) & (packets["out_ns"] > after)]
            step = -(-packets["out_ns"].astype(np.int64) // width) * width
            pairs, of = np.unique(np.stack([step, packets["conn"]]), axis=1, return_inverse=True)
            sums = np.bincount(of.ravel(), packets["fresh"])
            for t, conn, got in zip(*pairs.tolist(), sums.tolist(), strict=True):
                gained[t, flow.number, conn - labs.FIRST_PORT] = got
        rows = [
            (t * 1e-9, names[flow], conn + 1, got * 8e-6 / seconds, *states.get((t, flow, conn), (None, None)))
            for (t, flow, conn), got in gained.items()
        ]
        rows.sort(key=lambda row: row[:3])
        return {name: [row[place] for row in rows] for place, name in enumerate(LIVE_MEMBERS)}

    def _histograms(self, observed: Observed) -> list[Histogram]:
        """Times in the queues, since the end of the warm-up."""
        if observed.run["warmup_ns"] <= observed.run["duration_ns"]:
            for link in observed.links:
                for queue, which in queues_of(observed, link).items():
                    of_queue = self._counted.setdefault((link.name, queue), _Bins())
                    of_queue.add(bins(link.sojourn_ns[sent_of(observed, link, which)]))
        if not self.watch.get("histograms"):
            return []
        return [
            {
                "quantity": "sojourn_ms",
                "flow": None,
                "link": link,
                "queue": queue,
                "bins": counted.rows,
            }
            for (link, queue), counted in self._counted.items()
        ]

    def _packets(self) -> dict[str, list[object] | bool]:
        """A row per arrival, departure and drop, in the order of time for each link."""
        if not self.watch.get("packets"):
            return {**_columns([], _PACKETS), "unknown": [], "cut": False}
        columns: Columns = {name: [] for name in _PACKETS}
        names = ["", *(flow.spec["name"] for flow in self._lab.flows)]
        unknown = [0] * len(self._lab.run["links"])
        is_cut = False
        for number, tap in self._taps.items():
            came, left, lost, lost_ns = tap.new
            known = [one["number"] >= self._known_from[number] for one in (left, lost)]
            left, lost, lost_ns = left[known[0]], lost[known[1]], lost_ns[known[1]]
            parts = [(ARRIVES, came, came["in_ns"], "ecn_in"), (LEAVES, left, left["out_ns"], "ecn_out")]
            parts += [(IS_DROPPED, lost, lost_ns, "ecn_in")]
            times = np.concatenate([of for _, _, of, _ in parts])
            order = np.argsort(times, kind="stable")
            room = _MOST_EVENTS - len(columns["id"])
            is_cut |= len(order) > room
            order = order[:room]
            packets = np.concatenate([one for _, one, _, _ in parts])[order]
            columns["link"] += [self._lab.run["links"][number]["name"]] * len(order)
            columns["time_ns"] += times[order].tolist()
            columns["what"] += np.repeat([what for what, *_ in parts], [len(one) for _, one, _, _ in parts])[
                order
            ].tolist()
            columns["id"] += packets["number"].tolist()
            columns["flow"] += [names[flow] for flow in packets["flow"].tolist()]
            columns["member"] += (packets["conn"].astype(np.int64) - labs.FIRST_PORT + 1).tolist()
            columns["ecn"] += np.concatenate([one[ecn] for _, one, _, ecn in parts])[order].tolist()
            columns["bytes"] += packets["len"].tolist()
            unknown[number] = int((tap.waiting["number"] < self._known_from[number]).sum())
        if is_cut:
            self._forget_arrivals()
        return {**columns, "unknown": [*unknown], "cut": is_cut}


_PACKETS = ("link", "time_ns", "what", "id", "flow", "member", "ecn", "bytes")


def _columns(rows: Sequence[Mapping[str, object]], names: tuple[str, ...]) -> Columns:
    return {name: [row.get(name) for row in rows] for name in names}
