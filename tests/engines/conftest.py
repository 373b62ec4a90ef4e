"""Descriptions of runs, as experiment files resolve to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from l4slab import spec, sweep

Describe = Callable[..., dict[str, Any]]


@pytest.fixture
def describe(tmp_path: Path) -> Describe:
    """The description of the first run of a file with this text."""

    def resolve(text: str, **top: str) -> dict[str, Any]:
        file = tmp_path / "x.toml"
        head = {"duration": '"4s"', "warmup": '"1s"'} | top
        file.write_text("".join(f"{key} = {value}\n" for key, value in head.items()) + text)
        return dict(sweep.expand(spec.load(file), "linux").runs[0].description)

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
