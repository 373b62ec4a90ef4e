"""Tests of responsiveness on the engine linux: what their programs are told, what is refused, and what they tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import l4slab
import numpy as np
import pytest
from l4slab import stacks
from l4slab.base.errors import InputError
from l4slab.engines.linux import carried, engine, kernels, lab, recording
from l4slab.engines.linux.recording import CheckError, Observed, responsiveness
from l4slab.engines.linux.recording.observed import Link

from .conftest import ONE_LINK, Describe, built, of_controls

TEST = """
[[flow]]
name = "rpm"
kind = "responsiveness"
cc = "cubic"
rtt = "20ms"
"""


def test_programs_are_told_the_settings_of_the_test(describe: Describe) -> None:
    more = 'count = 2\ninterval = "2s"\nprobes = "50/s"\nconnections = 4\nnotsent = "64kB"\nidle = "500ms"\n'
    plan = lab.build(carried.carried(describe(ONE_LINK + TEST + more))).plan
    flags = "-interval=2000000000ns -gap=20000000ns -idle=500000000ns -connections=4 -notsent=64000"
    programs = [line for line in plan if line.startswith("program ")]
    assert [" server " in line for line in programs] == [True, False, False]
    assert all(line.endswith(flags) for line in programs)
    assert all(str(stacks.find("responsiveness").build) in line for line in programs)
    # The server sends the load, which takes the path.
    assert programs[0].split()[5] == "1"


def test_its_hosts_have_the_controller_with_ecn_and_options(describe: Describe) -> None:
    for cc, ecn in (("prague", 3), ("cubic", 1)):
        text = TEST.replace("cubic", cc) + ('ecn = "classic"\n' if cc == "cubic" else "")
        made = lab.build(carried.carried(describe(ONE_LINK + text)))
        settings = lab.settings(made.flows[0], made.flows[0].client)
        assert f"echo {cc} >/proc/sys/net/ipv4/tcp_congestion_control" in settings
        assert f"echo {ecn} >/proc/sys/net/ipv4/tcp_ecn" in settings
    options = 'options = { hystart = "off" }\n'
    run = carried.carried(describe(ONE_LINK + TEST + options))
    assert lab.module_parameters(run) == {"tcp_cubic/hystart": "0"}


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ('receive_window = "1MB"', "the kernel's TCP decides about receive_window itself; leave it out"),
        ('pace = "2Mbit"', "the kernel's TCP decides about pace itself"),
        ('mtu = "1000B"', "the kernel's TCP decides about mtu itself"),
        ('peer_ecn = "classic"', "the kernel's TCP decides about peer_ecn itself"),
        ('ecn = "sce"', "no Linux kernel has SCE"),
        ('options = { rules = "rfc9438" }', "the kernel's cubic has no option rules"),
    ],
)
def test_what_its_hosts_cannot_do_is_refused(describe: Describe, more: str, sentence: str) -> None:
    with pytest.raises((InputError, ValueError)) as refused:
        engine.refuse(describe(ONE_LINK + TEST + more + "\n"), of_controls("reno", "cubic"))
    assert sentence in str(refused.value)


def observed(describe: Describe, said: dict[str, str], more: str = "") -> Observed:
    made = lab.build(carried.carried(describe(ONE_LINK + TEST + more)))
    link = Link("one", np.empty(0, recording.PACKET), [], made.run["links"][0], [], made.run["duration_ns"])
    return Observed(made, [link], np.empty(0, recording.SAMPLE), [], [], said=said)


def score(**more: Any) -> str:
    return json.dumps({"rpm": 2000, "rpm_foreign": 3000, "rpm_self": 1000, "rpm_confidence": "high"} | more)


def test_scores_of_a_flow_are_means_of_its_tests(describe: Describe) -> None:
    said = {
        "rpm.client.1.out": score(idle_ms_p50=20, active_mbps=20),
        "rpm.client.2.out": score(rpm_self=500, rpm=1750),
    }
    seen = observed(describe, said, "count = 2\n")
    row = responsiveness.of_flow(seen, seen.lab.flows[0])
    assert (row["rpm"], row["rpm_foreign"], row["rpm_self"]) == (1875, 3000, 750)
    assert row["active_mbps"] == 20
    assert (row["idle_ms_p50"], row["loaded_ms_p50"], row["rpm_confidence"]) == (20, None, "high")
    said["rpm.client.2.out"] = score(rpm_confidence="low")
    assert responsiveness.of_flow(seen, seen.lab.flows[0])["rpm_confidence"] == "mixed"


def test_what_is_no_score_is_told(describe: Describe) -> None:
    seen = observed(describe, {"rpm.client.1.out": "hello"})
    with pytest.raises(CheckError, match=r'rpm\.client\.1\.out has no score of responsiveness at its end: "hello"'):
        responsiveness.of_flow(seen, seen.lab.flows[0])


# -- on the kernel -----------------------------------------------------------------------------------------------------

ALONE = """
duration = "20s"
warmup   = "4s"
[link.down]
rate = "20Mbit"
qdisc = "fq_codel"
[link.up]
rate = "20Mbit"
qdisc = "pfifo limit 1000"
[[flow]]
name = "rpm"
kind = "responsiveness"
cc = "cubic"
rtt = "20ms"
interval = "1s"
connections = 1
path = ["down"]
reverse_path = ["up"]
[sweep]
"flow.rpm.notsent" = ["1kB", "64kB"]
"""


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
def test_the_client_and_its_model_agree(tmp_path: Path) -> None:
    built("responsiveness")
    (tmp_path / "rpm.toml").write_text(ALONE)
    model, real = (l4slab.run(tmp_path / "rpm.toml", engine=name).flows for name in ("sim", "linux"))
    columns = ("active_mbps", "rpm", "rpm_foreign", "rpm_self", "idle_ms_p50", "loaded_ms_p50")
    for ours, theirs in zip(model.iter_rows(named=True), real.iter_rows(named=True), strict=True):
        assert {name: theirs[name] for name in columns} == pytest.approx({n: ours[n] for n in columns}, rel=0.1)
        assert (theirs["cc"], theirs["rpm_confidence"], theirs["transfers"]) == ("cubic", "high", 0)
    # What waits at the server is in front of self probes: 63 kB are 25 ms, of 24 and more.
    assert real["rpm_self"][0] > 1.6 * real["rpm_self"][1]
