"""Gymnasium environments: an agent is the controller of a flow, or sets the parameters of a queue (docs/gym.md).

    env = l4slab.gym.ControllerEnv("experiment.toml", flow="mine")

Needs the extra `gym`. Deterministic: the same seed and the same actions give the same numbers.
"""

from __future__ import annotations

try:
    import gymnasium as _  # noqa: F401
except ModuleNotFoundError:
    from l4slab.base.errors import InputError

    raise InputError("l4slab.gym needs gymnasium: pip install 'l4slab[gym]'") from None

from l4slab.gym.controller import ControllerEnv, FlowStep
from l4slab.gym.queue import QueueEnv, QueueState, QueueStep

__all__ = ["ControllerEnv", "FlowStep", "QueueEnv", "QueueState", "QueueStep"]
