"""Real packets across the links of the core. Skipped where the machine has neither TUN devices nor namespaces."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from l4slab.cli import main
from l4slab.engines.real import forwarder

pytestmark = pytest.mark.alone

PROGRAMS = Path(__file__).parent / "programs"
PYTHON = sys.executable
# Tests run on a busy machine, and none of them is about lateness.
PATIENT = ["--late", "10s"]


@pytest.fixture(scope="session")
def machine() -> None:
    can, text = forwarder.examine() if sys.platform.startswith("linux") else (False, "this is not Linux")
    if not can:
        pytest.skip(text)


def experiment(folder: Path, rate: str = "100Mbit", qdisc: str = "dualpi2", more: str = "") -> Path:
    file = folder / "x.toml"
    file.write_text(
        f"""
duration = "10s"
[link.one]
rate = "{rate}"
qdisc = "{qdisc}"
[[flow]]
name = "a"
cc = "reno"
rtt = "4ms"
path = ["one"]
{more}
"""
    )
    return file


def server(kind: str, address: str = "0.0.0.0") -> list[str]:
    return ["--server", f"{PYTHON} {PROGRAMS / 'receive.py'} {kind} {address}"]


def run(capfd: pytest.CaptureFixture[str], file: Path, *options: str, client: tuple[str, ...]) -> Any:
    """The summary and what the client's program has seen."""
    command = [PYTHON, str(PROGRAMS / "send.py"), *client]
    status = main(["bottleneck", str(file), "--json", *PATIENT, *options, "--", *command])
    out, err = capfd.readouterr()
    assert status == 0, err
    seen = [line.removeprefix("SEEN ") for line in err.splitlines() if line.startswith("SEEN ")]
    return json.loads(out), json.loads(seen[0])


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"])
def test_tcp_data_arrive_as_they_were_sent(tmp_path: Path, capfd: pytest.CaptureFixture[str], address: str) -> None:
    """Split, dropped, copied, corrupted, marked, joined: the receiver gets every byte and rejects what is corrupt."""
    more = '[impair.i]\nbefore = "one"\nnetem = "loss 1% duplicate 1% corrupt 1%"\n'
    file = experiment(tmp_path, "1Gbit", "fq_codel ce_threshold 100us", more)
    summary, seen = run(
        capfd, file, "--sysctl", "net.ipv4.tcp_ecn=1", *server("tcp", address), client=("tcp", address, "2000000")
    )
    assert seen["equal"]
    there = summary["directions"][0]
    assert min(there["lost"], there["copied"]) > 0
    assert there["packets_in"] > there["reads"] > 0
    assert seen["counters"]["Tcp.InCsumErrors"] > 0


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("address", ["10.0.0.2", pytest.param("fd00::2", marks=pytest.mark.slow)])
def test_every_mark_of_udp_arrives(tmp_path: Path, capfd: pytest.CaptureFixture[str], address: str) -> None:
    """Sends of ten datagrams are split, L4S marks single ones, the rest is joined again: both ends count the same."""
    file = experiment(tmp_path, "20Mbit")
    summary, seen = run(capfd, file, *server("udp", address), client=("udp", address, "2000", "21e6"))
    there = summary["directions"][0]
    queue = {row["queue"]: row for row in summary["queues"]}
    counters = seen["counters"]
    assert seen["right"]
    assert seen["ordered"]
    # The receiver may be too slow for its socket on a busy machine; the network has lost only what the queue has.
    lost = counters["Udp.RcvbufErrors"] + counters["Udp6RcvbufErrors"]
    assert seen["count"] + lost == queue["L"]["sent"] == 2000 - queue["L"]["dropped"]
    marked = counters["IpExt.InCEPkts" if "." in address else "Ip6InCEPkts"]
    assert marked == there["ce_out"] == queue["all"]["marked"] > 100
    assert counters["Udp.InCsumErrors"] == counters["Udp6InCsumErrors"] == counters["Ip.InHdrErrors"] == 0


@pytest.mark.usefixtures("machine")
def test_every_mark_of_tcp_arrives(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A super-packet counts as one packet at its receiver, so CE must not be in any."""
    file = experiment(tmp_path, "500Mbit", "fq_codel ce_threshold 500us")
    summary, seen = run(
        capfd, file, "--sysctl", "net.ipv4.tcp_ecn=1", *server("tcp"), client=("tcp", "10.0.0.2", "6000000")
    )
    there = summary["directions"][0]
    assert seen["equal"]
    assert seen["counters"]["Tcp.InCsumErrors"] == 0
    assert seen["counters"]["IpExt.InCEPkts"] == there["ce_out"] > 0
    assert there["writes"] < there["packets_out"]


TREE = """
[link.one.class.1]
rate = "20Mbit"
ceil = "40Mbit"
qdisc = "dualpi2"
[link.one.class.2]
rate = "20Mbit"
ceil = "40Mbit"
qdisc = "fq_codel"
[[link.one.filter]]
ecn = "ect1"
class = "1"
"""
CHANGES = """
[impair.i]
before = "one"
netem = "delay 1ms 500us loss 1% duplicate 1%"
[[at]]
time = "300ms"
"link.one.rate" = "20Mbit"
"flow.a.rtt" = "8ms"
"""


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("qdisc", "more"),
    [
        ("dualpi2", CHANGES),
        ("cake bandwidth 30mbit", ""),
        pytest.param("fq_codel", "", marks=pytest.mark.slow),
        pytest.param("fq_codel ce_threshold 1ms", CHANGES, marks=pytest.mark.slow),
        ("htb default 2", TREE),
    ],
)
def test_the_simulator_decides_the_same(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], qdisc: str, more: str
) -> None:
    """TCP and UDP together, recorded and replayed."""
    file = experiment(tmp_path, "40Mbit", qdisc, more)
    log = tmp_path / "x.log"
    programs = f"{PYTHON} {PROGRAMS / 'receive.py'}"
    both = f"{programs} tcp 10.0.0.2 & {programs} udp fd00::2; wait"
    send = f"{PYTHON} {PROGRAMS / 'send.py'}"
    client = f"{send} tcp 10.0.0.2 1500000 & {send} udp fd00::2 1000 20e6; wait"
    arguments = [
        "bottleneck",
        str(file),
        "--json",
        *PATIENT,
        "--log",
        str(log),
        "--server",
        both,
        "--",
        "sh",
        "-c",
        client,
    ]
    assert main(arguments) == 0
    summary = json.loads(capfd.readouterr().out)
    assert main(["replay", str(log), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["difference"] is None
    # How many ACKs there are depends on how busy the machine is: 1995 packets were seen in a whole run of CI.
    assert told["arrivals"] == sum(one["packets_in"] for one in summary["directions"]) > 1000
    assert told["lost"] > 0
    # A log with another decision in it is found out: the last departure in it gets another ECN field.
    data = bytearray(log.read_bytes())
    at, last = data.index(b"\n") + 1, 0
    while at < len(data):
        last = at if data[at] == ord("D") else last
        at += {"A": 42, "D": 23, "L": 15, "E": 9}[chr(data[at])]
    data[last + 21] ^= 1
    log.write_bytes(data)
    assert main(["replay", str(log)]) == 1
    assert "the log has packet" in capfd.readouterr().err
    log.write_bytes(data[:-5])
    assert main(["replay", str(log)]) == 2
    assert "has no end" in capfd.readouterr().err


@pytest.mark.usefixtures("machine")
def test_lateness_fails_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = experiment(tmp_path)
    client = [PYTHON, str(PROGRAMS / "send.py"), "tcp", "10.0.0.2", "100000"]
    assert main(["bottleneck", str(file), "--late", "1us", *server("tcp"), "--", *client]) == 1
    err = capfd.readouterr().err
    assert "of the packets were" in err
    assert "--late" in err


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--", "no-such-program"], 2, "no-such-program cannot be started"),
        (["--server", "exit 3", "--", "true"], 2, "has ended with status 3 before it listened"),
        (["--flow", "b", "--", "true"], 2, 'there is no flow "b"'),
        (["--sysctl", "net.ipv4.no_such=1", "--", "true"], 2, "net/ipv4/no_such=1 is refused by this kernel"),
        (["--log", "/no/such/folder/x.log", "--", "true"], 2, "/no/such/folder/x.log cannot be written"),
        (["--late", "1", "--", "true"], 2, "--late 1 has no unit"),
        ([], 2, "name a COMMAND"),
    ],
)
def test_mistakes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str
) -> None:
    assert main(["bottleneck", str(experiment(tmp_path)), *arguments]) == status
    err = capfd.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.usefixtures("machine")
def test_output_and_status_are_those_of_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = experiment(tmp_path)
    says = "printf 'a\\tb\\n'; echo {client} {client6} {server} {server6}; exit 7"
    assert main(["bottleneck", str(file), *PATIENT, "--", "sh", "-c", says]) == 7
    out, err = capfd.readouterr()
    assert out == "a\tb\n10.0.0.1 fd00::1 10.0.0.2 fd00::2\n"
    assert "l4slab: sh has ended with status 7" in err
    assert "of a processor" in err
    assert main(["bottleneck", str(file), *PATIENT, "--", "sh", "-c", "kill -9 $$"]) == 128 + 9
    assert main(["bottleneck", str(file), *PATIENT, "--json", "--", "sh", "-c", "echo told; exit 7"]) == 7
    out, err = capfd.readouterr()
    assert json.loads(out)["exit_status"] == 7
    assert "told" in err


@pytest.mark.usefixtures("machine")
def test_the_server_knows_both_addresses(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    listens = f"{PYTHON} -m http.server --bind {{server}} 8000 >&2 & echo {{client}} >{tmp_path}/told; wait"
    asks = "import urllib.request as r, sys; print(r.urlopen(sys.argv[1]).status)"
    asked = ["--", PYTHON, "-c", asks, "http://{server}:8000/"]
    assert main(["bottleneck", str(experiment(tmp_path)), *PATIENT, "--server", listens, *asked]) == 0
    assert capfd.readouterr().out == "200\n"
    assert (tmp_path / "told").read_text() == "10.0.0.1\n"


def test_what_is_no_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.log"
    assert main(["replay", str(file)]) == 2
    assert "there is no such file" in capfd.readouterr().err
    file.write_text("{}\n")
    assert main(["replay", str(file)]) == 2
    assert "is no log" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("machine")
def test_it_needs_no_privileges(tmp_path: Path) -> None:
    """In a user namespace, which is all that an ordinary user has."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-Ur", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine refuses user namespaces")
    file = experiment(tmp_path)
    client = [PYTHON, str(PROGRAMS / "send.py"), "tcp", "10.0.0.2", "200000"]
    arguments = ["bottleneck", str(file), "--json", *PATIENT, *server("tcp"), "--", *client]
    done = subprocess.run(
        [unshare, "-Ur", PYTHON, "-m", "l4slab", *arguments], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert '"equal": true' in done.stderr
    assert not json.loads(done.stdout)["realtime"]
