"""What all figures share: size, fonts, colours, line styles, and SVG output that is the same bytes every time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import ArrayLike

WIDTH_IN = 7.2  # two columns of a paper, and the width of the report

# Okabe and Ito's colours, safe for colour-blind readers, in an order whose greys differ from neighbour to neighbour.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.2)), (0, (1.2, 0.8)), (0, (6, 1.2, 1.2, 1.2)))
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oooo")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# A peak before the measured interval ends the axis only up to this multiple of what was measured.
_PEAK = 1.6

_RC: Any = {
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine has it
    "font.size": 8.5,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "path.simplify": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "l4slab",
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
}


@contextmanager
def styled() -> Iterator[None]:
    """The figures' settings, whatever the caller's matplotlibrc says."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def look(names: Sequence[str], name: str) -> dict[str, Any]:
    """Colour and line style of one of `names`, the same in every figure with the same names."""
    number = list(names).index(name)
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}


def marker(names: Sequence[str], name: str) -> str:
    """The marker of one of `names`."""
    return MARKERS[list(names).index(name) % len(MARKERS)]


def limit_y(axis: Axes, times: ArrayLike, values: ArrayLike, warmup_s: float, below: float = 0) -> None:
    """End the y axis above what was measured; a start-up peak far beyond is named instead of flattening the rest.

    `below` is room under zero, as a part of the height.
    """
    found = np.asarray(values, dtype=float)
    measured = found[np.asarray(times) >= warmup_s]
    largest = float(np.nanmax(found)) if found.size else 0.0
    usual = float(np.nanmax(measured)) if measured.size else largest
    top = usual * _PEAK if 0 < usual * _PEAK < largest else largest
    top = top if top > 0 else 1.0
    axis.set_ylim(-below * top, top * 1.05)
    if top < largest:
        text = f"peak before: {largest:.3g}"
        axis.annotate(text, (1, 1), xycoords="axes fraction", ha="right", va="bottom", fontsize=7.5, color="#555555")


def plain_log(axis: Axis) -> None:
    """Numbers instead of powers of ten on a logarithmic axis."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def shade_warmup(axis: Axes, warmup_s: float) -> None:
    """Shade the time before the measured interval."""
    if warmup_s > 0:
        axis.axvspan(0, warmup_s, color="#000000", alpha=0.045, linewidth=0, zorder=0)


def to_svg(figure: Figure) -> str:
    """The figure as SVG: no date, no version, coordinates to a hundredth of a point."""
    text = io.StringIO()
    with styled():
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    # Only the lines' points: the factors of transformations need their digits.
    return re.sub(r'(?<= d=")[^"]+', _rounded, text.getvalue())


def _rounded(points: re.Match[str]) -> str:
    return re.sub(r"-?\d+\.\d{3,}", lambda number: _short(number[0]), points[0].replace(" \n", "\n"))


def _short(number: str) -> str:
    short = f"{float(number):.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short
