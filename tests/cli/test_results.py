"""Results from Python: opened again, asked by SQL, drawn, and shown by a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import l4slab
import polars as pl
import pytest
from l4slab.cli import main
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

LOW_DELAY = "select max(sojourn_ms_mean) < 5, 1.5 as x_ms from flows where flow = 'l4s'"


def experiment(name: str = "mine", **changes: Any) -> l4slab.Experiment:
    return l4slab.Experiment(
        **{
            "name": name,
            "duration": "2s",
            "warmup": "500ms",
            "links": {"bottleneck": l4slab.Link(rate="10Mbit", qdisc="dualpi2")},
            "flows": [
                l4slab.Flow(name="l4s", cc="prague", rtt="10ms"),
                l4slab.Flow(name="classic", cc="cubic", rtt="10ms"),
            ],
            "sweep": {"link.bottleneck.rate": ["10Mbit", "20Mbit"]},
            "claims": [
                l4slab.Claim(
                    id="low delay", sql="select max(sojourn_ms_mean) < 5, 1.5 as x_ms from flows where flow='l4s'"
                ),
                l4slab.Claim(id="never", says="L4S <waits>", sql="select false"),
            ],
        }
        | changes
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    l4slab.run(experiment(), out=folder)
    return folder


@pytest.fixture(scope="module", params=["folder", "memory", "url"])
def results(request: pytest.FixtureRequest, folder: Path) -> l4slab.Results:
    match request.param:
        case "folder":
            return l4slab.open(folder)
        case "url":
            return l4slab.open(folder.as_uri())
    return l4slab.run(experiment())


@pytest.fixture(scope="module")
def opened(folder: Path) -> l4slab.Results:
    """One of `results`, for what follows from their tables."""
    return l4slab.open(folder)


def test_what_is_opened_is_what_was_run(results: l4slab.Results, folder: Path) -> None:
    kept = l4slab.open(folder)
    for table in ("flows", "links", "series", "transfers", "claims", "published"):
        assert getattr(results, table).equals(getattr(kept, table)), table
    assert [one.name for one in results.experiments] == ["mine"]


def test_opening_writes_nothing(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert len(l4slab.open(str(folder)).sql("from flows")) == 4
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_sql_gives_a_polars_table(results: l4slab.Results) -> None:
    found = results.sql(
        """select "link.bottleneck.rate" as rate, sum(share) as total from flows group by all order by all"""
    )
    assert isinstance(found, pl.DataFrame)
    assert found["rate"].to_list() == ["10Mbit", "20Mbit"]
    assert found["total"].to_list() == pytest.approx([1, 1])
    assert results.sql("select count(*) as n from series join claims using (experiment)")["n"].item() > 0
    assert results.sql("select count(*) as n from all_flows, published")["n"].item() == 0


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select goodput from flows", ["goodput", "not valid SQL", "goodput_mbps"]),
        ("select * from flow", ["flow", "not valid SQL", "flows"]),
        ("select cast(flow as int) from flows", ["cannot be evaluated", "l4s"]),
        ("drop table flows", ["not one SELECT"]),
        ("select 1; select 2", ["not one SELECT"]),
        ("select * from 'x.csv'", ["not valid SQL"]),
    ],
)
def test_wrong_sql_is_a_sentence(folder: Path, query: str, words: list[str]) -> None:
    with pytest.raises(l4slab.InputError) as caught:
        l4slab.open(folder).sql(query)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def test_a_place_without_results_is_a_sentence(tmp_path: Path, folder: Path) -> None:
    for place in (tmp_path, tmp_path / "no", tmp_path.as_uri()):
        with pytest.raises(l4slab.InputError, match=r"is not a results folder; give a DIR"):
            l4slab.open(place)
    (tmp_path / "experiments").mkdir()
    with pytest.raises(l4slab.InputError, match=r"has no flows.parquet; write the tables with \"l4slab report"):
        l4slab.open(tmp_path)


def test_a_notebook_shows_verdicts_and_a_figure(results: l4slab.Results) -> None:
    page = results._repr_html_()
    assert page.count("<svg") == 1
    assert "1 of 2 claims hold; 1 not" in page
    assert "✓ holds" in page
    assert "✗ fails" in page
    assert "x_ms = 1.5" in page
    assert "L4S &lt;waits&gt;" in page
    assert "2 runs of mine" in repr(results)


def test_printed_is_what_the_terminal_shows(
    folder: Path, opened: l4slab.Results, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(folder / "experiments" / "mine.toml"), "--out", str(folder), "--no-report"]) == 1
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line]
    printed = [line for line in str(opened).splitlines() if line]
    assert printed[0].startswith("Flows, mean over trials")
    assert [line.removesuffix(" (exit status 1)") for line in shown] == printed


@pytest.mark.parametrize("path", [["bottleneck"], ["other"]])
def test_a_table_without_a_share_says_why(path: list[str]) -> None:
    flows = [
        l4slab.Flow(name="l4s", cc="prague", rtt="10ms", path=["bottleneck"]),
        l4slab.Flow(name="classic", cc="cubic", rtt="10ms", path=path),
    ]
    links = {name: l4slab.Link(rate="10Mbit", qdisc="dualpi2") for name in ("bottleneck", "other")}
    told = str(l4slab.run(experiment(flows=flows, links=links, sweep={}, claims=[])))
    assert ("share" in told.splitlines()[1]) == (path == ["bottleneck"])
    assert ("No share, for not all flows cross one link" in told) == (path == ["other"])


def test_every_figure_draws(opened: l4slab.Results) -> None:
    one = "\"link.bottleneck.rate\" = '10Mbit'"
    for figure in (
        opened.plot.overview(),
        opened.plot.overview(one),
        opened.plot.time_series(),
        opened.plot.time_series(one, trial=1),
        opened.plot.delays(),
        opened.plot.delays(one, "rtt_ms"),
        opened.plot.marking(one),
    ):
        assert isinstance(figure, Figure)
    labels = [axes.get_title(loc="left") for axes in opened.plot.time_series().axes]
    assert [label for label in labels if label] == ["rate = 10Mbit", "rate = 20Mbit"]


def test_a_figure_table_draws_what_it_draws_in_a_report(opened: l4slab.Results) -> None:
    shares = 'select "link.bottleneck.rate" as bar, flow as part, 100 * share as value from flows order by all'
    figure = opened.plot.figure(l4slab.Figure(id="x", kind="shares", sql=shares, label="part (%)"))
    assert figure.axes[0].get_ylabel() == "part (%)"
    runs = 'select run, "link.bottleneck.rate" as panel from flows order by panel'
    figure = opened.plot.figure(l4slab.Figure(id="x", kind="runs", sql=runs))
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["10Mbit", "20Mbit"]
    assert figure._repr_svg_().startswith("<svg")
    with pytest.raises(l4slab.InputError, match="gives no column part"):
        opened.plot.figure(l4slab.Figure(id="x", kind="shares", sql="select flow as bar from flows"))


def test_the_warm_up_is_shaded(opened: l4slab.Results) -> None:
    figure = opened.plot.time_series("\"link.bottleneck.rate\" = '10Mbit'")
    (shade,) = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert (shade.get_x(), shade.get_width()) == (0, 0.5)


def test_a_warm_up_that_is_swept_is_not_shaded() -> None:
    swept = l4slab.run(experiment(duration="1s", sweep={"warmup": ["100ms", "200ms"]}, claims=[]))
    figure = swept.plot.time_series()
    assert not [patch for axes in figure.axes for patch in axes.patches if isinstance(patch, Rectangle)]


def test_too_many_cases_and_wrong_conditions_are_sentences(opened: l4slab.Results) -> None:
    with pytest.raises(l4slab.InputError, match="2 cases are too many for one figure; choose one of them by where="):
        opened.plot.marking()
    with pytest.raises(l4slab.InputError, match=r"aqm.*not valid SQL"):
        opened.plot.time_series("aqm = 'x'")
    assert opened.plot.time_series("trial = 9") is None


def test_the_terminal_shows_the_wait_in_media(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = '[[flow]]\nname = "f"\nkind = "cbr"\nrate = "1Mbit"\nrtt = "10ms"\npath = ["a"]\n'
    told = {}
    for name, link in (("medium", 'medium = "leo calm"'), ("wire", 'rate = "10Mbit"')):
        file = tmp_path / f"{name}.toml"
        file.write_text(f'duration = "1s"\n[link.a]\n{link}\nqdisc = "pfifo"\n{flow}')
        assert main(["run", str(file), "--out", str(tmp_path / name), "--workers", "1"]) == 0
        told[name] = capsys.readouterr().out
    assert "wait" in told["medium"]
    assert "Wait: in the queues" in told["medium"]
    assert "queue" in told["wire"]
    assert "Wait" not in told["wire"]
    row = l4slab.open(tmp_path / "medium").flows.to_dicts()[0]
    parts = [row[f"{part}_ms_mean"] for part in ("queue", "access", "air", "reorder")]
    # The way by the satellite.
    assert row["sojourn_ms_mean"] == pytest.approx(sum(parts))
    assert row["air_ms_mean"] > 8
    wire = l4slab.open(tmp_path / "wire").flows.to_dicts()[0]
    assert wire["queue_ms_mean"] is None
    assert wire["sojourn_ms_mean"] is not None
