"""From what a laboratory left in its folder to a `Recording`, and the checks that it was a good laboratory.

`packets.N.bin` has every packet that reached link N, with the instants at which it came to the queue and left it: the
clock is virtual, so the difference is the sojourn, to the clock's grain of 0.26 microseconds. `tcp.bin` has TCP_INFO of
every connection at each sample, `tc.N.json` what `tc -s` said of the link's queues at each sample.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from l4slab import metrics
from l4slab.engines import Recording
from l4slab.engines.linux import lab as labs
from l4slab.engines.linux.lab import Flow, Lab

Array = npt.NDArray[Any]

PACKET = np.dtype("u8,u8,u2,u2,u2,u2,u1,u1,u1,u1,u4")
PACKET.names = ("in_ns", "out_ns", "flow", "conn", "id", "len", "ecn_in", "ecn_out", "kind", "spare", "seq")
SAMPLE = np.dtype("u8,u8,u8" + 12 * ",u4")
SAMPLE.names = (
    *("t_ns", "bytes_acked", "pacing", "flow", "conn", "state", "ecn_mode", "cwnd", "ssthresh"),
    *("srtt_us", "min_rtt_us", "retrans", "delivered", "delivered_ce", "limited_ms"),
)
# `kind` of a packet: forward with payload, forward without (SYN, FIN), and the same on the way back.
PAYLOAD, BACKWARD = 1, 2
NEVER = 0  # out_ns of a packet that did not leave
_FOR_EVER = 1 << 62
ECT1, CE = 1, 3
_NOTHING = np.empty(0, np.int64)
ESTABLISHED, FIN_WAIT1, CLOSE_WAIT = 1, 4, 8
ECN_MODES = ("off", "classic", "accecn", "pending")
UDP_HEADERS = 42
# The largest part of the time for which a buffer may hold a flow back: receive windows open in the first rounds.
_HELD = 0.1
# From when on an unlimited flow has filled a queue.
_FILLS_AFTER_NS, _FILLS_AFTER_RTTS = 20e9, 100
# Packets that are under way between two places while both are read.
_SLACK = 4

FLOWS = metrics.FLOWS | {name: pl.Int64() for name in ("delivered_packets", "ce_packets", "dropped_packets")}
LINKS = metrics.LINKS | {name: pl.Int64() for name in ("dropped_overflow_packets", "step_marked_packets")}
SERIES = metrics.SERIES | {
    name: pl.Float64()
    for name in (
        *("sent_packets", "delivered_packets", "ce_packets", "marked_packets", "dropped_packets"),
        *("dropped_overflow_packets", "sojourn_ms_min", "sojourn_ms_max", "p_prime", "credit_bytes"),
    )
}
_FIFOS = ("pfifo", "bfifo", "pfifo_head_drop")
# How `tc` calls the drops of a full queue, by qdisc.
_OVERFLOWS = {"codel": "drop_overlimit", "fq_codel": "drop_overlimit", "pie": "overlimit", "fq_pie": "overlimit"}


Span = tuple[int, int]  # from, to (not with it), ns


class CheckError(Exception):
    """The laboratory did not do what was asked; one sentence."""


@dataclass
class Link:
    """What was seen at one link. `packets` came within the run; the rest is by packet."""

    name: str
    packets: Array
    tc: list[tuple[int, list[dict[str, Any]]]]
    spec: Mapping[str, Any]
    changes: list[Mapping[str, Any]]
    duration_ns: int

    @cached_property
    def left(self) -> Array:
        """Whether it left within the run."""
        out: Array = self.packets["out_ns"]
        result: Array = (out != NEVER) & (out <= self.duration_ns)
        return result

    @cached_property
    def dropped(self) -> Array:
        """Whether the queue dropped it: it never left, and a later packet of its flow did."""
        packets = self.packets
        lost = packets["out_ns"] == NEVER
        last = np.zeros(65536, np.uint64)
        gone = packets[~lost]
        np.maximum.at(last, gone["flow"], gone["in_ns"])
        result: Array = lost & (packets["in_ns"] <= last[packets["flow"]])
        return result

    @cached_property
    def sojourn_ns(self) -> Array:
        """Time in the queue, of those that left."""
        return np.where(self.left, self.packets["out_ns"] - self.packets["in_ns"], 0).astype(np.int64)

    @cached_property
    def marked(self) -> Array:
        """Whether the queue set CE on it."""
        result: Array = self.left & (self.packets["ecn_in"] != CE) & (self.packets["ecn_out"] == CE)
        return result

    @cached_property
    def qdiscs(self) -> list[tuple[Span, list[str]]]:
        """When each qdisc was in force, and its words, in order of time."""
        words = [(0, self.spec["qdisc"])]
        words += [(change["time_ns"], change["qdisc"]) for change in self.changes if change["qdisc"] is not None]
        ends = [*(time for time, _ in words[1:]), _FOR_EVER]
        return [((begin, end), str(text).split()) for (begin, text), end in zip(words, ends, strict=True)]

    def came_in(self, span: Span) -> Array:
        """Which packets came within a span of time. What a qdisc has got leaves from it or is lost with it."""
        result: Array = (self.packets["in_ns"] >= span[0]) & (self.packets["in_ns"] < span[1])
        return result

    @cached_property
    def bands(self) -> dict[str, Array]:
        """The queues inside, of all qdiscs that have them: which packets they got."""
        found: dict[str, Array] = {}
        for span, words in self.qdiscs:
            if words[0] == "dualpi2":
                ecn = self.packets["ecn_in"]
                low = ecn != 0 if "any_ect" in words else (ecn == ECT1) | (ecn == CE)
                for band, which in (("L", low), ("C", ~low)):
                    found[band] = found.get(band, False) | (which & self.came_in(span))
        return found

    def in_force(self, queue: str, begin_ns: int, end_ns: int) -> list[Span]:
        """The parts of a time in which a qdisc with this queue was in force."""
        spans = [span for span, words in self.qdiscs if queue == "all" or words[0] == "dualpi2"]
        parts = [(max(begin, begin_ns), min(end, end_ns)) for begin, end in spans]
        return [(begin, end) for begin, end in parts if begin < end]

    @cached_property
    def overflowed(self) -> Array:
        """Which packets came to a full FIFO. Those that came after the last one that left it count as lost with it."""
        found = np.zeros(len(self.packets), bool)
        for span, words in self.qdiscs:
            came = self.came_in(span)
            if words[0] in _FIFOS and (came & self.left).any():
                last = self.packets["in_ns"][came & self.left].max() if span[1] != _FOR_EVER else _FOR_EVER
                found |= came & self.dropped & (self.packets["in_ns"] <= last)
        return found

    def capacity_bits(self, begin_ns: int, end_ns: int) -> float:
        """What the shaper could have sent."""
        steps = [(0, self.spec["rate_bps"])]
        steps += [(change["time_ns"], change["rate_bps"]) for change in self.changes if change["rate_bps"] is not None]
        ends = [time for time, _ in steps[1:]] + [self.duration_ns]
        total = 0.0
        for (start, rate), end in zip(steps, ends, strict=True):
            total += rate * max(0, min(end, end_ns) - max(start, begin_ns)) * 1e-9
        return total

    def backlog(self, which: Array) -> tuple[Array, Array]:
        """Times and numbers of packets in the queue just after them, of those packets that were not dropped."""
        packets = self.packets[which & ~self.dropped]
        out = packets["out_ns"][packets["out_ns"] != NEVER]
        times = np.concatenate([packets["in_ns"], out])
        steps = np.concatenate([np.ones(len(packets), np.int64), -np.ones(len(out), np.int64)])
        order = np.lexsort((-steps, times))
        return times[order], np.cumsum(steps[order])


@dataclass
class Observed:
    """Everything a laboratory left."""

    lab: Lab
    links: list[Link]
    samples: Array
    ticks: list[int]
    events: list[list[str]]
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    teardown: str = ""

    @property
    def run(self) -> Mapping[str, Any]:
        """The run's description."""
        return self.lab.run

    def of_flow(self, flow: Flow) -> Array:
        """A flow's TCP samples."""
        result: Array = self.samples[self.samples["flow"] == flow.number]
        return result

    def path(self, flow: Flow) -> list[Link]:
        """The links of a flow's data."""
        by_name = {link.name: link for link in self.links}
        return [by_name[name] for name in flow.spec["path"]]


# -- reading ----------------------------------------------------------------------------------------------------------


def read(lab: Lab, folder: Path) -> Observed:
    """Read what the laboratory left. Raises CheckError where something is missing."""
    run = lab.run
    ticks = [int(line) for line in _lines(folder / "ticks.tsv")]
    links = []
    for number, spec in enumerate(run["links"]):
        used = lab.link_namespace(number) in lab.routes
        path = folder / f"packets.{number}.bin"
        packets = _array(path, PACKET) if used else np.empty(0, PACKET)
        packets = packets[packets["in_ns"] <= run["duration_ns"]]
        outputs = parse_tc(_text(folder / f"tc.{number}.json")) if used else []
        if used and len(outputs) != len(ticks):
            raise CheckError(f"tc gave {len(outputs)} of {len(ticks)} samples of link {spec['name']}")
        changes = [change for change in run["at"] if change["link"] == spec["name"]]
        tc = list(zip(ticks, outputs, strict=False))
        links.append(Link(spec["name"], packets, tc, spec, changes, run["duration_ns"]))
    events = [line.split("\t") for line in _lines(folder / "events.tsv")]
    return Observed(
        lab,
        links,
        _array(folder / "tcp.bin", SAMPLE),
        ticks,
        events,
        parse_counters(_text(folder / "counters.txt")),
        _text(folder / "teardown.txt"),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        raise CheckError(f"the laboratory left no {path.name}") from None


def _lines(path: Path) -> list[str]:
    return _text(path).splitlines()


def _array(path: Path, dtype: np.dtype[Any]) -> Array:
    if not path.is_file():
        raise CheckError(f"the laboratory left no {path.name}")
    return np.fromfile(path, dtype)


def parse_tc(text: str) -> list[list[dict[str, Any]]]:
    """The arrays that `tc -j -batch` has written one after the other."""
    decoder = json.JSONDecoder()
    found, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


def parse_counters(text: str) -> dict[str, dict[str, int]]:
    """Per namespace, the kernel's counters: `TcpExt.ListenDrops`, `dev.NAME.rx_drop`, `softnet.dropped`."""
    found: dict[str, dict[str, int]] = {}
    namespace: dict[str, int] = {}
    file, names = "", [""]
    for line in text.splitlines():
        if line.startswith("# "):
            _, name, file = line.split()
            namespace = found.setdefault(name, {})
        elif file in ("net/netstat", "net/snmp"):
            kind, _, rest = line.partition(":")
            words = rest.split()
            if words and not words[0].lstrip("-").isdigit():
                names = words
            else:
                namespace |= {f"{kind}.{name}": int(value) for name, value in zip(names, words, strict=False)}
        elif file == "net/dev" and ":" in line:
            device, _, rest = line.partition(":")
            words = rest.split()
            namespace |= {
                f"dev.{device.strip()}.rx_drop": int(words[3]),
                f"dev.{device.strip()}.tx_drop": int(words[11]),
            }
        elif file == "net/softnet_stat" and line.strip():
            namespace["softnet.dropped"] = namespace.get("softnet.dropped", 0) + int(line.split()[1], 16)
    return found


# -- tables -----------------------------------------------------------------------------------------------------------


def tables(observed: Observed) -> Recording:
    """The result tables."""
    flows = [_flow_row(observed, flow) for flow in observed.lab.flows]
    total = sum(row["goodput_mbps"] for row in flows)
    for row in flows:
        row["share"] = row["goodput_mbps"] / total if total > 0 else None
    links = [row for link in observed.links for row in _link_rows(observed, link)]
    return Recording(
        _frame(flows, FLOWS),
        _frame(links, LINKS),
        _frame(_series(observed), SERIES),
        _frame(_transfers(observed), metrics.TRANSFERS),
        _frame(_histograms(observed), metrics.HISTOGRAMS),
    )


def empty_tables() -> Recording:
    """The tables without rows."""
    schemas = metrics.TABLES | {"flows": FLOWS, "links": LINKS, "series": SERIES}
    return Recording(**{name: _frame([], schema) for name, schema in schemas.items()})


def _frame(rows: Iterable[Mapping[str, Any]], schema: metrics.Schema) -> pl.DataFrame:
    rows = list(rows)
    return pl.DataFrame(
        [pl.Series(name, [row.get(name) for row in rows], dtype=dtype, strict=False) for name, dtype in schema.items()]
    )


def _distribution(values: Array, name: str, scale: float, largest: bool = False) -> dict[str, float | None]:
    if not len(values):
        return {}
    found: dict[str, float | None] = {f"{name}_mean": float(values.mean()) * scale}
    for quantile in (50, 99):
        found[f"{name}_p{quantile}"] = float(np.percentile(values, quantile, method="inverted_cdf")) * scale
    if largest:
        found[f"{name}_max"] = float(values.max()) * scale
    return found


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _window(observed: Observed, times: Array) -> Array:
    result: Array = (times >= observed.run["warmup_ns"]) & (times <= observed.run["duration_ns"])
    return result


def _active(samples: Array) -> Array:
    result: Array = np.isin(samples["state"], (ESTABLISHED, FIN_WAIT1, CLOSE_WAIT)) & (samples["srtt_us"] > 0)
    return result


def _gained(observed: Observed, samples: Array, column: str) -> int:
    """How much a counter of all connections has grown over the measured interval."""
    run = observed.run
    end = samples[samples["t_ns"] == run["duration_ns"]][column].astype(np.int64).sum()
    begin = samples[samples["t_ns"] == run["warmup_ns"]][column].astype(np.int64).sum()
    return int(end - begin)


def _flow_row(observed: Observed, flow: Flow) -> dict[str, Any]:
    run, spec = observed.run, flow.spec
    seconds = (run["duration_ns"] - run["warmup_ns"]) * 1e-9
    path = observed.path(flow)
    delivered = _measured(observed, flow)
    first = _payload_of(path[0], flow)
    sent = int(_window(observed, path[0].packets["in_ns"][first]).sum())
    dropped = 0
    for link in path:
        lost = _payload_of(link, flow) & link.dropped
        dropped += int(_window(observed, link.packets["in_ns"][lost]).sum())
    frames = int(delivered["len"].cast(pl.Int64).sum())
    row: dict[str, Any] = {
        "flow": spec["name"],
        "cc": spec.get("cc", spec["kind"]),
        "count": spec["count"],
        "rate_mbps": frames * 8e-6 / seconds,
        **_distribution(delivered["queued_ns"].to_numpy(), "sojourn_ms", 1e-6),
        "sent_packets": sent,
        "delivered_packets": len(delivered),
        "ce_packets": int((delivered["ecn_out"] == CE).sum()),
        "dropped_packets": dropped,
        "drop_pct": _percent(dropped, sent),
        "retransmits": 0,
        "transfers": 0,
    }
    row["ce_pct"] = _percent(row["ce_packets"], sent)
    if not flow.is_tcp:
        row["goodput_mbps"] = (frames - UDP_HEADERS * len(delivered)) * 8e-6 / seconds
        return row
    samples = observed.of_flow(flow)
    row["goodput_mbps"] = _gained(observed, samples, "bytes_acked") * 8e-6 / seconds
    row["retransmits"] = _gained(observed, samples, "retrans")
    row |= _distribution(_smoothed_rtts(observed, flow), "rtt_ms", 1e-3)
    modes = samples[samples["state"] != 2]["ecn_mode"]
    row["ecn_mode"] = ECN_MODES[int(modes[-1])] if len(modes) else None
    times = [end - start for start, end in _completed(observed, flow)]
    row["transfers"] = len(times)
    finished = _distribution(np.array(times), "completion_ms", 1e-6)
    return row | {name: value for name, value in finished.items() if not name.endswith("mean")}


def _measured(observed: Observed, flow: Flow) -> pl.DataFrame:
    """Of `_delivered`, what left within the measured interval."""
    run = observed.run
    return _delivered(observed.path(flow), flow).filter(
        pl.col("out_ns").is_between(run["warmup_ns"], run["duration_ns"])
    )


def _smoothed_rtts(observed: Observed, flow: Flow) -> Array:
    """The smoothed RTT of each connection at each sample of the measured interval, us."""
    samples = observed.of_flow(flow)
    counted = samples[_active(samples) & (samples["t_ns"] > observed.run["warmup_ns"])]
    rtts: Array = counted["srtt_us"][counted["t_ns"] % observed.run["sample_ns"] == 0]
    return rtts


def _completed(observed: Observed, flow: Flow) -> list[tuple[int, int]]:
    """When the transfers of a flow began and ended, ns."""
    return [
        (int(event[4]), int(event[0]))
        for event in observed.events
        if event[1] == "complete" and int(event[2]) == flow.number
    ]


def _transfers(observed: Observed) -> list[dict[str, Any]]:
    rows = [
        {
            "flow": flow.spec["name"],
            "kind": "flow",
            "start_s": start * 1e-9,
            "size_bytes": flow.spec["bytes"],
            "completion_ms": (end - start) * 1e-6,
        }
        for flow in observed.lab.flows
        for start, end in _completed(observed, flow)
    ]
    return sorted(rows, key=lambda row: (row["start_s"], row["flow"]))


def _histograms(observed: Observed) -> list[dict[str, Any]]:
    """A row per distribution and bin: of the flows, then of the queues."""
    rows = []
    for flow in observed.lab.flows:
        times = [end - start for start, end in _completed(observed, flow)]
        found = {
            "rtt_ms": _smoothed_rtts(observed, flow).astype(np.int64) * 1000 if flow.is_tcp else _NOTHING,
            "sojourn_ms": _measured(observed, flow)["queued_ns"].to_numpy(),
            "completion_ms": np.array(times, np.int64),
        }
        name = flow.spec["name"]
        rows += [{"quantity": quantity, "flow": name} | one for quantity, ns in found.items() for one in bins(ns)]
    for link in observed.links:
        for queue, which in _queues(observed, link).items():
            of_queue = {"quantity": "sojourn_ms", "link": link.name, "queue": queue}
            rows += [of_queue | one for one in bins(link.sojourn_ns[_sent(observed, link, which)])]
    return rows


def bins(ns: Array) -> list[dict[str, Any]]:
    """How many times lie in each bin that is not empty, as the simulator's core has them (`metrics.HISTOGRAMS`)."""
    units = ns >> 10
    # frexp gives the number of binary digits.
    octave = np.maximum(np.frexp(units.astype(np.float64))[1] - 7, 0)
    low, first, count = np.unique(units >> octave << octave, return_index=True, return_counts=True)
    high = low + (1 << octave[first].astype(np.int64))
    edges = (((edge << 10).astype(np.float64) * 1e-6).tolist() for edge in (low, high))
    return [{"low_ms": a, "high_ms": b, "count": n} for a, b, n in zip(*edges, count.tolist(), strict=True)]


def _payload_of(link: Link, flow: Flow) -> Array:
    result: Array = (link.packets["flow"] == flow.number) & (link.packets["kind"] == PAYLOAD)
    return result


def _delivered(path: list[Link], flow: Flow) -> pl.DataFrame:
    """A flow's payload packets that left the last link: `out_ns`, `len`, `ecn_out`, `queued_ns` over all links."""
    keys = ["conn", "id"]
    so_far: pl.DataFrame | None = None
    for link in path:
        which = _payload_of(link, flow) & link.left
        packets = link.packets[which]
        columns = {name: packets[name] for name in ("in_ns", "out_ns", "len", "ecn_out", *keys)}
        here = pl.DataFrame(columns | {"queued_ns": link.sojourn_ns[which]})
        if so_far is not None:
            # The same IP identification comes again after 65536 packets: the latest before counts.
            before = so_far.select(*keys, pl.col("out_ns").alias("before_ns"), pl.col("queued_ns").alias("queued"))
            here = (
                here.sort("in_ns")
                .join_asof(
                    before.sort("before_ns"), left_on="in_ns", right_on="before_ns", by=keys, check_sortedness=False
                )
                .with_columns(queued_ns=pl.col("queued_ns") + pl.col("queued").fill_null(0))
                .drop("before_ns", "queued", strict=False)
            )
        so_far = here
    if so_far is None:
        raise CheckError(f'flow "{flow.spec["name"]}" crosses no link')
    return so_far


def _link_rows(observed: Observed, link: Link) -> list[dict[str, Any]]:
    run = observed.run
    rows = []
    for queue, which in _queues(observed, link).items():
        spans = link.in_force(queue, run["warmup_ns"], run["duration_ns"])
        rows.append(_link_row(observed, link, queue, which, spans))
    steps = _gained_tc(link, "step-mark", run["warmup_ns"])
    for row in rows:
        row["step_marked_packets"] = steps if row["queue"] in ("all", "L") else 0
    return rows


def _queues(observed: Observed, link: Link) -> dict[str, Array]:
    """The queues in force at some time of the measured interval, and which packets each got."""
    run = observed.run
    queues = {"all": np.ones(len(link.packets), bool), **link.bands}
    return {name: got for name, got in queues.items() if link.in_force(name, run["warmup_ns"], run["duration_ns"])}


def _sent(observed: Observed, link: Link, which: Array) -> Array:
    """Which of these left within the measured interval."""
    result: Array = which & link.left & _window(observed, link.packets["out_ns"])
    return result


def _link_row(observed: Observed, link: Link, queue: str, which: Array, spans: list[Span]) -> dict[str, Any]:
    """A queue over the parts of the measured interval in which it was there."""
    packets = link.packets
    seconds = sum(end - begin for begin, end in spans) * 1e-9
    came = which & _window(observed, packets["in_ns"])
    sent = _sent(observed, link, which)
    sent_bytes = int(packets["len"][sent].astype(np.int64).sum())
    capacity = sum(link.capacity_bits(begin, end) for begin, end in spans)
    dropped = int((came & link.dropped).sum())
    marked = int((sent & link.marked).sum())
    times, backlog = link.backlog(which)
    backlog = backlog[_window(observed, times)]
    return {
        "link": link.name,
        "queue": queue,
        "rate_mbps": sent_bytes * 8e-6 / seconds,
        "utilisation": sent_bytes * 8 / capacity if capacity else 0.0,
        **_distribution(link.sojourn_ns[sent], "sojourn_ms", 1e-6, largest=True),
        "arrived_packets": int(came.sum()),
        "sent_packets": int(sent.sum()),
        "dropped_packets": dropped,
        "dropped_overflow_packets": _overflowed(observed, link) if queue == "all" else None,
        "marked_packets": marked,
        "ce_pct": _percent(marked, int(came.sum())),
        "drop_pct": _percent(dropped, int(came.sum())),
        "backlog_packets_max": int(backlog.max()) if len(backlog) else 0,
    }


def queue_under_test(output: list[dict[str, Any]]) -> dict[str, Any]:
    """The qdisc below the shaper in one output of `tc -s -j qdisc show`."""
    return next((entry for entry in output if entry.get("parent") == "1:1"), {})


def _gains(states: Iterable[tuple[int, Mapping[str, Any]]], key: str | Mapping[str, str]) -> dict[int, int | None]:
    """By time of the sample, how much a counter of `tc` grew since the one before; `key`: its name, or that by qdisc.

    None where the qdisc has no such counter. A new qdisc has a new handle and counts from zero; what the old one
    counted after its last sample nobody has seen.
    """
    found: dict[int, int | None] = {}
    known, before = None, 0
    for time, state in states:
        if known != (known := (state.get("kind"), state.get("handle"))):
            before = 0
        now = state.get(key if isinstance(key, str) else key.get(state.get("kind", ""), ""))
        found[int(time)] = None if now is None else int(now) - before
        before = int(now or 0)
    return found


def _gained_tc(link: Link, key: str | Mapping[str, str], begin_ns: int) -> int:
    """How much a counter of `tc` grew from then on."""
    gains = _gains(((time, queue_under_test(output)) for time, output in link.tc), key)
    return sum(gain or 0 for time, gain in gains.items() if time > begin_ns)


def _overflowed(observed: Observed, link: Link) -> int | None:
    """Drops of full queues in the measured interval; None where a qdisc in force does not tell them apart."""
    begin, end = observed.run["warmup_ns"], observed.run["duration_ns"]
    kinds = {words[0] for span, words in link.qdiscs if span[0] < end and begin < span[1]}
    if not kinds <= {*_FIFOS, *_OVERFLOWS}:
        return None
    of_fifos = int(_window(observed, link.packets["in_ns"][link.overflowed]).sum())
    return of_fifos + _gained_tc(link, _OVERFLOWS, begin)


def _series(observed: Observed) -> list[dict[str, Any]]:
    """A row per step and flow, and per step and queue, in order of time."""
    run = observed.run
    steps = np.arange(1, run["duration_ns"] // run["sample_ns"] + 1, dtype=np.uint64) * np.uint64(run["sample_ns"])
    if not len(steps):
        return []
    columns = [_flow_series(observed, flow, steps) for flow in observed.lab.flows]
    columns += [column for link in observed.links for column in _link_series(observed, link, steps)]
    rows = []
    for index, time in enumerate(steps):
        for column in columns:
            row = {name: values[index] if isinstance(values, list) else values for name, values in column.items()}
            row["time_s"] = float(time) * 1e-9
            if row.pop("is_there", True):
                rows.append(row)
    return rows


def _binned(times: Array, weights: Array | None, steps: Array) -> Array:
    """Sums per step; a step ends with its time, which belongs to it."""
    at = np.searchsorted(steps, times)
    kept = at < len(steps)
    result: Array = np.bincount(at[kept], None if weights is None else weights[kept], minlength=len(steps))
    return result


def _flow_series(observed: Observed, flow: Flow, steps: Array) -> dict[str, Any]:
    seconds = observed.run["sample_ns"] * 1e-9
    delivered = _delivered(observed.path(flow), flow)
    times, frames = delivered["out_ns"].to_numpy(), delivered["len"].to_numpy().astype(np.float64)
    row: dict[str, Any] = {
        "flow": flow.spec["name"],
        "rate_mbps": (_binned(times, frames, steps) * 8e-6 / seconds).tolist(),
        "delivered_packets": _binned(times, None, steps).tolist(),
        "ce_packets": _binned(times[delivered["ecn_out"].to_numpy() == CE], None, steps).tolist(),
    }
    path = observed.path(flow)
    sent = path[0].packets["in_ns"][_payload_of(path[0], flow)]
    row["sent_packets"] = _binned(sent, None, steps).tolist()
    lost = [_binned(link.packets["in_ns"][_payload_of(link, flow) & link.dropped], None, steps) for link in path]
    row["dropped_packets"] = np.sum(lost, axis=0).tolist()
    if not flow.is_tcp:
        row["goodput_mbps"] = (_binned(times, frames - UDP_HEADERS, steps) * 8e-6 / seconds).tolist()
        return row
    samples = observed.of_flow(flow)
    # Samples beside the grid (at the end of the warm-up) are not of the series.
    samples = samples[np.isin(samples["t_ns"], steps)]
    at = np.searchsorted(steps, samples["t_ns"])
    acked = np.bincount(at, samples["bytes_acked"].astype(np.float64), minlength=len(steps))
    row["goodput_mbps"] = (np.diff(acked, prepend=0.0) * 8e-6 / seconds).tolist()
    active = _active(samples)
    count = np.bincount(at[active], minlength=len(steps))
    for name, column, scale in (("cwnd_packets", "cwnd", 1.0), ("srtt_ms", "srtt_us", 1e-3)):
        total = np.bincount(at[active], samples[column][active] * scale, minlength=len(steps))
        row[name] = [float(t / n) if n else None for t, n in zip(total, count, strict=True)]
    return row


def _link_series(observed: Observed, link: Link, steps: Array) -> list[dict[str, Any]]:
    everything = np.ones(len(link.packets), bool)
    outputs = {time: queue_under_test(output) for time, output in link.tc}
    states = [outputs.get(int(time), {}) for time in steps]
    whole = _queue_series(observed, link, "all", everything, steps)
    whole["backlog_packets"] = [_number(state.get("qlen")) for state in states]
    whole["dropped_overflow_packets"] = _overflows(link, states, steps)
    rows = [whole]
    bands = link.bands
    for band, which in bands.items():
        row = _queue_series(observed, link, band, which, steps)
        width = observed.run["sample_ns"]
        row["is_there"] = [bool(link.in_force(band, int(time) - width, int(time))) for time in steps]
        times, backlog = link.backlog(which)
        at = np.searchsorted(times, steps, side="right")
        row["backlog_packets"] = [float(backlog[index - 1]) if index else 0.0 for index in at]
        rows.append(row)
    low = link.packets["out_ns"][bands["L"] & link.left] if bands else np.empty(0, np.uint64)
    marks = _gains(zip(steps, states, strict=True), "step-mark").values()
    each = [_probabilities(*of_step) for of_step in zip(states, marks, _binned(low, None, steps), strict=True)]
    return [whole | {name: [found.get(name) for found in each] for name in _PROBABILITIES}, *rows[1:]]


def _overflows(link: Link, states: list[dict[str, Any]], steps: Array) -> list[float | None]:
    """Drops of full queues within each step, as far as `tc` tells them apart."""
    gained = _gains(zip(steps, states, strict=True), _OVERFLOWS)
    counted = [
        0 if state.get("kind") in _FIFOS else gained.get(int(time)) for state, time in zip(states, steps, strict=True)
    ]
    of_fifos = _binned(link.packets["in_ns"][link.overflowed], None, steps)
    return [None if gain is None else float(gain + drops) for gain, drops in zip(counted, of_fifos, strict=True)]


_PROBABILITIES = ("p_prime", "p_c", "p_l_coupled", "p_l_native", "p_l", "credit_bytes")


def _probabilities(state: Mapping[str, Any], step_marks: int | None, low_packets: float) -> dict[str, float]:
    """A controller's probabilities from what `tc` says of it; see `docs/results.md`."""
    prob = state.get("prob")
    if prob is None or step_marks is None:
        return {} if prob is None else {"p_c": float(prob)}
    coupled = min(1.0, state["options"]["coupling"] * prob)
    native = step_marks / max(int(low_packets), 1)
    # tc prints the credit multiplied by 100, as the kernel keeps it.
    values = (prob, prob * prob, coupled, native, max(coupled, native), state["credit"] / 100)
    return dict(zip(_PROBABILITIES, map(float, values), strict=True))


def _queue_series(observed: Observed, link: Link, queue: str, which: Array, steps: Array) -> dict[str, Any]:
    seconds = observed.run["sample_ns"] * 1e-9
    sent = which & link.left
    times = link.packets["out_ns"][sent]
    packets = _binned(times, None, steps)
    sojourn = _binned(times, link.sojourn_ns[sent].astype(np.float64), steps)
    frames = _binned(times, link.packets["len"][sent].astype(np.float64), steps)
    marks = _binned(link.packets["out_ns"][which & link.marked], None, steps)
    drops = _binned(link.packets["in_ns"][which & link.dropped], None, steps)
    at = np.searchsorted(steps, times)
    shortest, longest = np.full(len(steps) + 1, np.inf), np.zeros(len(steps) + 1)
    np.minimum.at(shortest, at, link.sojourn_ns[sent])
    np.maximum.at(longest, at, link.sojourn_ns[sent])
    return {
        "link": link.name,
        "queue": queue,
        "rate_mbps": (frames * 8e-6 / seconds).tolist(),
        "marked_packets": marks.tolist(),
        "dropped_packets": drops.tolist(),
        "sojourn_ms": [float(s / n) * 1e-6 if n else None for s, n in zip(sojourn, packets, strict=True)],
        "sojourn_ms_min": [float(s) * 1e-6 if n else None for s, n in zip(shortest, packets, strict=False)],
        "sojourn_ms_max": [float(s) * 1e-6 if n else None for s, n in zip(longest, packets, strict=False)],
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


# -- checks -----------------------------------------------------------------------------------------------------------

# Drops and losses inside a host, which no laboratory should have. UDP receivers do not read: theirs are not counted.
_BAD_COUNTERS = (
    "TcpExt.ListenOverflows",
    "TcpExt.ListenDrops",
    "TcpExt.TCPBacklogDrop",
    "TcpExt.TCPRcvQDrop",
    "TcpExt.TCPOFODrop",
    "TcpExt.PruneCalled",
    "TcpExt.RcvPruned",
    "TcpExt.OfoPruned",
    "TcpExt.TCPZeroWindowDrop",
    "TcpExt.TCPMemoryPressures",
    "TcpExt.TCPAbortOnMemory",
    "Ip.InDiscards",
    "Ip.InHdrErrors",
    "Ip.InAddrErrors",
    "Ip.OutDiscards",
    "Ip.OutNoRoutes",
)
_CORRUPTION = ("Ip.InHdrErrors", "Ip.InAddrErrors", "Ip.OutNoRoutes", "Ip.InDiscards")


def check(observed: Observed) -> None:
    """What laboratories get wrong. Raises CheckError with one sentence."""
    for test in (_check_events, _check_queues, _check_hosts, _check_delays, _check_ends, _check_ecn, _check_bottleneck):
        test(observed)


def _check_events(observed: Observed) -> None:
    for event in observed.events:
        if event[1] == "error":
            name = observed.lab.flows[int(event[2]) - 1].spec["name"]
            raise CheckError(f'a connection of flow "{name}" failed: {event[4]}')
        if event[1] == "capture" and int(event[4]):
            link = observed.run["links"][int(event[2])]["name"]
            raise CheckError(f"the capture of link {link} lost {event[4]} of {event[3]} packets; give it a shorter run")


def _check_queues(observed: Observed) -> None:
    for link in observed.links:
        if not link.tc:
            continue
        seen = queue_under_test(link.tc[-1][1])
        wanted = link.qdiscs[-1][1][0]
        if seen.get("kind") != wanted:
            raise CheckError(f"link {link.name} has the queue {seen.get('kind', 'none')} instead of {wanted}")
        if len(link.packets) and int(link.packets["len"].max()) > labs.MTU_FRAME:
            raise CheckError(f"link {link.name} saw frames of {link.packets['len'].max()} bytes: an offload is on")
        capacity = link.capacity_bits(0, observed.run["duration_ns"])
        sent = float(link.packets["len"][link.left].astype(np.int64).sum()) * 8
        if sent > capacity * 1.001 + 8 * (link.spec["burst_bytes"] + 2 * labs.MTU_FRAME) * (1 + len(link.changes)):
            raise CheckError(f"link {link.name} sent {sent / capacity:.1%} of its rate: its shaper did not hold")
        marks = seen.get("ecn-mark", seen.get("ecn_mark"))
        if marks is not None and not any(change["qdisc"] for change in link.changes):
            captured = int(link.marked.sum())
            # dualpi2 counts a packet twice that both its coupling and its step mark.
            twice = int(seen.get("step-mark", 0))
            if not captured - _SLACK <= int(marks) <= captured + twice + _SLACK:
                raise CheckError(f"the queue of link {link.name} counts {marks} CE marks and its captures {captured}")


def _check_hosts(observed: Observed) -> None:
    # A flipped bit of an IP header, or of the addresses before it, is found at the next hop.
    corrupted = any("corrupt" in impair["netem"] for impair in observed.run.get("impairs", ()))
    for name, counters in observed.counters.items():
        for counter in _BAD_COUNTERS:
            if counters.get(counter) and not (corrupted and counter in _CORRUPTION):
                raise CheckError(
                    f"host {name} counts {counters[counter]} {counter}: packets were lost outside the links"
                )
        if counters.get("softnet.dropped"):
            raise CheckError(f"the kernel's backlog dropped {counters['softnet.dropped']} packets outside the links")


def _check_delays(observed: Observed) -> None:
    for section in re.split(r"^# ", observed.teardown, flags=re.MULTILINE)[1:]:
        name, _, text = section.partition("\n")
        if name[0] not in "ds":
            continue
        for dropped in re.findall(r"qdisc netem .*?dropped (\d+)", text, re.DOTALL):
            if int(dropped):
                raise CheckError(f"the delay {name} dropped {dropped} packets; it must only delay")


def _check_ends(observed: Observed) -> None:
    """What left the last link has come to the receiver, with its marks."""
    for flow in observed.lab.flows:
        last = observed.path(flow)[-1]
        packets = last.packets[last.left & (last.packets["flow"] == flow.number) & (last.packets["kind"] < BACKWARD)]
        counters = observed.counters.get(flow.server, {})
        came = counters.get("Ip.InReceives")
        if came is not None and abs(came - len(packets)) > _SLACK:
            raise CheckError(f'{len(packets)} packets of flow "{flow.spec["name"]}" left its last link and {came} came')
        rewritten = any(
            rule["flow"] == flow.spec["name"] and rule["where"] == "after" for rule in observed.run["rewrites"]
        )
        marks, captured = counters.get("IpExt.InCEPkts"), int((packets["ecn_out"] == CE).sum())
        if marks is not None and not rewritten and abs(marks - captured) > _SLACK:
            raise CheckError(
                f'{captured} packets of flow "{flow.spec["name"]}" left its last link with CE, '
                f"and its receiver counts {marks}"
            )


def _check_ecn(observed: Observed) -> None:
    lost = any(link.dropped.any() for link in observed.links) or bool(observed.run.get("impairs"))
    for flow in observed.lab.flows:
        samples = observed.of_flow(flow)
        modes = {ECN_MODES[int(mode)] for mode in samples["ecn_mode"][samples["state"] == ESTABLISHED]} - {"pending"}
        wanted = labs.expected_ecn_mode(flow.ecn, flow.peer_ecn) if flow.is_tcp else ""
        # A lost SYN is repeated without ECN: that is TCP, not the laboratory.
        if flow.is_tcp and modes and wanted not in modes and not lost:
            found = " and ".join(sorted(modes))
            raise CheckError(
                f'the ECN negotiation of flow "{flow.spec["name"]}" ended with {found} instead of {wanted}'
            )


def _check_bottleneck(observed: Observed) -> None:
    """Flows that only the links should limit were limited by them: they filled a queue, and no buffer held them."""
    for flow in observed.lab.flows:
        spec = flow.spec
        runs_ns = (spec["stop_ns"] or observed.run["duration_ns"]) - spec["start_ns"]
        if not flow.is_tcp or spec["bytes"] is not None or spec["pace_bps"] is not None:
            continue
        samples = observed.of_flow(flow)
        held = float(samples["limited_ms"].max()) * 1e6 if len(samples) else 0.0
        if held > _HELD * runs_ns:
            share = held / runs_ns
            raise CheckError(f'a buffer held flow "{spec["name"]}" back for {share:.0%} of the time, not the links')
        # After slow start a window may need long to grow to the size of a large path.
        if runs_ns < _FILLS_AFTER_NS + _FILLS_AFTER_RTTS * spec["rtt_ns"] or observed.run.get("impairs"):
            continue
        by_name = {link.name: link for link in observed.links}
        for link in (by_name[name] for name in (*spec["path"], *flow.reverse_path)):
            longest = link.sojourn_ns.max() if len(link.packets) else 0
            lowest = min([link.spec["rate_bps"], *(c["rate_bps"] for c in link.changes if c["rate_bps"])])
            if longest > 2 * labs.MTU_FRAME * 8e9 / lowest or link.dropped.any():
                break
        else:
            raise CheckError(f'flow "{spec["name"]}" never filled a queue: something else than the links limited it')
