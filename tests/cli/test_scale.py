"""Thousands of runs: what is opened, read, expanded and shown stays bounded. Counts, not times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from l4slab import sweep
from l4slab.api import campaign
from l4slab.base import metrics
from l4slab.campaign import store
from l4slab.campaign.store import Store
from l4slab.cli import main
from l4slab.engines.contract import Recording
from l4slab.report import results

FILE = """
duration = "2s"
sample = "100ms"
trials = 5
[link.bottleneck]
rate = "10Mbit"
qdisc = "pfifo limit {packets}"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[flow]]
name = "b"
cc = "reno"
rtt = "10ms"
[sweep]
"flow.*.rtt" = ["1ms", "2ms", "3ms", "5ms", "8ms", "10ms", "20ms", "30ms", "50ms", "80ms"]
"link.bottleneck.rate" = ["2Mbit", "4Mbit", "5Mbit", "8Mbit", "10Mbit"]
packets = [10, 20, 30, 40, 50, 60, 70, 80]
[[claim]]
id = "all"
says = "every run is there"
sql = "select count(distinct run) = 2000, count(distinct run) as runs from flows"
"""
RUNS, CASES, SAMPLES = 2000, 400, 10


def recording(value: float) -> Recording:
    times = [0.2 * n for n in range(1, SAMPLES + 1)]
    flow = {"count": 1, "goodput_mbps": value, "rate_mbps": value, "rtt_ms_mean": 12.5, "share": 0.5}
    of_flows = [{"time_s": t, "flow": f, "rate_mbps": value, "srtt_ms": 12.5} for f in "ab" for t in times]
    of_queue = [{"time_s": t, "link": "bottleneck", "queue": "all", "sojourn_ms": 2.5} for t in times]
    return Recording(
        metrics.table_of("flows", [flow | {"flow": "a", "cc": "cubic"}, flow | {"flow": "b", "cc": "reno"}]),
        metrics.table_of("members", []),
        metrics.table_of("links", [{"link": "bottleneck", "queue": "all", "rate_mbps": value}]),
        metrics.table_of("series", of_flows + of_queue),
        metrics.table_of("transfers", []),
        metrics.table_of("histograms", []),
        metrics.table_of("losses", []),
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """A folder with all runs but the last ten, as parts: the driver was killed."""
    folder = tmp_path_factory.mktemp("scale")
    file = folder / "x.toml"
    file.write_text(FILE)
    (plan,) = campaign.plan([file])
    ids = [run.id for run in plan.runs]
    with Store(folder / "out") as opened:
        opened.keep_experiment(plan.experiment, plan.runs)
        for n, run in enumerate(ids[:-10]):
            opened.add(run, recording(float(n)))
            if n % 8 == 7:
                opened.flush()
        opened.flush()
    return file, folder / "out", ids


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found: Counter[str] = Counter()

    def counted(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def call(*arguments: object, **named: object) -> object:
            found[name] += 1
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, call)

    counted(sweep, "expand")
    counted(store._Part, "__init__")
    counted(store._Part, "tables")
    counted(sweep, "canonical_json")
    return found


@pytest.mark.slow
def test_a_campaign_of_thousands_of_runs(
    filled: tuple[Path, Path, list[str]], counts: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file, out, ids = filled
    assert len(ids) == RUNS
    # 250 parts were written.
    parts = len(list((out / "parts").iterdir()))
    assert parts <= 2 * (store._MERGE - 1)

    assert main(["status", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[2].split() == ["x", "1990", "2000", "10"]
    assert counts["expand"] == 0, "the ids are kept"
    assert counts["__init__"] == parts
    assert counts["tables"] == 0, "no rows but the ids"

    counts.clear()
    assert main(["run", str(file), "--dry-run", "--out", str(out)]) == 0
    assert "10 runs to do" in capsys.readouterr().out
    assert counts["expand"] == 1
    assert counts["canonical_json"] < 3 * CASES, "once per combination, not per run"

    counts.clear()
    assert main(["run", str(file), "--out", str(out)]) == 0
    messages = capsys.readouterr().err
    assert f"1990 runs are in {out} already" in messages
    assert "10 runs, " in messages
    assert counts["expand"] == 1, "the report has the plans of the campaign"
    flows = pl.read_parquet(out / "flows.parquet")
    assert flows["run"].unique(maintain_order=True).to_list() == ids
    assert flows.group_by("run", "flow").len()["len"].unique().to_list() == [1]
    assert pl.read_parquet(out / "claims.parquet")["verdict"].to_list() == ["holds"]

    counts.clear()
    assert main(["report", str(out)]) == 0
    assert counts["expand"] == 1
    page = (out / "report.html").read_text()
    assert len(page) < 5_000_000
    assert f"{CASES - results.MAX_CASES} more cases are under" in page
    assert set(re.findall(r'"([0-9a-f]{16})":"', page)) >= set(ids), "every run can be opened"


@pytest.mark.slow
def test_consolidation_holds_a_bounded_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.toml"
    file.write_text(FILE.replace("trials = 5", "trials = 1"))
    (plan,) = campaign.plan([file])
    with Store(tmp_path / "out") as opened:
        for n, run in enumerate(plan.runs):
            opened.add(run.id, recording(float(n)))
            if n % 100 == 99:
                opened.flush()
        heights = []
        labelled = store._labelled

        def watched(*arguments: Any) -> Iterator[pl.DataFrame]:
            for frame in labelled(*arguments):
                heights.append(len(frame))
                yield frame

        monkeypatch.setattr(store, "_labelled", watched)
        opened.consolidate([plan])
    assert sum(heights) == CASES * (2 + 1 + 3 * SAMPLES)
    assert max(heights) <= store._CHUNK * 3 * SAMPLES
