"""Whether there is memory for the runs: a step after their resolution, which does not look at the machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from l4slab.base import system
from l4slab.base.errors import InputError
from l4slab.base.numbers import counted
from l4slab.base.run import Run as Description
from l4slab.base.units import SIZE, TIME
from l4slab.campaign.known import readable
from l4slab.engines.contract import Engine, Part
from l4slab.engines.registry import get_engine
from l4slab.experimentfile.traffic import KINDS
from l4slab.experimentfile.wording import Place, Problem, show, told
from l4slab.sweep import Run, canonical_json

VARIABLE = "L4SLAB_MEMORY"
_MEMORY = replace(SIZE, example="8GiB")
# Of the memory that this process may take: a run may need twice as much as is estimated.
_PART = 0.5
# Where the system does not say how much it has.
_UNKNOWN_BYTES = 4 << 30


def available(memory: str | None = None) -> float:
    """Bytes for all runs at a time: those given, or those of the environment, or a part of what this process may take.

    Raises InputError.
    """
    for given, name in ((memory, "--memory"), (os.environ.get(VARIABLE), VARIABLE)):
        if given:
            try:
                return _MEMORY.parse(given)
            except ValueError as error:
                raise InputError(f"{name} {given} {error}") from None
    return _PART * (system.available_memory() or _UNKNOWN_BYTES)


def at_a_time(workers: int | None, engine: Engine) -> int:
    """Runs at a time: by default one per core, and one where runs in real time would disturb each other."""
    return workers or (system.cores() if engine.virtual_time else 1)


def needed(run: Run) -> float:
    """Bytes that a run may need."""
    return sum(part.size for part in _parts(run))


def _parts(run: Run) -> list[Part]:
    engine = get_engine(run.engine)
    try:
        return engine.memory(run.json)
    except ValueError:
        return engine.memory(canonical_json(readable(run.description)))


def check(runs: Iterable[Run], file: Path, workers: int, memory: str | None = None) -> None:
    """Raises InputError for the first of these runs that may need more than its part of the memory."""
    runs = list(_unlike(runs))
    if not runs:
        return
    total = available(memory)
    for run in runs:
        parts = _parts(run)
        size = sum(part.size for part in parts)
        if size * workers <= total:
            continue
        place, key, value, what, remedy = _largest(parts, run.description)
        text = f"a run may need {_size(size)} of memory, most of it for {what}"
        most = f"there is {_size(total)} for runs" + (f", {counted(workers, 'run')} at a time" if workers > 1 else "")
        fewer = "give fewer --workers, " if workers > 1 and size <= total else ""
        shown = "" if value is None else f" = {show(value)}"
        with told(file):
            raise Problem(
                place, key, f"{shown}: {text}, and {most}; {remedy}, {fewer}or allow more with --memory".strip()
            )


def _unlike(runs: Iterable[Run]) -> Iterator[Run]:
    """One run of each combination: its trials need the same memory."""
    seen = set()
    for run in runs:
        if id(run.factors) not in seen:
            seen.add(id(run.factors))
            yield run


def _size(size: float) -> str:
    for unit, name in ((2**40, "TiB"), (2**30, "GiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}".replace(",", " ")
    return f"{size / 2**20:.0f} MiB"


def _largest(parts: list[Part], description: Description) -> tuple[Place, str, object, str, str]:
    """What takes most: its table, key and value (None: there is no single one), its name, and what makes it smaller."""
    part = max(parts, key=lambda one: one.size)
    number = f"{part.count:,.0f}".replace(",", " ")
    match part.kind:
        case "queue":
            return _queue(part, description, number)
        case "impair":
            (impair,) = (one for one in description["impairs"] if one["name"] == part.name)
            what = f"{number} packets that netem holds back"
            return ("impair", part.name), "netem", impair["netem"], what, "lower its limit"
        case "samples":
            sample = TIME.text(description["sample_ns"])
            return (), "sample", sample, f"{number} rows of the time series", "lengthen it, or shorten duration"
        case "run":
            return (), "link", None, f"{number} classes and the flows that cross them", "leave out classes or flows"
    (flow,) = (one for one in description["flows"] if one["name"] == part.name)
    place = ("flow", part.name)
    if part.kind == "flight":
        what = f"{number} packets in flight"
        return place, "rtt", TIME.text(flow["rtt_ns"]), what, "shorten it, or lower rates"
    if part.kind == "transfers":
        key, value = _interval(flow)
        return (
            place,
            key,
            value,
            f"{number} transfers, pages or frames",
            "let it begin fewer, or lower count or duration",
        )
    if part.kind == "times" and description.get("per_flow"):
        return (), "per_flow", True, f"the delays of each flow of {show(part.name)}", "leave it out, or lower count"
    return place, "count", flow["count"], "its flows", "lower it"


def _queue(part: Part, description: Description, number: str) -> tuple[Place, str, object, str, str]:
    (link,) = (one for one in description["links"] if one["name"] == part.name)
    leaves: Mapping[str, Any] = {one["id"]: one["qdisc"] for one in link.get("classes", []) if one.get("qdisc")}
    down = link.get("up_of")
    key, value = ("qdisc_up" if down else "qdisc"), link["qdisc"]
    if leaves:
        name, value = next(iter(leaves.items()))
        key = f"class.{name}.qdisc"
    what = f"{number} packets in its queue" + (f"s ({counted(len(leaves), 'class', 'classes')})" if leaves else "")
    return ("link", down or part.name), key, value, what, "lower its limit, or the rates of flows, or duration"


def _interval(flow: Mapping[str, Any]) -> tuple[str, str]:
    """The key that says how often a flow begins something, as it is written in the file, and its value."""
    fields = KINDS[flow["kind"]].model_fields.items()
    aliases = ("interval_ns", "probe_interval_ns")
    key = next(name for name, field in fields if field.serialization_alias in aliases)
    interval_ns = int(flow.get("probe_interval_ns") or flow["interval_ns"])
    if key in ("interval", "probe_interval"):
        return key, TIME.text(interval_ns)
    # The description has the interval, in whole nanoseconds.
    return key, f"{1e9 / interval_ns:.4g}/s" if interval_ns > 10**5 else f"{1e9 / interval_ns:.0f}/s"
