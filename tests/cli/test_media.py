"""Calls from the experiment file to the tables, the terminal and the report."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from l4slab import experimentfile
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.report.summary import Mean, frames, of_case
from l4slab.sweep import expand

FILE = """
duration = "12s"
warmup = "2s"
[link.uplink]
rate = "3Mbit"
qdisc = "{aqm}"
[[flow]]
name = "call"
kind = "media"
cc = "none"
rate_max = "1Mbit"
frames = "50/s"
rtt = "30ms"
[[flow]]
name = "upload"
cc = "cubic"
rtt = "30ms"
[sweep]
aqm = ["pfifo limit 200", "fq_codel"]
"""


def written(folder: Path, text: str = FILE) -> Path:
    file = folder / "call.toml"
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("media")
    assert main(["run", str(written(folder)), "--out", str(folder / "r"), "--workers", "1"]) == 0
    return folder / "r"


def test_a_call_has_its_columns_and_other_flows_have_none(results: Path) -> None:
    flows = pl.read_parquet(results / "flows.parquet")
    fifo, queues = (flows.filter(flow="call", aqm=aqm).to_dicts()[0] for aqm in ("pfifo limit 200", "fq_codel"))
    assert fifo["cc"] == "none"
    assert fifo["late_pct"] > 50 > 1 > queues["late_pct"] + queues["lost_frames_pct"]
    assert queues["frame_ms_p99"] < 100 < fifo["frame_ms_p95"]
    assert queues["frames"] == pytest.approx(500, abs=6)
    upload = flows.filter(flow="upload").to_dicts()[0]
    assert {upload[name] for name in ("frames", "frame_ms_p50", "late_pct", "freezes", "media_mbps")} == {None}


def test_each_frame_is_in_a_table(results: Path) -> None:
    flow = pl.read_parquet(results / "flows.parquet").filter(flow="call", aqm="fq_codel").to_dicts()[0]
    frames = pl.read_parquet(results / "transfers.parquet").filter(kind="frame", aqm="fq_codel")
    counted = frames.filter(pl.col("start_s") >= 2)
    assert counted["completion_ms"].median() == pytest.approx(flow["frame_ms_p50"], rel=0.01)
    network = (counted["completion_ms"] - counted["response_ms"]).median()
    assert network == pytest.approx(flow["sender_queue_ms_p50"], rel=0.01)
    assert flow["transfers"] == 0


def test_the_terminal_shows_frames_where_there_are_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    text = FILE.split("[sweep]")[0].replace("{aqm}", "fq_codel")
    assert main(["run", str(written(tmp_path, text)), "--out", str(tmp_path / "r")]) == 0
    told = capsys.readouterr().out
    assert "frame p99" in told
    assert "freezes" in told
    assert "Late: beyond the flow's deadline (default 100 ms)." in " ".join(told.split())
    plain = "\n".join(part for part in text.split("[[flow]]") if "media" not in part)
    plain = plain.replace('name = "upload"', '[[flow]]\nname = "upload"')
    assert main(["run", str(written(tmp_path, plain)), "--out", str(tmp_path / "p")]) == 0
    assert "frame p99" not in capsys.readouterr().out


def test_the_overview_says_how_the_call_went(results: Path) -> None:
    from l4slab.report.results import load

    folder = load(results)
    told = [dict(of_case(folder, case))["call (none)"] for case in folder.cases]
    assert "% came late" in told[0]
    assert "frames took less than" in told[1]
    assert "it never froze" in told[1]


@pytest.mark.parametrize(
    ("freezes", "words"),
    [
        (1, "it froze once, for 1.02 s"),
        (3.0, "it froze 3 times, for 1.02 s"),
        (0.5, "it froze 0.5 times, for 1.02 s"),
    ],
)
def test_freezes_are_told(freezes: float, words: str) -> None:
    of = {
        "frames": 900,
        "frame_ms_p50": None,
        "late_pct": 0,
        "lost_frames_pct": 0,
        "freezes": freezes,
        "freeze_s": 1.02,
    }
    assert words in "; ".join(frames(Mean("call", "none", (), 1, of)))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('cc = "none"', 'cc = "nonee"', ["cc", '"nonee"', 'did you mean "none"']),
        ('cc = "none"', 'cc = "cubic"', ["cc", "not a congestion control for media"]),
        ('cc = "none"', 'cc = "none"\noptions = { pacing = 0 }', ["options", "pacing", "1 to 1000"]),
        ('cc = "none"', 'cc = "none"\npacket = "100B"', ["packet", '"100B"', "164"]),
        ('rate_max = "1Mbit"\n', "", ["rate_max", "add it"]),
        ('frames = "50/s"', 'frames = "1000000/s"', ['frames = "1000000/s"', "GiB of memory", "let it begin fewer"]),
        (
            'cc = "none"',
            'cc = "gcc"\nrate_start = "2Mbit"',
            ['rate_start = "2Mbit" is above rate_max = "1Mbit"', "make it smaller"],
        ),
        (
            'cc = "none"',
            'cc = "gcc"\nrate_start = "100kbit"',
            ['rate_start = "100kbit" is below rate_min = "150kbit"', "make it larger"],
        ),
    ],
)
def test_mistakes_are_sentences(
    old: str, new: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(written(tmp_path, FILE.replace(old, new, 1))), "--out", str(tmp_path / "r")]) == 2
    told = capsys.readouterr().err
    for word in ("call.toml", 'flow "call"', *words):
        assert word in told


def test_the_highest_rate_may_change(tmp_path: Path) -> None:
    text = FILE + '[[at]]\ntime = "5s"\n"flow.call.rate_max" = "500kbit"\n'
    run = expand(experimentfile.load(written(tmp_path, text)), "sim").runs[0]
    assert run.description["at"] == [{"time_ns": 5_000_000_000, "flow": "call", "rate_bps": 500_000}]
    adapts = text.replace('cc = "none"', 'cc = "gcc"\nrate_min = "600kbit"')
    with pytest.raises(InputError) as told:
        expand(experimentfile.load(written(tmp_path, adapts)), "sim")
    for words in ("[[at]] no. 1", 'flow.call.rate_max = "500kbit" is below', 'rate_min = "600kbit"', "make it larger"):
        assert words in str(told.value)


def test_a_call_may_pause(tmp_path: Path) -> None:
    text = FILE + '[[at]]\ntime = "5s"\n"flow.call.pause" = true\n'
    run = expand(experimentfile.load(written(tmp_path, text)), "sim").runs[0]
    assert run.description["at"] == [{"time_ns": 5_000_000_000, "flow": "call", "pause": True}]
    with pytest.raises(InputError, match="pause"):
        expand(experimentfile.load(written(tmp_path, text.replace("flow.call", "flow.upload"))), "sim")


def test_only_what_adapts_has_other_rates(tmp_path: Path) -> None:
    def rates(text: str) -> list[int | None]:
        flow = expand(experimentfile.load(written(tmp_path, text)), "sim").runs[0].description["flows"][0]
        return [flow["rate_min_bps"], flow["rate_start_bps"], flow["rate_bps"]]

    assert rates(FILE) == [None, None, 1_000_000]
    adapts = FILE.replace('cc = "none"', 'cc = "scream"')
    assert rates(adapts) == [150_000, 1_000_000, 1_000_000]
    # Defaults stay within a lower rate_max.
    assert rates(adapts.replace('rate_max = "1Mbit"', 'rate_max = "100kbit"')) == [100_000, 100_000, 100_000]


def test_media_controllers_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "media-controllers"]) == 0
    assert "pacing" in capsys.readouterr().out
