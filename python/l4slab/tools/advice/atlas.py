"""The map of harm: Prague as shipped beside each rival, over rates, round trips, queues and numbers of flows.

`suites/atlas` has its files, each with a table of its places: `pairs` has one flow each, `crowds` more.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from l4slab import _core
from l4slab.tools.advice.case import Case

PAIRS, CROWDS = "pairs", "crowds"
# A side is hurt if it gets less than this part of its goodput with CUBIC in Prague's place. It starves below this part
# of an equal rate.
HURT, STARVED = 0.8, 0.1
_READ: dict[str, Callable[[str], object]] = {"aqm": str, "rival": str, "prague": int, "rivals": int}


@dataclass(frozen=True)
class Cell:
    """Goodputs of Prague and its rival at a place of the map, and the rival's against CUBIC instead.

    `prague` and `rivals` are numbers of flows; shares are of the goodput of one flow each, so that 0.5 is an equal rate
    whatever these numbers. Delays are the 99th percentile of the time in the queue in ms, drops in %, all of the rival.
    """

    aqm: str
    rival: str
    prague: int
    rivals: int
    capacity_mbps: float
    base_rtt_ms: float
    share: float  # Prague's
    share_beside_cubic: float  # the rival's
    delay_ms: float
    delay_beside_cubic_ms: float
    drop_pct: float
    drop_beside_cubic_pct: float

    @property
    def flows(self) -> str:
        """As `--flows` says it."""
        return f"{self.prague}+{self.rivals}"

    @property
    def prague_hurt(self) -> bool:
        """Whether a Prague flow has less than CUBIC would in its place."""
        return self._of_prague(self.share) < HURT * self._of_prague(1 - self.share_beside_cubic)

    @property
    def rival_hurt(self) -> bool:
        """Whether a rival has less than with CUBIC in Prague's place."""
        return self._of_rival(1 - self.share) < HURT * self._of_rival(self.share_beside_cubic)

    @property
    def prague_starved(self) -> bool:
        """Whether a Prague flow has next to nothing."""
        return self._of_prague(self.share) < STARVED

    @property
    def rival_starved(self) -> bool:
        """Whether a rival has next to nothing."""
        return self._of_rival(1 - self.share) < STARVED

    def _of_prague(self, share: float) -> float:
        return _rate(share, self.prague, self.rivals)

    def _of_rival(self, share: float) -> float:
        return _rate(share, self.rivals, self.prague)


def _rate(share: float, count: int, others: int) -> float:
    """Of one of `count` flows, as a multiple of an equal rate: `share` is of itself and one of the others."""
    return share * (count + others) / (count * share + others * (1 - share))


@cache
def cells(name: str) -> tuple[Cell, ...]:
    """The places of one file of the map that ships with the package."""
    text = (files("l4slab") / "suites" / "atlas" / f"{name}.csv").read_text("utf-8")
    rows = csv.DictReader(io.StringIO("".join(line for line in text.splitlines(True) if not line.startswith("#"))))
    return tuple(
        Cell(**{key: _READ.get(key, float)(value) for key, value in row.items()})  # type: ignore[arg-type]
        for row in rows
    )


def around(case: Case) -> list[Cell]:
    """The places of the map beside a case, at most four; none where it has no such queue or rival.

    Of numbers of flows it has the nearest: by factors, then by how many Prague flows there are for each rival.
    """
    aqm, rival = _queue(case), case.rival + (", ECN" if case.rival_ecn in ("classic", "accecn") else "")
    known = cells(PAIRS if case.prague == case.rivals == 1 else CROWDS)
    found = [cell for cell in known if cell.aqm == aqm and cell.rival == rival]
    crowd = min({(cell.prague, cell.rivals) for cell in found}, key=lambda one: _apart(case, *one), default=None)
    found = [cell for cell in found if (cell.prague, cell.rivals) == crowd]
    rates = _nearest(case.rate / 1e6, {cell.capacity_mbps for cell in found})
    rtts = _nearest(case.rtt * 1e3, {cell.base_rtt_ms for cell in found})
    return [cell for cell in found if cell.capacity_mbps in rates and cell.base_rtt_ms in rtts]


def _apart(case: Case, prague: int, rivals: int) -> tuple[float, float, int]:
    """How far a number of flows is from a case's; of two as far, more flows are nearer to several."""
    more_prague, more_rivals = math.log(prague / case.prague), math.log(rivals / case.rivals)
    return math.hypot(more_prague, more_rivals), abs(more_prague - more_rivals), -prague - rivals


def _queue(case: Case) -> str | None:
    queue = _core.qdisc_facts(case.queue)
    name, parameters = str(queue["name"]), queue["parameters"]
    if name in ("pfifo", "bfifo", "pfifo_head_drop"):
        size = float(parameters["limit"]) * (1 if name == "bfifo" else 1514)
        bdp = size / (case.rate * case.rtt / 8)
        nearest = min((0.5, 2, 8), key=lambda known: abs(math.log(bdp / known)))
        return f"pfifo, {nearest:g} BDP"
    return name + (" ecn" if name in ("pie", "red", "codel") and "ecn" in parameters else "")


def _nearest(value: float, known: set[float]) -> list[float]:
    """The neighbours below and above, or the one where there is no other."""
    below = [one for one in known if one <= value * 1.001]
    above = [one for one in known if one >= value * 0.999]
    return [*({max(below)} if below else set()), *({min(above)} if above else set())]
