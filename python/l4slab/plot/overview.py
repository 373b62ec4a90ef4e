"""Who gets which rate, who waits how long, and what is marked or lost: the first figure of a user's experiment."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from l4slab.base.numbers import NO_DELAY_MS
from l4slab.base.values import Cell
from l4slab.plot.roles import INK, Look, looks
from l4slab.plot.style import BEHIND, DIM, GRID, WIDTH_IN, Figure, legend, plain_log, styled

_ROW_IN = 0.26
_BAR = 0.72
# Letters of a line of a flow's name.
_NAME = 24
# From this ratio of the longest to the shortest delay on, a linear axis would hide the short one.
_LOG_FROM = 30.0


def overview(
    flows: pl.DataFrame,
    *,
    cases: Sequence[Mapping[str, Cell]] | None = None,
    labels: Sequence[str] | None = None,
    capacities: Sequence[Mapping[str, float]] | None = None,
) -> Figure | None:
    """A row per flow of each case, and panels for rate, queue delay, completion times (if any), marks and drops.

    `flows` is the result table; a case is a value for each of some of its columns (default: each experiment), and
    `labels` name them. Bars are means of the trials; a thin line is their range (of the rate). A dashed line is the
    capacity (Mb/s) of each flow's path, if `capacities` has it for the case. The delay is drawn from the mean (marker)
    to P99 (end of the line), on a log axis if delays differ much. Completion times and frames are drawn from the median
    to P99, and a text gives the number of unfinished transfers. A delay that is too short for the axis stands at its
    end, and the text says so. Flows without a delay have no mark. None without data.
    """
    cases = cases if cases is not None else [{"experiment": e} for e in flows["experiment"].unique(maintain_order=True)]
    labels = labels if labels is not None else [", ".join(map(str, case.values())) for case in cases]
    rows = [_of_case(flows, case) for case in cases]
    if not any(map(len, rows)):
        return None
    rate = "rate_mbps" if flows["rate_mbps"].count() else "goodput_mbps"
    look = looks({str(name): cc for name, cc in flows.select("flow", "cc").unique("flow", maintain_order=True).rows()})
    times = {"queue delay": ("sojourn_ms_mean", "sojourn_ms_p99")}
    if any(name in flows.columns and flows[name].sum() for name in ("transfers", "unfinished")):
        times["completion"] = ("completion_ms_p50", "completion_ms_p99")
    if "frame_ms_p50" in flows.columns and flows["frame_ms_p50"].count():
        times["frame latency"] = ("frame_ms_p50", "frame_ms_p99")
    ticks: list[tuple[float, str]] = []
    y = 0.0
    with styled():
        figure = Figure()
        axes = figure.subplots(1, 2 + len(times), sharey=True, width_ratios=(1.25, *[1.1] * len(times), 1))
        axes[0].set_zorder(1)
        for label, mine, capacity in zip(labels, rows, capacities or [{}] * len(rows), strict=True):
            if len(cases) > 1:
                # It stands over all panels: above their grids, and without making room for itself in the first.
                axes[0].annotate(
                    textwrap.shorten(label, 110, placeholder=" …"), (0, y), (2, 0), ("axes fraction", "data"),
                    "offset points", fontsize=8.5, fontweight="bold", va="center", bbox=BEHIND, in_layout=False,
                )  # fmt: skip
                y += 1
            for name in mine["flow"].unique(maintain_order=True):
                one = mine.filter(pl.col("flow") == name)
                count = int(one["count"][0] or 1)
                ticks.append((y, _in_two_lines(f"{name} × {count}" if count > 1 else str(name))))
                if (limit := capacity.get(str(name))) is not None:
                    axes[0].vlines(limit, y - 0.5, y + 0.5, color=INK, linewidth=1, linestyle=(0, (4, 2)))
                _rate(axes[0], one[rate].drop_nulls(), y, look[str(name)])
                for axis, columns in zip(axes[1:-1], times.values(), strict=True):
                    _delay(axis, one, columns, y, look[str(name)])
                _signals(axes[-1], one, y, look[str(name)])
                y += 1
            y += 0.35 * (len(cases) > 1)
        narrow = len(times) > 1
        figure.set_size_inches(WIDTH_IN, 0.95 + 0.15 * narrow + _ROW_IN * y)
        _axes(axes, [("\n" if narrow else " ").join(title) for title in _titles(times)], y, ticks)
        legend(figure, _handles(list(times)[1:])[0 if any(capacities or ()) else 1 :])
    return figure


def _titles(times: Iterable[str]) -> list[tuple[str, str]]:
    """Names and units of the panels."""
    return [("rate", "(Mb/s)"), *((name, "(ms)") for name in times), ("CE / dropped", "(%)")]


def _in_two_lines(name: str) -> str:
    """A name that leaves room for the panels; the height of a row is two small lines."""
    return "\n".join(textwrap.wrap(name, _NAME, max_lines=2, placeholder=" …"))


def _of_case(table: pl.DataFrame, case: Mapping[str, Cell]) -> pl.DataFrame:
    return table.filter(*(pl.col(name).eq_missing(pl.lit(value)) for name, value in case.items()))


def _rate(axis: Axes, values: pl.Series, y: float, look: Look) -> None:
    if values.is_empty():
        return
    mean, low, high = (float(value) for value in (values.mean(), values.min(), values.max()))  # type: ignore[arg-type]
    axis.barh(y, mean, height=_BAR, **look.bar)
    if high > low:
        axis.hlines(y, low, high, color=INK, linewidth=0.9)
    _write(axis, max(mean, high), y, _short(mean))


def _delay(axis: Axes, rows: pl.DataFrame, columns: tuple[str, str], y: float, look: Look) -> None:
    mean, p99 = (rows[name].mean() for name in columns)
    left = float(rows["unfinished"].mean() or 0) if "unfinished" in rows.columns else 0.0  # type: ignore[arg-type]
    unfinished = f"{_short(left)} unfinished" if left and columns[0].startswith("completion") else ""
    if mean is None:
        if unfinished:
            _write(axis, 0, y, unfinished)
        return
    mean, p99 = float(mean), float(mean if p99 is None else p99)  # type: ignore[arg-type]
    # A log axis has no zero: a short delay is drawn where it begins, and written as it is.
    start, end = (max(value, NO_DELAY_MS) for value in (mean, p99))
    axis.hlines(y, start, end, color=look.colour, linewidth=1.6)
    axis.plot([end], [y], marker="|", markersize=7, color=look.colour)
    axis.plot([start], [y], marker=look.marker, markersize=5, color=look.colour)
    texts = dict.fromkeys(map(_milliseconds, (mean, p99))) if max(mean, p99) > NO_DELAY_MS else ["none"]
    _write(axis, max(start, end), y, " … ".join(texts) + f"\n+ {unfinished}" * bool(unfinished))


def _milliseconds(value: float) -> str:
    return f"< {NO_DELAY_MS:g}" if value < NO_DELAY_MS else _short(value, below_one=2)


def _short(value: float, below_one: int = 3) -> str:
    """Three digits, without a power of ten where they are more; `below_one` digits of what is less than one."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.{below_one}g}"


def _signals(axis: Axes, rows: pl.DataFrame, y: float, look: Look) -> None:
    """Marks above drops, each a bar of half the height."""
    texts = []
    longest = 0.0
    for column, offset, style in (
        ("ce_pct", -0.25, {}),
        ("drop_pct", 0.25, {"facecolor": "none", "edgecolor": look.colour}),
    ):
        value = rows[column].mean()
        number = float(value) if value is not None else 0.0  # type: ignore[arg-type]
        longest = max(longest, number)
        texts.append(f"{number:.0f}" if number > 10 else f"{number:.2g}" if number else "0")
        axis.barh(y + offset * _BAR, number, height=_BAR / 2, **{**look.bar, "hatch": "", "linewidth": 0.9, **style})
    _write(axis, longest, y, " / ".join(texts))


def _write(axis: Axes, x: float, y: float, text: str) -> None:
    axis.annotate(text, (x, y), (4, 0), textcoords="offset points", va="center", fontsize=7, color=DIM, bbox=BEHIND)


def _axes(axes: Any, titles: Sequence[str], y: float, ticks: Sequence[tuple[float, str]]) -> None:
    rate, *delays, signals = axes
    for title, axis in zip(titles, axes, strict=True):
        axis.set_title(title)
    rate.set_yticks([place for place, _ in ticks], [name for _, name in ticks])
    for label in rate.get_yticklabels():
        if "\n" in label.get_text():
            label.set(fontsize=7, linespacing=1)
    rate.set_ylim(y - 0.35, -0.65)
    for delay in delays:
        ends = [x for line in delay.lines for x in line.get_xdata()]
        if ends and max(ends) > _LOG_FROM * min(ends):
            delay.set_xscale("log")
            plain_log(delay.xaxis)
            delay.set_xlim(min(ends) / 1.6, max(ends) * (max(ends) / min(ends)) ** 0.5)
        else:
            delay.set_xlim(0, 1.5 * max(ends, default=1.0))
    rate.set_xlim(0, 1.18 * rate.dataLim.x1 if rate.dataLim.x1 > 0 else 1)
    signals.set_xlim(0, 1.5 * signals.dataLim.x1 if signals.dataLim.x1 > 0 else 1)
    signals.set_xticks([tick for tick in signals.get_xticks() if tick <= min(100, signals.get_xlim()[1])])
    for axis in axes:
        axis.tick_params(axis="y", length=0)
        axis.grid(visible=False, axis="y")
        axis.set_axisbelow(True)
        axis.spines["left"].set_color(GRID)


def _handles(medians: Sequence[str]) -> list[Any]:
    """For the legend; the panels of `medians` have these instead of means."""
    delay = f"mean ({', '.join(medians)}: median), up to P99" if medians else "mean, up to P99"
    return [
        Line2D([], [], color=INK, linewidth=1, linestyle=(0, (4, 2)), label="capacity"),
        Line2D([], [], color=DIM, linewidth=1.6, marker="o", markersize=5, label=delay),
        Patch(facecolor=DIM, label="CE marked"),
        Patch(facecolor="none", edgecolor=DIM, label="dropped"),
    ]
