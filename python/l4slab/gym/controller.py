"""An agent as the congestion control of a flow."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from l4slab import _core
from l4slab.base.errors import InputError, suggest
from l4slab.base.run import EcnSupport, Run
from l4slab.gym.scenarios import Scenario, Scenarios, nanoseconds
from l4slab.gym.steps import HIGH, LOW, State, moved, seen

# The simulator's names for a window that is set from outside, by the requested ECN.
_HELD = {"accecn": "held-ect1#steps"}
_HELD_NOT_ECT = "held#steps"
_INITIAL_WINDOW = 10.0

Array = NDArray[np.float32]


class FlowStep(NamedTuple):
    """The inputs of a reward. Segments delivered, marked and lost within the step; rate of the flow's payload, and of
    the slowest link of its path as the file has it, Mbit/s; queueing delay (smoothed RTT beyond the least), ms; base
    RTT as the file has it, ms; window, segments; time of the episode, s.
    """

    delivered: int
    marked: int
    lost: int
    rate_mbps: float
    link_mbps: float
    queueing_ms: float
    rtt_ms: float
    cwnd: float
    time_s: float


def power(step: FlowStep) -> float:
    """The share of the link, less the queueing delay in base RTTs, less ten times the share of segments lost."""
    lost = step.lost / max(step.delivered + step.lost, 1)
    return step.rate_mbps / step.link_mbps - step.queueing_ms / step.rtt_ms - 10 * lost


class ControllerEnv(gymnasium.Env[Array, Array]):
    """The window of one flow of an experiment. Each episode draws the levels of factors and the seed again.

    An observation has l4slab.gym.steps.FEATURES, float32. An action, shape (1,), is between -1 (halve the window) and 1
    (double it), and holds from the next ACK on. TCP spreads the window over a round trip (pacing at cwnd / srtt) and
    repairs losses; nothing else moves the window. An episode is truncated after `episode`, and never terminates.
    `info` is a FlowStep as a dict.

    `flow` may be left out where the experiment has one flow. Of its `cc` only the wish for ECN counts (of "prague",
    ECT(1) and AccECN; of "reno", none), unless the flow has `ecn`. Raises InputError.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (as Gymnasium has it)

    def __init__(
        self,
        experiment: Scenario,
        flow: str | None = None,
        *,
        step: str = "10ms",
        episode: str = "10s",
        reward: Callable[[FlowStep], float] = power,
    ):
        self._flow = flow
        self._scenarios = Scenarios(experiment, self._hold)
        self._step_ns, self._episode_ns = nanoseconds("step", step), nanoseconds("episode", episode)
        self._step_s = self._step_ns * 1e-9
        self._reward = reward
        self.observation_space = gymnasium.spaces.Box(np.array(LOW, np.float32), np.array(HIGH, np.float32))
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._run: _core.Steps | None = None

    def _hold(self, description: Run) -> None:
        flows = {flow["name"]: flow for flow in description["flows"]}
        name = self._flow if self._flow is not None else next(iter(flows)) if len(flows) == 1 else None
        if name not in flows:
            known = ", ".join(flows)
            remedy = suggest(name, flows) if name else f"name the one whose window the agent holds: {known}"
            raise InputError(f'flow = "{name or ""}" is none of the experiment; {remedy}')
        flow = flows[name]
        if flow["kind"] != "tcp" or flow["count"] != 1 or flow["bytes"] is not None:
            raise InputError(f'flow "{name}" must be a single TCP flow without end: kind = "tcp", count = 1, no bytes')
        asked: EcnSupport = next((one["ecn"] for one in _core.controllers() if one["name"] == flow["cc"]), "off")
        # Of the controller's ECN requests, only ECT(1) differs from a host's default.
        flow["cc"], flow["options"] = _HELD.get(asked, _HELD_NOT_ECT), {}
        flow["ecn"] = flow["ecn"] or asked
        self._of = name

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        del options
        description = self._scenarios.draw(self.np_random)
        flow = next(flow for flow in description["flows"] if flow["name"] == self._of)
        rates = {link["name"]: link["rate_bps"] for link in description["links"]}
        self._link_mbps = min(rates[link] for link in flow["path"]) * 1e-6
        self._rtt_ms = max(flow["rtt_ns"] * 1e-6, 1e-3)
        self._run = _core.Steps(json.dumps(description))
        self._told, self._cwnd, self._now_ns = State(), _INITIAL_WINDOW, 0
        return np.array(seen(self._told, self._told, self._cwnd, self._step_s), np.float32), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if self._run is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        self._cwnd = moved(self._cwnd, float(action[0]))
        before = self._told
        self._now_ns, payload, *told = self._run.step(self._step_ns, round(self._cwnd))
        now = self._told = State(*told)
        delivered, lost = now.delivered - before.delivered, now.lost - before.lost
        step = FlowStep(
            delivered,
            now.marked - before.marked,
            lost,
            delivered * payload * 8e-6 / self._step_s,
            self._link_mbps,
            (now.srtt_us - now.min_rtt_us) * 1e-3 if now.min_rtt_us else 0.0,
            self._rtt_ms,
            self._cwnd,
            self._now_ns * 1e-9,
        )
        observation = np.array(seen(before, now, self._cwnd, self._step_s), np.float32)
        return observation, float(self._reward(step)), False, self._now_ns >= self._episode_ns, step._asdict()
