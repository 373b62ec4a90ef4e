"""The results in words: rates, delays, marks, losses and completion times.

A number is the mean over the trials of a case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import polars as pl

from l4slab.base import metrics
from l4slab.base.numbers import NO_DELAY_MS, number, plain
from l4slab.base.values import Cell
from l4slab.experimentfile import capacity
from l4slab.report import tables
from l4slab.report.results import MAX_CASES, Case, Folder
from l4slab.results import many
from l4slab.results.apart import FACTOR
from l4slab.results.precision import sentences

_MEANS = (
    "count", "active_mbps", "rate_mbps", "share", "sojourn_ms_p50", "sojourn_ms_p99", "ce_pct", "sce_pct", "drop_pct",
    "transfers", "completion_ms_p50", "completion_ms_p99", "unfinished", "frames", "frame_ms_p50", "frame_ms_p99",
    "late_pct", "lost_frames_pct", "freezes", "freeze_s", "rpm_foreign", "rpm_self",
)  # fmt: skip
_WHOLE = ("unfinished", "freezes")
# Quantities whose trials lie apart; all of them are among the results.
_MAX_APART = 20
# Capacities that are told one after another.
_MAX_STEPS = 6
_LINK_MEANS = ("utilisation", "sojourn_ms_p50", "sojourn_ms_p99", "sojourn_ms_max", "drop_pct")


@dataclass(frozen=True)
class Mean:
    """The values of a flow or link in a case: means over its trials."""

    name: str
    cc: str | None
    case: tuple[Cell, ...]  # experiment and levels
    trials: int
    of: Mapping[str, float | None]


def of_case(folder: Folder, case: Case) -> list[tuple[str, str]]:
    """A sentence for each flow, if they are not many, and link of a case, as (name, what it says about it)."""
    described = folder.described(case)
    rates = {link: [rate for _, rate in steps] for link, steps in capacity.of_links(described).items()}
    paths = {flow: [rate for _, rate in steps] for flow, steps in capacity.of_flows(described).items()}
    of_it = folder.flows.filter(case.rows())
    flows = _means(of_it, [], ["flow", "cc"], _MEANS) if not many.has_many(of_it) else []
    shared = capacity.is_shared(described)
    links = _means(folder.links.filter(case.rows(), pl.col("queue") == "all"), [], ["link"], _LINK_MEANS)
    told = [(_name(row), _flow(row, paths.get(row.name, []), shared=shared)) for row in flows]
    told += [(row.name, _link(row.of, rates.get(row.name))) for row in links]
    return told + _precision(of_it) + overflows(folder, case)


class Many(TypedDict):
    """Many flows or classes of a case: the heads of a table, and its parts, each with its rows."""

    title: str
    heads: list[str]
    parts: list[tuple[str, list[tuple[str, list[str]]]]]


def of_many(folder: Folder, case: Case) -> list[Many]:
    """Tables of the flows and of the classes of a case, where there are many."""
    flows = many.of_flows(folder.flows.filter(case.rows()))
    classes = many.of_classes(folder.links.filter(case.rows()), folder.file(case.experiment))

    def shown(one: many.Many, rows: Sequence[tuple[str, Sequence[float | None]]]) -> list[tuple[str, list[str]]]:
        return [(name, list(map(tables.shown, values, one.columns))) for name, values in rows]

    return [
        {
            "title": one.title,
            "heads": [tables.heading(name) for name in one.columns],
            "parts": [
                (head, shown(one, rows))
                for head, rows in (("each quantity by itself", one.spread), ("longest queue delays (P99)", one.worst))
                if rows
            ],
        }
        for one in (*([flows] if flows else []), *classes)
    ]


def _precision(flows: pl.DataFrame) -> list[tuple[str, str]]:
    return [("precision", " ".join(told))] if (told := sentences(flows)) else []


def overflows(folder: Folder, case: Case | None = None) -> list[tuple[str, str]]:
    """A sentence for each queue that dropped packets for lack of room, in a case or in all of them."""
    rows = folder.overflows if case is None else folder.overflows.filter(case.rows())
    runs = folder.flows if case is None else folder.flows.filter(case.rows())
    total = runs.select("experiment", "run").n_unique()
    told = []
    for (place,), of_place in rows.group_by("lost_at", maintain_order=True):
        kind, _, name = str(place).partition(".")
        packets, measured = int(of_place["lost_packets"].sum()), of_place["dropped_packets"]
        in_warmup = 0 if measured.has_nulls() else packets - int(measured.sum())
        verb, full = ("dropped", "queue") if kind == "link" else ("lost", "netem")
        text = f"{verb} {number(packets)} packet{'s' * (packets != 1)} because its {full} was full"
        if total > 1:
            text += f", in {len(of_place)} of {total} runs"
        if in_warmup > 0:
            text += f", {'all' if in_warmup == packets else number(in_warmup)} of them in the warm-up"
        told.append((name, f"{text}."))
    return told


class Ranges(TypedDict):
    """A row per flow and a column per quantity: the least and the most over the cases, and where one of them is."""

    heads: list[str]
    rows: list[tuple[str, list[tuple[str, str]]]]


# Column, heading, which end is remarkable, and its name.
_RANGES: tuple[tuple[str, str, Callable[..., tuple[float, str]], str], ...] = (
    ("rate_mbps", "rate on the wire (Mb/s)", min, "least"),
    ("share", "share", min, "least"),
    ("sojourn_ms_p99", "queue delay P99 (ms)", max, "longest"),
    ("ce_pct", "CE (%)", max, ""),
    ("drop_pct", "dropped (%)", max, ""),
    ("completion_ms_p50", "completion median (ms)", max, "longest"),
    ("completion_ms_p99", "completion P99 (ms)", max, "longest"),
    ("unfinished", "unfinished transfers", max, "most"),
    ("frame_ms_p50", "frame latency median (ms)", max, "longest"),
    ("frame_ms_p99", "frame latency P99 (ms)", max, "longest"),
    ("late_pct", "late frames (%)", max, "most"),
    ("lost_frames_pct", "lost frames (%)", max, "most"),
    ("freezes", "freezes", max, "most"),
    ("rpm_foreign", "round trips per minute, new connections", min, "fewest"),
    ("rpm_self", "round trips per minute, load connections", min, "fewest"),
)


def over_the_cases(folder: Folder) -> Ranges | None:
    """The range of each quantity of each flow over the cases; None of a single case."""
    if len(folder.cases) < 2:
        return None
    levels = ["experiment", *folder.factors]
    labels = {tuple(case.levels.values()): case.label(folder) for case in folder.cases}
    means = _means(folder.flows, levels, ["flow"], _MEANS)
    shared = all(capacity.is_shared(folder.described(case)) for case in folder.cases[:MAX_CASES])
    of_flow = {name: [(row.of, labels[row.case]) for row in means if row.name == name] for name in folder.senders}
    found: list[tuple[str, dict[str, tuple[str, str]]]] = []
    for column, heading, extreme, its_name in _RANGES:
        cells = {name: _range(rows, column, extreme, its_name) for name, rows in of_flow.items()}
        if (column != "share" or shared) and any(text not in ("", "0") for text, _ in cells.values()):
            found.append((heading, cells))
    return {
        "heads": [heading for heading, _ in found],
        "rows": [(name, [cells[name] for _, cells in found]) for name in folder.senders],
    }


class LyingApart(TypedDict):
    """Trials that lie apart: `rows` of case, flow, quantity, least, median and most, and how many `more` there are."""

    factor: str
    rows: list[list[str]]
    more: int


def apart(folder: Folder) -> LyingApart | None:
    """The quantities whose mean over the trials describes none of them; None where there are none."""
    labels = {tuple(case.levels.values()): case.label(folder) for case in folder.cases}
    rows = [
        [labels[case], one.flow, tables.heading(one.quantity)]
        + [number(value, metrics.unit_of(one.quantity)) for value in (one.least, one.median, one.most)]
        for case, of_case in folder.apart.items()
        for one in of_case
    ]
    return (
        {"factor": f"{FACTOR:g}", "rows": rows[:_MAX_APART], "more": max(0, len(rows) - _MAX_APART)} if rows else None
    )


def of_all(folder: Folder) -> list[tuple[str, str]]:
    """What there is to say about all cases together."""
    return _precision(folder.flows) + overflows(folder)


def _written(value: float, column: str) -> str:
    """A mean over trials; one of whole things, such as 0.5, without digits that say nothing."""
    return plain(round(value, 1)) if column in _WHOLE else number(value, metrics.unit_of(column))


def _range(
    rows: Sequence[tuple[Mapping[str, float | None], str]],
    column: str,
    extreme: Callable[..., tuple[float, str]],
    its_name: str,
) -> tuple[str, str]:
    """The least and the most over the cases, and where the `extreme` one is; "" without a value."""
    found = [(value, at) for of, at in rows if (value := of[column]) is not None]
    if not found:
        return "", ""
    low, high = (_written(one(value for value, _ in found), column) for one in (min, max))
    if low == high:
        return high, ""
    _, at = extreme(found, key=lambda pair: pair[0])
    return f"{low} to {high}", f"{its_name} at {at}" * bool(its_name)


def _means(rows: pl.DataFrame, case: list[str], own: list[str], columns: Sequence[str]) -> list[Mean]:
    """By case and name (`own`: its column and, of flows, that of the controller)."""
    there = [name for name in columns if name in rows.columns]
    means = rows.group_by([*case, *own], maintain_order=True).agg(pl.col(there).mean(), pl.col("trial").n_unique())
    cases = means.select(case).rows() if case else [()] * len(means)
    controllers = means["cc"] if "cc" in own else [None] * len(means)
    numbers = means.select(there).rows(named=True)
    return [
        Mean(name, cc, at, trials, {**dict.fromkeys(columns), **of})
        for name, cc, at, trials, of in zip(means[own[0]], controllers, cases, means["trial"], numbers, strict=True)
    ]


def _name(row: Mean) -> str:
    return f"{row.name} ({row.cc})" if row.cc and row.cc != row.name else row.name


def _flow(row: Mean, capacities: Sequence[float], *, shared: bool) -> str:
    of = row.of
    together = f" together by its {of['count']:g} flows" if (of["count"] or 1) > 1 else ""
    told = []
    if of["rate_mbps"] is not None:
        told.append(f"got {number(of['rate_mbps'])} Mb/s{together}{_of(of['share'] if shared else None, capacities)}")
    if of["active_mbps"] is not None:
        told.append(f"had a goodput of {number(of['active_mbps'])} Mb/s while it was active")
    if (waits := _waits(of, "of its packets")) is not None:
        told.append(waits)
    if of["ce_pct"] is not None:
        told.append(_marked(of))
    if of["transfers"] and of["completion_ms_p50"] is not None:
        per_trial = " per trial" * (row.trials > 1)
        told.append(
            f"half of its {number(round(of['transfers']))} transfers{per_trial} took less than "
            f"{number(of['completion_ms_p50'])} ms, 99 % less than {number(of['completion_ms_p99'])} ms"
        )
    if unfinished := round((of["unfinished"] or 0) * row.trials):
        trials = f"in {row.trials} trials " if row.trials > 1 else ""
        told.append(
            f"{trials}{number(unfinished)} transfer{'s were' if unfinished > 1 else ' was'} incomplete at the end"
        )
    if of["frames"]:
        told += frames(row)
    return "; ".join(told) + "."


def frames(row: Mean) -> list[str]:
    """How the frames of media went, and how often the picture froze."""
    per_trial = " per trial" * (row.trials > 1)
    of = row.of
    told = []
    if of["frame_ms_p50"] is not None:
        half, most = number(of["frame_ms_p50"], "ms"), number(of["frame_ms_p99"], "ms")
        frames = number(round(of["frames"] or 0))
        told.append(f"half of its {frames} frames{per_trial} took less than {half} ms, 99 % less than {most} ms")
    late, lost = (of[name] for name in ("late_pct", "lost_frames_pct"))
    bad = [f"{number(value)} % {what}" for value, what in ((late, "came late"), (lost, "were lost")) if value]
    told.append(" and ".join(bad) or "no frame was late or lost")
    if freezes := of["freezes"]:
        often = "once" if freezes == 1 else f"{_written(freezes, 'freezes')} times"
        told.append(f"it froze {often}{per_trial}, for {number(of['freeze_s'], 's')} s in all")
    else:
        told.append("it never froze")
    return told


def _of(of_all: float | None, capacities: Sequence[float]) -> str:
    """Of which capacity, and which share of all goodput."""
    share = f"a share of {of_all:.2f}" if of_all is not None else ""
    if not capacities:
        return f" ({share})" * bool(share)
    low, high = number(min(capacities)), number(max(capacities))
    return f" of {low if low == high else f'{low} to {high}'}" + f" ({share})" * bool(share)


def _waits(row: Mapping[str, float | None], whose: str) -> str | None:
    half, most_ms = row["sojourn_ms_p50"], row["sojourn_ms_p99"]
    if half is None or most_ms is None:
        return None
    if most_ms < NO_DELAY_MS:
        return "no queueing delay"
    most = f"99 % {{}}less than {number(most_ms, 'ms')} ms"
    if half < NO_DELAY_MS:
        return f"half {whose} had no queueing delay, {most.format('waited ')}"
    return f"half {whose} waited less than {number(half, 'ms')} ms, {most.format('')}"


def _marked(row: Mapping[str, float | None]) -> str:
    marked = "none were marked" if not row["ce_pct"] else f"{number(row['ce_pct'])} % were marked"
    sce = f", {number(row['sce_pct'])} % got an SCE mark" if row["sce_pct"] else ""
    lost = "none lost" if not row["drop_pct"] else f"{number(row['drop_pct'])} % lost"
    return f"{marked}{sce}, {lost}"


def _link(row: Mapping[str, float | None], rates: Sequence[float] | None) -> str:
    told = [f"was used to {number(100 * row['utilisation'])} %"] if row["utilisation"] is not None else []
    if rates and len(set(rates)) > 1:
        told.append(f"its capacity {_went(rates)} Mb/s")
    if row["sojourn_ms_max"] is not None:
        longest = f"the longest wait in its queue was {number(row['sojourn_ms_max'], 'ms')} ms"
        told.append(longest if row["sojourn_ms_max"] >= NO_DELAY_MS else "nothing waited in its queue")
    if row["drop_pct"] is not None:
        dropped = (
            "dropped nothing in the measured time"
            if not row["drop_pct"]
            else f"dropped {number(row['drop_pct'])} % of what arrived"
        )
        told.append(f"it {dropped}")
    return "; ".join(told) + "."


def _went(rates: Sequence[float]) -> str:
    """A few capacities one after another; of more, as a trace has them, their range."""
    if len(rates) <= _MAX_STEPS:
        return f"went {' → '.join(map(number, rates))}"
    return f"changed {number(len(rates) - 1)} times, between {number(min(rates))} and {number(max(rates))}"
