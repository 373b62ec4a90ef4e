"""The engine `linux` while somebody watches and changes what it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from l4slab import _core
from l4slab.engines.linux import kernels, lab, machine, recording
from l4slab.engines.linux.live import LinuxLive, described
from l4slab.engines.linux.recording.live import Recorder

from .conftest import CUBIC, ONE_LINK, TWO_LINKS, Describe

MS, SECOND = 1_000_000, 1_000_000_000
WATCH = {"sample_ns": 20 * MS, "members": True, "histograms": True, "packets": True}
UDP = '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "2Mbit"\nrtt = "10ms"\n'
needs_kernel = [
    pytest.mark.slow,
    pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build"),
]


# -- without a kernel -------------------------------------------------------------------------------------------------


class Told:
    """Writes the files of a laboratory bit by bit: a FIFO of 12 packets on each link, at random times."""

    def __init__(self, folder: Path, links: int):
        self._folder = folder
        random = np.random.default_rng(7)
        self._records = []
        for _ in range(links):
            came = np.sort(random.integers(1, 2 * SECOND, 3000)).astype(np.uint64)
            packets = np.zeros(len(came), recording.PACKET)
            packets["in_ns"], packets["number"] = came, np.arange(len(came))
            packets["flow"], packets["conn"] = 1, 10000 + random.integers(0, 2, len(came))
            packets["len"], packets["kind"], packets["id"] = 1514, 1, packets["number"]
            packets["ecn_in"] = packets["ecn_out"] = 2
            packets["ecn_out"][random.random(len(came)) < 0.1] = 3
            free = 0
            for packet in packets[random.random(len(came)) < 0.97]:
                free = max(free, int(packet["in_ns"])) + 600_000
                packets["out_ns"][packet["number"]] = free
            self._records.append(packets)
        self._told = 0
        (folder / "tcp.bin").write_bytes(recording.head_of(recording.SAMPLE))
        for name in ("ticks.tsv", "events.tsv"):
            (folder / name).write_bytes(b"")
        for number in range(links):
            for name in ("packets", "arrivals"):
                (folder / f"{name}.{number}.bin").write_bytes(recording.head_of(recording.PACKET))
            (folder / f"tc.{number}.json").write_bytes(b"")

    def go_on(self, until_ns: int, sample_ns: int) -> None:
        """What the laboratory would write until then."""
        for number, packets in enumerate(self._records):
            came = packets[(packets["in_ns"] > self._told) & (packets["in_ns"] <= until_ns)].copy()
            came["out_ns"] = 0
            left = packets[(packets["out_ns"] > self._told) & (packets["out_ns"] <= until_ns)]
            self._add(f"arrivals.{number}.bin", came.tobytes())
            self._add(f"packets.{number}.bin", left[np.argsort(left["out_ns"])].tobytes())
        for t in range((self._told // sample_ns + 1) * sample_ns, until_ns + 1, sample_ns):
            sample = np.zeros(2, recording.SAMPLE)
            sample["t_ns"], sample["flow"], sample["conn"], sample["state"] = t, 1, [0, 1], 1
            sample["bytes_acked"], sample["cwnd"], sample["srtt_us"] = [t // 1000, t // 2000], [9, 11], 20_000
            self._add("tcp.bin", sample.tobytes())
            self._add("ticks.tsv", f"{t}\n".encode())
            for number in range(len(self._records)):
                state = [{"kind": "htb", "root": True}, {"kind": "pfifo", "parent": "1:1", "handle": "2:", "qlen": 3}]
                self._add(f"tc.{number}.json", json.dumps(state).encode() + b"\n")
        self._told = until_ns

    def _add(self, name: str, data: bytes) -> None:
        with (self._folder / name).open("ab") as file:
            file.write(data)


@pytest.mark.parametrize("links", [1, 2])
def test_samples_taken_piece_by_piece_are_those_of_the_whole(describe: Describe, tmp_path: Path, links: int) -> None:
    path = TWO_LINKS.replace("dualpi2", "pfifo limit 50") if links == 2 else ONE_LINK
    run = described(describe(path + CUBIC + "count = 2\n", duration='"2s"', warmup='"0s"', sample='"20ms"'))
    made = lab.build(run, live=True)
    columns = list(recording.columns(run)["series"])
    found = []
    for name, steps in (("whole", [2 * SECOND]), ("pieces", [7 * MS * n for n in range(1, 286)] + [2 * SECOND])):
        folder = tmp_path / name
        folder.mkdir()
        told = Told(folder, links)
        recorder = Recorder(made, folder, WATCH, columns)
        parts = []
        for until in steps:
            told.go_on(until, 20 * MS)
            parts.append(recorder.take(until))
        recorder.close()
        found.append(parts)
    (whole,), pieces = found
    for table in ("series", "members"):
        for column, values in whole[table].items():
            assert values == [value for part in pieces for value in part[table][column]], column
    assert len(whole["series"]["time_s"]) == 100 * (1 + links)
    assert sum(filter(None, whole["series"]["dropped_packets"])) > 50
    assert whole["histograms"] == pieces[-1]["histograms"]
    events = ("link", "time_ns", "what", "id", "ecn")
    rows = [sorted(zip(*(whole["packets"][name] for name in events), strict=True))]
    rows.append(sorted(row for part in pieces for row in zip(*(part["packets"][name] for name in events), strict=True)))
    assert rows[0] == rows[1]
    # Nothing that waits was left out.
    assert not any(part["packets"]["unknown"][0] for part in pieces)


def test_a_packet_that_was_overtaken_was_dropped(describe: Describe, tmp_path: Path) -> None:
    run = described(describe(ONE_LINK + CUBIC, duration='"2s"', warmup='"0s"'))
    told = Told(tmp_path, 1)
    recorder = Recorder(lab.build(run, live=True), tmp_path, WATCH, ["time_s"])
    told.go_on(2 * SECOND, 100 * MS)
    packets = pl.DataFrame(
        {key: value for key, value in recorder.take(2 * SECOND)["packets"].items() if key != "cut" and key != "unknown"}
    )
    recorder.close()
    by_id = packets.group_by("id").agg(pl.col("what").sort())
    assert set(map(tuple, by_id["what"])) <= {(0,), (0, 1), (0, 2)}
    truth = {int(p["number"]) for p in told._records[0] if p["out_ns"] == 0}
    known = set(packets.filter(what=2)["id"])
    assert known <= truth
    assert len(truth - known) < 5


def test_what_the_kernel_does_not_have_is_refused(describe: Describe) -> None:
    live = LinuxLive()

    def refusal(**request: Any) -> str:
        return str(json.loads(live.ask(json.dumps(request)))["refused"])

    run = describe(ONE_LINK + CUBIC)
    assert "no run was started" in refusal(do="advance", until_ns=5)
    other = '[[flow]]\nname = "w"\nkind = "udp-prague"\nrtt = "10ms"\n'
    assert 'no kind = "udp-prague"' in refusal(do="check", run=describe(ONE_LINK + other))
    assert "no Linux kernel has pi2" in refusal(do="check", run=run | {"links": [run["links"][0] | {"qdisc": "pi2"}]})
    assert json.loads(live.ask('{"do": "vocabulary"}'))["ok"]["version"] == _core.version()
    live.close()


# -- on the kernel ----------------------------------------------------------------------------------------------------


class Asker:
    """Somebody who asks and keeps all samples."""

    def __init__(self) -> None:
        self.live = LinuxLive()
        self.parts: list[dict[str, Any]] = []
        self.now_ns = 0

    def ask(self, **request: Any) -> dict[str, Any]:
        answer = json.loads(self.live.ask(json.dumps(request)))
        assert "ok" in answer, answer
        found: dict[str, Any] = answer["ok"]
        return found

    def refusal(self, **request: Any) -> str:
        return str(json.loads(self.live.ask(json.dumps(request)))["refused"])

    def go_on(self, seconds: float, step_ns: int = 50 * MS) -> None:
        end = self.now_ns + round(seconds * SECOND)
        while self.now_ns < end:
            self.now_ns = min(end, self.now_ns + step_ns)
            self.parts.append(self.ask(do="advance", until_ns=self.now_ns))
            assert self.parts[-1]["now_ns"] == self.now_ns

    def table(self, name: str) -> pl.DataFrame:
        keys = [key for key in self.parts[0][name] if key not in ("cut", "unknown")]
        return pl.DataFrame(
            {key: [value for part in self.parts for value in part[name].get(key, ())] for key in keys}, strict=False
        )


def left_behind() -> list[str]:
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout.splitlines()
    own = f"{machine.tempfile.gettempdir()}/l4slab-{os.getpid()}-"
    return [line for line in lines if f"OUT={own}" in line] + [str(path) for path in Path("/").glob(own[1:] + "*")]


class TestPause:
    pytestmark = needs_kernel

    def test_who_begins_while_its_group_rests_rests_too(self, describe: Describe) -> None:
        run = described(describe(ONE_LINK + CUBIC + 'app_rate = "1Mbit"\n', duration='"60s"', start_jitter='"0s"'))
        asker = Asker()
        asker.ask(do="start", run=run, watch=WATCH)
        asker.go_on(1)
        asker.ask(do="change", change={"flow": "a", "pause": True})
        asker.go_on(1)
        asker.ask(do="change", change={"flow": "a", "count": 3})
        asker.go_on(2)
        asker.ask(do="change", change={"flow": "a", "pause": False})
        asker.go_on(2)
        asker.live.close()
        flow = asker.table("series").filter(flow="a")
        assert flow.filter(pl.col("time_s").is_between(1.5, 4))["goodput_mbps"].max() == 0
        assert flow.filter(pl.col("time_s") > 5)["goodput_mbps"].mean() == pytest.approx(3, rel=0.1)


@pytest.fixture(scope="class")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """Everything that can change, changes."""
    from l4slab import experimentfile, sweep

    file = tmp_path_factory.mktemp("live") / "x.toml"
    tcp = '[[flow]]\nname = "l4s"\ncc = "prague"\nrtt = "10ms"\n' + CUBIC.replace('"a"', '"c"') + "count = 0\n"
    file.write_text(
        'duration = "60s"\nstart_jitter = "0s"\n' + ONE_LINK.replace("pfifo limit 50", "dualpi2") + tcp + UDP
    )
    run = dict(sweep.expand(experimentfile.load(file), "linux").runs[0].description)
    run["flows"][-1]["count"] = 0
    run["at"] = [{"time_ns": 13 * SECOND, "flow": "u", "rate_bps": 3_000_000}]
    asker = Asker()
    assert asker.ask(do="start", run=run, watch=WATCH)["now_ns"] == 0
    asker.go_on(3)
    assert asker.ask(do="change", change={"flow": "c", "count": 2})["time_ns"] == 3 * SECOND
    asker.go_on(4)
    asker.ask(do="change", change={"flow": "c", "count": 1})
    asker.ask(do="change", change={"link": "one", "rate_bps": 20_000_000})
    asker.go_on(4)
    asker.ask(do="change", change={"flow": "u", "count": 1})
    asker.go_on(4, 7 * MS)
    asker.ask(do="change", change={"flow": "l4s", "rtt_ns": 60 * MS})
    asker.go_on(3)
    asker.ask(do="change", change={"link": "one", "qdisc": "pfifo limit 30"})
    asker.go_on(3)
    assert "limits" in asker.refusal(do="change", change={"link": "one", "qdisc": "pfifo limits 5"})
    assert "no flow" in asker.refusal(do="change", change={"flow": "nobody", "count": 1})
    assert "100 s" in asker.refusal(do="advance", until_ns=asker.now_ns + 101 * SECOND)
    asker.go_on(0.5)
    yield asker
    asker.live.close()
    assert not left_behind()


class TestStory:
    pytestmark = needs_kernel

    def test_each_step_of_the_series_is_there_once(self, story: Asker) -> None:
        flows = story.table("series").filter(pl.col("flow") == "l4s")
        assert [round(t * 50) for t in flows["time_s"]] == list(range(1, 50 * story.now_ns // SECOND + 1))

    def test_the_changes_take_effect_at_their_time(self, story: Asker) -> None:
        series = story.table("series")
        whole = series.filter(queue="all").sort("time_s")

        def rate(table: pl.DataFrame, begin: float, end: float) -> float:
            return float(table.filter((pl.col("time_s") > begin) & (pl.col("time_s") <= end))["rate_mbps"].mean())

        assert rate(whole, 1, 7) == pytest.approx(10, rel=0.02)
        assert rate(whole, 7.5, 11) == pytest.approx(20, rel=0.03)
        udp = series.filter(flow="u")
        assert rate(udp, 0, 11) == 0
        assert rate(udp, 11.1, 13) == pytest.approx(2, rel=0.02)
        assert rate(udp, 13.1, 15) == pytest.approx(3, rel=0.02)
        assert rate(series.filter(flow="c"), 0, 3) == 0
        srtt = series.filter(flow="l4s").select("time_s", "srtt_ms").drop_nulls()
        assert srtt.filter(pl.col("time_s").is_between(10, 15))["srtt_ms"].min() < 15
        assert srtt.filter(pl.col("time_s") > 16)["srtt_ms"].min() > 55
        inside = series.filter(queue="L")
        assert inside["time_s"].max() == pytest.approx(18)

    def test_flows_come_and_go(self, story: Asker) -> None:
        members = story.table("members").filter(flow="c")
        assert members["time_s"].min() == pytest.approx(3.04, abs=0.04)
        assert set(members["member"]) == {1, 2}
        last = members.group_by("member").agg(pl.col("time_s").max()).sort("member")["time_s"]
        assert last[0] == pytest.approx(story.now_ns * 1e-9, abs=0.03)
        assert 7 < last[1] < 9

    def test_packets_come_and_leave_or_are_dropped(self, story: Asker) -> None:
        packets = story.table("packets")
        assert not any(part["packets"]["cut"] for part in story.parts)
        kinds = packets.sort("id", "what").group_by("id", maintain_order=True).agg("what", "time_ns", "flow")
        assert set(map(tuple, kinds["what"])) <= {(0,), (0, 1), (0, 2)}
        assert all(times == sorted(times) for times in kinds["time_ns"].to_list())
        waiting = kinds.filter(pl.col("what").list.len() == 1).height
        assert waiting < 60
        # What left is what the series counts, and what the histogram has.
        left = packets.filter((pl.col("what") == 1) & (pl.col("time_ns") <= story.now_ns))
        mbps = story.table("series").filter(queue="all")["rate_mbps"].sum()
        assert float(left["bytes"].sum()) * 8e-6 == pytest.approx(mbps * 0.02, rel=1e-6)
        (of_all,) = [one for one in story.parts[-1]["histograms"] if one["queue"] == "all"]
        assert sum(count for *_, count in of_all["bins"]) == left.height

    def test_the_report_is_of_everything_so_far(self, story: Asker) -> None:
        report = story.ask(do="report")
        flows = {row["flow"]: row for row in report["flows"]}
        assert report["now_ns"] == story.now_ns
        series = story.table("series")
        for name, count in (("l4s", 1), ("c", 2), ("u", 1)):
            assert flows[name]["count"] == count
            delivered = series.filter(flow=name)["delivered_packets"].sum()
            assert flows[name]["delivered_packets"] == delivered
        assert sum(row["share"] for row in flows.values()) == pytest.approx(1)
        assert {row["queue"] for row in report["links"]} == {"all", "L", "C"}


@pytest.fixture
def asker() -> Iterator[Asker]:
    asker = Asker()
    yield asker
    asker.live.close()
    assert not left_behind()


class TestEnds:
    pytestmark = needs_kernel

    def test_a_whole_run(self, describe: Describe, asker: Asker) -> None:
        run = describe(ONE_LINK + UDP + CUBIC, duration='"3s"')
        found = asker.ask(do="batch", run=run, watch={"sample_ns": 100 * MS})
        assert len(found["series"]["time_s"]) == 30 * 3
        udp = next(row for row in found["flows"] if row["flow"] == "u")
        assert udp["rate_mbps"] == pytest.approx(2, rel=0.01)
        assert "no run was started" in asker.refusal(do="report")

    def test_a_kernel_that_was_killed_is_a_sentence(self, describe: Describe, asker: Asker) -> None:
        asker.ask(do="start", run=describe(ONE_LINK + CUBIC), watch=WATCH)
        asker.go_on(0.2)
        for process in list(machine._running):
            process.kill()
        assert "the kernel's run has ended: the kernel was ended by SIGKILL" in asker.refusal(
            do="advance", until_ns=SECOND
        )
        assert not left_behind()
        asker.now_ns = 0
        asker.ask(do="start", run=describe(ONE_LINK + CUBIC), watch=WATCH)
        asker.go_on(0.2)

    def test_a_program_that_ends_leaves_nothing(self, describe: Describe, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "l4slab.live.session", "l4slab.engines.linux.live:LinuxLive", "0"]
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert process.stdin is not None
        assert process.stdout is not None
        run = describe(ONE_LINK.replace("10Mbit", "1Gbit") + CUBIC)
        process.stdin.write(json.dumps({"do": "start", "run": run}) + "\n")
        assert "ok" in json.loads(process.stdout.readline())
        assert list(tmp_path.glob("l4slab-*"))
        # Amidst an answer.
        process.stdin.write(json.dumps({"do": "advance", "until_ns": 100 * SECOND}) + "\n")
        time.sleep(0.5)
        process.stdin.close()
        process.wait(10)
        assert not list(tmp_path.glob("l4slab-*"))
        assert str(tmp_path) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
