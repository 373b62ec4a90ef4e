"""Controllers and queues of the user's own: what they declare, which a worker says, and which ones runs have."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from l4slab import _core
from l4slab.base import metrics
from l4slab.base.code import HASH, Code, Kind, find, modules_beside, read
from l4slab.base.run import Run as Description
from l4slab.experimentfile import show
from l4slab.experimentfile.outside import Use
from l4slab.experimentfile.wording import Problem
from l4slab.own import processes

_known: dict[tuple[str, str], Code] = {}
_declared: dict[tuple[str, str], str] = {}
_lock = threading.Lock()


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


def completed(description: Description, uses: Iterable[Use]) -> Description:
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
    return cast(Description, {**description, "links": links, "at": at, "flows": flows})


def _with_queues(
    description: Mapping[str, Any], canonical: Mapping[str, str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
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

    def each(table: Mapping[str, Any], link: str, what: Callable[[tuple[str, str], str], str]) -> dict[str, Any]:
        found = dict(table)
        if found.get("qdisc") is not None:
            found["qdisc"] = what((link, str(found.get("id", ""))), found["qdisc"])
        if "classes" in found:
            found["classes"] = [each(one, link, what) for one in found["classes"]]
        return found

    links = [each(link, link["name"], begin) for link in description["links"]]
    at = [each(one, one["link"], change) if one.get("link") else one for one in description["at"]]
    return links, at


def _with_options(flow: Mapping[str, Any]) -> Mapping[str, Any]:
    if HASH not in (flow.get("cc") or ""):
        return flow
    try:
        return {**flow, "options": _core.canonical_controller(flow["cc"], flow["options"])}
    except ValueError as error:
        raise Problem(("flow", flow["name"]), "options", f"= {show(flow['options'])}: {error}") from None


def _check_gauges(name: str, declaration: str) -> None:
    """Raises ValueError where a gauge would be a column that every time series has. Probabilities are the queue's."""
    taken = (metrics.LABELS.keys() | metrics.SERIES.keys() | metrics.SIM_SERIES.keys()) - metrics.PROBABILITIES
    for gauge in json.loads(declaration)["gauges"]:
        if gauge["name"] in taken:
            raise ValueError(
                f'{name}: the gauge "{gauge["name"]}" is the name of a column that every time series has; '
                "choose another name"
            )


def _ask(*asked: Any, names: list[str]) -> Any:
    """The worker's answer. Raises ValueError."""
    try:
        how, answer = processes.ask(*asked, names=names)
    except processes.WorkerError as error:
        raise ValueError(str(error)) from None
    if how != "done":
        raise ValueError(answer)
    return answer


def used(description: Mapping[str, Any]) -> list[Code]:
    """What a run has of it."""
    return [_known[key] for key in dict.fromkeys(_keys(description)) if key in _known]


def _keys(description: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    queues = [*description["links"], *description["at"]]
    queues += [one for table in queues for one in table.get("classes", ())]
    both = (("controller", description["flows"], "cc"), ("queue", queues, "qdisc"))
    for kind, tables, key in both:
        for table in tables:
            word, *_ = (table.get(key) or "").split(maxsplit=1) or [""]
            if HASH in word:
                yield kind, word


def refused(description: Mapping[str, Any]) -> str | None:
    """The name of something in the run that only the simulator has."""
    return next((reference.partition(HASH)[0] for _, reference in _keys(description)), None)


def listed(path: Path) -> dict[str, list[dict[str, Any]]]:
    """What a file has, as entries of `l4slab list`: "qdiscs" and "controllers". Raises ValueError with one sentence."""
    file, _, thing = path.name.partition(":")
    folder, entries = path.parent, {"queue": list[dict[str, Any]](), "controller": list[dict[str, Any]]()}
    content = read(file, folder)
    if not file.endswith(".py"):
        both: list[tuple[Kind, str]] = [("controller", file), ("queue", file)]
    else:
        both = [
            (kind, f"{file}:{name}")
            for kind, name in _ask("classes", file, content, modules_beside(file, content, folder), names=[file])
        ]
    wrong = []
    for kind, name in both:
        if thing in ("", name.partition(":")[2]):
            try:
                if (described := find(kind, name, folder)) is None:
                    continue
                reference, code = described
                declare(code)
            except ValueError as error:
                wrong.append(str(error))
                continue
            entry = _core.own_info(kind, reference) or {}
            entries[kind].append(entry | ({"ecn": _declared[kind, reference]} if kind == "controller" else {}))
    if not any(entries.values()):
        raise ValueError(wrong[0] if wrong else f"{path} has no such controller or queue; {_has(both)}")
    return {"qdiscs": entries["queue"], "controllers": entries["controller"]}


def _has(both: list[tuple[Kind, str]]) -> str:
    names = ", ".join(name for _, name in both)
    return f"it has {names}" if names else "write class Mine(Controller) or class Mine(Queue), from l4slab.own"


def contents(descriptions: Iterable[Mapping[str, Any]]) -> dict[str, bytes]:
    """The files of these runs, by their names beside the experiment file."""
    found: dict[str, bytes] = {}
    for description in descriptions:
        for own in used(description):
            found |= {own.file: own.content, **own.modules}
    return found
