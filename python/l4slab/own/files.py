"""Controllers and queues of the user's own: what they declare, which a worker says, and which ones runs have."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from l4slab import _core
from l4slab.base import metrics
from l4slab.base.code import HASH, Code, Kind, find, modules_beside, read
from l4slab.base.run import Change, Class, Flow, Link, Run
from l4slab.experimentfile import show
from l4slab.experimentfile.classes import qdiscs_of
from l4slab.experimentfile.outside import Use
from l4slab.experimentfile.wording import Problem
from l4slab.own import processes

_known: dict[tuple[str, str], Code] = {}
_declared: dict[tuple[str, str], str] = {}
_lock = threading.Lock()

# What has a queue.
Queued = TypeVar("Queued", Link, Change, Class)


def declare(code: Code) -> str:
    """Make known what it declares; a controller's wish for ECN. Raises ValueError with one sentence."""
    key = (code.kind, code.reference)
    with _lock:
        if key in _declared:
            return _declared[key]
        declaration, ecn = _ask("describe", *key, code.name, code.content, dict(code.modules), names=[code.name])
        _check_gauges(code.name, declaration)
        _core.declare_own(code.kind, code.reference, declaration)
        _known[key] = code
        _declared[key] = ecn
        return str(ecn)


def completed(description: Run, uses: Iterable[Use]) -> Run:
    """A run's description in which every parameter of its own code is written out. Raises Problem."""
    queues: dict[str, str] = {}
    for use in uses:
        try:
            declare(use.code)
            if use.code.kind == "queue":
                queues[use.described] = _core.canonical_qdisc(use.described)
        except ValueError as error:
            raise Problem(use.place, use.key, f"= {show(use.written)}: {error}") from None
    if next(_keys(description), None) is None:
        return description
    links, at = _with_queues(description, queues)
    flows = [_with_options(flow) for flow in description["flows"]]
    return {**description, "links": links, "at": at, "flows": flows}


def _with_queues(description: Run, canonical: Mapping[str, str]) -> tuple[list[Link], list[Change]]:
    """Links and changes. Like any queue's, a change of the same kind keeps what its options do not name."""
    in_force: dict[tuple[str, str], _core.ChangingQdisc | None] = {}

    def begin(place: tuple[str, str], text: str) -> str:
        text = canonical.get(text, text)
        try:
            in_force[place] = _core.ChangingQdisc(text)
        except ValueError:
            in_force[place] = None  # a queue that only a kernel has, or one that holds classes
        return text

    def change(place: tuple[str, str], text: str) -> str:
        queue = in_force[place]
        try:
            return begin(place, text) if queue is None else queue.change(text)
        except ValueError as error:
            raise Problem((f"link {show(place[0])}",), "qdisc", f"= {show(text)}: {error}") from None

    def each(table: Queued, link: str, what: Callable[[tuple[str, str], str], str], number: str = "") -> Queued:
        found = table.copy()
        if (qdisc := found.get("qdisc")) is not None:
            found["qdisc"] = what((link, number), qdisc)
        return found

    def classes(link: str, of: list[Class], what: Callable[[tuple[str, str], str], str]) -> list[Class]:
        return [each(one, link, what, one["id"]) for one in of]

    links, at = [], []
    for table in description["links"]:
        found = each(table, table["name"], begin)
        if "classes" in found:
            found["classes"] = classes(found["name"], found["classes"], begin)
        links.append(found)
    for one in description["at"]:
        name = one.get("link")
        changed = each(one, name, change) if name else one
        if name and "classes" in changed:
            changed["classes"] = classes(name, changed["classes"], change)
        at.append(changed)
    return links, at


def _with_options(flow: Flow) -> Flow:
    """The flow; one with a controller of its own has all options."""
    if flow["kind"] not in ("tcp", "web", "video", "page", "responsiveness", "media") or HASH not in flow["cc"]:
        return flow
    found = flow.copy()
    canonical = _core.canonical_media if flow["kind"] == "media" else _core.canonical_controller
    try:
        found["options"] = canonical(flow["cc"], flow["options"])
    except ValueError as error:
        raise Problem(("flow", flow["name"]), "options", f"= {show(flow['options'])}: {error}") from None
    return found


def _check_gauges(name: str, declaration: str) -> None:
    """Raises ValueError where a gauge would be a column that every time series has. Probabilities are the queue's."""
    taken = (metrics.LABELS.keys() | metrics.SERIES.keys() | metrics.SIM_SERIES.keys()) - metrics.PROBABILITIES
    for gauge in json.loads(declaration)["gauges"]:
        if gauge["name"] in taken:
            raise ValueError(
                f'{name}: the gauge "{gauge["name"]}" is the name of a column that every time series has; '
                "choose another name"
            )


def _ask(what: str, *asked: object, names: list[str]) -> Any:
    """The worker's answer. Raises ValueError."""
    try:
        how, answer = processes.ask(what, *asked, names=names)
    except processes.WorkerError as error:
        raise ValueError(str(error)) from None
    if how != "done":
        raise ValueError(answer)
    return answer


def used(description: Run) -> list[Code]:
    """Its entry in a run."""
    return [_known[key] for key in dict.fromkeys(_keys(description)) if key in _known]


def _keys(description: Run) -> Iterator[tuple[str, str]]:
    for flow in description["flows"]:
        if HASH in (controller := str(flow.get("cc") or "")):
            yield "media" if flow["kind"] == "media" else "controller", controller
    tables: list[Link | Change] = [*description["links"], *description["at"]]
    for table in tables:
        for qdisc in qdiscs_of(table):
            if HASH in (name := qdisc.split(maxsplit=1)[0]):
                yield "queue", name


def refused(description: Run) -> str | None:
    """The name of something in the run that only the simulator has."""
    return next((reference.partition(HASH)[0] for _, reference in _keys(description)), None)


def listed(path: Path) -> dict[str, list[_core.Own]]:
    """A file's content as entries of `l4slab list`: "qdiscs", "controllers" and "media-controllers".

    Raises ValueError with one sentence.
    """
    file, _, thing = path.name.partition(":")
    folder = path.parent
    entries: dict[Kind, list[_core.Own]] = {"queue": [], "controller": [], "media": []}
    content = read(file, folder)
    if not file.endswith(".py"):
        every: list[tuple[Kind, str]] = [("controller", file), ("media", file), ("queue", file)]
    else:
        every = [
            (kind, f"{file}:{name}")
            for kind, name in _ask("classes", file, content, modules_beside(file, content, folder), names=[file])
        ]
    wrong = []
    for kind, name in every:
        if thing in ("", name.partition(":")[2]):
            try:
                if (described := find(kind, name, folder)) is None:
                    continue
                reference, code = described
                declare(code)
            except ValueError as error:
                wrong.append(str(error))
                continue
            if (entry := _core.own_info(kind, reference)) is not None:
                if kind != "queue":
                    entry["ecn"] = _declared[kind, reference]
                entries[kind].append(entry)
    if not any(entries.values()):
        raise ValueError(wrong[0] if wrong else f"{path} has no such controller or queue; {_has(every)}")
    return {"qdiscs": entries["queue"], "controllers": entries["controller"], "media-controllers": entries["media"]}


def _has(every: list[tuple[Kind, str]]) -> str:
    names = ", ".join(name for _, name in every)
    return f"it has {names}" if names else "write class Mine(Controller) or class Mine(Queue), from l4slab.own"


def contents(descriptions: Iterable[Run]) -> dict[str, bytes]:
    """The files of these runs, by their names beside the experiment file."""
    found: dict[str, bytes] = {}
    for description in descriptions:
        for own in used(description):
            found |= {own.file: own.content, **own.modules}
    return found
