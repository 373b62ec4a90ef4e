"""Reading an experiment file, and checking what can be checked before its sweep is expanded."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TextIO, TypedDict

from l4slab.base import paths
from l4slab.base.errors import InputError, one_line, suggest
from l4slab.base.packaged import studies
from l4slab.base.values import Keys, Value
from l4slab.experimentfile import bounds
from l4slab.experimentfile.changed import changed
from l4slab.experimentfile.misplaced import instead
from l4slab.experimentfile.tables import Captured, Impair, Link, Rewrite, Skip, Top
from l4slab.experimentfile.traffic import flow_model
from l4slab.experimentfile.tunnels import Tunnel
from l4slab.experimentfile.wording import (
    AnyTable,
    Mistakes,
    Place,
    Problem,
    check,
    check_written,
    keys_of,
    numbered,
    show,
    told,
)

Level = str | int | float | bool

# [link.NAME], and [[flow]]. `_STATEMENTS` are about results: a file that has nothing else but [view] is a study.
_TABLES = ("link", "impair", "tunnel", "sweep", "search", "let", "view", "agree")
_STATEMENTS = ("claim", "published", "figure", "table", "cause")
_LISTS = ("flow", "at", "rewrite", "skip", *_STATEMENTS)
SECTIONS = (*_TABLES, *_LISTS)
_STANDARD_INPUT = "-"
# Names are parts of dotted keys and of {placeholders}.
_RESERVED = '.*{}":/'


class Document(TypedDict):
    """The tables of a file whose structure is checked, as they were written.

    Links, impairments, tunnels and flows are by name, and the keys of [[at]] are dotted. The modules that
    evaluate the other sections check their values.
    """

    link: dict[str, Keys]
    impair: dict[str, Keys]
    tunnel: dict[str, Keys]
    flow: dict[str, Keys]
    at: list[Keys]
    rewrite: list[Keys]
    skip: list[Value]
    claim: list[Value]
    published: list[Value]
    figure: list[Value]
    table: list[Value]
    cause: list[Value]
    sweep: Keys
    search: Keys
    let: Keys
    view: Keys
    agree: Keys


@dataclass(frozen=True)
class Bundle:
    """A level of a factor that sets several keys, by dotted key."""

    level: Level
    settings: Keys

    def written(self) -> Keys:
        """The table of the file."""
        return {"level": self.level, **self.settings}


@dataclass(frozen=True)
class Experiment:
    """An experiment file as written, with its structure checked.

    A study file has neither links nor flows: it describes no run, and its claims and published figures are about
    every experiment in the results folder.
    """

    name: str
    file: Path
    source: bytes
    document: Document
    top: Keys
    sections: list[str]  # that the file has, in its order
    title: str
    about: str
    trials: int
    subset: str
    captures: Captured
    factors: dict[str, list[Level]]
    bundles: dict[str, list[Bundle]]
    let: dict[str, str]
    views: dict[str, str]
    skips: list[Skip]

    @property
    def is_study(self) -> bool:
        """Whether this is a study file."""
        return not self.document["link"] and not self.document["flow"]

    def swept(self, factors: dict[str, list[Level]], bundles: dict[str, list[Bundle]]) -> Experiment:
        """The same experiment with another sweep."""
        sweep: Keys = {name: list(levels) for name, levels in factors.items()}
        sweep |= {name: [one.written() for one in levels] for name, levels in bundles.items()}
        document: Document = {**self.document, "sweep": sweep}
        return replace(self, document=document, factors=factors, bundles=bundles)

    def tables(self, model: type[AnyTable]) -> list[AnyTable]:
        """The tables of the model's section, each with an id of its own where they have ids. Raises InputError."""
        with told(self.file):
            return _checked(self.document, model)


def load(path: Path | str, trials: int | None = None, changes: Mapping[str, Value] | None = None) -> Experiment:
    """Read an experiment file, or the standard input as stdin.toml if `path` is "-", and check its structure.

    `trials` replaces the file's number of them, `changes` other values by dotted key (`l4slab.experimentfile.changed`),
    in `source` too.
    Values that a sweep sets later are checked when it is expanded (`l4slab.sweep.expand`), statements about results
    by those who evaluate them.
    Raises InputError.
    """
    is_typed = str(path) == _STANDARD_INPUT
    file = Path("stdin.toml") if is_typed else paths.usable(path)
    try:
        if is_typed:
            source = _standard_input(sys.stdin)
        else:
            with file.open("rb") as opened:
                source = opened.read(bounds.FILE_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"there is no such file; {_instead_of(file)}", file=file) from None
    except IsADirectoryError:
        raise InputError("is a directory; give the path of an experiment file (.toml)", file=file) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be read ({reason}); check its permissions", file=file) from None
    if len(source) > bounds.FILE_BYTES:
        raise InputError(
            f"has more than {bounds.FILE_BYTES >> 20} MiB, so it is no experiment file; give one", file=file
        )
    return parse(source, file, trials, changes)


@cache
def _standard_input(stream: TextIO) -> bytes:
    """What it gives, once for all that read the file."""
    return stream.buffer.read(bounds.FILE_BYTES + 1)


def parse(
    source: bytes, file: Path, trials: int | None = None, changes: Mapping[str, Value] | None = None
) -> Experiment:
    """As `load`, from the text of a file."""
    wrong = paths.name_mistake(file.stem) or ("that begins with a point; rename it" if file.stem[0] == "." else None)
    if wrong is not None:
        raise InputError(f"has a name {wrong}", file=file)
    document = _read(source, file)
    if changes:
        source = changed(source.decode("utf-8-sig"), changes, file).encode()
        document = _read(source, file)
    if trials is not None and document.get("trials", 1) != trials:
        source = _with_trials(source, trials)
        document["trials"] = trials
    with told(file):
        return _structure(file, document, source)


def _read(source: bytes, file: Path) -> Keys:
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source[: error.start].count(b"\n") + 1
        raise InputError(f"line {line} is not UTF-8; save the file as UTF-8", file=file) from None
    if not text.strip():
        raise InputError("is empty; it needs at least duration, a [link.NAME] and a [[flow]]", file=file)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        remedy = _toml_remedy(text, str(error))
        raise InputError(f"is not valid TOML: {error}; {remedy}", file=file) from None
    if (found := _with_nul(document)) is not None:
        place, written = found
        raise InputError(f"has {show(written)} with a NUL character; remove it", file=file, key=place)
    return document


def _instead_of(file: Path) -> str:
    """A suggestion for a path that does not exist."""
    if str(file) in studies():
        return f"it is a study, run it with: l4slab reproduce {file}"
    if (with_suffix := file.with_name(f"{file.name}.toml")).is_file():
        return f'did you mean "{with_suffix}"?'
    return "give the path of an experiment file, or make one with: l4slab init"


def _toml_remedy(text: str, error: str) -> str:
    """The correction of a line that is not TOML."""
    if text.lstrip().startswith("{"):
        return 'this looks like JSON, and an experiment is TOML, such as duration = "60s" and [link.bottleneck]'
    found = re.search(r"at line (\d+)", error)
    line = text.splitlines()[int(found[1]) - 1] if found and int(found[1]) <= len(text.splitlines()) else ""
    if re.search("[“”„‘’]", line):
        return 'write straight quotes, "..."'
    if (twice := re.fullmatch(r"\s*\[\[([\w.-]+)\]\].*", line)) and re.search(
        rf"(?m)^\s*\[{re.escape(twice[1])}\]", text
    ):
        return f"write [[{twice[1]}]] each time, not [{twice[1]}]"
    if (again := re.fullmatch(r"\s*\[(flow|at|claim|figure|published|rewrite|skip)\]\s*(?:#.*)?", line)) is not None:
        return f"write [[{again[1]}]] each time"
    if re.fullmatch(r"""[^"'#]*=\s*(?:"[^"']*|'[^"']*)""", line):
        return f"close the quote, such as {line.strip()}{line[line.index('=') + 1 :].strip()[0]}"
    if (value := re.fullmatch(r"\s*[\w.\"*-]+\s*=\s*([^=\"'\[{\s][^\"'#]*?)\s*(?:#.*)?", line)) is not None:
        return f'text and quantities stand in quotes, "{value[1]}"'
    if re.fullmatch(r"\s*\w+\s*:.*", line):
        return "write key = value"
    twice_named = "Cannot declare" in error or "overwrite" in error
    return "give each table and key its own name" if twice_named else "correct the line"


def _with_nul(value: object, place: str = "") -> tuple[str, str] | None:
    """Where a key or a text has a NUL character, and the text: neither SQL nor a file's name can have one."""
    if isinstance(value, str):
        return (place, value) if "\0" in value else None
    if isinstance(value, dict):
        inner = ((f"{place}.{key}".lstrip("."), one) for key, one in value.items())
        keys = next(((place, key) for key in value if "\0" in key), None)
        return keys or next(filter(None, (_with_nul(one, where) for where, one in inner)), None)
    if isinstance(value, list):
        return next(filter(None, (_with_nul(one, place) for one in value)), None)
    return None


def _with_trials(source: bytes, trials: int) -> bytes:
    """The file with another number of trials: the line that says so, in front of the first table, or a new one."""
    text = source.decode("utf-8-sig")
    top = re.search(r"^[ \t]*\[", text, re.MULTILINE)
    end = top.start() if top else len(text)
    line, found = f"trials = {trials}", r"^[ \t]*\"?trials\"?[ \t]*=.*$"
    head, count = re.subn(found, line, text[:end], count=1, flags=re.MULTILINE)
    return ((head if count else f"{line}\n{head}") + text[end:]).encode()


def _structure(file: Path, written: Keys, source: bytes) -> Experiment:
    valid, mistakes = [*keys_of(Top), *SECTIONS], Mistakes()
    for key, value in written.items():
        with mistakes.collected():
            if key not in valid:
                remedy = instead("", key) if not isinstance(value, dict | list) else None
                raise Problem((), key, f"= {show(value)} is not a key here; {remedy or suggest(key, valid)}")
    mistakes.tell()
    tables = {key: _table(written, key) for key in _TABLES}
    lists = {key: _list(written, key) for key in _LISTS}
    top = {key: value for key, value in written.items() if key not in SECTIONS}
    with mistakes.collected():
        check_written(Top, top, (), fixed=("trials", "captures", "per_flow", "precision"))
    study = _is_study(written)
    if not tables["link"] and not study:
        raise Problem((), "", "has no link; add a [link.NAME] with rate and qdisc")
    if not lists["flow"] and not study:
        raise Problem((), "", 'has no flow; add a [[flow]] such as name = "a", cc = "cubic", rtt = "10ms"')
    links, impairs, tunnels = (_named(section, tables[section]) for section in ("link", "impair", "tunnel"))
    for name, table in links.items():
        with mistakes.collected():
            _name_ok(name, ("link", name))
            check_written(Link, table, ("link", name))
    flows = _flows_by_name(lists["flow"])
    for name, table in flows.items():
        with mistakes.collected():
            check_written(flow_model(table, name), table, ("flow", name))
    changes = [_flat(table, numbered("at", number)) for number, table in enumerate(lists["at"], start=1)]
    for name, table in impairs.items():
        with mistakes.collected():
            _name_ok(name, ("impair", name))
            check_written(Impair, table, ("impair", name))
    for name, table in tunnels.items():
        with mistakes.collected():
            _name_ok(name, ("tunnel", name))
            check_written(Tunnel, table, ("tunnel", name))
    mistakes.tell()
    document = Document(
        link=links,
        impair=impairs,
        tunnel=tunnels,
        flow=flows,
        at=changes,
        rewrite=[check_written(Rewrite, one, numbered("rewrite", n)) for n, one in enumerate(lists["rewrite"], 1)],
        skip=lists["skip"],
        claim=lists["claim"],
        published=lists["published"],
        figure=lists["figure"],
        table=lists["table"],
        cause=lists["cause"],
        sweep=tables["sweep"],
        search=tables["search"],
        let=tables["let"],
        view=tables["view"],
        agree=tables["agree"],
    )
    factors, bundles = _sweep(document["sweep"])
    about = Top.model_construct(None, **top)
    return Experiment(
        name=file.stem,
        file=file,
        source=source,
        document=document,
        top=top,
        sections=[key for key in written if key in SECTIONS],
        title=about.title or file.stem,
        about=one_line(about.about),
        trials=about.trials,
        subset=about.subset,
        captures=about.captures,
        factors=factors,
        bundles=bundles,
        let=_let(document["let"], {*factors, *bundles}),
        views=_views(document["view"]),
        skips=_checked(document, Skip),
    )


def _table(written: Keys, key: str) -> Keys:
    table = written.get(key, {})
    if isinstance(table, dict):
        return table
    name = f"[{key}.NAME]" if key in ("link", "impair", "tunnel") else f"[{key}]"
    raise Problem((), key, f"= {show(table)} is not a table; write {name}")


def _list(written: Keys, key: str) -> list[Value]:
    tables = written.get(key, [])
    if isinstance(tables, list):
        return tables
    raise Problem((), key, f"= {show(tables)} is not a list of tables; write [[{key}]]")


def _named(section: str, tables: Keys) -> dict[str, Keys]:
    named: dict[str, Keys] = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            text = f"= {show(table)} stands in a table without a name; write [{section}.NAME]"
            raise Problem((section,), name, text)
        named[name] = table
    return named


def _is_study(written: Keys) -> bool:
    """Whether the file states things about experiments and describes none itself."""
    described = [key for key, value in written.items() if value and key not in ("title", "about", "view", *_STATEMENTS)]
    return not described and any(written.get(section) for section in _STATEMENTS if section != "cause")


def _checked(document: Document, model: type[AnyTable]) -> list[AnyTable]:
    section = model.section
    of_sections: Mapping[str, object] = document
    tables = of_sections[section]
    numbers = enumerate(tables if isinstance(tables, list) else (), start=1)
    found = [check(model, table, numbered(section, number)) for number, table in numbers]
    seen: set[str] = set()
    for name in [dict(one)["id"] for one in found if "id" in model.model_fields]:
        if wrong := paths.name_mistake(name):
            raise Problem((section,), "id", f"= {show(name)} is a name {wrong}")
        if name in seen:
            raise Problem((), section, f'id = "{name}" is used twice; give each its own id')
        seen.add(name)
    return found


def _name_ok(name: str, place: Place) -> None:
    if wrong := paths.name_mistake(name, _RESERVED):
        raise Problem(place, "", f"has a name {wrong}")


def _flows_by_name(flows: list[Value]) -> dict[str, Keys]:
    named: dict[str, Keys] = {}
    for number, table in enumerate(flows, start=1):
        place = numbered("flow", number)
        if not isinstance(table, dict):
            raise Problem(place, "", "is not a table; write [[flow]]")
        name = table.get("name")
        if name is None:
            raise Problem(place, "", 'has no name; add it, such as name = "l4s"')
        if not isinstance(name, str):
            raise Problem(place, "name", f'= {show(name)} is not text; write it such as name = "l4s"')
        _name_ok(name, place)
        if name in named:
            raise Problem(place, "name", f"= {show(name)} is the name of an earlier flow; give each its own name")
        named[name] = table
    return named


def _flat(table: Value, place: Place) -> Keys:
    """A table with nested tables as dotted keys, so that quoted and bare dotted keys mean the same."""
    if not isinstance(table, dict):
        raise Problem(place, "", "is not a table of keys and values")
    flat: Keys = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat.update({f"{key}.{inner}": v for inner, v in _flat(value, place).items()})
        else:
            flat[key] = value
    return flat


def _sweep(raw: Keys) -> tuple[dict[str, list[Level]], dict[str, list[Bundle]]]:
    factors: dict[str, list[Level]] = {}
    bundles: dict[str, list[Bundle]] = {}
    for key, written in _flat(raw, ("sweep",)).items():
        levels, settings = read_levels("sweep", key, written)
        if settings:
            bundles[key] = settings
        else:
            factors[key] = levels
    return factors, bundles


def read_levels(section: str, key: str, levels: object) -> tuple[list[Level], list[Bundle]]:
    """The levels of a factor and, where they are bundles, what each sets. Raises Problem."""
    place = (section, f'"{key}"' if "." in key else key)
    if not isinstance(levels, list):
        raise Problem(place, "", f"= {show(levels)} is not a list of levels; write [{show(levels)}]")
    if not levels:
        raise Problem(place, "", "= [] has no levels; give at least one, or remove it")
    settings: list[Bundle] = []
    names = levels
    if all(isinstance(level, dict) for level in levels):
        settings = [_bundle(section, key, number, level) for number, level in enumerate(levels, start=1)]
        names = [one.level for one in settings]
    for position, level in enumerate(names):
        if not isinstance(level, str | int | float):
            raise Problem(place, "", f"has the level {show(level)}; a level is text, a number, true or false")
        if any(level == other and type(level) is type(other) for other in names[:position]):
            raise Problem(place, "", f"has the level {show(level)} twice; remove one")
    return names, settings


def _bundle(section: str, key: str, number: int, raw: Keys) -> Bundle:
    place = numbered(f"{section}.{key}", number)
    if "level" not in raw:
        raise Problem(place, "", 'has no level; add its name such as level = "pie"')
    level = raw["level"]
    if isinstance(level, bool) or not isinstance(level, str | int | float):
        raise Problem(place, "level", f"= {show(level)} is neither text nor a number; name the level")
    return Bundle(level, {name: value for name, value in _flat(raw, place).items() if name != "level"})


def _let(raw: Keys, factors: Iterable[str]) -> dict[str, str]:
    taken = {name.lower() for name in factors}
    let: dict[str, str] = {}
    for name, expression in raw.items():
        if isinstance(expression, bool) or not isinstance(expression, str | int | float):
            raise Problem(("let",), name, f'= {show(expression)} is not an SQL expression; write it as text, "..."')
        if name.lower() in taken:
            raise Problem(("let",), name, "is already the name of a factor or of another value; choose another name")
        taken.add(name.lower())
        let[name] = str(expression)
    return let


def _views(raw: Keys) -> dict[str, str]:
    for name, query in raw.items():
        if not re.fullmatch(r"(?!all_)[a-z][a-z0-9_]*", name):
            text = "is not the name of a view; write small letters, digits and _, and not all_ in front"
            raise Problem(("view",), name, text)
        if not isinstance(query, str):
            raise Problem(("view",), name, f'= {show(query)} is not an SQL query; write it as text, "select ..."')
    return {name: str(query) for name, query in raw.items()}
