"""`l4slab agree --queues N`: random queues on a kernel against their model, packet by packet.

A case (`cases`) is drawn from number and seed alone (`drawing`). The simulator and a kernel in virtual time pass its
packets (`outcomes`), `judge` compares them, and a case that differs is reduced to the smallest file found that does.

DIR/different/0001.toml   each case that differs, as drawn
DIR/reduced/0001.toml     the same, reduced, with the packet at which the difference begins
DIR/queues.jsonl          a line per case, and what differs; the same command resumes after it
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from l4slab.base.errors import InputError
from l4slab.base.values import Keys
from l4slab.engines.linux import kernels
from l4slab.report.results import replace
from l4slab.tools.agreement.queues import judge
from l4slab.tools.agreement.queues.cases import Case, read, text_of
from l4slab.tools.agreement.queues.drawing import draw
from l4slab.tools.agreement.queues.judge import DECISION, FIRST, LATE_NS, LOOK, SURE, SUSPECT, WIDE_NS, Difference
from l4slab.tools.agreement.queues.outcomes import Outcome, on_kernel, simulated
from l4slab.tools.search.reduce import reduce

# Cases in one boot.
BATCH = 50
# Documents that are judged to reduce one.
REDUCED = 150


@dataclass(frozen=True)
class Judged:
    """A case by its number or file, and in what the kernel differs; None: in nothing."""

    name: str
    case: Case
    difference: Difference | None


def compare(cases: Sequence[Case], kernel: str = kernels.DEFAULT, quick: bool = False) -> list[Difference | None]:
    """In what a kernel differs from the simulator, of each case. `quick`: a random queue is judged by one look.

    Raises EngineError.
    """
    models = [_models(case, LATE_NS, FIRST[1], 0) for case in cases]
    firsts = on_kernel(cases, kernel)
    found: list[Difference | None] = [judge.broken(case, one) for case, one in zip(cases, firsts, strict=True)]
    agree = [_agree(case, model) for case, model in zip(cases, models, strict=True)]
    left = [
        n
        for n, (case, first) in enumerate(zip(cases, firsts, strict=True))
        if found[n] is None and not (agree[n] and judge.same(case, first, models[n][0]))
    ]
    # What looks deterministic has to differ each time; else the packets' times vary.
    trials = [cases[n].late(seed, 0 if agree[n] else WIDE_NS) for n in left for seed in range(LOOK[0])]
    outcomes = on_kernel(trials, kernel) if trials else []
    for at, n in enumerate(left):
        look = outcomes[at * LOOK[0] : (at + 1) * LOOK[0]]
        if agree[n]:
            found[n] = _fixed(cases[n], models[n][0], look, kernel, quick)
        else:
            found[n] = _random(cases[n], look, kernel, quick)
    return found


def _models(case: Case, late_ns: int, trials: int, first: int) -> list[Outcome]:
    return [simulated(case.late(seed, late_ns), seed) for seed in range(first, first + trials)]


def _agree(case: Case, outcomes: Sequence[Outcome]) -> bool:
    return all(judge.same(case, one, outcomes[0]) for one in outcomes[1:])


def _broken(case: Case, outcomes: Sequence[Outcome]) -> Difference | None:
    return next(filter(None, (judge.broken(case, one) for one in outcomes)), None)


def _fixed(case: Case, model: Outcome, look: Sequence[Outcome], kernel: str, quick: bool) -> Difference | None:
    """Of a queue that does the same with all seeds."""
    if (wrong := _broken(case, look)) is not None:
        return wrong
    differences = [one for one in (judge.first_difference(case, one, model) for one in look) if one is not None]
    if len(differences) < len(look):
        return None
    # Flows may share a bucket with a small chance, and more seeds show it.
    if not judge.has_tie(model, differences[0]) and _agree(case, [model, *_models(case, LATE_NS, LOOK[1], FIRST[1])]):
        return differences[0]
    return _random(case, on_kernel([case.late(seed, WIDE_NS) for seed in range(LOOK[0])], kernel), kernel, quick)


def _random(case: Case, look: Sequence[Outcome], kernel: str, quick: bool) -> Difference | None:
    if (wrong := _broken(case, look)) is not None:
        return wrong
    many = _models(case, WIDE_NS + LATE_NS, LOOK[1], 1000)
    bound = SURE if quick else SUSPECT
    suspects = [name for name, p in judge.apart(case, look, many).items() if p < bound]
    if suspects and not quick:
        first = LOOK[0]
        look = on_kernel([case.late(seed, WIDE_NS) for seed in range(first, first + DECISION[0])], kernel)
        many = _models(case, WIDE_NS + LATE_NS, DECISION[1], 5000)
    values = judge.apart(case, look, many) if suspects else {}
    sure = {name: values[name] for name in suspects if values.get(name, 1) < SURE / len(suspects)}
    if not sure:
        return None
    quantity = min(sure, key=lambda name: sure[name])
    return Difference(f"{judge.means(case, look, many, quantity)} (p = {sure[quantity]:.1g})", quantity)


def smaller(
    case: Case, difference: Difference, kernel: str = kernels.DEFAULT, at_most: int = REDUCED
) -> tuple[Keys, Difference]:
    """The smallest document found in which the kernel still differs, and in what. Raises EngineError."""
    last = difference

    def still(document: Keys) -> bool:
        nonlocal last
        try:
            (found,) = compare([read(document)], kernel, quick=True)
        except ValueError as error:
            raise InputError(str(error)) from None
        if found is None or found.kind != difference.kind:
            return False
        last = found
        return True

    return reduce(case.document, still, at_most), last


def agree(
    count: int,
    seed: int,
    out: Path,
    kernel: str = kernels.DEFAULT,
    reduced: bool = True,
    among: Sequence[str] = (),
) -> list[Judged]:
    """Judge the cases 1 to `count` of a seed that DIR has no line of, and reduce what differs. `among`: as of `draw`.

    Raises InputError, EngineError.
    """
    for name in ("different", "reduced"):
        (out / name).mkdir(parents=True, exist_ok=True)
    path = out / "queues.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    drawn = {"seed": seed, "kernel": kernel, "among": [*among]}
    known = {one["case"] for one in map(json.loads, lines) if drawn.items() <= one.items()}
    todo = [number for number in range(1, count + 1) if number not in known]
    found = []
    for at in range(0, len(todo), BATCH):
        numbers = todo[at : at + BATCH]
        cases = [draw(number, seed, among) for number in numbers]
        for number, case, difference in zip(numbers, cases, compare(cases, kernel), strict=True):
            found.append(Judged(f"{number:04d}", case, difference))
            if difference is not None:
                which = " ".join(["case", str(number), "of seed", str(seed), *(["among", *among] if among else [])])
                _keep(out, f"{number:04d}.toml", which, case, difference, kernel if reduced else None)
            line = drawn | {"case": number, "difference": difference and difference.what}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    return found


def again(files: Sequence[Path], times: int, kernel: str = kernels.DEFAULT) -> list[Judged]:
    """Judge the cases of files, each so many times. Raises InputError, EngineError."""
    found = []
    for file in files:
        try:
            case = read(tomllib.loads(file.read_text(encoding="utf-8")), str(file))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"cannot be read: {error}", file=file) from None
        found += [Judged(file.stem, case, one) for _ in range(times) for one in compare([case], kernel)]
    return found


def _keep(out: Path, name: str, which: str, case: Case, difference: Difference, kernel: str | None) -> None:
    """Write the case as drawn and, where there is a `kernel` to do so with, reduced."""

    def write(folder: str, document: Keys, what: str) -> None:
        text = f"# {which}: {what}\n{text_of(document)}"
        replace(out / folder / name, lambda file: file.write_text(text, encoding="utf-8"))

    write("different", case.document, difference.what)
    if kernel is not None:
        document, last = smaller(case, difference, kernel)
        write("reduced", document, last.what)
