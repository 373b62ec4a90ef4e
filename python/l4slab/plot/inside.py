"""Inside the AQM: the Classic, the coupled and the native marking probability over time."""

from __future__ import annotations

import polars as pl

from l4slab.plot.roles import looks
from l4slab.plot.style import WIDTH_IN, Figure, legend, limit_y, shade_warmup, styled
from l4slab.plot.trials import median_trial

# The published plots have these hues, too: those of the senders that the signals are for.
_LINES = {"p_c": "Classic", "p_l_coupled": "coupled L4S", "p_l_native": "native L4S"}
_ORDER = ("p_c", "p_l_coupled", "p_l_native")
# Below this part of the panel's height a line would look like zero.
_TOO_SMALL = 0.08


def inside(
    series: pl.DataFrame, *, link: str | None = None, warmup_s: float = 0, trial: int | None = None
) -> Figure | None:
    """Marking or drop probabilities of one link (%) over time, and the Classic one again on a scale of its own.

    `series` has the rows of one case; `link` is the first with probabilities unless given. One trial, the median one
    unless given, is drawn in full, the others faintly. None where the queue has no such probabilities.
    """
    columns = [name for name in _ORDER if name in series.columns]
    rows = series.filter(pl.any_horizontal(pl.col(columns).is_not_null())) if columns else series.clear()
    if link is not None:
        rows = rows.filter(pl.col("link") == link)
    elif len(rows):
        rows = rows.filter(pl.col("link") == rows["link"].first())
    columns = [name for name in columns if rows[name].count()]
    if not columns:
        return None
    trial = median_trial(series, warmup_s) if trial is None else trial
    measured = rows.filter(pl.col("time_s") >= warmup_s)
    largest = {name: 100 * float(measured[name].max() or 0) for name in columns}  # type: ignore[arg-type]
    classic_apart = len(columns) > 1 and 0 < largest.get("p_c", 0) < _TOO_SMALL * max(largest.values())
    look = looks(list(_LINES.values()))
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 2.7 + 1.1 * classic_apart))
        heights = [2.2, 1] if classic_apart else [1]
        axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        for axis, shown in zip(axes, [columns, ["p_c"]], strict=False):
            for number in [n for n in rows["trial"].unique().sort() if n != trial] + [trial]:
                one = rows.filter(pl.col("trial") == number).sort("time_s")
                for name in shown:
                    style = look[_LINES[name]].line
                    if number != trial:
                        style |= {"alpha": 0.16, "linewidth": 0.6, "linestyle": "-"}
                    label = _LINES[name] if number == trial else None
                    axis.plot(one["time_s"].to_numpy(), 100 * one[name].to_numpy(), label=label, **style)
            shade_warmup(axis, warmup_s)
            highest = 100 * rows.select(pl.max_horizontal(shown)).to_series().to_numpy()
            # Room below zero, or a line that is zero throughout would vanish in the frame.
            limit_y(axis, rows["time_s"].to_numpy(), highest, warmup_s, below=0.03)
        axes[0].set_ylabel("probability (%)")
        if classic_apart:
            axes[1].set_ylabel("Classic alone (%)")
        axes[-1].set_xlabel("time (s)")
        axes[-1].set_xlim(0, float(series["time_s"].max() or 0))  # type: ignore[arg-type]
        legend(figure, axes[0].get_legend_handles_labels()[0])
    return figure
