"""Classes on the kernel: the commands, which packets are of which class, and the kernel's own counts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from l4slab import kernels
from l4slab.engines.linux import LinuxEngine, engine, lab
from l4slab.engines.linux.recording.observed import BACKWARD, PACKET, Link

from .conftest import CUBIC, Describe

HTB = """
[link.one]
rate = "10Mbit"
qdisc = "htb default b"
[link.one.class.1]
rate = "9Mbit"
[link.one.class.a]
parent = "1"
rate = "3Mbit"
ceil = "9Mbit"
quantum = "3028B"
qdisc = "dualpi2"
[link.one.class.b]
parent = "1"
rate = "2Mbit"
ceil = "9Mbit"
prio = 1
qdisc = "pfifo limit 50"
[[link.one.filter]]
dscp = "ef"
ecn = "ect0"
class = "a"
[[link.one.filter]]
host = "b"
class = "a"
"""
PRIO = """
[link.one]
rate = "10Mbit"
qdisc = "prio"
[link.one.class.1]
qdisc = "pfifo"
[link.one.class.2]
qdisc = "fq_codel"
[link.one.class.3]
qdisc = "pfifo limit 30"
[[link.one.filter]]
ecn = "ect1"
class = "1"
"""
TWO_FLOWS = CUBIC + 'dscp = "ef"\n' + CUBIC.replace('"a"', '"b"') + 'dscp = "af11"\n'


def of_tree(run: dict[str, Any]) -> list[str]:
    script = lab.script(lab.build(run)).splitlines()
    return [line for line in script if re.search(r"parent (2:|1:1 )", line)]


def test_the_commands_of_a_tree(describe: Describe) -> None:
    assert of_tree(describe(HTB + TWO_FLOWS)) == [
        "qdisc replace dev out parent 1:1 handle 2: htb default b",
        "class replace dev out parent 2: classid 2:1 htb rate 9000000bit ceil 9000000bit burst 1600b cburst 1600b "
        "prio 0 quantum 112500",
        "class replace dev out parent 2:1 classid 2:a htb rate 3000000bit ceil 9000000bit burst 1600b cburst 1600b "
        "prio 0 quantum 3028",
        "class replace dev out parent 2:1 classid 2:b htb rate 2000000bit ceil 9000000bit burst 1600b cburst 1600b "
        "prio 1 quantum 25000",
        *[
            f"qdisc replace dev out parent 2:{one['id']} handle f00{number}: {one['qdisc']}"
            for number, one in enumerate(describe(HTB + TWO_FLOWS)["links"][0]["classes"])
            if "qdisc" in one
        ],
        "filter add dev out parent 2: protocol ip pref 1 flower ip_tos 0xba/0xff classid 2:a",
        "filter add dev out parent 2: protocol ip pref 2 flower src_ip 10.208.0.2 classid 2:a",
        "filter add dev out parent 2: protocol ip pref 3 flower dst_ip 10.208.0.2 classid 2:a",
    ]


def test_prio_makes_its_classes_itself(describe: Describe) -> None:
    commands = of_tree(describe(PRIO + CUBIC))
    assert commands[0].endswith("handle 2: prio bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1")
    assert [line.split()[5] for line in commands[1:4]] == ["2:1", "2:2", "2:3"]
    assert not any("class replace" in line for line in commands)


def bands(run: dict[str, Any], packets: list[tuple[int, int, int]]) -> list[str]:
    """The class of each packet: (flow, ECN, kind)."""
    array = np.zeros(len(packets), PACKET)
    for row, (flow, ecn, kind) in zip(array, packets, strict=True):
        row["flow"], row["ecn_in"], row["kind"] = flow, ecn, kind
    found = Link("one", array, [], run["links"][0], [], run["duration_ns"], lab.build(run).flows).bands
    assert sum(which.astype(int) for which in found.values()).tolist() == [1] * len(packets)
    return [next(name for name, which in found.items() if which[i]) for i in range(len(packets))]


def test_the_first_filter_that_fits_decides(describe: Describe) -> None:
    run = describe(HTB + TWO_FLOWS)
    # EF with ECT(0), EF with CE, the other host's data and ACKs.
    assert bands(run, [(1, 2, 0), (1, 3, 0), (2, 0, 0), (2, 0, BACKWARD)]) == ["a", "b", "a", "a"]


def test_the_priomap_gets_what_no_filter_takes(describe: Describe) -> None:
    run = describe(PRIO + TWO_FLOWS)
    # EF is Linux's priority 4, AF11 is 2; ACKs have no DSCP.
    assert bands(run, [(1, 2, 0), (2, 2, 0), (2, 1, 0), (2, 0, BACKWARD)]) == ["2", "3", "1", "2"]


def test_a_program_is_not_sorted_by_a_codepoint_that_nobody_knows(describe: Describe) -> None:
    run = describe(HTB + TWO_FLOWS)
    run["flows"][0] |= {"kind": "program", "server": "cat", "client": "cat {server}", "files": {}}
    with pytest.raises(ValueError, match="sorts packets by DSCP"):
        engine.refuse(run, None)


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
@pytest.mark.parametrize("tree", [HTB, PRIO])
def test_the_kernel_counts_the_same_packets_in_each_class(describe: Describe, tmp_path: Path, tree: str) -> None:
    # All that they send has left before the end, so that both have counted all of it.
    flows = TWO_FLOWS.replace('rtt = "20ms"', 'rtt = "20ms"\nbytes = "800kB"')
    run = describe(tree + flows, warmup='"0s"')
    links = LinuxEngine().execute(json.dumps(run), tmp_path).links
    text = (tmp_path / "teardown.txt").read_text()
    for name in (one["id"] for one in run["links"][0]["classes"] if "qdisc" in one):
        counted = re.search(rf"class (?:htb|prio) 2:{name} .*?Sent \d+ bytes (\d+) pkt", text, re.DOTALL)
        row = next((row for row in links.iter_rows(named=True) if row["queue"] == name), None)
        assert counted is not None
        assert row is not None
        assert int(counted[1]) == row["sent_packets"]
