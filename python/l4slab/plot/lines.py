"""Lines of y over x with their range: delays over time, distributions, completion times over sizes."""

from __future__ import annotations

import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from l4slab.plot.roles import Look, looks
from l4slab.plot.style import (
    TITLE_LINE_IN,
    WIDTH_IN,
    Figure,
    legend,
    mark_published,
    named,
    plain_log,
    published_handle,
    styled,
    title_in,
    whole_ticks,
)

_HEIGHT_IN = 1.6
_MAX_ROWS = 3  # of this height; of more, each is
_LOW_IN = 1.15
_AXIS_IN = 0.7  # the y axis' numbers and label, and the gaps between panels
_MAX_COLUMNS = 3
_BEYOND = 1.12
# Up to so many points of a line are marked.
_MARKED = 25


def lines(
    data: pl.DataFrame,
    *,
    label: str = "",
    x_label: str = "",
    limits: tuple[float, float] | None = None,
    x_limits: tuple[float, float] | None = None,
    log: bool = False,
    x_log: bool = False,
    steps: bool = False,
) -> Figure | None:
    """A line of `y` over `x` for each `part`, with a light area from `low` to `high` where there are these columns.

    With `published` (and its reading `error`), diamonds at the published values. A panel for each `panel`, below each
    other; with a column `group`, a row of panels for each. Panels next to each other have one y axis, which holds the
    lines of all. What is beyond the axes' `limits` is cut off by them.
    `steps`: each y holds up to the next x. None without data.
    """
    compared = "published" in data.columns
    data = data.drop_nulls("x").filter(pl.any_horizontal(pl.col("y", *["published"] * compared).is_not_null()))
    if data.is_empty():
        return None
    data = named(data, "group", "panel", "part")
    look = looks(list(data["part"].unique(maintain_order=True)))
    places = _places(data)
    rows, columns = (1 + max(place[i] for place in places.values()) for i in (0, 1))
    ends = x_limits or _ends(data["x"], log=x_log)
    # A marker at the end of an axis is drawn whole, unless a line goes beyond that end.
    cut = not (_within(data["x"], x_limits, log=x_log) and _within(data["y"], limits, log=log))
    height = _HEIGHT_IN if rows <= _MAX_ROWS else _LOW_IN
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 0.75 + rows * (height + 0.35 * (columns > 1))))
        axes = figure.subplots(rows, columns, sharex=True, sharey=columns > 1, squeeze=False)
        for axis in axes.flat:
            axis.set_visible(False)
        handles: dict[str, Artist] = {}
        lines_of = [1] * rows  # of the highest title of each row
        for (group, panel), (row, column) in places.items():
            axis = axes[row, column]
            axis.set_visible(True)
            mine = data.filter(pl.col("group") == group, pl.col("panel") == panel)
            handles |= _panel(axis, mine, look, steps=steps, cut=cut)
            name = ", ".join(name for name in (group, panel) if name)
            lines_of[row] = max(lines_of[row], title_in(axis, name, (WIDTH_IN - _AXIS_IN) / columns))
            axis.set_yscale("log" if log else "linear")
            axis.set_xscale("log" if x_log else "linear")
            if log:
                plain_log(axis.yaxis)
            if x_log:
                plain_log(axis.xaxis)
            else:
                whole_ticks(axis.xaxis, data["x"])
            axis.set_xlim(*ends)
            axis.set_ylabel(label if column == 0 else "")
            axis.tick_params(labelbottom=(row + 1, column) not in places.values())
        # Only now: a limit ends the automatic scaling of all axes that share it.
        for place in places.values():
            if limits:
                axes[place].set_ylim(*limits)
            elif not log and _least(data) >= 0:
                axes[place].set_ylim(bottom=0)
        figure.set_figheight(figure.get_figheight() + TITLE_LINE_IN * (sum(lines_of) - rows))
        figure.supxlabel(x_label, fontsize=9)
        order = [name for name in look if name in handles]
        shown = [handles[name] for name in [*order, *(name for name in handles if name not in look)]]
        legend(figure, [*shown, *([published_handle()] if compared and data["published"].count() else [])])
    return figure


def _ends(x: pl.Series, *, log: bool) -> tuple[float, float]:
    """Ends of the x axis: zero and the last value; on a log axis a little beyond both, so that markers are whole."""
    if log:
        x = x.filter(x > 0)
        return (float(x.min()) / _BEYOND, float(x.max()) * _BEYOND) if len(x) else (0.1, 1.0)  # type: ignore[arg-type]
    return min(0.0, float(x.min())), float(x.max())  # type: ignore[arg-type]


def _within(values: pl.Series, limits: tuple[float, float] | None, *, log: bool) -> bool:
    """Whether an axis with these limits, or one that fits itself to the values, shows all of them."""
    low, high = limits or (float("-inf"), float("inf"))
    return bool(((values >= low) & (values <= high) & ((values > 0) | (not log))).all())


def _least(data: pl.DataFrame) -> float:
    """The lowest number that is drawn."""
    found = [data[name].min() for name in ("y", "low", "published") if name in data.columns]
    return min((float(value) for value in found if value is not None), default=0.0)  # type: ignore[arg-type]


def _places(data: pl.DataFrame) -> dict[tuple[str, str], tuple[int, int]]:
    """Row and column of each (group, panel)."""
    found = list(data.select("group", "panel").unique(maintain_order=True).iter_rows())
    groups = list(dict.fromkeys(group for group, _ in found))
    panels = list(dict.fromkeys(panel for _, panel in found))
    if len(groups) > 1:
        return {(group, panel): (groups.index(group), panels.index(panel)) for group, panel in found}
    columns = 1 if len(panels) <= _MAX_COLUMNS else 2 if len(panels) == 4 else _MAX_COLUMNS
    return {place: divmod(number, columns) for number, place in enumerate(found)}


def _panel(axis: Axes, rows: pl.DataFrame, look: dict[str, Look], *, steps: bool, cut: bool) -> dict[str, Artist]:
    """Draw the panel's lines; what the legend needs of them, by name."""
    handles: dict[str, Artist] = {}
    for part, style in look.items():
        mine = rows.filter(pl.col("part") == part).sort("x", maintain_order=True)
        drawn = mine.drop_nulls("y")
        if {"low", "high"} <= set(mine.columns) and mine["low"].count():
            axis.fill_between(
                drawn["x"], drawn["low"].to_numpy(), drawn["high"].to_numpy(), color=style.colour, alpha=0.25,
                linewidth=0,
            )  # fmt: skip
            if not part:
                handles["lowest to highest"] = Patch(facecolor=style.colour, alpha=0.25, label="lowest to highest")
        if len(drawn):
            marker = style.marker if part and len(drawn) <= _MARKED and not steps else ""
            name = part or ("mean" if handles else "")
            (line,) = axis.plot(
                drawn["x"].to_numpy(), drawn["y"].to_numpy(), linewidth=1.2, marker=marker, markersize=3.5,
                drawstyle="steps-post" if steps else "default", label=name or None, clip_on=cut or not marker,
                **style.line,
            )  # fmt: skip
            if name:
                handles[name] = line
        if "published" in mine.columns and mine["published"].count():
            known = mine.drop_nulls("published")
            error = known["error"].to_numpy() if "error" in known.columns else None
            mark_published(axis, known["x"].to_numpy(), known["published"].to_numpy(), error)
    return handles
