"""An experiment file with other values, as `run --set KEY=VALUE` asks for: the text that says so, comments and all."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from l4slab.base.errors import InputError, nearest, suggest
from l4slab.base.values import Value
from l4slab.experimentfile.tables import Top
from l4slab.experimentfile.wording import keys_of, show

# Tables that have names; [[flow]] has them in a key.
_NAMED = ("link", "flow", "impair", "tunnel")
_OTHERS = ("let", "search", "agree")


def value_of(text: str) -> Value:
    """A value as TOML has it, or the text itself where it is none: 5 is a number, 5Mbit a text. Raises nothing."""
    try:
        (value,) = tomllib.loads(f"value = {text}").values()
    except (tomllib.TOMLDecodeError, ValueError):
        return text
    return value  # type: ignore[no-any-return]


def changed(text: str, changes: Mapping[str, Value], file: Path) -> str:
    """The text of a file with these values. A key is dotted as in [sweep]; a factor's name chooses one of its levels.

    Raises InputError where the file has no such table, or where its sweep decides about the key.
    """
    import tomlkit

    document: Any = tomlkit.parse(text)
    for key, value in changes.items():
        try:
            _change(document, key, value)
        except _Mistake as mistake:
            raise InputError(str(mistake), file=file, key=f"--set {key}") from None
    return tomlkit.dumps(document)


class _Mistake(Exception):
    """The end of the sentence that begins with the file and the key."""


def _change(document: Any, key: str, value: Value) -> None:
    if key in (sweep := document.get("sweep", {})):
        sweep[key] = _levels(sweep[key], value)
        return
    _refuse_swept(sweep, key)
    first, *path = key.split(".")
    if not path and first not in (*_NAMED, *_OTHERS, "sweep"):
        if (factor := nearest(first, sweep)) is not None and first not in keys_of(Top):
            raise _Mistake(f"is neither a key nor a factor; did you mean --set {factor}=VALUE?")
        document[first] = value
    elif first in _NAMED and len(path) > 1:
        for table in _tables(document, first, path[0]):
            _refuse_filled(sweep, table, path[1:])
            _put(table, path[1:], value)
    elif first in _OTHERS and path:
        _put(document.setdefault(first, {}), path, value)
    else:
        factors = "".join(f", or {name}=LEVEL" for name in sweep)
        raise _Mistake(
            f"= {show(value)} is no key that can be set; write such as link.NAME.rate=5Mbit, flow.NAME.cc=cubic or "
            f"duration=20s{factors}"
        )


def _levels(known: Any, value: Value) -> list[Any]:
    """Of a factor with bundles the level of that name; of another one this level alone, or these."""
    if not all(isinstance(level, dict) for level in known):
        return list(value) if isinstance(value, list) else [value]
    wanted = value if isinstance(value, list) else [value]
    names = [level.get("level") for level in known]
    for one in wanted:
        if one not in names:
            raise _Mistake(f"= {show(one)} is not a level of this factor; {suggest(str(one), map(str, names))}")
    return [level for level in known if level.get("level") in wanted]


def _refuse_swept(sweep: Mapping[str, Any], key: str) -> None:
    """Raises _Mistake where a factor sets the same key in each run, and what is set here would have no effect."""
    for factor, levels in sweep.items():
        bundles = [level for level in levels if isinstance(level, dict)]
        for one in {factor, *(name for level in bundles for name in level)} - {"level"}:
            if fnmatchcase(key, one) or fnmatchcase(one, key):
                instead = f"{factor}=LEVEL" if bundles else f"{factor}=VALUE"
                raise _Mistake(
                    f"has no effect, because the sweep sets {one} in each run; choose there: --set {instead}"
                )


def _refuse_filled(sweep: Mapping[str, Any], table: Any, path: list[str]) -> None:
    """Raises _Mistake where a level is put into the value: runs would be called by levels that they have not."""
    for name in path:
        table = table.get(name, "") if isinstance(table, dict) else ""
    for factor in sweep:
        if f"{{{factor}}}" in str(table):
            raise _Mistake(f"is {show(str(table))}, from a factor of the sweep; choose there: --set {factor}=VALUE")


def _tables(document: Any, section: str, name: str) -> Iterator[Any]:
    tables = document.get(section, {})
    named = {str(one.get("name", "")): one for one in tables} if section == "flow" else dict(tables)
    if name == "*":
        yield from named.values()
    elif name in named:
        yield named[name]
    else:
        remedy = suggest(name, named) if named else f"the file has no {section}"
        raise _Mistake(f"names the {section} {show(name)}, which is not in the file; {remedy}")


def _put(table: Any, path: list[str], value: Value) -> None:
    *inner, last = path
    for name in inner:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise _Mistake(f"goes below {name}, which is no table in the file; write {name} itself")
    table[last] = value
