"""What an overview shows of each flow, and how it writes a number; the same in figures for papers and in the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from l4slab.base.numbers import NO_DELAY_MS, plain

# From this ratio of the longest to the shortest delay on, a linear axis would hide the short one.
LOG_FROM = 30.0


@dataclass(frozen=True)
class Times:
    """A kind of delays, drawn from their middle to P99: its name, what the middle is, and both columns."""

    name: str
    middle: str
    columns: tuple[str, str]


def rate_column(flows: pl.DataFrame) -> str:
    """The column of the flows' rates."""
    return "rate_mbps" if flows["rate_mbps"].count() else "goodput_mbps"


def times_of(flows: pl.DataFrame) -> list[Times]:
    """The kinds of delays that these flows have."""
    found = [Times("queue delay", "mean", ("sojourn_ms_mean", "sojourn_ms_p99"))]
    if any(name in flows.columns and flows[name].sum() for name in ("transfers", "unfinished")):
        found.append(Times("completion", "median", ("completion_ms_p50", "completion_ms_p99")))
    if "frame_ms_p50" in flows.columns and flows["frame_ms_p50"].count():
        found.append(Times("frame latency", "median", ("frame_ms_p50", "frame_ms_p99")))
    return found


def mean_of(rows: pl.DataFrame, column: str) -> float | None:
    """The mean over the trials, None where no trial has the quantity."""
    value = rows[column].mean() if column in rows.columns else None
    return float(value) if isinstance(value, int | float) else None


def ends_of(rows: pl.DataFrame, times: Times) -> tuple[float, float] | None:
    """The middle and P99 of a flow's delays in ms, means over the trials."""
    middle, p99 = (mean_of(rows, name) for name in times.columns)
    return None if middle is None else (middle, middle if p99 is None else p99)


def unfinished(rows: pl.DataFrame, times: Times) -> str:
    """How many transfers were incomplete at the end, with completion times; else ""."""
    left = mean_of(rows, "unfinished") if times.name == "completion" else None
    return f"{short(left)} unfinished" if left else ""


def short(value: float, below_one: int = 3) -> str:
    """Three digits, without a power of ten where they are more; `below_one` digits of what is less than one."""
    return f"{value:.0f}" if value >= 100 else plain(float(f"{value:.{3 if value >= 1 else below_one}g}"))


def milliseconds(ends: Sequence[float]) -> str:
    """The middle and P99 of delays, "none" where both are."""
    if max(ends) <= NO_DELAY_MS:
        return "none"
    return " / ".join(f"< {NO_DELAY_MS:g}" if value < NO_DELAY_MS else short(value, below_one=2) for value in ends)


def percent(value: float) -> str:
    """A part of the packets."""
    return f"{value:.0f}" if value > 10 else plain(float(f"{value:.2g}"))
