"""Files that tell a rate or a round trip over time."""

from __future__ import annotations

from pathlib import Path

import pytest
from l4slab import experimentfile, sweep
from l4slab.cli import main
from l4slab.experimentfile.capacity import of_links

FILE = """
duration = "4s"
start_jitter = "0s"
[link.bottleneck]
rate_trace = "lte.csv"
qdisc = "pfifo limit 100"
[[flow]]
name = "a"
kind = "cbr"
rate = "100Mbit"
rtt = "0s"
"""
RATES = "# made by hand\ntime_s,rate_mbps\n0,10\n0.5,40\n1,0\n"


def described(folder: Path, trace: str, file: str = FILE) -> dict:
    (folder / "lte.csv").write_text(trace)
    (folder / "x.toml").write_text(file)
    return sweep.describe(experimentfile.load(folder / "x.toml"), {})


def test_rates_over_time_are_part_of_the_description(tmp_path: Path) -> None:
    link = described(tmp_path, RATES)["links"][0]
    assert link["rate_trace"] == {
        "file": "lte.csv",
        "steps": [[0, 10_000_000], [500_000_000, 40_000_000], [1_000_000_000, 0]],
        "repeat_ns": 1_000_000_000,
    }
    assert link["rate_bps"] == 25_000_000
    again = described(tmp_path, RATES.replace("rate_mbps", "rate_kbps").replace(",10", ",10000").replace(",40", ",4e4"))
    assert again["links"] == [link]
    once = described(tmp_path, RATES.replace("1,0", "1,7"), FILE.replace("qdisc", "trace_repeat = false\nqdisc"))
    assert once["links"][0]["rate_trace"]["repeat_ns"] is None
    assert once["links"][0]["rate_bps"] == (10 * 0.5 + 40 * 0.5 + 7 * 3) / 4 * 1e6


def test_opportunities_are_counted(tmp_path: Path) -> None:
    link = described(tmp_path, "0\n3\n3\n\n10\n")["links"][0]
    opportunities = [[0, 1], [3_000_000, 2], [10_000_000, 1]]
    assert link["rate_trace"] == {"file": "lte.csv", "opportunities": opportunities, "repeat_ns": 10_000_000}
    assert link["rate_bps"] == round(4 * 1514 * 8 / 0.01)


def test_another_content_is_another_run(tmp_path: Path) -> None:
    ids = set()
    for trace in (RATES, RATES.replace("40", "41"), "3\n4\n", "3\n5\n"):
        described(tmp_path, trace)
        ids.add(sweep.expand(experimentfile.load(tmp_path / "x.toml"), "sim").runs[0].id)
    assert len(ids) == 4


def test_capacity_is_the_mean_of_each_step_of_the_series(tmp_path: Path) -> None:
    steps = of_links(described(tmp_path, RATES))["bottleneck"]
    assert steps[:3] == [(0.0, 10), (0.5, 40), (1.0, 10)]
    steps = of_links(described(tmp_path, "0\n250\n1000\n"))["bottleneck"]
    packet = 1514 * 8 / 1e5
    assert steps[:4] == [(0.0, packet), (0.1, 0.0), (0.2, packet), (0.3, 0.0)]


@pytest.mark.parametrize("trace", [RATES, "".join(f"{ms}\n" for ms in range(1, 1001) if ms % 7 < 5)])
def test_a_run_uses_all_that_its_trace_allows(trace: str, tmp_path: Path) -> None:
    description = described(tmp_path, trace)
    assert main(["run", str(tmp_path / "x.toml"), "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    import polars as pl

    link = pl.read_parquet(tmp_path / "out" / "links.parquet").filter(pl.col("queue") == "all")
    assert link["utilisation"][0] == pytest.approx(1, abs=2 * 1514 * 8 / description["links"][0]["rate_bps"])
    assert (tmp_path / "out" / "experiments" / "lte.csv").read_text() == trace


# What is written, and what the sentence must mention.
MISTAKES = {
    "no rows": ("time_s,rate_mbps\n", ["no rows"]),
    "empty": ("# nothing\n\n", ["is empty", "Mahimahi"]),
    "negative time": ("time_s,rate_mbps\n-1,5\n", ["line 2", '"-1"', "negative", "begin at 0"]),
    "negative rate": ("time_s,rate_mbps\n0,-5\n", ["line 2", '"-5"', "negative"]),
    "late begin": ("time_s,rate_mbps\n5,5\n", ["line 2", '"5"', "begins"]),
    "back in time": ("time_s,rate_mbps\n0,5\n2,5\n1,5\n", ["line 4", '"1"', "sort"]),
    "no number": ("time_s,rate_mbps\n0,fast\n", ["line 2", '"fast"', "is not a number"]),
    "not a number": ("time_s,rate_mbps\n0,nan\n", ["line 2", '"nan"', "is not a number"]),
    "three columns": ("time_s,rate_mbps\n0,5,6\n", ["line 2", "3 values"]),
    "no unit": ("time_s,rate\n0,5\n", ["line 1", "rate_bps"]),
    "no header": ("0,5\n1,6\n", ["line 1", "header", "time_s,rate_mbps"]),
    "no rate": ("time_s,rate_mbps\n0,0\n1,0\n", ["no rate above 0"]),
    "Mahimahi, negative": ("1\n-4\n", ["line 2", "-4", "whole milliseconds"]),
    "Mahimahi, begins negative": ("-4\n5\n", ["line 1", "-4", "whole milliseconds"]),
    "Mahimahi, back in time": ("1\n5\n4\n", ["line 3", "before 5", "sort"]),
    "Mahimahi, in another unit": (f"1\n{10**20}\n", ["line 2", str(10**20), "look at its unit"]),
    "Mahimahi, no time": ("0\n0\n", ["line 2", "later"]),
    "Mahimahi, fraction": ("1\n2.5\n", ["line 2", "2.5"]),
}


def refused(folder: Path, capsys: pytest.CaptureFixture[str], mentions: list[str]) -> None:
    assert main(["run", str(folder / "x.toml"), "--out", str(folder / "out")]) == 2
    told = capsys.readouterr().err
    assert len(told.strip().splitlines()) == 1, told
    for mention in ["x.toml", *mentions]:
        assert mention in told, told


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_a_sentence(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, mentions = MISTAKES[case]
    (tmp_path / "lte.csv").write_text(trace)
    (tmp_path / "x.toml").write_text(FILE)
    refused(tmp_path, capsys, ["link.bottleneck.rate_trace", "lte.csv", *mentions])


FILES = {
    "no such file": ("lte.csv", "lte.cvs", ["lte.cvs", "no file"]),
    "outside": ("lte.csv", "../lte.csv", ["../lte.csv", "beside the experiment file"]),
    "neither": ('rate_trace = "lte.csv"\n', "", ["has no rate", "rate_trace"]),
    "both": ("qdisc", 'rate = "5Mbit"\nqdisc', ['rate = "5Mbit"', "beside rate_trace"]),
    "Mahimahi once": ("qdisc", "trace_repeat = false\nqdisc", ["begins again"]),
    "changed while it runs": (
        "[[flow]]",
        '[[at]]\ntime = "1s"\n"link.bottleneck.rate" = "1Mbit"\n[[flow]]',
        ['link.bottleneck.rate = "1Mbit"', "rate_trace"],
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_does_not_fit_is_a_sentence(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, mentions = FILES[case]
    (tmp_path / "lte.csv").write_text("1\n2\n")
    (tmp_path / "x.toml").write_text(FILE.replace(old, new))
    refused(tmp_path, capsys, mentions)


def test_the_kernel_has_rates_and_no_opportunities(tmp_path: Path) -> None:
    from l4slab.engines.linux import engine, lab

    with pytest.raises(ValueError, match="has opportunities, and HTB has rates"):
        engine.refuse(described(tmp_path, "1\n2\n"), None)
    with pytest.raises(ValueError, match="has 1000 bit/s at 0 s, and HTB charges"):
        engine.refuse(described(tmp_path, "time_ms,rate_kbps\n0,1\n100,5\n200,0\n"), None)
    run = described(tmp_path, RATES)
    engine.refuse(run, None)
    plan = [line for line in lab.build(lab.unrolled(run)).plan if "class change" in line]
    assert [line.split()[1] for line in plan] == [f"{n}" for n in range(500_000_000, 4_000_000_000, 500_000_000)]
    assert ["rate 40000000bit" in line for line in plan] == [True, False] * 3 + [True]
