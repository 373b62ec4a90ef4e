"""The map of harm: Prague as shipped beside each rival, over rates, round trips and queues (`experiments/atlas`)."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from l4slab import _core
from l4slab.advice.case import Case

TABLE = "atlas.csv"


@dataclass(frozen=True)
class Cell:
    """What one Prague flow and one rival get at a place of the map, and what the rival has beside CUBIC instead.

    Rates are goodput in Mb/s, delays the 99th percentile of the time in the queue in ms, drops in %, all of the rival.
    """

    aqm: str
    rival: str
    capacity_mbps: float
    base_rtt_ms: float
    share: float  # Prague's
    share_beside_cubic: float  # the rival's
    delay_ms: float
    delay_beside_cubic_ms: float
    drop_pct: float
    drop_beside_cubic_pct: float


@cache
def cells() -> tuple[Cell, ...]:
    """The map that ships with the package."""
    text = (files("l4slab") / "experiments" / "atlas" / TABLE).read_text("utf-8")
    rows = csv.DictReader(io.StringIO("".join(line for line in text.splitlines(True) if not line.startswith("#"))))
    names = ("aqm", "rival")
    return tuple(
        Cell(**{key: value if key in names else float(value) for key, value in row.items()})  # type: ignore[arg-type]
        for row in rows
    )


def around(case: Case) -> list[Cell]:
    """The places of the map beside a case, at most four; none where it has no such queue or rival."""
    aqm, rival = _queue(case), case.rival + (", ECN" if case.rival_ecn in ("classic", "accecn") else "")
    found = [cell for cell in cells() if cell.aqm == aqm and cell.rival == rival]
    rates = _nearest(case.rate / 1e6, {cell.capacity_mbps for cell in found})
    rtts = _nearest(case.rtt * 1e3, {cell.base_rtt_ms for cell in found})
    return [cell for cell in found if cell.capacity_mbps in rates and cell.base_rtt_ms in rtts]


def _queue(case: Case) -> str | None:
    words = _core.canonical_qdisc(case.queue).split()
    if words[0] in ("pfifo", "bfifo", "pfifo_head_drop"):
        size = float(words[words.index("limit") + 1]) * (1 if words[0] == "bfifo" else 1514)
        bdp = size / (case.rate * case.rtt / 8)
        nearest = min((0.5, 2, 8), key=lambda known: abs(math.log(bdp / known)))
        return f"pfifo, {nearest:g} BDP"
    plain = words[0] + (" ecn" if words[0] in ("pie", "red", "codel") and "ecn" in words else "")
    return plain if any(cell.aqm == plain for cell in cells()) else None


def _nearest(value: float, known: set[float]) -> list[float]:
    """The neighbours below and above, or the one where there is no other."""
    below = [one for one in known if one <= value * 1.001]
    above = [one for one in known if one >= value * 0.999]
    return [*({max(below)} if below else set()), *({min(above)} if above else set())]
