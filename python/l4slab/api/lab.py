"""A run whose endpoints are in a test: packets in and out under the run's clock (docs/lab.md).

lab = l4slab.Lab("dualpi2.toml")
near, far = lab.ends("mine")
near.send(b"hello", ecn="ect1")
while (event := lab.next_event()) is not None:
    ...
results = lab.finish()
"""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar, get_args

from l4slab import _core, sweep
from l4slab.api.experiment import Described, load
from l4slab.base.code import HASH
from l4slab.base.errors import InputError
from l4slab.base.run import Ecn, Run
from l4slab.base.values import Value
from l4slab.engines.contract import Recording
from l4slab.engines.registry import DEFAULT
from l4slab.engines.sim import recording_of

T = TypeVar("T")
# By the two bits of the header.
ECN: tuple[Ecn, ...] = get_args(Ecn)
_NS = 10**9
_NEVER_NS = 2**63


class Packet(NamedTuple):
    """What has arrived: the bytes, the codepoint as queues left it ("ce" is a mark), the time in s, and the DSCP."""

    data: bytes
    ecn: Ecn
    time_s: float
    dscp: int


class Sum(NamedTuple):
    """Packets of both ends of a flow, so far: sent + copied = arrived + lost + in_flight."""

    sent: int
    copied: int
    arrived: int
    lost: int
    in_flight: int


class Event(NamedTuple):
    """What happens next: a packet has arrived at `end`, or it is the time of `wake_at` with this token."""

    time_s: float
    end: End | None
    token: int | None


class End:
    """An end of an endpoint flow. `number` is its place among all ends, `peer` that of the other side."""

    def __init__(self, lab: Lab, flow: str, number: int) -> None:
        self._lab, self.flow, self.number, self.peer = lab, flow, number, number ^ 1

    def __repr__(self) -> str:
        return f"<{'far' if self.number & 1 else 'near'} end of {self.flow}>"

    @property
    def most_bytes(self) -> int:
        """What it can send at once."""
        return self._lab.core.most_bytes(self.number)

    def send(self, data: bytes, ecn: Ecn = "not-ect", dscp: int | None = None) -> None:
        """Send now; without `dscp`, with that of the flow. Raises ValueError for what is longer than `most_bytes`."""
        if ecn not in ECN:
            raise ValueError(f'ecn = {ecn!r} is no codepoint; write "not-ect", "ect0", "ect1" or "ce"')
        self._lab.core.send(self.number, data, ECN.index(ecn), dscp, (0, 0))

    def receive(self) -> Packet | None:
        """The packet that has arrived longest ago and was not received yet."""
        if (arrived := self._lab.core.receive(self.number)) is None:
            return None
        data, ecn, dscp, _ = arrived
        return Packet(data, ECN[ecn], self._lab.now, dscp)

    @property
    def sum(self) -> Sum:
        """The packets of its flow."""
        return Sum(*self._lab.core.sum(self.number))


class Lab:
    """A run of an experiment in which flows of `kind = "endpoint"` have their ends here. Times are seconds of the run.

    The experiment has one run: `changes` are other values than the file's, by dotted key, as of `l4slab run --set`, and
    `seed` another one. Deterministic: the same calls give the same bits. Raises InputError.
    """

    def __init__(
        self, experiment: Described, changes: Mapping[str, Value] | None = None, seed: int | None = None
    ) -> None:
        self.description = _described(experiment, changes, seed)
        self._json = json.dumps(self.description)
        try:
            self.core = _core.Lab(self._json)
        except ValueError as error:
            raise InputError(str(error)) from None
        self.duration = self.description["duration_ns"] / _NS
        names = self.core.endpoints()
        self._ends = {name: (End(self, name, 2 * i), End(self, name, 2 * i + 1)) for i, name in enumerate(names)}
        self._all = [end for both in self._ends.values() for end in both]

    def ends(self, flow: str) -> tuple[End, End]:
        """The near end of an endpoint flow, whose packets cross the flow's `path` and are what its row in the results
        is about, and the far end, whose packets cross its `reverse_path`.
        """
        if flow not in self._ends:
            raise InputError(f"there is no endpoint {flow!r}; there are {', '.join(self._ends)}")
        return self._ends[flow]

    @property
    def now(self) -> float:
        """The time, in s since the start."""
        return self.core.now_ns() / _NS

    def wake_at(self, time_s: float, token: int = 0) -> None:
        """Ask for an event at this time, or now if that has passed. The same time and token twice are one event."""
        self.core.wake_at(max(round(time_s * _NS), 0), token)

    def cancel(self, token: int = 0) -> None:
        """Forget what `wake_at` was asked for with this token."""
        self.core.cancel(token)

    def next_event(self, until: float | None = None) -> Event | None:
        """Go on to the next event before `until`, or else up to the end of the run; None: it is that time."""
        limit = _NEVER_NS if until is None else max(round(until * _NS), 0)
        if (found := self.core.step(limit)) is None:
            return None
        is_arrival, which = found
        return Event(self.now, self._all[which] if is_arrival else None, None if is_arrival else which)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run asyncio code under the clock of the lab; its datagrams go from end to end.

        Host names are those of flows: "mine" is the far end of that flow, "mine.near" the near one. Raises TimeoutError
        where the run is over before `main` is.
        """
        from l4slab.api.loop import run

        return run(self.core, self.description["duration_ns"], main)

    def finish(self) -> Recording:
        """End the run where it is, and return its tables as DataFrames: `flows`, `links`, `series` and others. What has
        been sent in the last half round trip may have arrived. Raises InputError where the warm-up is not over.
        """
        try:
            tables = self.core.finish()
        except ValueError as error:
            raise InputError(str(error)) from None
        return recording_of(self._json, tables)


def _described(experiment: Described, changes: Mapping[str, Value] | None, seed: int | None) -> Run:
    """The description of the one run of an experiment, but for trials."""
    loaded = load(experiment, {}, changes)
    found: dict[str, Run] = {}
    for run in sweep.expand(loaded, DEFAULT).runs:
        description = run.description
        # Trials differ in their seed alone.
        found.setdefault(json.dumps(description | {"seed": 0}), description)
    if len(found) != 1:
        text = f"has {len(found)} runs, and a lab is one; choose the levels with changes={{...}}, or remove the sweep"
        raise InputError(text, file=loaded.file, key="sweep")
    (description,) = found.values()
    if HASH in json.dumps(description):
        raise InputError("names code of your own, which a lab does not run; use a packaged one", file=loaded.file)
    if seed is not None:
        description["seed"] = seed
    return description
