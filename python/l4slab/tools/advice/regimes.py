"""Where laboratories are known to differ from the simulator in one direction, without a table to measure it by.

Each widens the interval on the side to which laboratories lie, by an advantage that is judged, not measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from l4slab.tools.advice.case import Case


@dataclass(frozen=True)
class Regime:
    """`above`, `below`: by how much more or less of an advantage (`runs`) Prague may have in a laboratory."""

    says: str
    holds: Callable[[Case], bool]
    above: float = 0.0
    below: float = 0.0


REGIMES = (
    Regime(
        "a rival other than CUBIC: the published shares are all of CUBIC",
        lambda case: case.rival != "cubic" and case.kind != "fair",
        above=0.3,
        below=0.3,
    ),
    Regime(
        "several Prague flows beside as many others in one queue that drops: laboratories see Prague far ahead",
        lambda case: case.kind == "drops" and min(case.prague, case.rivals) > 1,
        above=math.log(6),
    ),
    Regime(
        "several flows of each kind through DualPI2: laboratories see Prague ahead by some 0.1 of the link more",
        lambda case: case.kind == "dual" and min(case.prague, case.rivals) > 1,
        above=0.4,
    ),
    Regime(
        "DualPI2 on a slow link: laboratories had a module that spares the second packet (min_qlen_step 2)",
        lambda case: case.qdisc.startswith("dualpi2") and "min_qlen_step" not in case.qdisc and case.rate <= 15e6,
        above=1.5,
    ),
    Regime(
        "BBR beside Prague through DualPI2: laboratories see BBR with some 0.1 of the link less or more",
        lambda case: case.kind == "dual" and case.rival == "bbr",
        above=0.4,
        below=0.4,
    ),
    Regime(
        "BBR version 3 beside Prague at a few milliseconds: laboratories differ from here in deep buffers and with ECN",
        lambda case: case.rival == "bbr3" and case.rtt <= 5e-3,
        above=0.7,
        below=0.7,
    ),
    Regime(
        "the fallback on, in one queue that marks: laboratories find that its detector decides otherwise at times",
        lambda case: case.kind == "marks" and case.options.get("fallback", "off") in ("correct", "buggy24"),
        above=0.4,
        below=0.4,
    ),
    Regime(
        "FIFOs above 200 Mb/s at less than a millisecond: hosts and their offloads decide there",
        lambda case: case.kind == "drops" and case.rate > 200e6 and case.rtt < 1e-3,
        above=0.7,
        below=0.7,
    ),
)


def widened(case: Case) -> list[Regime]:
    """The regimes in which a case lies."""
    return [regime for regime in REGIMES if regime.holds(case)]
