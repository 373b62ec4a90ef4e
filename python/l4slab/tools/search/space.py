"""The table `[search]` of an experiment file: a space of scenarios, and the document of each of its points.

A point is a level per parameter, as a combination of a sweep is: `[let]`, `[[skip]]` and `{names}` mean the same.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from pydantic import Field

from l4slab.base.errors import InputError, suggest
from l4slab.base.units import Dimension
from l4slab.base.values import Keys, Value
from l4slab.experimentfile import Bundle, Experiment, Level, Table, show
from l4slab.experimentfile.file import read_levels
from l4slab.experimentfile.wording import Problem, check, told
from l4slab.sweep import check_factor_names
from l4slab.sweep.combination import Target, fill_in, set_levels, targets_of
from l4slab.sweep.expressions import evaluate
from l4slab.tools.search.documents import UNITS, quantity, tables, without

OBJECTIVE = "objective"
# Three digits: a point can be read and typed.
_DIGITS = 3
# Draws until one is not left out by [[skip]].
_DRAWS = 10_000


class SkippedError(Exception):
    """A `[[skip]]` leaves this point out; the text is its reason."""


class _Bounds(Table):
    """A range as written."""

    from_: int | float | str = Field(validation_alias="from", examples=['"1Mbit"'])
    to: int | float | str = Field(examples=['"1Gbit"'])
    log: bool = Field(default=False, examples=["true"])


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both of them possible, in the base unit where there is a unit (bit/s, ns, bytes).

    `log`: each ratio is as likely as another of its size. `integer`: whole numbers.
    """

    name: str
    low: float
    high: float
    log: bool = False
    integer: bool = False
    dimension: Dimension | None = None

    def draw(self, rng: random.Random) -> Level:
        """A level, each part of the range as likely as another."""
        return self.at(rng.random())

    def at(self, part: float) -> Level:
        """The level at a part of the range, 0 to 1."""
        if self.integer:
            # Each whole number has as much room as the others have on this scale.
            low, high = self.low - 0.5, self.high + 0.5
            if self.log:
                low = max(low, 0.5)
        else:
            low, high = self.low, self.high
        number = low * (high / low) ** part if self.log else low + (high - low) * part
        return self.level(number)

    def level(self, number: float) -> Level:
        """A number of the range as it would be written, with three digits."""
        number = min(max(number, self.low), self.high)
        if self.integer:
            return round(number)
        rounded = float(f"{number:.{_DIGITS}g}")
        # The bounds may have more digits than others.
        number = rounded if self.low <= rounded <= self.high else self.low if rounded < self.low else self.high
        return number if self.dimension is None else quantity(number, self.dimension)

    def number(self, level: Level) -> float:
        """The number that `level` was made from."""
        return float(level) if self.dimension is None else float(self.dimension.parse(level))


@dataclass(frozen=True)
class Choice:
    """Levels, each as likely as another; `settings` has what each sets where it is a bundle."""

    name: str
    levels: tuple[Level, ...]
    settings: tuple[Bundle, ...] = ()

    def draw(self, rng: random.Random) -> Level:
        """One of the levels."""
        return self.levels[rng.randrange(len(self.levels))]


Parameter = Range | Choice


@dataclass(frozen=True)
class Space:
    """The space of `[search]`. Deterministic: the same random numbers give the same points."""

    experiment: Experiment
    parameters: tuple[Parameter, ...]
    _targets: Mapping[str, list[Target]] = field(repr=False)

    @classmethod
    def of(cls, experiment: Experiment) -> Space:
        """The space of a file. Raises InputError for anything wrong in its `[search]`."""
        with told(experiment.file):
            parameters = _parameters(experiment)
        space = cls(experiment, parameters, {})
        with space._as_search():
            # Each key must lead somewhere, as in a sweep.
            first = {one.name: one.levels[0] if isinstance(one, Choice) else one.at(0.0) for one in parameters}
            everything = space._at(first, whole=True)
            check_factor_names(everything)
            targets = targets_of(space._without_tables(everything))
        return replace(space, _targets=targets)

    @property
    def names(self) -> list[str]:
        """The parameters' names, in file order."""
        return [one.name for one in self.parameters]

    def draw(self, rng: random.Random) -> dict[str, Level]:
        """A point that no `[[skip]]` leaves out. Raises InputError where there seems to be none."""
        reason = ""
        for _ in range(_DRAWS if self.experiment.skips else 1):
            levels = {one.name: one.draw(rng) for one in self.parameters}
            if (reason := self.left_out(levels) or "") == "":
                return levels
        raise InputError(
            f"leaves out each of {_DRAWS} points of [search], drawn at random ({reason}); relax a condition",
            file=self.experiment.file,
            key="[[skip]]",
        )

    def left_out(self, levels: Mapping[str, Level]) -> str | None:
        """Why `[[skip]]` leaves a point out, or None. Raises InputError."""
        if not self.experiment.skips:
            return None
        try:
            self.document(levels)
        except SkippedError as skipped:
            return str(skipped)
        return None

    def contains(self, document: Keys, levels: Mapping[str, Level]) -> bool:
        """Whether a document that was made from that of `levels` has its numbers in the ranges, and no `[[skip]]` is
        in the way. A key that it does not have any more may be at its default.
        """
        changed = dict(levels)
        for one in self.parameters:
            if isinstance(one, Range):
                for level in _levels(document, one.name):
                    if not one.low <= one.number(level) <= one.high:
                        return False
                    changed[one.name] = level
        return self.left_out(changed) is None

    def document(self, levels: Mapping[str, Level]) -> Keys:
        """The experiment file of a point, as `tomllib` would read it: levels and `[let]` values put in, nothing left
        to vary, and no statements about results.

        Raises SkippedError where a `[[skip]]` leaves the point out, InputError where a value is wrong.
        """
        with self._as_search():
            experiment = self._at(levels)
            combination = set_levels(experiment, dict(levels), dict(self._targets))
            ((combination, reason),) = evaluate(experiment, [combination], None)
            if reason is not None:
                raise SkippedError(reason)
            fill_in(experiment, combination)
        found = {key: value for key, value in combination.top.items() if key != "subset"}
        document = combination.document
        sections: Keys = {
            "link": dict(document["link"]),
            "flow": list(document["flow"].values()),
            "at": list(document["at"]),
            "impair": dict(document["impair"]),
            "rewrite": list(document["rewrite"]),
            "tunnel": dict(document["tunnel"]),
            "agree": document["agree"],
        }
        found |= {key: sections[key] for key in experiment.sections if sections.get(key)}
        for name in self._tables_of_its_own:
            if levels[name] is False:
                section, _, table = name.partition(".")
                found = without(found, section, table)
        return found

    def _at(self, levels: Mapping[str, Level], whole: bool = False) -> Experiment:
        """The experiment as a sweep of this one point; with `whole`, of every level of the choices."""
        factors: dict[str, list[Level]] = {}
        bundles: dict[str, list[Bundle]] = {}
        for one in self.parameters:
            if isinstance(one, Choice) and one.settings:
                bundles[one.name] = [setting for setting in one.settings if whole or setting.level == levels[one.name]]
            else:
                every = one.levels if isinstance(one, Choice) and whole else [levels[one.name]]
                factors[one.name] = list(every)
        return self.experiment.swept(factors, bundles)

    @cached_property
    def _tables_of_its_own(self) -> list[str]:
        """The parameters that say whether a table is there."""
        return [name for name in self.names if name.count(".") == 1]

    def _without_tables(self, experiment: Experiment) -> Experiment:
        factors = {name: one for name, one in experiment.factors.items() if name not in self._tables_of_its_own}
        return replace(experiment, factors=factors)

    @contextmanager
    def _as_search(self) -> Iterator[None]:
        """Report mistakes of a sweep as mistakes of [search]."""
        try:
            yield
        except InputError as error:
            key, message = error.key, error.message
            for name in self.names:
                for before, after in (("sweep.", "search."), ('sweep."', 'search."')):
                    message = message.replace(before + name, after + name)
                    key = key.replace(before + name, after + name) if key else key
            raise InputError(message, file=error.file, key=key) from None


def _levels(document: Keys, name: str) -> Iterator[Level]:
    """The value in a document at a parameter's dotted name."""
    section, table, key = (*name.split(".", 2), "", "")[:3]
    for found, one in tables(document, section).items() if key else ():
        level = one.get(key)
        if table in ("*", found) and isinstance(level, Level):
            yield level


def _parameters(experiment: Experiment) -> tuple[Parameter, ...]:
    raw = {name: value for name, value in experiment.document["search"].items() if name != OBJECTIVE}
    if not raw:
        text = 'has no range; add one such as "link.bottleneck.rate" = { from = "1Mbit", to = "1Gbit", log = true }'
        raise Problem(("search",), "", text)
    if experiment.document["sweep"]:
        raise Problem(("sweep",), "", "stands beside [search]; move its levels there, where a list is a choice")
    found = tuple(_parameter(experiment, name, value) for name, value in _named(raw))
    taken: set[str] = set()
    for one in found:
        if one.name.lower() in taken or one.name.lower() in {name.lower() for name in experiment.let}:
            raise Problem(_place(one.name), "", "is already the name of a parameter or in [let]; choose another name")
        taken.add(one.name.lower())
    return found


def _named(raw: Keys, before: str = "") -> Iterator[tuple[str, Value]]:
    """Each parameter by its dotted name, whether it was written in quotes or as tables."""
    for key, value in raw.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and value and all(isinstance(inner, dict | list) for inner in value.values()):
            yield from _named(value, f"{name}.")
        else:
            yield name, value


def _place(name: str) -> tuple[str, ...]:
    return ("search", f'"{name}"' if "." in name else name)


def _parameter(experiment: Experiment, name: str, raw: Value) -> Parameter:
    place = _place(name)
    if name.count(".") == 1:
        return _table_or_none(experiment, name, raw)
    if isinstance(raw, dict):
        if "sql" in raw:
            raise Problem(place, "", f"has a query and is no parameter; call it [search.{OBJECTIVE}]")
        return _range(name, check(_Bounds, raw, place))
    if not isinstance(raw, list):
        text = f"= {show(raw)} is no range; write {{ from = {show(raw)}, to = ... }}, or [{show(raw)}] for a choice"
        raise Problem(place, "", text)
    levels, settings = read_levels("search", name, raw)
    return Choice(name, tuple(levels), tuple(settings))


def _table_or_none(experiment: Experiment, name: str, raw: Value) -> Choice:
    """Whether a table of the file is there."""
    section, _, table = name.partition(".")
    place = _place(name)
    document = experiment.document
    valid = [f"{section}.{one}" for section in ("flow", "impair", "tunnel") for one in document[section]]
    if name not in valid:
        keys = "a key has three parts, such as link.bottleneck.rate, and of tables it may be"
        raise Problem(place, "", f"is no parameter; {keys} one of {', '.join(valid) or 'none'}; {suggest(name, valid)}")
    if not isinstance(raw, list) or sorted(map(str, raw)) != ["False", "True"]:
        text = f"= {show(raw)} does not say whether [[{section}]] {show(table)} is there; write [true, false]"
        raise Problem(place, "", text)
    return Choice(name, tuple(level for level in raw if isinstance(level, bool)))


def _range(name: str, bounds: _Bounds) -> Range:
    place = _place(name)
    both = {"from": bounds.from_, "to": bounds.to}
    dimension = None
    if any(isinstance(bound, str) for bound in both.values()):
        dimension = _dimension(place, both)
        low, high = (float(dimension.parse(bound)) for bound in both.values())
    else:
        low, high = (float(bound) for bound in both.values())
    for key, number in zip(both, (low, high), strict=True):
        if not math.isfinite(number):
            raise Problem(place, key, f"= {both[key]} is no number; write one")
    if low >= high:
        remedy = f"write [{show(bounds.from_)}] for one level" if low == high else "exchange them"
        raise Problem(place, "from", f"= {show(bounds.from_)} is not less than to = {show(bounds.to)}; {remedy}")
    integer = dimension is None and all(isinstance(bound, int) for bound in both.values())
    if bounds.log and low <= 0:
        raise Problem(place, "from", f"= {show(bounds.from_)} has no logarithm; write more than 0, or log = false")
    return Range(name, low, high, bounds.log, integer, dimension)


def _dimension(place: tuple[str, ...], both: Mapping[str, str | int | float]) -> Dimension:
    """The dimension of both bounds."""
    found = []
    for key, bound in both.items():
        known = [one for one in UNITS if isinstance(bound, str) and _is(one, bound)]
        if not known:
            text = f'= {show(bound)} is no quantity; write it with its unit, such as "5ms" or "10Mbit"'
            raise Problem(place, key, text)
        found.append(known[0])
    if found[0] is not found[1]:
        text = f"= {show(both['to'])} is a {found[1].name}, and from = {show(both['from'])} a {found[0].name}"
        raise Problem(place, "to", f"{text}; write both in one unit")
    return found[0]


def _is(dimension: Dimension, text: str) -> bool:
    try:
        dimension.parse(text)
    except ValueError:
        return False
    return True
