"""Delays from a file, impairments that change or keep the order, and what hosts have of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from l4slab import experimentfile, sweep
from l4slab.cli import main
from l4slab.engines.linux import engine, lab

FILE = """
duration = "4s"
start_jitter = "0s"
[link.bottleneck]
rate = "10Mbit"
qdisc = "pfifo limit 100"
[impair.air]
netem = "delay 10ms 5ms"
before = "bottleneck"
in_order = true
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
delay_trace = "leo.csv"
rto_min = "50ms"
mtu = "1280B"
[[at]]
time = "1500ms"
"flow.a.rtt" = "20ms"
[[at]]
time = "2s"
"impair.air.netem" = "delay 2ms 1ms loss 1%"
"""
TRACE = "time_s,rtt_ms\n0,5\n1,30.5\n2,0\n"


def described(folder: Path, file: str = FILE, trace: str = TRACE) -> dict[str, Any]:
    (folder / "leo.csv").write_text(trace)
    (folder / "x.toml").write_text(file)
    return sweep.describe(experimentfile.load(folder / "x.toml"), {})


def test_the_description_has_what_was_written(tmp_path: Path) -> None:
    run = described(tmp_path)
    flow = run["flows"][0]
    steps = [[0, 5_000_000], [1_000_000_000, 30_500_000], [2_000_000_000, 0]]
    assert flow["delay_trace"] == {"file": "leo.csv", "steps": steps, "repeat_ns": 2_000_000_000}
    assert (flow["rto_min_ns"], flow["mtu_bytes"]) == (50_000_000, 1280)
    assert [one["netem"] for one in run["impairs"]] == ["limit 1000 delay 10ms 5ms 0% rate 20000gbit 0 0 0"]
    assert run["at"][1] == {
        "time_ns": 2_000_000_000,
        "impair": "air",
        "netem": "delay 2ms 1ms loss 1%",
    }
    plain = FILE.replace('delay_trace = "leo.csv"', "").replace('rto_min = "50ms"\nmtu = "1280B"', "")
    assert not {"delay_trace", "rto_min_ns", "mtu_bytes"} & set(described(tmp_path, plain)["flows"][0])


def test_a_source_is_on_and_off(tmp_path: Path) -> None:
    import polars as pl

    file = (
        FILE[: FILE.index("[[at]]")]
        .replace("in_order = true", "")
        .replace('netem = "delay 10ms 5ms"', 'netem = "delay 10ms"')
    )
    file = file.replace('delay_trace = "leo.csv"', 'count = 2\non = "500ms"\noff = "1s"\nstart = "1s"\nstop = "3300ms"')
    run = described(tmp_path, file)
    turns = [(one["time_ns"] / 1e9, one["count"]) for one in run["at"]]
    assert turns == [(1.5, 0), (2.5, 2), (3.0, 0)]
    assert len(lab.lives(run, run["flows"][0])) == 4
    assert main(["run", str(tmp_path / "x.toml"), "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    rates = pl.read_parquet(tmp_path / "out" / "series.parquet").filter(pl.col("flow") == "a").sort("time_s")
    sent = dict(zip(rates["time_s"].round(1), rates["sent_packets"].fill_null(0), strict=True))
    sends = [time for time in sorted(sent) if sent[time] > 10]
    assert all(1.0 < time <= 1.7 or 2.5 < time <= 3.2 for time in sends), sends
    assert 1.4 in sends
    assert 2.9 in sends


def test_on_the_kernel_a_trace_is_changes(tmp_path: Path) -> None:
    run = described(tmp_path)
    engine.refuse(run, None)
    unrolled = lab.unrolled(run)
    assert unrolled["flows"][0]["rtt_ns"] == 15_000_000
    rtts = [(one["time_ns"] / 1e9, one["rtt_ns"] / 1e6) for one in unrolled["at"] if "rtt_ns" in one]
    assert rtts == [(1.0, 40.5), (1.5, 50.5), (2.0, 25.0), (3.0, 50.5)]
    made = lab.build(unrolled)
    netems = [line for line in made.plan if "loss" in line]
    assert netems == [f"at 2000000000 do i1 tc qdisc change dev to_k1 root netem {run['at'][1]['netem']}"]
    script = lab.script(made)
    assert script.count("echo 50000 >/proc/sys/net/ipv4/tcp_rto_min_us") == 1
    assert script.count(" mtu 1280") == 2


def test_an_impairment_in_order_does_not_reorder(tmp_path: Path) -> None:
    import polars as pl

    file = (
        FILE.replace('delay_trace = "leo.csv"', "")
        .replace("10ms 5ms", "10ms 9ms")
        .replace("mtu", 'pace = "2Mbit"\nmtu')
    )
    file = file[: file.index("[[at]]")]
    sent = {}
    for order in ("true", "false"):
        (tmp_path / "x.toml").write_text(file.replace("in_order = true", f"in_order = {order}"))
        assert main(["run", str(tmp_path / "x.toml"), "--out", str(tmp_path / order), "--workers", "1"]) == 0
        sent[order] = pl.read_parquet(tmp_path / order / "flows.parquet")["retransmits"][0]
    assert sent["true"] == 0 < sent["false"], sent


MISTAKES = {
    "on without off": ('rto_min = "50ms"', 'on = "1s"', ['flow "a"', "on", "without off"]),
    "too many turns": ('rto_min = "50ms"', 'on = "1us"\noff = "1us"', ['flow "a"', "on", "10000 times"]),
    "neither netem nor thinning": ('netem = "delay 10ms 5ms"\n', "", ["impair.air", "has no netem", "ack_thinning"]),
    "data thinned": ("in_order = true", "ack_thinning = 4", ["impair.air.direction", "no ACKs to thin"]),
    "thinned to all": ("in_order = true", "ack_thinning = 1", ["impair.air.ack_thinning", "= 1", "at least 2"]),
    "wait for nothing": ("in_order = true", 'ack_wait = "1ms"', ["impair.air.ack_wait", "ack_thinning"]),
    "unit of the other trace": ("leo.csv", "rate.csv", ["delay_trace", "line 1", "rtt_ms"]),
    "repeat of no trace": ('delay_trace = "leo.csv"', "trace_repeat = false", ["trace_repeat", "delay_trace"]),
    "rto_min too short": ('"50ms"', '"10us"', ["rto_min", '"10us"', "at least"]),
    "mtu too large": ('"1280B"', '"64kB"', ["mtu", '"64kB"', "at most 9000B"]),
    "order and reorder": ("10ms 5ms", "10ms 5ms reorder 10%", ["impair.air.netem", "reorders", "in_order"]),
    "unknown impair": ("impair.air.netem", "impair.ari.netem", ['"ari"', '"air"']),
    "other key of an impair": ("impair.air.netem", "impair.air.before", ["cannot change", '"netem"']),
    "wrong netem": ('"delay 2ms 1ms loss 1%"', '"delay fast"', ["impair.air.netem", "delay fast", "10ms"]),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_a_sentence(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, mentions = MISTAKES[case]
    assert FILE.count(old) == 1
    (tmp_path / "leo.csv").write_text(TRACE)
    (tmp_path / "rate.csv").write_text("time_s,rate_mbps\n0,1\n")
    (tmp_path / "x.toml").write_text(FILE.replace(old, new))
    assert main(["run", str(tmp_path / "x.toml"), "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert len(told.strip().splitlines()) == 1, told
    assert all(mention in told for mention in ["x.toml", *mentions]), told


def test_what_the_kernel_cannot_do_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='flow "a": the linux engine has links of 1500 B'):
        engine.refuse(described(tmp_path, FILE.replace("1280B", "9000B")), None)
    with pytest.raises(ValueError, match='impair "air": no part of the kernel thins ACKs'):
        engine.refuse(
            described(tmp_path, FILE.replace("in_order", 'direction = "both"\nack_thinning = 2\nin_order')), None
        )
