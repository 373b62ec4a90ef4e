"""An agent that sets the parameters of a queue."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from l4slab import _core
from l4slab.base import units
from l4slab.base.errors import InputError, suggest
from l4slab.base.run import Link, Run
from l4slab.gym.scenarios import Scenario, Scenarios, nanoseconds

Array = NDArray[np.float32]

FEATURES = ("delay", "marked", "dropped", "share")


class QueueState(NamedTuple):
    """A queue in a step: mean time in it, ms; shares of the packets that came which were marked and dropped; packets
    that left; packets that wait.
    """

    delay_ms: float
    marked: float
    dropped: float
    sent: int
    waiting: int


class QueueStep(NamedTuple):
    """The inputs of a reward: the share of the link's rate that was used; the state by queue, "all" among them; the
    parameters that held; time of the episode, s.
    """

    utilisation: float
    queues: dict[str, QueueState]
    parameters: dict[str, str]
    time_s: float


def power(step: QueueStep) -> float:
    """Utilisation, less a tenth for each doubling of the mean delay of any queue beyond 1 ms."""
    longest = max(queue.delay_ms for queue in step.queues.values())
    return step.utilisation - 0.1 * math.log2(max(longest, 1.0))


class QueueEnv(gymnasium.Env[Array, Array]):
    """Parameters of a link's queue, set at each step while packets wait (`tc qdisc change`; dualpi2, codel and pie).

    `parameters` has the least and the most of each keyword as `tc` writes it, `{"target": ("1ms", "50ms")}`; an action,
    shape (number of them,), goes from -1 (the least) to 1 (the most), on a logarithmic scale where both are above zero.
    An observation, float32, has utilisation and then, for each queue (the whole one, or those inside such as L and C),
    FEATURES: log10(1 + delay in ms) / 4, shares of its packets that were marked and dropped, its share of the packets
    that left. Everything else is as in ControllerEnv; `info` is a QueueStep as a dict. Raises InputError.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (as Gymnasium has it)

    def __init__(
        self,
        experiment: Scenario,
        parameters: Mapping[str, tuple[str, str]],
        link: str | None = None,
        *,
        step: str = "100ms",
        episode: str = "30s",
        reward: Callable[[QueueStep], float] = power,
    ):
        if not parameters:
            raise InputError('parameters is empty; give ranges, such as {"target": ("1ms", "50ms")}')
        self._ranges = {keyword: _Range(keyword, *ends) for keyword, ends in parameters.items()}
        self._of = link or ""
        self._scenarios = Scenarios(experiment, self._check)
        self._step_ns, self._episode_ns = nanoseconds("step", step), nanoseconds("episode", episode)
        self._reward = reward
        self._names = self._inside(self._scenarios.descriptions[0])
        size = 1 + len(FEATURES) * len(self._names)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (len(self._ranges),), np.float32)
        self._run: _core.Steps | None = None

    def _check(self, description: Run) -> None:
        names = [link["name"] for link in description["links"]]
        self._of = name = self._of or (names[0] if len(names) == 1 else "")
        if name not in names:
            raise InputError(f'link = "{name}" is none of the experiment; {suggest(name, names)}')
        qdisc = _of_link(description, name)["qdisc"]
        try:
            run = _core.Steps(json.dumps(description))
            for part in (-1.0, 1.0):
                run.change_qdisc(name, self._changed(qdisc, {key: one.at(part) for key, one in self._ranges.items()}))
        except ValueError as error:
            raise InputError(f"parameters: {error}") from None

    def _changed(self, qdisc: str, said: Mapping[str, str]) -> str:
        """The qdisc with other parameters."""
        words = qdisc.split()
        for keyword, value in said.items():
            if keyword in words:
                words[words.index(keyword) + 1] = value
            else:
                words += [keyword, value]
        return " ".join(words)

    def _inside(self, description: Run) -> list[str]:
        names = [name for name, *_ in _core.Steps(json.dumps(description)).queues(self._of)]
        return names[1:] or names

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        del options
        description = self._scenarios.draw(self.np_random)
        link = _of_link(description, self._of)
        self._qdisc, self._bits = link["qdisc"], link["rate_bps"] * self._step_ns * 1e-9
        if self._inside(description) != self._names:
            raise InputError(f'link "{self._of}": all its qdiscs must have the same queues inside')
        self._run, self._now_ns = _core.Steps(json.dumps(description)), 0
        return np.zeros(1 + len(FEATURES) * len(self._names), np.float32), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if self._run is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        said = {
            keyword: one.at(float(value)) for (keyword, one), value in zip(self._ranges.items(), action, strict=True)
        }
        self._run.change_qdisc(self._of, self._changed(self._qdisc, said))
        self._now_ns = self._run.advance(self._step_ns)
        rows = self._run.queues(self._of)
        used = min(rows[0][5] * 8 / self._bits, 1.0)
        queues = {name: _state(*counts) for name, *counts in rows}
        step = QueueStep(used, queues, said, self._now_ns * 1e-9)
        left = max(queues["all"].sent, 1)
        numbers = [used]
        for name in self._names:
            one = queues[name]
            numbers += [min(math.log10(1 + one.delay_ms) / 4, 1.0), one.marked, one.dropped, one.sent / left]
        truncated = self._now_ns >= self._episode_ns
        info = step._asdict() | {"queues": {name: one._asdict() for name, one in queues.items()}}
        return np.array(numbers, np.float32), float(self._reward(step)), False, truncated, info


def _of_link(description: Run, name: str) -> Link:
    return next(link for link in description["links"] if link["name"] == name)


def _state(arrived: int, sent: int, marked: int, dropped: int, _: int, sojourn_ns: int, waiting: int) -> QueueState:
    came = max(arrived, sent + dropped, 1)
    return QueueState(sojourn_ns * 1e-6 / max(sent, 1), min(marked / came, 1.0), dropped / came, sent, waiting)


class _Range:
    """From the least to the most of a parameter, as tc writes it."""

    def __init__(self, keyword: str, least: str, most: str):
        self._ends = [self._read(keyword, text) for text in (least, most)]
        (low, unit), (high, other) = self._ends
        if unit != other or not low < high:
            raise InputError(
                f'parameters: {keyword} goes from "{least}" to "{most}"; write two values of one kind, the least first'
            )
        self._low, self._high, self._unit = low, high, unit
        self._whole = not unit and all(str(text).strip().isdigit() for text in (least, most))

    @staticmethod
    def _read(keyword: str, text: str) -> tuple[float, str]:
        """The number and its unit: us of times, % or none."""
        try:
            if str(text).endswith("s"):
                return units.TIME.parse(text) * 1e-3, "us"
            return (float(text[:-1]), "%") if str(text).endswith("%") else (float(text), "")
        except ValueError:
            raise InputError(
                f'parameters: {keyword} = "{text}" is no value; write it as tc does, such as "15ms" or "2"'
            ) from None

    def at(self, action: float) -> str:
        """The value at an action between -1 and 1."""
        part = (min(max(action, -1.0), 1.0) + 1) / 2
        if self._low > 0:
            value = self._low * (self._high / self._low) ** part
        else:
            value = self._low + (self._high - self._low) * part
        number = f"{round(value)}" if self._whole or self._unit in ("us", "%") else f"{value:.9g}"
        return number + self._unit
