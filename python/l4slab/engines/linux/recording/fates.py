"""The fate of the packets that entered the network in the measured interval: rows of the table `losses`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from l4slab.base.values import Row
from l4slab.engines.linux import lab as labs
from l4slab.engines.linux.flows import CODEPOINTS, Flow
from l4slab.engines.linux.recording.observed import (
    CE,
    FIFOS,
    PAYLOAD,
    Array,
    Impairment,
    Link,
    Observed,
    in_window,
    payload_of,
)

# Of queues but FIFOs nobody tells which packets an overflow dropped and which ones the algorithm.
_DAMAGED = ("receiver", "checksum")
_QUEUE, _OVERFLOW, _REPLACED = "queue", "overflow", "replaced"


@dataclass
class Fates:
    """Packets of a flow that came to the network in the measured interval; the names are those of columns."""

    offered: int = 0  # with the copies that the network made of them
    sent: int = 0
    delivered: int = 0
    waiting: int = 0
    ce: int = 0
    dropped: int = 0
    lost: Counter[tuple[str, str]] = field(default_factory=Counter)  # by place and reason

    def row(self) -> dict[str, int]:
        """Columns of the table `flows`."""
        return {
            "offered_packets": self.offered,
            "sent_packets": self.sent,
            "delivered_packets": self.delivered,
            "lost_packets": self.lost.total(),
            "waiting_packets": self.waiting,
            "ce_packets": self.ce,
            "dropped_packets": self.dropped,
        }


def fates_of(observed: Observed, flow: Flow) -> Fates:
    """Follows each packet of a flow along its path."""
    # Not every socket of a program numbers its packets.
    keys = ["conn", "id", *(["number"] if flow.is_program else [])]
    found = Fates()
    before: pl.DataFrame | None = None  # what left the element before, and `place`, its name
    place = ""
    for element in _elements(observed, flow):
        here = _at(element, flow, keys)
        if before is None:
            here = here.with_columns(entered=pl.col("in_ns"), sent_ce=(pl.col("ecn_in") == CE) & flow.is_program)
        else:
            # The same IP identification comes again after 65536 packets: the latest before counts. What nobody knows is
            # a copy, or damaged.
            came_from = before.select(*keys, "entered", "sent_ce", left_ns="out_ns").sort("left_ns")
            here = here.sort("in_ns").join_asof(
                came_from, left_on="in_ns", right_on="left_ns", by=keys, check_sortedness=False
            )
            here = here.with_columns(
                pl.col("entered").fill_null(pl.col("in_ns")), pl.col("sent_ce").fill_null(value=False)
            )
        measured = here.filter(_is_measured(observed, here["entered"]))
        if before is None:
            found.offered = len(measured)
        else:
            missing = int(_is_measured(observed, before["entered"]).sum()) - len(measured)
            found.offered += max(0, -missing)
            if missing > 0:
                found.lost[(place, "checksum") if place.startswith("impair.") else ("rewrite", "rewrite")] += missing
        gone = measured.filter("dropped")
        found.waiting += len(measured) - len(gone) - int(measured["left"].sum())
        place = f"{'link' if isinstance(element, Link) else 'impair'}.{element.name}"
        for reason, packets in gone["reason"].value_counts().iter_rows():
            found.lost[place, reason] += packets
        if isinstance(element, Link):
            found.dropped += len(gone) - int((gone["reason"] == "medium").sum())
            found.sent = found.sent or len(measured)
        before = here.filter("left")
    if before is not None:
        last = before.filter(_is_measured(observed, before["entered"]))
        # What had CE when it left its sender, no queue has marked.
        found.ce = int(((last["ecn_out"] == CE) & ~last["sent_ce"]).sum())
        to_nowhere = last["ecn_out"].is_in(_dropped_codepoints(observed, flow))
        for which, fate in ((to_nowhere, ("rewrite", "rewrite")), (last["damaged"] & ~to_nowhere, _DAMAGED)):
            if which.any():
                found.lost[fate] += int(which.sum())
        found.delivered = len(last) - int((to_nowhere | last["damaged"]).sum())
    return found


def losses(observed: Observed) -> list[Row]:
    """A row per flow group, place and reason, then what belongs to none."""
    rows: list[Row] = [
        {"flow": flow.spec["name"], "lost_at": place, "lost_by": reason, "lost_packets": packets}
        for flow in observed.lab.flows
        for (place, reason), packets in fates_of(observed, flow).lost.items()
    ]
    others: Counter[tuple[str, str]] = Counter()
    elements: list[Link | Impairment] = [*observed.links, *observed.impairments.values()]
    for element in elements:
        place = f"{'link' if isinstance(element, Link) else 'impair'}.{element.name}"
        gone = element.dropped & (element.packets["kind"] != PAYLOAD) & in_window(observed, element.packets["in_ns"])
        for reason in _reasons(element)[gone]:
            others[place, reason] += 1
    rows += [
        {"flow": None, "lost_at": place, "lost_by": reason, "lost_packets": packets}
        for (place, reason), packets in others.items()
    ]
    return rows


def _elements(observed: Observed, flow: Flow) -> Iterable[Link | Impairment]:
    links = {observed.lab.link_namespace(number): link for number, link in enumerate(observed.links)}
    known: dict[str, Link | Impairment] = {**observed.impairments, **links}
    return (known[node] for node in labs.forward(observed.lab, flow) if node in known)


def _at(element: Link | Impairment, flow: Flow, keys: list[str]) -> pl.DataFrame:
    which = payload_of(element, flow)
    packets = element.packets[which]
    columns = {name: packets[name] for name in ("in_ns", "out_ns", "ecn_in", "ecn_out", *keys)}
    columns |= {"left": element.left[which], "dropped": element.dropped[which], "damaged": packets["damaged"] > 0}
    return pl.DataFrame(columns | {"reason": pl.Series(_reasons(element)[which], dtype=pl.String)})


def _is_measured(observed: Observed, times: pl.Series) -> pl.Series:
    return pl.Series(in_window(observed, times.to_numpy()))


def _reasons(element: Link | Impairment) -> Array:
    if isinstance(element, Impairment) or element.tells_drops:
        return element.reasons
    found = np.full(len(element.packets), _QUEUE, dtype=object)
    for span, words in element.qdiscs:
        if words[0] in FIFOS and not element.is_policed:
            found[element.came_in(span)] = _REPLACED
    found[element.overflowed] = _OVERFLOW
    return found


def _dropped_codepoints(observed: Observed, flow: Flow) -> list[int]:
    """Packets that rewriting behind the last link drops."""
    rules = labs.composed_rewrites(flow.spec["name"], observed.run["rewrites"], [("after", flow.spec["path"][-1])])
    return [CODEPOINTS[old] for old, new in rules.items() if new == "drop"]
