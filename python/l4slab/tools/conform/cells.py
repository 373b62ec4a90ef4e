"""What is run: a candidate, the reference that stands for its law, and the places where both are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from l4slab import _core, stacks
from l4slab.base.errors import InputError, suggest
from l4slab.base.values import Keys, Value
from l4slab.engines.registry import DEFAULT, ENGINES, KERNEL, get_engine
from l4slab.experimentfile.traffic import OUT
from l4slab.tools.conform import envelope, laws
from l4slab.tools.matrix import RIVAL, TESTED, Row, rows
from l4slab.tools.why.quantities import Trial

# Names of a stack's controller for one that the kernel calls otherwise.
_ALIASES = {"newreno": "reno"}
_LINK = "bottleneck"
_RATE_BPS, _WARMUP_S = 20e6, 5.0
# Round trips and buffers beside a rival; a kernel takes a hundred times as long.
_PATHS = tuple((rtt_s, buffer) for rtt_s in (0.02, 0.06) for buffer in (0.5, 1.0, 2.0))
_PATHS_OF_KERNEL = ((0.02, 0.5), (0.02, 2.0), (0.06, 1.0))
_PACKET_BITS = 12_000
# When the application rests.
_PAUSE_S = (6.0, 16.0)
_APP_RATE = "30Mbit"
# When the link becomes slower and faster again, so that windows are cut below W_max.
_RATES = ((12.0, 0.5), (20.0, 1.0), (27.0, 0.5))


@dataclass(frozen=True)
class Side:
    """A congestion control, where it runs: the keys of its flow, and the folder of what they name."""

    name: str
    engine: str
    flow: Keys
    folder: Path = Path()
    row: Row | None = None  # of a stack

    @property
    def is_simulated(self) -> bool:
        return get_engine(self.engine).is_exact

    @property
    def rests(self) -> bool:
        """Whether its application can be told to."""
        return self.row is None or self.row.stack.recipe.limits


def candidate(name: str, options: Mapping[str, str]) -> Side:
    """STACK:CC, kernel:CC, linux:NAME:CC, a custom controller, or one of the simulator. Raises InputError."""
    head, _, cc = name.rpartition(":")
    given: Keys = {"options": dict(options)} if options else {}
    path = Path(head if head.endswith(".py") else name)
    if path.suffix in (".py", ".so", ".dylib", ".dll"):
        if not path.is_file():
            raise InputError(f"there is no file {path}; give a custom controller such as mine.py:Mine or ./libmine.so")
        own = f"{path.name}:{cc}" if path.suffix == ".py" and head else f"./{path.name}"
        return Side(name, DEFAULT, {"cc": own, **given}, path.parent)
    if not head:
        _known(name, name)
        return Side(name, DEFAULT, {"cc": name, **given})
    if head == "kernel" or head.partition(":")[0] in ENGINES:
        engine = KERNEL if head == "kernel" else head
        get_engine(engine)
        return Side(name, engine, {"cc": cc, **given})
    if options:
        raise InputError(f"{name}: --option is for TCP; a stack has no options")
    (row,) = rows([name])
    log: Keys = {"env": {stacks.LOG: OUT}} if row.stack.recipe.qlog else {}
    return Side(name, KERNEL, {"kind": "program", "stack": row.given, "cc": row.cc, **log}, row=row)


def reference(of: Side, cc: str | None) -> Side:
    """The kernel's controller of that name for what runs on a kernel, else the simulator's. Raises InputError."""
    own = str(of.flow["cc"])
    cc = cc or _ALIASES.get(own, own)
    _known(cc, of.name)
    return Side(cc if of.is_simulated else f"kernel:{cc}", DEFAULT if of.is_simulated else KERNEL, {"cc": cc})


def _known(cc: str, name: str) -> None:
    known = [one["name"] for one in _core.controllers()]
    if cc not in known:
        raise InputError(f"{name}: no reference is called {cc}; give --reference CC; {suggest(cc, known)}")


@dataclass(frozen=True)
class Place:
    """A path on which a flow is tried, and what is read from a trial there."""

    name: str
    rate_bps: float
    rtt_s: float
    buffer_bdp: float
    kind: str  # "rival", "short", "narrow" or "rest"

    def document(self, side: Side, rival: str, trials: int, seed: int) -> Keys:
        """The experiment. Its flow is TESTED."""
        packets = max(round(self.rate_bps * self.rtt_s * self.buffer_bdp / _PACKET_BITS), 4)
        rtt = f"{1e3 * self.rtt_s:g}ms"
        tested: Keys = {"name": TESTED, "rtt": rtt, **side.flow}
        found: Keys = {
            "duration": {"rival": "30s", "short": "20s", "narrow": "34s", "rest": f"{_PAUSE_S[1] + 3:g}s"}[self.kind],
            "warmup": f"{_WARMUP_S:g}s",
            "trials": trials,
            "seed": seed,
            # Without it, trials in a queue without random numbers are all the same.
            "start_jitter": rtt,
            "sample": "20ms" if self.kind == "rival" else "10ms",
            "link": {_LINK: {"rate": f"{self.rate_bps * 1e-6:g}Mbit", "qdisc": f"pfifo limit {packets}"}},
        }
        if self.kind == "narrow":
            rate = f"link.{_LINK}.rate"
            found["at"] = [
                {"time": f"{time:g}s", rate: f"{self.rate_bps * part * 1e-6:g}Mbit"} for time, part in _RATES
            ]
        if self.kind == "rest":
            begin, end = (f"{second:g}s" for second in _PAUSE_S)
            if side.row is None:
                tested["app_rate"] = _APP_RATE
                found["at"] = [{"time": time, f"flow.{TESTED}.pause": time == begin} for time in (begin, end)]
            else:
                given = tested.get("env")
                limits = {"APP_RATE": _APP_RATE, "APP_PAUSE": f"{begin} {end}"}
                tested["env"] = {**(given if isinstance(given, dict) else {}), **limits}
        rivals: list[Keys] = [{"name": RIVAL, "rtt": rtt, "cc": rival}] if self.kind == "rival" else []
        flows: list[Value] = [tested, *rivals]
        return {**found, "flow": flows}

    def hull(self, trial: Trial) -> envelope.Hull:
        """Of the trial's points."""
        return envelope.trimmed(envelope.cloud(trial, TESTED, _LINK, self.rtt_s, _WARMUP_S))


def places(side: Side) -> list[Place]:
    """Paths with a rival, over round trips and buffers; alone a short one, one whose link changes its rate, and one on
    which the application rests.
    """
    found = [
        Place(f"{1e3 * rtt_s:g} ms, {buffer:g} BDP", _RATE_BPS, rtt_s, buffer, "rival")
        for rtt_s, buffer in (_PATHS if side.is_simulated else _PATHS_OF_KERNEL)
    ]
    found.append(Place("alone, 10 ms, 2 BDP", _RATE_BPS / 2, 0.01, 2.0, "short"))
    found.append(Place("rate changes, 60 ms, 0.5 BDP", _RATE_BPS, 0.06, 0.5, "narrow"))
    return [*found, Place("rest, 40 ms, 2 BDP", _RATE_BPS, 0.04, 2.0, "rest")] if side.rests else found


def numbers(where: Sequence[Place], trials: Sequence[Trial]) -> dict[str, float]:
    """The numbers of the laws in one trial of each place."""
    both = list(zip(where, trials, strict=True))
    rivals = [(place, trial) for place, trial in both if place.kind == "rival"]
    found = laws.of_rivals([one for _, one in rivals], [place.rtt_s for place, _ in rivals], TESTED, _WARMUP_S)
    for place, trial in both:
        if place.kind == "short":
            found |= laws.per_round(trial, TESTED, _WARMUP_S)
        elif place.kind == "narrow":
            found |= laws.narrowed(trial, TESTED, _WARMUP_S, [time for time, part in _RATES if part < 1])
        elif place.kind == "rest":
            found |= laws.rest(trial, TESTED, _PAUSE_S)
    return found
