"""`l4slab agree --queues N`: random queues on a kernel against their model, packet by packet.

A case (`cases`) is drawn from number and seed alone (`drawing`). The simulator and a kernel in virtual time pass its packets
(`outcomes`), `judge` compares them, and a case that differs is reduced to the smallest file found that still does.

DIR/different/0001.toml   each case that differs, as drawn
DIR/reduced/0001.toml     the same, reduced, with the packet at which the difference begins
DIR/queues.jsonl          a line per case: number, verdict, and what differs; the same command resumes after it
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from l4slab.base.errors import InputError
from l4slab.base.values import Keys
from l4slab.engines.linux import kernels
from l4slab.tools.agreement.queues import judge
from l4slab.tools.agreement.queues.cases import Case, read, text_of
from l4slab.tools.agreement.queues.drawing import draw
from l4slab.tools.agreement.queues.judge import DECISION, FIRST, LATE_NS, LOOK, SURE, SUSPECT, Difference
from l4slab.tools.agreement.queues.outcomes import Outcome, on_kernel, simulated
from l4slab.tools.search.reduce import reduce

# Cases in one boot.
BATCH = 100
# Documents that are judged to reduce one.
REDUCED = 250


@dataclass(frozen=True)
class Judged:
    """A case, and in what the kernel differs; None: in nothing."""

    number: int
    case: Case
    difference: Difference | None

    @property
    def verdict(self) -> str:
        return "same" if self.difference is None else "different"


def compare(cases: Sequence[Case], kernel: str = kernels.DEFAULT) -> list[Difference | None]:
    """In what a kernel differs from the simulator, of each case. Raises EngineError."""
    models = [simulated(case, range(FIRST[1]), LATE_NS) for case in cases]
    firsts = on_kernel(cases, kernel)
    found: list[Difference | None] = [judge.broken(case, one) for case, one in zip(cases, firsts, strict=True)]
    open_ = [
        n
        for n, (model, first) in enumerate(zip(models, firsts, strict=True))
        if found[n] is None and not (_agree(cases[n], model) and judge.same(cases[n], first, model[0]))
    ]
    looks = _several([cases[n] for n in open_], LOOK[0], kernel)
    for n, look in zip(open_, looks, strict=True):
        found[n] = _decide(cases[n], models[n], look, kernel)
    return found


def _agree(case: Case, outcomes: Sequence[Outcome]) -> bool:
    return all(judge.same(case, one, outcomes[0]) for one in outcomes[1:])


def _several(cases: Sequence[Case], trials: int, kernel: str) -> Iterator[list[Outcome]]:
    outcomes = on_kernel([case for case in cases for _ in range(trials)], kernel) if cases else []
    for n in range(len(cases)):
        yield outcomes[n * trials : (n + 1) * trials]


def _decide(case: Case, model: Sequence[Outcome], look: Sequence[Outcome], kernel: str) -> Difference | None:
    if (wrong := next(filter(None, (judge.broken(case, one) for one in look)), None)) is not None:
        return wrong
    many = simulated(case, range(1000, 1000 + LOOK[1]), LATE_NS)
    if _agree(case, [*model, *many]):
        differences = [judge.first_difference(case, one, model[0]) for one in look]
        return differences[0] if all(differences) else None
    suspects = [name for name, p in judge.apart(case, look, many).items() if p < SUSPECT]
    if not suspects:
        return None
    (again,) = _several([case], DECISION[0], kernel)
    fresh = simulated(case, range(5000, 5000 + DECISION[1]), LATE_NS)
    sure = {name: p for name, p in judge.apart(case, again, fresh).items() if name in suspects and p < SURE / len(suspects)}
    if not sure:
        return None
    quantity = min(sure, key=lambda name: sure[name])
    return Difference(f"{judge.means(case, again, fresh, quantity)} (p = {sure[quantity]:.1g})", quantity)


def smaller(judged: Judged, kernel: str = kernels.DEFAULT, at_most: int = REDUCED) -> tuple[Keys, Difference]:
    """The smallest document found in which the kernel still differs, and in what. Raises EngineError."""
    assert judged.difference is not None
    last = judged.difference

    def still(document: Keys) -> bool:
        nonlocal last
        try:
            (difference,) = compare([read(document)], kernel)
        except ValueError as error:
            raise InputError(str(error)) from None
        if difference is None or _kind(difference) != _kind(judged.difference):
            return False
        last = difference
        return True

    return reduce(judged.case.document, still, at_most), last


def _kind(difference: Difference | None) -> str:
    """A difference that is reduced stays one of single packets, of counters, of a frequency, or a crash."""
    if difference is None:
        return ""
    if difference.quantity:
        return difference.quantity if difference.quantity in ("sent", "accounted") else "frequency"
    return "packet" if difference.packet is not None else difference.what.split()[0]


def agree(
    count: int,
    seed: int,
    out: Path,
    kernel: str = kernels.DEFAULT,
    reduced: bool = True,
    told: Callable[[Judged], None] = lambda _: None,
) -> list[Judged]:
    """Judge the cases 1 to `count` of a seed that DIR has no line of, and reduce those that differ. Raises InputError,
    EngineError.
    """
    for name in ("different", "reduced"):
        (out / name).mkdir(parents=True, exist_ok=True)
    path = out / "queues.jsonl"
    known = {json.loads(line)["number"] for line in path.read_text().splitlines()} if path.exists() else set()
    todo = [number for number in range(1, count + 1) if number not in known]
    found = []
    for at in range(0, len(todo), BATCH):
        numbers = todo[at : at + BATCH]
        cases = [draw(number, seed) for number in numbers]
        differences = compare(cases, kernel)
        for number, case, difference in zip(numbers, cases, differences, strict=True):
            judged = Judged(number, case, difference)
            found.append(judged)
            if difference is not None:
                _keep(out, judged, seed, kernel, reduced)
            line = {"number": number, "verdict": judged.verdict, "what": difference and difference.what}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            told(judged)
    return found


def _keep(out: Path, judged: Judged, seed: int, kernel: str, reduced: bool) -> None:
    name = f"{judged.number:04d}.toml"
    head = f"# case {judged.number} of seed {seed}: "
    assert judged.difference is not None
    (out / "different" / name).write_text(f"{head}{judged.difference.what}\n{judged.case.to_toml()}", encoding="utf-8")
    if reduced:
        document, last = smaller(judged, kernel)
        (out / "reduced" / name).write_text(f"{head}{last.what}\n{text_of(document)}", encoding="utf-8")
