"""What the page draws itself: every mark at its place, every number as it was measured, one look for a flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from l4slab import plot
from l4slab.plot.figures import data_of
from l4slab.report import chosen, heat, strips, write_report
from l4slab.report.results import load
from l4slab.results.figures import Figure

from .pages import Page, Report

FILE = """
title = "Two queues"
duration = "1s"
trials = 2
[link.l]
rate = "10Mbit"
[[flow]]
name = "a"
cc = "prague"
rtt = "10ms"
[[flow]]
name = "b"
cc = "cubic"
rtt = "10ms"
[sweep]
"link.l.qdisc" = ["pfifo", "dualpi2"]
"""
FACTOR = "link.l.qdisc"


@pytest.fixture
def two_queues(make_folder: Any, make_tables: Any, tmp_path: Path) -> Path:
    """The report of two cases with two trials each; the rate of a flow is 10 times its case, plus its trial."""
    file = tmp_path / "x.toml"
    file.write_text(FILE)
    order = {"experiment": pl.String, "run": pl.String, "trial": pl.Int64, FACTOR: pl.String}
    rows: list[dict[str, Any]] = []
    for number, level in enumerate(["pfifo", "dualpi2"], 1):
        for trial in (1, 2):
            label = {"experiment": "x", "run": f"r{number}{trial}", "trial": trial, FACTOR: level}
            rows += [
                label | {"flow": name, "cc": cc, "count": 1, "rate_mbps": number * 10.0 + trial}
                | {"sojourn_ms_mean": mean, "sojourn_ms_p99": 4 * mean, "ce_pct": 5.0, "drop_pct": 0.00002}
                for name, cc, mean in (("a", "prague", 0.001 if number == 2 else 2.0), ("b", "cubic", 2.0))
            ]  # fmt: skip
    tables = {name: frame.clear().drop("experiment", "run", "trial") for name, frame in make_tables().items()}
    made = {
        name: pl.DataFrame(rows if name == "flows" else [], schema=order | frame.schema)
        for name, frame in tables.items()
    }
    return write_report(make_folder(made, [file])).parent


def marks(cell: strips.Shown, kind: str) -> list[tuple[float, float]]:
    return [(mark["left"], mark["width"]) for mark in cell["marks"] if mark["kind"] == kind]


def test_the_overview_draws_what_it_says(two_queues: Path) -> None:
    figure = strips.overview(load(two_queues))
    assert figure is not None
    assert [column["name"] for column in figure["columns"]] == ["rate on the wire", "queue delay", "CE / dropped"]
    assert [[row["name"] for row in group["rows"]] for group in figure["groups"]] == [["a", "b"]] * 2
    first, second = (group["rows"][0] for group in figure["groups"])
    assert [row["cells"][0]["text"] for row in (first, second)] == ["11.5", "21.5"]
    # Bars, ranges and the capacity are on one axis, which begins at zero.
    ((_, short),), ((_, long),) = (marks(row["cells"][0], "bar") for row in (first, second))
    assert long / short == pytest.approx(21.5 / 11.5, rel=1e-3)
    ((begin, width),) = marks(second["cells"][0], "range")
    assert (begin + width) / begin == pytest.approx(22 / 21, rel=1e-3)
    assert marks(first["cells"][0], "limit")[0][0] / short == pytest.approx(10 / 11.5, rel=1e-3)
    # Mean and P99 of a delay, and no exponent for a small part.
    assert (first["cells"][1]["text"], second["cells"][1]["text"]) == ("2 / 8", "none")
    assert marks(first["cells"][1], "dot")[0][0] < marks(first["cells"][1], "end")[0][0]
    assert first["cells"][2]["text"] == "5 / 0.00002"


def test_a_flow_has_one_look_in_every_figure(two_queues: Path) -> None:
    folder, report = load(two_queues), Report(two_queues)
    figure = strips.overview(folder)
    assert figure is not None
    for name, cc in (("a", "prague"), ("b", "cubic")):
        look = report.index["looks"][name][cc]
        assert look == plot.looks({"a": "prague", "b": "cubic"})[name].on_the_page
        assert {row["colour"] for group in figure["groups"] for row in group["rows"] if row["name"] == name} == {
            look["colour"]
        }
        assert {folder.looks_in(case)[name].colour for case in folder.cases} == {look["colour"]}


def test_another_controller_of_a_flow_has_its_own_look() -> None:
    flows = [("a", "prague"), ("b", "cubic"), ("b", "prague"), ("c", "cubic")]
    found = plot.roles.looks_of_flows(flows)
    assert found["b", "cubic"] == plot.looks({"b": "cubic"})["b"]
    assert found["b", "prague"].colour in {look.colour for look in plot.roles.ROLES["scalable"]}
    assert len({(look.colour, look.dash) for look in found.values()}) == len(flows)


def test_trials_that_lie_apart_have_a_sign(two_queues: Path) -> None:
    flows = pl.read_parquet(two_queues / "flows.parquet")
    far = (pl.col("flow") == "a") & (pl.col(FACTOR) == "pfifo") & (pl.col("trial") == 2)
    flows.with_columns(sojourn_ms_mean=pl.when(far).then(20.0).otherwise("sojourn_ms_mean")).write_parquet(
        two_queues / "flows.parquet"
    )
    figure = strips.overview(load(two_queues))
    assert figure is not None
    signs = [[cell["apart"] for cell in row["cells"]] for group in figure["groups"] for row in group["rows"]]
    assert signs == [[False, True, False], *[[False] * 3] * 3]
    text = " ".join(Page(write_report(two_queues).read_text("utf-8")).text.split())
    assert "the largest is more than 3 times the least" in text


def test_ranges_over_the_cases_are_a_table(two_queues: Path) -> None:
    page = Page((two_queues / "report.html").read_text("utf-8"))
    text = " ".join(page.text.split())
    assert "Least and most of the 2 cases" in text
    assert "11.5 to 21.5 least at qdisc = pfifo" in text
    assert "0 to 8.00 longest at qdisc = pfifo" in text
    assert " to 21.5;" not in text


def test_the_command_names_the_folder_that_was_used(two_queues: Path) -> None:
    renamed = two_queues.rename(two_queues.with_name("my runs"))
    assert load(renamed).command == "l4slab run x.toml --out 'my runs'"
    two_queues.mkdir()
    usual = renamed.rename(two_queues / "x")
    assert load(usual).command == "l4slab run x.toml"
    assert load(usual.rename(usual.with_name("y"))).command == "l4slab run x.toml --out results/y"


def test_a_study_is_reproduced_by_its_name(make_folder: Any, page: Any) -> None:
    assert load(make_folder(page)).command == "l4slab reproduce fast-lane --out results"


def figure(kind: str, data: pl.DataFrame, **changes: Any) -> chosen.Chosen:
    asked = Figure.model_validate({"id": "x", "kind": kind, "sql": "", "label": "y (ms)", "caption": "A. B."} | changes)
    return chosen.draw(asked, lambda _: data)


def test_lines_share_their_places_and_keep_their_gaps() -> None:
    data = pl.DataFrame({"part": ["p", "p", "q", "q"], "x": [1.0, 2.0, 2.0, 3.0], "y": [5.0, 6.0, 7.0, None]})
    panels = figure("lines", data.with_columns(published=pl.lit(None, pl.Float64))).panels
    assert panels is not None
    (panel,) = panels["panels"]
    assert panel["x"] == [1.0, 2.0]
    assert {line["name"]: line["y"] for line in panel["lines"]} == {"p": [5.0, 6.0], "q": [None, 7.0]}


def test_a_line_may_have_two_values_at_one_place() -> None:
    panels = figure("lines", pl.DataFrame({"x": [1.0, 2.0, 2.0, 3.0], "y": [5.0, 6.0, 1.0, 2.0]})).panels
    assert panels is not None
    assert panels["panels"][0]["x"] == [1.0, 2.0, 2.0, 3.0]
    assert panels["panels"][0]["lines"][0]["y"] == [5.0, 6.0, 1.0, 2.0]


def test_a_distribution_rises_to_all_of_it() -> None:
    panels = figure("cdf", pl.DataFrame({"part": ["p"] * 4, "value": [1.0, 1.0, 3.0, 9.0]})).panels
    assert panels is not None
    assert panels["steps"]
    assert panels["panels"][0]["x"] == [1.0, 1.0, 3.0, 9.0]
    assert panels["panels"][0]["lines"][0]["y"] == [0.0, 50.0, 75.0, 100.0]


def test_a_heat_map_has_a_number_and_a_colour_for_each_cell() -> None:
    data = pl.DataFrame({"row": ["a", "a", "b"], "column": ["1", "2", "1"], "value": [0.0, 0.5, 123.4]})
    found = figure("heatmap", data).heat
    assert found is not None
    (table,) = found["tables"]
    assert [[cell["text"] for cell in row["cells"]] for row in table["rows"]] == [["0.00", "0.50"], ["123", ""]]
    assert table["rows"][0]["cells"][0]["back"] == "#00224e"
    assert table["rows"][1]["cells"][0]["back"] == "#fee838"
    assert table["rows"][0]["cells"][0]["ink"] == "#fff"
    assert table["rows"][1]["cells"][0]["ink"] == "#000"


@pytest.mark.parametrize(("log", "text"), [(False, "+1.00"), (True, "2.00")])
def test_a_heat_map_shows_how_far_it_is_from_what_is_published(log: bool, text: str) -> None:
    data = pl.DataFrame({"row": ["a"], "column": ["1"], "value": [2.0], "published": [1.0]})
    found = figure("heatmap", data, log=log).heat
    assert found is not None
    assert [table["rows"][0]["cells"][0]["text"] for table in found["tables"]] == ["1.00", "2.00", text]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("neutral", [None, 0.5])
def test_equal_cells_have_a_colour(log: bool, neutral: float | None) -> None:
    data = pl.DataFrame({"row": ["a", "b"], "column": ["1", "1"], "value": [0.5, 0.5]})
    found = figure("heatmap", data, log=log, neutral=neutral).heat
    assert found is not None
    assert all(row["cells"][0]["back"] for row in found["tables"][0]["rows"])


def test_the_middle_of_a_diverging_map_is_light() -> None:
    colours = heat.Colours.of([0.0, 0.5, 1.0], None, 0.5, log=False)
    assert min(colours.at(0.5)) > 240
    assert max(*colours.at(0.0), *colours.at(1.0)) < 130


def test_parts_of_a_bar_end_where_the_next_begins() -> None:
    data = pl.DataFrame({"bar": ["x"] * 3, "part": ["p", "q", "r"], "value": [20.0, 30.0, 50.0]})
    found = figure("shares", data.with_columns(published=pl.Series([25.0, 25.0, 50.0]))).strips
    assert found is not None
    (cell,) = found["groups"][0]["rows"][0]["cells"]
    assert marks(cell, "part") == [(0.0, 20.0), (20.0, 30.0), (50.0, 50.0)]
    assert marks(cell, "published") == [(25.0, 0.0), (50.0, 0.0)]
    assert cell["text"] == "20 / 30 / 50"


def test_a_mean_has_its_range_also_from_zero_on_a_log_axis() -> None:
    data = pl.DataFrame({"bar": ["x"], "part": ["p"], "mean": [1.0], "low": [0.0], "high": [10.0]})
    found = figure("spread", data, log=True, limits=[0.1, 10]).strips
    assert found is not None
    (cell,) = found["groups"][0]["rows"][0]["cells"]
    assert marks(cell, "line") == [(0.0, 100.0)]
    assert marks(cell, "dot") == [(50.0, 0.0)]
    assert cell["text"] == "0 / 1 / 10"


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("lines", ["x", "y"]), ("cdf", ["part", "value"]), ("heatmap", ["row", "column", "value"]),
        ("shares", ["bar", "part", "value"]), ("spread", ["bar", "part", "mean", "low", "high"]), ("runs", ["run"]),
        ("grid", ["row", "column", "x", "y"]),
    ],
)  # fmt: skip
def test_without_data_there_is_nothing_to_draw(kind: str, columns: list[str]) -> None:
    text = {"part", "row", "column", "bar", "run"}
    schema = {name: pl.String if name in text else pl.Float64 for name in columns}
    found = figure(kind, pl.DataFrame(schema=schema))
    assert (found.panels, found.heat, found.strips, found.multiples) == (None, None, None, None)
    assert found.summary == "A"


def test_small_multiples_keep_the_peaks_of_a_long_line() -> None:
    places = [place / 100 for place in range(10_001)]
    data = pl.DataFrame({"row": "a", "column": "b", "x": places, "y": [1.0 if x == 33.33 else 0.0 for x in places]})
    found = figure("grid", data, limits=[0, 1]).multiples
    assert found is not None
    (line,) = found["rows"][0]["panels"][0]["lines"]
    points = [float(number) for number in line["path"][1:].split()]
    assert len(points) < 2 * 500
    assert min(points[1::2]) == 0, "the peak is at the top"
    assert (points[0], points[-2]) == (0, 120)


def test_a_panel_with_a_top_of_its_own_is_drawn_to_it() -> None:
    data = pl.DataFrame({"row": "a", "column": ["b", "b", "c", "c"], "x": [0.0, 1.0] * 2, "y": [0.0, 5.0, 0.0, 50.0]})
    found = figure("grid", data.with_columns(top=pl.Series([10, 10, 100, 100]))).multiples
    assert found is not None
    assert found["y_ends"] is None
    assert {panel["lines"][0]["path"] for panel in found["rows"][0]["panels"]} == {"M0.0 60.0 120.0 30.0"}


def test_numbers_of_sql_are_numbers() -> None:
    asked = Figure.model_validate({"id": "x", "kind": "lines", "sql": ""})
    data = data_of(asked, lambda _: pl.DataFrame({"x": [1], "y": [2]}, schema={"x": pl.Decimal, "y": pl.Decimal}))
    assert data.schema == {"x": pl.Float64, "y": pl.Float64}
