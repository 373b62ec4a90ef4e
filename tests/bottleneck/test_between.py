"""A bridge between two network cards: veth pairs in namespaces of the test's own. Skipped where these are refused."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .test_bottleneck import PATIENT, PROGRAMS, PYTHON, experiment

pytestmark = pytest.mark.alone

# Two hosts, and the machine between them with a card to each; $C and $S are processes in the hosts' namespaces.
HOSTS = """
set -e
unshare -n sleep 100 & C=$!
unshare -n sleep 100 & S=$!
trap 'kill $C $S' EXIT
while [ "$(readlink /proc/$C/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
while [ "$(readlink /proc/$S/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
for host in "c $C 1" "s $S 2"; do
    set -- $host
    ip link add name $1 type veth peer name card-$1
    ip link set dev $1 netns $2
    ip link set dev card-$1 up
    nsenter -t $2 -n sh -c "ip link set lo up; ip address add 10.9.0.$3/24 dev $1
        ip address add fd09::$3/64 dev $1 nodad; ip link set dev $1 up; echo 1 >/proc/sys/net/ipv4/tcp_ecn"
done
"""


def in_namespace(script: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Runs it as root of a network namespace of its own, and of what `more` says."""
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", *more, "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# Several commands in one process, because Python takes longer to start than each of them to answer.
COMMANDS = """
import json, os, subprocess, sys
from l4slab.cli import main
def sh(line): subprocess.run(line, shell=True, check=True)
for before, words in json.loads(sys.argv[1]):
    exec(before)
    print("STATUS", main(words), file=sys.stderr)
"""


def commands(steps: list[tuple[str, list[str]]]) -> str:
    """Line of a script that runs each command after a statement of Python's."""
    return shlex.join([PYTHON, "-c", COMMANDS, json.dumps(steps)])


def assert_each_is_one_sentence(told: subprocess.CompletedProcess[str], status: int, sentences: list[str]) -> None:
    lines = told.stderr.splitlines()
    assert lines[1::2] == [f"STATUS {status}"] * len(sentences), told.stderr
    for line, sentence in zip(lines[::2], sentences, strict=True):
        assert sentence in line


@pytest.fixture(scope="module")
def machine() -> None:
    if not sys.platform.startswith("linux") or any(shutil.which(name) is None for name in ("unshare", "nsenter", "ip")):
        pytest.skip("there is no Linux with unshare, nsenter and ip")
    tried = in_namespace("ip link add name a type veth peer name b")
    if tried.returncode:
        pytest.skip(f"this machine refuses veth pairs in a user namespace: {tried.stderr.strip()}")


def bridge(file: Path, *options: str, cards: str = "card-c card-s", program: str = "true", before: str = "") -> Any:
    """What the command has answered, and its lines of errors."""
    words = shlex.join([PYTHON, "-m", "l4slab", "bottleneck", str(file), "--json", *PATIENT, *options])
    return in_namespace(f"{HOSTS}{before}\n{words} --between {cards} -- sh -c {shlex.quote(program)}")


def programs(server: str, client: str) -> str:
    """A program in each host."""
    return (
        f"nsenter -t $S -n {PYTHON} {PROGRAMS}/receive.py {server} & sleep 0.5; "
        f"nsenter -t $C -n {PYTHON} {PROGRAMS}/send.py {client}; wait"
    )


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("address", ["10.9.0.2", pytest.param("fd09::2", marks=pytest.mark.slow)])
def test_tcp_crosses_the_bridge(tmp_path: Path, address: str) -> None:
    """ARP and ND pass, super-packets are split, marks and sums are right, and a replay decides the same."""
    file = experiment(tmp_path, "200Mbit", "fq_codel ce_threshold 500us")
    log = tmp_path / "x.log"
    told = bridge(
        file, "--log", str(log), program=programs(f"tcp {address}", f"tcp {address} 3000000"), before="export C S"
    )
    assert told.returncode == 0, told.stderr
    summary = json.loads(told.stdout)
    seen = json.loads(next(line[5:] for line in told.stderr.splitlines() if line.startswith("SEEN ")))
    there = summary["directions"][0]
    assert seen["equal"]
    assert seen["counters"]["Tcp.InCsumErrors"] == seen["counters"]["Ip.InHdrErrors"] == 0
    assert seen["counters"]["IpExt.InCEPkts" if "." in address else "Ip6InCEPkts"] == there["ce_out"] > 0
    assert there["packets_in"] > there["reads"] > 0
    assert there["writes"] < there["packets_out"]
    assert there["refused_writes"] == there["device_drops"] == 0
    assert there["wait_ms"]["count"] == there["reads"]
    replayed = subprocess.run([PYTHON, "-m", "l4slab", "replay", str(log)], capture_output=True, text=True, check=False)
    assert replayed.returncode == 0, replayed.stderr


# Sends frames to the other host as they are, one with a VLAN tag, and tells what comes.
FRAMES = """
import ctypes, os, socket, struct
def enter(pid):
    assert ctypes.CDLL(None).setns(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY), 0x40000000) == 0
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
there = enter(os.environ["S"]); there.bind(("s", 3)); there.setsockopt(263, 8, 1); there.settimeout(5)
here = enter(os.environ["C"]); here.bind(("c", 0))
body = bytes(range(64))
here.send(b"\\xff" * 6 + b"\\x02" * 6 + b"\\x88\\xb5" + body)
here.send(b"\\xff" * 6 + b"\\x02" * 6 + b"\\x81\\x00\\x20\\x05\\x88\\xb5" + body)
found = []
while len(found) < 2:
    data, more, _, _ = there.recvmsg(2000, 200)
    if data[6:12] == b"\\x02" * 6:
        (status, *_, tci, kind) = struct.unpack("IIIHHHH", more[0][2])
        found.append((data[12:14].hex(), data[14:] == body, tci if status & 16 else None))
print("SEEN", found)
"""


@pytest.mark.usefixtures("machine")
def test_other_frames_pass_with_their_tags(tmp_path: Path) -> None:
    file = tmp_path / "frames.py"
    file.write_text(FRAMES)
    told = bridge(experiment(tmp_path), program=f"{PYTHON} {file}", before="export C S")
    assert told.returncode == 0, told.stderr
    assert "SEEN [('88b5', True, None), ('88b5', True, 8197)]" in told.stderr


@pytest.mark.usefixtures("machine")
def test_wrong_cards_are_told_in_one_sentence(tmp_path: Path) -> None:
    wrong = [
        ("card-c card-c", "", "is one card twice"),
        ("card-c none", "", "--between none: this machine has no such network card"),
        ("card-c lo", "", "--between lo is no Ethernet device"),
        ("card-c card-s", "sh('ip link set card-s down')", "is down; bring it up with: ip link set card-s up"),
        ("card-c card-s", "sh('ip link set card-s up mtu 1400')", "give both the same"),
    ]
    words = ["bottleneck", str(experiment(tmp_path)), "--json", *PATIENT, "--between"]
    steps = [(before, [*words, *cards.split(), "--", "true"]) for cards, before, _ in wrong]
    assert_each_is_one_sentence(in_namespace(HOSTS + commands(steps)), 2, [sentence for *_, sentence in wrong])


@pytest.mark.usefixtures("machine")
def test_without_the_right_to_raw_packets_it_says_so(tmp_path: Path) -> None:
    words = shlex.join([PYTHON, "-m", "l4slab", "bottleneck", str(experiment(tmp_path)), "--between", "lo", "eth0"])
    # A user namespace without a network namespace has no rights to the network's devices.
    told = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", words], capture_output=True, text=True, check=False
    )
    assert told.returncode == 1
    assert "needs the right to raw packets (CAP_NET_RAW)" in told.stderr
