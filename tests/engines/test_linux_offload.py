"""Hosts as laboratories have them: segmentation offload, interrupt coalescing, applications that write at a rate."""

from __future__ import annotations

import json

import polars as pl
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


BLOCKS = 'app_rate = "8Mbit"\napp_block = "128KiB"\n'
CHANGED = '[[at]]\ntime = "4s"\n"flow.a.{key}" = {first}\n[[at]]\ntime = "6s"\n"flow.a.{key}" = {second}\n'


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
@pytest.mark.parametrize(
    "keys",
    [
        BLOCKS,
        'app_rate = "8Mbit"\n' + CHANGED.format(key="app_rate", first='"2Mbit"', second='"50Mbit"'),
        BLOCKS + CHANGED.format(key="app_rate", first='"2Mbit"', second='"50Mbit"'),
        BLOCKS + CHANGED.format(key="pause", first="true", second="false"),
    ],
)
def test_an_application_with_a_rate_writes_the_same_on_both_engines(describe: Describe, keys: str) -> None:
    text = '[link.one]\nrate = "20Mbit"\nqdisc = "pfifo limit 200"\n[[flow]]\nname = "a"\ncc = "cubic"\nrtt = "20ms"\n'
    run = json.dumps(describe(text + keys, duration='"8s"', warmup='"1s"'))
    ours, theirs = (engine.execute(run, None).series for engine in (SimEngine(), LinuxEngine()))
    for begin in (1, 4, 6):
        span = pl.col("time_s").is_between(begin + 0.3, begin + 2, closed="right") & (pl.col("flow") == "a")
        here, there = (table.filter(span)["goodput_mbps"].mean() for table in (ours, theirs))
        assert here == pytest.approx(there, rel=0.02, abs=0.01), begin
    waits = [table.filter(pl.col("queue") == "all")["sojourn_ms"].mean() for table in (ours, theirs)]
    assert waits[0] == pytest.approx(waits[1], rel=0.15, abs=0.05)


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
@pytest.mark.parametrize("cc", ["cubic", "prague"])
def test_a_window_grows_after_a_rest_as_on_the_kernel(describe: Describe, cc: str) -> None:
    text = f'[link.one]\nrate = "20Mbit"\nqdisc = "pfifo limit 400"\n[[flow]]\nname = "a"\ncc = "{cc}"\nrtt = "40ms"\n'
    text += 'app_rate = "100Mbit"\n' + CHANGED.format(key="pause", first="true", second="false").replace('"6s"', '"9s"')
    run = json.dumps(describe(text, duration='"12s"', warmup='"1s"'))
    after = (pl.col("flow") == "a") & pl.col("time_s").is_between(9.3, 12)
    ours, theirs = (engine.execute(run, None).series.filter(after) for engine in (SimEngine(), LinuxEngine()))
    for column in ("cwnd_packets", "goodput_mbps"):
        assert ours[column].to_list() == pytest.approx(theirs[column].to_list(), rel=0.03), column
