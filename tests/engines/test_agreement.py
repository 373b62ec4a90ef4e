"""Joining two engines' tables and judging them against the bars, on made-up tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from l4slab import experimentfile, plot
from l4slab.api import campaign
from l4slab.base import metrics
from l4slab.base.errors import InputError
from l4slab.base.packaged import comparisons, studies
from l4slab.campaign.store import label_frame
from l4slab.cli import main
from l4slab.cli.agreeing import agreement_outcome
from l4slab.engines.linux import kernels
from l4slab.results.bars import DEFAULT_BARS, agree_of
from l4slab.sweep import Plan
from l4slab.tools import agreement
from l4slab.tools.agreement import compare, page

FILE = """
duration = "1s"
trials = 2
[link.one]
rate = "10Mbit"
qdisc = "dualpi2"
[[flow]]
name = "a"
cc = "cubic"
rtt = "{rtt_ms}ms"
[[flow]]
name = "b"
cc = "prague"
rtt = "{rtt_ms}ms"
[sweep]
rtt_ms = [5, 10, 20, 40]
"""
Value = Callable[[Mapping[str, Any], str], Mapping[str, float | None]]


def same(labels: Mapping[str, Any], place: str) -> dict[str, float | None]:
    """Two flows that share evenly; `labels` has experiment, trial and the factors of a run."""
    if place in ("a", "b"):
        return {"share": 0.5, "goodput_mbps": 4.7, "rtt_ms_mean": 20.0, "sojourn_ms_mean": 5.0, "ce_pct": 1.0} | {
            "drop_pct": 0.0,
            "sent_packets": 1000,
        }
    return {"utilisation": 0.99, "sojourn_ms_mean": 5.0, "ce_pct": 1.0, "drop_pct": 0.0, "arrived_packets": 2000}


def but(**changed: float | None) -> Value:
    """As `same`, with other values wherever the place has the quantity."""

    def value(labels: Mapping[str, Any], place: str) -> dict[str, float | None]:
        values = same(labels, place)
        return values | {name: new for name, new in changed.items() if name in values}

    return value


def plans(tmp_path: Path, text: str = FILE, engine: str = "linux", name: str = "x") -> list[Plan]:
    file = tmp_path / f"{name}.toml"
    file.write_text(text)
    return campaign.plan([file], engine)


def side(of: list[Plan], value: Value, leave_out: Callable[[Mapping[str, Any]], bool] = lambda row: False) -> Any:
    labels = label_frame(of)
    rows: dict[str, list[dict[str, Any]]] = {"flows": [], "links": []}
    for row in labels.rows(named=True):
        if leave_out(row):
            continue
        flows = [flow["name"] for flow in of[0].runs[0].description["flows"]]
        rows["flows"] += [{"run": row["run"], "flow": flow, **value(row, flow)} for flow in flows]
        rows["links"].append({"run": row["run"], "link": "one", "queue": "all", **value(row, "all")})
    schema = {"run": pl.String(), "arrived_packets": pl.Int64(), **metrics.FLOWS, **metrics.LINKS}
    tables = {}
    for name, quantities in metrics.COMPARED.items():
        columns = ["run", *compare._KEYS[name], compare._WEIGHT[name], *quantities]
        tables[name] = pl.DataFrame(rows[name], schema={column: schema[column] for column in columns})
    tables["flows"] = tables["flows"].with_columns(rtt_samples=1000)
    return compare.Side(labels, **tables)


def compared(tmp_path: Path, kernel: Value, simulator: Value, text: str = FILE) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows and bars of the file on two made-up engines."""
    of = plans(tmp_path, text)
    experiment = of[0].experiment
    bars = {experiment.name: agree_of(experiment).bars}
    rows = compare.compare(side(of, kernel), side(plans(tmp_path, text, "sim"), simulator), bars)
    return rows, compare.judge(rows, rows.clear(), [experiment])


def bar(bars: pl.DataFrame, quantity: str, start: str = "") -> dict[str, Any]:
    found = bars.filter(pl.col("quantity") == quantity, pl.col("bar").str.starts_with(start))
    return found.row(0, named=True)


def test_equal_tables_agree(tmp_path: Path) -> None:
    rows, bars = compared(tmp_path, same, same)
    assert bars["met"].to_list() == [True] * 5
    assert bar(bars, "share", "median")["measured"] == 0
    assert bar(bars, "utilisation")["measured"] == 1
    assert set(bars["cells"]) == {4}
    assert rows["difference"].abs().max() == 0
    assert compare.beyond(rows).is_empty()


def test_values_are_means_with_the_range_over_trials(tmp_path: Path) -> None:
    def kernel(labels: Mapping[str, Any], place: str) -> Mapping[str, float | None]:
        return but(sojourn_ms_mean=4.0 + 2 * labels["trial"])(labels, place)

    rows, _ = compared(tmp_path, kernel, but(sojourn_ms_mean=9.0))
    row = rows.filter(pl.col("quantity") == "sojourn_ms_mean", pl.col("link") == "one").row(0, named=True)
    assert (row["kernel"], row["kernel_min"], row["kernel_max"], row["kernel_trials"]) == (7.0, 6.0, 8.0, 2)
    assert (row["simulator"], row["difference"], row["apart"], row["within"]) == (9.0, 2.0, True, False)
    assert row["rtt_ms"] == 5
    assert (row["flow"], row["queue"]) == (None, "all")
    inside, _ = compared(tmp_path, kernel, but(sojourn_ms_mean=7.9))
    assert not inside.filter(pl.col("quantity") == "sojourn_ms_mean", pl.col("link") == "one")["apart"].any()


def test_a_queue_that_the_laboratory_cannot_tell_apart_does_not_count(tmp_path: Path) -> None:
    of = plans(tmp_path, FILE)
    kernel, simulator = side(of, same), side(plans(tmp_path, FILE, "sim"), same)
    tins = simulator.links.with_columns(queue=pl.lit("Bulk"))
    simulator = compare.Side(simulator.labels, simulator.flows, pl.concat([simulator.links, tins]))
    bars = {of[0].experiment.name: agree_of(of[0].experiment).bars}
    rows = compare.compare(kernel, simulator, bars)
    assert rows.filter(queue="Bulk")["within"].drop_nulls().is_empty()
    # The other way round it is the simulator that lacks a queue.
    rows = compare.compare(simulator, kernel, bars)
    assert rows.filter(queue="Bulk", quantity="sojourn_ms_mean")["within"].to_list() == [False] * 4


def test_median_and_percentile_are_over_cells(tmp_path: Path) -> None:
    off = {5: 0.0, 10: 0.02, 20: 0.04, 40: 0.2}

    def simulator(labels: Mapping[str, Any], place: str) -> Mapping[str, float | None]:
        d = off[labels["rtt_ms"]]
        return but(share=0.5 + (d if place == "a" else -d))(labels, place)

    rows, bars = compared(tmp_path, same, simulator)
    assert bar(bars, "share", "median")["measured"] == pytest.approx(0.03)
    assert bar(bars, "share", "90th")["measured"] == pytest.approx(0.04 + 0.7 * 0.16)
    assert bar(bars, "share", "90th")["met"] is False
    # Of a cell one row is listed, and beyond is what is further off than the percentile's bar.
    assert compare.beyond(rows)["rtt_ms"].to_list() == [40]


@pytest.mark.parametrize(
    ("quantity", "kernel", "simulator", "within"),
    [
        ("sojourn_ms_mean", 10.0, 11.0, True),
        ("sojourn_ms_mean", 10.0, 11.01, False),
        ("sojourn_ms_mean", 10.0, 8.99, False),
        ("sojourn_ms_mean", 0.1, 0.39, True),
        ("sojourn_ms_mean", 0.1, 0.41, False),
        ("utilisation", 0.95, 0.9599, True),
        ("utilisation", 0.95, 0.9401, True),
        ("utilisation", 0.95, 0.9611, False),
        ("ce_pct", 10.0, 11.4, True),
        ("ce_pct", 10.0, 8.4, False),
        ("ce_pct", 0.1, 0.29, True),
        ("ce_pct", 0.0, 0.21, False),
        ("ce_pct", 0.21, 0.0, False),
    ],
)
def test_tolerances(tmp_path: Path, quantity: str, kernel: float, simulator: float, within: bool) -> None:
    _, bars = compared(tmp_path, but(**{quantity: kernel}), but(**{quantity: simulator}))
    assert bar(bars, quantity)["measured"] == (1 if within else 0)
    assert bar(bars, quantity)["met"] is within


def test_a_cell_is_within_only_with_all_its_flows(tmp_path: Path) -> None:
    def simulator(labels: Mapping[str, Any], place: str) -> Mapping[str, float | None]:
        off = place == "b" and labels["rtt_ms"] == 10
        return but(ce_pct=3.0 if off else 1.0)(labels, place)

    rows, bars = compared(tmp_path, same, simulator)
    assert bar(bars, "ce_pct")["measured"] == 0.75
    beyond = compare.beyond(rows).row(0, named=True)
    assert (beyond["rtt_ms"], beyond["flow"], beyond["quantity"]) == (10, "b", "ce_pct")


def test_what_says_nothing_is_no_agreement(tmp_path: Path) -> None:
    alone = FILE[: FILE.index('[[flow]]\nname = "b"')] + FILE[FILE.index("[sweep]") :]
    none = but(ce_pct=0.0, share=1.0)
    rows, bars = compared(tmp_path, none, none, alone)
    for quantity in ("share", "ce_pct"):
        assert rows.filter(pl.col("quantity") == quantity)["within"].null_count() > 0
        assert (bar(bars, quantity)["cells"], bar(bars, quantity)["met"]) == (0, None)
    assert bar(bars, "utilisation")["cells"] == 4
    few = but(sojourn_ms_mean=50.0, arrived_packets=99)
    _, bars = compared(tmp_path, but(arrived_packets=99), few)
    assert bar(bars, "sojourn_ms_mean")["cells"] == 0
    _, bars = compared(tmp_path, but(arrived_packets=99), but(sojourn_ms_mean=50.0, arrived_packets=100))
    assert (bar(bars, "sojourn_ms_mean")["cells"], bar(bars, "sojourn_ms_mean")["met"]) == (4, False)


def test_a_quantity_of_one_engine_only_is_beyond(tmp_path: Path) -> None:
    rows, bars = compared(tmp_path, but(sojourn_ms_mean=None), same)
    assert bar(bars, "sojourn_ms_mean")["met"] is False
    row = rows.filter(pl.col("quantity") == "sojourn_ms_mean", pl.col("link") == "one").row(0, named=True)
    assert (row["kernel"], row["kernel_trials"], row["difference"], row["within"]) == (None, 0, None, False)
    assert page.beyond(rows)[0]["kernel"] == ""


def test_cells_that_have_not_run_are_told(tmp_path: Path) -> None:
    of = plans(tmp_path)
    kernel = side(of, same, leave_out=lambda row: row["rtt_ms"] == 20)
    simulator = side(
        plans(tmp_path, engine="sim"), same, leave_out=lambda row: row["rtt_ms"] == 5 and row["trial"] == 2
    )
    missing = compare.missing(kernel, simulator)
    assert missing.select("rtt_ms", "engine").rows() == [(20, "kernel")]
    rows = compare.compare(kernel, simulator, {"x": agree_of(of[0].experiment).bars})
    assert sorted(rows["rtt_ms"].unique()) == [5, 10, 40]
    one = rows.filter(pl.col("rtt_ms") == 5, pl.col("quantity") == "share").row(0, named=True)
    assert (one["kernel_trials"], one["simulator_trials"]) == (2, 1)
    bars = compare.judge(rows, rows.clear(), [of[0].experiment])
    result = agreement.Agreement(tmp_path, rows, bars, missing, [], [])
    assert bars["met"].all()
    assert not result.met
    assert agreement.Agreement(tmp_path, rows, bars, missing.clear(), [], []).met
    assert not agreement.Agreement(tmp_path, rows, bars.clear(), missing.clear(), [], []).met
    for one, lacking in ((bars, missing), (bars, missing.clear()), (bars.clear(), missing.clear())):
        result = agreement.Agreement(tmp_path, rows, one, lacking, [], [])
        assert (agreement_outcome(result).count("fail", "error") == 0) == result.met
    outcome = agreement_outcome(agreement.Agreement(tmp_path, rows, bars, missing, [(of[0].runs[0], "it broke")], []))
    assert [one.id for one in outcome.verdicts if one.status == "error"] == [
        "x: rtt_ms 20, kernel",
        f"{of[0].runs[0]} (linux)",
    ]


def test_a_factor_without_effect_joins(tmp_path: Path) -> None:
    text = FILE + '[[sweep.aqm]]\nlevel = "p"\n"link.one.qdisc" = "pfifo limit 10"\n[[sweep.aqm]]\nlevel = "q"\n'
    text += '"link.one.qdisc" = "pfifo limit {n}"\n[let]\nn = "10"\n'
    rows, bars = compared(tmp_path, same, same, text)
    assert rows["aqm"].null_count() == len(rows)
    assert bar(bars, "utilisation")["cells"] == 4


def test_by_chance_is_the_simulator_against_itself(tmp_path: Path) -> None:
    def simulator(labels: Mapping[str, Any], place: str) -> Mapping[str, float | None]:
        return but(share=0.5 + 0.01 * labels["trial"])(labels, place)

    of = plans(tmp_path, FILE.replace("trials = 2", "trials = 5"), "sim")
    first, second = compare.halves(side(of, simulator), {"x": 2})
    assert (sorted(first.labels["trial"].unique()), sorted(second.labels["trial"].unique())) == ([1, 2], [3, 4])
    bars = {"x": agree_of(of[0].experiment).bars}
    chance = compare.compare(first, second, bars)
    rows = compare.compare(first, first, bars)
    judged = compare.judge(rows, chance, [of[0].experiment])
    median = bar(judged, "share", "median")
    assert (median["measured"], median["by_chance"]) == (0, pytest.approx(0.02))
    none, _ = compare.halves(side(of, simulator), {"x": 3})
    assert none.labels.is_empty()


BARS = """
[agree]
set = "s"
[agree.share]
median = 0.001
at_least = 5
[agree.drop_pct]
absolute = 0.5
cells = 1.0
"""


def test_a_file_has_its_own_bars(tmp_path: Path) -> None:
    rows, bars = compared(tmp_path, but(drop_pct=0.2), but(drop_pct=0.8), FILE + BARS)
    assert set(bars["set"]) == {"s"}
    share = bars.filter(pl.col("quantity") == "share")
    # 4 cells are not enough.
    assert share.rows(named=True)[0] | {"by_chance": None} == {
        "set": "s",
        "quantity": "share",
        "bar": "median of |difference| at most, over at least 5 cells",
        "wanted": 0.001,
        "measured": 0.0,
        "by_chance": None,
        "cells": 4,
        "met": False,
    }
    assert len(share) == 1
    assert bar(bars, "drop_pct")["met"] is False
    assert "within 0.5 points" in bar(bars, "drop_pct")["bar"]
    assert bar(bars, "utilisation")["wanted"] == DEFAULT_BARS["utilisation"].cells
    assert set(compare.beyond(rows)["quantity"]) == {"drop_pct"}


def test_causes(tmp_path: Path) -> None:
    text = FILE + (
        '[[cause]]\nwhen = "quantity = \'ce_pct\' and rtt_ms = 5 and kernel < simulator"\nwhy = "first"\n'
        '[[cause]]\nwhen = "rtt_ms <= 10"\nwhy = """second\nline"""\n'
        '[[cause]]\nwhen = "quantity = \'share\'"\nwhy = "never"\n'
    )
    of = plans(tmp_path, text)
    compare.check_causes(of)
    rows, _ = compared(tmp_path, same, but(ce_pct=5.0), text)
    rows, notes = compare.explain(rows, [of[0].experiment])
    found = compare.beyond(rows).select("rtt_ms", "cause").rows()
    assert found == [(5, "first"), (10, "second line"), (20, None), (40, None)]
    assert rows.filter(pl.col("within").is_null() | pl.col("within"))["cause"].null_count() == len(rows) - 8
    assert len(notes) == 1
    assert "no. 3" in notes[0]


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ('[[cause]]\nwhen = "kernl > 1"\nwhy = "x"', ["[[cause]] no. 1", "kernl", "kernel"]),
        ('[[cause]]\nwhen = "kernel + 1"\nwhy = "x"', ["[[cause]] no. 1", "true or false"]),
        ('[[cause]]\nwhen = "true; drop"\nwhy = "x"', ["[[cause]] no. 1", "true; drop"]),
        ('[[cause]]\nwhen = "true"', ["[[cause]] no. 1", "why", "add it"]),
        ('[[cause]]\nwhen = "true"\nwhy = ""', ["[[cause]] no. 1", "why"]),
        ('[agree]\nsett = "x"', ["agree.sett", '"set"']),
        ("[agree]\nbars = 1", ["agree", "bars", "[agree.share]"]),
        ("[agree.sharee]\nmedian = 0.1", ["sharee", '"share"']),
        ("[agree.share]\nmedian = -0.1", ["agree.share.median", "-0.1", "at least 0"]),
        ("[agree.share]\nmedain = 0.1", ["agree.share.medain", '"median"']),
        ("[agree.share]\nabsolute = 0.1", ["agree.share", "cells"]),
        ("[agree.share]\ncells = 0.9", ["agree.share", "absolute", "relative"]),
        ("[agree.share]\nabsolute = 1\ncells = 90", ["agree.share.cells", "90", "at most 1"]),
        ('agree = "x"', ["agree", '"x"', "table"]),
    ],
)
def test_mistakes_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, mentions: list[str]
) -> None:
    file = tmp_path / "x.toml"
    base = FILE.replace("[sweep]\nrtt_ms = [5, 10, 20, 40]\n", "").replace("{rtt_ms}", "5")
    file.write_text(text + base if "=" in text.split("\n")[0] else base + text)
    assert main(["agree", str(file), "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"l4slab: {file}:")
    assert message.count("\n") == 1
    for mention in mentions:
        assert mention in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (["tcq", "--out", "o"], ["tcq", '"tcp"']),
        (["none.toml", "--out", "o"], ["none.toml", "no such file"]),
        (["small"], ["--out", "--out agreement"]),
        (["small", "--out", "o", "--trials", "0"], ["--trials 0", "1 or more"]),
    ],
)
def test_mistakes_on_the_command_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    mentions: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["agree", *arguments]) == 2
    message = capsys.readouterr().err
    assert message.startswith("l4slab: ")
    assert message.count("\n") == 1
    for mention in mentions:
        assert mention in message
    assert not list(tmp_path.iterdir())


def test_a_study_a_taken_name_and_other_bars_of_one_set_are_refused(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text('[[claim]]\nid = "c"\nsql = "select true"\n')
    with pytest.raises(InputError, match="describes no run"):
        agreement.plan([study])
    taken = tmp_path / "taken.toml"
    taken.write_text(FILE.replace("rtt_ms", "kernel"))
    with pytest.raises(InputError, match=r"sweep\.kernel is the name of a column"):
        agreement.plan([taken])
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_text(FILE + BARS)
    other.write_text(FILE + BARS.replace("0.5", "0.6"))
    with pytest.raises(InputError, match="has other bars"):
        agreement.plan([one, other])
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InputError, match="is a file; give --out a folder"):
        agreement.agree([one], file)


def test_trials_are_those_of_the_file_the_command_or_the_simulator(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(FILE + "[agree]\nsimulator_trials = 7\n")

    def trials(asked: int | None) -> tuple[int, ...]:
        return tuple(plans[0].experiment.trials for plans in agreement.plan([file], asked).values())

    assert (trials(None), trials(3), trials(9)) == ((7, 2), (7, 3), (9, 9))
    file.write_text(FILE)
    assert (trials(None), trials(1)) == ((2, 2), (1, 1))
    # What is kept in the results folder says how many there are.
    kept = experimentfile.load(file, 9)
    again = tmp_path / "again.toml"
    again.write_bytes(kept.source)
    assert experimentfile.load(again).trials == 9
    again.write_text(FILE.replace("trials = 2\n", ""))
    again.write_bytes(experimentfile.load(again, 4).source)
    assert experimentfile.load(again).trials == 4


@pytest.mark.slow
def test_packaged_comparisons() -> None:
    names = comparisons()
    assert {*agreement.ASKED} < {*names}
    assert "agree" not in studies()
    default = agreement.find(())
    assert [path.stem for path in default] == [name for name in names if name not in agreement.ASKED]
    assert [path.stem for path in agreement.find(["tcp"])] == ["tcp-alone", "tcp-pairs"]
    assert agreement.find(["small", "small"]) == [names["small"]]
    simulator, kernel = agreement.plan([*default, names["small"]]).values()
    of_set: dict[str, int] = {}
    for one in kernel:
        experiment = one.experiment
        name = agree_of(experiment).set or experiment.name
        of_set[name] = of_set.get(name, 0) + len(one.runs) // experiment.trials
        if name not in agreement.ASKED:
            assert experiment.trials >= 2, name
    assert of_set["tcp"] >= 270
    assert all(cells >= 8 for name, cells in of_set.items() if name not in agreement.ASKED)
    assert all(one.experiment.trials >= other.experiment.trials for one, other in zip(simulator, kernel, strict=True))


def test_figure_and_page(tmp_path: Path) -> None:
    of = plans(tmp_path, FILE + '[[cause]]\nwhen = "rtt_ms = 40"\nwhy = "a <cause>"\n')
    experiment = of[0].experiment

    def simulator(labels: Mapping[str, Any], place: str) -> Mapping[str, float | None]:
        return but(ce_pct=4.0 if labels["rtt_ms"] >= 20 else 1.0)(labels, place)

    rows, _ = compared(tmp_path, same, simulator)
    rows, notes = compare.explain(rows, [experiment])
    bars = compare.judge(rows, rows.clear(), [experiment])
    missing = rows.select("experiment", "rtt_ms").head(1).with_columns(engine=pl.lit("kernel"))
    result = agreement.Agreement(tmp_path, rows, bars, missing, [(of[0].runs[0], "it broke")], notes)
    page.write(result, [experiment])
    text = (tmp_path / "agreement.html").read_text("utf-8")
    for part in ("not met", "a &lt;cause&gt;", page.NOT_EXPLAINED, "it broke", "1 cell has not run", "rtt_ms 40"):
        assert part in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert (tmp_path / "agreement.svg").read_text("utf-8").startswith("<?xml")
    again = pl.read_parquet(tmp_path / "agreement.parquet")
    assert again.equals(rows)
    assert set(metrics.AGREEMENT) <= set(again.columns)
    assert dict(pl.read_parquet(tmp_path / "bars.parquet").schema) == metrics.BARS
    assert plot.agreement(rows.clear(), {}) is None


def test_the_figure_marks_what_is_beyond(tmp_path: Path) -> None:
    rows, _ = compared(tmp_path, same, but(ce_pct=4.0))
    figure = plot.agreement(rows, DEFAULT_BARS)
    assert figure is not None
    titles = {axis.get_title(loc="left"): axis for axis in figure.axes if axis.get_visible()}
    crosses = [line for line in titles["CE marked (%)"].lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert [(float(x), float(y)) for x, y in zip(*crosses[0].get_data(), strict=True)] == [(1.0, 4.0)] * 8
    assert not [line for line in titles["share"].lines if line.get_marker() == "x" and len(line.get_xdata())]
    edges = [line.get_data() for line in titles["queue delay, mean (ms)"].lines[:2]]
    at_10 = [float(10 - y[(abs(x - 10)).argmin()]) for x, y in edges if max(x) > 10]
    assert not at_10 or math.isclose(abs(at_10[0]), 1.0, rel_tol=0.2)


def test_the_figure_has_no_empty_panel_and_one_for_round_trips_per_minute(tmp_path: Path) -> None:
    rows, _ = compared(tmp_path, same, same)
    tests = rows.filter(quantity="goodput_mbps").with_columns(quantity=pl.lit("rpm_foreign"))
    for given, some in ((rows, False), (pl.concat([rows.filter(quantity="drop_pct"), tests]), True)):
        figure = plot.agreement(given, {})
        assert figure is not None
        shown = [axis for axis in figure.axes if axis.get_visible()]
        assert all(axis.get_title(loc="left") and axis.lines for axis in shown)
        assert ("RPM, foreign probes" in {axis.get_title(loc="left") for axis in shown}) == some
    assert len(shown) == 2 < len(figure.axes)


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
def test_the_small_set_on_the_kernel(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["agree", "small", "--out", str(out)]) == 0
    rows = pl.read_parquet(out / "agreement.parquet")
    assert rows["kernel_trials"].min() >= 1
    # No call and no test of responsiveness is in it.
    others = {"media_mbps", "frame_ms_p50", "frame_ms_p99", "late_pct", "lost_frames_pct", "rpm_foreign", "rpm_self"}
    assert set(rows["quantity"]) == {name for names in metrics.COMPARED.values() for name in names} - others
    assert (out / "linux" / "report.html").is_file()
    assert (out / "sim" / "report.html").is_file()
    again = (out / "agreement.html").read_bytes()
    assert main(["agree", "small", "--out", str(out)]) == 0
    assert (out / "agreement.html").read_bytes() == again
