"""A folder with an experiment file and code of one's own beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

Folder = Callable[..., Path]

_EXPERIMENT = """
duration = "{duration}"
warmup = "{warmup}"
[link.bottleneck]
rate = "{rate}"
qdisc = "{qdisc}"
[[flow]]
name = "a"
cc = "{cc}"
rtt = "{rtt}"
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Folder:
    """Write files, and an experiment of one flow; its path."""

    def write(files: dict[str, str | bytes], more: str = "", **keys: str) -> Path:
        for name, content in files.items():
            text = dedent(content).encode() if isinstance(content, str) else content
            (tmp_path / name).write_bytes(text)
        standard = {"duration": "2s", "warmup": "0s", "rate": "10Mbit", "qdisc": "pfifo", "cc": "cubic", "rtt": "10ms"}
        path = tmp_path / "x.toml"
        path.write_text(_EXPERIMENT.format(**standard | keys) + more)
        return path

    return write
