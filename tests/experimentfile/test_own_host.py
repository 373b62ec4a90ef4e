"""Links in the sender's host: what the file may say, and what a run's description has."""

from __future__ import annotations

from pathlib import Path

import pytest
from l4slab import experimentfile, sweep
from l4slab.base.errors import InputError
from l4slab.base.run import Run

FILE = """
duration = "4s"
[link.one]
rate = "10Mbit"
qdisc = "pfifo limit 100"
on_host = true
[link.two]
rate = "20Mbit"
qdisc = "pfifo"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[flow]]
name = "b"
cc = "cubic"
rtt = "10ms"
path = ["two"]
"""


def described(folder: Path, text: str) -> Run:
    file = folder / "x.toml"
    file.write_text(text)
    return sweep.describe(experimentfile.load(file), {})


def test_its_flows_hand_down_whole_bursts(tmp_path: Path) -> None:
    run = described(tmp_path, FILE)
    assert [link.get("on_host") for link in run["links"]] == [True, None]
    assert [flow.get("gso") for flow in run["flows"]] == [True, None]
    off = described(tmp_path, FILE.replace("on_host = true", "on_host = false"))
    assert off == described(tmp_path, FILE.replace("on_host = true\n", ""))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('rate = "10Mbit"', 'medium = "leo"', "no medium is in the sender's host"),
        ('path = ["two"]', 'path = ["two", "one"]', 'does not begin with link "one"'),
        ('path = ["two"]', 'path = ["two"]\nreverse_path = ["one"]', "ACKs need another link"),
        ('cc = "cubic"', 'kind = "cbr"\nrate = "1Mbit"', 'is for flows of kind = "tcp"'),
        ('name = "a"', 'name = "a"\nhost = "home"', "whose flows share the host"),
        ("[[flow]]", '[impair.x]\nnetem = "loss 1%"\nbefore = "one"\n[[flow]]', "before which nothing is impaired"),
        (
            "[[flow]]",
            '[[rewrite]]\nflow = "a"\nwhere = "before:one"\nfrom = "ect0"\nto = "not-ect"\n[[flow]]',
            "where nothing is rewritten",
        ),
    ],
)
def test_what_cannot_be_there(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        described(tmp_path, FILE.replace(old, new, 1))
