"""Each packet that came to the network was delivered, was lost somewhere for a reason, or waits."""

from __future__ import annotations

import os

import pytest
from l4slab.base.packaged import random_files
from l4slab.engines.contract import Recording
from l4slab.engines.linux import kernels
from l4slab.engines.registry import get_engine
from l4slab.tools.agreement import random

# More of them, or others: L4SLAB_FATES=1000 L4SLAB_FATES_SEED=7.
SEED = int(os.environ.get("L4SLAB_FATES_SEED", "1"))


def wrong(found: Recording) -> list[str]:
    """What does not add up."""
    sentences = []
    lost: dict[str, int] = {}
    for flow, packets in found.losses.drop_nulls("flow").select("flow", "lost_packets").iter_rows():
        lost[flow] = lost.get(flow, 0) + packets
    for row in found.flows.iter_rows(named=True):
        fates = row["delivered_packets"] + row["lost_packets"] + row["waiting_packets"]
        if row["offered_packets"] != fates or row["lost_packets"] != lost.get(row["flow"], 0):
            sentences.append(f"packets are missing: {row}")
        if max(row["dropped_packets"], row["ce_packets"]) > row["sent_packets"] or row["waiting_packets"] < 0:
            sentences.append(f"more than all: {row}")
    sentences += [
        f"more than all: {row}"
        for row in found.links.iter_rows(named=True)
        if max(row["dropped_packets"], row["marked_packets"]) > row["arrived_packets"]
    ]
    return sentences


def check(engine: str, count: int) -> None:
    """Runs so many scenarios of `agree --random`."""
    for scenario in random.draw(random_files(), count, SEED):
        (run,) = random.runs_of(scenario.document, engine, 1)
        assert not wrong(get_engine(engine).execute(run.json)), f"scenario {scenario.number} of seed {SEED}"


@pytest.mark.slow
def test_every_packet_has_a_fate_in_the_simulator() -> None:
    check("sim", int(os.environ.get("L4SLAB_FATES", "30")))


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel")
def test_every_packet_has_a_fate_on_the_kernel() -> None:
    check("linux", int(os.environ.get("L4SLAB_FATES", "4")))
