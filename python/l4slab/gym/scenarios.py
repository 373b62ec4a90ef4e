"""The runs of an experiment, one of which is an episode."""

from __future__ import annotations

import copy
from collections.abc import Callable

from numpy.random import Generator

from l4slab import sweep
from l4slab.api import experiment as experiments
from l4slab.api.experiment import Described
from l4slab.base import units
from l4slab.base.errors import InputError
from l4slab.base.run import Run
from l4slab.engines.registry import DEFAULT

Scenario = Described


class Scenarios:
    """All combinations of an experiment's levels; each episode draws one, and a seed."""

    def __init__(self, experiment: Scenario, edit: Callable[[Run], None]):
        plan = sweep.expand(experiments.load(experiment, {}), DEFAULT)
        found = {}
        for run in plan.runs:
            description = copy.deepcopy(run.description)
            edit(description)
            # Trials differ in their seed alone, which the episode draws.
            description["seed"] = 0
            found[repr(description)] = description
        self.descriptions = list(found.values())

    def draw(self, random: Generator) -> Run:
        """The description of an episode."""
        description = self.descriptions[int(random.integers(len(self.descriptions)))]
        return {**description, "seed": int(random.integers(2**63))}


def nanoseconds(key: str, text: str) -> int:
    """A time above zero, or an InputError."""
    try:
        ns = units.TIME.parse(text)
    except ValueError as error:
        raise InputError(f'{key} = "{text}" {error}') from None
    if ns <= 0:
        raise InputError(f'{key} = "{text}" is not above zero; write a time such as "10ms"')
    return ns
