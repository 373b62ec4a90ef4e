"""The way to the outside: a namespace of the test's own stands for the machine, and one behind it for the outside.

Skipped where namespaces are refused, or pasta, nft or ip is missing.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from . import test_between
from .test_bottleneck import PATIENT, PYTHON, experiment

pytestmark = pytest.mark.alone

# $O is a process outside. The folder of the test is /mnt there and here.
MACHINE = """
set -e
unshare -n sleep 100 & O=$!
trap 'kill $O' EXIT
while [ "$(readlink /proc/$O/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
ip link set lo up
ip link add card type veth peer name out netns $O
ip address add 198.51.100.1/24 dev card; ip address add fd51::1/64 dev card nodad
ip link set card up; ip route add default via 198.51.100.2; ip route add ::/0 via fd51::2
nsenter -t $O -n sh -c "ip link set lo up; ip address add 198.51.100.2/24 dev out
    ip address add fd51::2/64 dev out nodad; ip link set out up; echo 1 >/proc/sys/net/ipv4/tcp_ecn"
echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
outside() { nsenter -t $O -n "$@"; }
"""
# Somebody who is not root of the machine.
USER = "unshare --user --map-user=1000 --map-group=1000"
# Tables and cards of the bottleneck; the kernel takes a card away some time after its namespace.
LEFT = """
things() { nft list tables; ip -brief link | grep l4s; }
n=0; while [ -n "$(things)" ] && [ $n -lt 100 ]; do sleep 0.05; n=$((n + 1)); done
echo LEFT: $(things)"""
# What a server outside sees of a connection: the address of the client, and packets with ECT(0). It sends all back.
SERVER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.create_server((sys.argv[1], 80), family=family) as server:
    connection, address = server.accept()
    with connection:
        connection.sendall(connection.makefile("rb").read(400000))
table = dict(zip(*(line.split() for line in open("/proc/net/netstat") if line.startswith("IpExt:"))))
print("SEEN", address[0], int(table["InECT0Pkts"]) > 50, file=sys.stderr)
"""
CLIENT = """
import random, socket, sys
data = random.Random(1).randbytes(400000)
with socket.create_connection((sys.argv[1], 80), timeout=10) as connection:
    connection.sendall(data)
    # The end of one direction before that of the other is more than pasta of Debian 12 can do.
    assert connection.makefile("rb").read(len(data)) == data
"""


def in_namespace(script: str) -> subprocess.CompletedProcess[str]:
    return test_between.in_namespace(script, "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")


@pytest.fixture(scope="module")
def machine() -> None:
    names = ("unshare", "nsenter", "ip", "nft", "pasta")
    missing = [name for name in names if shutil.which(name) is None]
    if not sys.platform.startswith("linux") or missing:
        pytest.skip(f"there is no Linux with {', '.join(missing)}")
    tried = in_namespace(f"{MACHINE}\nnft add table inet t '{{ flags owner; }}'")
    if tried.returncode:
        pytest.skip(f"this machine refuses namespaces like these: {tried.stderr.strip()}")


def bottleneck(file: Path, *options: str) -> str:
    return shlex.join([PYTHON, "-m", "l4slab", "bottleneck", str(file), "--json", *PATIENT, *options])


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("way", "user", "keeps_ecn"),
    [("nat", "", True), ("pasta", USER, False), pytest.param("pasta", "", False, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("address", ["198.51.100.2", pytest.param("fd51::2", marks=pytest.mark.slow)])
def test_a_program_reaches_the_outside_through_the_queue(
    tmp_path: Path, way: str, user: str, keeps_ecn: bool, address: str
) -> None:
    server, client = tmp_path / "server.py", tmp_path / "client.py"
    server.write_text(SERVER)
    client.write_text(CLIENT)
    options = ("--outside", way, "--sysctl", "net.ipv4.tcp_ecn=1", "--", PYTHON, str(client), address)
    told = in_namespace(
        f"{MACHINE}\noutside {PYTHON} {server} {address} & server=$!; sleep 0.5\n"
        f"{user} {bottleneck(experiment(tmp_path), *options)}\nwait $server\n"
        f"{LEFT} >&2"
    )
    assert told.returncode == 0, told.stderr
    there, back = json.loads(told.stdout)["directions"]
    assert min(there["packets_out"], back["packets_out"]) > 400_000 / 1448
    assert there["refused_writes"] == back["refused_writes"] == 0
    # Whoever sends to the client reacts to losses.
    assert back["lost"] < back["packets_out"] / 10
    source, has_ecn = next(line.split()[1:] for line in told.stderr.splitlines() if line.startswith("SEEN "))
    # Address translation at the machine's edge: the outside sees the machine.
    assert source == ("198.51.100.1" if "." in address else "fd51::1")
    if "." in address:  # the kernel counts ECN of IPv6 elsewhere
        assert has_ecn == str(keeps_ecn)
    assert told.stderr.splitlines()[-1] == "LEFT:"


@pytest.mark.usefixtures("machine")
def test_nothing_of_it_is_left_after_kill_9(tmp_path: Path) -> None:
    options = ("--outside", "nat", "--", "sleep", "50")
    told = in_namespace(
        f"{MACHINE}\n{bottleneck(experiment(tmp_path), *options)} & tool=$!\n"
        "n=0; while ! nft list tables | grep -q l4s && [ $n -lt 300 ]; do sleep 0.05; n=$((n + 1)); done\n"
        "nft list tables; kill -9 $tool\n"
        f"{LEFT}"
    )
    assert "table inet l4s" in told.stdout, told.stderr
    assert told.stdout.splitlines()[-1] == "LEFT:"


@pytest.mark.usefixtures("machine")
def test_what_is_missing_is_told_in_one_sentence(tmp_path: Path) -> None:
    without_programs = "path = os.environ['PATH']; os.environ['PATH'] = os.getcwd()"
    forwards_nothing = "os.environ['PATH'] = path; sh('echo 0 >/proc/sys/net/ipv4/ip_forward')"
    missing = [
        ("pasta", without_programs, "pasta is not installed; install passt"),
        ("nat", "", "ip is not installed; install iproute2"),
        ("nat", forwards_nothing, "this machine does not forward packets; let it (sysctl -w"),
    ]
    words = ["bottleneck", str(experiment(tmp_path)), "--json", *PATIENT, "--outside"]
    steps = [(before, [*words, way, "--", "true"]) for way, before, _ in missing]
    told = in_namespace(f"{MACHINE}\n{test_between.commands(steps)}")
    test_between.assert_each_is_one_sentence(told, 1, [sentence for *_, sentence in missing])


@pytest.mark.usefixtures("machine")
def test_translation_needs_root(tmp_path: Path) -> None:
    told = in_namespace(f"{MACHINE}\n{USER} {bottleneck(experiment(tmp_path), '--outside', 'nat', '--', 'true')}")
    assert told.returncode == 1
    assert told.stderr.count("\n") == 1
    assert "it needs root, who may change the network of this machine" in told.stderr


@pytest.mark.usefixtures("machine")
def test_names_are_resolved_by_the_servers_outside(tmp_path: Path) -> None:
    """systemd-resolved's own address is one of the loopback, which no namespace reaches."""
    told = in_namespace(
        f"{MACHINE}\nmount -t tmpfs none /run; mkdir -p /run/systemd/resolve\n"
        "echo nameserver 127.0.0.53 >/run/stub; echo nameserver 198.51.100.2 >/run/systemd/resolve/resolv.conf\n"
        "mount --bind /run/stub /etc/resolv.conf\n"
        f"{bottleneck(experiment(tmp_path), '--outside', 'nat', '--', 'sh', '-c', 'cat /etc/resolv.conf >&2')}\n"
        "cat /etc/resolv.conf >&2"
    )
    assert told.returncode == 0, told.stderr
    assert told.stderr.splitlines() == ["nameserver 198.51.100.2", "nameserver 127.0.0.53"]
