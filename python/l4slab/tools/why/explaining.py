"""Which switches make the model of one side behave like the other: each is tried by runs in the simulator.

Where a side is itself a run of the simulator, the model with a switch takes its place. Otherwise what the switch
changes in the model is added to the side: model and kernel need not agree for that, only their answers to the switch.

A candidate is one switch at one level, or several together. It explains the part of the difference that is gone with
it, over the quantities that differ, weighted with signal over noise. It is a cause where nothing is left beyond chance,
with fresh seeds, too.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from l4slab.base.progress import Told
from l4slab.base.values import Keys, Value
from l4slab.tools.why.quantities import Difference, Key, Values, differences, mean
from l4slab.tools.why.switches import Setting, Switch, applied, number_of, switches, text

# Trials of a first look, and of what is judged.
LOOKED, JUDGED = 4, 8
# Candidates that are looked at more closely, and first ones that others are added to.
_CLOSER, _FIRST = 6, 2
# Rounds in which a number is refined, levels on each side of the best one, and the ratio of neighbours that is enough.
_ROUNDS, _LEVELS, _FINEST = 4, 2, 1.002
# Of the difference: what is worth a closer look, what a second switch has to add, and what a cause explains at least,
# and at least by its interval.
_WORTH, _ADDED, ENOUGH, LEAST = 0.15, 0.03, 0.8, 0.5
# Above this, nothing is left beyond chance.
_LEFT = 0.05
# Units without parts.
_WHOLE = ("", "B", "p")
_RESAMPLED = 300
_INTERVAL = 0.95


@dataclass(frozen=True)
class Part:
    """One switch at a level."""

    switch: Switch
    setting: Setting

    def __str__(self) -> str:
        value = self.setting.value
        if isinstance(value, bool):
            value = "on" if value else "off"
        return f"{self.switch.name} = {self.switch.usual if value is None else value}"


@dataclass(frozen=True)
class Candidate:
    """One switch, or several. `explained`: part of the difference, from `low` to `high`; `left`: what still differs."""

    parts: tuple[Part, ...]
    explained: float
    low: float = -1.0
    high: float = 1.0
    left: tuple[Difference, ...] = ()
    is_judged: bool = False

    @property
    def explains_enough(self) -> bool:
        return self.is_judged and self.explained >= ENOUGH and self.low >= LEAST

    @property
    def is_cause(self) -> bool:
        return self.explains_enough and not self.left

    @property
    def name(self) -> str:
        return " and ".join(map(str, self.parts))

    @property
    def kind(self) -> frozenset[str]:
        """Levels of one kind are refined into each other: numbers of the same switches. Words are each of their own."""
        return frozenset(part.switch.name if part.switch.is_number else str(part) for part in self.parts)

    @property
    def switches(self) -> frozenset[str]:
        return frozenset(part.switch.name for part in self.parts)


@dataclass(frozen=True)
class Explanation:
    """`causes`: one, several that cannot be told apart, or none. `candidates`: the best of each switch."""

    causes: Sequence[Candidate]
    candidates: Sequence[Candidate]
    tried: int  # models


# What so many trials of each document of the simulator give; None where no run can be made of it.
Measure = Callable[[Sequence[Keys], int], Sequence[Values | None]]


class Explaining:
    """The search for what makes side `a` like side `b`, in a model of `a`. `every`: the switches, by default all."""

    def __init__(
        self,
        measure: Measure,
        model: Keys,
        a: Values,
        b: Values,
        simulated: bool,
        told: Told,
        every: Sequence[Switch] | None = None,
    ):
        self._measure, self._model, self._told, self._is_simulated = measure, model, told, simulated
        self._a, self._b, self._every = a, b, every
        self._differing = differences(self._a, self._b)
        self._base: dict[tuple[int, int], Values | None] = {}
        self._tried = 0

    def search(self) -> Explanation:
        """Try single switches, then others on top of the best."""
        every = switches(self._model) if self._every is None else self._every
        self._told(f"trying {len(every)} switches", None)
        best = self._closer(self._looked([(Part(one, level),) for one in every for level in one.levels]))
        causes = self._causes(best)
        firsts = [one for one in best[:_FIRST] if one.explained >= _WORTH]
        for first in firsts if not causes else []:
            self._told(f"trying pairs with {first.name}", None)
            others = [one for one in every if one.name not in first.switches]
            # Numbers are refined later.
            steps = [(one, level) for one in others for level in one.levels[:: 2 if one.is_number else 1]]
            pairs = self._looked([(*first.parts, Part(*step)) for step in steps])
            # A second half has to add something.
            best = _ranked([*best, *self._closer([one for one in pairs if one.explained > first.explained + _ADDED])])
            causes = self._causes(best)
            if causes:
                break
        return Explanation(causes, best, self._tried)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _looked(self, sets: Sequence[tuple[Part, ...]]) -> list[Candidate]:
        """A first look at each, the best first; those without effect on a run are left out."""
        found = self._measure([self._with(parts) for parts in sets], LOOKED)
        self._tried += len(sets)
        usual = self._of_base(LOOKED, 0)
        looked = []
        for parts, of_model in zip(sets, found, strict=True):
            if of_model is None or usual is None:
                continue
            if any(of_model.get(key) != given for key, given in usual.items()):
                looked.append(Candidate(parts, self._explained(self._a, self._b, usual, of_model)))
        return _ranked(looked)

    def _closer(self, looked: Sequence[Candidate]) -> list[Candidate]:
        """The best level of each of the best sets of switches, refined and judged."""
        known = list(looked)
        best = _best_of_each(known)[:_CLOSER]
        worth = [one for one in best if one.explained >= _WORTH]
        kinds = {one.kind for one in worth}
        for _ in range(_ROUNDS):
            sets = [parts for one in worth for parts in _finer(one, known)]
            known += self._looked(list(dict.fromkeys(sets))) if sets else []
            worth = _best_of_each([one for one in known if one.kind in kinds])
        return _ranked([*(self._judged(one) for one in worth), *best[len(worth) :]])

    def _judged(self, one: Candidate) -> Candidate:
        """With more trials, an interval, and what is left of the difference, also with fresh seeds."""
        found = []
        for candidate in dict.fromkeys((*(_rounded(one, digits) for digits in (1, 2, 3)), one)):
            of_model, usual = self._measure([self._with(candidate.parts)], JUDGED)[0], self._of_base(JUDGED, 0)
            again = self._measure([self._with(candidate.parts, seed=1)], JUDGED)[0]
            if of_model is None or usual is None or again is None:
                continue
            low, explained, high = self._interval(usual, of_model)
            left = self._left(usual, of_model)
            fresh = self._of_base(JUDGED, 1)
            if not left and fresh is not None:
                left = self._left(fresh, again)
            found.append(Candidate(candidate.parts, explained, low, high, tuple(left), is_judged=True))
        # The roundest number of those that are as good.
        return min(found, key=lambda judged: (len(judged.left), -round(judged.explained, 2)), default=one)

    def _causes(self, best: Sequence[Candidate]) -> list[Candidate]:
        """The causes that cannot be told apart, of the fewest switches. On a kernel something may be left that is the
        model's, so what explains as much is named, too.
        """
        causes = [one for one in best if one.is_cause]
        if not causes:
            return []
        fewest = min(len(one.parts) for one in causes)
        first = next(one for one in causes if len(one.parts) == fewest)
        others = causes if self._is_simulated else [one for one in best if one.explains_enough]
        others = [one for one in others if len(one.parts) == fewest and one.high >= first.low]
        return [first, *(one for one in others if one is not first)]

    # -- measures -----------------------------------------------------------------------------------------------------

    def _with(self, parts: Sequence[Part], seed: int = 0) -> Keys:
        document = applied(self._model, [part.setting for part in parts])
        if not seed:
            return document
        given = document.get("seed", 1)
        return {**document, "seed": (given if isinstance(given, int) else 1) + 1000 * seed}

    def _of_base(self, trials: int, seed: int) -> Values | None:
        """The model without any switch."""
        if (trials, seed) not in self._base:
            self._base[trials, seed] = self._measure([self._with((), seed)], trials)[0]
        return self._base[trials, seed]

    def _predicted(self, a: Values, usual: Values, of_model: Values) -> dict[Key, tuple[float, ...]]:
        """What side `a` would be with the switch."""
        common = [key for key in self._b if key in of_model and key in usual and key in a]
        if self._is_simulated:
            return {key: of_model[key] for key in common}
        return {key: tuple(value + mean(of_model[key]) - mean(usual[key]) for value in a[key]) for key in common}

    def _explained(self, a: Values, b: Values, usual: Values, of_model: Values) -> float:
        """Part of the difference that is gone: 1 all, 0 none, below 0 it is larger."""
        predicted = self._predicted(a, usual, of_model)
        total = weights = 0.0
        for one in self._differing:
            gap = abs(mean(b[one.key]) - mean(a[one.key]))
            left = abs(mean(b[one.key]) - mean(predicted[one.key])) if one.key in predicted else gap
            total += one.weight * (max(1 - left / gap, -1.0) if gap else 0.0)
            weights += one.weight
        return total / weights

    def _left(self, usual: Values, of_model: Values) -> list[Difference]:
        """What differs beyond chance between the other side and the model with the switch, and by more than the model
        differs from the first side anyhow.
        """
        left = differences(self._predicted(self._a, usual, of_model), self._b, _LEFT)
        if self._is_simulated:
            return left

        def own(key: Key) -> float:
            return abs(mean(self._a[key]) - mean(usual[key]))

        return [one for one in left if abs(mean(one.a) - mean(one.b)) > own(one.key)]

    def _interval(self, usual: Values, of_model: Values) -> tuple[float, float, float]:
        """What is explained, between its bounds, by resampling trials (percentiles of the bootstrap)."""
        draw = random.Random(1)  # noqa: S311  (not a secret)

        def resampled(one: Values, chosen: Sequence[int]) -> Values:
            return {key: tuple(given[number] for number in chosen) for key, given in one.items() if key in keys}

        def chosen(one: Values) -> list[int]:
            count = len(next(iter(one.values())))
            return draw.choices(range(count), k=count)

        keys = {one.key for one in self._differing}
        found = []
        for _ in range(_RESAMPLED):
            of_usual = chosen(usual)
            found.append(
                self._explained(
                    resampled(self._a, chosen(self._a)), resampled(self._b, chosen(self._b)),
                    resampled(usual, of_usual), resampled(of_model, of_usual),
                )
            )  # fmt: skip
        found.sort()
        outside = round(_RESAMPLED * (1 - _INTERVAL) / 2)
        return found[outside], self._explained(self._a, self._b, usual, of_model), found[-1 - outside]


def _ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda one: (not one.is_cause, -one.explained))


def _best_of_each(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best of each kind."""
    found: dict[frozenset[str], Candidate] = {}
    for one in _ranked(candidates):
        found.setdefault(one.kind, one)
    return list(found.values())


def _finer(one: Candidate, known: Sequence[Candidate]) -> list[tuple[Part, ...]]:
    """The candidate with each of its numbers between the neighbours that were tried, the others as they are."""
    found = []
    same = [other for other in known if other.kind == one.kind]
    for place, part in enumerate(one.parts):
        rest = one.parts[:place] + one.parts[place + 1 :]
        of_same = [other for other in same if other.parts[:place] + other.parts[place + 1 :] == rest]
        # The second best may be the foot of a higher peak.
        tops = sorted(of_same, key=lambda other: -other.explained)[: 2 if len(one.parts) == 1 else 1]
        values_ = [other.parts[place].setting.value for other in of_same]
        for top in tops:
            for value in _between(part.switch, top.parts[place].setting.value, values_):
                new = Part(part.switch, part.switch.at(value))
                found.append((*one.parts[:place], new, *one.parts[place + 1 :]))
    return found


def _between(switch: Switch, value: Value, known: Sequence[Value]) -> list[Value]:
    """Numbers between a level and its neighbours, the present value included."""
    here = number_of(value) if switch.is_number else None
    if here is None:
        return []
    number, unit = here
    parsed = [number_of(other) for other in (*known, switch.usual)]
    numbers = sorted({one[0] for one in parsed if one is not None and one[1] == unit})
    below = max((one for one in numbers if one < number), default=number / 2)
    above = min((one for one in numbers if one > number), default=number * 2)
    is_whole = unit in _WHOLE and all(one == int(one) for one in numbers)
    found = []
    for low, high in ((below, number), (number, above)):
        if low > 0 and high / low < _FINEST:
            continue
        for step in range(1, _LEVELS + 1):
            part = step / (_LEVELS + 1)
            between = low ** (1 - part) * high**part if low > 0 else low + part * (high - low)
            found.append(text(between, unit, is_whole))
    return [new for new in dict.fromkeys(found) if new not in {str(other) for other in (*known, switch.usual)}]


def _rounded(one: Candidate, digits: int) -> Candidate:
    """The same with so many digits of its numbers, as a person would have chosen them."""
    parts = []
    for part in one.parts:
        here = number_of(part.setting.value) if part.switch.is_number else None
        if here is not None and here[0]:
            number = round(here[0], digits - 1 - math.floor(math.log10(here[0])))
            is_whole = here[1] in _WHOLE and here[0] == int(here[0])
            part = Part(part.switch, part.switch.at(text(number, here[1], is_whole)))
        parts.append(part)
    return replace(one, parts=tuple(parts))
