"""A mean over time with its range: the delay of a queue, second by second."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from l4slab.plot.style import COLOURS, WIDTH_IN, plain_log, styled

_HEIGHT_IN = 1.6


def band(
    data: pl.DataFrame, *, label: str = "", limits: tuple[float, float] | None = None, log: bool = False
) -> Figure | None:
    """A line of `mean` over `time_s` and a light area from `low` to `high`; panels of one time axis by `panel`.

    With a column `part`, a line for each. None without data.
    """
    data = data.drop_nulls("mean")
    if data.is_empty():
        return None
    for name in ("panel", "part"):
        if name not in data.columns:
            data = data.with_columns(pl.lit("").alias(name))
    panels = list(data["panel"].unique(maintain_order=True))
    parts = list(data["part"].unique(maintain_order=True))
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 0.75 + len(panels) * _HEIGHT_IN))
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axis, panel in zip(axes, panels, strict=True):
            for number, part in enumerate(parts):
                rows = data.filter(pl.col("panel") == panel, pl.col("part") == part).sort("time_s")
                colour = COLOURS[(number + 1) % len(COLOURS)]
                times = rows["time_s"].to_numpy()
                axis.fill_between(
                    times, rows["low"].to_numpy(), rows["high"].to_numpy(), color=colour, alpha=0.3, linewidth=0,
                    label="shortest to longest" if len(parts) == 1 else None,
                )  # fmt: skip
                axis.plot(times, rows["mean"].to_numpy(), color=colour, linewidth=1.2, label=part or "mean")
            if log:
                axis.set_yscale("log")
                plain_log(axis.yaxis)
            axis.set_ylim(*(limits or (None if log else 0, None)))
            axis.set_xlim(0, float(data["time_s"].max()))  # type: ignore[arg-type]
            axis.set_ylabel(label)
            axis.set_title(panel)
        axes[-1].set_xlabel("time (s)")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside upper left", ncols=4)
    return figure
