"""A case to advise on: Prague and rivals at a bottleneck, the same a little otherwise, and without Prague."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from l4slab import _core
from l4slab.base import units
from l4slab.base.errors import InputError, suggest
from l4slab.base.values import Keys
from l4slab.experimentfile import classes
from l4slab.experimentfile.tc import remedy, unitless

Kind = Literal["drops", "marks", "dual", "fair", "other"]
# What the kinds of queue are called.
KINDS: dict[str, str] = {
    "drops": "one queue that drops",
    "marks": "one queue that marks like RFC 3168",
    "dual": "a dual queue of L4S",
    "fair": "a queue for each flow",
    "other": "a queue of another kind",
}
_FIFOS = frozenset(one["name"] for one in _core.qdiscs() if one["is_fifo"])
_IN_LINUX = {entry["name"] for entry in _core.qdiscs() if entry["in_linux"]}
_FRAME = 1514  # bytes; what a limit in packets counts
_LIMIT = re.compile(r"(\blimit )([\d.]+)(\S*)")
# More than this takes minutes; a run's duration is cut to it, and the advice says so.
_MOST_PACKETS = 15_000_000
_LONGEST_S, _SHORTEST_S = 60.0, 5.0


@dataclass(frozen=True)
class Case:
    """`prague` flows of Prague against `rivals` of another congestion control, all bulk, at one link.

    `rate` in bit/s, `rtt` in s, `buffer` in bandwidth-delay products (None: the qdisc's own limit), `options` of
    Prague as in an experiment file, `rival_ecn` as a flow's `ecn` (None: what the controller asks for), `duration` in
    s (None: a minute, or less at rates of many gigabits). Raises InputError.
    """

    rate: float
    rtt: float
    qdisc: str
    rival: str = "cubic"
    prague: int = 1
    rivals: int = 1
    buffer: float | None = None
    rival_ecn: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    duration: float | None = None

    def __post_init__(self) -> None:
        _between("--rate", self.rate, 1e5, 1e11, f"{_number(self.rate / 1e6)}Mbit", "100kbit", "100Gbit")
        _between("--rtt", self.rtt, 1e-4, 2.0, f"{_number(self.rtt * 1e3)}ms", "100us", "2s")
        if self.duration is not None:
            _between("--duration", self.duration, 1.0, 3600.0, f"{_number(self.duration)}s", "1s", "1h")
        if self.buffer is not None:
            _between("--buffer", self.buffer, 0.01, 1000.0, _number(self.buffer), "0.01", "1000")
        if min(self.prague, self.rivals) < 1 or self.prague + self.rivals > 1000:
            text = f"= {self.prague}+{self.rivals} is not a number of flows to compare"
            raise InputError(f"{text}; give at least one of each and at most 1000 together", key="--flows")
        names = [one["name"] for one in _core.controllers()]
        if self.rival not in names:
            raise InputError(f"= {self.rival} is not a congestion control; {suggest(self.rival, names)}", key="--rival")
        try:
            _core.canonical_controller("prague", dict(self.options))
        except ValueError as error:
            told = " ".join(f"{name}={value}" for name, value in dict(self.options).items())
            raise InputError(f"{told}: {error}", key="--option") from None
        if classes.holds_classes(self.qdisc):
            text = f'= "{self.qdisc}" holds classes, and advise judges one queue'
            raise InputError(f"{text}; name the queue of the flows' class, such as fq_codel", key="--qdisc")
        try:
            canonical = _core.canonical_qdisc(self.qdisc)
        except ValueError as error:
            wrong = remedy(self.qdisc) or f": {error}"
            raise InputError(f'= "{self.qdisc}"{wrong}', key="--qdisc") from None
        if bare := unitless(self.qdisc):
            raise InputError(f'= "{self.qdisc}"{bare}', key="--qdisc")
        if canonical.split()[0] in ("netem", "tbf"):
            text = f'= "{self.qdisc}" is a shaper or an emulator, and the link has its rate already'
            raise InputError(f"{text}; name the queue in it, such as pfifo", key="--qdisc")
        if self.buffer is not None and _LIMIT.search(canonical) is None:
            raise InputError(f"is given, and {canonical.split()[0]} has no limit; leave it out", key="--buffer")

    @property
    def queue(self) -> str:
        """The qdisc with its limit."""
        if self.buffer is None:
            return self.qdisc
        canonical = _core.canonical_qdisc(self.qdisc)
        name = canonical.split()[0]
        size = max(self.buffer * self.rate * self.rtt / 8, 2.0 * _FRAME)
        limit = round(size if name in ("bfifo", "red") else size / _FRAME)
        words = self.qdisc
        for keyword in ("limit", "flow_limit") if name == "fq" else ("limit",):
            words = re.sub(rf"\s{keyword} \S+", "", words) + f" {keyword} {limit}"
        return words

    @property
    def kind(self) -> Kind:
        """How the queue separates Prague from its rival. The share depends most on this."""
        queue = _core.qdisc_facts(self.qdisc)
        if queue["separation"] in ("dual", "coupled"):
            return "dual"
        # Of the others only Linux' queues were measured.
        if queue["name"] in _IN_LINUX and queue["separation"] == "per-flow":
            return "fair"
        if queue["name"] in _IN_LINUX and queue["separation"] in ("single", "shaper"):
            return "marks" if queue["marks"] else "drops"
        return "other"

    @property
    def fair_share(self) -> float:
        """The part of the link that all Prague flows together get at equal rates."""
        return self.prague / (self.prague + self.rivals)

    @property
    def duration_s(self) -> float:
        """How long a run is."""
        if self.duration is not None:
            return self.duration
        return round(max(min(_LONGEST_S, _MOST_PACKETS * 8 * _FRAME / self.rate), _SHORTEST_S), 1)

    def __str__(self) -> str:
        flows = f"{self.prague} prague + {self.rivals} {self.rival}"
        return f"{rate_text(self.rate)}, {time_text(self.rtt)}, {self.queue}, {flows}"

    def with_prague(self, trials: int) -> Keys:
        """The experiment file of the case."""
        return self._document("Prague beside its rival", self.queue, self._prague(), trials)

    def without_prague(self, trials: int) -> Keys:
        """The same with CUBIC in Prague's place: the rival's results without L4S."""
        ecn = self.rival_ecn if self.rival == "cubic" else None
        cubic = self._flow("cubic", "cubic", self.prague)
        if ecn:
            cubic["ecn"] = ecn
        return self._document("CUBIC in Prague's place", self.queue, cubic, trials)

    def neighbours(self, trials: int) -> Keys:
        """The case as others would set it up, with one change at a time."""
        document = self._document("The same, one thing otherwise at a time", self.queue, self._prague(), trials)
        document["sweep"] = {"neighbour": [{"level": name, **changes} for name, changes in self._changes().items()]}
        document["impair"] = {"hosts": {"netem": _IDLE_HOSTS, "before": "bottleneck", "direction": "reverse"}}
        return document

    def _changes(self) -> dict[str, Keys]:
        """Changes of the experiment file, by the neighbour's name."""
        changes: dict[str, Keys] = {
            "RTT 0.8 as long": {"flow.*.rtt": _seconds(0.8 * self.rtt)},
            "RTT 1.25 as long": {"flow.*.rtt": _seconds(1.25 * self.rtt)},
            "rival starts first": {"flow.prague.start": _seconds(self._head_start())},
            "Prague starts first": {"flow.rival.start": _seconds(self._head_start())},
            # Interrupts and virtual machines: docs/deployment.md.
            "hosts see ACKs in bunches": {"impair.hosts.netem": _BUNCHED},
        }
        if "version" not in self.options:
            changes["Prague 0.6"] = {"flow.prague.options": {**self.options, "version": "0.6"}}
        name = self.qdisc.split()[0]
        if name in _FIFOS or "limit" in self.queue.split():
            for factor in (0.7, 1.4):
                changes[f"buffer {factor} as long"] = {"link.bottleneck.qdisc": self._with_limit(factor)}
        if name == "dualpi2" and "min_qlen_step" not in self.qdisc:
            # Of the module that laboratories had before Linux 6.17.
            changes["step from the third packet on"] = {"link.bottleneck.qdisc": f"{self.queue} min_qlen_step 2"}
        return changes

    def _with_limit(self, factor: float) -> str:
        words = self.queue if "limit" in self.queue.split() else _core.canonical_qdisc(self.queue)
        return _LIMIT.sub(lambda found: f"{found[1]}{max(2, round(float(found[2]) * factor))}{found[3]}", words)

    def _head_start(self) -> float:
        """Long enough for slow start, and a small part of the run."""
        return min(max(30 * self.rtt, 1.0), 0.1 * self.duration_s)

    def _document(self, title: str, qdisc: str, first: Keys, trials: int) -> Keys:
        second = self._flow("rival", self.rival, self.rivals)
        if self.rival_ecn:
            second["ecn"] = self.rival_ecn
        return {
            "title": f"{title}: {self}",
            "duration": _seconds(self.duration_s),
            "trials": trials,
            "sample": _seconds(self.duration_s / 60),
            "link": {"bottleneck": {"rate": f"{round(self.rate)}bit", "qdisc": qdisc}},
            "flow": [dict(first), second],
        }

    def _flow(self, name: str, cc: str, count: int) -> Keys:
        flow: Keys = {"name": name, "cc": cc, "rtt": _seconds(self.rtt)}
        return {**flow, "count": count} if count > 1 else flow

    def _prague(self) -> Keys:
        flow = self._flow("prague", "prague", self.prague)
        return {**flow, "options": dict(self.options)} if self.options else flow


_IDLE_HOSTS = "delay 0ms limit 60000"
_BUNCHED = "delay 0ms slot 600us limit 60000"


def case(
    rate: str,
    rtt: str,
    qdisc: str,
    rival: str = "cubic",
    flows: str | int = 1,
    buffer: float | None = None,
    rival_ecn: str | None = None,
    options: Mapping[str, str] | None = None,
    duration: str | None = None,
) -> Case:
    """A case as it is written: "20Mbit", "30ms", "fq_codel", flows "2" of each or "1+10". Raises InputError."""
    seconds = None if duration is None else _quantity("--duration", duration, units.TIME)
    prague, rivals = _flows(str(flows))
    return Case(
        _quantity("--rate", rate, units.RATE), _quantity("--rtt", rtt, units.TIME), qdisc.strip(), rival, prague,
        rivals, buffer, rival_ecn, dict(options or {}), seconds,
    )  # fmt: skip


def _quantity(key: str, text: str, dimension: units.Dimension) -> float:
    try:
        return dimension.si(text)
    except ValueError as error:
        raise InputError(f'= "{text}" {error}', key=key) from None


def _flows(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"\s*(\d{1,4})\s*(?:\+\s*(\d{1,4})\s*)?", text)
    if found is None:
        wrong = f'= "{text}" is not a number of flows'
        raise InputError(
            f"{wrong}; write such as 2 (two of Prague and two rivals) or 1+10 (Prague first)", key="--flows"
        )
    return int(found[1]), int(found[2] or found[1])


def _between(key: str, value: float, low: float, high: float, shown: str, at_least: str, at_most: str) -> None:
    if not low <= value <= high:
        raise InputError(f"= {shown} is beyond what is simulated; give {at_least} to {at_most}", key=key)


def _seconds(value: float) -> str:
    return f"{round(value * 1e6)}us"


def _number(value: float) -> str:
    return f"{value:.6g}"


def rate_text(rate: float) -> str:
    """As it is written in an experiment file."""
    for factor, unit in ((1e9, "Gbit"), (1e6, "Mbit"), (1e3, "kbit")):
        if rate >= factor:
            return f"{_number(rate / factor)}{unit}"
    return f"{_number(rate)}bit"


def time_text(seconds: float) -> str:
    """As it is written in an experiment file."""
    return f"{_number(seconds)}s" if seconds >= 1 else f"{_number(seconds * 1e3)}ms"
