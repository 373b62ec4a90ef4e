"""Figures for papers, from result tables (polars DataFrames as in `l4slab.Results`) to matplotlib figures.

    figure = plot.time_series(results.series.filter(experiment="A"))
    Path("a.svg").write_text(plot.to_svg(figure))

`time_series` and `inside` draw one case: an experiment at one level of every factor, all trials. `overview` draws who
gets which rate and who waits how long, `delays` a case's distributions. A sender has the colour, dash and marker of its
role in every figure (`l4slab.plot.roles`). `shares`, `spread`, `lines`, `cdf`, `grid` and `heatmap` draw what a query
gives, such as that of a study's `[[figure]]`. Where the table has nothing to draw, the result is None.
Drawing needs matplotlib, which comes with `pip install "l4slab[plot]"`. Without it, `AVAILABLE` is false, and every
function that draws raises InputError.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from l4slab.base.errors import InputError
from l4slab.plot.roles import looks
from l4slab.plot.trials import median_trial

if TYPE_CHECKING:
    from l4slab.plot.agreement import agreement
    from l4slab.plot.cdf import cdf
    from l4slab.plot.comparison import comparison
    from l4slab.plot.delays import delays
    from l4slab.plot.grid import grid
    from l4slab.plot.heatmap import heatmap
    from l4slab.plot.inside import inside
    from l4slab.plot.lines import lines
    from l4slab.plot.overview import overview
    from l4slab.plot.packets import packets
    from l4slab.plot.shares import shares
    from l4slab.plot.spread import spread
    from l4slab.plot.style import to_page, to_svg
    from l4slab.plot.time_series import time_series

AVAILABLE = find_spec("matplotlib") is not None and find_spec("numpy") is not None

__all__ = [
    "AVAILABLE", "agreement", "cdf", "comparison", "delays", "grid", "heatmap", "inside", "lines", "looks",
    "median_trial", "overview", "packets", "shares", "spread", "time_series", "to_page", "to_svg",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """A function that draws. All are loaded at once, because a module of the same name hides a function."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not AVAILABLE:
        raise InputError('figures need matplotlib; install it with: pip install "l4slab[plot]"')
    drawn = [one for one in __all__ if one not in globals() and not one.startswith("to_")]
    modules = {one: import_module(f"{__name__}.{one}") for one in drawn}
    style = import_module(f"{__name__}.style")
    globals().update({one: getattr(module, one) for one, module in modules.items()})
    globals().update(to_page=style.to_page, to_svg=style.to_svg)
    return globals()[name]
