"""The suite of queues: its experiments with the queue that is judged put in."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from l4slab import _core
from l4slab.base.code import is_code
from l4slab.base.errors import InputError, suggest
from l4slab.base.values import Keys

# In the files: `qdisc = "{queue}"`, and what `queue` is in [let].
NAME = "queue"
_PLACEHOLDER = f"{{{NAME}}}"
# Keys of a link that belong to its queue, and [let], whose values they may name.
_KEYS = ("qdisc", "class", "filter", "policer")
_LET = "let"
# The factor of the experiment in which the queue's parameters differ.
_VARIED = "parameter"
_TIME = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s)")


def keys_of(queue: str) -> tuple[Keys, Keys]:
    """The keys of a link with this queue, and values for [let]: a `tc` string, a file with the code of a queue, or a
    TOML file with `qdisc`, `class` and `filter` as of a `[link.NAME]`. Raises InputError.
    """
    if not queue.endswith(".toml"):
        path, _, thing = queue.partition(" ")[0].rpartition("/")
        if path and is_code(queue) and (path.startswith("/") or ".." in path.split("/")):
            text = f"--queue {queue} is in another folder; go there: cd {path} && l4slab check --queue {thing}"
            raise InputError(text)
        return {"qdisc": queue}, {}
    try:
        link: Keys = tomllib.loads(Path(queue).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error}); give a file", file=queue) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"is not TOML: {error}", file=queue) from None
    let = link.pop(_LET, {})
    for key in link:
        if key not in _KEYS:
            raise InputError(f"is no key of a link's queue; {suggest(key, (*_KEYS, _LET))}", file=queue, key=key)
    if not isinstance(link.get("qdisc"), str):
        raise InputError('is missing; write qdisc = "htb default 10"', file=queue, key="qdisc")
    if not isinstance(let, dict):
        raise InputError('is no table; write let = { half = "mbit / 2" }', file=queue, key=_LET)
    return link, let


def put_in(document: dict[str, Any], link: Keys, let: Keys) -> str | None:
    """Put the queue where the document names it; why that cannot be."""
    places = list(_places(document))
    if len(link) > 1 and any(".class." in before for _, before in places):
        return "it has classes of its own"
    del document["let"][NAME]
    document["let"].update(let)
    if _VARIED in document.get("sweep", {}) and len(link) == 1:
        levels = [{"level": name, "link.bottleneck.qdisc": qdisc} for name, qdisc in _varied(str(link["qdisc"]))]
        document["sweep"][_VARIED] += levels
    for table, before in places:
        table.update({f"{before}{key}": value for key, value in link.items()})
    return None


def _varied(qdisc: str) -> Iterator[tuple[str, str]]:
    """A built-in queue with each of its parameters of time halved and doubled, and what differs."""
    kind, *words = qdisc.split()
    for entry in [one for one in _core.qdiscs() if one["name"] == kind]:
        for parameter in entry["parameters"]:
            name = parameter["keyword"]
            value = words[words.index(name) + 1] if name in words[:-1] else parameter["default"] or ""
            match = _TIME.fullmatch(value)
            if match is None or not float(match[1]) or (entry["in_linux"] and not parameter["in_linux"]):
                continue
            others = " ".join(words).replace(f"{name} {value}", "")
            for factor in (0.5, 2.0):
                changed = f"{name} {float(match[1]) * factor:g}{match[2]}"
                yield changed, f"{kind} {others} {changed}"


def _places(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The tables that name the queue, and what the keys of its link begin with there."""
    levels = [one for level in document.get("sweep", {}).values() for one in level if isinstance(one, dict)]
    for table in (*document["link"].values(), *levels):
        yield from ((table, key.removesuffix("qdisc")) for key, value in list(table.items()) if value == _PLACEHOLDER)
