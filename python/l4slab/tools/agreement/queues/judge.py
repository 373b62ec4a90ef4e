"""Whether a kernel and the simulator do the same with a case's packets.

The simulator passes the packets once per seed; each time they come up to `LATE_NS` later, as a kernel in virtual time
sends them at the next step of its clock. Where all seeds agree the queue is deterministic, and the kernel has to do the
same. Elsewhere quantities are compared over trials, with arrivals that vary by `WIDE_NS` on both sides, because what a
queue drops may depend on any nanosecond: two Kolmogorov-Smirnov tests, the second one with new trials, for the
quantities that the first one suspects (`SUSPECT`, `SURE`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from l4slab.tools.agreement.queues.cases import Case
from l4slab.tools.agreement.queues.outcomes import Left, Outcome

# The kernel's clock has steps of 256 ns, a few of which go by between sending and reading.
LATE_NS = 1_200
TOLERANCE_NS = 3_000
# Where every packet needs a full bucket, half a microsecond of lateness adds up: 20 ppm of the time.
_DRIFT = 50_000
WIDE_NS = 60_000
# Trials of a kernel and of the simulator: of a first look, of those that look random, and of the decision.
FIRST, LOOK, DECISION = (1, 6), (20, 100), (100, 300)
# Below the first p a quantity is looked at again; below the second, over the number of quantities, the case differs.
SUSPECT, SURE = 0.003, 1e-4
_CE = 3
# Other lines are warnings.
_REFUSED = "Command failed"
_PARTS = 3


@dataclass(frozen=True)
class Difference:
    """A `quantity` in which a kernel differs, "" for single packets, and from which packet on (its number)."""

    what: str
    quantity: str = ""
    packet: int | None = None

    @property
    def kind(self) -> str:
        """A difference that is reduced stays one of single packets, of counters, of a frequency, or a crash."""
        if self.quantity:
            return self.quantity if self.quantity in ("sent", "accounted") else "frequency"
        return "packet" if self.packet is not None else self.what.split(":")[0]


def same(case: Case, one: Outcome, other: Outcome) -> bool:
    """Whether the same packets left at the same times with the same marks."""
    return first_difference(case, one, other) is None


def first_difference(case: Case, kernel: Outcome, model: Outcome) -> Difference | None:
    """The first packet of which one outcome differs, by the time at which it left or should have. What leaves at the
    end does not count.
    """
    of_kernel, of_model = _by_number(kernel.left), _by_number(model.left)
    wrong: list[tuple[int, int, str]] = []
    for number in of_kernel.keys() | of_model.keys():
        here, there = of_kernel.get(number, []), of_model.get(number, [])
        if max(one.at_ns for one in (*here, *there)) > case.end_ns - TOLERANCE_NS:
            continue
        if len(here) != len(there):
            when = min(one.at_ns for one in (*here, *there))
            wrong.append((when, number, f"leaves {_times(len(here))}, in the model {_times(len(there))}"))
            continue
        for mine, its in zip(here, there, strict=True):
            if mine.ecn != its.ecn:
                wrong.append((its.at_ns, number, f"leaves with ECN {mine.ecn}, in the model with {its.ecn}"))
            elif abs(mine.at_ns - its.at_ns) > TOLERANCE_NS + its.at_ns / _DRIFT:
                text = f"leaves at {mine.at_ns} ns, in the model at {its.at_ns} ns"
                wrong.append((min(mine.at_ns, its.at_ns), number, text))
    if not wrong:
        return None
    _, number, text = min(wrong)
    return Difference(f"packet {number} {text}", packet=number)


def has_tie(model: Outcome, until: Difference) -> bool:
    """Whether two packets left within a step of the kernel's clock, at different times, up to the one that differs.
    A kernel may take the two events of their classes together, and then another class lends.
    """
    times = sorted({one.at_ns for one in model.left})
    last = max((one.at_ns for one in model.left if one.number == until.packet), default=times[-1] if times else 0)
    return any(later - earlier < LATE_NS for earlier, later in pairwise(times) if earlier <= last)


def _times(count: int) -> str:
    return ("never", "once")[count] if count < 2 else f"{count} times"


def _by_number(left: Sequence[Left]) -> dict[int, list[Left]]:
    found: dict[int, list[Left]] = {}
    for one in left:
        found.setdefault(one.number, []).append(one)
    return found


# -- what holds without a model ---------------------------------------------------------------------------------------


def broken(case: Case, kernel: Outcome) -> Difference | None:
    """What no queue may do: stop the kernel, mark what is not ECN-capable, invent packets, lose count of them."""
    if kernel.stopped:
        return Difference(f"the kernel stops: {kernel.stopped}")
    if refused := [text for text in kernel.refused if _REFUSED in text]:
        return Difference(f"tc refuses: {refused[0]}")
    can_copy = "duplicate" in str(case.document)
    for one in kernel.left:
        sent = case.packets[one.number]
        if one.ecn not in (sent.ecn, _CE) or (one.ecn == _CE and sent.ecn == 0):
            return Difference(
                f"packet {one.number} came with ECN {sent.ecn} and left with {one.ecn}", packet=one.number
            )
        if one.at_ns < sent.at_ns:
            return Difference(f"packet {one.number} left before it came", packet=one.number)
    for number, copies in _by_number(kernel.left).items():
        sent = case.packets[number]
        most = -(-(sent.length - sent.headers) // sent.segment) if sent.segment else 1
        if len(copies) > most and not can_copy:
            return Difference(f"packet {number} leaves {len(copies)} times", packet=number)
    return _miscounted(case, kernel)


def _miscounted(case: Case, kernel: Outcome) -> Difference | None:
    """What parents count against what waits below them, and the root's counters against the packets."""
    if (wrong := _waiting(kernel)) is not None:
        return wrong
    root = next((one for one in kernel.counters if one.get("root")), None)
    if root is None or any(one.segment for one in case.packets):
        return None
    # An empty queue has no length, and what waits at the root waits below it.
    qlen, drops, sent = (int(root.get(key, 0)) for key in ("qlen", "drops", "packets"))
    left, came = len(kernel.left), len(case.packets)
    if sent != left:
        return Difference(f"the root counts {sent} packets sent, and {left} have left", "sent")
    if "duplicate" not in str(case.document) and came != left + drops + qlen and not case.changes:
        text = f"{came} packets came, {left} left; the root counts {drops} drops and {qlen} that wait"
        return Difference(text, "accounted")
    return None


def _waiting(kernel: Outcome) -> Difference | None:
    """A parent counts the packets and the bytes of its children, which it never asks for these."""
    below: dict[str, list[Mapping[str, Any]]] = {}
    for one in kernel.counters:
        below.setdefault(str(one.get("parent", "")).partition(":")[0] + ":", []).append(one)
    for parent in kernel.counters:
        children = below.get(str(parent.get("handle")), [])
        for key, unit in (("qlen", "packets"), ("backlog", "bytes")) if children else ():
            counted, there = int(parent.get(key, 0)), sum(int(one.get(key, 0)) for one in children)
            if counted != there:
                text = (
                    f"{parent['kind']} {parent['handle']} counts {counted} {unit} that wait, and {there} wait below it"
                )
                return Difference(text, "accounted")
    return None


# -- what is random ---------------------------------------------------------------------------------------------------


def quantities(case: Case, outcome: Outcome) -> dict[str, float]:
    """Of each flow and codepoint: how many left and with CE, in each third of the packets and in all; their delay."""
    part_of = {n: n * _PARTS // len(case.packets) for n in range(len(case.packets))}
    found: dict[str, float] = {}
    waits: dict[str, list[int]] = {}
    for flow, ecn in {(one.flow, one.ecn) for one in case.packets}:
        for which in ("", *(f" {part}" for part in range(_PARTS))):
            found[f"flow {flow} ECN {ecn} left{which}"] = found[f"flow {flow} ECN {ecn} CE{which}"] = 0.0
    for one in outcome.left:
        sent = case.packets[one.number]
        name, part = f"flow {sent.flow} ECN {sent.ecn}", part_of[one.number]
        for which in ("", f" {part}"):
            found[f"{name} left{which}"] += 1
            found[f"{name} CE{which}"] += one.ecn == _CE != sent.ecn
        waits.setdefault(name, []).append(one.at_ns - sent.at_ns)
    for name, of in waits.items():
        found[f"{name} delay"] = sum(of) / len(of)
        found[f"{name} longest delay"] = max(of)
    return found


def apart(case: Case, kernel: Sequence[Outcome], model: Sequence[Outcome]) -> dict[str, float]:
    """The p of each quantity: how likely samples as different as these are, if both are of one distribution."""
    here, there = ([quantities(case, one) for one in side] for side in (kernel, model))
    names = sorted(set().union(*here, *there))
    found = {}
    for name in names:
        slack = TOLERANCE_NS if name.endswith("delay") else 0.0
        of_kernel, of_model = ([one.get(name, -1.0) for one in side] for side in (here, there))
        found[name] = _smirnov(of_kernel, of_model, slack)
    return found


def _smirnov(one: Sequence[float], other: Sequence[float], slack: float) -> float:
    """Kolmogorov and Smirnov's two-sample test, asymptotic; values that are alike make it conservative. A distribution
    that is another one shifted by up to `slack` is not different.
    """
    one, other = sorted(one), sorted(other)

    def beyond(one: Sequence[float], other: Sequence[float]) -> float:
        return max(bisect_right(one, x) / len(one) - bisect_right(other, x + slack) / len(other) for x in one)

    effective = math.sqrt(len(one) * len(other) / (len(one) + len(other)))
    x = (effective + 0.12 + 0.11 / effective) * max(beyond(one, other), beyond(other, one))
    if x < 0.2:
        return 1.0
    return min(1.0, 2 * sum((-1.0) ** (k - 1) * math.exp(-2 * (k * x) ** 2) for k in range(1, 20)))


def means(case: Case, kernel: Sequence[Outcome], model: Sequence[Outcome], quantity: str) -> str:
    """The two means of a quantity, in words."""
    both = (
        sum(quantities(case, one).get(quantity, 0.0) for one in side) / max(len(side), 1) for side in (kernel, model)
    )
    return f"{quantity}: {next(both):.6g} on the kernel, {next(both):.6g} in the model"
