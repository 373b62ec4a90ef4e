"""Figures that a study chooses: what the query gives is what is drawn."""

from __future__ import annotations

import itertools
from pathlib import Path

import polars as pl
import pytest
from l4slab import experimentfile, plot
from l4slab.base.errors import InputError
from l4slab.plot.figures import draw
from l4slab.results import figures
from l4slab.sweep import expand

EXPERIMENT = (
    'duration = "1s"\n[link.l]\nrate = "10Mbit"\nqdisc = "pfifo"\n[[flow]]\nname = "a"\ncc = "cubic"\nrtt = "10ms"\n'
)


def write(tmp_path: Path, text: str) -> experimentfile.Experiment:
    file = tmp_path / "x.toml"
    file.write_text(f'{EXPERIMENT}[[figure]]\nid = "f"\n{text}\n')
    return experimentfile.load(file)


def test_shares_stand_on_each_other() -> None:
    data = pl.DataFrame({"bar": ["1", "1", "2", "2"], "part": ["a", "b", "a", "b"], "value": [60.0, 40.0, 90.0, 10.0]})
    figure = plot.shares(data)
    bottoms = [(bar.get_y(), bar.get_height()) for bar in figure.axes[0].patches]
    assert bottoms == [(0, 60), (0, 90), (60, 40), (90, 10)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert plot.shares(data, limits=(99, 100)).axes[0].get_ylim() == (99, 100)
    assert len({(bar.get_facecolor(), bar.get_hatch()) for bar in figure.axes[0].patches}) == 2


def test_a_spread_is_drawn_at_its_bar() -> None:
    data = pl.DataFrame(
        {"panel": ["p", "p", "q"], "group": ["g", "h", "g"], "bar": ["1", "1", "1"], "part": ["a"] * 3}
        | {"mean": [2.0, 3.0, 4.0], "low": [1.0, 2.0, 4.0], "high": [5.0, 6.0, 7.0]}
    )
    first, second = plot.spread(data, label="delay (ms)").axes
    means = next(line for line in first.lines if line.get_marker() == plot.looks(["a"])["a"].marker)
    assert list(means.get_ydata()) == [2, 3]
    assert list(means.get_xdata()) == list(first.get_xticks())
    assert (first.get_title(loc="left"), second.get_title(loc="left")) == ("p", "q")
    assert first.get_xlim() == second.get_xlim()


def test_a_bar_without_a_value_keeps_its_place_and_a_mean_below_the_axis_is_an_arrow() -> None:
    data = pl.DataFrame(
        {"bar": ["50", "70", "100"], "part": ["UDP"] * 3, "mean": [None, 0.01, 5.0], "low": [None, 0.0, 4.0]}
        | {"high": [None, 0.5, 6.0]}
    )
    axis = plot.spread(data, limits=(0.1, 100), log=True).axes[0]
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["50", "70", "100"]
    marks = {line.get_marker(): line.get_xydata().tolist() for line in axis.lines if line.get_marker() in (7, "P")}
    assert marks == {7: [[1, 0.1]], "P": [[2, 5]]}


def test_long_names_of_bars_stand_upright() -> None:
    names = [f"CUBIC beside a long flow {n}" for n in range(8)]
    data = pl.DataFrame({"bar": names, "part": ["a"] * 8, "value": [1.0] * 8})
    assert {tick.get_rotation() for tick in plot.shares(data).axes[0].get_xticklabels()} == {90.0}
    short = data.with_columns(bar=pl.col("bar").str.slice(-1))
    assert {tick.get_rotation() for tick in plot.shares(short).axes[0].get_xticklabels()} == {0.0}


LONG = "fq_codel target 20ms interval 200ms limit 2000"


def test_a_few_long_names_of_bars_are_wrapped_in_panels_as_high_as_before() -> None:
    def height(name: str) -> float:
        data = pl.DataFrame({"panel": list("ppqq"), "bar": ["dualpi2", name] * 2, "part": ["a"] * 4, "mean": [1.0] * 4})
        figure = plot.spread(data.with_columns(low="mean", high="mean"))
        axes = figure.axes
        figure.draw_without_rendering()
        assert {tick.get_rotation() for tick in axes[0].get_xticklabels()} == {0.0}
        assert axes[0].get_xticklabels()[1].get_text().replace("\n", " ") == name
        names = [tick.get_window_extent() for tick in axes[0].get_xticklabels()]
        assert names[0].x1 < names[1].x0
        assert min(tick.y0 for tick in names) > axes[1]._left_title.get_window_extent().y1
        return axes[0].get_position().height * figure.get_figheight()

    assert height(f"{LONG} and {LONG}") == pytest.approx(height("pfifo"), rel=0.1)


@pytest.mark.parametrize("kind", [plot.lines, plot.heatmap])
def test_long_names_of_panels_are_wrapped(kind) -> None:
    cells = {"panel": ["p", "q", LONG, "r", LONG + " ecn"], "x": [1.0] * 5, "y": [1.0] * 5, "value": [1.0] * 5}
    figure = kind(pl.DataFrame(cells | {"row": ["r"] * 5, "column": ["c"] * 5}))
    figure.draw_without_rendering()
    axes = [axis for axis in figure.axes if axis.get_visible() and axis.get_title(loc="left")]
    assert [axis.get_title(loc="left").replace("\n", " ") for axis in axes] == cells["panel"]
    titles = [axis._left_title.get_window_extent() for axis in axes]
    assert all(title.x1 <= figure.bbox.x1 for title in titles)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(titles, 2))


def test_a_line_has_its_range() -> None:
    data = pl.DataFrame({"x": [1.0, 2.0], "y": [5.0, 6.0], "low": [4.0, 4.5], "high": [9.0, 8.0]})
    axis = plot.lines(data, label="queue delay (ms)", x_label="time (s)").axes[0]
    assert list(axis.lines[0].get_ydata()) == [5, 6]
    assert axis.collections[0].get_paths()[0].get_extents().y1 == 9


def test_lines_stand_in_panels_of_one_scale() -> None:
    data = pl.DataFrame({"panel": ["p", "q"] * 2, "part": ["a", "a", "b", "b"], "x": [1.0, 100.0] * 2, "y": [2.0] * 4})
    figure = plot.lines(data, x_log=True, log=True)
    first, second = figure.axes
    assert first.get_xlim() == second.get_xlim()
    assert 0.5 < first.get_xlim()[0] < 1 < 100 < first.get_xlim()[1] < 200
    assert first.get_xscale() == first.get_yscale() == "log"
    assert len({(line.get_color(), line.get_linestyle()) for line in first.lines}) == 2


@pytest.mark.parametrize("kind", ["panel", "group"])
@pytest.mark.parametrize("log", [False, True])
def test_panels_of_one_axis_show_the_lines_of_all(kind: str, log: bool) -> None:
    highest = [2.0, 5.0, 40.0, 300.0]
    names = {kind: list("pqrs"), "part": ["a"] * 4, "x": [1.0] * 4, "y": highest}
    more = pl.DataFrame(names | {"y": [0.5, 0.2, 0.1, 0.4], "x": [2.0] * 4})
    data = pl.concat([pl.DataFrame(names), more]).with_columns(panel=pl.col(kind) if kind == "panel" else pl.lit("p"))
    data = pl.concat([data, data.with_columns(panel=pl.lit("z"))]) if kind == "group" else data
    axes = [axis for axis in plot.lines(data, log=log).axes if axis.get_visible()]
    assert len(axes) == (4 if kind == "panel" else 8)
    for axis in axes:
        low, high = axis.get_ylim()
        assert 0 <= low < 0.1
        assert 300 < high < 1000
    assert {axis.get_ylim() for axis in plot.lines(data, limits=(1, 9)).axes} == {(1, 9)}


def test_an_axis_fits_negative_values() -> None:
    data = pl.DataFrame({"x": [0.0, 1.0], "y": [-2.0, 3.0], "low": [-5.0, 1.0], "high": [-1.0, 4.0]})
    assert plot.lines(data).axes[0].get_ylim()[0] < -5
    cell = data.with_columns(row=pl.lit("r"), column=pl.lit("c"))
    low, high = plot.grid(cell).axes[0].get_ylim()
    assert low < -2 < 3 < high


def shown_ticks(axis) -> list[str]:
    """Labels of an axis, of its visible part."""
    low, high = axis.get_view_interval()
    axis.figure.draw_without_rendering()
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    return [tick.label1.get_text() for tick in ticks if low <= tick.get_loc() <= high and tick.label1.get_text()]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1.0, 1000.0], ["1", "10", "100", "1\u202f000"]),
        ([4.0, 30.0], ["10", "5", "20"]),
        ([2.1, 4.5], ["3", "4"]),
        ([8.0, 12.0], ["10", "8", "9"]),
        ([11.0, 14.0], ["11", "12", "13", "14"]),
    ],
)
def test_a_log_axis_has_two_numbers_at_least(values: list[float], wanted: list[str]) -> None:
    data = pl.DataFrame({"x": values, "y": values, "part": ["a", "a"]})
    axis = plot.lines(data, log=True).axes[0]
    found = shown_ticks(axis.yaxis)
    assert [text for text in found if not text.endswith(".5")] == wanted
    bars = data.with_columns(bar=pl.lit("b"), mean="y", low="y", high="y", part=pl.Series(["a", "b"]))
    assert len(shown_ticks(plot.spread(bars, log=True).axes[0].yaxis)) >= 2


def test_the_colours_of_values_near_each_other_have_numbers() -> None:
    data = pl.DataFrame({"row": ["r", "r"], "column": ["c", "d"], "value": [2.2, 4.8]})
    figure = plot.heatmap(data, log=True)
    assert shown_ticks(figure.axes[-1].xaxis) == ["3", "4"]


def test_markers_at_the_ends_of_an_axis_are_whole() -> None:
    data = pl.DataFrame({"x": [0.0, 10.0, 20.0], "y": [0.0, 1.0, 2.0], "part": ["a"] * 3})
    axis = plot.lines(data).axes[0]
    assert axis.get_xlim() == (0, 20)
    assert axis.get_xticks()[-1] == 20
    assert not axis.lines[0].get_clip_on()
    # What is beyond the axis stays out of sight.
    for changes in ({"limits": (0, 1)}, {"x_limits": (0, 15)}, {"log": True}):
        assert plot.lines(data, **changes).axes[0].lines[0].get_clip_on()


def test_a_heatmap_has_a_number_in_each_cell() -> None:
    data = pl.DataFrame(
        {"group": ["5 ms", "5 ms", "10 ms"], "panel": ["1 ms", "5 ms", "5 ms"]}
        | {"row": ["FIFO", "CoDel", "CoDel"], "column": ["1", "2", "1"], "value": [0.25, -0.5, 1.0]}
    )
    axes = [axis for axis in plot.heatmap(data, neutral=0, limits=(-1, 1)).axes if axis.texts]
    assert {axis.get_title(loc="left"): axis.texts[0].get_text() for axis in axes} == {
        "5 ms, 1 ms": "0.25",
        "5 ms, 5 ms": "\u22120.50",
        "10 ms, 5 ms": "1.00",
    }
    assert axes[0].texts[0].get_position() == (0, 0)
    assert axes[1].texts[0].get_position() == (1, 1)


def colour_of(figure, value: float) -> tuple[float, ...]:
    """Of the cell with this number in it."""
    for axis in figure.axes:
        for text in axis.texts:
            if text.get_text() == f"{value:.2f}":
                mesh = axis.collections[0]
                column, row = text.get_position()
                return tuple(mesh.to_rgba(mesh.get_array()[int(row), int(column)]))
    raise AssertionError(value)


def test_a_ratio_of_one_a_half_share_and_no_difference_have_the_neutral_colour() -> None:
    def of(values: list[float], **changes) -> object:
        cells = {"row": ["a"] * len(values), "column": [str(v) for v in values], "value": values}
        return plot.heatmap(pl.DataFrame(cells), **changes)

    def chroma(colour: tuple[float, ...]) -> float:
        return max(colour[:3]) - min(colour[:3])

    ratio = of([0.5, 1.0, 2.0, 8.0], neutral=1, log=True)
    share = of([0.1, 0.5, 0.6], neutral=0.5, limits=(0, 1))
    for figure, neutral in ((ratio, 1.0), (share, 0.5), (of([-3.0, 0.0, 1.0], neutral=0), 0.0)):
        assert chroma(colour_of(figure, neutral)) < 0.02
    # Twice and half are equally far from one, and on different sides.
    assert sum(colour_of(ratio, 2.0)[:3]) == pytest.approx(sum(colour_of(ratio, 0.5)[:3]), abs=0.25)
    assert chroma(colour_of(ratio, 2.0)) > 0.1 < chroma(colour_of(ratio, 0.5))


def test_a_heatmap_with_published_values_is_three() -> None:
    data = pl.DataFrame({"row": ["a", "b"], "column": ["1", "1"], "value": [0.5, 0.75], "published": [0.25, None]})
    axes = [axis for axis in plot.heatmap(data, neutral=0.5, limits=(0, 1)).axes if axis.texts]
    assert [axis.get_title(loc="left") for axis in axes] == ["published", "here", "here \u2212 published"]
    assert [[text.get_text() for text in axis.texts] for axis in axes] == [["0.25"], ["0.50", "0.75"], ["+0.25"]]


def diamonds(axis) -> list[float]:
    return [float(y) for line in axis.lines if line.get_marker() == "D" for y in line.get_ydata()]


def test_published_values_stand_in_bars_points_and_lines() -> None:
    bars = pl.DataFrame({"bar": ["1"] * 3, "part": ["a", "b", "c"], "value": [60.0, 30.0, 10.0]})
    drawn = plot.shares(bars.with_columns(published=pl.Series([50.0, 20.0, 30.0]), error=2.0))
    assert diamonds(drawn.axes[0]) == [50, 70]
    points = pl.DataFrame(
        {"bar": ["1", "2"], "part": ["a", "a"], "mean": [2.0, 3.0], "low": [1.0, 2.0], "high": [4.0, 5.0]}
    )
    spread = plot.spread(points.with_columns(published=pl.Series([2.5, None])))
    assert diamonds(spread.axes[0]) == [2.5]
    line = plot.lines(pl.DataFrame({"x": [1.0, 2.0], "y": [5.0, 6.0], "published": [None, 6.5]}))
    assert diamonds(line.axes[0]) == [6.5]
    for figure in (drawn, spread, line):
        assert "published" in [text.get_text() for text in figure.legends[0].get_texts()]
    without = plot.spread(points.with_columns(published=pl.lit(None, pl.Float64)))
    assert diamonds(without.axes[0]) == []


def test_a_distribution_leaves_through_the_side() -> None:
    data = pl.DataFrame({"part": ["CUBIC"] * 4, "value": [1.0, 2.0, 30.0, 400.0]})
    axis = plot.cdf(data, x_limits=(0, 50)).axes[0]
    x, y = axis.lines[0].get_data()
    assert list(x) == [1, 1, 2, 30, 400]
    assert list(y) == [0, 25, 50, 75, 100]
    assert axis.get_xlim() == (0, 50)
    # At the axis' end it is level at what is below it, and nothing else ends there.
    assert max(x[y < 100]) < 50 < min(x[y == 100])


def test_a_histogram_and_a_fraction_are_the_same_distribution() -> None:
    values = pl.DataFrame({"part": ["a"] * 4, "value": [1.0, 1.0, 3.0, 4.0]})
    histogram = pl.DataFrame({"part": ["a"] * 3, "value": [1.0, 3.0, 4.0], "count": [2, 1, 1]})
    fraction = pl.DataFrame({"part": ["a"] * 3, "value": [1.0, 3.0, 4.0], "fraction": [0.5, 0.75, 1.0]})
    drawn = [plot.cdf(one).axes[0].lines[0].get_xydata().tolist() for one in (values, histogram, fraction)]
    assert drawn[0] == drawn[1] == drawn[2] == [[1, 0], [1, 50], [3, 75], [4, 100]]


def test_a_grid_has_a_panel_per_cell_with_its_own_end() -> None:
    data = pl.DataFrame(
        {"row": ["D1", "D1", "D2"], "column": ["C1", "C2", "C1"], "x": [0.0, 0.0, 250.0], "y": [1.0, 2.0, 3.0]}
        | {"part": ["DCTCP"] * 3, "top": [40.0, 26.0, 26.0]}
    )
    axes = plot.grid(data).axes
    assert [axis.get_ylim()[1] for axis in axes[:3]] == [40, 26, 26]
    assert [axis.get_title(loc="center") for axis in axes[:2]] == ["C1", "C2"]
    assert not axes[3].axison


def test_whole_numbers_have_no_ticks_between() -> None:
    axis = plot.lines(pl.DataFrame({"x": [0, 1, 2, 3], "y": [1.0, 2.0, 3.0, 2.0]})).axes[0]
    assert all(float(tick).is_integer() for tick in axis.get_xticks())


@pytest.mark.parametrize("kind", [plot.shares, plot.spread, plot.lines, plot.cdf, plot.grid, plot.heatmap])
def test_nothing_to_draw(kind) -> None:
    columns = ("bar", "part", "value", "mean", "low", "high", "x", "y", "row", "column")
    assert kind(pl.DataFrame(schema=dict.fromkeys(columns, pl.Float64))) is None


def test_a_figure_may_ask_its_file_of_published_values(tmp_path: Path) -> None:
    (tmp_path / "known.csv").write_text("# Source: a page\nname,goodput\na,7.5\n")
    sql = (
        "select flow as bar, flow as part, 1.0 as value, goodput as published from flows join reference on name = flow"
    )
    plan = expand(write(tmp_path, f'kind = "shares"\nreference = "known.csv"\nsql = "{sql}"'), "sim")
    figures.check([plan])
    rows = {"experiment": ["x"], "run": ["r"], "trial": [1], "flow": ["a"]}
    empty = {name: pl.DataFrame(rows) for name in ("flows", "links", "series", "transfers")}
    ((_, drawing),) = draw([plan.experiment], empty)
    assert diamonds(drawing.axes[0]) == [7.5]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('kind = "pie"\nsql = "select 1"', ["kind", "pie", "shares"]),
        ('kind = "shares"', ["sql"]),
        ('kind = "shares"\nsql = "select 1"\nlimits = [1]', ["limits"]),
        ('kind = "shares"\nsql = "select flow as bar, flow as part from flows"', ["value", "part"]),
        ('kind = "lines"\nsql = "select nothing from flows"', ["nothing"]),
        ('kind = "runs"\nsql = "drop table all_flows"', ["SELECT"]),
    ],
)
def test_a_mistake_is_found_before_anything_runs(tmp_path: Path, text: str, names: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        figures.check([expand(write(tmp_path, text), "sim")])
    message = str(caught.value)
    assert "figure" in message
    assert all(name in message for name in names), message


def test_bars_that_their_ticks_name_look_alike_by_sender_and_need_no_legend() -> None:
    names = ["CUBIC\nDualPI2", "CUBIC\ndrop-tail", "Prague\nDualPI2"]
    data = pl.DataFrame({"bar": names, "part": [name.replace("\n", ", ") for name in names], "mean": [1.0, 2.0, 3.0]})
    figure = plot.spread(data.with_columns(low=pl.col("mean"), high=pl.col("mean")))
    drawn = {
        line.get_color() for line in figure.axes[0].lines if line.get_marker() == plot.looks(["CUBIC"])["CUBIC"].marker
    }
    assert drawn == {plot.looks(["CUBIC"])["CUBIC"].colour}
    assert not figure.legends
