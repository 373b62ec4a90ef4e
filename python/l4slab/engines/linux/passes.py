"""Changes that wait for a state of a congestion control: one run to see when it comes, another with the change then.

A stack writes its log when it likes, and samples of the kernel's TCP are read at the end, so nobody sees the state
while it runs. But time is virtual, so two runs of one description are alike up to random numbers: connection ids, keys,
a controller's draws. What the last run shows is compared with what it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from l4slab import stacks
from l4slab.base.run import AwaitedState, Change, Flow, Run
from l4slab.engines.contract import EngineError, LackingError
from l4slab.engines.linux import programs

# A change comes as much after its state as in the simulator, which looks each millisecond. Runs may differ by more.
_LOOK_NS = 1_000_000
_LATE_NS = 10 * _LOOK_NS
_MOST_SAMPLE_NS = _LATE_NS // 2  # of the kernel's TCP, so that a state is seen in time
SEED = "L4SLAB_SEED"
# Runs more than there are changes, where they differ by more than that.
_AGAIN = 4

# When a flow was in which states, in order of time: ns, and the state from then on.
States = Sequence[tuple[int, str]]


def refuse(run: Run) -> None:
    """Raises ValueError for a change that waits for a state that nobody tells."""
    for change in run["at"]:
        awaited = change.get("state")
        if awaited is None or awaited["flow"] == programs.logging_flow(run):
            continue
        text = f'a change waits for state = "{awaited["name"]}" of flow "{awaited["flow"]}", '
        flow = next(flow for flow in run["flows"] if flow["name"] == awaited["flow"])
        if flow["kind"] == "program":
            remedy = f'write env = {{ {stacks.LOG} = "{{out}}" }} in one flow, of a stack that logs them'
            raise LackingError(f"{text}whose states are not logged; {remedy}")
        if flow.get("cc") != "bbr":
            raise LackingError(f"{text}and of the kernel's controllers only bbr tells its state; use the sim engine")
        if run["sample_ns"] > _MOST_SAMPLE_NS:
            raise LackingError(
                f"{text}and the kernel's TCP shows its state at samples only; write "
                f'sample = "{_MOST_SAMPLE_NS // 1_000_000}ms" at the top of the file, or use the sim engine'
            )


class Passes:
    """Runs of one description, until its waiting changes come when their states do."""

    def __init__(self, run: Run):
        self._run = run
        self._waiting = [change for change in run["at"] if change.get("state") is not None]
        # When each state comes, as the next run assumes it; None: not before another change that is not known yet.
        self._assumed: list[int | None] = [None] * len(self._waiting)
        self._left = len(self._waiting) + _AGAIN

    @property
    def run(self) -> Run:
        """The description of the next run, which waits for nothing."""
        at = [change for change in self._changes() if change["time_ns"] < self._run["duration_ns"]]
        return {**self._run, "at": at, "flows": [self._seeded(flow) for flow in self._run["flows"]]}

    def _seeded(self, flow: Flow) -> Flow:
        """A stack may draw by a seed, so that its runs are alike."""
        if flow["kind"] != "program" or not any(flow["name"] == _awaited(one)["flow"] for one in self._waiting):
            return flow
        return {**flow, "env": {**flow.get("env", {}), SEED: str(self._run["seed"])}}

    def agrees(self, states: Callable[[str], States]) -> bool:
        """Whether the states of the run that was done came as it assumed; else `run` is another one. `states`: those of
        a flow. Raises EngineError where runs differ too much.
        """
        seen = [_first(states(_awaited(change)["flow"]), change) for change in self._waiting]
        wrong = [
            index
            for index, (at, came) in enumerate(zip(self._assumed, seen, strict=True))
            if at != came
            and (at is None or came is None or not 0 <= at - came <= _LATE_NS)
            and not all(self._is_in_force(index, time_ns) for time_ns in (at, came) if time_ns is not None)
        ]
        if not wrong:
            return True
        self._left -= 1
        if not self._left:
            awaited = _awaited(self._waiting[wrong[0]])
            raise EngineError(
                f'state "{awaited["name"]}" of flow "{awaited["flow"]}" comes at another time in each run, so a change '
                f"cannot come within {_LATE_NS // 1_000_000} ms of it; wait for an earlier one"
            )
        # What a wrong change does, or one that is missing, may move all that comes after it.
        after = [_awaited(change)["after_ns"] for change in self._waiting]
        first = min(
            at + after[index] for index in wrong for at in (self._assumed[index], seen[index]) if at is not None
        )
        for index, came in enumerate(seen):
            if came is None or came > first + _LATE_NS:
                self._assumed[index] = None
            elif index in wrong or self._assumed[index] is None:
                self._assumed[index] = came + _LOOK_NS
        return False

    def _changes(self, but: int | None = None) -> list[Change]:
        """Those of the next run in order of time, but for one of those that wait."""
        found = [change for change in self._run["at"] if change.get("state") is None]
        for index, (change, at) in enumerate(zip(self._waiting, self._assumed, strict=True)):
            if at is not None and index != but:
                now = change.copy()
                del now["state"]
                found.append({**now, "time_ns": at + _awaited(change)["after_ns"]})
        return sorted(found, key=lambda change: change["time_ns"])

    def _is_in_force(self, index: int, came_ns: int) -> bool:
        """Whether a waiting change would change nothing if its state came then."""
        change = self._waiting[index]
        tables: dict[str, Sequence[Mapping[str, object]]] = {
            "link": self._run["links"], "flow": self._run["flows"], "impair": self._run.get("impairs", []),
        }  # fmt: skip
        kind = next(kind for kind in tables if change.get(kind) is not None)
        (first,) = (table for table in tables[kind] if table["name"] == change.get(kind))
        values = dict(first)
        for one in self._changes(index):
            if one.get(kind) == first["name"] and one["time_ns"] <= came_ns + _awaited(change)["after_ns"]:
                values |= {key: value for key, value in one.items() if value is not None}
        apart = ("time_ns", "state", kind)
        return all(values.get(key) == value for key, value in change.items() if key not in apart and value is not None)


def _awaited(change: Change) -> AwaitedState:
    awaited = change.get("state")
    if awaited is None:
        raise TypeError("it waits for nothing")
    return awaited


def _first(states: States, change: Change) -> int | None:
    """When the flow is first in the state, from when the change waits."""
    since, wanted = change["time_ns"], _awaited(change)["name"]
    ends = [*(at for at, _ in states[1:]), None]
    for (at, state), end in zip(states, ends, strict=True):
        if state == wanted and (end is None or end > since):
            return max(at, since)
    return None
