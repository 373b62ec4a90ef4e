"""On the kernel itself, where one has been built (`l4slab linux build`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from l4slab.engines.contract import EngineError, Recording
from l4slab.engines.linux import engine, kernels, machine
from l4slab.engines.linux.engine import LinuxEngine

from .conftest import CUBIC, ONE_LINK, TWO_LINKS, Describe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build"),
]


def execute(run: dict[str, Any], keep: Path | None = None) -> Recording:
    return LinuxEngine().execute(json.dumps(run), keep)


def machines() -> list[str]:
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout.splitlines()
    return [line for line in found if f"OUT={machine.tempfile.gettempdir()}/l4slab-{os.getpid()}-" in line]


def test_two_cubic_flows_fill_a_fifo(describe: Describe, tmp_path: Path) -> None:
    run = describe(ONE_LINK + CUBIC + CUBIC.replace('"a"', '"b"').replace("classic", "off"), duration='"8s"')
    recording = execute(run, tmp_path / "kept")
    flows = {row["flow"]: row for row in recording.flows.iter_rows(named=True)}
    assert sum(row["rate_mbps"] for row in flows.values()) == pytest.approx(10, rel=0.01)
    assert (flows["a"]["ecn_mode"], flows["b"]["ecn_mode"]) == ("classic", "off")
    link = recording.links.row(0, named=True)
    # 50 packets of 1514 B at 10 Mbit/s.
    assert link["sojourn_ms_max"] == pytest.approx(50 * 1514 * 8 / 10e6 * 1e3, rel=0.05)
    assert link["backlog_packets_max"] == pytest.approx(50, abs=1)
    assert link["utilisation"] == pytest.approx(1, abs=0.002)
    assert 30 < flows["a"]["rtt_ms_mean"] < 85
    assert recording.series.height == 3 * 80
    kept = {path.name for path in (tmp_path / "kept").iterdir()}
    assert {"setup.sh", "plan", "lab.c", "teardown.txt", "console.log"} <= kept
    assert "qdisc pfifo 2: dev out parent 1:1 limit 50p" in (tmp_path / "kept" / "teardown.txt").read_text()
    assert not machines()


def test_bbr_tells_its_states_as_in_the_simulator(describe: Describe) -> None:
    run = describe(ONE_LINK + CUBIC.replace("cubic", "bbr"), duration='"3s"', sample='"20ms"')
    series = execute(run).series.filter(pl.col("flow") == "a")
    states = series["cc_state"].drop_nulls()
    order = states.filter((states != states.shift()).fill_null(value=True)).to_list()
    assert order == ["startup", "drain", "probe_bw"]
    assert series.filter(cc_state="startup")["pacing_gain"].unique().to_list() == [739 / 256]
    known = series.filter(cc_state="probe_bw")
    # 10 Mbit/s in frames of 1514 B.
    assert known["bottleneck_packets_per_ms"].median() == pytest.approx(10e6 / 8 / 1514 * 1e-3, rel=0.03)
    assert known["min_rtt_ms"].min() == pytest.approx(20, abs=0.5)


def test_a_source_and_a_queue_without_load_are_exact(describe: Describe) -> None:
    udp = '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "6Mbit"\nrtt = "10ms"\necn = "ect0"\nbatch = 2\n'
    flow = execute(describe(ONE_LINK + udp)).flows.row(0, named=True)
    assert flow["rate_mbps"] == pytest.approx(6, rel=0.002)
    assert flow["goodput_mbps"] == pytest.approx(6 * 1472 / 1514, rel=0.002)
    # HTB's burst lets both packets of a batch go at once: it is full after the pause.
    assert flow["sojourn_ms_p99"] < 1.3
    assert flow["drop_pct"] == 0


def test_a_copy_waits_in_the_queue_beside_its_original(describe: Describe) -> None:
    udp = '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "6Mbit"\nrtt = "10ms"\n'
    copies = '[impair.w]\nnetem = "duplicate 50%"\nbefore = "one"\n'
    link = execute(describe(ONE_LINK + udp + copies, duration='"61s"')).links.row(0, named=True)
    assert link["utilisation"] == pytest.approx(0.9, rel=0.02)
    assert link["dropped_packets"] == 0
    # In units of a third of a packet's 1.21 ms, what waits grows by one or falls by two from one original to the next,
    # so it is geometric with the root of x^2 + x = 1. The shaper's burst of 1600 B lets 3.2 units through at once.
    unit, root, burst = 1514 * 8 / 10e6 * 1e3 / 3, (5**0.5 - 1) / 2, 1600 / 1514 * 3
    waits = [((1 - root) * root**k, max(0, k - burst), max(0, k + 3 - burst)) for k in range(100)]
    mean = sum(share * (original + copy / 2) for share, original, copy in waits) / 1.5 * unit
    assert link["sojourn_ms_mean"] == pytest.approx(mean, abs=0.1)


def test_everything_at_once(describe: Describe) -> None:
    flows = (
        CUBIC.replace("classic", "accecn")
        + 'path = ["one", "two"]\nreverse_path = ["two"]\n'
        + CUBIC.replace('"a"', '"t"')
        + 'path = ["one"]\nstart = "1s"\npace = "2Mbit"\n'
        + '[[flow]]\nname = "s"\ncc = "reno"\nrtt = "10ms"\npath = ["one"]\nbytes = "50kB"\ncount = 3\nstop = "3s"\n'
        + '[[rewrite]]\nflow = "t"\nwhere = "before:one"\nfrom = "ect0"\nto = "ect1"\n'
        + '[[at]]\ntime = "3s"\n"link.two.rate" = "3Mbit"\n"link.one.qdisc" = "dualpi2"\n'
        + '[impair.w]\nnetem = "delay 3ms"\nbefore = "two"\n'
    )
    recording = execute(describe(TWO_LINKS + flows, duration='"6s"'))
    rows = {row["flow"]: row for row in recording.flows.iter_rows(named=True)}
    assert (rows["a"]["ecn_mode"], rows["t"]["ecn_mode"], rows["s"]["transfers"]) == ("accecn", "classic", 3)
    assert rows["t"]["rate_mbps"] < 2.05
    late = recording.series.filter(pl.col("time_s") > 3.5, link="two", queue="all")
    # A sample is of 25 packets, and after a pause the shaper lets two leave at once.
    assert late["rate_mbps"].max() < 3 + 3 * 1514 * 8e-6 / 0.1
    # In rare runs the new queue's losses leave the link idle for a while.
    assert late.filter(pl.col("backlog_packets") > 0)["rate_mbps"].median() == pytest.approx(3, rel=0.05)
    assert {"L", "C"} <= set(recording.links.filter(link="one")["queue"])


def test_changes_of_flows_take_effect_at_their_time(describe: Describe) -> None:
    flows = CUBIC + 'count = 0\n[[flow]]\nname = "u"\nkind = "cbr"\nrate = "1Mbit"\nrtt = "10ms"\n'
    flows += '[[at]]\ntime = "1s"\n"flow.a.count" = 2\n"flow.u.rate" = "3Mbit"\n'
    flows += '[[at]]\ntime = "3s"\n"flow.a.count" = 1\n"flow.a.rtt" = "200ms"\n'
    recording = execute(describe(ONE_LINK + flows, duration='"6s"', warmup='"500ms"'))
    rows = {row["flow"]: row for row in recording.flows.iter_rows(named=True)}
    assert rows["a"]["count"] == 2
    series = recording.series.filter(pl.col("flow").is_not_null()).sort("time_s")
    a, u = series.filter(flow="a"), series.filter(flow="u")
    assert a.filter(pl.col("time_s") <= 1)["rate_mbps"].sum() == 0
    assert a.filter(pl.col("time_s").is_between(1.5, 3))["rate_mbps"].mean() == pytest.approx(7, rel=0.05)
    assert u.filter(pl.col("time_s") <= 1)["rate_mbps"].mean() == pytest.approx(1, rel=0.05)
    assert u.filter(pl.col("time_s") > 1.2)["rate_mbps"].mean() == pytest.approx(3, rel=0.02)
    assert a.filter(pl.col("time_s").is_between(1.5, 3))["srtt_ms"].min() < 100
    assert a.filter(pl.col("time_s") > 4)["srtt_ms"].min() > 195


def test_queues_are_in_their_stride_when_traffic_begins(describe: Describe) -> None:
    udp = '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "20Mbit"\nrtt = "10ms"\n'
    run = describe(ONE_LINK.replace("pfifo limit 50", "pie") + udp, duration='"400ms"', warmup='"100ms"')
    p = execute(run).series.filter(queue="all").sort("time_s")["p_c"]
    # A PIE that is just set up has p = 0 for half a second.
    assert p[-1] > 0.01


def test_a_qdisc_that_tc_refuses_is_a_sentence(describe: Describe) -> None:
    run = describe(ONE_LINK + CUBIC)
    run["links"][0]["qdisc"] = "pfifo limits 5"
    with pytest.raises(EngineError, match=r"cannot be set up.*limits"):
        execute(run)


def test_a_killed_kernel_is_a_sentence(describe: Describe) -> None:
    run = describe(ONE_LINK.replace("10Mbit", "1Gbit") + CUBIC, duration='"60s"')

    def kill() -> None:
        for _ in range(100):
            time.sleep(0.1)
            for process in list(machine._running):
                time.sleep(1)
                process.kill()
                return

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(EngineError, match="ended by SIGKILL"):
        execute(run)
    thread.join()
    assert not machines()


def test_a_machine_that_takes_too_long_is_stopped(describe: Describe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L4SLAB_LINUX_TIMEOUT", "1")
    with pytest.raises(EngineError, match="was stopped"):
        execute(describe(ONE_LINK.replace("10Mbit", "1Gbit") + CUBIC, duration='"600s"'))
    assert not machines()


def test_no_room_is_told_before_the_run(describe: Describe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.shutil, "disk_usage", lambda _: machine.shutil._ntuple_diskusage(10, 10, 0))
    with pytest.raises(EngineError, match="set TMPDIR"):
        execute(describe(ONE_LINK + CUBIC))


def test_an_interrupted_campaign_leaves_nothing_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('duration = "20s"\ntrials = 3\n' + ONE_LINK + CUBIC)
    command = [sys.executable, "-m", "l4slab", "run", str(file), "--engine", "linux", "--workers", "1"]
    command += ["--out", str(tmp_path / "out")]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not list((tmp_path).glob("out/lab/*")) and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    message = process.communicate()[1].splitlines()[-1]
    assert process.returncode == 130
    assert "finished runs are kept" in message
    time.sleep(0.5)
    assert not list(temporary.iterdir())
    assert str(temporary) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0
    assert "in the folder already" in done.stderr or "not repeated" in done.stderr
