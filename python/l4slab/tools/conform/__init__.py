"""`l4slab conform`: whether a congestion control is the one whose name it has.

The candidate and the reference run on the same paths. Two things are compared: the envelope of goodput and queueing
delay beside a flow of the reference (`envelope.py`), and the numbers that the law shows in the trace of the window
(`laws.py`). If something differs, the switches of `l4slab why` are tried on the reference: it is "conformant but for X"
if the reference with X is like the candidate.

OUT/conform.json  everything that was found
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import polars as pl

from l4slab.base.errors import InputError
from l4slab.base.paths import usable
from l4slab.base.progress import Told
from l4slab.base.values import Keys
from l4slab.engines.registry import DEFAULT
from l4slab.results import chance
from l4slab.tools import matrix
from l4slab.tools.conform import cells, envelope, laws
from l4slab.tools.conform.cells import Place, Side
from l4slab.tools.conform.envelope import Overlap
from l4slab.tools.matrix import ALONE, TESTED, Asked, Proof
from l4slab.tools.search.documents import tables
from l4slab.tools.why import quantities
from l4slab.tools.why.explaining import JUDGED, Candidate, Explaining
from l4slab.tools.why.quantities import Key, Trial, Values, mean
from l4slab.tools.why.runs import Lab
from l4slab.tools.why.switches import Switch, applied, switches

__all__ = ["Answer", "Number", "as_json", "conform", "write"]

# Trials of a side on the simulator, and on a kernel.
TRIALS, OF_KERNEL = JUDGED, 5
# So that no run of the reference is one of the candidate.
_OTHER_SEEDS = 1000
_ENVELOPE = "goodput and delay"
# Switches of paths: both sides have the same.
_OF_PATHS = ("rtt", "start", "receive_window")
_CONFIRMED = 4
# Header of the frames whose sizes a proof has.
_ETHERNET = 14
# Where a number is measured, if not with a rival.
_KINDS = {laws.PER_ROUND: "short", laws.LOWER_CUBIC: "narrow", laws.RESTED: "rest"}
_MEANS = ("goodput_mbps", "rtt_ms_mean")

Verdict = Literal["conformant", "conformant but for", "not conformant", "not judged"]


@dataclass(frozen=True)
class Number:
    """A number of the law, with its value per trial of both sides; `p` is over all numbers together."""

    name: str
    candidate: tuple[float, ...]
    reference: tuple[float, ...]
    p: float
    differs: bool
    law: tuple[float, str] | None  # the document's value, and the document


@dataclass(frozen=True)
class Judged:
    """How the candidate compares with a reference."""

    overlap: Overlap
    numbers: Sequence[Number]
    chance: float

    @property
    def differing(self) -> list[str]:
        """The numbers that differ, and the envelope."""
        found = [one.name for one in self.numbers if one.differs]
        return found if self.overlap.p > self.chance else [*found, _ENVELOPE]


@dataclass(frozen=True)
class Answer:
    """What was found. `causes`: switches each of which makes the reference like the candidate. Where there is none,
    `partly` leaves only the envelope, and `nearest` more.
    """

    candidate: Side
    reference: Side
    proof: Proof | None
    judged: Judged | None
    places: Sequence[Place]
    causes: Sequence[Candidate] = ()
    partly: Sequence[Candidate] = ()
    nearest: Candidate | None = None
    runs: int = 0

    @property
    def verdict(self) -> Verdict:
        if self.judged is None:
            return "not judged"
        if not self.judged.differing:
            return "conformant"
        return "conformant but for" if self.deviations else "not conformant"

    @property
    def deviations(self) -> list[Candidate]:
        """The causes but another congestion control, which is no deviation of this one."""
        return [one for one in self.causes if "cc" not in one.switches]

    @property
    def status(self) -> int:
        """The exit status: 0 only where it is conformant."""
        return int(self.verdict != "conformant")

    @property
    def sentence(self) -> str:
        """The answer."""
        name, of = self.candidate.name, self.reference.name
        if self.judged is None:
            why = self.proof.why if self.proof else ""
            return f"{name} is not judged, because its runner is not proven: {why}."
        if self.verdict == "conformant":
            return f"{name} is conformant with {of}."
        if self.deviations:
            causes = "; or ".join(one.name for one in self.deviations)
            places = [part.setting.place for one in self.deviations for part in one.parts]
            is_of_law = any(".options." in place for place in places)
            what = "" if is_of_law else ", which is of its transport, not of the congestion control"
            return f"{name} is conformant with {of} but for {causes}{what}."
        what = f"{name} is not conformant with {of}: {', '.join(self.judged.differing)} differ"
        if self.judged.differing == [_ENVELOPE] and self.judged.numbers:
            what += ", while the numbers of the law agree"
        if self.causes:
            return f"{what}, and it behaves like {' or '.join(str(one.parts[0].setting.value) for one in self.causes)}."
        if self.partly:
            causes = "; or ".join(one.name for one in self.partly)
            return f"{what}. The numbers of the law are explained by {causes}, and nothing explains {_ENVELOPE}."
        if self.nearest is None:
            return f"{what}, and no switch was found that explains it."
        return f"{what}. Nothing explains it all; {self.nearest.name} explains {100 * self.nearest.explained:.0f} %."


def conform(
    name: str,
    cc: str | None = None,
    options: Mapping[str, str] | None = None,
    trials: int | None = None,
    seed: int = 1,
    workers: int | None = None,
    told: Told = lambda _what, _part: None,
) -> Answer:
    """Judge a candidate against the reference `cc`, by default that of its own name. Raises InputError, L4slabError."""
    tested = cells.candidate(name, options or {})
    of = cells.reference(tested, cc)
    count = trials or (TRIALS if tested.is_simulated else OF_KERNEL)
    if count < (least := quantities.least_trials()):
        raise InputError(f"with less than {least} trials nothing is beyond chance; give --trials more")
    proof = _proof(tested, workers, told)
    where = cells.places(tested)
    if proof is not None and proof.verdict != "proven":
        return Answer(tested, of, proof, None, where)
    if proof is not None and proof.packet_bytes_max:
        of = replace(of, flow={**of.flow, "mtu": f"{round(proof.packet_bytes_max) - _ETHERNET}B"})
    bench = Bench(where, str(of.flow["cc"]), workers, told)
    candidate = bench.measured(tested, count, seed)
    judged = judge(candidate, bench.measured(of, count, seed + _OTHER_SEEDS), str(of.flow["cc"]))
    found = Answer(tested, of, proof, judged, where, runs=bench.runs)
    return _explained(found, judged, bench, candidate, count, seed) if judged.differing else found


# -- what is measured -------------------------------------------------------------------------------------------------


@dataclass
class Measured:
    """The trials of one side by place."""

    where: Sequence[Place]
    trials: Sequence[Sequence[Trial]]

    def numbers(self) -> Values:
        """The numbers of the laws that every trial has."""
        each = [cells.numbers(self.where, trial) for trial in zip(*self.trials, strict=True)]
        common = [name for name in laws.LAWS if all(name in one for one in each)]
        return {("law", name): tuple(one[name] for one in each) for name in common}

    def means(self) -> dict[Key, float]:
        """Of each value that every trial has; of the numbers over the trials that have them."""
        each = [cells.numbers(self.where, trial) for trial in zip(*self.trials, strict=True)]
        found = {("law", name): [one[name] for one in each if name in one] for name in laws.LAWS}
        every = {key: mean(given) for key, given in self.values().items()}
        return every | {key: mean(given) for key, given in found.items() if given}

    def values(self) -> Values:
        """The same, and the means of the flow's rate and round trip at each place."""
        found = dict(self.numbers())
        for place, trials in zip(self.where, self.trials, strict=True):
            rows = [trial.flows.row(by_predicate=pl.col("flow") == TESTED, named=True) for trial in trials]
            for name in _MEANS:
                given = [row[name] for row in rows if row.get(name) is not None]
                if len(given) == len(rows):
                    found[place.name, name] = tuple(given)
        return found

    def hulls(self) -> list[list[envelope.Hull]]:
        """Of each trial, by place with a rival."""
        both = zip(self.where, self.trials, strict=True)
        return [[place.hull(trial) for trial in trials] for place, trials in both if place.kind == "rival"]

    def at(self, where: Sequence[Place]) -> Measured:
        """At some of the places only."""
        chosen = [self.where.index(place) for place in where]
        return Measured(where, [self.trials[number] for number in chosen])


@dataclass
class Moved(Measured):
    """The same, each number and mean moved by what a switch changes in the model."""

    by: Mapping[Key, float]

    def numbers(self) -> Values:
        given = super().numbers()
        return {key: tuple(one + self.by[key] for one in values) for key, values in given.items() if key in self.by}

    def means(self) -> dict[Key, float]:
        return {key: one + self.by[key] for key, one in super().means().items() if key in self.by}

    def hulls(self) -> list[list[envelope.Hull]]:
        found: list[list[envelope.Hull]] = []
        rivals = [place for place in self.where if place.kind == "rival"]
        for place, hulls in zip(rivals, super().hulls(), strict=True):
            right, up = (self.by.get((place.name, name), 0.0) for name in _MEANS)
            found.append([[(x + right, y + up) for x, y in hull] for hull in hulls])
        return found


class Bench:
    """Runs sides at places. A lab per folder, because a custom controller is a file in its own."""

    def __init__(self, where: Sequence[Place], rival: str, workers: int | None, told: Told):
        self._where, self._rival, self._workers, self.told = where, rival, workers, told
        self._labs: dict[Path, Lab] = {}

    @property
    def runs(self) -> int:
        return sum(lab.count for lab in self._labs.values())

    def _lab(self, folder: Path) -> Lab:
        return self._labs.setdefault(folder, Lab(folder / "conform.toml", self._workers, self.told))

    def measured(self, side: Side, count: int, seed: int) -> Measured:
        """The trials of a side at every place. Raises InputError and L4slabError."""
        lab, found = self._lab(side.folder), []
        for place in self._where:
            self.told(f"{side.name}: {place.name}", None)
            found.append(lab.trials(place.document(side, self._rival, count, seed), count, side.engine))
        return Measured(self._where, found)

    def of_models(self, models: Sequence[Keys], where: Sequence[Place], count: int) -> list[Measured | None]:
        """What models of the reference give at some places."""
        documents = [place.document(_model(one), self._rival, count, _seed(one)) for one in models for place in where]
        trials = self._lab(Path()).all(documents, count)
        found: list[Measured | None] = []
        for number in range(len(models)):
            part = trials[number * len(where) : (number + 1) * len(where)]
            known = [one for one in part if one is not None]
            found.append(Measured(where, known) if len(known) == len(where) else None)
        return found


def _model(document: Keys) -> Side:
    """The side that a document of `switches` describes."""
    (flow,) = tables(document, "flow").values()
    return Side("model", DEFAULT, {key: value for key, value in flow.items() if key not in ("name", "rtt")})


def _seed(document: Keys) -> int:
    return int(str(document["seed"]))


def _proof(side: Side, workers: int | None, told: Told) -> Proof | None:
    """That of a stack's runner, as in `l4slab matrix`."""
    if side.row is None or side.row.stack.recipe.kernel:
        return None
    told(f"{side.name}: proving the runner", None)
    asked = matrix.on_paths(Asked([side.row], (), (ALONE,), qlog=True), ["20Mbit"], ["20ms"])
    asked = [replace(one, queues=[one.proof]) for one in asked]
    with tempfile.TemporaryDirectory() as folder:
        return matrix.run(asked, folder, side.engine, workers).proofs[0]


# -- what is judged ---------------------------------------------------------------------------------------------------


def judge(candidate: Measured, reference: Measured, cc: str) -> Judged:
    """Compare two sides: their envelopes, and the numbers of the law of `cc`."""
    limit = quantities.alpha(len(candidate.trials[0]), len(reference.trials[0]))
    overlap = envelope.overlaps(candidate.hulls(), reference.hulls(), limit)
    return Judged(overlap, _numbers(candidate.numbers(), reference.numbers(), limit, cc), limit)


def _numbers(candidate: Values, reference: Values, limit: float, cc: str) -> list[Number]:
    keys = [key for key in candidate if key in reference]
    if not keys:
        return []
    together = chance.together([candidate[key] for key in keys], [reference[key] for key in keys])
    found = []
    for key, p in zip(keys, together, strict=True):
        law = laws.LAWS[key[1]]
        is_far = abs(mean(candidate[key]) - mean(reference[key])) > law.tolerance
        differs = p <= limit and is_far
        found.append(Number(key[1], candidate[key], reference[key], p, differs, law.value.get(cc)))
    return found


# -- what explains it -------------------------------------------------------------------------------------------------


def _explained(found: Answer, judged: Judged, bench: Bench, candidate: Measured, count: int, seed: int) -> Answer:
    """With the switches that make the reference like the candidate."""
    is_simulated = found.candidate.is_simulated
    model: Keys = {"seed": seed + 2 * _OTHER_SEEDS, "flow": [{"name": TESTED, "rtt": "20ms", **found.reference.flow}]}

    def measure(models: Sequence[Keys], trials: int) -> list[Values | None]:
        # The numbers of a law vary less than rates.
        return [None if one is None else one.values() for one in bench.of_models(models, where, trials // 2)]

    reference = bench.measured(found.reference, count, seed + _OTHER_SEEDS)
    where = _telling(judged, candidate, reference)
    # Rates and delays have more causes than the numbers of the law.
    is_of_law = judged.differing != [_ENVELOPE]

    def asked(given: Values) -> Values:
        return {key: one for key, one in given.items() if not is_of_law or key[1] in judged.differing}

    a, b = (asked(side.at(where).values()) for side in (reference, candidate))
    if not quantities.differences(a, b):
        return replace(found, runs=bench.runs)
    search = Explaining(measure, model, a, b, is_simulated, bench.told, _of_senders(model, is_simulated)).search()
    likely = [one for one in search.candidates if one.explains_enough][:_CONFIRMED]
    causes: list[Candidate] = []
    partly: list[Candidate] = []
    # A number that was fitted can be wrong more easily than a word.
    for one in sorted(likely, key=lambda one: any(part.switch.is_number for part in one.parts)):
        if causes and len(one.parts) > len(causes[0].parts):
            continue
        changed = applied(model, [part.setting for part in one.parts])
        if is_simulated:
            other = bench.measured(_model(changed), count, seed + _OTHER_SEEDS)
        else:
            usual, with_it = bench.of_models([model, changed], found.places, JUDGED)
            if usual is None or with_it is None:
                continue
            before, after = usual.means(), with_it.means()
            by = {key: after[key] - before[key] for key in after if key in before}
            other = Moved(reference.where, reference.trials, by)
        again = judge(candidate, other, str(found.reference.flow["cc"]))
        if not _near(candidate.means(), other.means()):
            continue
        is_asked = {number.name for number in again.numbers} >= {*judged.differing} - {_ENVELOPE}
        if is_asked and not again.differing:
            causes.append(one)
        elif is_asked and is_of_law and again.differing == [_ENVELOPE]:
            partly.append(one)
    nearest = search.candidates[0] if search.candidates else None
    return replace(found, causes=causes, partly=partly, nearest=nearest, runs=bench.runs)


def _near(candidate: Mapping[Key, float], other: Mapping[Key, float]) -> bool:
    """Whether all numbers agree within their tolerance, also those that some trials lack."""
    both = [key for key in candidate if key[0] == "law" and key in other]
    return all(abs(candidate[key] - other[key]) <= laws.LAWS[key[1]].tolerance for key in both)


def _telling(judged: Judged, candidate: Measured, reference: Measured) -> list[Place]:
    """Where something differs: alone, and of the places with a rival that where the numbers differ most. If no number
    does, all places with a rival.
    """
    kinds = {_KINDS.get(name, "rival") for name in judged.differing}
    rivals = [place for place in candidate.where if place.kind == "rival"]
    if judged.differing == [_ENVELOPE]:
        return rivals

    def telling(place: Place) -> float:
        a, b = (side.at([place]).numbers() for side in (reference, candidate))
        return sum(one.weight for one in quantities.differences(a, b) if one.key[1] in judged.differing)

    chosen = max(rivals, key=telling)
    return [place for place in candidate.where if place.kind in kinds and (place.kind != "rival" or place == chosen)]


def _of_senders(model: Keys, is_simulated: bool) -> list[Switch]:
    """The switches that a candidate may differ in: where TCP is the same, the controller and its options alone."""
    found = [one for one in switches(model) if one.name not in _OF_PATHS]
    if not is_simulated:
        return found
    return [one for one in found if one.name == "cc" or ".options." in one.levels[0].place]


# -- what is told -----------------------------------------------------------------------------------------------------


def write(found: Answer, folder: Path) -> Path:
    """Write what was found into a folder."""
    place = usable(folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / "conform.json").write_text(json.dumps(as_json(found), indent=2) + "\n")
    return folder / "conform.json"


def as_json(found: Answer) -> dict[str, object]:
    """The document of --json."""
    judged = found.judged
    overlap = None if judged is None else judged.overlap
    return {
        "candidate": found.candidate.name,
        "reference": found.reference.name,
        "verdict": found.verdict,
        "answer": found.sentence,
        "runner": found.proof and found.proof.why,
        "envelope": overlap
        and {
            "overlap": overlap.found,
            "usual": overlap.usual,
            "least": overlap.least,
            "p": overlap.p,
            "places": dict(
                zip((one.name for one in found.places if one.kind == "rival"), overlap.by_place, strict=True)
            ),
        },
        "numbers": [
            {
                "name": one.name,
                "candidate": one.candidate,
                "reference": one.reference,
                "p": one.p,
                "differs": one.differs,
                "law": one.law and one.law[0],
                "source": one.law and one.law[1],
            }
            for one in (judged.numbers if judged else ())
        ],
        "differing": judged.differing if judged else [],
        "causes": [one.name for one in found.causes],
        "partly": [one.name for one in found.partly],
        "nearest": found.nearest and {"name": found.nearest.name, "explained": found.nearest.explained},
        "runs": found.runs,
    }
