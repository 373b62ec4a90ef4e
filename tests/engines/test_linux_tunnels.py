"""WireGuard between the kernel's namespaces: where packets go, and what comes of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from l4slab.engines.contract import LackingError
from l4slab.engines.linux import engine, kernels, lab
from l4slab.engines.linux.engine import LinuxEngine

from .conftest import CUBIC, ONE_LINK, TWO_LINKS, Describe

VPN = '[tunnel.vpn]\nkind = "wireguard"\n'


def lines(made: lab.Lab, pattern: str) -> list[str]:
    return [line for line in lab.script(made).splitlines() if re.search(pattern, line)]


def test_data_and_acks_go_through_both_ends(describe: Describe) -> None:
    impair = '[impair.w]\nnetem = "delay 1ms"\nbefore = "two"\ndirection = "both"\n'
    flow = CUBIC + 'path = ["one", "two"]\nreverse_path = ["two"]\n'
    made = lab.build(describe(TWO_LINKS + VPN + 'links = ["two"]\n' + impair + flow))
    there = [("d1", "k1"), ("k1", "x1"), ("x1", "t1"), ("t1", "i1"), ("i1", "k2"), ("k2", "x2"), ("x2", "u1")]
    back = [("s1", "u1"), ("u1", "j1"), ("j1", "y1"), ("y1", "k2"), ("x2", "t1"), ("t1", "c1")]
    assert {*there, ("u1", "s1"), *back} <= set(made.edges)
    # Inside, the route is that of the other end.
    assert made.routes["t1"] == {"10.224.0.1": "wg", "10.200.1.2": "to_i1", "10.208.0.1": "to_c1"}
    assert made.routes["u1"] == {"10.208.0.1": "wg", "10.200.1.1": "to_j1", "10.224.0.1": "to_s1"}
    assert made.routes["i1"] == {"10.200.1.2": "to_k2"}
    assert [line for line in made.plan if line.startswith("tunnel")] == ["tunnel 1 1 u1", "tunnel 1 0 t1"]
    assert lines(made, "wireguard") == ["link add wg mtu 1420 type wireguard"] * 2
    assert lines(made, "mtu 1420$")


def test_without_acks_inside_the_handshake_has_a_way_back(describe: Describe) -> None:
    made = lab.build(describe(ONE_LINK + VPN + CUBIC))
    assert {("u1", "t1"), ("s1", "c1")} <= set(made.edges)
    assert made.routes["u1"]["10.200.1.1"] == "to_t1"


@pytest.mark.parametrize(
    ("mode", "cleared"),
    [
        ("normal", set()),
        (
            "compatibility",
            {"egress protocol ip flower src_ip 10.200.1.1", "egress protocol ip flower src_ip 10.200.1.2"},
        ),
        ("copied", {"ingress protocol ip flower dst_ip 10.200.1.1", "ingress protocol ip flower dst_ip 10.200.1.2"}),
    ],
)
def test_modes_clear_the_field_outside(describe: Describe, mode: str, cleared: set[str]) -> None:
    made = lab.build(describe(ONE_LINK + VPN + f'ecn = "{mode}"\n' + CUBIC))
    found = {re.sub(r".*(egress|ingress)", r"\1", line).split(" action")[0] for line in lines(made, "retain 0x3")}
    assert found == cleared


@pytest.mark.parametrize(
    ("qdisc", "filters"),
    [
        ("pfifo", []),
        ("fq_codel flows 64", ["handle 1 flow hash keys src,dst,proto,proto-src,proto-dst divisor 64"]),
        ("cake", ["src_ip 10.200.1.1 classid 2:1", "src_ip 10.200.1.2 classid 2:1"]),
    ],
)
def test_a_fair_queue_sees_headers_only(describe: Describe, qdisc: str, filters: list[str]) -> None:
    link = ONE_LINK.replace("pfifo limit 50", qdisc)
    found = lines(lab.build(describe(link + VPN + CUBIC)), "parent 2:")
    assert len(found) == len(filters)
    assert all(line.endswith(wanted) for line, wanted in zip(found, filters, strict=True))
    assert not lines(lab.build(describe(link + CUBIC)), "parent 2:")


CBR = '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "1Mbit"\nrtt = "0ms"\npacket = "200B"\n'
REFUSED = {
    "another kind": ('kind = "wireguard"', 'kind = "gre"', "wireguard"),
    "another overhead": ('kind = "wireguard"', 'kind = "wireguard"\noverhead = "80B"', "own overhead"),
    "a window": ('kind = "wireguard"', 'kind = "wireguard"\nreplay_window = 64', "own replay_window"),
    "copied DSCP": ('kind = "wireguard"', 'kind = "wireguard"\ndscp = "copied"', "own dscp"),
    "a large MTU": ('kind = "wireguard"', 'kind = "wireguard"\nmtu = "1480B"', 'mtu = "1440B"'),
    "two paths": (CBR, CBR + 'path = ["two"]\n', "a tunnel for each path"),
    "a rewrite": (CBR, CBR + '[[rewrite]]\nflow = "u"\nwhere = "after:one"\nfrom = "ect0"\nto = "ce"\n', "rewrites no"),
    "fq": ("pfifo limit 50", "fq", "by the flows inside; use fq_codel"),
    "another kind of queue": (
        CBR,
        CBR + '[[at]]\ntime = "1s"\n"link.one.qdisc" = "fq_codel"\n',
        "change of the kind of its queue",
    ),
    "corruption": (CBR, CBR + '[impair.i]\nnetem = "corrupt 1%"\nbefore = "one"\n', "corrupt"),
    "a program": (
        CBR,
        '[[flow]]\nname = "p"\nkind = "program"\nserver = "true"\nclient = "true {server}"\nrtt = "1ms"\n',
        "program",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_kernel_does_not_do_is_told(describe: Describe, name: str) -> None:
    old, new, words = REFUSED[name]
    text = TWO_LINKS + VPN + CUBIC + CBR
    engine.refuse(describe(text), None)
    with pytest.raises((LackingError, ValueError), match=words):
        engine.refuse(describe(text.replace(old, new)), None)


@pytest.fixture
def linux() -> LinuxEngine:
    if (sentence := LinuxEngine().lacking()) is not None or kernels.installed() is None:
        pytest.skip(sentence or "there is no kernel")
    return LinuxEngine()


def flows(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    import json

    recording = LinuxEngine().execute(json.dumps(run))
    return {row["flow"]: row for row in recording.flows.to_dicts()}


@pytest.mark.slow
def test_lengths_and_marks_on_the_kernel(linux: LinuxEngine, describe: Describe) -> None:
    """Each packet has WireGuard's length on the link, and an end that copies ECN keeps what the queue marks."""
    cbr = CBR.replace('rate = "1Mbit"', 'rate = "8Mbit"\necn = "ect1"').replace("200B", "777B")
    found = flows(describe(ONE_LINK.replace("pfifo limit 50", "dualpi2") + VPN + cbr))["u"]
    # 763 B are padded to 768: 14 + 60 + 768 of 777.
    ratio = found["rate_mbps"] / (8 * 842 / 777)
    assert abs(ratio - 1) < 0.002, found
    assert found["lost_packets"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("qdisc", ["fq_codel", "sfq", "cake"])
def test_a_tunnel_is_one_flow_on_the_kernel(linux: LinuxEngine, describe: Describe, qdisc: str) -> None:
    """A sparse flow waits as long as the one that fills the queue, and without the tunnel for next to nothing."""
    greedy = CBR.replace('rate = "1Mbit"', 'rate = "20Mbit"').replace("200B", "1400B").replace('"u"', '"v"')
    text = ONE_LINK.replace("pfifo limit 50", qdisc) + CBR.replace('rate = "1Mbit"', 'rate = "200kbit"') + greedy
    waits = {}
    for tunnel in ("", VPN):
        found = flows(describe(text + tunnel))
        waits[tunnel] = found["u"]["sojourn_ms_mean"] / found["v"]["sojourn_ms_mean"]
    assert waits[""] < 0.2 < 0.5 < waits[VPN] < 2, waits


@pytest.mark.slow
def test_an_exit_without_marks_leaves_prague_unchecked(linux: LinuxEngine, describe: Describe) -> None:
    """As the simulator says: with `copied`, CUBIC in the same DualPI2 starves; with `compatibility` it does not."""
    link = ONE_LINK.replace("pfifo limit 50", "dualpi2").replace("10Mbit", "20Mbit")
    prague = CUBIC.replace('"a"', '"l4s"').replace("cubic", "prague").replace('ecn = "classic"\n', "")
    shares = {}
    for mode in ("copied", "compatibility"):
        run = describe(
            link + VPN + f'ecn = "{mode}"\n' + CUBIC.replace('ecn = "classic"\n', "") + prague,
            duration='"12s"',
            warmup='"5s"',
        )
        shares[mode] = flows(run)["a"]["share"]
    assert shares["copied"] < 0.15 < 0.3 < shares["compatibility"], shares
