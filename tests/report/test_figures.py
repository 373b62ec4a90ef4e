"""Figures that a study chooses: what the query gives is what is drawn."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from l4slab import figures, plot, spec
from l4slab.errors import InputError
from l4slab.sweep import expand

EXPERIMENT = (
    'duration = "1s"\n[link.l]\nrate = "10Mbit"\nqdisc = "pfifo"\n[[flow]]\nname = "a"\ncc = "cubic"\nrtt = "10ms"\n'
)


def write(tmp_path: Path, text: str) -> spec.Experiment:
    file = tmp_path / "x.toml"
    file.write_text(f'{EXPERIMENT}[[figure]]\nid = "f"\n{text}\n')
    return spec.load(file)


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
    means = next(line for line in first.lines if line.get_marker() == "o")
    assert list(means.get_ydata()) == [2, 3]
    assert list(means.get_xdata()) == list(first.get_xticks())
    assert (first.get_title(loc="left"), second.get_title(loc="left")) == ("p", "q")
    assert first.get_xlim() == second.get_xlim()


def test_a_line_has_its_range() -> None:
    data = pl.DataFrame({"x": [1.0, 2.0], "y": [5.0, 6.0], "low": [4.0, 4.5], "high": [9.0, 8.0]})
    axis = plot.lines(data, label="queue delay (ms)", x_label="time (s)").axes[0]
    assert list(axis.lines[0].get_ydata()) == [5, 6]
    assert axis.collections[0].get_paths()[0].get_extents().y1 == 9


def test_lines_stand_in_panels_of_one_scale() -> None:
    data = pl.DataFrame({"panel": ["p", "q"] * 2, "part": ["a", "a", "b", "b"], "x": [1.0, 100.0] * 2, "y": [2.0] * 4})
    figure = plot.lines(data, x_log=True, log=True)
    first, second = figure.axes
    assert first.get_xlim() == second.get_xlim() == (1, 100)
    assert first.get_xscale() == first.get_yscale() == "log"
    assert len({(line.get_color(), line.get_linestyle()) for line in first.lines}) == 2


def test_a_heatmap_has_a_number_in_each_cell() -> None:
    data = pl.DataFrame(
        {"group": ["5 ms", "5 ms", "10 ms"], "panel": ["1 ms", "5 ms", "5 ms"]}
        | {"row": ["FIFO", "CoDel", "CoDel"], "column": ["1", "2", "1"], "value": [0.25, -0.5, 1.0]}
    )
    axes = [axis for axis in plot.heatmap(data, limits=(-1, 1)).axes if axis.texts]
    assert {axis.get_title(loc="left"): axis.texts[0].get_text() for axis in axes} == {
        "5 ms, 1 ms": "0.25",
        "5 ms, 5 ms": "\u22120.50",
        "10 ms, 5 ms": "1.00",
    }
    assert axes[0].texts[0].get_position() == (0, 0)
    assert axes[1].texts[0].get_position() == (1, 1)


@pytest.mark.parametrize("kind", [plot.shares, plot.spread, plot.lines, plot.heatmap])
def test_nothing_to_draw(kind) -> None:
    columns = ("bar", "part", "value", "mean", "low", "high", "x", "y", "row", "column")
    assert kind(pl.DataFrame(schema=dict.fromkeys(columns, pl.Float64))) is None


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
