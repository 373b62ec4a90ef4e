"""`l4slab compare --fail-on`: quantities that changed by more than a limit, and by more than chance does.

Cells are those of `differences`. A quantity of a cell fails where two things are true:

* Its mean over the trials changed by more than its limit.
* Trials that differ by chance only would hardly be so far apart: a permutation test, one-sided where the limit has a
  sign, and Holm's correction, so that any false alarm in a whole comparison has at most the probability `CHANCE`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from l4slab.base.errors import InputError, suggest
from l4slab.base.numbers import counted
from l4slab.results import chance
from l4slab.results.differences import PLACES, Change, cells_of, factors_of, paired, words_of

# How often anything fails in a comparison of results that differ by chance only.
CHANCE = 0.01
# What `trials_for` promises: to find a change of so many standard deviations of a trial, so often.
SPREADS, FOUND = 2.0, 0.95
# Quantities that a comparison may have: of more, none has a p that is small enough.
_MOST = round(CHANCE * chance.WAYS)

# Quantities between 0 and 1.
_PARTS = ("share", "jain", "utilisation")
_LIMIT = re.compile(r"(?:(?P<place>\S+)\.)?(?P<quantity>\w+)\s+(?P<sign>[+-]?)(?P<amount>\d+(?:\.\d+)?)\s*(?P<unit>%?)")


@dataclass(frozen=True)
class Limit:
    """How far a quantity may change: by a part of the mean before where `is_relative`, else in its own unit.

    `place` is a flow, a link, or link.queue; "" is every place. `sign` is 1 or -1 where only a rise or only a fall
    counts, else 0.
    """

    place: str
    quantity: str
    sign: int
    amount: float
    is_relative: bool

    def __str__(self) -> str:
        number = f"{100 * self.amount:g}%" if self.is_relative else f"{self.amount:g}"
        return f"{self.quantity} {('', '+', '-')[self.sign]}{number}"

    def covers(self, place: str) -> bool:
        """Whether the limit is about this flow, or link and queue."""
        return not self.place or f"{place.replace(' ', '.')}.".startswith(f"{self.place}.")

    def is_passed_by(self, change: Change) -> bool:
        """Whether the means are further apart than that, in a direction that counts."""
        difference = change.mean_after - change.mean_before
        if self.sign * difference < 0:
            return False
        return abs(difference) > self.amount * (abs(change.mean_before) if self.is_relative else 1)


@dataclass(frozen=True)
class Judged:
    """A quantity of a cell with its limit. `after` is empty where the second folder has no value."""

    change: Change  # whose `chance` is the p of the test
    limit: Limit
    cell: str
    is_decidable: bool = False  # its trials are enough to find anything
    is_beyond_chance: bool = False

    @property
    def fails(self) -> bool:
        """Whether the change is beyond the limit and beyond chance, or the quantity is gone."""
        return not self.change.after or (self.is_beyond_chance and self.limit.is_passed_by(self.change))


def limits(text: str) -> list[Limit]:
    """The limits of --fail-on, such as "share -5%, l4s.sojourn_ms_p99 +10%". Raises InputError."""
    found = []
    for part in text.split(","):
        if (match := _LIMIT.fullmatch(part.strip())) is None:
            raise InputError(
                f'"{part.strip()}" is not a quantity and its limit; write such as "share -5%, sojourn_ms_p99 +10%"',
                key="--fail-on",
            )
        sign = {"": 0, "+": 1, "-": -1}[match["sign"]]
        amount = float(match["amount"]) / (100 if match["unit"] else 1)
        if match["quantity"] in _PARTS and not match["unit"] and amount >= 1:
            raise InputError(
                f'"{part.strip()}" can never be passed, because {match["quantity"]} is between 0 and 1; '
                f'write "{part.strip()}%", or a change such as {match["quantity"]} {match["sign"]}0.05',
                key="--fail-on",
            )
        found.append(Limit(match["place"] or "", match["quantity"], sign, amount, bool(match["unit"])))
    return found


def judge(before: Path | str, after: Path | str, asked: Sequence[Limit]) -> list[Judged]:
    """A row per limit and cell with the quantity in the first folder. Raises InputError, also for too few trials."""
    return decide(list(_pairs(before, after, asked)))


def decide(found: list[Judged]) -> list[Judged]:
    """The same, with what is decidable and beyond chance among all of them. Raises InputError where nothing is."""
    tested = [number for number, one in enumerate(found) if one.change.after]
    if len(tested) > _MOST:
        raise InputError(
            f"judges {len(tested)} quantities, and {_MOST} are the most; name a flow or link, such as l4s.share",
            key="--fail-on",
        )
    decidable = [number for number in tested if _least(found[number]) * len(tested) <= CHANCE]
    if tested and not decidable:
        few = min(min(len(found[number].change.before), len(found[number].change.after)) for number in tested)
        because = "the same seed gives the same numbers, so one trial has no spread; " if few == 1 else ""
        raise InputError(
            f"cannot tell a change of {len(tested)} quantities from chance with {counted(few, 'trial')}; {because}"
            f"run both with trials = {trials_for(len(tested))}",
            key="--fail-on",
        )
    tests = [
        chance.permutation(found[number].change.before, found[number].change.after, found[number].limit.sign)
        for number in tested
    ]
    for number, p, is_beyond in zip(tested, tests, chance.holm(tests, CHANCE), strict=True):
        one = found[number]
        change = replace(one.change, chance=p)
        found[number] = replace(one, change=change, is_decidable=number in decidable, is_beyond_chance=is_beyond)
    return found


def _pairs(before: Path | str, after: Path | str, asked: Sequence[Limit]) -> Iterator[Judged]:
    known: dict[str, None] = {}
    places: dict[str, None] = {}
    met: set[Limit] = set()
    both = paired(before, after)
    for table, of_table in PLACES.items():
        frames = both(table)
        first = frames[0].columns.index(of_table[-1])
        known |= {name: None for name in frames[0].columns[first + 1 :] if frames[0][name].dtype.is_numeric()}
        keys = ["experiment", *factors_of(frames, of_table[0]), *of_table]
        wanted = list(dict.fromkeys(limit.quantity for limit in asked if limit.quantity in known))
        cells = [cells_of(frame, keys, wanted) for frame in frames]
        for key, values in cells[0].items():
            cell, _ = words_of(keys, key, len(of_table))
            place = " ".join(map(str, key[-len(of_table) :]))
            places[place.replace(" ", ".")] = None
            for limit in asked:
                if not limit.covers(place) or not values.get(limit.quantity):
                    continue
                met.add(limit)
                others = cells[1].get(key, {}).get(limit.quantity, ())
                labels = dict(zip(keys[1 : -len(of_table)], key[1 : -len(of_table)], strict=True))
                change = Change(str(key[0]), labels, place, limit.quantity, values[limit.quantity], others, 1.0)
                yield Judged(change, limit, cell)
    for limit in asked:
        if limit.quantity not in known:
            raise InputError(
                f"{limit.quantity} is not a number in flows.parquet or links.parquet; {suggest(limit.quantity, known)}",
                key="--fail-on",
            )
        if limit not in met:
            what = f"{limit.place}.{limit.quantity}" if limit.place else limit.quantity
            raise InputError(
                f"{what} has no value in {before}; the flows and links there are {', '.join(places)}", key="--fail-on"
            )


def _least(judged: Judged) -> float:
    """The smallest probability that a test of so many trials can find."""
    count, other = len(judged.change.before), len(judged.change.after)
    return (1 if judged.limit.sign else 2) / math.comb(count + other, count)


def shows_from(trials: int, count: int) -> float:
    """The change that is found in `FOUND` of all comparisons of `count` quantities with so many trials on both sides,
    in standard deviations of a trial. Without a sign; with one, slightly smaller changes are found.
    """
    if 2 / math.comb(2 * trials, trials) * count > CHANCE:
        return math.inf
    freedom = 2 * trials - 2
    return (chance.quantile(CHANCE / count / 2, freedom) + chance.quantile(1 - FOUND, freedom)) * math.sqrt(2 / trials)


def trials_for(count: int) -> int:
    """The least number of trials on both sides that finds a change of `SPREADS` standard deviations."""
    trials = 2
    while shows_from(trials, count) > SPREADS:
        trials += 1
    return trials
