"""Captures of the simulator, read by Scapy and by tshark, against the result tables."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import l4slab
import polars as pl
import pytest
from l4slab.campaign import store
from l4slab.cli import main
from l4slab.engines.contract import EngineError
from l4slab.engines.sim import SimEngine
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader

from .conftest import FOUR_FLOWS

MIXED = """
duration = "9s"
captures = "{captures}"
trials = {trials}
[link.bottleneck]
rate = "{rate}"
qdisc = "dualpi2"
{flows}
"""
FLOWS = ("plain", "classic", "l4s", "udp")
TABLES = ("flows", "links", "series", "claims", "published")


def write(folder: Path, captures: str = "first trial", trials: int = 1, rate: str = "10Mbit") -> Path:
    file = folder / "mixed.toml"
    file.write_text(MIXED.format(captures=captures, trials=trials, rate=rate, flows=FOUR_FLOWS))
    return file


def contents(out: Path) -> dict[str, bytes]:
    return {name: (out / f"{name}.parquet").read_bytes() for name in TABLES}


def captured(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted((out / "captures").rglob("*.gz"))}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    assert main(["run", str(write(folder)), "--out", str(folder / "out")]) == 0
    return folder / "out"


def rows(out: Path) -> dict[str, dict[str, Any]]:
    return {row["flow"]: row for row in pl.read_parquet(out / "flows.parquet").rows(named=True)}


def folder_of(out: Path) -> Path:
    (run,) = pl.read_parquet(out / "flows.parquet")["run"].unique()
    return out / "captures" / str(run)


@cache
def packets(path: Path) -> list[tuple[int, Ether]]:
    """Times in ns and dissected frames."""
    found = []
    with RawPcapNgReader(str(path)) as reader:
        for data, about in reader:
            assert about.tsresol == 1_000_000_000
            found.append((about.tshigh << 32 | about.tslow, Ether(data)))
    return found


def data_of(path: Path) -> list[IP]:
    """Packets with a payload, by the lengths in their headers."""

    def payload(ip: IP) -> int:
        return int(ip.len) - 20 - (4 * int(ip[TCP].dataofs) if TCP in ip else 8)

    return [frame[IP] for _, frame in packets(path) if payload(frame[IP]) > 0]


def test_a_file_per_flow_and_end(mixed: Path) -> None:
    names = {path.name for path in folder_of(mixed).iterdir()}
    assert names == {f"{flow}-{end}.pcapng.gz" for flow in FLOWS for end in ("client", "server")}


@pytest.mark.parametrize("flow", FLOWS)
def test_what_the_tables_count_is_in_the_captures(mixed: Path, flow: str) -> None:
    row = rows(mixed)[flow]
    client = data_of(folder_of(mixed) / f"{flow}-client.pcapng.gz")
    server = data_of(folder_of(mixed) / f"{flow}-server.pcapng.gz")
    assert len(client) == row["sent_packets"]
    assert len(server) == row["delivered_packets"]
    assert len(client) - len(server) == row["dropped_packets"]
    assert sum(ip.tos & 3 == 3 for ip in server) == row["ce_packets"]
    assert not any(ip.tos & 3 == 3 for ip in client)
    assert {ip.tos >> 2 for ip in (*client, *server)} == {10 if flow == "plain" else 0}
    if flow != "udp":
        often = Counter((ip[TCP].sport, ip[TCP].seq) for ip in client)
        assert sum(often.values()) - len(often) == row["retransmits"]
        assert len({port for port, _ in often}) == row["count"]
    else:
        assert {(ip[UDP].len, ip.len) for ip in client} == {(466, 486)}


def test_the_scenario_has_marks_drops_and_retransmissions(mixed: Path) -> None:
    table = rows(mixed)
    assert table["plain"]["dropped_packets"] > 0
    assert table["plain"]["retransmits"] > 0
    assert all(table[flow]["ce_packets"] > 0 for flow in ("classic", "l4s", "udp"))


def test_handshakes_and_options(mixed: Path) -> None:
    for flow, flags in (("plain", ("S", "SA")), ("classic", ("SEC", "SAE")), ("l4s", ("SECN", "SAEC"))):
        frames = packets(folder_of(mixed) / f"{flow}-client.pcapng.gz")
        handshake = [frame[TCP] for _, frame in frames if frame[TCP].flags & 2]
        assert {str(tcp.flags) for tcp in handshake} == set(flags)
        for tcp in handshake:
            options = dict(tcp.options)
            assert (options["MSS"], options["WScale"], options["SAckOK"]) == (1460, 14, b"")
        times = [t for t, _ in frames]
        assert times == sorted(times)
    kinds = {
        kind for _, frame in packets(folder_of(mixed) / "plain-client.pcapng.gz") for kind, _ in frame[TCP].options
    }
    assert kinds == {"MSS", "SAckOK", "Timestamp", "NOP", "WScale", "SAck"}
    acks = [frame[TCP] for _, frame in packets(folder_of(mixed) / "l4s-server.pcapng.gz") if frame[TCP].sport == 5001]
    # Kind 174: ECT(1), CE and ECT(0) bytes. Every byte is in one of them.
    e1b, ceb, e0b = (int.from_bytes(dict(acks[-1].options)[174][i : i + 3]) for i in (0, 3, 6))
    assert e1b + ceb == 1_200_000 + 1
    assert e0b == 1


@pytest.mark.slow
def test_results_and_captures_do_not_depend_on_workers(tmp_path: Path, mixed: Path) -> None:
    file = write(tmp_path, "all trials", trials=3)
    for workers in ("1", "2", "4"):
        assert main(["run", str(file), "--out", str(tmp_path / workers), "--workers", workers]) == 0
    assert len(captured(tmp_path / "1")) == 3 * 2 * len(FLOWS)
    assert captured(tmp_path / "1") == captured(tmp_path / "2") == captured(tmp_path / "4")
    assert captured(mixed).items() <= captured(tmp_path / "1").items()
    assert main(["run", str(write(tmp_path, "none", trials=3)), "--out", str(tmp_path / "without")]) == 0
    assert contents(tmp_path / "1") == contents(tmp_path / "without")
    assert not (tmp_path / "without" / "captures").exists()


@pytest.mark.slow
def test_captures_that_are_missing_are_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"

    def again(captures: str) -> str:
        assert main(["run", str(write(tmp_path, captures, trials=3)), "--out", str(out)]) == 0
        return capsys.readouterr().err

    again("none")
    before = contents(out)
    assert "2 runs are in" in again("first trial")
    assert len(list((out / "captures").iterdir())) == 1
    first = captured(out)
    assert "3 runs are in" in again("first trial")
    assert "1 run is in" in again("all trials")
    shutil.rmtree(next((out / "captures").iterdir()))
    # What a kill leaves.
    half = out / "captures" / ".0123.77.tmp"
    half.mkdir()
    (half / "l4s-client.pcapng.gz").write_bytes(b"\x1f\x8b")
    assert "2 runs are in" in again("all trials")
    assert len(list((out / "captures").iterdir())) == 3
    assert first.items() <= captured(out).items()
    assert "3 runs are in" in again("none"), "captures that nobody asks for stay"
    assert len(captured(out)) == 3 * 2 * len(FLOWS)
    assert contents(out) == before


def test_without_a_folder_a_note_says_so(tmp_path: Path) -> None:
    results = l4slab.run(write(tmp_path))
    assert results.notes == ["Captures are not written without a results folder."]
    assert [path.name for path in tmp_path.iterdir()] == ["mixed.toml"]


def test_a_file_in_the_way_of_captures_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / ".l4slab").touch()
    (out / "captures").write_text("in the way")
    assert main(["run", str(write(tmp_path)), "--out", str(out)]) == 2
    assert "captures: is a file, and l4slab keeps a folder there" in capsys.readouterr().err
    (out / "captures").unlink()
    assert main(["run", str(write(tmp_path)), "--out", str(out)]) == 0


@pytest.mark.slow
def test_of_a_run_that_is_there_twice_the_newer_one_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may give other numbers when a run is repeated for its captures: these belong together."""
    monkeypatch.setattr(store, "_MERGE", 3)
    original = SimEngine.execute
    made = []

    def execute(self: SimEngine, *arguments: Any, **named: Any) -> l4slab.engines.contract.Recording:
        recording = original(self, *arguments, **named)
        made.append(len(made) + 1)
        return replace(recording, flows=recording.flows.with_columns(goodput_mbps=pl.lit(float(made[-1]))))

    def broken(*arguments: Any) -> None:
        raise EngineError("killed before the tables are written")

    monkeypatch.setattr(SimEngine, "execute", execute)
    out = tmp_path / "out"
    file = write(tmp_path)
    with monkeypatch.context() as killed:
        killed.setattr(store.Store, "consolidate", broken)
        for _ in range(5):
            assert main(["run", str(file), "--out", str(out)]) == 1
            shutil.rmtree(out / "captures")
    assert main(["run", str(file), "--out", str(out)]) == 0
    goodput = pl.read_parquet(out / "flows.parquet")["goodput_mbps"]
    assert goodput.to_list() == [float(made[-1])] * len(FLOWS)
    assert len(pl.read_parquet(out / "series.parquet").unique(["time_s", "flow", "link", "queue"])) == len(
        pl.read_parquet(out / "series.parquet")
    )


# -- tshark -----------------------------------------------------------------------------------------------------------

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
CHECKS = [option for layer in ("ip", "tcp", "udp") for option in ("-o", f"{layer}.check_checksum:TRUE")]


def tshark(path: Path, *options: str) -> list[str]:
    done = subprocess.run(["tshark", "-r", path, *CHECKS, *options], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


@needs_tshark
@pytest.mark.parametrize("flow", FLOWS)
def test_tshark_counts_what_the_tables_count(mixed: Path, flow: str) -> None:
    server = folder_of(mixed) / f"{flow}-server.pcapng.gz"
    assert len(tshark(server, "-Y", "ip.dsfield.ecn == 3")) == rows(mixed)[flow]["ce_packets"]
    client = folder_of(mixed) / f"{flow}-client.pcapng.gz"
    # It takes some retransmissions for segments out of order.
    again = tshark(client, "-Y", "tcp.analysis.retransmission || tcp.analysis.out_of_order")
    assert len(again) == rows(mixed)[flow]["retransmits"]


@needs_tshark
@pytest.mark.parametrize("end", ["client", "server"])
@pytest.mark.parametrize("flow", FLOWS)
def test_tshark_finds_nothing_wrong(mixed: Path, flow: str, end: str) -> None:
    path = folder_of(mixed) / f"{flow}-{end}.pcapng.gz"
    wrong = [f'{layer}.checksum.status == "Bad"' for layer in ("ip", "tcp", "udp")]
    # Warnings and errors, except for what losses look like.
    wrong += ["_ws.malformed", "(_ws.expert.severity >= 0x600000 && !tcp.analysis.flags)", "tcp.window_size == 0"]
    assert not tshark(path, "-Y", " || ".join(wrong))
    good = tshark(path, "-Y", 'ip.checksum.status == "Good"', "-T", "fields", "-e", "frame.time_epoch")
    assert len(good) == len(packets(path))
    if flow != "udp":
        assert tshark(path, "-Y", 'tcp.checksum.status == "Good"'), "segments without payload are captured whole"
    times = [t for t, _ in packets(path)]
    assert [round(float(second) * 1e9) for second in good] == times


@needs_tshark
def test_tshark_does_see_a_bad_checksum(tmp_path: Path) -> None:
    """Of an impaired link: what arrives with a bit error is in the capture."""
    file = write(tmp_path)
    impair = '[impair.air]\nnetem = "corrupt 2%"\nbefore = "bottleneck"\ndirection = "reverse"\n'
    file.write_text(file.read_text() + impair)
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 0
    path = folder_of(tmp_path / "out") / "l4s-client.pcapng.gz"
    assert tshark(path, "-Y", 'tcp.checksum.status == "Bad"')
