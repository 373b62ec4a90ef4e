"""The simulator behind the page's server: the same figures as `l4slab run`, whatever was changed while it ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import l4slab
import pytest
from l4slab import _core, experimentfile, sweep
from l4slab.engines.contract import LIVE_MEMBERS, LIVE_TRANSFERS
from l4slab.live.server import Server
from websockets.sync.client import connect
from websockets.typing import Origin

from .conftest import Client, serving, socket_of

FILE = """
duration = "3s"
[link.l]
rate = "20Mbit"
qdisc = "dualpi2"
[[flow]]
name = "l4s"
cc = "prague"
rtt = "10ms"
[[flow]]
name = "classic"
cc = "cubic"
rtt = "20ms"
"""
WATCH = {"sample_ns": 100_000_000, "members": True, "histograms": True, "packets": False}


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("native") / "x.toml"
    file.write_text(FILE)
    run = sweep.expand(experimentfile.load(file), "sim").runs[0]
    return dict(run.description)


def test_a_run_that_was_changed_is_the_batch_run_with_these_changes(description: dict[str, Any], page: Path) -> None:
    with serving(Server(file=page)) as address:
        origin = Origin(f"http://{urlsplit(address).netloc}")
        with connect(socket_of(address), origin=origin, max_size=None) as socket:
            live = Client(socket)
            assert live.ask("start", run=description, watch=WATCH)["now_ns"] == 0
            live.ask("advance", until_ns=1_000_000_000)
            changes = [{"link": "l", "rate_bps": 5_000_000}, {"flow": "l4s", "count": 2}, {"link": "l", "qdisc": "pie"}]
            at = []
            for number, change in enumerate(changes):
                at.append(change | live.ask("change", change=change))
                samples = live.ask("advance", until_ns=1_300_000_000 + number * 300_000_000)
                assert samples["series"]["time_s"]
            assert "no link" in live.ask("change", change={"link": "x", "rate_bps": 1_000_000})
            live.ask("advance", until_ns=description["duration_ns"])
            report = live.ask("report")
            whole = live.ask("batch", run=description | {"at": at}, watch=WATCH)
    found = _core.simulate(json.dumps(description | {"at": at}))
    for table in ("flows", "links"):
        assert report[table] == whole[table] == found[table]


def test_a_file_with_changes_of_flows_runs(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(f'{FILE}[[at]]\ntime = "1s"\n"flow.l4s.count" = 0\n"link.l.rate" = "5Mbit"\n')
    results = l4slab.run(file)
    late = results.series.filter(flow="l4s").filter(results.series.filter(flow="l4s")["time_s"] > 2)
    assert late["rate_mbps"].max() == 0
    assert results.links.filter(queue="all")["rate_mbps"].max() < 15


def test_the_columns_of_samples_are_named_for_all_engines(description: dict[str, Any]) -> None:
    live = _core.Live()
    live.ask(json.dumps({"do": "start", "run": description, "watch": WATCH}))
    samples = json.loads(live.ask(json.dumps({"do": "advance", "until_ns": 1_000_000_000})))["ok"]
    assert (*samples["members"],) == LIVE_MEMBERS
    assert (*samples["transfers"],) == LIVE_TRANSFERS
