"""What a run is known by, and which of it differs between two sides beyond chance.

A quantity has a value per trial: the columns of `flows` and `links` that `l4slab compare` reads, and of each flow's
time series the means over intervals that double (0.5 s, 0.5 s, 1 s, 2 s, ...) and the 10th and 90th percentile. The
intervals show slow start, idle periods and the shape of the window, which means over a whole run hide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from l4slab.results import chance

# Of a family of quantities together: how often a difference may be found where there is none.
CHANCE = 0.001
# With few trials no test is as sure as that. This is the most that is accepted.
MOST_CHANCE = 0.01
# A smaller part of the larger value is of no interest.
SMALLEST = 0.01
# Fewer packets make no mean.
_LEAST_PACKETS = 100
_FLOWS = (
    *("goodput_mbps", "share", "rtt_ms_mean", "sojourn_ms_mean", "sojourn_ms_p99", "ce_pct", "drop_pct"),
    *("retransmits", "completion_ms_p50", "frame_ms_p50", "late_pct"),
)
_LINKS = ("utilisation", "sojourn_ms_mean", "sojourn_ms_p99")
# Of the time series, per flow.
STATES = ("cwnd_packets", "srtt_ms", "goodput_mbps")
_FIRST_S = 0.5
_SPREAD = (0.1, 0.9)

# Place ("flow a", "link b") and name.
Key = tuple[str, str]
Values = Mapping[Key, tuple[float, ...]]


@dataclass(frozen=True)
class Trial:
    """The tables of one run, with the columns of `metrics`."""

    flows: pl.DataFrame
    links: pl.DataFrame
    series: pl.DataFrame


@dataclass(frozen=True)
class Difference:
    """A quantity that differs: its values per trial, and how often the largest of all quantities would by chance."""

    key: Key
    a: tuple[float, ...]
    b: tuple[float, ...]
    p: float

    @cached_property
    def weight(self) -> float:
        """Signal over noise: the difference of the means in standard deviations of a trial, at most 10."""
        spread = math.sqrt((_variance(self.a) + _variance(self.b)) / 2)
        gap = abs(mean(self.a) - mean(self.b))
        return min(gap / spread, 10.0) if spread else 10.0


def mean(values: Sequence[float]) -> float:
    """Of the trials."""
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    middle = mean(values)
    return math.fsum((one - middle) ** 2 for one in values) / max(len(values) - 1, 1)


def values(trials: Sequence[Trial]) -> Values:
    """Every quantity that has a value in each of the trials."""
    each = [_of_trial(trial) for trial in trials]
    common = [key for key in each[0] if all(key in one for one in each)] if each else []
    return {key: tuple(one[key] for one in each) for key in common}


def _of_trial(trial: Trial) -> dict[Key, float]:
    found: dict[Key, float | None] = {}
    busy = set()
    for row in trial.flows.iter_rows(named=True):
        if (row.get("sent_packets") or 0) >= _LEAST_PACKETS:
            busy.add(row["flow"])
        place = f"flow {row['flow']}"
        found |= {(place, name): row.get(name) for name in _FLOWS if row["flow"] in busy or name == "goodput_mbps"}
    if trial.flows.height < 2:
        found = {key: value for key, value in found.items() if key[1] != "share"}
    for row in trial.links.filter(queue="all").iter_rows(named=True):
        found |= {(f"link {row['link']}", name): row.get(name) for name in _LINKS}
    found |= _of_series(trial.series, busy)
    return {key: float(value) for key, value in found.items() if value is not None and math.isfinite(value)}


def _of_series(series: pl.DataFrame, busy: set[str]) -> dict[Key, float | None]:
    rows = series.filter(pl.col("flow").is_in(list(busy)))
    slot = pl.max_horizontal(0, (pl.col("time_s") / _FIRST_S).log(2).floor() + 1).cast(pl.Int64)
    states = [name for name in STATES if name in rows.columns]
    found: dict[Key, float | None] = {}
    means = rows.group_by("flow", slot=slot).agg(pl.len(), *(pl.col(name).mean() for name in states))
    for row in means.filter(pl.col("len") > 1).sort("flow", "slot").iter_rows(named=True):
        low = _FIRST_S * 2 ** (row["slot"] - 1) if row["slot"] else 0.0
        when = f"{low:g} to {_FIRST_S * 2 ** row['slot']:g} s"
        found |= {(f"flow {row['flow']}", f"{name}, {when}"): row[name] for name in states}
    parts = [pl.col(name).quantile(part).alias(f"{name}, p{part * 100:g}") for name in states for part in _SPREAD]
    for row in rows.group_by("flow", maintain_order=True).agg(parts).iter_rows(named=True):
        found |= {(f"flow {row['flow']}", name): row[name] for name in row if name != "flow"}
    return found


def alpha(trials_a: int, trials_b: int) -> float:
    """What counts as beyond chance with so many trials on the sides; infinite confidence is not to be had with few."""
    return min(max(CHANCE, 2 / math.comb(trials_a + trials_b, trials_a)), MOST_CHANCE)


def least_trials() -> int:
    """On both sides, for anything to be beyond chance."""
    return next(count for count in range(2, 20) if 2 / math.comb(2 * count, count) <= MOST_CHANCE)


def differences(a: Values, b: Values, largest: float | None = None) -> list[Difference]:
    """The quantities that differ by more than 1 % and beyond chance, the surest first. `largest`: the chance at which
    that is so, otherwise `alpha`.
    """
    keys = [key for key in a if key in b]
    if not keys:
        return []
    limit = alpha(len(a[keys[0]]), len(b[keys[0]])) if largest is None else largest
    together = chance.together([a[key] for key in keys], [b[key] for key in keys])
    found = [Difference(key, a[key], b[key], p) for key, p in zip(keys, together, strict=True) if p <= limit]
    return sorted((one for one in found if _counts(one)), key=lambda one: -one.weight)


def _counts(one: Difference) -> bool:
    larger = max(abs(mean(one.a)), abs(mean(one.b)))
    return abs(mean(one.a) - mean(one.b)) > SMALLEST * larger


def table_of(tables: Mapping[str, pl.DataFrame]) -> list[Trial]:
    """The trials of tables with several runs."""
    runs = tables["flows"].sort("trial", maintain_order=True)["run"].unique(maintain_order=True)
    return [Trial(*(tables[name].filter(run=run) for name in ("flows", "links", "series"))) for run in runs]
