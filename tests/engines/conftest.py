"""Descriptions of runs, as experiment files resolve to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from l4slab import experimentfile, stacks, sweep
from l4slab.engines.linux import kernels
from l4slab.stacks import building

Describe = Callable[..., dict[str, Any]]


@pytest.fixture
def describe(tmp_path: Path) -> Describe:
    """The description of the first run of a file with this text."""

    def resolve(text: str, engine: str = "linux", **top: str) -> dict[str, Any]:
        file = tmp_path / "x.toml"
        head = {"duration": '"4s"', "warmup": '"1s"'} | top
        file.write_text("".join(f"{key} = {value}\n" for key, value in head.items()) + text)
        return dict(sweep.expand(experimentfile.load(file), engine).runs[0].description)

    return resolve


ONE_LINK = """
[link.one]
rate = "10Mbit"
qdisc = "pfifo limit 50"
"""
TWO_LINKS = (
    ONE_LINK
    + """
[link.two]
rate = "5Mbit"
qdisc = "dualpi2"
"""
)
CUBIC = """
[[flow]]
name = "a"
cc = "cubic"
ecn = "classic"
rtt = "20ms"
"""
# All that they send within nine seconds has arrived or was dropped before these are over.
FOUR_FLOWS = """
[[flow]]
name = "plain"
cc = "cubic"
rtt = "10ms"
bytes = "1500kB"
dscp = "af11"
[[flow]]
name = "classic"
cc = "reno"
ecn = "classic"
rtt = "10ms"
count = 2
bytes = "700kB"
[[flow]]
name = "l4s"
cc = "prague"
rtt = "5ms"
bytes = "1200kB"
[[flow]]
name = "udp"
kind = "cbr"
rate = "1Mbit"
packet = "500B"
ecn = "ect1"
rtt = "10ms"
stop = "8s"
"""


def of_controls(*controls: str) -> kernels.Kernel:
    """A kernel that has these congestion controls."""
    return kernels.Kernel(Path("linux"), "7.2.1", controls, Path("root"))


def built(name: str) -> None:
    """Build a packaged stack, or skip the test where this machine cannot."""
    try:
        building.build(stacks.find(name), lambda *_: None)
    except building.BuildError as error:
        pytest.skip(str(error))
