"""What is told of single flows and of distributions, from the experiment file to the tables."""

from __future__ import annotations

from pathlib import Path

import l4slab
import polars as pl
import pytest
from l4slab import InputError, experimentfile, sweep
from l4slab.base import metrics

FILE = """
duration = "4s"
warmup = "1s"
trials = 2
per_flow = true
[link.bottleneck]
rate = "20Mbit"
qdisc = "fq_codel"
[[flow]]
name = "bulk"
cc = "cubic"
count = 3
rtt = "20ms"
[[flow]]
name = "short"
cc = "reno"
count = 2
bytes = "100kB"
start = "2s"
rtt = "10ms"
[[claim]]
id = "each flow has a row"
sql = "select count(*) = 2 * 5 and max(member) = 3 from members"
[[claim]]
id = "bins add up"
sql = "select (select sum(count) from histograms where quantity = 'sojourn_ms' and queue = 'all') = sum(sent_packets) from links where queue = 'all'"
"""  # noqa: E501


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> l4slab.Results:
    folder = tmp_path_factory.mktemp("members")
    (folder / "x.toml").write_text(FILE)
    return l4slab.run(folder / "x.toml", out=folder / "out", workers=1)


def test_the_tables_are_there(results: l4slab.Results) -> None:
    assert results.claims["verdict"].to_list() == ["holds", "holds"]
    assert results.members.select("trial", "flow", "member").rows() == [
        (trial, flow, member)
        for trial in (1, 2)
        for flow, count in (("bulk", 3), ("short", 2))
        for member in range(1, count + 1)
    ]
    assert results.histograms.columns[4:] == list(metrics.HISTOGRAMS)
    assert results.transfers["slowdown"].min() >= 1  # type: ignore[operator]
    assert results.flows["slowdown_p50"].is_null().to_list() == [True, False] * 2


def test_members_belong_to_the_run(tmp_path: Path) -> None:
    """With the key a run is another one, without it the description does not mention it."""
    file = tmp_path / "x.toml"
    ids = []
    for line in ("per_flow = true", "per_flow = false", ""):
        file.write_text(FILE.replace("per_flow = true", line))
        ids.append([run.id for run in sweep.expand(experimentfile.load(file), "sim").runs])
    assert ids[1] == ids[2]
    assert {*ids[0]}.isdisjoint(ids[1])
    file.write_text(FILE.replace("per_flow = true", 'per_flow = "yes"'))
    with pytest.raises(InputError, match="per_flow"):
        sweep.expand(experimentfile.load(file), "sim")


def test_a_distribution_over_all_trials(results: l4slab.Results) -> None:
    """The query of the documentation: it ends at 1, and its median is between those of the trials."""
    docs = (Path(__file__).parents[2] / "docs" / "results.md").read_text("utf-8")
    queries = [block.partition("```")[0] for block in docs.split("```sql\n")[1:]]
    sql = next(query for query in queries if "from histograms" in query)
    curve = results.sql(sql)
    assert curve.group_by("flow").agg(pl.col("y").last())["y"].to_list() == pytest.approx([1.0, 1.0])
    medians = results.flows.filter(flow="bulk")["sojourn_ms_p50"]
    median = curve.filter(pl.col("y") >= 0.5, flow="bulk")["x"][0]
    assert 0.98 * medians.min() <= median <= 1.02 * medians.max()  # type: ignore[operator]
