"""Web requests and video from the experiment file to the tables."""

from __future__ import annotations

import json
from pathlib import Path

import l4slab
import polars as pl
import pytest
from l4slab import experimentfile
from l4slab.api import campaign
from l4slab.base.units import FREQUENCY
from l4slab.cli import main
from l4slab.engines.linux.engine import LinuxEngine
from l4slab.sweep import expand

TWO_WAYS = """
duration = "4s"
[link.down]
rate = "5Mbit"
qdisc = "pfifo limit 200"
[link.up]
rate = "2Mbit"
qdisc = "pfifo limit 100"
[[flow]]
name = "call"
kind = "video"
cc = "cubic"
rate = "1Mbit"
frames = "10/s"
rtt = "20ms"
path = ["up"]
reverse_path = ["down"]
[[flow]]
name = "download"
cc = "cubic"
rtt = "20ms"
path = ["down"]
reverse_path = ["up"]
"""
ONE_LINK = """
duration = "3s"
[link.b]
rate = "2Mbit"
qdisc = "pfifo limit 100"
[[flow]]
name = "endless"
cc = "cubic"
rtt = "20ms"
[[flow]]
name = "large"
cc = "cubic"
rtt = "20ms"
bytes = "10MB"
"""
FILE = """
duration = "6s"
warmup = "2s"
trials = 2
[link.bottleneck]
rate = "20Mbit"
qdisc = "pfifo limit 100"
[[flow]]
name = "long"
cc = "cubic"
rtt = "10ms"
[[flow]]
name = "short"
cc = "reno"
bytes = "100kB"
rtt = "10ms"
[[flow]]
name = "web"
kind = "web"
cc = "prague"
requests = "50/s"
rtt = "10ms"
[[flow]]
name = "view"
kind = "video"
cc = "cubic"
rate = "2Mbit"
frames = "30/s"
controls = "40/s"
rtt = "10ms"
[[sweep.aqm]]
level = "fifo"
"link.bottleneck.qdisc" = "pfifo limit 100"
[[sweep.aqm]]
level = "dualpi2"
"link.bottleneck.qdisc" = "dualpi2"
[[claim]]
id = "nothing is faster than the handshake"
sql = "select min(completion_ms) >= 20, count(*) as requests from transfers where kind = 'request'"
[[claim]]
id = "columns of the video"
sql = "select bool_and(view_ms_p50 >= 9.9), sum(unfinished) as unfinished from flows where flow = 'view'"
[[figure]]
id = "completion"
kind = "lines"
log = true
x_log = true
sql = '''select aqm as part, exp(avg(ln(size_bytes))) as x, median(completion_ms) as y from transfers
where kind = 'request' group by part, floor(4 * log10(size_bytes)) order by part, x'''
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traffic")
    (folder / "x.toml").write_text(FILE)
    for workers in (1, 2):
        assert (
            main(["run", str(folder / "x.toml"), "--out", str(folder / str(workers)), "--workers", str(workers)]) == 0
        )
    return folder


def test_transfers_are_in_a_table_of_their_own(results: Path) -> None:
    transfers = pl.read_parquet(results / "1" / "transfers.parquet")
    flows = pl.read_parquet(results / "1" / "flows.parquet")
    assert set(transfers.group_by("flow", "kind").agg().iter_rows()) == {
        ("short", "flow"),
        ("web", "request"),
        ("view", "frame"),
        ("view", "input"),
    }
    assert transfers.columns[:5] == ["experiment", "run", "engine", "trial", "aqm"]
    # `flows` counts what began after the warm-up, of flows with bytes all.
    late = transfers.filter(((pl.col("start_s") >= 2) | (pl.col("kind") == "flow")) & (pl.col("kind") != "input"))
    counts = late.group_by("run", "flow").len().sort("run", "flow")
    rows = flows.filter(pl.col("flow") != "long").sort("run", "flow")
    assert counts["len"].to_list() == rows["transfers"].to_list()
    assert flows.filter(flow="long")["transfers"].to_list() == [0] * 4
    medians = late.filter(kind="request").group_by("run").agg(pl.col("completion_ms").median()).sort("run")
    web = rows.filter(flow="web").sort("run")
    for measured, told in zip(medians["completion_ms"], web["completion_ms_p50"], strict=True):
        assert told == pytest.approx(measured, rel=0.02)


def test_all_queues_see_the_same_requests(results: Path) -> None:
    requests = pl.read_parquet(results / "1" / "transfers.parquet").filter(kind="request").filter(pl.col("start_s") < 4)
    per_trial = [
        {(start, size) for start, size in requests.filter(trial=t, aqm=a).select("start_s", "size_bytes").iter_rows()}
        for t in (1, 2)
        for a in ("fifo", "dualpi2")
    ]
    assert per_trial[0] == per_trial[1] != per_trial[2] == per_trial[3]
    assert len(per_trial[0]) > 150


def test_the_bytes_do_not_depend_on_the_workers(results: Path) -> None:
    for name in ("flows", "links", "series", "transfers", "claims"):
        assert (results / "1" / f"{name}.parquet").read_bytes() == (results / "2" / f"{name}.parquet").read_bytes(), (
            name
        )


def test_without_such_flows_the_table_is_empty(tmp_path: Path) -> None:
    text = FILE.split('[[flow]]\nname = "short"')[0].replace("6s", "3s")
    (tmp_path / "y.toml").write_text(text)
    found = l4slab.run(tmp_path / "y.toml", workers=1).transfers
    assert found.is_empty()
    assert {"experiment", "run", "trial", "flow", "completion_ms"} <= set(found.columns)


@pytest.mark.parametrize("kind", ["web", "video"])
def test_the_engine_linux_refuses_by_name(tmp_path: Path, kind: str) -> None:
    (tmp_path / "z.toml").write_text(FILE)
    run = expand(experimentfile.load(tmp_path / "z.toml"), "linux").runs[0]
    description = json.loads(run.json)
    description["flows"] = [flow for flow in description["flows"] if flow["kind"] == kind]
    with pytest.raises(ValueError, match=f'has no kind = "{kind}"'):
        LinuxEngine().check(description)


def test_a_load_may_follow_the_rate(tmp_path: Path) -> None:
    text = FILE.replace('"50/s"', '"{load}/s"')
    text = text.replace("[[claim]]", '[let]\nload = "100 * \\"link.bottleneck.rate\\" / 40e6"\n[[claim]]', 1)
    (tmp_path / "l.toml").write_text(text)
    plan = campaign.plan([tmp_path / "l.toml"])[0]
    web = plan.runs[0].description["flows"][2]
    assert web["interval_ns"] == 20_000_000


def test_frequencies() -> None:
    assert FREQUENCY.si("10/s") == 10
    assert FREQUENCY.si("30/min") == 0.5
    with pytest.raises(ValueError, match="valid are /min, /s"):
        FREQUENCY.parse("10/h")


@pytest.mark.parametrize(("text", "shared"), [(TWO_WAYS, False), (ONE_LINK, True)])
def test_summary_has_completion_times_and_shares_where_they_mean_something(
    text: str, shared: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Completion times and unfinished transfers of flows that have transfers; shares of flows that share a link."""
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "x.toml").write_text(text)
    given = ["run", str(tmp_path / "x.toml"), "--out", str(tmp_path / "r")]
    assert main(given) == 0
    told = capsys.readouterr().out
    assert "done p50" in told or shared
    assert "unfin-" in told
    assert ("share" in told.splitlines()[1]) == shared
    assert ("No share, for not all flows cross one link" in told) != shared
    assert main([*given, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["flows"]
    assert (first["share"] is not None) == shared
    if shared:
        assert (second["completion_ms_p50"], second["unfinished"], first["unfinished"]) == (None, 1, None)
    else:
        flows = pl.read_parquet(tmp_path / "r" / "flows.parquet")
        assert first["completion_ms_p99"] == flows["completion_ms_p99"][0] > first["completion_ms_p50"] > 20
        assert second["unfinished"] is None
        assert flows["share"].sum() == pytest.approx(1)
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert ("a share of" in page) == shared
    assert ("transfers took less than" in page) != shared
    assert ("1 transfer was incomplete at the end" in page) or not shared


def test_summary_without_transfers_has_no_columns_for_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.toml").write_text(ONE_LINK.replace('bytes = "10MB"\n', ""))
    assert main(["run", str(tmp_path / "x.toml"), "--out", str(tmp_path / "r"), "--json"]) == 0
    for flow in json.loads(capsys.readouterr().out)["flows"]:
        assert not {"completion_ms_p50", "completion_ms_p99", "unfinished"} & set(flow)
        assert flow["share"] is not None
