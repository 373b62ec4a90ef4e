"""What is done with results: `compare`, `export`; and where they come from: `init`, the default folder, --json."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from l4slab.cli import main
from l4slab.results import differences

FILE = """
duration = "1s"
trials = 4
captures = "all trials"
[link.l]
rate = "10Mbit"
qdisc = "pfifo limit 50"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[flow]]
name = "b"
cc = "prague"
rtt = "10ms"
[sweep]
"link.l.rate" = ["5Mbit", "10Mbit"]
[[claim]]
id = "short"
says = "packets wait less than 60 ms"
sql = "select max(sojourn_ms_mean) < 60 from links where \\"link.l.rate\\" = '10Mbit'"
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outcomes")
    longer = FILE.replace("limit 50", "limit 200").replace('"5Mbit", "10Mbit"', '"10Mbit", "20Mbit"')
    for name, text in {
        "before": FILE,
        "after": longer.replace("trials = 4", "trials = 4\nseed = 9"),
        "once": longer.replace("trials = 4", "trials = 1"),
    }.items():
        (folder / name).mkdir()
        (folder / name / "x.toml").write_text(text)
        main(["run", str(folder / name / "x.toml"), "--out", str(folder / name), "--workers", "1", "--no-captures"])
    return folder


@pytest.mark.slow
def test_nothing_has_changed(results: Path) -> None:
    found = differences.compare(results / "before", results / "before")
    assert found.compared == found.same > 50
    assert (found.judged, found.by_chance, found.moved, found.different, found.verdicts) == (0, 0, [], [], [])
    assert (found.only_before, found.only_after) == ([], [])


def test_folders_without_anything_in_common(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = results / "other"
    other.mkdir()
    names = [str(other / "y.toml"), str(other / "z.toml")]  # one experiment in each folder would be compared
    for name in names:
        Path(name).write_text(FILE.replace("trials = 4", "trials = 1"))
    main(["run", *names, "--out", str(other / "out"), "--workers", "1", "--no-captures"])
    capsys.readouterr()
    assert main(["compare", str(results / "before"), str(other / "out")]) == 2
    assert "no cell and no claim in common; give two folders" in capsys.readouterr().err


def test_export_below_a_file(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(results / "before"), "--to", str(results / "before" / "x.toml" / "y")]) == 2
    assert "or below a file" in capsys.readouterr().err


def test_what_moved_and_which_verdict(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = differences.compare(results / "before", results / "after")
    change = next(c for c in found.moved if (c.place, c.quantity) == ("l all", "sojourn_ms_mean"))
    assert change.factors == {"link.l.rate": "10Mbit"}
    assert len(change.before) == len(change.after) == 4
    assert max(change.before) < min(change.after)
    assert change.chance == 2 / 70
    assert all(other.apart for other in found.moved)
    assert found.by_chance == pytest.approx(found.judged * 2 / 70)
    assert found.different == []
    assert [(v.id, v.before, v.after, v.worse) for v in found.verdicts] == [("short", "holds", "fails", True)]
    assert found.only_before == ["x, link.l.rate = 5Mbit"]
    assert found.only_after == ["x, link.l.rate = 20Mbit"]
    assert main(["compare", str(results / "before"), str(results / "after")]) == 1
    assert "1 verdict changed; 1 claim no longer as expected (exit status 1)" in capsys.readouterr().out
    assert main(["compare", str(results / "after"), str(results / "before"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["moved"]) == len(found.moved)
    assert shown["verdicts"][0]["worse"] is False


def test_one_trial_judges_nothing(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = differences.compare(results / "before", results / "once")
    assert (found.judged, found.moved) == (0, [])
    assert len(found.different) > 10
    main(["compare", str(results / "before"), str(results / "once")])
    assert "too few trials to distinguish from noise" in capsys.readouterr().out


def test_csv_and_json_have_the_rows_of_the_tables(results: Path, tmp_path: Path) -> None:
    for form in ("csv", "json"):
        assert main(["export", str(results / "after"), f"--{form}", "--to", str(tmp_path / form)]) == 0
    flows = pl.read_parquet(results / "after" / "flows.parquet")
    with (tmp_path / "csv" / "flows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["goodput_mbps"]) for row in rows] == flows["goodput_mbps"].to_list()
    assert json.loads((tmp_path / "json" / "flows.json").read_text()) == flows.to_dicts()
    assert json.loads((tmp_path / "json" / "transfers.json").read_text()) == []
    series = pl.read_csv(tmp_path / "csv" / "series.csv", infer_schema_length=None)
    assert len(series) == len(pl.read_parquet(results / "after" / "series.parquet"))


def test_every_format_asked_for_is_written(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(results / "once"), "--json", "--csv", "--flent", "--to", str(tmp_path)]) == 0
    written = {Path(line).name for line in capsys.readouterr().out.splitlines()}
    assert written == {path.name for path in tmp_path.iterdir()}
    assert {"flows.csv", "flows.json"} < written
    assert sum(name.endswith(".flent.gz") for name in written) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "DIR", "--run", "1"],
        ["export", "DIR", "--csv", "--qlog", "--flow", "a"],
        ["new", "controller", "mine", "--c", "--rust"],
        ["list", "--markdown", "--json"],
        ["list", "dualpi2", "--markdown"],
        ["live", "--out", "x.html", "--port", "80"],
    ],
)
def test_no_option_is_ignored(
    arguments: list[str],
    results: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(results / "once") if argument == "DIR" else argument for argument in arguments]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "leave them out" in message or "give" in message
    assert not list(tmp_path.iterdir())


def test_a_file_of_flent(results: Path) -> None:
    copy = results / "copy"
    shutil.copytree(results / "once", copy)
    assert main(["export", str(copy), "--flent"]) == 0
    files = sorted((copy / "export" / "flent").iterdir())
    flows = pl.read_parquet(copy / "flows.parquet")
    assert {file.name for file in files} == {f"x-{run}.flent.gz" for run in flows["run"]}
    document = read_flent(files[0])
    assert document["version"] == 4
    assert document["metadata"]["NAME"] == "tcp_nup"
    assert document["metadata"]["TEST_PARAMETERS"]["upload_streams"] == "2"
    times, sums = document["x_values"], document["results"]["TCP upload sum"]
    assert len(times) == len(sums) == 10
    series = pl.read_parquet(copy / "series.parquet").filter(run=files[0].name[2:18])
    flow = series.filter(flow="b")
    assert document["results"]["TCP upload::2"] == flow["goodput_mbps"].to_list()
    rtts = [value["tcp_rtt"] for value in document["raw_values"]["TCP upload::2"] if "tcp_rtt" in value]
    assert rtts == flow["srtt_ms"].drop_nulls().to_list()


def read_flent(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return document


MIXED = """
duration = "3s"
warmup = "1s"
[link.up]
rate = "20Mbit"
qdisc = "fq_codel"
[link.down]
rate = "20Mbit"
qdisc = "fq_codel"
[[flow]]
name = "pair"
cc = "cubic"
count = 2
rtt = "20ms"
path = ["up"]
reverse_path = ["down"]
[[flow]]
name = "one"
cc = "reno"
rtt = "200ms"
path = ["up"]
[[flow]]
name = "up"
kind = "cbr"
rate = "1Mbit"
rtt = "20ms"
path = ["up"]
[[flow]]
name = "down"
kind = "cbr"
rate = "1Mbit"
count = 2
rtt = "20ms"
path = ["down"]
"""
BACK = """
[[flow]]
name = "back"
cc = "cubic"
rtt = "20ms"
path = ["down"]
"""


def exported(folder: Path, text: str) -> tuple[dict[str, Any], pl.DataFrame]:
    """The file of flent of an experiment's run, and its table `flows`."""
    folder.mkdir()
    (folder / "x.toml").write_text(text)
    assert main(["run", str(folder / "x.toml"), "--out", str(folder), "--workers", "1"]) == 0
    assert main(["export", str(folder), "--flent"]) == 0
    (file,) = (folder / "export" / "flent").iterdir()
    return read_flent(file), pl.read_parquet(folder / "flows.parquet")


def test_flent_takes_no_group_for_a_flow(tmp_path: Path) -> None:
    document, flows = exported(tmp_path / "groups", MIXED)
    names, about = document["results"], document["metadata"]["SERIES_META"]
    assert {name for name in names if name.startswith("TCP")} == {
        "TCP upload sum::pair",
        "TCP upload::1",
        "TCP upload sum",
        "TCP upload avg",
        "TCP upload fairness",
    }
    assert {name for name in names if name[-1].isdigit()} == {"TCP upload::1", "UDP upload 1"}
    assert about["UDP download sum::down"]["COUNT"] == 2
    tcp = flows.filter(pl.col("flow").is_in(["pair", "one"]))
    assert about["TCP upload sum"]["MEAN_VALUE"] == pytest.approx(tcp["goodput_mbps"].sum())
    assert about["TCP upload avg"]["MEAN_VALUE"] == pytest.approx(tcp["goodput_mbps"].sum() / 3)
    # Of the three TCP flows: the run's index is of TCP alone.
    assert about["TCP upload fairness"]["MEAN_VALUE"] == pytest.approx(tcp["jain_run"][0])
    both = [names["TCP upload sum::pair"], names["TCP upload::1"]]
    assert names["TCP upload sum"] == [sum(values) for values in zip(*both, strict=True)]
    measured = [
        value for time, value in zip(document["x_values"], names["TCP upload fairness"], strict=True) if time > 1
    ]
    assert set(measured) == {about["TCP upload fairness"]["MEAN_VALUE"]}


def test_flent_gets_the_single_flows_that_were_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "singles"
    document, flows = exported(folder, "per_flow = true" + MIXED)
    about = document["metadata"]["SERIES_META"]
    members = pl.read_parquet(folder / "members.parquet")
    means = [about[f"TCP upload::{number}"]["MEAN_VALUE"] for number in (1, 2, 3)]
    assert means[:2] == members.filter(flow="pair")["goodput_mbps"].to_list()
    assert means[2] == flows.filter(flow="one")["goodput_mbps"].item()
    assert document["metadata"]["TEST_PARAMETERS"]["upload_streams"] == "3"
    # What flent makes of them itself.
    jain = sum(means) ** 2 / (3 * sum(mean**2 for mean in means))
    assert about["TCP upload fairness"]["MEAN_VALUE"] == pytest.approx(jain)
    assert not any("sum::" in name for name in document["results"])
    assert {"UDP download 1", "UDP download 2", "UDP upload 1"} < set(document["results"])


@pytest.mark.parametrize(
    ("text", "test"),
    [
        (MIXED + BACK, "rrul_be_nflows"),
        (MIXED[: MIXED.index("[[flow]]")] + MIXED[MIXED.index('[[flow]]\nname = "up"') :], "udp_flood_var_up"),
    ],
)
def test_flent_draws_a_run_by_the_test_that_fits(text: str, test: str, tmp_path: Path) -> None:
    document, _ = exported(tmp_path / "x", text)
    assert document["metadata"]["NAME"] == test
    # Those series that the plots of these tests ask for.
    if test == "rrul_be_nflows":
        assert {"TCP upload BE::1", "TCP download BE::1", "TCP totals"} < set(document["results"])


def test_no_captures(results: Path) -> None:
    assert not (results / "before" / "captures").exists()


def test_init_and_the_default_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "mine"]) == 0
    assert "l4slab run mine.toml" in capsys.readouterr().out
    assert main(["run", "mine.toml", "--json", "--where", "trial = 1 and rate < 30e6"]) == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document["folder"] == str(Path("results/mine"))
    assert Path(document["report"]).is_file()
    assert {claim["id"]: claim["verdict"] for claim in document["claims"]} == {
        "low-delay": "holds",
        "no-starvation": "holds",
    }
    assert {row["flow"] for row in document["flows"]} == {"l4s", "classic"}
    assert main(["init", "mine"]) == 2
    assert "mine.toml: is there already" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "doctor", "list"])
def test_json_of(command: str, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, *([str(results / "once")] if command == "status" else []), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["dualpi2", "prague", "fast-lane", "red-tcp"])
def test_list_one(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["list", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(name)
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("width", [48, 80, 120])
def test_tables_fit_the_terminal(
    width: int, results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    main(["run", str(results / "once" / "x.toml"), "--out", str(results / "once"), "--no-captures"])
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width for line in lines if not line.startswith("Report: "))
    first = next(number for number, line in enumerate(lines) if line.startswith("rate"))
    heading = {*lines[first - 1].split(), *lines[first].split()}
    assert {"rate", "flow", "share", "goodput"} <= heading
    assert heading <= {"rate", "flow", "cc", "goodput", "Mb/s", "share", "RTT", "queue", "ms", "CE", "drop", "%"}
    assert ("RTT" in heading) == (width > 48) == ("No room for" not in " ".join(lines))
    assert lines[-3] == "0 of 1 claims hold; 1 not (exit status 1)"
