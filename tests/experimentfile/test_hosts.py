"""Hosts that several flows share: what is described, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from l4slab.base.errors import InputError
from l4slab.experimentfile import load
from l4slab.report import setup
from l4slab.sweep import expand

FILE = """
duration = "4s"
[link.one]
rate = "10Mbit"
qdisc = "prio"
[link.one.class.1]
qdisc = "cake dual-srchost"
[link.one.class.2]
qdisc = "pfifo"
[link.one.class.3]
qdisc = "pfifo"
[[link.one.filter]]
host = "office"
class = "1"
[[link.one.filter]]
host = "b"
class = "2"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
host = "office"
[[flow]]
name = "b"
kind = "cbr"
rate = "1Mbit"
rtt = "10ms"
peer_host = "office"
[[flow]]
name = "c"
cc = "prague"
rtt = "20ms"
host = "phone"
peer_host = "server"
"""


def described(tmp_path: Path, old: str = "", new: str = "") -> dict:
    file = tmp_path / "x.toml"
    file.write_text(FILE.replace(old, new, 1))
    return dict(expand(load(file), "sim").runs[0].description)


def test_hosts_are_numbered_after_the_flows(tmp_path: Path) -> None:
    run = described(tmp_path)
    assert run["hosts"] == ["office", "phone", "server"]
    assert [(flow.get("host"), flow.get("peer_host")) for flow in run["flows"]] == [(3, None), (None, 3), (4, 5)]
    assert [one["host"] for one in run["links"][0]["filters"]] == [3, 1]
    told = dict(setup.settings(run))
    assert told["link one, class 1"] == "for host office"
    assert told["link one, class 2"] == "for the host of flow b"
    assert ", from host phone, to host server" in told["flow c"]


def test_a_run_without_them_is_described_as_ever(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(
        "\n".join(line for line in FILE.splitlines() if not line.startswith(("host =", "peer_host ="))).replace(
            '[[link.one.filter]]\nclass = "1"\n[[link.one.filter]]\nclass = "2"\n', ""
        )
    )
    run = expand(load(file), "sim").runs[0].description
    assert "hosts" not in run
    assert not any("host" in key for flow in run["flows"] for key in flow)


MISTAKES = [
    ('host = "phone"\n', 'host = "b"\n', 'host = "b" is the name of a flow'),
    ('peer_host = "server"', 'peer_host = "phone"', 'peer_host = "phone" is the host that sends'),
    ('host = "phone"\n', 'host = ""\n', "host"),
    ('host = "phone"\n', "host = 3\n", "host = 3"),
    ('host = "phone"\n', 'hosts = "phone"\n', 'did you mean "host"'),
]


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES)
def test_a_mistake_is_one_sentence(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        described(tmp_path, old, new)
    assert said in str(error.value)
    assert "x.toml" in str(error.value)
    assert str(error.value).count("\n") == 0
