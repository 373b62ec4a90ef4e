"""Quality of Outcome (draft-ietf-ippm-qoo): how near a flow comes to what an application needs, from 0 to 100.

A requirement has two values for each percentile of the latency and for the loss. At the first the application works
as well as it can, at the second it is unusable. The worst of these scores counts. No standard has requirements of
applications; those here are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from l4slab.base.errors import InputError, suggest


@dataclass(frozen=True)
class Requirement:
    """`latency`: by percentile, (optimal, unusable) in ms; `loss`: the same in %; less than `least_mbps` scores 0.

    `measured` is the columns of `flows` to compare with the latency: "frame_ms" (capture to last byte, one way) or
    "rtt_ms".
    """

    latency: Mapping[float, tuple[float, float]]
    loss: tuple[float, float]
    least_mbps: float
    measured: Literal["frame_ms", "rtt_ms"] = "frame_ms"

    def __post_init__(self) -> None:
        """Raises InputError where the optimal value is not the smaller one."""
        pairs = {f"latency[{percentile:g}]": pair for percentile, pair in self.latency.items()} | {"loss": self.loss}
        for key, (best, worst) in pairs.items():
            if not best < worst:
                text = f"= ({best:g}, {worst:g}) is to be (optimal, unusable); put the smaller number first"
                raise InputError(text, key=key)


REQUIREMENTS = {
    "call": Requirement({95: (100, 300), 99: (150, 400)}, (1, 5), 0.5),
    "game": Requirement({99: (50, 100)}, (0.1, 2), 10),
    "typing": Requirement({99: (50, 200)}, (1, 5), 0.1, "rtt_ms"),
}


def score(needs: Requirement, latency: Mapping[float, float], loss_pct: float, mbps: float) -> float:
    """The score of measured percentiles (ms), loss and throughput. Raises InputError for a missing percentile."""
    if missing := [percentile for percentile in needs.latency if percentile not in latency]:
        raise InputError(f"lacks the percentile {missing[0]:g} of the requirement; add it", key="latency")
    if mbps < needs.least_mbps:
        return 0.0
    compared = [(latency[percentile], bounds) for percentile, bounds in needs.latency.items()]
    parts = [1 - (value - best) / (worst - best) for value, (best, worst) in [*compared, (loss_pct, needs.loss)]]
    return 100 * min(1.0, max(0.0, min(parts)))


def qoo(flows: pl.DataFrame, requirement: Requirement | str) -> pl.DataFrame:
    """The rows of `flows` with the column `qoo`, NULL where the latency was not measured.

    `requirement`: one of "call", "game" and "typing", or a Requirement with percentiles that `flows` has (50, 99;
    of frames also 95). Losses are those of packets.
    """
    if isinstance(requirement, str) and requirement not in REQUIREMENTS:
        raise InputError(
            f'= "{requirement}" is not a requirement; {suggest(requirement, REQUIREMENTS)}', key="requirement"
        )
    needs = REQUIREMENTS[requirement] if isinstance(requirement, str) else requirement
    columns = {percentile: f"{needs.measured}_p{percentile:g}" for percentile in needs.latency}
    for name in columns.values():
        if name not in flows.columns:
            raise InputError(f"has no column {name}; use other percentiles", key="flows")

    def of(row: dict[str, float | None]) -> float | None:
        latency = {percentile: row[name] for percentile, name in columns.items()}
        known = {percentile: value for percentile, value in latency.items() if value is not None}
        loss, mbps = row["drop_pct"], row["goodput_mbps"]
        if len(known) < len(latency) or loss is None or mbps is None:
            return None
        return score(needs, known, loss, mbps)

    scores = [of(row) for row in flows.select(*columns.values(), "drop_pct", "goodput_mbps").iter_rows(named=True)]
    return flows.with_columns(pl.Series("qoo", scores, dtype=pl.Float64))
