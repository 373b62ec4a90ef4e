"""Files with code of one's own: where an experiment names them, their contents, and what they declare.

`mine.py:Mine` of an experiment file becomes `mine.py:Mine#0123456789abcdef` in a run's description, with the hash of
the file's content and of the modules beside it that it imports.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from l4slab import _core
from l4slab.base.errors import InputError
from l4slab.own import beside

if TYPE_CHECKING:
    from l4slab.experimentfile import Experiment
    from l4slab.sweep import Plan

Kind = Literal["controller", "queue"]

# A file, what it names in it, and further words.
_NAMED = re.compile(r"(?P<file>[^\s:#]+\.(?:py|so))(?::(?P<thing>[^\s#]*))?(?=\s|$)\s*(?P<words>.*)", re.DOTALL)
HASH = "#"


@dataclass(frozen=True)
class Own:
    """A controller or a queue that a run has, and its file."""

    kind: Kind
    reference: str
    content: bytes
    modules: Mapping[str, bytes] = field(default_factory=dict)  # beside it, by path as `file`

    @property
    def name(self) -> str:
        """As the experiment file has it."""
        return self.reference.partition(HASH)[0]

    @property
    def file(self) -> str:
        """Of the name, the file."""
        return self.name.partition(":")[0]


_known: dict[tuple[str, str], Own] = {}
_declared: dict[tuple[str, str], str] = {}
_lock = threading.Lock()


def is_own(text: str) -> bool:
    """Whether a value of `cc` or `qdisc` names a file."""
    return _NAMED.fullmatch(text.strip()) is not None


def found(kind: Kind, text: str, folder: Path) -> str:
    """The value as a run's description has it, where it names a file; else the value.

    What the file declares is known to the core then. Raises ValueError with one sentence.
    """
    named = _NAMED.fullmatch(text.strip())
    if named is None:
        return text
    file, thing, words = named["file"], named["thing"] or "", named["words"]
    if not file.endswith(".py"):
        # "./libmine.so:limit 100" is as good as "./libmine.so limit 100".
        thing, words = "", f"{thing} {words}"
    if kind == "controller" and words.strip():
        raise ValueError(f'{file} takes no words; write options = {{ name = "value" }} of the flow')
    content = _read(file, folder)
    name = f"{file}:{thing}" if file.endswith(".py") else file
    modules = _modules(file, content, folder)
    whole = hashlib.sha256(content)
    for path, module in modules.items():
        whole.update(hashlib.sha256(path.encode()).digest() + hashlib.sha256(module).digest())
    reference = f"{name}{HASH}{whole.hexdigest()[:16]}"
    declare(Own(kind, reference, content, modules))
    return f"{reference} {words.strip()}".strip()


def _read(file: str, folder: Path) -> bytes:
    path = Path(file)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("it has to be beside the experiment file or in a folder there; move it")
    try:
        return (folder / path).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"there is no file {folder / path}; look at its name and folder") from None
    except OSError as error:
        raise ValueError(f"{folder / path} cannot be read ({error.strerror or error}); see to that") from None


def _modules(file: str, content: bytes, folder: Path) -> dict[str, bytes]:
    if not file.endswith(".py"):
        return {}
    try:
        return beside.modules_of(file, content, folder)
    except OSError as error:
        raise ValueError(f"{error.filename} cannot be read ({error.strerror or error}); see to that") from None


def declare(own: Own) -> str:
    """Make known what it declares; a controller's wish for ECN. Raises ValueError with one sentence."""
    key = (own.kind, own.reference)
    with _lock:
        if key in _declared:
            return _declared[key]
        declaration, ecn = _ask("describe", *key, own.name, own.content, dict(own.modules), names=[own.name])
        _check_gauges(own.name, declaration)
        _core.declare_own(own.kind, own.reference, declaration)
        _known[key] = own
        _declared[key] = ecn
        return str(ecn)


def _check_gauges(name: str, declaration: str) -> None:
    """Raises ValueError where a gauge would be a column that every time series has. Probabilities are the queue's."""
    from l4slab.base import metrics
    from l4slab.engines.sim import SERIES

    taken = (metrics.LABELS.keys() | metrics.SERIES.keys() | SERIES.keys()) - metrics.PROBABILITIES
    for gauge in json.loads(declaration)["gauges"]:
        if gauge["name"] in taken:
            raise ValueError(
                f'{name}: the gauge "{gauge["name"]}" is the name of a column that every time series has; '
                "choose another name"
            )


def _ask(*asked: Any, names: list[str]) -> Any:
    """The worker's answer. Raises ValueError."""
    from l4slab.engines.contract import EngineError
    from l4slab.own import processes

    try:
        how, answer = processes.ask(*asked, names=names)
    except EngineError as error:
        raise ValueError(str(error)) from None
    if how != "done":
        raise ValueError(answer)
    return answer


def used(description: Mapping[str, Any]) -> list[Own]:
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
    content = _read(file, folder)
    if not file.endswith(".py"):
        both: list[tuple[str, str]] = [("controller", file), ("queue", file)]
    else:
        both = [
            (kind, f"{file}:{name}")
            for kind, name in _ask("classes", file, content, _modules(file, content, folder), names=[file])
        ]
    wrong = []
    for kind, name in both:
        if thing in ("", name.partition(":")[2]):
            try:
                reference = found(kind, name, folder)  # type: ignore[arg-type]
            except ValueError as error:
                wrong.append(str(error))
                continue
            entry = _core.own_info(kind, reference) or {}
            entries[kind].append(entry | ({"ecn": _declared[kind, reference]} if kind == "controller" else {}))
    if not any(entries.values()):
        raise ValueError(wrong[0] if wrong else f"{path} has no such controller or queue; {_has(both)}")
    return {"qdiscs": entries["queue"], "controllers": entries["controller"]}


def _has(both: list[tuple[str, str]]) -> str:
    names = ", ".join(name for _, name in both)
    return f"it has {names}" if names else "write class Mine(Controller) or class Mine(Queue), from l4slab.own"


def check(plans: Sequence[Plan]) -> None:
    """Raises InputError where two experiments have different files of one name: results keep one of each."""
    seen: dict[str, tuple[Experiment, bytes]] = {}
    for plan in plans:
        for name, content in contents(run.description for run in plan.runs).items():
            other, known = seen.setdefault(name, (plan.experiment, content))
            if known != content:
                text = f"names {name}, which is not the file of that name beside {other.file}; rename one of them"
                raise InputError(text, file=plan.experiment.file)


def contents(descriptions: Iterable[Mapping[str, Any]]) -> dict[str, bytes]:
    """The files of these runs, by their names beside the experiment file."""
    found: dict[str, bytes] = {}
    for description in descriptions:
        for own in used(description):
            found |= {own.file: own.content, **own.modules}
    return found
