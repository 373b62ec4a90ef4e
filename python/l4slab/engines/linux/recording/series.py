"""Rows of the table `series`."""

from __future__ import annotations

import numpy as np

from l4slab.base.values import Cell, Row
from l4slab.engines.linux.flows import Flow
from l4slab.engines.linux.recording import controllers, qlogs
from l4slab.engines.linux.recording.flows import active, delivered_of, sent_with_ce
from l4slab.engines.linux.recording.observed import (
    CE,
    FIFOS,
    Array,
    Link,
    Observed,
    QdiscState,
    payload_of,
    queue_under_test,
)
from l4slab.engines.linux.recording.queues import OVERFLOWS, gains

# Of a flow or a queue: a value per step, or the same for all of them.
Columns = dict[str, list[float | None] | list[str | None] | list[int] | list[float] | list[bool] | Cell]


def series(observed: Observed, after_ns: int = 0) -> list[Row]:
    """A row per step and flow, and per step and queue, in order of time; only those after this end of a step.

    What was observed in the step before them need not be complete.
    """
    run = observed.run
    width = run["sample_ns"]
    first = max(1, after_ns // width)
    steps = np.arange(first, run["duration_ns"] // width + 1, dtype=np.uint64) * np.uint64(width)
    if not len(steps):
        return []
    columns = [_flow_series(observed, flow, steps) for flow in observed.lab.flows]
    columns += [column for link in observed.links for column in _link_series(observed, link, steps)]
    rows: list[Row] = []
    for index, time in enumerate(steps):
        if time <= after_ns:
            continue
        for column in columns:
            row: Row = {name: values[index] if isinstance(values, list) else values for name, values in column.items()}
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


def _means(times: Array, ns: Array, steps: Array) -> list[float | None]:
    """Mean per step, in ms; None where there is nothing."""
    sums, numbers = _binned(times, ns.astype(np.float64), steps), _binned(times, None, steps)
    return [float(s / n) * 1e-6 if n else None for s, n in zip(sums, numbers, strict=True)]


def _flow_series(observed: Observed, flow: Flow, steps: Array) -> Columns:
    seconds = observed.run["sample_ns"] * 1e-9
    times, frames, queued, marked = _delivered(observed.path(flow), flow)
    row: Columns = {
        "flow": flow.spec["name"],
        "rate_mbps": (_binned(times, frames, steps) * 8e-6 / seconds).tolist(),
        "delivered_packets": _binned(times, None, steps).tolist(),
        "sojourn_ms": _means(times, queued, steps),
        "ce_packets": _binned(times[marked], None, steps).tolist(),
    }
    path = observed.path(flow)
    sent = path[0].packets["in_ns"][payload_of(path[0], flow)]
    row["sent_packets"] = _binned(sent, None, steps).tolist()
    lost = [_binned(link.dropped_ns[payload_of(link, flow) & link.dropped], None, steps) for link in path]
    row["dropped_packets"] = np.sum(lost, axis=0).tolist()
    # What a link passes for the first time, all links after it do.
    last = path[-1].packets[payload_of(path[-1], flow) & path[-1].left]
    row["goodput_mbps"] = (_binned(last["out_ns"], last["fresh"].astype(np.float64), steps) * 8e-6 / seconds).tolist()
    if (tcp := flow.tcp) is None:
        return {**row, **qlogs.series(observed, flow, steps)}
    samples = observed.of_flow(flow)
    # Samples beside the grid (at the end of the warm-up) are not of the series.
    samples = samples[np.isin(samples["t_ns"], steps)]
    at = np.searchsorted(steps, samples["t_ns"])
    sending = active(samples)
    count = np.bincount(at[sending], minlength=len(steps))
    for name, column, scale in (("cwnd_packets", "cwnd", 1.0), ("srtt_ms", "srtt_us", 1e-3)):
        total = np.bincount(at[sending], samples[column][sending] * scale, minlength=len(steps))
        row[name] = [float(t / n) if n else None for t, n in zip(total, count, strict=True)]
    return {**row, **controllers.series(samples, tcp["cc"], steps)}


def _delivered(path: list[Link], flow: Flow) -> tuple[Array, Array, Array, Array]:
    """Of a flow's payload packets that left the last link: when, how long they are, how long they were in
    all links, and whether they have CE that their sender had not set.
    """
    if len(path) == 1:
        (link,) = path
        which = payload_of(link, flow) & link.left
        packets = link.packets[which]
        marked = (packets["ecn_out"] == CE) & ~sent_with_ce(link, flow)[which]
        return packets["out_ns"], packets["len"].astype(np.float64), link.passage_ns[which], marked
    found = delivered_of(path, flow)
    times, frames, queued, marked = (found[name].to_numpy() for name in ("out_ns", "len", "queued_ns", "marked"))
    return times, frames.astype(np.float64), queued, marked


def _link_series(observed: Observed, link: Link, steps: Array) -> list[Columns]:
    everything = np.ones(len(link.packets), bool)
    outputs = {time: queue_under_test(output) for time, output in link.tc}
    states = [outputs.get(int(time), {}) for time in steps]
    whole = _queue_series(observed, link, "all", everything, steps)
    whole["backlog_packets"] = [_number(state.get("qlen")) for state in states]
    if link.tells_drops:
        whole["backlog_packets"] = _backlog_at(link, everything, steps)
    whole["dropped_overflow_packets"] = _overflows(link, states, steps)
    rows = [whole]
    bands = link.bands
    for band, which in bands.items():
        row = _queue_series(observed, link, band, which, steps)
        width = observed.run["sample_ns"]
        # A class has rows from its first packet on.
        begins = link.packets["in_ns"][which].min(initial=steps[-1]) if link.classes else 0
        row["is_there"] = [begins < time and bool(link.in_force(band, int(time) - width, int(time))) for time in steps]
        row["backlog_packets"] = _backlog_at(link, which, steps)
        rows.append(row)
    low = link.packets["out_ns"][bands["L"] & link.left] if "L" in bands else np.empty(0, np.uint64)
    marks = gains(zip(steps, states, strict=True), "step-mark").values()
    each = [_probabilities(*of_step) for of_step in zip(states, marks, _binned(low, None, steps), strict=True)]
    return [whole | {name: [found.get(name) for found in each] for name in _PROBABILITIES}, *rows[1:]]


def _backlog_at(link: Link, which: Array, steps: Array) -> list[float | None]:
    """How many of these packets are in the queue at the end of each step."""
    times, backlog = link.backlog(which)
    at = np.searchsorted(times, steps, side="right")
    return [float(backlog[index - 1]) if index else 0.0 for index in at]


def _overflows(link: Link, states: list[QdiscState], steps: Array) -> list[float | None]:
    """Drops of full queues within each step, as far as `tc` tells them apart."""
    of_core = _binned(link.dropped_ns[link.overflowed], None, steps)
    if link.tells_drops:
        return [float(drops) for drops in of_core]
    gained = gains(zip(steps, states, strict=True), OVERFLOWS)
    counted = [
        0 if state.get("kind") in FIFOS else gained.get(int(time)) for state, time in zip(states, steps, strict=True)
    ]
    return [None if gain is None else float(gain + drops) for gain, drops in zip(counted, of_core, strict=True)]


_PROBABILITIES = ("p_prime", "p_c", "p_l_coupled", "p_l_native", "p_l", "credit_bytes")


def _probabilities(state: QdiscState, step_marks: int | None, low_packets: float) -> dict[str, float]:
    """A controller's probabilities from what `tc` says of it; see `docs/results.md`."""
    prob = state.get("prob")
    if prob is None or step_marks is None:
        return {} if prob is None else {"p_c": float(prob)}
    coupled = min(1.0, state["options"]["coupling"] * prob)
    native = step_marks / max(int(low_packets), 1)
    # tc prints the credit multiplied by 100, as the kernel keeps it.
    values = (prob, prob * prob, coupled, native, max(coupled, native), state["credit"] / 100)
    return dict(zip(_PROBABILITIES, map(float, values), strict=True))


def _queue_series(observed: Observed, link: Link, queue: str, which: Array, steps: Array) -> Columns:
    seconds = observed.run["sample_ns"] * 1e-9
    sent = which & link.left
    times = link.packets["out_ns"][sent]
    packets = _binned(times, None, steps)
    frames = _binned(times, link.packets["len"][sent].astype(np.float64), steps)
    marks = _binned(link.packets["out_ns"][which & link.marked], None, steps)
    drops = _binned(link.dropped_ns[which & link.dropped_by_queue], None, steps)
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
        "sojourn_ms": _means(times, link.sojourn_ns[sent], steps),
        "sojourn_ms_min": [float(s) * 1e-6 if n else None for s, n in zip(shortest, packets, strict=False)],
        "sojourn_ms_max": [float(s) * 1e-6 if n else None for s, n in zip(longest, packets, strict=False)],
    }


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
