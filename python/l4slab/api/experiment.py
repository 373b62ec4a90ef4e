"""An experiment from Python: the tables of the file as objects, written out as the file, and read from it.

The models are those that check files (`l4slab.experimentfile`, `claims`, `published`, `figures`, `bars`), so
docs/experiment-file.md also describes the keys, units, defaults and ranges here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, Field, InstanceOf, SkipValidation

from l4slab import experimentfile
from l4slab.base.errors import InputError
from l4slab.base.values import Value
from l4slab.experimentfile import Level, Table, show
from l4slab.experimentfile.tables import Impair, Link, Rewrite, Skip, Top
from l4slab.experimentfile.traffic import AnyFlow, flow_model
from l4slab.experimentfile.tunnels import Tunnel
from l4slab.results.bars import Cause
from l4slab.results.claims import Claim
from l4slab.results.figures import Figure, RunTable
from l4slab.results.published import Published
from l4slab.sweep import levels_of

if TYPE_CHECKING:
    from tomlkit.items import Item

# Tables have headings down to this depth, [link.bottleneck]; deeper ones are written on one line.
_DEEPEST = 2

# In the file, [link.NAME] and [[flow]].
_SECTIONS = {
    "links": "link", "flows": "flow", "impairs": "impair", "tunnels": "tunnel", "rewrites": "rewrite", "skips": "skip",
    "views": "view", "claims": "claim", "figures": "figure", "tables": "table", "causes": "cause",
}  # fmt: skip

One = TypeVar("One")
Named = Annotated[Mapping[str, InstanceOf[One]], AfterValidator(dict)]
Many = Annotated[Sequence[InstanceOf[One]], AfterValidator(list)]


def _file_name(name: str) -> str:
    if not name.strip() or set(name) & set('/\\\0"'):
        raise ValueError('is not the name of a file; use letters, digits, _ and -, such as "prague"')
    return name


class Experiment(Top):
    """An experiment: links, flows, factors and claims. Raises InputError.

    `name` corresponds to a file's name and to the column `experiment` of the results. `at` has the changes during a
    run, such as `{"time": "20s", "link.bottleneck.rate": "5Mbit"}`. `sweep` has the levels of each factor, or bundles
    of settings, `{"aqm": [{"level": "FIFO", "link.bottleneck.qdisc": "pfifo"}, ...]}`. `let` has SQL expressions,
    `views` SQL queries. `agree` and `search` have the keys of `[agree]` and `[search]`. A run checks the sweep,
    `{names}` and SQL.
    """

    name: Annotated[str, AfterValidator(_file_name)] = "experiment"
    links: Named[Link] = Field(default={})
    flows: Many[AnyFlow] = Field(default=[])
    at: SkipValidation[Sequence[Mapping[str, str]]] = Field(default=[])
    impairs: Named[Impair] = Field(default={})
    tunnels: Named[Tunnel] = Field(default={})
    rewrites: Many[Rewrite] = Field(default=[])
    sweep: SkipValidation[Mapping[str, Sequence[Level] | Sequence[Mapping[str, object]]]] = Field(default={})
    search: SkipValidation[Mapping[str, object]] = Field(default={})
    let: SkipValidation[Mapping[str, Level]] = Field(default={})
    skips: Many[Skip] = Field(default=[])
    views: SkipValidation[Mapping[str, str]] = Field(default={})
    claims: Many[Claim] = Field(default=[])
    published: Many[Published] = Field(default=[])
    figures: Many[Figure] = Field(default=[])
    tables: Many[RunTable] = Field(default=[])
    agree: SkipValidation[Mapping[str, object]] = Field(default={})
    causes: Many[Cause] = Field(default=[])

    def written(self) -> dict[str, object]:
        """The document of the file, as `tomllib` reads it."""
        found = {_SECTIONS.get(name, name): value for name, value in super().written().items() if name != "name"}
        return {key: _plain(value, key) for key, value in found.items()}

    def to_toml(self) -> str:
        """The text of the experiment file. Raises InputError where a value is nothing that a file can hold."""
        return to_toml(self.written())

    @classmethod
    def from_toml(cls, text: str, name: str = "experiment") -> Self:
        """The experiment of a file; `name` is the file's name without .toml. Raises InputError.

        A key that only the sweep sets is not an attribute of its table.
        """
        found = experimentfile.parse(text.encode(), Path(name))
        document = found.document
        made: dict[str, object] = {"at": document["at"], "let": document["let"], "agree": document["agree"]}
        made |= {"search": document["search"], "views": found.views}
        bundles = {factor: [bundle.written() for bundle in bundles] for factor, bundles in found.bundles.items()}
        levels = {**found.factors, **bundles}
        made["sweep"] = {factor: levels[factor] for factor in levels_of(found)}
        made["flows"] = [
            flow_model(table, name).model_construct(None, **table) for name, table in document["flow"].items()
        ]
        made["links"] = {name: Link.model_construct(None, **table) for name, table in document["link"].items()}
        made["impairs"] = {name: Impair.model_construct(None, **table) for name, table in document["impair"].items()}
        made["tunnels"] = {name: Tunnel.model_construct(None, **table) for name, table in document["tunnel"].items()}
        made["rewrites"] = [Rewrite.model_construct(None, **table) for table in document["rewrite"]]
        made |= {"skips": found.tables(Skip), "claims": found.tables(Claim), "published": found.tables(Published)}
        made |= {"figures": found.tables(Figure), "tables": found.tables(RunTable), "causes": found.tables(Cause)}
        made = {key: value for key, value in made.items() if value}
        return cls.model_construct(None, **found.top, name=name, **made)


# What `l4slab.run` takes: a file, an experiment, or the document of a file.
Described = Path | str | Experiment | Mapping[str, object]
_DESCRIBED = (Path, str, Experiment, Mapping)


def load(
    described: Described, trials: Mapping[str, int], changes: Mapping[str, Value] | None = None
) -> experimentfile.Experiment:
    """An experiment with its structure checked; `trials` are other numbers of them, by name, `changes` other values of
    every experiment, by dotted key. Raises InputError.
    """
    if isinstance(described, Path | str):
        return experimentfile.load(described, trials.get(Path(described).stem), changes)
    name = described.name if isinstance(described, Experiment) else "experiment"
    written = described.written() if isinstance(described, Experiment) else described
    document = {key: _plain(value, key) for key, value in written.items()}
    return experimentfile.parse(to_toml(document).encode(), Path(name), trials.get(name), changes)


def listed(described: Described | Sequence[Described]) -> list[Described]:
    """One or several, as a list. Raises InputError for what is no experiment."""
    one = isinstance(described, _DESCRIBED) or not isinstance(described, Iterable)
    found: list[Any] = [described] if one else list(described)  # type: ignore[arg-type]
    for item in found:
        if not isinstance(item, _DESCRIBED):
            text = f"{show(item)} is of the type {type(item).__name__}"
            raise InputError(f"{text}; give the path of a file, an l4slab.Experiment or a dict like a file")
    return found


def _plain(value: object, place: str) -> Value:
    """As `tomllib` gives it."""
    if isinstance(value, Table):
        return _plain(value.written(), place)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, f"{place}.{key}".lstrip(".")) for key, inner in value.items()}
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(inner, place) for inner in value]
    raise InputError(
        f"= {value!r} is of the type {type(value).__name__}; write text, a number, true or false, or a list", key=place
    )


# -- writing ----------------------------------------------------------------------------------------------------------


def to_toml(document: Mapping[str, object]) -> str:
    """The text of a file that `tomllib` reads as this document."""
    import tomlkit

    file = tomlkit.document()
    for key, value in document.items():
        file.append(key, _item(value, 1))
    return tomlkit.dumps(file)


def _item(value: object, depth: int) -> Item:
    import tomlkit

    if isinstance(value, dict):
        table = tomlkit.table() if depth <= _DEEPEST else tomlkit.inline_table()
        # A heading ends the lines of a table: what stands before one of them, as a factor may, is a line, too.
        lines = [number for number, inner in enumerate(value.values()) if not _has_headings(inner)]
        for number, (key, inner) in enumerate(value.items()):
            table.append(key, _item(inner, _DEEPEST + 1 if number < max(lines, default=0) else depth + 1))
        return table
    if isinstance(value, list) and _has_headings(value) and depth <= _DEEPEST:
        tables = tomlkit.aot()
        for inner in value:
            tables.append(_item(inner, _DEEPEST))
        return tables
    if isinstance(value, list):
        array = tomlkit.array()
        for inner in value:
            array.append(_item(inner, _DEEPEST + 1))
        return array.multiline(_has_headings(value))
    if isinstance(value, str) and "\n" in value and "\r" not in value:
        return tomlkit.string(value, multiline=True)
    return tomlkit.item(value)


def _has_headings(value: object) -> bool:
    """Whether it is a table or a list of tables."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(inner, dict) for inner in value)
    return isinstance(value, dict)
