"""The simulator declares the columns of its tables; no run has others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from l4slab import _core, experimentfile, sweep
from l4slab.base import metrics
from l4slab.engines.sim import SimEngine

FLOWS = {entry["name"]: f'cc = "{entry["name"]}"' for entry in _core.controllers()}
FLOWS |= {
    "prague with fallback": 'cc = "prague"\noptions = { fallback = "detect" }',
    "bbr3 with marks": 'cc = "bbr3"\noptions = { ecn_low = "ect1" }',
    "udp-prague": 'kind = "udp-prague"',
    **{
        f"media {entry['name']}": f'kind = "media"\ncc = "{entry["name"]}"\nrate_max = "5Mbit"'
        for entry in _core.media_controllers()
    },
    "cbr": 'kind = "cbr"\nrate = "1Mbit"',
}
QUEUES = [f"{entry['name']} {entry['required']}".strip() for entry in _core.qdiscs()]
QUEUES += ["fq_codel flows 1", "fq_pie flows 1", "cake bandwidth 5mbit autorate-ingress"]
FILE = """
duration = "2s"
warmup = "1s"
[link.one]
rate = "10Mbit"
qdisc = "{qdisc}"
[[flow]]
name = "a"
rtt = "20ms"
{flow}
[[at]]
time = "1500ms"
link.one.qdisc = "dualpi2"
"""


@pytest.mark.parametrize(
    ("qdisc", "flow"),
    [(qdisc, FLOWS["cubic"]) for qdisc in QUEUES] + [("codel", flow) for flow in FLOWS.values()],
)
def test_no_column_is_undeclared(tmp_path: Path, qdisc: str, flow: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(FILE.format(qdisc=qdisc, flow=flow))
    description = sweep.expand(experimentfile.load(file), "sim").runs[0].description
    declared = SimEngine().columns(description)
    told = _core.simulate(json.dumps(description))
    assert set(told["series"]) <= declared["series"].keys()
    for table in ("flows", "links"):
        assert {column for row in told[table] for column in row} <= declared[table].keys()
    recording = SimEngine().execute(json.dumps(description))
    assert {name: getattr(recording, name).schema for name in metrics.TABLES} == declared
