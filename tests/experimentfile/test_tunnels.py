"""`[tunnel.NAME]`: what a kind means, which flows it carries, and what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from l4slab import experimentfile, sweep
from l4slab.cli import main
from l4slab.report.setup import settings
from l4slab.tools.search.documents import without

FILE = """
duration = "1s"
[link.home]
rate = "10Mbit"
qdisc = "dualpi2"
[link.core]
rate = "20Mbit"
qdisc = "pfifo"
[link.up]
rate = "5Mbit"
qdisc = "pfifo"
[tunnel.vpn]
kind = "wireguard"
links = ["home", "up"]
[[flow]]
name = "a"
cc = "prague"
rtt = "10ms"
path = ["home", "core"]
reverse_path = ["up"]
[[flow]]
name = "b"
cc = "cubic"
rtt = "10ms"
path = ["core"]
mtu = "1280B"
[[flow]]
name = "c"
kind = "cbr"
rate = "1Mbit"
rtt = "10ms"
path = ["home"]
packet = "1434B"
"""


def described(folder: Path, file: str) -> dict[str, Any]:
    (folder / "x.toml").write_text(file)
    return sweep.describe(experimentfile.load(folder / "x.toml"), {})


def test_a_kind_brings_its_defaults(tmp_path: Path) -> None:
    run = described(tmp_path, FILE)
    assert run["tunnels"] == [
        {
            "name": "vpn", "kind": "wireguard", "flows": ["a", "c"], "links": ["home", "up"], "overhead_bytes": 60,
            "padding_bytes": 16, "trailer_bytes": 0, "mtu_bytes": 1420, "ecn": "normal", "copies_dscp": False,
            "replay_window": 8129,
        }
    ]  # fmt: skip
    assert [flow.get("mtu_bytes") for flow in run["flows"]] == [1420, 1280, None]
    words = dict(settings(run))["tunnel vpn"]  # type: ignore[arg-type]
    assert words == (
        "wireguard, a, c over home, up, 60 B of overhead, padded to 16 B, MTU 1420 B, ECN normal, replay window 8129"
    )


@pytest.mark.parametrize(
    ("kind", "full"), [("wireguard", 1480), ("ipsec", 1500), ("gre", 1500), ("ipip", 1500), ("masque", 1500)]
)
def test_a_full_packet_of_each_kind_fits_the_wire(tmp_path: Path, kind: str, full: int) -> None:
    (tunnel,) = described(tmp_path, FILE.replace("wireguard", kind).replace("1434B", "1000B"))["tunnels"]
    assert tunnel["mtu_bytes"] + tunnel["overhead_bytes"] == full
    assert (tunnel["mtu_bytes"] + tunnel["trailer_bytes"]) % tunnel["padding_bytes"] == 0 or kind == "wireguard"


def test_own_values_replace_those_of_a_kind(tmp_path: Path) -> None:
    own = 'overhead = "100B"\npadding = "8B"\necn = "bleached"\ndscp = "copied"\nreplay_window = 0\nflows = ["a"]'
    (tunnel,) = described(tmp_path, FILE.replace('kind = "wireguard"', own))["tunnels"]
    assert "kind" not in tunnel
    assert (tunnel["overhead_bytes"], tunnel["padding_bytes"], tunnel["mtu_bytes"]) == (100, 8, 1400)
    assert (tunnel["ecn"], tunnel["copies_dscp"], tunnel["replay_window"]) == ("bleached", True, 0)


def test_without_flows_there_is_no_tunnel(tmp_path: Path) -> None:
    run = described(tmp_path, FILE.replace("[[flow]]", "flows = []\n[[flow]]", 1))
    assert "tunnels" not in run
    assert "mtu_bytes" not in run["flows"][0]


def test_it_can_be_swept_and_set(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(FILE + '[sweep]\n"tunnel.vpn.ecn" = ["normal", "copied"]\n')
    runs = sweep.expand(experimentfile.load(file), "sim").runs
    assert [run.description["tunnels"][0]["ecn"] for run in runs] == ["normal", "copied"]
    run = sweep.describe(experimentfile.load(file, changes={"tunnel.vpn.mtu": "1430B"}), {"tunnel.vpn.ecn": "normal"})
    assert run["tunnels"][0]["mtu_bytes"] == 1430


def test_what_leaves_a_file_leaves_its_tunnels() -> None:
    document: dict[str, Any] = {
        "tunnel": {"vpn": {"kind": "gre", "flows": ["a", "b"], "links": ["home"]}},
        "flow": [{"name": "a"}, {"name": "b"}],
        "link": {"home": {}, "core": {}},
    }
    assert without(document, "flow", "a")["tunnel"] == {"vpn": {"kind": "gre", "flows": ["b"], "links": ["home"]}}
    assert without(document, "link", "home")["tunnel"] == {"vpn": {"kind": "gre", "flows": ["a", "b"]}}
    assert "tunnel" not in without(document, "tunnel", "vpn")


WRONG = {
    "no kind": ('kind = "wireguard"', "", ["tunnel.vpn", "has no kind", "wireguard", "60B"]),
    "unknown kind": ('"wireguard"', '"openvpn"', ["tunnel.vpn.kind", "openvpn", "wireguard"]),
    "unknown key": ('kind = "wireguard"', 'kind = "gre"\nover = "1B"', ["tunnel.vpn", "over"]),
    "unknown link": ('"up"]\n[[', '"pu"]\n[[', ["tunnel.vpn.links", '"pu"', "valid are home"]),
    "a link twice": ('["home", "up"]', '["up", "up"]', ["tunnel.vpn.links", "twice", "once"]),
    "no link": ('["home", "up"]', "[]", ["tunnel.vpn.links", "= []", "leave links out"]),
    "a link of nobody": ('["home", "up"]', '["up"]', ["tunnel.vpn.links", "no flow's path"]),
    "unknown flow": ('kind = "wireguard"', 'kind = "gre"\nflows = ["d"]', ["tunnel.vpn.flows", '"d"']),
    "a flow elsewhere": ('kind = "wireguard"', 'kind = "gre"\nflows = ["b"]', ["tunnel.vpn.flows", '"b"', '"core"']),
    "too large": ('packet = "1434B"', 'packet = "1435B"', ["tunnel.vpn", "1420 B", '"c"', 'packet = "1434B"']),
    "a window below 0": ('kind = "wireguard"', 'kind = "gre"\nreplay_window = -1', ["replay_window", "-1"]),
    "a unit": ('kind = "wireguard"', "overhead = 60", ["tunnel.vpn.overhead", "60", "unit"]),
    "two at once": (
        "[[flow]]",
        '[tunnel.two]\nkind = "gre"\nlinks = ["home"]\n[[flow]]',
        ["tunnel.two.links", 'overlaps tunnel "vpn"', '"a"'],
    ),
    "in the host": (
        'qdisc = "dualpi2"',
        'qdisc = "dualpi2"\non_host = true',
        ["tunnel.vpn.links", '"home"', "in the host"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_a_sentence(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, words = WRONG[name]
    assert old in FILE
    (tmp_path / "x.toml").write_text(FILE.replace(old, new, 1))
    assert main(["run", str(tmp_path / "x.toml"), "--dry-run"]) == 2
    told = capsys.readouterr().err
    assert "x.toml" in told
    for word in words:
        assert word in told, told
