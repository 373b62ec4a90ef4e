"""From captures and counters to tables, and the checks of a laboratory, on small made-up ones."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from l4slab.base import metrics
from l4slab.engines.linux import lab, recording
from l4slab.engines.linux.compiling import DATA
from l4slab.engines.linux.recording import controllers, reading
from l4slab.engines.linux.recording.live import Growing
from l4slab.engines.linux.recording.observed import Impairment
from l4slab.engines.sim import SimEngine

from .conftest import CUBIC, ONE_LINK, TWO_LINKS, Describe

MS = 1_000_000
SECOND = 1000 * MS
COUNTERS = """\
# s1 net/netstat
TcpExt: SyncookiesSent ListenDrops
TcpExt: 0 {drops}
IpExt: InNoRoutes InCEPkts
IpExt: 0 {ce}
# s1 net/snmp
Ip: Forwarding InReceives
Ip: 1 {received}
# s1 net/dev
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo:       0       0    0    1    0     0          0         0        0       0    0    2    0     0       0
# c1 net/softnet_stat
00000010 00000003 00000000
"""


def packet(in_ms: float, out_ms: float | None, **values: int) -> tuple[Any, ...]:
    """A full data packet of flow 1, not marked."""
    default = {
        "flow": 1,
        "conn": 10000,
        "id": 0,
        "len": 1514,
        "ecn_in": 2,
        "ecn_out": 2,
        "kind": 1,
        "spare": 0,
        "number": 0,
    }
    of = default | values
    damaged = of.pop("damaged", 0)
    fresh = of.pop("fresh", of["len"] - 66 if out_ms is not None and of["kind"] == 1 and not damaged else 0)
    return (int(in_ms * MS), int((out_ms or 0) * MS), *of.values(), fresh, damaged)


def sample(second: float, **values: int) -> tuple[Any, ...]:
    default = dict.fromkeys(recording.SAMPLE.names or (), 0) | {
        "flow": 1, "state": 1, "ecn_mode": 1, "cwnd": 10, "srtt_us": 25_000,
    }  # fmt: skip
    return tuple((default | {"t_ns": int(second * SECOND)} | values).values())


def tc(**state: Any) -> list[dict[str, Any]]:
    return [{"kind": "htb", "root": True}, {"kind": "pfifo", "parent": "1:1", "qlen": 7} | state]


def write(path: Path, records: list[tuple[Any, ...]], dtype: np.dtype[Any]) -> None:
    path.write_bytes(recording.head_of(dtype) + np.array(records, dtype).tobytes())


@pytest.fixture
def left(tmp_path: Path) -> Any:
    """Writes what a laboratory leaves, and reads it."""

    def leave(
        run: dict[str, Any],
        packets: list[list[tuple[Any, ...]]],
        samples: list[tuple[Any, ...]] = [],  # noqa: B006
        outputs: list[list[dict[str, Any]]] | None = None,
        events: str = "",
        counters: str = "",
        teardown: str = "",
    ) -> recording.Observed:
        folder = tmp_path / "run"
        folder.mkdir()
        ticks = [*range(run["sample_ns"], run["duration_ns"] + 1, run["sample_ns"])]
        if outputs is None:
            outputs = [tc()] * len(ticks)
        for number, records in enumerate(packets):
            write(folder / f"packets.{number}.bin", records, recording.PACKET)
            (folder / f"tc.{number}.json").write_text("\n".join(json.dumps(output) for output in outputs))
        write(folder / "tcp.bin", samples, recording.SAMPLE)
        (folder / "ticks.tsv").write_text("".join(f"{tick}\n" for tick in ticks))
        (folder / "events.tsv").write_text(events)
        (folder / "counters.txt").write_text(counters)
        (folder / "teardown.txt").write_text(teardown)
        return recording.read(lab.build(run), folder)

    return leave


def test_what_a_congestion_control_tells_has_the_simulators_names() -> None:
    steps = np.array([1, 2, 3, 4, 5], np.uint64) * np.uint64(SECOND)
    info = {"mss": 1448, "in_flight": 20, "pacing": 2_500_000, "cc_0": 2_896_000, "cc_2": 20_000}
    told = [
        sample(1, **info, cc_3=739, cc_4=739),
        sample(1, conn=1, **info, cc_3=88, cc_4=739),  # only the first one counts
        sample(2, **info, cc_3=88, cc_4=739),
        sample(3, **info, cc_3=320, cc_4=512),
        sample(4, **info, cc_3=256, cc_4=256),
        sample(5, mss=1448, pacing=2**64 - 1),  # before the first ACK
    ]
    found = controllers.series(np.array(told, recording.SAMPLE), "bbr", steps)
    assert found["cc_state"] == ["startup", "drain", "probe_bw", "probe_rtt", None]
    assert found["pacing_gain"] == [739 / 256, 88 / 256, 1.25, 1.0, None]
    assert found["bottleneck_packets_per_ms"] == [2.0] * 4 + [None]
    assert found["min_rtt_ms"] == [20.0] * 4 + [None]
    assert found["inflight_bytes"] == [20 * 1448.0] * 4 + [None]
    assert found["pacing_mbps"] == [20.0] * 4 + [None]
    marks = [sample(1, cc_0=1 | 130 << 16, cc_1=256), sample(2, cc_1=256)]  # then it fell back to Reno
    prague = controllers.series(np.array(marks, recording.SAMPLE), "prague", steps[:2])
    assert prague == {"alpha": [0.25, None], "classic_ecn_score": [1.3, None], "cc_state": [None, None]}
    cubic = controllers.series(np.array(marks, recording.SAMPLE), "cubic", steps[:2])
    assert cubic == {"cc_state": [None, None]}


def test_records_have_the_layout_of_the_c_structs() -> None:
    assert (recording.PACKET.itemsize, recording.SAMPLE.itemsize) == (40, 104)
    source = (DATA / "lab.c").read_text()
    assert f"#define FORMAT {recording.FORMAT_VERSION}\n" in source
    # The engine `real` writes packets by itself.
    packets = Path(__file__).parents[2] / "crates" / "bottleneck" / "src" / "packets.rs"
    assert f"const FORMAT: u32 = {recording.FORMAT_VERSION};\n" in packets.read_text()


@pytest.mark.parametrize(
    ("head", "version"),
    [(b"", "unknown"), (b"\0" * 16, "unknown"), (recording.head_of(recording.PACKET).replace(b"\4", b"\1"), "1")],
)
def test_files_of_another_format_are_refused(tmp_path: Path, head: bytes, version: str) -> None:
    (tmp_path / "packets.0.bin").write_bytes(head + bytes(80))
    with pytest.raises(recording.CheckError, match=rf"packets\.0\.bin has format {version}, and this l4slab reads"):
        reading._array(tmp_path / "packets.0.bin", recording.PACKET)
    growing = Growing(tmp_path / "packets.0.bin")
    with pytest.raises(recording.CheckError, match=rf"packets\.0\.bin has format {version}"):
        growing.records(recording.PACKET)


def test_arrays_of_tc_are_read_one_after_the_other() -> None:
    assert recording.parse_tc('[{"kind":"htb"}]\n\n[{"kind": "pie",\n"prob":0.5}]\n') == [
        [{"kind": "htb"}],
        [{"kind": "pie", "prob": 0.5}],
    ]


def test_counters_of_each_namespace() -> None:
    counters = recording.parse_counters(COUNTERS.format(drops=4, ce=5, received=6))
    assert counters["s1"]["TcpExt.ListenDrops"] == 4
    assert counters["s1"]["IpExt.InCEPkts"] == 5
    assert counters["s1"]["Ip.InReceives"] == 6
    assert (counters["s1"]["dev.lo.rx_drop"], counters["s1"]["dev.lo.tx_drop"]) == (1, 2)
    assert counters["c1"]["softnet.dropped"] == 3


def test_a_small_run_by_hand(describe: Describe, left: Any) -> None:
    run = describe(ONE_LINK + CUBIC, duration='"2s"', sample='"500ms"')
    packets = [
        packet(500, 510, id=1),  # before the warm-up ends
        packet(990, 1010, id=2),  # came before, leaves within
        packet(1100, 1110, id=3, ecn_out=3),  # marked
        packet(1200, None, id=4),  # dropped: a later one left
        packet(1300, 1340, id=5, ecn_in=3, ecn_out=3),  # came with CE
        packet(1400, 1400, id=6, kind=0, len=66),  # no payload
        packet(1990, 2020, id=7),  # under way at the end
        packet(1995, None, id=8),  # still queued at the end
    ]
    samples = [
        sample(0.5, bytes_acked=10_000),
        sample(1.0, bytes_acked=100_000, retrans=2),
        sample(1.5, bytes_acked=400_000, retrans=3, srtt_us=30_000),
        sample(2.0, bytes_acked=725_000, retrans=3, srtt_us=40_000),
    ]
    observed = left(run, [packets], samples)
    tables = recording.tables(observed)
    flow = tables.flows.row(0, named=True)
    assert flow["goodput_mbps"] == pytest.approx(3 * 1448 * 8e-6)
    assert (flow["retransmits"], flow["ecn_mode"], flow["share"]) == (1, "classic", 1.0)
    assert (flow["rtt_ms_mean"], flow["rtt_ms_p50"], flow["rtt_ms_p99"]) == (35.0, 30.0, 40.0)
    # Packets 3, 4, 5, 7 and 8 came within the measured interval: 3 and 5 left, 4 was lost, 7 and 8 wait. 2, 3 and 5
    # left within it.
    assert (flow["offered_packets"], flow["sent_packets"], flow["dropped_packets"]) == (5, 5, 1)
    assert (flow["delivered_packets"], flow["lost_packets"], flow["waiting_packets"]) == (2, 1, 2)
    assert tables.losses.rows() == [("a", "link.one", "overflow", 1)]
    assert (flow["ce_packets"], flow["ce_pct"], flow["drop_pct"]) == (2, 40.0, 20.0)
    assert flow["sojourn_ms_mean"] == pytest.approx((20 + 10 + 40) / 3)
    assert flow["rate_mbps"] == pytest.approx(3 * 1514 * 8e-6)
    link = tables.links.row(0, named=True)
    assert (link["arrived_packets"], link["sent_packets"], link["dropped_packets"]) == (6, 4, 1)
    assert (link["marked_packets"], link["sojourn_ms_max"]) == (1, 40.0)
    assert link["backlog_packets_max"] == 7, "as tc says at the samples"
    assert link["utilisation"] == pytest.approx((3 * 1514 + 66) * 8 / 10e6)
    of_flow = tables.series.filter(flow="a")
    assert of_flow["time_s"].to_list() == [0.5, 1.0, 1.5, 2.0]
    assert of_flow["goodput_mbps"].to_list() == pytest.approx([n * 1448 * 8e-6 / 0.5 for n in (0, 1, 3, 0)])
    assert of_flow["srtt_ms"].to_list() == [25.0, 25.0, 30.0, 40.0]
    of_link = tables.series.filter(link="one")
    assert of_link["backlog_packets"].to_list() == [7.0] * 4
    assert of_link["dropped_packets"].to_list() == [0, 0, 1, 0]
    assert of_link["sojourn_ms"].to_list() == [None, 10.0, pytest.approx((20 + 10 + 40 + 0) / 4), None]


@pytest.mark.parametrize(("qdisc", "waiting"), [("pfifo limit 50", 1), ("codel", 3)])
def test_what_leaves_after_the_end_tells_of_drops_on_arrival(
    describe: Describe, left: Any, qdisc: str, waiting: int
) -> None:
    run = describe(ONE_LINK.replace("pfifo limit 50", qdisc) + CUBIC, duration='"2s"')
    packets = [packet(1100, 1110, id=1), *(packet(1990 + n, None, id=2 + n) for n in (0, 1)), packet(1995, 2050, id=4)]
    tables = recording.tables(left(run, [packets], outputs=[tc(kind=qdisc.split()[0])] * 20))
    # CoDel drops what has waited: the capture goes on after the end, and what it drops then had waited in the end.
    assert tables.flows["waiting_packets"].to_list() == [waiting]
    assert tables.flows["dropped_packets"].to_list() == [3 - waiting]


def test_netem_loses_what_its_words_lose() -> None:
    packets = np.array([packet(ms, None) for ms in (100, 1100, 2100, 3100)], recording.PACKET)
    words = ["loss 10%", "corrupt 5% limit 1000", "limit 1000", "corrupt 0% limit 1000"]
    changes = [(second * SECOND, text.split()) for second, text in enumerate(words)]
    found = Impairment("n", packets, changes, 0, 4 * SECOND).reasons
    # A change keeps what corrupts. Without it only the limit is left, whose places copies take, too.
    assert found.tolist() == ["loss", "checksum", "checksum", "overflow"]


def test_the_limit_of_a_class_changes_with_its_queue(describe: Describe, left: Any) -> None:
    link = ONE_LINK.replace("pfifo limit 50", "htb default 1")
    link += '[link.one.class.1]\nrate = "10Mbit"\nqdisc = "pfifo limit 2"\n'
    at = '[[at]]\ntime = "1500ms"\n"link.one.class.1.qdisc" = "pfifo limit 4"\n'
    run = describe(link + CUBIC + at, duration='"2s"')
    packets = [packet(1600 + n, 1700 + n, id=n) for n in range(5)]
    tables = recording.tables(left(run, [packets], outputs=[[{"kind": "htb", "parent": "1:1", "qlen": 0}]] * 20))
    assert tables.links["backlog_packets_max"].to_list() == [4, 4]


def test_the_receiver_of_a_damaged_packet_drops_it(describe: Describe, left: Any) -> None:
    observed = left(describe(ONE_LINK + CUBIC), [[packet(1100, 1110, id=1), packet(1200, 1210, id=2, damaged=1)]])
    tables = recording.tables(observed)
    flow = tables.flows.row(0, named=True)
    assert (flow["offered_packets"], flow["delivered_packets"], flow["dropped_packets"]) == (2, 1, 0)
    assert tables.losses.rows() == [("a", "receiver", "checksum", 1)]


def test_time_in_the_queues_of_two_links_adds_up(describe: Describe, left: Any) -> None:
    run = describe(TWO_LINKS + CUBIC)
    # The same IP identification twice: the earlier packet of it must not count.
    first = [packet(1100, 1110, id=9), packet(2000, 2005, id=9), packet(2100, 2101, id=10)]
    second = [packet(1110, 1150, id=9), packet(2005, 2025, id=9), packet(2101, None, id=10)]
    observed = left(run, [first, second])
    flow = recording.tables(observed).flows.row(0, named=True)
    assert flow["delivered_packets"] == 2
    assert (flow["sojourn_ms_mean"], flow["sojourn_ms_p99"]) == (37.5, 50.0)


def test_dualpi2_has_two_queues_and_its_probabilities(describe: Describe, left: Any) -> None:
    run = describe(ONE_LINK.replace("pfifo limit 50", "dualpi2") + CUBIC, duration='"2s"', sample='"1s"')
    packets = [
        packet(1100, 1101, id=1, ecn_in=1, ecn_out=3),
        packet(1200, 1202, id=2, ecn_in=1, ecn_out=1),
        packet(1300, 1320, id=3, ecn_in=0, ecn_out=0),
    ]
    states = [
        {"kind": "dualpi2", "prob": prob, "step-mark": steps, "credit": -1000, "options": {"coupling": 2}}
        for prob, steps in ((0.1, 4), (0.2, 5))
    ]
    tables = recording.tables(left(run, [packets], outputs=[tc(**state) for state in states]))
    links = {row["queue"]: row for row in tables.links.iter_rows(named=True)}
    assert {name: row["sent_packets"] for name, row in links.items()} == {"all": 3, "L": 2, "C": 1}
    assert (links["L"]["sojourn_ms_mean"], links["C"]["sojourn_ms_mean"]) == (1.5, 20.0)
    assert (links["L"]["ce_pct"], links["L"]["step_marked_packets"]) == (50.0, 1)
    series = tables.series.filter(queue="all").row(1, named=True)
    assert series["p_prime"] == 0.2
    assert series["p_c"] == pytest.approx(0.04)
    assert (series["p_l_coupled"], series["p_l_native"], series["p_l"]) == (0.4, 0.5, 0.5)
    assert series["credit_bytes"] == -10


def dualpi2(handle: str, steps: int) -> list[dict[str, Any]]:
    options = {"coupling": 2}
    return tc(**{"kind": "dualpi2", "handle": handle, "prob": 0.1, "step-mark": steps, "credit": 0, "options": options})


def at(*changes: tuple[str, str]) -> str:
    return "".join(f'[[at]]\ntime = "{time}"\n"link.one.qdisc" = "{qdisc}"\n' for time, qdisc in changes)


def test_a_queue_has_rows_for_the_time_in_which_it_was_in_force(describe: Describe, left: Any) -> None:
    """ECT(1) through a FIFO is of no queue L; rates of a queue are over the time in which it was there."""
    run = describe(ONE_LINK + CUBIC + at(("2s", "dualpi2"), ("3s", "pfifo limit 20")), sample='"1s"')
    low = {"ecn_in": 1, "ecn_out": 1}
    packets = [
        packet(1100, 1300, id=1, **low),
        packet(1500, None, id=2, **low),  # the FIFO was full
        packet(1600, 1900, id=3, **low),
        packet(1950, None, id=4, **low),  # lost with the FIFO
        packet(2100, 2101, id=5, **low),
        packet(2200, 2220, id=6),
        packet(2990, None, id=7, **low),  # lost with dualpi2
        packet(3100, 3200, id=8, **low),
    ]
    outputs = [tc(handle="2:"), tc(handle="2:"), dualpi2("3:", 0), tc(handle="4:")]
    tables = recording.tables(left(run, [packets], outputs=outputs))
    links = {row["queue"]: row for row in tables.links.iter_rows(named=True)}
    assert {name: row["arrived_packets"] for name, row in links.items()} == {"all": 8, "L": 2, "C": 1}
    assert {name: row["dropped_packets"] for name, row in links.items()} == {"all": 3, "L": 1, "C": 0}
    assert {name: row["sojourn_ms_max"] for name, row in links.items()} == {"all": 300.0, "L": 1.0, "C": 20.0}
    bits = 1514 * 8
    assert links["all"]["rate_mbps"] == pytest.approx(5 * bits / 3e6)
    assert links["L"]["rate_mbps"] == pytest.approx(bits / 1e6)
    assert links["L"]["utilisation"] == pytest.approx(bits / 10e6)
    series = tables.series.filter(link="one").select("time_s", "queue", "dropped_packets", "rate_mbps").rows()
    one = bits / 1e6
    assert [row[:3] for row in series] == [
        (1.0, "all", 0.0),
        (2.0, "all", 2.0),
        (3.0, "all", 1.0),
        (3.0, "L", 1.0),
        (3.0, "C", 0.0),
        (4.0, "all", 0.0),
    ]
    assert [row[3] for row in series] == pytest.approx([0, 2 * one, 2 * one, one, one, one])


def test_a_sample_with_a_change_counts_both_queues(describe: Describe, left: Any) -> None:
    run = describe(ONE_LINK + CUBIC + at(("2500ms", "dualpi2")), sample='"1s"')
    packets = [
        packet(2100, 2200, id=1, ecn_in=1, ecn_out=1),
        packet(2300, None, id=2),
        packet(2600, 2650, id=3, ecn_in=1, ecn_out=1),
    ]
    outputs = [tc(handle="2:"), tc(handle="2:"), dualpi2("3:", 0), dualpi2("3:", 0)]
    series = recording.tables(left(run, [packets], outputs=outputs)).series.filter(link="one", time_s=3.0)
    found = {row["queue"]: (row["rate_mbps"], row["dropped_packets"]) for row in series.iter_rows(named=True)}
    one = 1514 * 8 / 1e6
    assert found == {"all": (pytest.approx(2 * one), 1.0), "L": (pytest.approx(one), 0.0), "C": (0.0, 0.0)}


def test_counters_of_a_new_queue_count_from_zero(describe: Describe, left: Any) -> None:
    """100 step marks before the measured interval, then 3 in it and 5 after the replacement: 8, not 5 - 100."""
    run = describe(
        ONE_LINK.replace("pfifo limit 50", "dualpi2") + CUBIC + at(("2s", "dualpi2 target 5ms")), sample='"1s"'
    )
    packets = [packet(second * 1000 + 100, second * 1000 + 101, id=second, ecn_in=1, ecn_out=1) for second in range(4)]
    outputs = [dualpi2("2:", 100), dualpi2("2:", 103), dualpi2("3:", 1), dualpi2("3:", 5)]
    tables = recording.tables(left(run, [packets], outputs=outputs))
    assert tables.links["step_marked_packets"].to_list() == [8, 8, 0]
    assert tables.links["arrived_packets"].to_list() == [3, 3, 0]
    native = tables.series.filter(link="one", queue="all")["p_l_native"].to_list()
    assert native == [100, 3, 1, 4]


def test_overflow_of_queues_that_are_replaced(describe: Describe, left: Any) -> None:
    run = describe(ONE_LINK.replace("pfifo limit 50", "codel") + CUBIC + at(("3s", "pfifo limit 9")), sample='"1s"')
    packets = [packet(3100, None, id=1), packet(3200, 3300, id=2)]
    states = [tc(kind="codel", handle="2:", drop_overlimit=drops) for drops in (40, 47, 49)] + [tc(handle="3:")]
    tables = recording.tables(left(run, [packets], outputs=states))
    assert tables.links["dropped_overflow_packets"].to_list() == [7 + 2 + 1]
    overflows = tables.series.filter(link="one")["dropped_overflow_packets"].to_list()
    assert overflows == [40, 7, 2, 1]


def test_completion_times(describe: Describe, left: Any) -> None:
    run = describe(ONE_LINK + CUBIC + 'bytes = "1MB"\ncount = 2\n')
    events = "".join(f"{end * MS}\tcomplete\t1\t{n}\t{1000 * MS}\n" for n, end in enumerate((1200, 1400)))
    flow = recording.tables(left(run, [[]], events=events)).flows.row(0, named=True)
    assert (flow["transfers"], flow["completion_ms_p50"], flow["completion_ms_p99"]) == (2, 200.0, 400.0)


def test_no_column_is_undeclared(describe: Describe, left: Any) -> None:
    run = describe(ONE_LINK.replace("pfifo limit 50", "dualpi2") + CUBIC, per_flow="true")
    told = recording.tables(left(run, [[packet(1100, 1101)]], [sample(4.0)], outputs=[dualpi2("2:", 0)] * 40))
    assert {name: getattr(told, name).schema for name in metrics.TABLES} == recording.columns(run)
    assert {"p_prime", "credit_bytes"} <= set(told.series.columns)


def test_columns_of_a_file_with_a_host_and_a_program(describe: Describe) -> None:
    """The simulator's gauges are asked for without the program, so the host has another number there."""
    tree = 'htb default 1"\n[link.one.class.1]\nrate = "10Mbit"\nqdisc = "fq_codel"\n'
    tree += '[[link.one.filter]]\nhost = "office"\nclass = "1'
    program = '[[flow]]\nname = "mine"\nkind = "program"\nserver = "s"\nclient = "c {server}"\nrtt = "20ms"\n'
    run = describe(ONE_LINK.replace("pfifo limit 50", tree) + program + CUBIC + 'host = "office"\n')
    assert run["flows"][1]["host"] == 2
    assert "cwnd_packets" in recording.columns(run)["series"]


@pytest.mark.parametrize(("waiting", "dropped"), [(3, 7), (10, 0), (9, 0)])
def test_what_does_not_wait_in_the_end_was_dropped(describe: Describe, left: Any, waiting: int, dropped: int) -> None:
    """Nothing of the flow leaves any more; ten packets have not left, and one may be in service."""
    run = describe(ONE_LINK + CUBIC, duration='"2s"', sample='"500ms"')
    packets = [packet(1000, 1010, id=1), *(packet(1100 + 10 * n, None, id=n + 2) for n in range(10))]
    outputs = [tc(qlen=0)] * 3 + [tc(qlen=waiting)]
    tables = recording.tables(left(run, [packets], [sample(1.0), sample(2.0)], outputs=outputs))
    assert tables.links["dropped_packets"].to_list() == [dropped]
    assert tables.flows["dropped_packets"].to_list() == [dropped]


def test_single_flows_by_hand(describe: Describe, left: Any) -> None:
    run = describe(
        ONE_LINK + CUBIC + 'bytes = "1448B"\ncount = 3\n', duration='"2s"', sample='"500ms"', per_flow="true"
    )
    packets = [
        packet(1100, 1110, id=1, conn=10000),
        packet(1110, 1130, id=2, conn=10001, ecn_out=3),
        packet(1120, None, id=3, conn=10001),
        packet(1130, 1131, id=4, conn=10001),
    ]
    samples = [
        sample(second, conn=conn, bytes_acked=acked, srtt_us=10_000 * (conn + 1))
        for conn, gained in enumerate((1_000, 3_000, 0))
        for second, acked in ((1.0, 500), (1.5, 500), (2.0, 500 + gained))
    ]
    # The path is idle: 20 ms of handshake, 10 ms to the receiver.
    events = f"{1030 * MS}\tcomplete\t1\t1\t{1000 * MS}\n{1090 * MS}\tcomplete\t1\t2\t{1000 * MS}\n"
    tables = recording.tables(left(run, [packets], samples, events=events))
    one, two, three = tables.members.iter_rows(named=True)
    assert [row["member"] for row in (one, two, three)] == [1, 2, 3]
    assert [row["goodput_mbps"] for row in (one, two, three)] == pytest.approx([n * 1448 * 8e-6 for n in (1, 2, 0)])
    assert [row["share"] for row in (one, two, three)] == pytest.approx([1 / 3, 2 / 3, 0])
    assert [row["sojourn_ms_mean"] for row in (one, two, three)] == [10.0, 10.5, None]
    assert [row["sent_packets"] for row in (one, two, three)] == [1, 3, 0]
    assert [row["dropped_packets"] for row in (one, two, three)] == [0, 1, 0]
    assert [row["rtt_ms_mean"] for row in (one, two, three)] == [10.0, 20.0, 30.0]
    assert [row["slowdown_p50"] for row in (one, two, three)] == [None, 1.0, 3.0]
    group = tables.flows.row(0, named=True)
    assert group["jain"] == pytest.approx((1 + 2) ** 2 / (3 * (1 + 4)))
    assert (group["jain_run"], group["slowdown_p50"], group["slowdown_p99"]) == (None, 1.0, 3.0)
    assert tables.transfers["ideal_ms"].to_list() == [30.0, 30.0]
    of_flow = tables.series.filter(flow="a")
    assert of_flow["sojourn_ms"].to_list() == [None, None, pytest.approx(31 / 3), None]


def test_histograms_hold_what_the_percentiles_come_from(describe: Describe, left: Any) -> None:
    packets = [packet(1000 + n, 1000 + n + 0.05 * n, id=n) for n in range(100)]
    tables = recording.tables(left(describe(ONE_LINK + CUBIC), [packets], [sample(n) for n in range(1, 5)]))
    rows = {
        (row["quantity"], row["flow"], row["queue"]): row["count"]
        for row in tables.histograms.group_by("quantity", "flow", "queue")
        .agg(pl.col("count").sum())
        .iter_rows(named=True)
    }
    assert rows == {("rtt_ms", "a", None): 3, ("sojourn_ms", "a", None): 100, ("sojourn_ms", None, "all"): 100}
    median = tables.flows["sojourn_ms_p50"][0]
    inside = tables.histograms.filter(pl.col("low_ms") <= median, pl.col("high_ms") > median, flow="a")
    assert inside["quantity"].to_list() == ["sojourn_ms"]


def test_bins_have_the_edges_of_the_simulator(describe: Describe) -> None:
    """Whatever lies in a bin of the core lies in the same one here."""
    told = SimEngine().execute(json.dumps(describe(ONE_LINK + CUBIC, duration='"20s"'))).histograms
    assert len(told) > 50
    for edge in ("low_ms", "high_ms"):
        ns = (told[edge] * 1e6).round().cast(pl.Int64).to_numpy() - (edge == "high_ms")
        mine = {(row["low_ms"], row["high_ms"]) for row in recording.bins(ns)}
        assert mine == set(told.select("low_ms", "high_ms").iter_rows())


def full_queue(count: int = 40) -> list[tuple[Any, ...]]:
    return [packet(1000 + n, 1000 + 2 * n, id=n) for n in range(count)]


GOOD: dict[str, Any] = {
    "packets": [full_queue()],
    "samples": [sample(4.0)],
    "counters": COUNTERS.format(drops=0, ce=0, received=40).replace("00000003", "00000000"),
}
BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "another queue": ({"outputs": [tc(kind="fq")] * 40}, ["link one", "fq", "pfifo"]),
    "super-packets": ({"packets": [[*full_queue(), packet(3000, 3001, len=4344)]]}, ["4344", "offload"]),
    "the shaper does not hold": (
        {"packets": [[packet(1000 + n / 2, 1001 + n / 2, id=n) for n in range(4000)]]},
        ["link one", "shaper"],
    ),
    "marks do not agree": ({"outputs": [tc(**{"ecn-mark": 90})] * 40}, ["90 CE marks", "captures 0"]),
    "marks of ce_threshold": ({"outputs": [tc(ecn_mark=1, ce_mark=90)] * 40}, ["91 CE marks", "captures 0"]),
    "a host drops": ({"counters": COUNTERS.format(drops=7, ce=0, received=40)}, ["s1", "7", "ListenDrops"]),
    "the backlog drops": ({"counters": COUNTERS.format(drops=0, ce=0, received=40)}, ["backlog dropped 3"]),
    "the receiver misses packets": (
        {"counters": COUNTERS.format(drops=0, ce=0, received=20).replace("00000003", "0")},
        ["40 packets", '"a"', "20 came"],
    ),
    "the receiver misses marks": (
        {"counters": COUNTERS.format(drops=0, ce=33, received=40).replace("00000003", "0")},
        ['"a"', "0 packets", "counts 33"],
    ),
    "a delay drops": (
        {"teardown": "# d1\nqdisc netem 8001: root\n Sent 1 bytes 1 pkt (dropped 5, overlimits 0)\n"},
        ["d1", "dropped 5"],
    ),
    "another negotiation": ({"samples": [sample(4.0, ecn_mode=0)]}, ['"a"', "off instead of classic"]),
    "a buffer limits": ({"samples": [sample(4.0, sndbuf_ms=3000)]}, ['"a"', "75%"]),
    "a connection fails": ({"events": "5\terror\t1\t0\tConnection refused\n"}, ['"a"', "Connection refused"]),
    "the capture loses": ({"events": "5\tcapture\t0\t100\t9\n"}, ["capture of link one", "9 of 100"]),
    "a sender's capture loses": ({"events": "5\tcapture at\t1\t100\t9\n"}, ['sender of flow "a"', "9 of 100"]),
}


def test_a_good_laboratory_passes(describe: Describe, left: Any) -> None:
    recording.check(left(describe(ONE_LINK + CUBIC), **GOOD))


@pytest.mark.parametrize(("counter", "lost"), [("PruneCalled", False), ("RcvPruned", True), ("OfoPruned", True)])
def test_a_receive_buffer_that_is_tidied_up_loses_nothing(
    describe: Describe, left: Any, counter: str, lost: bool
) -> None:
    """Linux, net/ipv4/tcp_input.c: tcp_prune_queue first joins buffers and counts its calls."""
    counters = GOOD["counters"].replace("ListenDrops\nTcpExt: 0 0", f"{counter}\nTcpExt: 0 3")
    observed = left(describe(ONE_LINK + CUBIC), **(GOOD | {"counters": counters}))
    with pytest.raises(recording.CheckError, match=f"counts 3 TcpExt.{counter}") if lost else nullcontext():
        recording.check(observed)


@pytest.mark.parametrize("case", BAD)
def test_what_laboratories_get_wrong(case: str, describe: Describe, left: Any) -> None:
    change, mentions = BAD[case]
    with pytest.raises(recording.CheckError, match=r"^[^\n]+$") as failure:
        recording.check(left(describe(ONE_LINK + CUBIC), **(GOOD | change)))
    for mention in mentions:
        assert mention in str(failure.value)


def test_an_unlimited_flow_must_have_filled_a_queue(describe: Describe, left: Any) -> None:
    run = describe(ONE_LINK + CUBIC, duration='"30s"')
    packets = [packet(1000 + n, 1000 + n, id=n) for n in range(40)]
    with pytest.raises(recording.CheckError, match=r'"a" never filled a queue'):
        recording.check(left(run, **(GOOD | {"packets": [packets]})))


def test_missing_files_are_named(describe: Describe, tmp_path: Path) -> None:
    with pytest.raises(recording.CheckError, match=r"left no ticks\.tsv"):
        recording.read(lab.build(describe(ONE_LINK + CUBIC)), tmp_path)
