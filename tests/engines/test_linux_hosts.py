"""Flows of one host on the kernel: their addresses in the queues of links, and whom cake takes them for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from l4slab.engines.linux import kernels
from l4slab.engines.linux.engine import LinuxEngine, lab
from l4slab.engines.linux.recording.observed import BACKWARD, PACKET, Link

from .conftest import CUBIC, ONE_LINK, Describe

OFFICE = CUBIC + 'host = "office"\n'
UDP = '[[flow]]\nname = "a"\nkind = "cbr"\nrate = "8Mbit"\nrtt = "10ms"\n'
OTHERS = (
    CUBIC.replace('"a"', '"b"') + 'peer_host = "office"\nreverse_path = ["one"]\n',
    CUBIC.replace('"a"', '"c"'),
)


def commands(run: dict, pattern: str) -> list[str]:
    return [line for line in lab.script(lab.build(run)).splitlines() if re.search(pattern, line)]


def test_the_addresses_change_for_the_time_in_the_queue(describe: Describe) -> None:
    run = describe(ONE_LINK + OFFICE + "".join(OTHERS))
    to_host = "filter add dev out egress protocol ip flower"
    back = "filter add dev from_k1 ingress protocol ip flower"
    eth = "action pedit ex munge eth src set"
    # The host is the first name after three flows; flow c has none, and nothing happens to it.
    assert commands(run, "pedit") == [
        f"{to_host} src_ip 10.208.0.1 dst_ip 10.224.0.1 {eth} 06:00:00:00:00:01 munge ip src set 10.240.0.3 "
        "munge ip dst set 10.224.0.1 munge tcp dport set 5001",
        f"{to_host} src_ip 10.208.0.2 dst_ip 10.224.0.2 {eth} 06:00:00:00:00:02 munge ip src set 10.208.0.2 "
        "munge ip dst set 10.240.0.3 munge tcp dport set 5002",
        f"{to_host} src_ip 10.224.0.2 dst_ip 10.208.0.2 {eth} 06:00:00:01:00:02 munge ip src set 10.240.0.3 "
        "munge ip dst set 10.208.0.2 munge tcp sport set 5002",
        f"{back} src_mac 06:00:00:00:00:01 action pedit ex munge ip src set 10.208.0.1 munge ip dst set 10.224.0.1 "
        "munge tcp dport set 5001",
        f"{back} src_mac 06:00:00:00:00:02 action pedit ex munge ip src set 10.208.0.2 munge ip dst set 10.224.0.2 "
        "munge tcp dport set 5001",
        f"{back} src_mac 06:00:00:01:00:02 action pedit ex munge ip src set 10.224.0.2 munge ip dst set 10.208.0.2 "
        "munge tcp sport set 5001",
    ]
    assert not commands(describe(ONE_LINK + CUBIC), "pedit|clsact")


PRIO = """
[link.one]
rate = "10Mbit"
qdisc = "prio"
[link.one.class.1]
qdisc = "pfifo"
[link.one.class.2]
qdisc = "pfifo"
[link.one.class.3]
qdisc = "pfifo"
[[link.one.filter]]
host = "office"
class = "1"
[[link.one.filter]]
host = "c"
class = "3"
"""


def test_a_filter_finds_a_host_in_both_roles(describe: Describe) -> None:
    run = describe(PRIO + OFFICE + "".join(OTHERS))
    assert [line.split("flower ")[1] for line in commands(run, "parent 2: protocol")] == [
        "src_ip 10.240.0.3 classid 2:1",
        "dst_ip 10.240.0.3 classid 2:1",
        "src_ip 10.208.0.3 classid 2:3",
        "dst_ip 10.208.0.3 classid 2:3",
    ]
    packets = np.zeros(4, PACKET)
    packets["flow"], packets["kind"] = (1, 2, 2, 3), (0, 0, BACKWARD, 0)
    found = Link("one", packets, [], run["links"][0], [], run["duration_ns"], lab.build(run).flows).bands
    assert [found["1"].tolist(), found["3"].tolist()] == [[True, True, True, False], [False, False, False, True]]


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
def test_cake_is_fair_by_host(describe: Describe, tmp_path: Path) -> None:
    # On each link four flows in two groups, which have the same ports at both ends, and one beside them.
    cases = (
        ("dual-srchost", "host", 1 / 2),
        ("triple-isolate", "host", 1 / 2),
        ("triple-isolate", "peer_host", 1 / 2),
        ("dual-srchost", "peer_host", 1 / 3),
    )
    text = ""
    for number, (mode, key, _) in enumerate(cases):
        text += f'[link.l{number}]\nrate = "8Mbit"\nqdisc = "cake besteffort {mode}"\n'
        of_office = f'count = 2\n{key} = "office{number}"\n'
        for flow, more in (("a", of_office), ("b", of_office), ("c", "")):
            kind = CUBIC if flow == "b" else UDP
            text += kind.replace('"a"', f'"{flow}{number}"') + f'path = ["l{number}"]\n' + more
    flows = LinuxEngine().execute(json.dumps(describe(text, duration='"5s"', warmup='"2s"')), tmp_path).flows
    rates = dict(zip(flows["flow"], flows["goodput_mbps"], strict=True))
    for number, (mode, key, expected) in enumerate(cases):
        share = rates[f"c{number}"] / sum(rates[f"{flow}{number}"] for flow in "abc")
        assert share == pytest.approx(expected, rel=0.05), (mode, key)
