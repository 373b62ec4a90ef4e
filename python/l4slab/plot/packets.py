"""Each packet of a stack in its queues, above what the stack's log says of window, RTT, pacing and state."""

from __future__ import annotations

from typing import Any

import polars as pl
from matplotlib.axes import Axes

from l4slab.plot.roles import INK
from l4slab.plot.style import DIM, WIDTH_IN, Figure, legend, limit_y, shade_warmup, styled

_PACKET, _MARKED = "#56B4E9", "#D55E00"
# Points are drawn as a picture of this resolution: as shapes, ten thousand of them are a megabyte.
_DPI = 200
_POINT: Any = {"linestyle": "", "rasterized": True, "markeredgewidth": 0}
# Events that have no delay stand in rows at the top of the panel: marker, and place as a part of its height.
_DROPPED, _DECLARED = ("x", 1.0), ("|", 0.93)
_WINDOW: Any = {"color": INK, "linewidth": 1.0}
_FLIGHT: Any = {"color": "#009E73", "linewidth": 0.8}
# Quantities of the log with a panel of their own.
_ALONE = {"srtt_ms": "smoothed\nRTT (ms)", "pacing_mbps": "pacing\n(Mb/s)"}


def packets(
    packets: pl.DataFrame,
    log: pl.DataFrame,
    *,
    warmup_s: float = 0,
    begin_s: float | None = None,
    end_s: float | None = None,
) -> Figure | None:
    """Panels over one time axis: the queue delay of each packet at its arrival, with CE marks, drops, and the packets
    that the stack declared lost; window and bytes in flight (kB); smoothed RTT (ms), pacing rate (Mb/s) and the state
    of the congestion control, as far as the log has them.

    `packets` and `log` are the files lab/RUN/programs/FLOW-packets.parquet and FLOW-log.parquet of a run on the engine
    `linux` or `real` (docs/stacks.md). Only what is between `begin_s` and `end_s` is drawn; the time before `warmup_s`
    is shaded. None without packets in it.
    """
    low = 0.0 if begin_s is None else begin_s
    high = float(packets["time_s"].max() or 0) if end_s is None else end_s  # type: ignore[arg-type]
    log = log.with_columns(is_loss=pl.col("lost_packets") > pl.col("lost_packets").shift(1, fill_value=0))
    shown, told = (table.filter(pl.col("time_s").is_between(low, high)) for table in (packets, log))
    if shown.is_empty():
        return None
    alone = [name for name in _ALONE if told[name].count()]
    states = told["state"].drop_nulls().unique(maintain_order=True).to_list()
    has_states = len(states) > 1 and not any(state.isdecimal() for state in states)  # which have no names
    heights = [2.2, 1.5, *[1.0] * len(alone), *[0.2 + 0.13 * len(states)] * has_states]
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 0.9 + sum(heights)), dpi=_DPI)
        axes = list(figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0])
        handles = _delays(axes[0], shown, told, warmup_s)
        for column, label, style in (
            ("inflight_bytes", "bytes in flight", _FLIGHT),
            ("cwnd_bytes", "congestion window", _WINDOW),
        ):
            if told[column].count():
                handles += axes[1].plot(
                    told["time_s"], told[column] / 1e3, drawstyle="steps-post", label=label, **style
                )
        axes[1].set_ylabel("kB")
        for axis, name in zip(axes[2:], alone, strict=False):
            axis.plot(told["time_s"], told[name], drawstyle="steps-post", **_WINDOW)
            axis.set_ylabel(_ALONE[name])
        for axis in axes[1 : 2 + len(alone)]:
            axis.set_ylim(bottom=0)
        if has_states:
            _states(axes[-1], told, states, high)
        for axis in axes:
            shade_warmup(axis, warmup_s)
        axes[-1].set_xlabel("time (s)")
        axes[-1].set_xlim(low, high)
        legend(figure, handles)
    return figure


def _delays(axis: Axes, shown: pl.DataFrame, told: pl.DataFrame, warmup_s: float) -> list[Any]:
    """The packets at the time of their arrival, and the legend's entries."""
    handles = []
    for of_mark, label, size, colour in ((False, "packet", 1.6, _PACKET), (True, "with CE", 2.6, _MARKED)):
        some = shown.filter(pl.col("is_marked") == of_mark, pl.col("sojourn_ms").is_not_null())
        if len(some):
            style: Any = {"marker": "o", "color": colour, "markersize": size}
            axis.plot(some["time_s"], some["sojourn_ms"], **_POINT, **style)
            handles += axis.plot([], [], label=label, **{**_POINT, **style, "markersize": 4})
    waited = shown.drop_nulls("sojourn_ms")
    if len(waited):
        limit_y(axis, waited["time_s"], waited["sojourn_ms"], warmup_s)
        axis.set_ylim(0, 1.15 * axis.get_ylim()[1])
    for times, label, (marker, place), colour in (
        (shown.filter("is_dropped")["time_s"], "dropped", _DROPPED, INK),
        (told.filter("is_loss")["time_s"], "declared lost by the stack", _DECLARED, DIM),
    ):
        if len(times):
            style = {"linestyle": "", "marker": marker, "color": colour, "markersize": 4, "markeredgewidth": 0.8}
            handles += axis.plot(
                times, [place] * len(times), transform=axis.get_xaxis_transform(), clip_on=False, label=label, **style
            )
    axis.set_ylabel("queue delay (ms)")
    return handles


def _states(axis: Axes, told: pl.DataFrame, states: list[str], end_s: float) -> None:
    """A row per state with a bar for each time in it, in the order of their first time."""
    spans = told.drop_nulls("state").filter(pl.col("state") != pl.col("state").shift(1, fill_value=""))
    ends = spans["time_s"].shift(-1, fill_value=end_s)
    for row, state in enumerate(states):
        of_state = (spans["state"] == state).to_numpy()
        begins = spans["time_s"].to_numpy()[of_state]
        widths = ends.to_numpy()[of_state] - begins
        axis.broken_barh(list(zip(begins, widths, strict=True)), (row - 0.35, 0.7), facecolor=_PACKET, linewidth=0)
    axis.set_yticks(range(len(states)), [state.replace("_", " ") for state in states])
    axis.set_ylim(len(states) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0, labelsize=7.5)
    axis.grid(visible=False, axis="y")
