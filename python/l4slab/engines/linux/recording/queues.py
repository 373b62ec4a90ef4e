"""Rows of the table `links`: what the queues of a link did, from its packets and from `tc -s`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from l4slab import _core
from l4slab.base.values import Row
from l4slab.engines.linux.recording.observed import (
    FIFOS,
    Array,
    Link,
    Observed,
    QdiscState,
    Span,
    count_of,
    distribution,
    in_window,
    percent,
    queue_under_test,
)

# How `tc` calls the drops of a full queue, by qdisc.
OVERFLOWS: dict[str, str] = {
    entry["name"]: entry["overflow"]["counter"] for entry in _core.qdiscs() if isinstance(entry["overflow"], dict)
}


def gains(states: Iterable[tuple[int, QdiscState]], key: str | Mapping[str, str]) -> dict[int, int | None]:
    """By time of the sample, how much a counter of `tc` grew since the one before; `key`: its name, or that by qdisc.

    None where the qdisc has no such counter. A new qdisc has a new handle and counts from zero; what the old one
    counted after its last sample nobody has seen.
    """
    found: dict[int, int | None] = {}
    known, before = None, 0
    for time, state in states:
        if known != (known := (state.get("kind"), state.get("handle"))):
            before = 0
        now = count_of(state, key if isinstance(key, str) else key.get(state.get("kind", ""), ""))
        found[int(time)] = None if now is None else now - before
        before = now or 0
    return found


def queues_of(observed: Observed, link: Link) -> dict[str, Array]:
    """The queues in force at some time of the measured interval, and which packets each got."""
    run = observed.run
    queues = {"all": np.ones(len(link.packets), bool), **link.bands}
    return {name: got for name, got in queues.items() if link.in_force(name, run["warmup_ns"], run["duration_ns"])}


def sent_of(observed: Observed, link: Link, which: Array) -> Array:
    """Which of these left within the measured interval."""
    result: Array = which & link.left & in_window(observed, link.packets["out_ns"])
    return result


def link_rows(observed: Observed, link: Link) -> list[Row]:
    """A row per queue of a link: all together, and those inside."""
    run = observed.run
    rows = []
    for queue, which in queues_of(observed, link).items():
        spans = link.in_force(queue, run["warmup_ns"], run["duration_ns"])
        rows.append(_link_row(observed, link, queue, which, spans))
    steps = None if link.tells_drops else _gained_tc(link, "step-mark", run["warmup_ns"])
    for row in rows:
        row["step_marked_packets"] = steps if row["queue"] in ("all", "L") else 0
    return rows


def _link_row(observed: Observed, link: Link, queue: str, which: Array, spans: list[Span]) -> Row:
    """A queue over the parts of the measured interval in which it was there."""
    packets = link.packets
    seconds = sum(end - begin for begin, end in spans) * 1e-9
    came = which & in_window(observed, packets["in_ns"])
    sent = sent_of(observed, link, which)
    sent_bytes = int(packets["len"][sent].astype(np.int64).sum())
    capacity = sum(link.capacity_bits(begin, end) for begin, end in spans)
    dropped = int((came & link.dropped_by_queue).sum())
    marked = int((came & link.marked).sum())
    return {
        "link": link.name,
        "queue": queue,
        "rate_mbps": sent_bytes * 8e-6 / seconds,
        "utilisation": sent_bytes * 8 / capacity if capacity else 0.0,
        **distribution(link.sojourn_ns[sent], "sojourn_ms", 1e-6, largest=True),
        "arrived_packets": int(came.sum()),
        "sent_packets": int(sent.sum()),
        "dropped_packets": dropped,
        "dropped_overflow_packets": _overflowed(observed, link) if queue == "all" else None,
        "marked_packets": marked,
        "ce_pct": percent(marked, int(came.sum())),
        "drop_pct": percent(dropped, int(came.sum())),
        "backlog_packets_max": _most_waiting(observed, link, queue, which),
    }


def _most_waiting(observed: Observed, link: Link, queue: str, which: Array) -> int:
    times, backlog = link.backlog(which)
    inside = in_window(observed, times)
    # Before the first event of the interval it holds what it held after the last one before.
    first = int(np.argmax(inside)) if inside.any() else len(times)
    found = [0, *backlog[max(first - 1, 0) : first], *backlog[inside]]
    if queue == "all":
        found += [
            int(state["qlen"])
            for time, output in link.tc
            if time >= observed.run["warmup_ns"] and "qlen" in (state := queue_under_test(output))
        ]
    most = int(max(found))
    limit = link.limit(queue)
    return most if limit is None else min(most, limit)


def _gained_tc(link: Link, key: str | Mapping[str, str], begin_ns: int) -> int:
    """How much a counter of `tc` grew from then on."""
    found = gains(((time, queue_under_test(output)) for time, output in link.tc), key)
    return sum(gain or 0 for time, gain in found.items() if time > begin_ns)


def _overflowed(observed: Observed, link: Link) -> int | None:
    """Drops of full queues in the measured interval; None where a qdisc in force does not tell them apart."""
    begin, end = observed.run["warmup_ns"], observed.run["duration_ns"]
    kinds = {words[0] for span, words in link.qdiscs if span[0] < end and begin < span[1]}
    if not link.tells_drops and (link.is_policed or not kinds <= {*FIFOS, *OVERFLOWS}):
        return None
    of_fifos = int(in_window(observed, link.packets["in_ns"][link.overflowed]).sum())
    return of_fifos + _gained_tc(link, OVERFLOWS, begin)
