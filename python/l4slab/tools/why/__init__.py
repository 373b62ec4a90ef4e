"""`l4slab why`: whether two sides differ, from when on, and which feature of the model makes them equal.

OUT/why.toml  both sides of the cause in one file, which `l4slab run` shows
OUT/why.json  everything that was found
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from l4slab.api.experiment import to_toml
from l4slab.base.errors import InputError
from l4slab.base.paths import usable
from l4slab.base.progress import Told
from l4slab.base.values import Keys, Value
from l4slab.tools.why import quantities, sides, states, written
from l4slab.tools.why.explaining import JUDGED, Candidate, Explaining, Explanation
from l4slab.tools.why.quantities import Difference
from l4slab.tools.why.runs import Lab
from l4slab.tools.why.sides import Side
from l4slab.tools.why.states import State
from l4slab.tools.why.switches import switches

# Trials of a side on the simulator, and on a kernel.
TRIALS, OF_KERNEL = JUDGED, 5


@dataclass(frozen=True)
class Answer:
    """What was found: `differing` quantities, the first states that differ, and what explains it; `runs` it took."""

    a: Side
    b: Side
    differing: Sequence[Difference]
    compared: int
    first: Sequence[State]
    explanation: Explanation | None
    runs: int

    @property
    def status(self) -> int:
        """The exit status: 1 where they differ, and nothing explains it."""
        return int(bool(self.differing) and not (self.explanation and self.explanation.causes))

    @property
    def sentence(self) -> str:
        """The answer."""
        if not self.differing:
            return f"{self.a.name} and {self.b.name} do not differ beyond chance in {self.compared} quantities."
        found = self.explanation
        if found is None or not found.candidates:
            return f"{self.a.name} and {self.b.name} differ, and no switch of the model explains any of it."
        best = found.candidates[0]
        if not found.causes:
            return (
                f"{self.a.name} and {self.b.name} differ, and nothing explains it: {best.name} comes nearest, with "
                f"{_percent(best)} of the difference, and {len(best.left) or 'some'} quantities still differ."
            )
        like = f"{self.a.name} behaves like {self.b.name} with"
        if len(found.causes) > 1:
            named = "; ".join(one.name for one in found.causes)
            return f"{like} one of these, which this experiment cannot tell apart: {named}."
        return f"{like} {best.name}: this explains {_percent(best)} of the difference."


def _percent(one: Candidate) -> str:
    between = f" ({100 * one.low:.0f} to {100 * one.high:.0f} %)" if one.is_judged else ""
    return f"{100 * one.explained:.0f} %{between}"


def why(
    a: str,
    b: str,
    file: Path | None = None,
    changes: Mapping[str, Value] | None = None,
    trials: int | None = None,
    workers: int | None = None,
    told: Told = lambda _what, _part: None,
) -> Answer:
    """Compare two sides, and search for the cause. `told` hears of the progress. Raises InputError and L4slabError."""
    first, second = sides.sides(a, b, file, changes or {})
    model = _model(first)
    lab = Lab(first.file, workers, told)
    first, second = (_run(side, lab, trials) for side in (first, second))
    of_a, of_b = (quantities.values(side.trials) for side in (first, second))
    least = quantities.least_trials()
    if min(len(first.trials), len(second.trials)) < least:
        raise InputError(
            f"{a} and {b}: with less than {least} trials each nothing is beyond chance; give --trials more"
        )
    compared = sum(key in of_b for key in of_a)
    if not compared:
        raise InputError(f"{a} and {b} have no flow and no link of the same name; compare runs of one experiment")
    differing = quantities.differences(of_a, of_b)
    if not differing:
        return Answer(first, second, (), compared, (), None, lab.count)

    def measure(documents: Sequence[Keys], count: int) -> list[quantities.Values | None]:
        return [None if trials is None else quantities.values(trials) for trials in lab.all(documents, count)]

    search = Explaining(measure, model, of_a, of_b, first.is_simulated, told)
    return Answer(
        first, second, differing, compared, states.first(first.trials, second.trials), search.search(), lab.count
    )


def _model(side: Side) -> Keys:
    """The document of the simulator: that of the first side. Raises InputError."""
    if not switches(side.model):
        raise InputError(f"{side.name} has nothing that the model can switch; give a side with a TCP flow first")
    return side.model


def _run(side: Side, lab: Lab, trials: int | None) -> Side:
    if side.trials:
        return side
    count = trials or (TRIALS if side.is_simulated else OF_KERNEL)
    lab.told(f"running {side.name}", None)
    # The files that its document names are next to its own file.
    of_side = lab if side.file == lab.file else Lab(side.file, lab.workers, lab.told)
    return replace(side, trials=of_side.trials(side.document, count, side.engine))


def write(found: Answer, folder: Path) -> Path | None:
    """Write what was found into a folder; the file that shows the cause, if there is one."""
    place = usable(folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / "why.json").write_text(json.dumps(as_json(found), indent=2) + "\n")
    causes = found.explanation.causes if found.explanation is not None else ()
    if not causes:
        return None
    title = f"{found.a.name} and {found.b.name}: {causes[0].name}"
    (place / "why.toml").write_text(
        to_toml(written.document(found.a.model, causes[0], found.differing, title, found.a.file))
    )
    return folder / "why.toml"


def as_json(found: Answer) -> dict[str, object]:
    """The document of --json."""
    explanation = found.explanation or Explanation((), (), 0)
    return {
        "a": found.a.name,
        "b": found.b.name,
        "answer": found.sentence,
        "compared": found.compared,
        "differing": [
            {"where": one.key[0], "quantity": one.key[1], "a": one.a, "b": one.b, "p": one.p} for one in found.differing
        ],
        "first": [
            {"flow": one.flow, "state": one.name, "time_s": one.time_s, "a": one.at[0], "b": one.at[1]}
            for one in found.first
        ],
        "causes": [one.name for one in explanation.causes],
        "candidates": [
            {
                "switches": {part.switch.name: part.setting.value for part in one.parts},
                "laws": [part.switch.law for part in one.parts],
                "explained": one.explained,
                "interval": [one.low, one.high] if one.is_judged else None,
                "left": [list(left.key) for left in one.left],
            }
            for one in explanation.candidates
        ],
        "tried": explanation.tried,
        "runs": found.runs,
    }
