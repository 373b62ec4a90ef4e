"""Every run can be opened: from the page itself or from files beside it, and it has everything that was measured."""

from __future__ import annotations

import io
import json
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import l4slab
import polars as pl
import pytest
from l4slab import experimentfile, sweep
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.engines.contract import file_name
from l4slab.live import page as live
from l4slab.report import grids, runs, setup, write_report
from matplotlib.image import imread

from .pages import Report

EXPERIMENT = """
title = "Two queues"
duration = "3s"
trials = 2
[[at]]
time = "2s"
"link.l.rate" = "2.5Mbit"
[link.l]
rate = "5Mbit"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[sweep.aqm]]
level = "FIFO"
"link.l.qdisc" = "pfifo limit 20"
[[sweep.aqm]]
level = "CoDel"
"link.l.qdisc" = "codel"
[[table]]
id = "t"
title = "A table"
sql = "select aqm as 'group', trial as row, aqm as column, run, rtt_ms_mean from flows order by aqm desc, trial"
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> l4slab.Results:
    folder = tmp_path_factory.mktemp("two")
    (folder / "two.toml").write_text(EXPERIMENT)
    return l4slab.run(folder / "two.toml", out=folder / "out")


@pytest.fixture(scope="module", params=["in the page", "in files"])
def report(results: l4slab.Results, request: pytest.FixtureRequest) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "in files":
            patch.setattr(runs, "MAX_EMBEDDED_ROWS", 0)
            patch.setattr(grids, "MAX_EMBEDDED_BYTES", 0)
        write_report(results.folder)
    return Report(results.folder)


def test_a_run_has_its_set_up_its_numbers_and_its_curves(results: l4slab.Results, report: Report) -> None:
    for run, aqm in results.flows.select("run", "aqm").iter_rows():
        opened = report.run(run)
        assert {"FIFO": "pfifo limit 20", "CoDel": "codel limit"}[aqm] in dict(opened["setup"])["link l"]
        flows, links = opened["measured"]
        assert flows["heads"] == ["a (cubic)"]
        assert links["heads"] == ["l"]
        (sent,) = results.links.filter(run=run, queue="all")["sent_packets"]
        assert dict(links["rows"])["sent packets"].replace("\u202f", "") == str(sent)
        series = results.series.filter(pl.col("run") == run, pl.col("flow") == "a").sort("time_s")
        panels = {panel["title"]: panel for panel in opened["panels"]}
        assert opened["time"] == pytest.approx(series["time_s"].to_list())
        line, _ = panels["delivery rate"]["lines"]  # and the capacity
        assert (line["name"], panels["delivery rate"]["unit"]) == ("a", "Mb/s")
        assert line["y"] == pytest.approx(series["rate_mbps"].to_list(), rel=1e-3, nan_ok=True)
        assert {"smoothed RTT", "queue delay", "backlog"} <= set(panels)


def test_the_tables_have_every_row_and_every_column(results: l4slab.Results, report: Report) -> None:
    for name in ("flows", "links"):
        frame = getattr(results, name)
        rows = report.table(name)
        assert [row["run"] for row in rows] == frame["run"].to_list()
        assert set(rows[0]) == {column for column in frame.columns if frame[column].count()}
        shown = [row["rate_mbps"] for row in rows]
        assert shown == pytest.approx(frame["rate_mbps"].to_list(), rel=1e-5)


def test_each_cell_of_a_table_opens_its_run(results: l4slab.Results, report: Report) -> None:
    links = [str(a["href"]) for a in report.page.all("a")]
    assert sorted(link for link in links if link.startswith("#run=")) == sorted(
        f"#run={run}" for run in results.flows["run"]
    )
    section = report.source[report.source.index('<section id="runs">') : report.source.index('<section id="results">')]
    assert section.index("<h3>FIFO</h3>") < section.index("<h3>CoDel</h3>")
    assert section.count("rtt mean (ms)") == 4


@pytest.mark.slow
def test_a_report_of_files_is_the_same_again_and_leaves_what_is_there(
    results: l4slab.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MAX_EMBEDDED_ROWS", 0)
    monkeypatch.setattr(grids, "MAX_EMBEDDED_BYTES", 0)
    first = write_report(results.folder).read_bytes()
    place = results.folder / "runs"
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.rglob("*.js")}
    assert write_report(results.folder).read_bytes() == first
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.rglob("*.js")} == before
    # Of another form: they are written anew.
    (place / runs.form()).rename(place / "00000000")
    assert write_report(results.folder).read_bytes() == first
    assert {path: path.read_bytes() for path in place.rglob("*.js")} == {
        path: held for path, (held, _) in before.items()
    }


def test_captures_can_be_fetched_from_the_run(results: l4slab.Results) -> None:
    (run, *_) = results.flows["run"]
    captures = results.folder / "captures" / run
    captures.mkdir(parents=True, exist_ok=True)
    names = ["50 % of it, for me.pcapng", "a.pcapng"]
    files = [captures / f"{file_name(name.removesuffix('.pcapng'))}.pcapng" for name in names]
    for file in files:
        file.touch()
    write_report(results.folder)
    links = Report(results.folder).index["files"][run]
    assert [name for name, _ in links] == names
    # As a browser follows them.
    assert [results.folder / unquote(address) for _, address in links] == files


def test_a_missing_column_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(EXPERIMENT.replace("run, rtt_ms_mean", "rtt_ms_mean"))
    with pytest.raises(InputError, match=r"table \"t\".* no column run"):
        l4slab.run(tmp_path / "two.toml", out=tmp_path / "out")


def test_a_capacity_that_varies_stands_beside_the_rates(results: l4slab.Results, report: Report) -> None:
    (one, *_) = results.flows["run"]
    shown = report.run(one)
    (rates,) = (panel for panel in shown["panels"] if panel["title"] == "delivery rate")
    (line,) = (line for line in rates["lines"] if line["name"] == "capacity")
    assert dict(zip(shown["time"], line["y"], strict=True)) == {
        time: 5.0 if time <= 2 else 2.5 for time in shown["time"]
    }


@pytest.mark.parametrize("kind", ["svg", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("png", "pdf"))])
def test_every_figure_is_saved(results: l4slab.Results, kind: str) -> None:
    assert main(["report", str(results.folder), "--figures", kind]) == 0
    files = {path.stem: path.read_bytes() for path in (results.folder / "figures").glob(f"*.{kind}")}
    cases = ("two-1", "two-2")
    assert set(files) == {"overview", *(f"{case}-{name}" for case in cases for name in ("over-time", "queue-delay"))}
    for image in files.values():
        if kind == "svg":
            assert "<text" in image.decode()
            assert ElementTree.fromstring(image).tag == "{http://www.w3.org/2000/svg}svg"
        elif kind == "png":
            height, width, _ = imread(io.BytesIO(image)).shape
            assert width > height > 100
        else:
            assert image.startswith(b"%PDF")
            assert image.rstrip().endswith(b"%%EOF")
            assert image.count(b"/Type /Page ") == 1


@pytest.mark.slow
def test_a_run_can_be_changed_in_the_page_beside(
    results: l4slab.Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = results.folder / "live.html"
    beside.unlink(missing_ok=True)
    monkeypatch.setattr(live, "built", lambda: None)
    write_report(results.folder)
    assert not beside.exists()
    assert not Report(results.folder).index["live"]
    page = tmp_path / "live.html"
    page.write_text("<title>live, which needs a server</title>")
    monkeypatch.setattr(live, "built", lambda: page)
    write_report(results.folder)
    assert not beside.exists()
    page.write_text('<title>live</title><script>"H4sIAAAA"</script>')
    write_report(results.folder)
    report = Report(results.folder)
    assert report.index["live"]
    assert beside.read_text() == page.read_text()
    written = beside.stat().st_mtime_ns
    write_report(results.folder)
    assert beside.stat().st_mtime_ns == written
    page.write_text('<title>another build</title><script>"H4sIAAAA"</script>')
    write_report(results.folder)
    assert beside.read_text() == page.read_text()
    (experiment,) = results.experiments
    for run in sweep.expand(experiment, "sim").runs:
        assert json.loads(report.run(run.id)["description"]) == run.description


@pytest.mark.slow
def test_a_run_of_two_experiments_is_told_once(results: l4slab.Results, tmp_path: Path) -> None:
    one = tmp_path / "one.toml"
    one.write_text(EXPERIMENT.partition("[[table]]")[0])
    other = tmp_path / "other.toml"
    other.write_text(one.read_text().replace("trials = 2", "trials = 1"))
    both = l4slab.run([one, other], out=tmp_path / "out")
    write_report(both.folder)
    assert both.flows["run"].n_unique() < both.flows.height
    write_report(results.folder)
    for run in both.flows["run"].unique():
        assert Report(both.folder).run(run)["measured"] == Report(results.folder).run(run)["measured"]


def test_changes_of_classes_are_told(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    classes = '[link.l.class.1]\nrate = "5Mbit"\nqdisc = "pfifo limit 9"\n'
    change = '[[at]]\ntime = "2s"\n"link.l.class.1.rate" = "2Mbit"\n'
    change += '[[at]]\ntime = "2500ms"\n"link.l.class.1.qdisc" = "pfifo limit 8"\n"link.l.rate" = "4Mbit"\n'
    file.write_text(
        'duration = "3s"\n[link.l]\nrate = "5Mbit"\nqdisc = "htb default 1"\n'
        + classes
        + change
        + '[[flow]]\nname = "a"\ncc = "cubic"\nrtt = "10ms"\n'
    )
    told = setup.settings(sweep.expand(experimentfile.load(file), "sim").runs[0].description)
    assert [row for row in told if row[0].startswith("at ")] == [
        ("at 2s", "l, class 1: 2Mbit, up to 2Mbit, prio 0, burst 1600 B, cburst 1600 B"),
        ("at 2.5s", "l: 4Mbit"),
        ("at 2.5s", "l, class 1: pfifo limit 8"),
    ]
