"""Rows of the tables `flows`, `members` and `transfers`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from l4slab import _core
from l4slab.base.run import Flow as Spec
from l4slab.base.values import Row
from l4slab.engines.linux import carried
from l4slab.engines.linux import lab as labs
from l4slab.engines.linux.flows import Flow
from l4slab.engines.linux.recording import calls, programs, qlogs, responsiveness
from l4slab.engines.linux.recording.fates import fates_of
from l4slab.engines.linux.recording.observed import (
    CE,
    CLOSE_WAIT,
    ECN_MODES,
    ESTABLISHED,
    FIN_WAIT1,
    Array,
    CheckError,
    Link,
    Observed,
    distribution,
    payload_of,
    percent,
)
from l4slab.engines.linux.recording.programs import Transfer


def active(samples: Array) -> Array:
    """Which samples are of connections that send and know their RTT."""
    result: Array = np.isin(samples["state"], (ESTABLISHED, FIN_WAIT1, CLOSE_WAIT)) & (samples["srtt_us"] > 0)
    return result


def _gained(observed: Observed, samples: Array, column: str) -> int:
    """How much a counter of all connections has grown over the measured interval."""
    run = observed.run
    end = samples[samples["t_ns"] == run["duration_ns"]][column].astype(np.int64).sum()
    begin = samples[samples["t_ns"] == run["warmup_ns"]][column].astype(np.int64).sum()
    return int(end - begin)


def flow_rows(observed: Observed) -> list[Row]:
    """A row per flow group."""
    return _compared(observed, [_flow_row(observed, flow) for flow in observed.lab.flows])


def member_rows(observed: Observed) -> list[Row]:
    """A row per single flow, where the run asks for them."""
    if not observed.run.get("per_flow"):
        return []
    singles = [single for flow in observed.lab.flows for single in flow.singles()]
    return _compared(observed, [_flow_row(observed, one) | {"member": (one.only or 0) + 1} for one in singles])


def _compared(observed: Observed, rows: list[Row]) -> list[Row]:
    """With what compares a row with the others; together they are all flows of the run."""
    goodputs = [float(row["goodput_mbps"] or 0) for row in rows]
    total = sum(goodputs)
    bulk = [flow for flow in observed.lab.flows if flow.tcp is not None and flow.tcp["bytes"] is None]
    of_run = jain([goodput for flow in bulk for goodput in _goodputs(observed, flow)])
    shares = [goodput / total if total > 0 else None for goodput in goodputs]
    return [{**row, "share": share, "jain_run": of_run} for row, share in zip(rows, shares, strict=True)]


def jain(goodputs: Sequence[float]) -> float | None:
    """Jain's fairness index, as the simulator's core has it; None where nobody has anything."""
    squares = sum(one * one for one in goodputs)
    return sum(goodputs) ** 2 / (len(goodputs) * squares) if squares > 0 else None


def _goodputs(observed: Observed, flow: Flow) -> list[float]:
    """Of each flow of the group, payload bytes that came to the receiver for the first time, while measured."""
    fresh = measured_of(observed, flow).group_by("conn").agg(pl.col("fresh").cast(pl.Int64).sum())
    if flow.is_program:
        return [float(fresh["fresh"].sum())]
    found = dict(fresh.iter_rows())
    return [float(found.get(labs.FIRST_PORT + (one.only or 0), 0)) for one in flow.singles()]


def controller_of(spec: Spec) -> str:
    """The sender: its congestion control (with the name of a packaged stack), or else the kind of flow."""
    if (carries := carried.of(spec)) is not None:
        return carries["cc"]
    if spec["kind"] == "program" and (stack := spec.get("stack")) is not None:
        return f"{stack['name']}/{stack['cc']}"
    return str(spec.get("cc") or spec["kind"])


def _flow_row(observed: Observed, flow: Flow) -> Row:
    run, spec = observed.run, flow.spec
    seconds = (run["duration_ns"] - run["warmup_ns"]) * 1e-9
    delivered = measured_of(observed, flow)
    fates = fates_of(observed, flow).row()
    frames = int(delivered["len"].cast(pl.Int64).sum())
    row: Row = {
        "flow": spec["name"],
        "cc": controller_of(spec),
        "count": spec["count"] if flow.is_program else len(flow.singles()),
        "goodput_mbps": int(delivered["fresh"].cast(pl.Int64).sum()) * 8e-6 / seconds,
        "rate_mbps": frames * 8e-6 / seconds,
        **distribution(delivered["queued_ns"].to_numpy(), "sojourn_ms", 1e-6),
        **fates,
        "ce_pct": percent(fates["ce_packets"], fates["sent_packets"]),
        "drop_pct": percent(fates["dropped_packets"], fates["sent_packets"]),
        "retransmits": 0,
        "transfers": 0,
    }
    if flow.is_program:
        for told in (programs, qlogs, calls, responsiveness):
            row |= told.of_flow(observed, flow)
        return row
    if not flow.is_tcp:
        return row | {"jain": jain(_goodputs(observed, flow))}
    samples = observed.of_flow(flow)
    row["retransmits"] = _gained(observed, samples, "retrans")
    row |= distribution(srtts_of(observed, flow), "rtt_ms", 1e-3)
    modes = samples[samples["state"] != 2]["ecn_mode"]
    row["ecn_mode"] = ECN_MODES[int(modes[-1])] if len(modes) else None
    row["jain"] = jain(_goodputs(observed, flow))
    ended = completed_of(observed, flow)
    row["transfers"] = len(ended)
    if ended and len(ended) == row["count"] and flow.tcp is not None:
        own_ns = max(end for _, end in ended) - min(start for start, _ in ended)
        row["active_mbps"] = len(ended) * (flow.tcp["bytes"] or 0) * 8e3 / own_ns
    times = np.array([end - start for start, end in ended])
    slowdowns = np.array([(end - start) * 1e-6 / _idle_ms(observed, flow, start, end) for start, end in ended])
    for name, values, scale in (("completion_ms", times, 1e-6), ("slowdown", slowdowns, 1.0)):
        found = distribution(values, name, scale)
        row |= {key: value for key, value in found.items() if not key.endswith("mean")}
    return row


def _idle_ms(observed: Observed, flow: Flow, start: int, end: int) -> float:
    """How long a transfer would take on an idle path, at the fastest that its slowest link was meanwhile."""
    path = observed.path(flow)
    begins = [start, *(time for link in path for time, _ in link.rates if start < time <= end)]
    slowest = (min((link.rate_at(time), link.spec["burst_bytes"]) for link in path) for time in begins)
    rate, burst = max(slowest, key=lambda found: found[0])
    size, mtu = (flow.tcp["bytes"], flow.tcp.get("mtu_bytes")) if flow.tcp is not None else (None, None)
    return _core.idle_completion_ms(size or 0, flow.spec["rtt_ns"], rate, burst, mtu or 1500)


def completed_of(observed: Observed, flow: Flow) -> list[tuple[int, int]]:
    """When the transfers of a flow began and ended, ns; of programs, the clients that have ended by themselves."""
    if flow.is_program:
        return programs.ended_of(observed, flow)
    return [
        (int(event[4]), int(event[0]))
        for event in observed.events
        if event[1] == "complete" and int(event[2]) == flow.number and flow.only in (None, int(event[3]))
    ]


def measured_of(observed: Observed, flow: Flow) -> pl.DataFrame:
    """Of `delivered_of`, what left within the measured interval."""
    run = observed.run
    return delivered_of(observed.path(flow), flow).filter(
        pl.col("out_ns").is_between(run["warmup_ns"], run["duration_ns"])
    )


def delivered_of(path: list[Link], flow: Flow) -> pl.DataFrame:
    """A flow's payload packets that left the last link: `out_ns`, `len`, `queued_ns` (in all links), and `marked`,
    whether with CE that their sender had not set; of a program also `conn`, `headers` and `number`.
    """
    # Not every socket of a program numbers its packets.
    keys = ["conn", "id", *(["number"] if flow.is_program else [])]
    so_far: pl.DataFrame | None = None
    for link in path:
        which = payload_of(link, flow) & link.left
        packets = link.packets[which]
        columns = {name: packets[name] for name in ("in_ns", "out_ns", "len", "headers", "fresh", *keys)}
        columns |= {"queued_ns": link.passage_ns[which], "sent_ce": sent_with_ce(link, flow)[which]}
        here = pl.DataFrame(columns | {"marked": packets["ecn_out"] == CE})
        if so_far is not None:
            # The same IP identification comes again after 65536 packets: the latest before counts.
            before = so_far.select(*keys, "sent_ce", before_ns=pl.col("out_ns"), queued=pl.col("queued_ns"))
            here = (
                here.drop("sent_ce")
                .sort("in_ns")
                .join_asof(
                    before.sort("before_ns"), left_on="in_ns", right_on="before_ns", by=keys, check_sortedness=False
                )
                .with_columns(
                    queued_ns=pl.col("queued_ns") + pl.col("queued").fill_null(0),
                    sent_ce=pl.col("sent_ce").fill_null(value=False),
                )
                .drop("before_ns", "queued", strict=False)
            )
        so_far = here
    if so_far is None:
        raise CheckError(f'flow "{flow.spec["name"]}" crosses no link')
    return so_far.with_columns(marked=pl.col("marked") & ~pl.col("sent_ce"))


def sent_with_ce(link: Link, flow: Flow) -> Array:
    """Which packets came to the flow's first link with CE, where the sender may set it: programs do as they like."""
    result: Array = (link.packets["ecn_in"] == CE) & flow.is_program
    return result


def srtts_of(observed: Observed, flow: Flow) -> Array:
    """The smoothed RTT of each connection at each sample of the measured interval, us."""
    samples = observed.of_flow(flow)
    counted = samples[active(samples) & (samples["t_ns"] > observed.run["warmup_ns"])]
    rtts: Array = counted["srtt_us"][counted["t_ns"] % observed.run["sample_ns"] == 0]
    return rtts


def transfers(observed: Observed) -> list[Transfer]:
    """A row per completed transfer, in the order of their starts."""
    rows: list[Transfer] = [
        {
            "flow": flow.spec["name"],
            "kind": "flow",
            "start_s": start * 1e-9,
            "size_bytes": flow.tcp["bytes"] if flow.tcp is not None else None,
            "completion_ms": (end - start) * 1e-6,
            "ideal_ms": (ideal := _idle_ms(observed, flow, start, end)),
            "slowdown": (end - start) * 1e-6 / ideal,
        }
        for flow in observed.lab.flows
        if not flow.is_program
        for start, end in completed_of(observed, flow)
    ]
    for flow in observed.lab.flows:
        if flow.media is not None:
            rows += calls.transfers(observed, flow)
        elif flow.is_program:
            rows += programs.transfers(observed, flow, delivered_of(observed.path(flow), flow))
    return sorted(rows, key=lambda row: (row["start_s"], row["flow"]))
