"""The engine `real`: what it refuses, what its hosts are told, and runs where the machine has TUN devices."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from l4slab import _core
from l4slab.cli import main
from l4slab.engines.contract import Captures, EngineError, LackingError, Recording
from l4slab.engines.linux import lab
from l4slab.engines.real import engine, forwarder, hosts
from l4slab.engines.real.engine import RealEngine
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader

from .conftest import CUBIC, ONE_LINK, TWO_LINKS, Describe

pytestmark = pytest.mark.alone

PROGRAMS = Path(__file__).parent.parent / "bottleneck" / "programs"
CONTROLS = ("reno", "cubic")
# Starts at once, polls the clock for a while, and sends.
SPINS = "import socket, sys, time\nend = time.time() + 0.3\nwhile time.time() < end: pass\n"
SPINS += "s = socket.create_connection((sys.argv[1], 5001)); s.sendall(bytes(100000)); s.shutdown(1); s.recv(9999)\n"


@pytest.fixture(scope="module")
def machine() -> RealEngine:
    """The engine, where this machine can run it."""
    if not sys.platform.startswith("linux"):
        pytest.skip("this is not Linux")
    if (sentence := RealEngine().lacking()) is not None:
        pytest.skip(sentence)
    return RealEngine()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is late, which is not what is tested."""
    monkeypatch.setattr(engine, "_check_lateness", lambda *_: None)


def program(client: str) -> str:
    python, receive = shlex.quote(sys.executable), shlex.quote(str(PROGRAMS / "receive.py"))
    server = json.dumps(f"{python} {receive} tcp {{server}}")
    return f'[[flow]]\nname = "p"\nkind = "program"\nrtt = "10ms"\nserver = {server}\nclient = {json.dumps(client)}\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ONE_LINK + CUBIC.replace("cubic", "prague"), 'no congestion control "prague" (it has reno, cubic); load it'),
        (ONE_LINK + CUBIC.replace('rtt = "20ms"', 'rtt = "100us"'), 'rtt = "0.1ms" is shorter than a scheduler keeps'),
        (
            ONE_LINK + '[[flow]]\nname = "w"\nkind = "web"\ncc = "cubic"\nrtt = "5ms"\nrequests = "10/s"\n',
            'no kind = "web"',
        ),
        (
            ONE_LINK + '[[flow]]\nname = "t"\nkind = "responsiveness"\ncc = "cubic"\necn = "sce"\nrtt = "5ms"\n',
            'flow "t": no Linux kernel has SCE; write "classic"',
        ),
        (
            '[link.air]\nmedium = "wifi n20 mcs 3"\nqdisc = "pfifo"\n'
            + CUBIC
            + '[[at]]\ntime = "1s"\n"link.air.medium" = "wifi per 0.1"\n',
            'the medium of link "air" changes',
        ),
        (
            ONE_LINK + CUBIC + 'options = { hystart = "off" }\n',
            "leaves the modules of this machine's kernel as they are",
        ),
    ],
)
def test_what_it_cannot_do_it_says(describe: Describe, text: str, sentence: str) -> None:
    run: Any = describe(text, "sim")
    with pytest.raises((ValueError, LackingError)) as caught:
        engine.refuse(run, CONTROLS)
    assert sentence in str(caught.value)


def test_programs_get_what_the_kernel_lets_everybody_have(describe: Describe) -> None:
    run: Any = describe(ONE_LINK + program("true {server}") + 'cc = "cubic"\n', "real")
    engine.refuse(run, CONTROLS, CONTROLS)
    with pytest.raises(LackingError, match=r"lets programs have reno and not \"cubic\"; allow it with: sudo sysctl"):
        engine.refuse(run, CONTROLS, ("reno",))


def test_the_hosts_are_those_of_the_engine_linux_without_its_network(describe: Describe) -> None:
    """The source is changed at known places, and the plan keeps the hosts' lines and settings."""
    assert "argv[3]" in hosts.source()
    made = lab.build(describe(TWO_LINKS + CUBIC + 'path = ["two", "one"]\n'))
    plan = hosts.plan(made)
    assert {line.split()[0] for line in plan} == {"time", "ns", "tcp"}
    assert [line for line in plan if line.startswith("ns")] == ["ns c1", "ns s1"]
    (client, server) = hosts.pairs(made)[0]
    assert (client["name"], client["ipv4"], client["mtu"]) == ("c1", [10, 208, 0, 1], 1500)
    assert (server["name"], server["ipv4"]) == ("s1", [10, 224, 0, 1])
    settings: Any = client["settings"]
    assert [value for name, value, _ in settings if name == "net/ipv4/tcp_ecn"] == ["1"]


def test_the_paths_keep_what_the_network_needs(describe: Describe) -> None:
    changes = '[[at]]\ntime = "1s"\n"flow.a.rtt" = "30ms"\n[[at]]\ntime = "2s"\n"link.one.rate" = "5Mbit"\n'
    path = engine.path_of(describe(ONE_LINK + CUBIC + CUBIC.replace('"a"', '"b"') + changes, "sim"))
    assert [(flow["name"], flow["kind"], flow["path"]) for flow in path["flows"]] == [
        ("a", "cbr", ["one"]),
        ("b", "cbr", ["one"]),
    ]
    assert len(path["at"]) == 2
    assert min(forwarder.delays(path)) == (20_000_000, "RTT")


def _run(machine: RealEngine, run: dict[str, Any], keep: Path | None = None) -> Recording:
    machine.check(run)  # type: ignore[arg-type]
    return machine.execute(json.dumps(run), keep)


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_bulk_and_a_program_through_two_links(machine: RealEngine, describe: Describe, tmp_path: Path) -> None:
    """Every packet has one fate, the tables agree with each other, and the simulator decides the same."""
    client = f"{sys.executable} {PROGRAMS / 'send.py'} tcp {{server}} 400000"
    text = TWO_LINKS.replace("dualpi2", "fq_codel") + CUBIC + 'path = ["two", "one"]\n'
    text += program(client) + 'path = ["one"]\n'
    text += '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "1Mbit"\necn = "ect1"\nrtt = "5ms"\npath = ["two"]\n'
    text += '[[rewrite]]\nflow = "u"\nwhere = "before:two"\nfrom = "ect1"\nto = "ce"\n'
    text += '[[at]]\ntime = "1500ms"\n"link.one.rate" = "6Mbit"\n'
    found = _run(machine, describe(text, "real", duration='"3s"', warmup='"0s"'), tmp_path / "kept")
    flows = {row["flow"]: row for row in found.flows.to_dicts()}
    for row in flows.values():
        assert row["offered_packets"] == row["delivered_packets"] + row["lost_packets"] + row["waiting_packets"]
        assert row["delivered_packets"] > 100
        assert row["late_ms_p50"] <= row["late_ms_p99"] <= row["late_ms_max"]
    assert flows["p"]["transfers"] == 1
    assert flows["p"]["connections"] == 1
    assert flows["p"]["goodput_mbps"] * 3e6 / 8 == pytest.approx(400_000)
    assert flows["a"]["ecn_mode"] == "classic"
    assert flows["a"]["rtt_ms_p50"] > 20
    assert flows["u"]["rate_mbps"] == pytest.approx(1, rel=0.02)
    assert flows["u"]["ce_packets"] == flows["u"]["delivered_packets"]
    links = {row["link"]: row for row in found.links.filter(queue="all").to_dicts()}
    assert links["one"]["arrived_packets"] >= flows["a"]["delivered_packets"] + flows["p"]["delivered_packets"]
    assert 0.5 < links["one"]["utilisation"] < 1.01
    rates = found.series.filter(link="one", queue="all").filter(found.series["time_s"].is_between(2, 3).any())
    assert rates["rate_mbps"].max() <= 10.5  # type: ignore[operator]
    told = forwarder.told(_core.replay_log(tmp_path / "kept" / "real.log"))
    assert told["difference"] is None
    assert told["arrivals"] > 2000


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_a_program_has_the_same_connection_over_ipv6(machine: RealEngine, describe: Describe) -> None:
    found = {}
    for name in ("{server}", "{server6}"):
        flow = program(f"{sys.executable} {PROGRAMS / 'send.py'} tcp {{server}} 400000").replace("{server}", name)
        recording = _run(machine, describe(ONE_LINK + flow, "real", duration='"2s"', warmup='"0s"'))
        found[name] = recording.flows.row(0, named=True)
    for row in found.values():
        assert (row["transfers"], row["connections"], row["packet_bytes_max"]) == (1, 1, 1514)
        assert row["goodput_mbps"] * 2e6 / 8 == pytest.approx(400_000)
    # Its headers are 20 B longer, so there is less in a packet.
    assert found["{server6}"]["sent_packets"] > found["{server}"]["sent_packets"]


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_media_impairments_and_captures(machine: RealEngine, describe: Describe, tmp_path: Path) -> None:
    """What was lost says where and why, captures have what the tables count, and the simulator decides the same."""
    text = '[link.air]\nmedium = "wifi n20 mcs 3 per 0.2"\nqdisc = "fq_codel"\n'
    text += '[impair.i]\nbefore = "air"\ndirection = "both"\nnetem = "delay 1ms loss 2% duplicate 2% corrupt 2%"\n'
    text += CUBIC + '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "2Mbit"\necn = "ect1"\nrtt = "5ms"\n'
    run = describe(text, "real", duration='"3s"', warmup='"0s"')
    machine.check(run)  # type: ignore[arg-type]
    found = machine.execute(json.dumps(run), tmp_path / "kept", Captures(tmp_path / "captures", "x"))
    flows = {row["flow"]: row for row in found.flows.to_dicts()}
    for row in flows.values():
        assert row["offered_packets"] == row["delivered_packets"] + row["lost_packets"] + row["waiting_packets"]
    lost = {(row["flow"], row["lost_at"], row["lost_by"]) for row in found.losses.to_dicts()}
    assert {("u", "impair.i", "loss"), ("u", "receiver", "checksum")} <= lost
    assert flows["u"]["offered_packets"] > flows["u"]["sent_packets"] * 0.99
    links = {row["link"]: row for row in found.links.filter(queue="all").to_dicts()}
    assert set(links) == {"air", "air.up"}
    assert links["air.up"]["sent_packets"] > 100
    # A full frame takes 0.5 ms at 26 Mbit/s. Where in the medium a packet was is not in the log.
    assert flows["u"]["sojourn_ms_p50"] > 0.5
    assert flows["u"]["air_ms_mean"] is None
    names = {f"{flow}-{end}.pcapng.gz" for flow in "au" for end in ("client", "server")}
    assert {path.name for path in (tmp_path / "captures").iterdir()} == names
    for flow in "au":
        client, server = (
            list(RawPcapNgReader(str(tmp_path / "captures" / f"{flow}-{end}.pcapng.gz")))
            for end in ("client", "server")
        )
        times = [about.tshigh << 32 | about.tslow for _, about in client]
        assert times == sorted(times)
        data = [Ether(frame) for frame, about in server if about.wirelen > 1000]
        # Also what is damaged comes, and what comes after the end.
        assert len(data) >= flows[flow]["delivered_packets"]
        assert {frame.src for frame in data} == {Ether(next(f for f, a in client if a.wirelen > 1000)).src}
        for frame, _ in (*client[:50], *server[:50]):
            ip = Ether(frame)[IP]
            assert IP(bytes(ip)[:20]).chksum == IP(bytes(IP(bytes(ip)[:20], chksum=None))).chksum
    told = forwarder.told(_core.replay_log(tmp_path / "kept" / "real.log"))
    assert told["difference"] is None


@pytest.mark.slow
def test_lateness_and_programs_that_fail_are_told(
    machine: RealEngine, describe: Describe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spins = tmp_path / "spins.py"
    spins.write_text(SPINS)
    run = describe(ONE_LINK + program(f"{sys.executable} {spins} {{server}}"), "real", duration='"2s"', warmup='"0s"')
    # Polling the clock is no fault here. All packets are late by what is said of them.
    monkeypatch.setattr(forwarder, "latest_ms", lambda _: 1.5)
    with pytest.raises(EngineError, match=r"late by 1.5 ms or more, and 1 ms is a tenth of the RTT of 10 ms"):
        _run(machine, run)
    run = describe(
        ONE_LINK + program(f"{sys.executable} -c 'exit(3)' {{server}}"), "real", duration='"1s"', warmup='"0s"'
    )
    with pytest.raises(EngineError, match=r'the client of flow "p" ended with status 3'):
        _run(machine, run)


def test_a_dry_run_tells_the_time_of_the_wall(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if RealEngine().lacking() is not None:
        pytest.skip("there is no such engine on this machine")
    file = tmp_path / "x.toml"
    file.write_text('duration = "100s"\ntrials = 2\n' + ONE_LINK + CUBIC)
    assert main(["run", str(file), "--engine", "real", "--dry-run"]) == 0
    assert "about 3.4 min of the wall clock, one run after another" in capsys.readouterr().out
