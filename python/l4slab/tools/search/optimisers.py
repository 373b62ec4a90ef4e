"""Optimisers that propose the next point: random sampling, TPE of Optuna, CMA-ES of cmaes.

All are told the outcomes in the order in which they have proposed the points, whatever ended first: what they propose
follows from their seed alone.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any, Protocol

from l4slab.base.errors import InputError, suggest
from l4slab.experimentfile import Level
from l4slab.tools.search.space import Choice, Range, Space

# Of points that [[skip]] leaves out, one after the other: such a space has none besides, or nearly so.
_SKIPPED = 10_000


class Optimiser(Protocol):
    """Proposes points and learns their cost."""

    def ask(self) -> dict[str, Level] | None:
        """The next point; None: not before it is told more."""

    def tell(self, cost: float | None) -> None:
        """Report the cost of the oldest proposed point, or None if it is unknown."""


class Random:
    """Points drawn at random, none from the outcomes."""

    def __init__(self, space: Space, seed: int):
        self._space, self._rng = space, random.Random(seed)  # noqa: S311

    def ask(self) -> dict[str, Level] | None:
        return self._space.draw(self._rng)

    def tell(self, cost: float | None) -> None:
        pass


class Tpe:
    """The tree-structured Parzen estimator (Bergstra et al., 2011), multivariate, of Optuna."""

    def __init__(self, space: Space, seed: int):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space, self._failed = space, optuna.trial.TrialState.FAIL
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=20)
        self._study = optuna.create_study(sampler=sampler)
        distributions = optuna.distributions
        self._distributions: dict[str, Any] = {}
        for one in space.parameters:
            if isinstance(one, Choice):
                self._distributions[one.name] = distributions.CategoricalDistribution(list(range(len(one.levels))))
            else:
                # In parts of the range: whole numbers, scales and units are the space's business.
                self._distributions[one.name] = distributions.FloatDistribution(0.0, 1.0)
        self._open: list[Any] = []

    def ask(self) -> dict[str, Level] | None:
        for _ in range(_SKIPPED):
            trial = self._study.ask(self._distributions)
            levels = {one.name: _level(one, trial.params[one.name]) for one in self._space.parameters}
            if self._space.left_out(levels) is None:
                self._open.append(trial)
                return levels
            self._study.tell(trial, state=self._failed)
        raise _all_skipped(self._space)

    def tell(self, cost: float | None) -> None:
        trial = self._open.pop(0)
        if cost is None:
            self._study.tell(trial, state=self._failed)
        else:
            self._study.tell(trial, cost)


class CmaEs:
    """CMA-ES for numbers and choices (CatCMA with margin: Hamano et al., 2025), of cmaes; it restarts."""

    def __init__(self, space: Space, seed: int):
        from cmaes import CatCMAwM

        self._space, self._seed = space, seed
        self._ranges = [one for one in space.parameters if isinstance(one, Range)]
        self._choices = [one for one in space.parameters if isinstance(one, Choice) and len(one.levels) > 1]
        self._make = CatCMAwM
        self._start()

    def _start(self) -> None:
        self._cma = self._make(
            x_space=[[0.0, 1.0]] * len(self._ranges) or None,
            c_space=[len(one.levels) for one in self._choices] or None,
            seed=self._seed,
        )
        self._seed += 1
        self._asked: list[Any] = []
        self._told: list[tuple[Any, float | None]] = []

    def ask(self) -> dict[str, Level] | None:
        if len(self._asked) == self._cma.population_size:
            return None
        for _ in range(_SKIPPED):
            solution = self._cma.ask()
            levels = self._levels(solution)
            if self._space.left_out(levels) is None:
                self._asked.append(solution)
                return levels
        raise _all_skipped(self._space)

    def _levels(self, solution: Any) -> dict[str, Level]:
        found: dict[str, Level] = {}
        if self._ranges:
            found |= {one.name: one.at(float(part)) for one, part in zip(self._ranges, solution.x, strict=True)}
        if self._choices:
            # A row per choice, one of whose numbers is 1.
            rows = zip(self._choices, solution.c, strict=True)
            found |= {one.name: one.levels[int(row[: len(one.levels)].argmax())] for one, row in rows}
        return {
            one.name: found[one.name] if one.name in found else one.levels[0]  # type: ignore[union-attr]
            for one in self._space.parameters
        }

    def tell(self, cost: float | None) -> None:
        self._told.append((self._asked[len(self._told)], cost))
        if len(self._told) < self._cma.population_size:
            return
        # What has no outcome is as bad as the worst.
        worst = max((cost for _, cost in self._told if cost is not None), default=0.0)
        self._cma.tell([(solution, worst if cost is None else cost) for solution, cost in self._told])
        self._asked, self._told = [], []
        if self._ranges and self._cma.should_stop():
            self._start()


OPTIMISERS: dict[str, Callable[[Space, int], Optimiser]] = {"random": Random, "tpe": Tpe, "cmaes": CmaEs}
DEFAULT = "tpe"


def optimiser(name: str, space: Space, seed: int) -> Optimiser:
    """The optimiser of this name. Raises InputError."""
    if name not in OPTIMISERS:
        raise InputError(f"--optimiser {name} is not an optimiser; {suggest(name, OPTIMISERS)}")
    try:
        return OPTIMISERS[name](space, seed)
    except ImportError:
        raise InputError(
            f'--optimiser {name} needs a library; install it with: pip install "l4slab[search]", or give '
            "--optimiser random"
        ) from None


def _level(one: Range | Choice, value: Any) -> Level:
    return one.levels[value] if isinstance(one, Choice) else one.at(value)


def _all_skipped(space: Space) -> InputError:
    text = f"leaves out {_SKIPPED} points of [search], one after the other; relax a condition"
    return InputError(text, file=space.experiment.file, key="[[skip]]")
