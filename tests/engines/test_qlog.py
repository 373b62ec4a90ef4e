"""Connections as qlog, against the result tables and against what the receiver's host captured."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from l4slab.cli import main
from l4slab.engines.linux import build
from l4slab.results.qlog.feedback import Feedback
from l4slab.results.qlog.frames import ACK, AE, CWR, ECE, SYN, Segment, segments
from l4slab.results.qlog.options import read_options
from l4slab.results.qlog.transmissions import Transmissions, ranges

from .conftest import FOUR_FLOWS

MIXED = """
duration = "9s"
captures = "first trial"
per_flow = true
[link.bottleneck]
rate = "10Mbit"
qdisc = "{qdisc}"
"""
MIXED += FOUR_FLOWS.replace('"plain"', '"plain one"')
REORDERING = '[impair.air]\nnetem = "delay 3ms 2ms"\nbefore = "bottleneck"\n'
CONNECTIONS = (("plain one", 1), ("classic", 1), ("classic", 2), ("l4s", 1))
NAMES = {
    "connectivity:connection_started",
    "transport:packet_sent",
    "transport:packet_received",
    "recovery:packet_lost",
    "recovery:metrics_updated",
    "recovery:congestion_state_updated",
}
Record = dict[str, Any]


def run(folder: Path, text: str, *options: str) -> Path:
    folder.mkdir()
    file = folder / "mixed.toml"
    file.write_text(text)
    assert main(["run", str(file), "--out", str(folder / "out"), *options]) == 0
    assert main(["export", str(folder / "out"), "--qlog"]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("qlog")
    texts = {
        "dualpi2": MIXED.format(qdisc="dualpi2"),
        "fifo": MIXED.format(qdisc="pfifo limit 10"),
        "reordered": MIXED.format(qdisc="dualpi2") + REORDERING,
    }
    return {name: run(place / name, text) for name, text in texts.items()}


SCENARIOS = ("dualpi2", "fifo", "reordered")
each = pytest.mark.parametrize(("flow", "member"), CONNECTIONS)
every = pytest.mark.parametrize("scenario", SCENARIOS)


def row(out: Path, flow: str, member: int) -> Record:
    return pl.read_parquet(out / "members.parquet").row(
        by_predicate=(pl.col("flow") == flow) & (pl.col("member") == member), named=True
    )


def file_of(out: Path, flow: str, member: int) -> Path:
    name = flow.replace(" ", "%20")
    return out / "export" / "qlog" / f"mixed-{row(out, flow, member)['run']}-{name}-{member}.sqlog"


@cache
def records(path: Path) -> tuple[Record, list[Record]]:
    """The header and the events, each between a record separator and a line feed (RFC 7464)."""
    text = path.read_text()
    assert text[0] == "\x1e"
    found = text[1:].split("\x1e")
    assert all(one.endswith("\n") and one.count("\n") == 1 for one in found)
    header, *events = map(json.loads, found)
    return header, events


def told(events: list[Record], name: str) -> list[Record]:
    return [event["data"] for event in events if event["name"] == name]


def lost_in(events: list[Record]) -> list[int]:
    return [data["header"]["packet_number"] for data in told(events, "recovery:packet_lost")]


def spans_in(events: list[Record]) -> list[tuple[int, range]]:
    """Of each transmission, in their order, its number and its bytes; the SYN is byte -1, the FIN the last one."""
    spans = []
    for data in told(events, "transport:packet_sent"):
        first, end = -1, 0
        for stream in data["frames"]:
            first, end = stream["offset"], stream["offset"] + stream["length"] + stream.get("fin", False)
        spans.append((data["header"]["packet_number"], range(first, end)))
    return spans


def repeated_in(events: list[Record]) -> list[range]:
    """The bytes of the transmissions that repeat, one for each."""
    repeated, following = [], -1
    for _, span in spans_in(events):
        if span.start < following:
            repeated.append(span)
        following = max(following, span.stop)
    return repeated


def acks_in(events: list[Record]) -> list[Record]:
    return [frame for data in told(events, "transport:packet_received") for frame in data["frames"]]


def acked_in(events: list[Record]) -> list[int]:
    spans = [span for ack in acks_in(events) for span in ack.get("acked_ranges", ())]
    return [number for low, high in spans for number in range(low, high + 1)]


def data_in(events: list[Record]) -> list[int]:
    sent = told(events, "transport:packet_sent")
    return [data["header"]["packet_number"] for data in sent if data["raw"]["payload_length"]]


def stamp_of(segment: Segment) -> tuple[int, int, int]:
    """What tells a transmission from those of the same bytes: they are more than a millisecond apart."""
    return segment.source_port, segment.seq, read_options(segment.options).stamp


def arrived(out: Path, flow: str, member: int) -> set[int]:
    """The packet numbers of the data that the receiver's host captured."""
    folder = out / "captures" / row(out, flow, member)["run"]
    ends = []
    for end in ("client", "server"):
        seen = segments(folder / f"{flow.replace(' ', '%20')}-{end}.pcapng.gz")
        ends.append([stamp_of(one) for one in seen if one.payload and one.source_port == 9999 + member])
    client, server = ends
    numbers = data_in(records(file_of(out, flow, member))[1])
    return {number for number, sent in zip(numbers, client, strict=True) if sent in set(server)}


@every
@each
def test_packets_and_losses_are_those_of_the_tables(
    folders: dict[str, Path], scenario: str, flow: str, member: int
) -> None:
    out = folders[scenario]
    expected = row(out, flow, member)
    _, events = records(file_of(out, flow, member))
    sent = told(events, "transport:packet_sent")
    assert [data["header"]["packet_number"] for data in sent] == list(range(len(sent)))
    data = set(data_in(events))
    assert len(data) == expected["sent_packets"]
    # Each retransmission is the loss of one packet. The tables do not count SYNs.
    lost, acked = lost_in(events), acked_in(events)
    assert len(lost) == len(set(lost))
    assert len(data & set(lost)) == expected["retransmits"]
    assert len(acked) == len(set(acked))
    came = arrived(out, flow, member)
    assert len(came) == expected["delivered_packets"]
    # Where packets overtake each other, of what comes too late the receiver takes no notice (PAWS: RFC 7323, 5), and a
    # SACK block does not say which transmission of its bytes came.
    assert len((data & set(acked)) ^ came) <= (6 if scenario == "reordered" else 0)
    assert expected["sent_packets"] - expected["delivered_packets"] == expected["dropped_packets"]


def test_what_a_fifo_drops_is_lost_and_never_acknowledged(folders: dict[str, Path]) -> None:
    for flow, member in CONNECTIONS:
        expected = row(folders["fifo"], flow, member)
        _, events = records(file_of(folders["fifo"], flow, member))
        lost, acked = set(lost_in(events)), set(acked_in(events))
        numbers = set(data_in(events))
        assert expected["dropped_packets"] > 10
        assert len(numbers - acked) == expected["dropped_packets"]
        assert numbers - acked <= lost
        states = told(events, "recovery:congestion_state_updated")
        assert {"open", "recovery"} <= {state["new"] for state in states}
        assert all(before["new"] == after["old"] for before, after in pairwise(states))


def test_spurious_losses_are_acknowledged_later(folders: dict[str, Path]) -> None:
    both = 0
    for flow, member in CONNECTIONS:
        _, events = records(file_of(folders["reordered"], flow, member))
        both += len(set(lost_in(events)) & set(acked_in(events)))
    assert both > 5


@every
@each
def test_bytes_in_flight_are_those_not_yet_told_of(
    folders: dict[str, Path], scenario: str, flow: str, member: int
) -> None:
    _, events = records(file_of(folders[scenario], flow, member))
    flying: dict[int, int] = {}
    for event, following in zip(events, [*events[1:], None], strict=True):
        data = event["data"]
        match event["name"]:
            case "transport:packet_sent":
                (frame,) = data["frames"] or [{"length": 1}]
                flying[data["header"]["packet_number"]] = frame["length"] + frame.get("fin", False)
            case "recovery:packet_lost":
                del flying[data["header"]["packet_number"]]
            case "transport:packet_received":
                for low, high in (span for frame in data["frames"] for span in frame.get("acked_ranges", ())):
                    for number in range(low, high + 1):
                        flying.pop(number, None)
            case "recovery:metrics_updated" if "bytes_in_flight" in data and scenario != "reordered":
                # Of bytes that arrived by another transmission nothing flies any more, so not where there are such.
                assert data["bytes_in_flight"] == sum(flying.values())
                assert following is None or following["time"] >= event["time"]
    metrics = told(events, "recovery:metrics_updated")
    flights = [data["bytes_in_flight"] for data in metrics if "bytes_in_flight" in data]
    assert min(flights) >= 0
    assert flights[-1] == 0


@each
def test_round_trips_and_windows(folders: dict[str, Path], flow: str, member: int) -> None:
    out = folders["dualpi2"]
    metrics = told(records(file_of(out, flow, member))[1], "recovery:metrics_updated")
    rtts = [data["latest_rtt"] for data in metrics if "latest_rtt" in data]
    base = 5 if flow == "l4s" else 10
    assert base <= min(rtts) < 1.2 * base
    assert [data["min_rtt"] for data in metrics if "min_rtt" in data][-1] == min(rtts)
    series = pl.read_parquet(out / "series.parquet").filter(flow=flow).drop_nulls("cwnd_packets")
    windows = [data["congestion_window"] for data in metrics if "congestion_window" in data]
    if flow == "classic":
        assert not windows, "a group's mean is nobody's window"
        return
    payload = max(
        one["raw"]["payload_length"] for one in told(records(file_of(out, flow, member))[1], "transport:packet_sent")
    )
    assert windows[-5:] == [round(cwnd * payload) for cwnd in series["cwnd_packets"].to_list()][-5:]
    assert [data["smoothed_rtt"] for data in metrics if "smoothed_rtt" in data][-1] == pytest.approx(
        series["srtt_ms"][-1]
    )


def test_accecn_counts_are_exact_and_classic_ones_at_most(folders: dict[str, Path]) -> None:
    out = folders["dualpi2"]
    marked = row(out, "l4s", 1)
    acks = [ack for ack in acks_in(records(file_of(out, "l4s", 1))[1]) if "ce" in ack]
    assert acks[-1]["ce"] == marked["ce_packets"] > 100
    # Prague shrinks its segments here; ECT is told in full ones.
    received = segments(out / "captures" / marked["run"] / "l4s-server.pcapng.gz")
    unmarked = [one.payload for one in received if one.payload and one.ecn == 1]
    assert len(unmarked) == marked["delivered_packets"] - marked["ce_packets"]
    assert acks[-1]["ect1"] == round(sum(unmarked) / max(unmarked))
    assert acks[-1]["ect0"] == 0
    for member in (1, 2):
        acks = [ack for ack in acks_in(records(file_of(out, "classic", member))[1]) if "ce" in ack]
        counts = [ack["ce"] for ack in acks]
        assert counts == sorted(counts)
        # A SYN that is lost is repeated without ECN.
        assert bool(counts) == (row(out, "classic", member)["ecn_mode"] == "classic")
        assert not counts or 0 < counts[-1] <= row(out, "classic", member)["ce_packets"]
    assert row(out, "classic", 1)["ecn_mode"] == "classic"
    plain = records(file_of(out, "plain one", 1))[1]
    assert not any("ce" in ack for ack in acks_in(plain))


@every
@each
def test_a_reader_as_strict_as_qvis_finds_nothing_wrong(
    folders: dict[str, Path], scenario: str, flow: str, member: int
) -> None:
    """What qvis asks of a file: of its loader for text sequences, and of its congestion graph."""
    header, events = records(file_of(folders[scenario], flow, member))
    assert list(header)[:2] == ["qlog_version", "qlog_format"]
    assert (header["qlog_version"], header["qlog_format"]) == ("0.3", "JSON-SEQ")
    assert header["trace"]["vantage_point"] == {"name": flow, "type": "client"}
    assert header["trace"]["common_fields"] == {
        "protocol_type": ["TCP"],
        "reference_time": 0.0,
        "time_format": "relative",
    }
    assert {event["name"] for event in events} <= NAMES
    assert all(list(event) == ["time", "name", "data"] for event in events)
    times = [event["time"] for event in events]
    assert times == sorted(times)
    sent: set[int] = set()
    for event in events:
        data = event["data"]
        if event["name"] in ("transport:packet_sent", "transport:packet_received"):
            assert data["raw"]["length"] > data["raw"]["payload_length"] >= 0
            assert data["header"]["packet_type"] in ("initial", "1RTT")
        if event["name"] == "transport:packet_sent":
            sent.add(data["header"]["packet_number"])
        elif event["name"] == "recovery:packet_lost":
            assert data["header"]["packet_number"] in sent
        for frame in data.get("frames", ()):
            assert all(high in sent and low <= high for low, high in frame.get("acked_ranges", ()))


def test_only_what_is_asked_for(folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folders["dualpi2"]
    wanted = row(out, "l4s", 1)["run"]
    assert main(["export", str(out), "--qlog", "--run", wanted[:5], "--flow", "l4s", "--to", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"mixed-{wanted}-l4s-1.sqlog"]
    capsys.readouterr()
    for options, sentence in (
        (["--flow", "l5s"], '--flow l5s: did you mean "l4s"?'),
        (["--flow", "udp"], "has no captures of TCP there"),
        (["--run", "nope"], "--run nope: "),
    ):
        assert main(["export", str(out), "--qlog", *options]) == 2
        assert sentence in capsys.readouterr().err
    assert main(["export", str(out), "--flent", "--run", wanted]) == 2
    assert "give --qlog with them" in capsys.readouterr().err


def test_without_captures_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mixed.toml"
    file.write_text(MIXED.format(qdisc="pfifo").replace("9s", "1s").replace("8s", "1s"))
    assert main(["run", str(file), "--out", str(tmp_path / "out"), "--no-captures"]) == 0
    assert main(["export", str(tmp_path / "out"), "--qlog"]) == 2
    assert 'write captures = "first trial" at the top of the experiment file' in capsys.readouterr().err


def test_a_broken_capture_is_a_sentence(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folders["dualpi2"], tmp_path / "out")
    (capture,) = (tmp_path / "out" / "captures").glob("*/l4s-client.pcapng.gz")
    capture.write_bytes(capture.read_bytes()[:10_000])
    assert main(["export", str(tmp_path / "out"), "--qlog", "--flow", "l4s"]) == 1
    assert "l4s-client.pcapng.gz cannot be read" in capsys.readouterr().err


# -- the parts --------------------------------------------------------------------------------------------------------


class Receiver:
    """Acknowledges each segment at once, as RFC 2018 and RFC 2883 say, with three blocks."""

    def __init__(self) -> None:
        self.have: set[int] = set()  # segments of 1000 bytes
        self.stamp = 0

    def hear(self, which: int, stamp: int) -> tuple[int, list[tuple[int, int]], int]:
        again = which in self.have
        if which <= self.next():
            self.stamp = stamp
        self.have.add(which)
        cumulative = self.next()
        above = sorted(one for one in self.have if one > cumulative)
        blocks = [(low * 1000, high * 1000 + 1000) for low, high in ranges(above)]
        blocks.sort(key=lambda block: not block[0] <= which * 1000 < block[1])
        first = [(which * 1000, which * 1000 + 1000)] if again else []
        return cumulative * 1000, first + blocks[: 3 - len(first)], self.stamp

    def next(self) -> int:
        return next(one for one in range(len(self.have) + 1) if one not in self.have)


@pytest.mark.parametrize("hasty", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_lost_what_arrives_is_acknowledged(seed: int, hasty: bool) -> None:
    """A channel in order that loses data; a hasty sender repeats also what is not lost."""
    chance = random.Random(seed)
    table, receiver = Transmissions(), Receiver()
    came: set[int] = set()
    acked: list[int] = []
    lost: list[int] = []
    on_the_way: list[tuple[int, int]] = []  # of acknowledgements: segment, stamp
    dropped: set[int] = set()
    now = 0
    while table.una < 200_000:
        now += 1
        repeated = [one for one in range(table.una // 1000, table.next // 1000) if one not in receiver.have]
        candidates = [one for one in repeated if hasty or one in dropped]
        if candidates and chance.random() < 0.4:
            which = chance.choice(candidates)
        elif table.next < 200_000:
            which = table.next // 1000
        else:
            which = -1
        if which >= 0:
            number, gone = table.send(now, which * 1000, which * 1000 + 1000, now)
            lost += gone
            dropped.discard(which)
            if chance.random() < 0.8:
                came.add(number)
                on_the_way.append((which, now))
            else:
                dropped.add(which)
        while on_the_way and (len(on_the_way) > 5 or which < 0):
            acked += table.ack(now, *receiver.hear(*on_the_way.pop(0))).numbers
        assert table.in_flight >= 0
    for last in on_the_way:
        acked += table.ack(now, *receiver.hear(*last)).numbers
    assert table.in_flight == 0
    assert len(lost) == len(set(lost))
    assert len(acked) == len(set(acked)) == len(came)
    if not hasty:
        assert set(acked) == came
        assert not set(lost) & came


def test_an_early_ack_after_a_retransmission_is_for_the_first_transmission() -> None:
    table = Transmissions()
    table.send(0, 0, 100, stamp=1)
    table.send(1, 100, 200, stamp=1)
    assert table.send(50, 0, 100, stamp=51) == (2, [0])
    assert table.ack(60, 200, [], echo=1).numbers == [0, 1]
    assert table.in_flight == 0
    # The D-SACK says that the retransmission came, too.
    assert table.ack(150, 200, [(0, 100)], echo=1).numbers == [2]


def test_sequence_numbers_repeat_with_other_boundaries() -> None:
    table = Transmissions()
    table.send(0, 0, 100)
    table.send(0, 100, 200)
    assert table.send(50, 0, 200) == (2, [0, 1])
    assert table.in_flight == 200
    assert table.ack(90, 150, []).numbers == []
    assert table.in_flight == 50
    assert table.ack(91, 200, []).numbers == [2]


def test_ranges() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]
    assert ranges([]) == []


def segment(flags: int, options: bytes = b"") -> Segment:
    return Segment(0, b"", b"", 1, 2, 0, 0, flags, 0, 40, 0, options)


def ace(count: int) -> int:
    bits = (5 + count) % 8
    return (AE if bits & 4 else 0) | (CWR if bits & 2 else 0) | (ECE if bits & 1 else 0)


@pytest.mark.parametrize(
    ("offer", "answer", "mode"),
    [
        (AE | CWR | ECE, CWR, "accecn"),
        (AE | CWR | ECE, CWR | ECE, "accecn"),
        (AE | CWR | ECE, AE, "accecn"),
        (AE | CWR | ECE, AE | CWR, "accecn"),
        (AE | CWR | ECE, ECE, "classic"),
        (AE | CWR | ECE, AE | ECE, "classic"),
        (AE | CWR | ECE, 0, "off"),
        (AE | CWR | ECE, AE | CWR | ECE, "off"),
        (CWR | ECE, ECE, "classic"),
        (CWR | ECE, 0, "off"),
        (0, 0, "off"),
    ],
)
def test_what_handshakes_agree_on(offer: int, answer: int, mode: str) -> None:
    """RFC 9768, table 2."""
    feedback = Feedback()
    feedback.offer(segment(SYN | offer))
    feedback.agree(segment(SYN | ACK | answer))
    assert feedback.mode == mode


def test_the_count_of_ce_goes_round_with_the_help_of_the_bytes() -> None:
    feedback = Feedback()
    feedback.offer(segment(SYN | AE | CWR | ECE))
    feedback.agree(segment(SYN | ACK | CWR))
    assert feedback.hear(segment(ACK | ace(3)), {}, 3, 1000) == {"ect0": 0, "ect1": 0, "ce": 3}
    # Twenty packets, of which thirteen had CE; the option has them all since the start.
    counters = {"ect1": 1 + 7000, "ce": 16_000}
    assert feedback.hear(segment(ACK | ace(16)), counters, 20, 1000) == {"ect0": 0, "ect1": 7, "ce": 16}


def test_options() -> None:
    stamps = struct.pack("!BBBBII", 1, 1, 8, 10, 7, 8)
    sack = struct.pack("!BBBBII", 1, 1, 5, 10, 100, 200)
    accecn = bytes((174, 8, 0, 0, 9, 0, 0, 4))
    assert read_options(stamps + accecn + sack) == (7, 8, ((100, 200),), {"ect1": 9, "ce": 4})
    assert read_options(bytes((172, 11, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0)))[3] == {"ect0": 1, "ce": 2, "ect1": 3}
    assert read_options(b"") == (0, None, (), {})
    assert read_options(bytes((5, 40, 1))) == (0, None, (), {})


# -- the kernel -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(build.installed() is None, reason="no kernel: l4slab linux build")
def test_connections_of_the_kernel(tmp_path: Path) -> None:
    out = run(tmp_path / "kernel", MIXED.format(qdisc="dualpi2"), "--engine", "linux")
    for flow, member in CONNECTIONS:
        expected = row(out, flow, member)
        header, events = records(file_of(out, flow, member))
        assert header["qlog_version"] == "0.3"
        numbers = set(data_in(events))
        assert len(numbers) == expected["sent_packets"]
        again = repeated_in(events)
        assert len(again) == expected["retransmits"], (flow, member)
        # A retransmission that waits to be paced while an ACK of its bytes comes repeats what was not lost.
        lost = [span for number, span in spans_in(events) if number in set(lost_in(events))]
        assert len(lost) <= len(again)
        assert all(any(set(span) & set(other) for other in again) for span in lost)
        assert len(numbers & set(acked_in(events))) == expected["delivered_packets"]
        metrics = told(events, "recovery:metrics_updated")
        flights = [data["bytes_in_flight"] for data in metrics if "bytes_in_flight" in data]
        assert (min(flights), flights[-1]) == (0, 0)
        least = min(data["latest_rtt"] for data in metrics if "latest_rtt" in data)
        assert least == pytest.approx(5 if flow == "l4s" else 10, rel=0.4)
    acks = [ack for ack in acks_in(records(file_of(out, "l4s", 1))[1]) if "ce" in ack]
    # The table has data only: a mark on the SYN is counted, too.
    assert acks[-1]["ce"] - row(out, "l4s", 1)["ce_packets"] in (0, 1)
    assert (
        Counter(bool(data["frames"]) for data in told(records(file_of(out, "l4s", 1))[1], "transport:packet_sent"))[
            False
        ]
        == 1
    )
