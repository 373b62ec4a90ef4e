"""What stacks say of themselves in qlog: formats, names and units, and the columns that follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import l4slab
import numpy as np
import polars as pl
import pytest
from l4slab import _core, experimentfile, plot, stacks, sweep
from l4slab.engines.linux import lab, programs, recording
from l4slab.engines.linux.recording import PACKET, SAMPLE, Observed, qlogs
from l4slab.engines.linux.recording.observed import Link
from l4slab.report import write_report
from l4slab.stacks import qlog
from l4slab.stacks.qlog import Form, Log, Row

SEQUENCE = [
    {"qlog_version": "0.3", "qlog_format": "JSON-SEQ"},
    {"time": 5.0, "name": "recovery:metrics_updated", "data": {"congestion_window": 12000, "ssthresh": 2**64 - 1}},
    {"time": 6.0, "name": "transport:packet_sent", "data": {"header": {"packet_type": "initial"}}},
    {"time": 16.0, "name": "recovery:metrics_updated", "data": {"smoothed_rtt": 0.01, "bytes_in_flight": 1200}},
    {"time": 17.0, "name": "recovery:congestion_state_updated", "data": {"new": "application_limited"}},
    {"time": 18.0, "name": "recovery:congestion_state_updated", "data": {"new": "recovery"}},
]
DRAFT = """{ "qlog_version": "draft-00", "traces": [
{ "event_fields": ["relative_time", "category", "event", "data"], "configuration": {"time_units": "us"},
"events": [
[630, "transport", "datagram_sent", { "byte_length": 1252}],
[640, "transport", "packet_sent", { "packet_type": "initial", "frames": [{
    "frame_type": "padding"}]}],
[4591, "recovery", "metrics_updated", {"cwnd": 15638,"pacing_rate": 40000000,"smoothed_rtt": 3826,"app_limited": 1}],
[5000, "recovery", "congestion_state_updated", {"old": "0","new": "1"}],
[5100, "recovery", "metrics_updated", {"cwnd": 20000,"app_limited": 0}],
[5200, "recovery", "metrics_upd"""


def test_a_line_per_event_with_rtts_in_seconds(tmp_path: Path) -> None:
    file = tmp_path / "client.sqlog"
    file.write_text("\n".join(("\x1e" if number % 2 else "") + json.dumps(one) for number, one in enumerate(SEQUENCE)))
    found = qlog.read(file, Form("ms", "s", "application_limited"))
    assert found is not None
    assert found.sent_s == pytest.approx(0.006)
    assert [row.limited for row in found.rows] == [None, None, True, False]
    assert found.rows[-1] == (pytest.approx(0.018), 12000, 1200, pytest.approx(10), None, "recovery", False, None, 0)


def test_arrays_of_draft_00_that_the_end_has_cut(tmp_path: Path) -> None:
    file = tmp_path / "x.client.qlog"
    file.write_text(DRAFT)
    found = qlog.read(file, Form("us", "us", "app_limited"))
    assert found is not None
    assert found.sent_s == pytest.approx(630e-6)
    first, _, last = found.rows
    assert (first.cwnd_bytes, first.pacing_mbps, first.limited) == (15638, 40, True)
    assert first.srtt_ms == pytest.approx(3.826)
    assert (last.cwnd_bytes, last.state, last.limited) == (20000, "1", False)


def received(time: float, space: str, *counts: int) -> dict[str, Any]:
    frames = [{"frame_type": "padding"}, *({"frame_type": "ack", "ect0": 9, "ect1": 0, "ce": ce} for ce in counts)]
    return {
        "time": time, "name": "transport:packet_received", "data": {"header": {"packet_type": space}, "frames": frames}
    }  # fmt: skip


def test_marks_that_acks_report_and_packets_declared_lost(tmp_path: Path) -> None:
    own = {"frames": [{"frame_type": "ack", "ce": 70}]}
    told = [
        {"time": 1, "name": "transport:packet_sent", "data": own},  # what it reports itself
        received(2, "handshake", 1),
        received(3, "1RTT", 0),
        received(4, "1RTT", 5),
        {"time": 5, "name": "recovery:packet_lost", "data": {}},
        received(6, "1RTT", 3),  # overtaken by a later one
        received(7, "1RTT"),
        {"time": 8, "name": "recovery:metrics_updated", "data": {}},
        {"time": 9, "name": "recovery:packet_lost", "data": {}},
    ]
    file = tmp_path / "client.sqlog"
    file.write_text("\n".join(map(json.dumps, told)))
    found = qlog.read(file, Form())
    assert found is not None
    rows = [(round(row.time_s * 1e3), row.ce_packets, row.lost_packets) for row in found.rows]
    assert rows == [(2, 1, 0), (4, 6, 0), (5, 6, 1), (8, 6, 1), (9, 6, 2)], "each packet number space has a count"


def test_losses_that_a_metric_counts(tmp_path: Path) -> None:
    totals = [{}, {"total": 3, "delta": 3}, {"total": 5, "delta": 2}]
    told = [SEQUENCE[2]] + [
        {"time": time, "name": "quic:recovery_metrics_updated", "data": {"cwnd": 9000, "cf_lost_packets": total}}
        for time, total in enumerate(totals)
    ]
    file = tmp_path / "client.sqlog"
    file.write_text("\n".join(map(json.dumps, told)))
    found = qlog.read(file, Form())
    assert found is not None
    assert [row.lost_packets for row in found.rows] == [0, 3, 5]


def test_marks_and_losses_in_draft_00(tmp_path: Path) -> None:
    file = tmp_path / "x.client.qlog"
    file.write_text("""
[630, "transport", "packet_sent", { "packet_type": "1RTT", "frames": [{
    "frame_type": "ack", "acked_ranges": [[1, 2]], "ect0": 0, "ect1": 0, "ce": 70}]}],
[700, "transport", "packet_received", { "packet_type": "1RTT", "frames": [{
    "frame_type": "ack", "acked_ranges": [[1, 3]], "ect0": 0, "ect1": 5, "ce": 4}, {
    "frame_type": "padding"}]}],
[800, "recovery", "packet_lost", {
    "packet_type" : "1RTT",
    "packet_number" : 139}],
[900, "recovery", "metrics_updated", {"cwnd": 15638}],
""")
    found = qlog.read(file, Form("us", "us"))
    assert found is not None
    assert [(row.ce_packets, row.lost_packets) for row in found.rows] == [(4, 0), (4, 1), (4, 1)]
    assert found.rows[0].time_s == pytest.approx(700e-6)


def test_states_that_are_longer_words_get_names_and_rates_are_in_bits(tmp_path: Path) -> None:
    file = tmp_path / "client.sqlog"
    told = [
        {"time": 1, "name": "quic:packet_sent", "data": {}},
        {"time": 2, "name": "quic:congestion_state_updated", "data": {"new": "bbr_probe_bw_up"}},
        {"time": 3, "name": "quic:recovery_metrics_updated", "data": {"pacing_rate": 1_000_000}},
    ]
    file.write_text("\n".join(map(json.dumps, told)))
    form = Form.of({"pacing": "bytes", "states": "bbr2 up probe_bw_up"})
    found = qlog.read(file, form, "bbr2")
    assert found is not None
    assert (found.rows[-1].state, found.rows[-1].pacing_mbps) == ("probe_bw_up", 8)
    with pytest.raises(ValueError, match="valid are bits, bytes"):
        Form.of({"pacing": "packets"})


def test_states_that_are_numbers_get_names(tmp_path: Path) -> None:
    file = tmp_path / "x.client.qlog"
    file.write_text(DRAFT)
    form = Form("us", "us", "app_limited", "bbr startup drain")
    for cc, state in (("bbr", "drain"), ("prague", "1")):
        found = qlog.read(file, form, cc)
        assert found is not None
        assert found.rows[-1].state == state
    assert [form.state("bbr", told) for told in ("66048", "65793", "2", "open")] == ["startup", "drain", "2", "open"]
    names = stacks.find("picoquic").recipe.qlog["states"].split()
    bbr3 = next(one for one in _core.controllers() if one["name"] == "bbr3")
    assert names[1:8] == bbr3["states"]


def test_one_document(tmp_path: Path) -> None:
    file = tmp_path / "x.qlog"
    file.write_text(json.dumps({"qlog_format": "JSON", "traces": [{"events": SEQUENCE[1:]}]}))
    found = qlog.read(file, Form())
    assert found is not None
    assert len(found.rows) == 4
    assert found.rows[1].srtt_ms == pytest.approx(0.01)


@pytest.mark.parametrize("text", ["", "{}", '{"traces": [', "\x00\xff", json.dumps(SEQUENCE[2])])
def test_what_has_no_metrics_is_no_log(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.qlog"
    file.write_text(text)
    assert qlog.read(file, Form()) is None


def test_a_recipe_says_units_that_there_are() -> None:
    for name in stacks.names():
        Form.of(stacks.find(name).recipe.qlog)
    with pytest.raises(ValueError, match=r"qlog.rtt = 'min' is no unit; valid are s, ms, us, ns"):
        Form.of({"rtt": "min"})
    with pytest.raises(ValueError, match="qlog has cwnd, which is none of time, rtt, limited"):
        Form.of({"cwnd": "ms"})


FILE = """
duration = "4s"
warmup = "2s"
[link.one]
rate = "10Mbit"
qdisc = "pfifo limit 50"
[[flow]]
name = "q"
kind = "program"
stack = "quic-go"
rtt = "20ms"
"""
ENV = 'env = { QLOGDIR = "{out}" }\n'


def described(tmp_path: Path, text: str) -> Any:
    file = tmp_path / "x.toml"
    file.write_text(text)
    return sweep.expand(experimentfile.load(file), "linux").runs[0].description


def observed(run: Any, log: Log | None) -> Observed:
    """A connection whose first packet is sent 1 s after the run's begin, and packets of 1442 B in frames."""
    packets = np.zeros(2, PACKET)
    packets["in_ns"], packets["out_ns"] = [2_500_000_000, 3_000_000_000], [2_510_000_000, 3_010_000_000]
    packets["flow"], packets["kind"], packets["headers"], packets["len"] = 1, 1, 42, [742, 1242]
    link = Link("one", packets, [], run["links"][0], [], run["duration_ns"])
    events = ["1000000000 connection 1 0 udp 80 5000 0 0", "900000000 program 1 1 client start"]
    return Observed(
        lab.build(run), [link], np.empty(0, SAMPLE), [], [event.split() for event in events], log=log
    )  # fmt: skip


def test_the_log_is_put_on_the_clock_of_the_captures(tmp_path: Path) -> None:
    run = described(tmp_path, FILE + ENV)
    # On its own clock, the first packet is sent at 7 s: 1 s of the run.
    rows = [
        Row(7.0, 12000, 1200, 20.0, 8.0, "slow_start", False, 2, 0),
        Row(8.5, 24000, 2400, 30.0, None, "application_limited", True, 5, 0),
        Row(9.5, 36000, 3600, 50.0, None, "recovery", False, 9, 3),
    ]
    seen = observed(run, Log(7.0, rows))
    tables = recording.tables(seen)
    flow = tables.flows.row(0, named=True)
    assert flow["cc"] == "quic-go/reno"
    assert flow["rtt_ms_mean"] == pytest.approx(40), "the first row is of the warm-up"
    assert flow["app_limited_pct"] == pytest.approx(50), "from 2.5 s to 3.5 s, of 2 s"
    assert (flow["packet_bytes_mean"], flow["packet_bytes_max"]) == (992, 1242)
    assert (flow["ce_reported_packets"], flow["lost_declared_packets"]) == (7, 3), "those of the measured interval"
    series = {row["time_s"]: row for row in tables.series.filter(flow="q").iter_rows(named=True)}
    at = {time: series[min(series, key=lambda one: abs(one - time))] for time in (0.5, 1.2, 3.0, 3.9)}
    assert [at[time]["cwnd_bytes"] for time in at] == [None, 12000, 24000, 36000]
    assert at[3.0]["cwnd_packets"] == pytest.approx(20), "24000 B in packets of 1200 B"
    assert [at[time]["cc_state"] for time in at] == [None, "slow_start", "application_limited", "recovery"]
    assert at[3.0]["srtt_ms"] == 30
    assert at[1.2]["pacing_mbps"] == 8
    grown = {time: row["ce_reported_packets"] for time, row in series.items() if row["ce_reported_packets"]}
    assert list(grown.values()) == [2, 3, 4]
    assert list(grown) == pytest.approx([1.0, 2.5, 3.5])


def test_packets_and_log_are_kept_and_drawn(tmp_path: Path) -> None:
    run = described(tmp_path, FILE + ENV)
    rows = [
        Row(7.0, 12000, 1200, 20.0, None, "slow_start", None, None, 0),
        Row(8.6, 9000, 0, 9.0, None, "recovery", None, None, 1),
    ]
    seen = observed(run, Log(7.0, rows))
    packets = seen.links[0].packets
    packets["ecn_in"], packets["ecn_out"] = [2, 2], [0, 3]
    packets["out_ns"][0] = 0
    recording.keep(seen, tmp_path)
    kept, log = (pl.read_parquet(tmp_path / f"q-{kind}.parquet") for kind in ("packets", "log"))
    assert kept.rows() == [
        ("one", 2.5, None, 742, "ect0", False, True),
        ("one", 3.0, 10.0, 1242, "ect0", True, False),
    ]
    assert log["time_s"].to_list() == pytest.approx([1.0, 2.6]), "the clock of the run"
    assert log.select("cwnd_bytes", "state", "lost_packets").rows() == [(12000, "slow_start", 0), (9000, "recovery", 1)]
    figure = plot.packets(kept, log, warmup_s=2)
    assert figure is not None
    delay, flight, rtt, states = figure.axes
    assert [text.get_text() for text in states.get_yticklabels()] == ["slow start", "recovery"]
    lines = {str(line.get_label()): line for line in delay.lines}
    assert list(lines["dropped"].get_xdata()) == [2.5]
    assert list(lines["declared lost by the stack"].get_xdata()) == pytest.approx([2.6])
    assert [list(line.get_ydata()) for line in flight.lines] == [[1.2, 0], [12, 9]]
    assert list(rtt.lines[0].get_ydata()) == [20, 9]
    assert plot.packets(kept, log, begin_s=3.5) is None
    later = plot.packets(kept, pl.concat([log, log.tail(1).with_columns(time_s=2.9)]), begin_s=2.7)
    assert later is not None
    names = {str(line.get_label()) for line in later.axes[0].lines}
    assert "with CE" in names
    assert "declared lost by the stack" not in names, "that was before"


def test_without_a_log_there_are_no_columns_of_it(tmp_path: Path) -> None:
    run = described(tmp_path, FILE)
    tables = recording.tables(observed(run, None))
    assert "app_limited_pct" not in tables.flows.columns
    assert "cwnd_bytes" not in tables.series.columns
    with_env = recording.tables(observed(described(tmp_path, FILE + ENV), None))
    assert with_env.flows["app_limited_pct"].to_list() == [None]


def test_whose_log_it_is_has_to_be_plain(tmp_path: Path) -> None:
    assert programs.logging_flow(described(tmp_path, FILE + ENV)) == "q"
    second = FILE[FILE.index("[[flow]]") :].replace('"q"', '"r"') + ENV
    assert programs.logging_flow(described(tmp_path, FILE + ENV + second)) is None
    assert programs.logging_flow(described(tmp_path, FILE)) is None


def test_the_file_of_the_sending_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = described(tmp_path, FILE + ENV)
    monkeypatch.setattr(stacks, "form_of", lambda _: Form("ms", "s"))
    text = "\n".join(map(json.dumps, SEQUENCE))
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "0a1b_server.sqlog").write_text("")
    assert qlogs.read(run, folder) is None
    (folder / "0a1b_client.sqlog").write_text(text)
    assert qlogs.read(run, folder) is not None
    (folder / "0a1c_client.sqlog").write_text(text)
    assert qlogs.read(run, folder) is None, "two connections, and nobody knows which is meant"


def test_results_draw_the_packets_of_a_run_that_has_kept_them(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    tcp = FILE.replace('kind = "program"\nstack = "quic-go"', 'cc = "cubic"').replace('"q"', '"my q"')
    file.write_text(tcp)
    results = l4slab.run(file, out=tmp_path / "r")
    assert results.plot.packets() is None
    seen = observed(described(tmp_path, FILE + ENV), Log(7.0, [Row(7.0, 12000, 0, 20.0, None, None, None, None, 0)]))
    kept = tmp_path / "r" / "lab" / results.flows["run"][0] / "programs"
    kept.mkdir(parents=True)
    recording.keep(seen, kept)
    for kind in ("packets", "log"):
        (kept / f"q-{kind}.parquet").rename(kept / f"my%20q-{kind}.parquet")
    figure = results.plot.packets(begin_s=2)
    assert figure is not None
    assert figure.axes[0].get_xlim() == (2, 4)
    assert results.plot.packets("flow = 'nobody'") is None
    assert results.plot.packets(trial=2) is None
    write_report(tmp_path / "r")
    assert "Each packet of my q in its queues" in (tmp_path / "r" / "report.html").read_text()
