"""The style of all figures: size, fonts, the mark of published values, and SVG with reproducible bytes."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib import figure as mpl_figure
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from l4slab.base.numbers import number, plain
from l4slab.plot.roles import INK

WIDTH_IN = 7.2  # two columns of a paper, and the width of the report

# These colours mean something: on a page they are its own (`to_page`). What has to stay black or white is nearly so.
DIM = "#595959"
GRID = "#e3e3e3"
PLATE = "#f2f2f2"
PAGE = "#ffffff"
# Behind a text, so that lines do not cross it.
BEHIND: Any = {"facecolor": PAGE, "edgecolor": "none", "pad": 0.6}
_OF_A_PAGE = {
    INK: "currentColor",
    DIM: "var(--figure-dim, #595959)",
    GRID: "var(--figure-grid, #e3e3e3)",
    PLATE: "var(--figure-plate, #f2f2f2)",
    PAGE: "var(--figure-page, #ffffff)",
}

# matplotlib brings the first, and measures with it; the others are as wide or narrower, so nothing outgrows its place.
_FONT = "DejaVu Sans"
_FONTS = f"'{_FONT}', 'Bitstream Vera Sans', Verdana, 'Liberation Sans', Arial, sans-serif"

# The mark of published values, the same in all figures; its whiskers are the reading error.
PUBLISHED: Any = {
    "marker": "D",
    "markersize": 6.5,
    "markerfacecolor": "none",
    "markeredgecolor": INK,
    "markeredgewidth": 0.9,
    "linestyle": "",
    "color": INK,
}

# The mean width of a title's letter, about, and the height of its line.
_TITLE_LETTER_IN = 0.082
TITLE_LINE_IN = 0.16

# A peak before the measured interval ends the axis only up to this multiple of what was measured.
_PEAK = 1.6

_RC: Any = {
    "axes.edgecolor": INK,
    "axes.formatter.limits": (-6, 12),  # no "1e6" above an axis
    "axes.formatter.useoffset": False,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "figure.constrained_layout.use": True,
    "figure.facecolor": PAGE,
    "font.family": _FONT,
    "font.size": 8.5,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "path.simplify": True,
    "savefig.facecolor": PAGE,
    "svg.fonttype": "none",
    "svg.hashsalt": "l4slab",
    "text.color": INK,
    "xtick.color": INK,
    "xtick.labelsize": 8.5,
    "ytick.color": INK,
    "ytick.labelsize": 8.5,
}


class Figure(mpl_figure.Figure):
    """A figure of matplotlib, which a notebook shows without `pyplot`."""

    def _repr_svg_(self) -> str:
        svg = to_svg(self)
        return svg[svg.index("<svg") :]


@contextmanager
def styled() -> Iterator[None]:
    """The figures' settings, whatever the caller's matplotlibrc says."""
    with mpl.rc_context(), warnings.catch_warnings():
        # Of panels without room and letters that the font lacks, which a user's names and numbers may bring.
        warnings.simplefilter("ignore", UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def named(data: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The rows with all of these columns of names, empty where the query gives none."""
    return data.with_columns(pl.lit("").alias(name) for name in names if name not in data.columns)


def mark_published(
    axis: Axes, x: ArrayLike, y: ArrayLike, error: ArrayLike | None = None, *, across: bool = False, **changes: Any
) -> None:
    """Hollow diamonds at published values, with the reading error as whiskers (`across`: of x, not of y)."""
    look = {**PUBLISHED, **changes}
    if error is not None:
        bars = {"xerr" if across else "yerr": np.nan_to_num(np.asarray(error, dtype=float))}
        axis.errorbar(x, y, fmt="none", ecolor=INK, elinewidth=0.8, zorder=3.4, **bars)
    axis.plot(x, y, zorder=3.5, clip_on=False, **look)


def published_handle(**changes: Any) -> Line2D:
    """The legend's entry for published values."""
    return Line2D([], [], label="published", **{**PUBLISHED, **changes})


def title_in(axis: Axes, text: str, inches: float) -> int:
    """Set a panel's title, wrapped to this width; how many lines it has."""
    wrapped = textwrap.fill(text, max(12, int(inches / _TITLE_LETTER_IN)))
    axis.set_title(wrapped)
    return 1 + wrapped.count("\n")


def legend(figure: Figure, handles: Sequence[Any]) -> None:
    """The legend above the panels, with as many names side by side as fit."""
    if handles:
        longest = max(len(str(handle.get_label())) for handle in handles)
        for columns in range(max(1, min(len(handles), 112 // (9 + longest))), 0, -1):
            drawn = figure.legend(handles=list(handles), loc="outside upper left", ncols=columns, handlelength=3)
            if columns == 1 or drawn.get_window_extent().width <= figure.bbox.width:
                break
            drawn.remove()


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
        text = f"peak before: {number(largest)}"
        axis.annotate(text, (1, 1), xycoords="axes fraction", ha="right", va="bottom", fontsize=7.5, color=DIM)


def plain_log(axis: Axis) -> None:
    """Numbers instead of powers of ten on a logarithmic axis, at two ticks or more."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: plain(value) if value in _named_minor(axis) else ""))


def _named_minor(axis: Axis) -> list[float]:
    """Minor ticks that get a number because fewer than two powers of ten do: those at 2 and 5, or else all."""
    low, high = sorted(axis.get_view_interval())
    powers, minor = (
        [tick for tick in ticks if low <= tick <= high]
        for ticks in (axis.get_majorticklocs(), axis.get_minorticklocs())
    )
    few = [tick for tick in minor if f"{tick:.6e}".startswith(("2.000000", "5.000000"))]
    return [] if len(powers) > 1 else few if len(powers) + len(few) > 1 else minor


def whole_ticks(axis: Axis, values: ArrayLike) -> None:
    """No ticks between whole numbers where all values are whole, such as packets."""
    found = np.asarray(values, dtype=float)
    if found.size and np.all(found == np.round(found)):
        axis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 5, 10]))


def shade_warmup(axis: Axes, warmup_s: float) -> None:
    """Shade the time before the measured interval."""
    if warmup_s > 0:
        axis.axvspan(0, warmup_s, color=INK, alpha=0.05, linewidth=0, zorder=0)


def ink_on(colour: Sequence[float]) -> str:
    """Colour of text on a cell of this colour (RGB, 0 to 1): not quite black or white, which are the page's."""
    red, green, blue = colour[:3]
    return "#010101" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#fefefe"


def to_svg(figure: mpl_figure.Figure) -> str:
    """The figure as SVG: black on white, text as text, no date, no version, coordinates to a hundredth of a point."""
    text = io.StringIO()
    canvas = figure.canvas
    with styled():
        # `savefig` lays the figure out and draws it twice, for the same bytes.
        without = {"Date": None, "Creator": None, "Format": None, "Type": None}
        FigureCanvasSVG(figure).print_svg(text, metadata=without)  # type: ignore[no-untyped-call]
    figure.set_canvas(canvas)
    svg = text.getvalue().replace(f"'{_FONT}'", _FONTS)
    # Only the lines' points: the factors of transformations need their digits.
    return re.sub(r'(?<= d=")[^"]+', _rounded, svg)


def to_page(figure: mpl_figure.Figure) -> str:
    """The figure as an `<svg>` element for a web page, which gives it background and ink.

    Text and axes have the CSS `color` of the place; `--figure-dim`, `--figure-grid`, `--figure-plate` (behind empty
    cells) and `--figure-page` (gaps between bars) are light unless the page sets them. Without a background.
    """
    svg = to_svg(figure)
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :].strip(), flags=re.DOTALL)
    svg = re.sub(r'<g id="patch_1">.*?</g>\s*', "", svg, count=1, flags=re.DOTALL)  # matplotlib's background
    # matplotlib leaves out black where it is SVG's own choice, which is no page's.
    svg = svg.replace("<svg ", '<svg fill="currentColor" ', 1)
    return re.sub(r"#[0-9a-f]{6}\b", lambda colour: _OF_A_PAGE.get(colour[0], colour[0]), svg)


def _rounded(points: re.Match[str]) -> str:
    return re.sub(r"-?\d+\.\d{3,}", lambda number: _short(number[0]), points[0].replace(" \n", "\n"))


def _short(number: str) -> str:
    short = f"{float(number):.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short
