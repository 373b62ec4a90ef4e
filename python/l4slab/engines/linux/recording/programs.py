"""Flows of programs: their processes from events, their traffic from the captures."""

from __future__ import annotations

import signal
from typing import NotRequired, TypedDict

import numpy as np
import polars as pl

from l4slab.base import metrics
from l4slab.base.values import Row
from l4slab.engines.linux.flows import Flow
from l4slab.engines.linux.recording.observed import PAYLOAD, Array, CheckError, Observed, distribution, in_window

# Of the table `flows`, in runs with programs.
COLUMNS: metrics.Schema = {
    **{name: pl.Int64() for name in ("not_ect_packets", "ect0_packets", "ect1_packets", "connections")},
    **{name: pl.Float64() for name in ("handshake_ms_p50", "handshake_ms_p99")},
    "packet_bytes_mean": pl.Float64(),
    "packet_bytes_max": pl.Int64(),
}
_CODEPOINTS = {"not_ect_packets": 0, "ect1_packets": 1, "ect0_packets": 2}
_TCP = "tcp"
_UNSUPPORTED = 127
_STRETCH = 1 << 46  # bytes, of one connection


def check(observed: Observed) -> None:
    """Raises CheckError where a program died, has not ended, or has sent nothing."""
    for flow in observed.lab.flows:
        if flow.is_program:
            _check_processes(observed, flow)
            _check_sent(observed, flow)


def _check_processes(observed: Observed, flow: Flow) -> None:
    name, duration_ns = flow.spec["name"], observed.run["duration_ns"]
    ends = {(event[4], int(event[3])): event for event in _events(observed, flow) if event[5] != "start"}
    clients = [event for event in _events(observed, flow) if event[4] == "client" and event[5] == "start"]
    for (role, number), event in ends.items():
        how, status = event[5], int(event[6])
        if how == "stopped" or (how == "exit" and status == 0):
            continue
        what = f"status {status}" if how == "exit" else signal.Signals(status).name
        if flow.program is not None and flow.program.get("stack") is not None and status == _UNSUPPORTED:
            what += ", by which an endpoint of the QUIC Interop Runner says that it does not support the test case,"
        which = f" {number}" if role == "client" and flow.spec["count"] > 1 else ""
        words = _last_words(observed, flow, role, number)
        raise CheckError(f'the {role}{which} of flow "{name}" ended with {what} at {int(event[0]) * 1e-9:.3f} s{words}')
    for event in clients:
        has_stop = flow.spec["stop_ns"] is not None and flow.spec["stop_ns"] <= duration_ns
        if ("client", int(event[3])) not in ends and not has_stop:
            raise CheckError(
                f'the client of flow "{name}" has not ended when the run does, after {duration_ns * 1e-9:g} s; '
                'make the run longer, or say when it is to be ended, with stop = "..." of the flow'
            )


def _check_sent(observed: Observed, flow: Flow) -> None:
    """Where no client was started, nobody was to send."""
    first, sender = observed.path(flow)[0], flow.program["sender"] if flow.program is not None else "client"
    sent = (first.packets["flow"] == flow.number) & (first.packets["kind"] == PAYLOAD)
    clients = [event for event in _events(observed, flow) if event[4:6] == ["client", "start"]]
    if sent.any() or not clients:
        return
    other = "server" if sender == "client" else "client"
    remedy = "see whether it uses the address {server}"
    if _connections(observed, flow):
        remedy = f'it has a connection; if the {other} is to send the data, write sender = "{other}"'
    raise CheckError(
        f'the {sender} of flow "{flow.spec["name"]}" has sent nothing: no packet with payload came to link '
        f"{first.name}{_last_words(observed, flow, sender, 1)}; {remedy}"
    )


def _last_words(observed: Observed, flow: Flow, role: str, number: int) -> str:
    """A program's last line of output, for the end of a clause."""
    outputs = (observed.said.get(f"{flow.output(role, number)}.{stream}") for stream in ("err", "out"))
    return next((f': "{said}"' for said in outputs if said), "")


def _events(observed: Observed, flow: Flow) -> list[list[str]]:
    return [event for event in observed.events if event[1] == "program" and int(event[2]) == flow.number]


def ended_of(observed: Observed, flow: Flow) -> list[tuple[int, int]]:
    """When clients that have ended by themselves began and ended, ns. A test of responsiveness is no transfer."""
    if flow.is_test:
        return []
    begun = {event[3]: int(event[0]) for event in _events(observed, flow) if event[4:6] == ["client", "start"]}
    return [
        (begun[event[3]], int(event[0]))
        for event in _events(observed, flow)
        if event[4:6] == ["client", "exit"] and int(event[0]) <= observed.run["duration_ns"]
    ]


class Transfer(TypedDict):
    """A row of the table `transfers`."""

    flow: str
    kind: str
    start_s: float
    size_bytes: int | None
    completion_ms: float
    ideal_ms: NotRequired[float]
    slowdown: NotRequired[float]


def transfers(observed: Observed, flow: Flow, delivered: pl.DataFrame) -> list[Transfer]:
    """A row per client that has ended by itself; `delivered`: every packet of the flow that left its last link."""
    times = ended_of(observed, flow)
    size = int(delivered["fresh"].sum()) if len(times) == flow.spec["count"] == 1 else None
    return [
        {
            "flow": flow.spec["name"],
            "kind": "program",
            "start_s": start * 1e-9,
            "size_bytes": size,
            "completion_ms": (end - start) * 1e-6,
        }
        for start, end in times
    ]


def of_flow(observed: Observed, flow: Flow) -> Row:
    """The columns of the table `flows`, besides those that every flow has."""
    first = observed.path(flow)[0]
    sent = first.packets[(first.packets["flow"] == flow.number) & (first.packets["kind"] == PAYLOAD)]
    in_time = in_window(observed, sent["in_ns"])
    columns = {name: sent[name] for name in ("conn", "number", "len", "headers")}
    again = _repeated(observed, flow, pl.DataFrame(columns | {"out_ns": sent["in_ns"]}))
    connections = _connections(observed, flow)
    handshakes = np.array([int(one[7]) - int(one[0]) for one in connections if int(one[7])], np.int64)
    times = np.array([end - start for start, end in ended_of(observed, flow)], np.int64)
    row: Row = {
        "retransmits": int((again & in_time).sum()),
        "transfers": len(times),
        "connections": len(connections),
    }
    counts = {name: int((sent["ecn_in"][in_time] == codepoint).sum()) for name, codepoint in _CODEPOINTS.items()}
    row |= counts
    if in_time.any():
        sizes = sent["len"][in_time]
        row |= {"packet_bytes_mean": float(sizes.mean()), "packet_bytes_max": int(sizes.max())}
    # What the ends of a protocol tell each other of ECN, nobody else can see; that they use none, can be seen.
    uses_ecn = counts["ect0_packets"] + counts["ect1_packets"] > 0
    row["ecn_mode"] = "off" if counts["not_ect_packets"] and not uses_ecn else None
    for name, values in (("handshake_ms", handshakes), ("completion_ms", times)):
        found = distribution(values, name, 1e-6)
        row |= {key: value for key, value in found.items() if not key.endswith("mean")}
    return row


def _connections(observed: Observed, flow: Flow) -> list[list[str]]:
    """Time of the first packet, "connection", flow, number, protocol, ports, end of the handshake, last packet."""
    return [event for event in observed.events if event[1] == "connection" and int(event[2]) == flow.number]


def _repeated(observed: Observed, flow: Flow, packets: pl.DataFrame) -> Array:
    """By packet, whether it is a segment of TCP that begins before where its connection has come to."""
    which, start, end = _segments(observed, flow, packets)
    found: Array = np.zeros(len(packets), bool)
    found[which] = start < _highest_before(end)
    return found


def _highest_before(end: Array) -> Array:
    found: Array = np.maximum.accumulate(np.concatenate([[0], end]))[:-1]
    return found


def _segments(observed: Observed, flow: Flow, packets: pl.DataFrame) -> tuple[Array, Array, Array]:
    """Which packets are of TCP, by connection and time, and of what their payload is the first and the last byte. Each
    connection has a stretch of numbers of its own, above that of the one before.
    """
    tcp = [int(one[3]) for one in _connections(observed, flow) if one[4] == _TCP]
    which = np.flatnonzero(np.isin(packets["conn"].to_numpy(), tcp))
    if not len(which):
        return which, which, which
    conn = packets["conn"].to_numpy()[which].astype(np.int64)
    order = np.lexsort((packets["out_ns"].to_numpy()[which], conn))
    which, conn = which[order], conn[order]
    begins = np.flatnonzero(np.diff(conn, prepend=-1))
    # Sequence numbers come round after 2^32.
    steps = np.diff(packets["number"].to_numpy()[which].astype(np.int64), prepend=0)
    start = np.cumsum(np.mod(steps + (1 << 31), 1 << 32) - (1 << 31))
    group = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(conn)))
    start += (_STRETCH // 2 - start[begins] + np.arange(len(begins)) * _STRETCH)[group]
    return which, start, start + _payload(packets)[which]


def _payload(packets: pl.DataFrame) -> Array:
    size: Array = packets["len"].to_numpy().astype(np.int64) - packets["headers"].to_numpy().astype(np.int64)
    return size
