"""A change of a queue while packets wait: the kernel keeps and drops what the simulator keeps and drops."""

from __future__ import annotations

import json
import math
from typing import Any

import polars as pl
import pytest
from l4slab.engines.contract import Recording
from l4slab.engines.linux import kernels
from l4slab.engines.linux.engine import LinuxEngine
from l4slab.engines.sim import SimEngine

from .conftest import Describe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build"),
]

FLOOD = '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "{rate}"\necn = "ect0"\nrtt = "2ms"\n'
LINK = '[link.one]\nrate = "10Mbit"\nqdisc = "{first}"\n' + FLOOD.format(rate="12Mbit")
CLASS = LINK.replace("{first}", "htb default 1").replace(
    "[[flow]]", '[link.one.class.1]\nrate = "10Mbit"\nqdisc = "{first}"\n[[flow]]'
)
RED = "red limit {} min 200000 max 300000 avpkt 1500 burst 150"
# Laws that are slow to signal, so that limits decide.
CHANGES = {
    "pfifo": ("pfifo limit 100", "pfifo limit 200"),
    "pfifo shrinks": ("pfifo limit 200", "pfifo limit 50"),
    "codel": ("codel limit 200 target 500ms", "codel limit 40"),
    "fq_codel": ("fq_codel limit 200 target 500ms", "fq_codel limit 50"),
    "fq": ("fq limit 300 flow_limit 300", "fq limit 50"),
    "pie": ("pie limit 200 target 500ms", "pie limit 50"),
    "dualpi2": ("dualpi2 limit 200 target 900ms", "dualpi2 limit 50"),
    "red": (RED.format(400_000), RED.format(350_000)),
    "tbf": ("tbf rate 9mbit burst 5k limit 150k", "tbf rate 7mbit burst 5k limit 300k"),
    "cake": ("cake bandwidth 9mbit rtt 5s", "cake bandwidth 7mbit"),
    "another kind": ("pfifo limit 100", "bfifo limit 300k"),
}


def both(run: dict[str, Any]) -> tuple[Recording, Recording]:
    text = json.dumps(run)
    return SimEngine().execute(text), LinuxEngine().execute(text)


def waiting(recording: Recording) -> list[int]:
    """The backlog at each sample after the change."""
    rows = recording.series.filter((pl.col("queue") == "all") & (pl.col("time_s") > 2.05)).sort("time_s")
    return [int(backlog) for backlog in rows["backlog_packets"]]


IN_A_CLASS = ("pfifo", "fq_codel", "cake")


@pytest.mark.parametrize(
    ("name", "place"), [*((name, "link") for name in CHANGES), *((name, "class") for name in IN_A_CLASS)]
)
def test_what_waits_after_a_change(describe: Describe, name: str, place: str) -> None:
    first, then = CHANGES[name]
    key = "link.one.qdisc" if place == "link" else "link.one.class.1.qdisc"
    at = f'[[at]]\ntime = "2s"\n"{key}" = "{then}"\n'
    run = describe((LINK if place == "link" else CLASS).format(first=first) + at, duration='"2.6s"')
    simulated, measured = both(run)
    for mine, kernels_ in zip(waiting(simulated), waiting(measured), strict=True):
        assert mine == pytest.approx(kernels_, abs=2)
    dropped, kernels_dropped = (one.links["dropped_packets"][0] for one in (simulated, measured))
    assert dropped == pytest.approx(kernels_dropped, abs=3)


RATE = 12.0  # Mb/s
# The options before and after, the rate that passes if nothing is lost, and the share that is lost by chance.
NETEMS = {
    "rate": ("rate 5mbit delay 10ms limit 100", "delay 20ms limit 100", 5.0, 0),
    "correlation": ("loss 30% 50% limit 10000", "loss 30% limit 10000", RATE, 0.129),
    "no correlation": ("loss 30% 50% limit 10000", "loss 30% 0% limit 10000", RATE, 0.3),
    "ecn": ("loss 20% ecn limit 10000", "loss 20% limit 10000", RATE, 0),
    "slot": ("slot 20ms limit 10000", "limit 10000", RATE, 0),
    "slot ends": ("slot 20ms packets 5 limit 100", "slot 0 limit 100", RATE, 0),
    "table of a slot": ("slot distribution normal 20ms 5ms packets 5", "slot 20ms packets 5", RATE, 0),
}


def five_deviations(lost: float, packets: float) -> float:
    """Of the share that is lost of so many packets, if losses have a correlation of at most a half. The kernel draws
    other numbers in each run, so that a narrower bound fails now and then.
    """
    return 5 * math.sqrt(lost * (1 - lost) / packets * (1 + 0.5) / (1 - 0.5))


@pytest.mark.parametrize("name", NETEMS)
def test_what_netem_keeps(describe: Describe, name: str) -> None:
    first, then, passes, lost = NETEMS[name]
    impair = f'[impair.n]\nnetem = "{first}"\nbefore = "one"\n[[at]]\ntime = "4s"\n"impair.n.netem" = "{then}"\n'
    run = describe(LINK.format(first="pfifo").replace('"10Mbit"', '"1Gbit"') + impair, duration='"10s"')
    for recording in both(run):
        rates = recording.series.filter((pl.col("flow") == "u") & (pl.col("time_s") > 5))["rate_mbps"]
        assert rates.mean() == pytest.approx(
            passes * (1 - lost), abs=0.025 * passes + passes * five_deviations(lost, 4900)
        )


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_a_corrupted_datagram_is_not_delivered(describe: Describe, share: float) -> None:
    impair = f'[impair.n]\nnetem = "corrupt {share:.0%} limit 10000"\nbefore = "one"\n'
    run = describe(LINK.format(first="pfifo").replace('"10Mbit"', '"1Gbit"') + impair)
    for recording in both(run):
        flow = recording.flows.row(0, named=True)
        assert flow["delivered_packets"] / flow["offered_packets"] == pytest.approx(1 - share, abs=0.02)
        assert flow["goodput_mbps"] == pytest.approx(12 * 1472 / 1514 * (1 - share), abs=0.3)
        assert recording.losses["lost_packets"].sum() == flow["lost_packets"]
