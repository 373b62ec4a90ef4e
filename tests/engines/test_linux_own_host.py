"""A bottleneck in the sender's host: the laboratory, and the kernel's TCP against the simulator's."""

from __future__ import annotations

import json

import pytest
from l4slab.engines.linux import kernels, lab
from l4slab.engines.linux.engine import LinuxEngine, refuse
from l4slab.engines.real.engine import refuse as refuse_real
from l4slab.engines.sim import SimEngine

from .conftest import CUBIC, ONE_LINK, TWO_LINKS, Describe

SECOND = CUBIC.replace('"a"', '"b"')


def local(links: str) -> str:
    return links.replace('qdisc = "pfifo limit 50"', 'qdisc = "pfifo limit 50"\non_host = true')


def test_senders_and_queue_share_a_host(describe: Describe) -> None:
    made = lab.build(describe(local(TWO_LINKS) + CUBIC + SECOND))
    assert [flow.client for flow in made.flows] == ["k1", "k1"]
    assert lab.forward(made, made.flows[0]) == ["k1", "x1", "d1", "k2", "x2", "s1"]
    script = lab.script(made)
    host = script.partition("ip netns exec k1 sh -e <<EOF\n")[2].partition("\nEOF\n")[0].splitlines()
    assert [line for line in host if line.startswith("addr add")] == [
        f"addr add {flow.source}/32 dev lo" for flow in made.flows
    ]
    assert "ip link add copies type dummy" in host
    assert "filter add dev out egress matchall action mirred egress mirror dev copies" in host
    assert "ethtool -K copies tso off gso off" not in host
    assert "link 0 k1 out copies" in made.plan
    assert "link 1 k2 out" in made.plan
    # What the queue cuts is copied as segments.
    cut = lab.script(lab.build(describe(local(ONE_LINK).replace("pfifo limit 50", "dualpi2") + CUBIC)))
    assert "ethtool -K copies tso off gso off" in cut.splitlines()


def test_a_host_has_one_setting_for_all(describe: Describe) -> None:
    run = describe(local(ONE_LINK) + CUBIC + SECOND)
    refuse(run, None)
    other = describe(local(ONE_LINK) + CUBIC + SECOND.replace("classic", "off"))
    with pytest.raises(ValueError, match="a kernel has one tcp_ecn per host; give them the same ecn"):
        refuse(other, None)
    with pytest.raises(ValueError, match="the real engine has no link in the sender's host"):
        refuse_real(run, ("cubic",))


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
@pytest.mark.parametrize(
    ("cc", "qdisc", "count", "tolerance"),
    [
        # Two bursts in a FIFO of a thousand packets.
        ("cubic", "pfifo limit 1000", 1, 0.1),
        ("prague", "dualpi2", 1, 0.05),
        ("prague", "pfifo limit 1000", 2, 0.05),
        ("bbr", "fq_codel", 1, 0.1),
        # Refused packets.
        ("cubic", "pfifo limit 1", 1, 0.2),
        ("cubic", "pfifo limit 10", 8, 0.15),
    ],
)
def test_both_engines_know_what_is_in_the_queue(
    describe: Describe, cc: str, qdisc: str, count: int, tolerance: float
) -> None:
    text = f'[link.one]\nrate = "20Mbit"\nqdisc = "{qdisc}"\non_host = true\n'
    text += f'[[flow]]\nname = "a"\ncc = "{cc}"\nrtt = "20ms"\ncount = {count}\n'
    run = json.dumps(describe(text, duration='"15s"', warmup='"5s"'))
    ours, theirs = (engine.execute(run, None) for engine in (SimEngine(), LinuxEngine()))
    for table, column, most in (("flows", "goodput_mbps", tolerance), ("links", "sojourn_ms_mean", tolerance)):
        here, there = (getattr(one, table).row(0, named=True)[column] for one in (ours, theirs))
        assert here == pytest.approx(there, rel=most), column
    for row in (one.flows.row(0, named=True) for one in (ours, theirs)):
        assert row["retransmits"] == 0
        assert (row["dropped_packets"] > 0) == (qdisc in ("pfifo limit 1", "pfifo limit 10"))
