"""What a file is resolved to is what the schema of the core's types says, and the types that follow from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from l4slab import experimentfile, sweep

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/generated/run.schema.json").read_text("utf-8"))
# Made once: `jsonschema.validate` checks the schema itself each time.
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)
FILES = sorted(
    file
    for folder in ("examples/cookbook", "python/l4slab/suites/agree", "tests/live/page")
    for file in (ROOT / folder).rglob("*.toml")
    if "study" not in file.stem
)


def one_run(file: Path) -> dict[str, Any]:
    plan = sweep.expand(experimentfile.load(file), "linux")
    return json.loads(plan.runs[0].json)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_resolved_file_fits_the_schema(file: Path) -> None:
    VALIDATOR.validate(one_run(file))


EVERYTHING = """
duration = "2s"
per_flow = true
[link.a]
rate = "10Mbit"
qdisc = "htb default 10"
[link.a.class.1]
rate = "10Mbit"
[link.a.class.10]
parent = "1"
rate = "5Mbit"
qdisc = "fq_codel"
[[link.a.filter]]
class = "10"
dscp = "ef"
[impair.w]
netem = "delay 1ms"
before = "a"
direction = "both"
ack_thinning = 2
ack_wait = "1ms"
[[flow]]
name = "p"
kind = "program"
server = "iperf3 -s"
client = "iperf3 -c {server}"
rtt = "10ms"
host = "home"
env = { A = "1" }
[[flow]]
name = "t"
cc = "cubic"
rtt = "10ms"
mtu = "1000B"
rto_min = "50ms"
[[flow]]
name = "w"
kind = "web"
cc = "cubic"
rtt = "10ms"
requests = "10/s"
[[flow]]
name = "v"
kind = "video"
cc = "prague"
rtt = "10ms"
rate = "1Mbit"
controls = "10/s"
[[flow]]
name = "m"
kind = "media"
cc = "none"
rtt = "10ms"
rate_max = "1Mbit"
reaction = "0s"
keyframe_interval = "2s"
feedback_interval = "50ms"
audio = "20kbit"
ecn = "ect1"
[[flow]]
name = "c"
kind = "cbr"
rtt = "10ms"
rate = "1Mbit"
[[flow]]
name = "u"
kind = "udp-prague"
rtt = "10ms"
[[rewrite]]
flow = "t"
where = "before:a"
from = "ect0"
to = "drop"
[[at]]
time = "1s"
"link.a.class.10.rate" = "4Mbit"
"flow.t.rtt" = "20ms"
"impair.w.netem" = "delay 2ms"
"""


def test_everything_that_a_file_can_say_fits_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "everything.toml"
    file.write_text(EVERYTHING)
    VALIDATOR.validate(one_run(file))


def test_a_key_that_the_core_does_not_know_does_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "everything.toml"
    file.write_text(EVERYTHING)
    run = one_run(file)
    for place in (run, run["links"][0], run["impairs"][0], run["at"][0]):
        place["unknown"] = 1
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(run)
        del place["unknown"]
    del run["flows"][1]["rtt_ns"]
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(run)
