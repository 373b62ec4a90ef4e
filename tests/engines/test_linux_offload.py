"""Segmentation offload and interrupt coalescing: the commands of the laboratory, and both engines side by side."""

from __future__ import annotations

import json

import pytest
from l4slab.engines.linux import kernels, lab
from l4slab.engines.linux.engine import LinuxEngine
from l4slab.engines.sim import SimEngine

from .conftest import CUBIC, ONE_LINK, TWO_LINKS, Describe


def commands(made: lab.Lab, namespace: str) -> list[str]:
    script = lab.script(made)
    part = script.partition(f"ip netns exec {namespace} sh -e <<EOF\n")[2].partition("\nEOF\n")[0]
    return [line for line in part.splitlines() if line.startswith("ethtool") or " slot " in line]


def test_devices_keep_packets_whole_up_to_a_queue_that_cuts(describe: Describe) -> None:
    made = lab.build(describe(TWO_LINKS + CUBIC + "gso = true\n"))
    assert commands(made, "c1") == ["ethtool -K to_d1 gro off"]
    assert commands(made, "d1") == commands(made, "k1") == []
    # dualpi2 gets segments, and so does the receiver.
    assert commands(made, "x1") == ["ethtool -K to_k2 tso off gso off"]
    assert commands(made, "x2") == ["ethtool -K to_s1 tso off gso off"]
    whole = lab.build(describe(TWO_LINKS.replace("dualpi2", "dualpi2 no_split_gso") + CUBIC + "gso = true\n"))
    assert commands(whole, "x1") == []


def test_the_receiver_joins_segments_at_its_interrupt(describe: Describe) -> None:
    made = lab.build(describe(ONE_LINK + CUBIC + 'gro = "50us"\n'))
    assert ("x1", "g1") in made.edges
    assert commands(made, "g1") == [
        "ethtool -K to_s1 tso off gso off",
        "qdisc replace dev to_s1 root netem slot 50000ns 50000ns limit 1000000",
    ]
    assert "ethtool -K from_g1 gro on" in commands(made, "s1")
    at_once = lab.build(describe(ONE_LINK + CUBIC + 'gro = "0s"\n'))
    assert "ethtool -K from_x1 gro on" in commands(at_once, "s1")
    plain = lab.script(lab.build(describe(ONE_LINK + CUBIC)))
    assert "gro on" not in plain
    assert lab.script(lab.build(describe(ONE_LINK + CUBIC + "gso = false\n"))) == plain


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
@pytest.mark.parametrize(
    ("qdisc", "cc", "keys"),
    [
        ("codel", "cubic", "gso = true\n"),
        ("fq_codel ce_threshold 1ms", "prague", 'gso = true\ngro = "100us"\n'),
        ("dualpi2", "prague", "gso = true\n"),
    ],
)
def test_both_engines_have_them(describe: Describe, qdisc: str, cc: str, keys: str) -> None:
    text = f'[link.one]\nrate = "50Mbit"\nqdisc = "{qdisc}"\n[[flow]]\nname = "a"\ncc = "{cc}"\nrtt = "10ms"\n{keys}'
    run = json.dumps(describe(text, duration='"8s"', warmup='"3s"'))
    ours, kernels_ = (engine.execute(run, None) for engine in (SimEngine(), LinuxEngine()))
    for table, column, tolerance in (
        ("flows", "goodput_mbps", 0.01),
        ("flows", "sent_packets", 0.1),
        ("links", "sojourn_ms_mean", 0.15),
    ):
        ours_, theirs = (getattr(one, table).row(0, named=True)[column] for one in (ours, kernels_))
        assert ours_ == pytest.approx(theirs, rel=tolerance), column


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
def test_a_pushed_segment_waits_for_the_others_of_its_interrupt(describe: Describe) -> None:
    """Pairs of segments end anywhere in a burst. Acknowledged apart, Prague would see a quarter fewer marks."""
    text = '[link.one]\nrate = "200Mbit"\nqdisc = "dualpi2"\n[[flow]]\nname = "a"\ncc = "prague"\nrtt = "20ms"\n'
    run = json.dumps(describe(text + 'gro = "100us"\n', duration='"8s"', warmup='"3s"'))
    ours, theirs = (engine.execute(run, None).flows.row(0, named=True) for engine in (SimEngine(), LinuxEngine()))
    assert ours["ce_pct"] == pytest.approx(theirs["ce_pct"], rel=0.1)
