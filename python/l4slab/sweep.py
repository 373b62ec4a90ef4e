"""From an experiment file to its runs: the full factorial, derived values, exclusions, trials.

The order in which a combination is made: factors over dotted keys, bundles, `[let]`, `[[skip]]`, `{names}`
filled in, then the checks of `l4slab.spec`. Expressions are SQL, evaluated by DuckDB over one row per
combination, in SI units: rates in bit/s, times in s, sizes in bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import duckdb
import polars as pl
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from l4slab import metrics
from l4slab.engines import get_engine
from l4slab.errors import InputError, one_line, suggest
from l4slab.spec import Experiment, Level, Resolver, keys_of, show
from l4slab.spec.tables import TOP_FACTORS, Impair, Link, Top
from l4slab.spec.traffic import Flow, flow_model
from l4slab.spec.wording import told
from l4slab.units import si

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_FILLED = ("link", "flow", "at", "impair", "rewrite")
# Sections whose keys may be swept, and their models; a flow's is that of its kind.
_SETTABLE: dict[str, type[BaseModel]] = {"link": Link, "flow": Flow, "impair": Impair}

Origin = dict[tuple[str, ...], str]


@dataclass(frozen=True)
class Run:
    """One simulation: what the engine is told (`description`), its id, and how the file calls it."""

    experiment: str
    trial: int
    factors: Mapping[str, Level | None]
    description: Mapping[str, Any]
    engine: str
    version: str  # of the engine
    captures: bool = False  # wanted; they are not part of the results, hence not of the id

    @cached_property
    def json(self) -> str:
        """The description as canonical JSON, which is what engines take."""
        return canonical_json(self.description)

    @cached_property
    def id(self) -> str:
        """16 hex digits that depend on description and engine only: results of different builds never mix."""
        text = f'{{"engine":"{self.engine}","version":"{self.version}","run":{self.json}}}'
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        levels = "".join(f", {name} = {level}" for name, level in self.factors.items() if level is not None)
        return f"{self.experiment}{levels}, trial {self.trial}"


@dataclass(frozen=True)
class Plan:
    """The runs of one experiment in sweep order, and what was left out."""

    experiment: Experiment
    runs: list[Run]
    combinations: int
    skipped: dict[str, int] = field(default_factory=dict)
    collapsed: int = 0
    without_effect: list[str] = field(default_factory=list)
    lacking: dict[str, int] = field(default_factory=dict)  # left out because the engine cannot do them
    chosen: frozenset[str] | None = None  # the ids of a subset that is to run now; None: all

    @property
    def factors(self) -> dict[str, list[Level]]:
        """Every factor with its levels, as written."""
        return levels_of(self.experiment)

    @property
    def todo(self) -> list[Run]:
        """The runs that are to run now."""
        return self.runs if self.chosen is None else [run for run in self.runs if run.id in self.chosen]

    def notes(self) -> list[str]:
        """What the user should know about the sweep, a sentence each."""
        name = self.experiment.name
        notes = [f"{name}: {len(self.todo)} of {len(self.runs)} runs are chosen."] if self.chosen is not None else []
        notes += [
            f"{name}: {count} of {self.combinations} combinations are left out: {why}."
            for why, count in self.skipped.items()
        ]
        notes += [f"{name}: {count} runs are left out: {why}." for why, count in self.lacking.items()]
        if self.collapsed:
            what = ", ".join(self.without_effect)
            notes.append(
                f"{name}: {self.collapsed} of {self.combinations} combinations are the same experiment as another one "
                f"and run only once ({what} has no effect there)."
            )
        return notes


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def trial_seed(seed: int, trial: int) -> int:
    """The seed of a trial, the same for every combination of a sweep (common random numbers)."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{trial}".encode()).digest()[:8]) >> 1


def levels_of(experiment: Experiment) -> dict[str, list[Level]]:
    """Every factor of the sweep with its levels, as written, in file order."""
    order = list(experiment.document["sweep"])
    bundles = {name: [level["level"] for level in levels] for name, levels in experiment.bundles.items()}
    both = experiment.factors | bundles
    return dict(sorted(both.items(), key=lambda item: order.index(item[0]) if item[0] in order else -1))


@dataclass(frozen=True)
class Where:
    """Which runs of a sweep to do: an SQL condition over what [[skip]] sees and `trial`, and who asks for it."""

    sql: str
    place: str  # "--where", or a key of the file


class UnknownNameError(InputError):
    """A condition mentions a name that this file has not got."""


@dataclass
class _Combination:
    levels: dict[str, Level]
    document: dict[str, Any]
    top: dict[str, Any]
    origin: Origin
    values: dict[str, Any] = field(default_factory=dict)
    chosen: set[int] = field(default_factory=set)  # trials


def expand(experiment: Experiment, engine: str, where: Where | None = None) -> Plan:
    """Every run that the file describes, and which of them `where` chooses.

    Raises InputError for anything wrong in it, UnknownNameError where `where` is about other factors than the file's.
    """
    if experiment.is_study:
        return Plan(experiment, [], 0)
    _check_factor_names(experiment)
    levels = levels_of(experiment)
    targets = _targets(experiment)
    combinations = [
        _set_levels(experiment, dict(zip(levels, choice, strict=True)), targets)
        for choice in itertools.product(*levels.values())
    ]
    skipped: dict[str, int] = {}
    kept = []
    for combination, reason in _evaluate(experiment, combinations, where):
        if reason is None:
            kept.append(combination)
        else:
            skipped[reason] = skipped.get(reason, 0) + 1
    if not kept:
        raise InputError("every combination is left out by [[skip]]; relax a condition", file=experiment.file)

    resolver = Resolver(experiment.file)
    groups: dict[str, tuple[dict[str, Any], list[_Combination]]] = {}
    for combination in kept:
        _fill(experiment, combination)
        description = resolver.resolve(combination.document, combination.top, combination.origin)
        groups.setdefault(canonical_json(description), (description, []))[1].append(combination)
    runs = []
    version = get_engine(engine).version()
    chosen = set()
    without_effect: dict[str, None] = {}
    for text, (description, members) in groups.items():
        labels = _labels(members, levels)
        without_effect |= {name: None for name in levels if len({_typed(m.levels[name]) for m in members}) > 1}
        for trial in range(1, experiment.trials + 1):
            seeded = description | {"seed": trial_seed(description["seed"], trial)}
            captures = experiment.captures == "all trials" or (experiment.captures == "first trial" and trial == 1)
            runs.append(Run(experiment.name, trial, labels, seeded, engine, version, captures))
            # Tens of thousands of times: the trials of a combination differ in the seed only.
            vars(runs[-1])["json"] = _with_seed(text, description["seed"], seeded)
            if where is not None and any(trial in member.chosen for member in members):
                chosen.add(runs[-1].id)
    collapsed = len(kept) - len(groups)
    subset = None if where is None else frozenset(chosen)
    return Plan(experiment, runs, len(combinations), skipped, collapsed, list(without_effect), chosen=subset)


def _with_seed(text: str, seed: int, seeded: Mapping[str, Any]) -> str:
    """`canonical_json(seeded)`, from that of a description that has only another seed."""
    before, *after = text.split(f'"seed":{seed},')
    return f'{before}"seed":{seeded["seed"]},{after[0]}' if len(after) == 1 else canonical_json(seeded)


def _typed(level: Level) -> tuple[str, Level]:
    return type(level).__name__, level


def _labels(members: list[_Combination], levels: dict[str, list[Level]]) -> dict[str, Level | None]:
    """The levels by which a run is known: NULL where every level of a factor gives this same run."""
    labels: dict[str, Level | None] = {}
    for name, all_levels in levels.items():
        found = {_typed(member.levels[name]) for member in members}
        labels[name] = None if 1 < len(found) == len(all_levels) else members[0].levels[name]
    return labels


def _check_factor_names(experiment: Experiment) -> None:
    taken = {name.lower() for name in metrics.all_columns()}
    for name in levels_of(experiment):
        if name.lower() in taken:
            raise InputError(
                "is the name of a result column or of another factor; choose another name",
                file=experiment.file,
                key=f"sweep.{name}",
            )
        taken.add(name.lower())


# -- settings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Target:
    """One place that a dotted key names: `("flow", "l4s")` and the keys below it."""

    table: tuple[str, ...]
    path: tuple[str, ...]


def _targets(experiment: Experiment) -> dict[str, list[_Target]]:
    """Where each dotted key of the sweep leads; free factors are absent."""
    targets: dict[str, list[_Target]] = {}
    for name in experiment.factors:
        if "." in name or name in TOP_FACTORS:
            targets[name] = _find(experiment, name, f'sweep."{name}"')
        elif not _is_used(experiment, name):
            keys = _settable(experiment)
            same = [key for key in keys if key.endswith(f".*.{name}")]
            remedy = (
                f'did you mean "{same[0]}"?' if same else f"use it as {{{name}}} or in [let] or [[skip]], or remove it"
            )
            raise InputError(f"is a factor that changes nothing; {remedy}", file=experiment.file, key=f"sweep.{name}")
    for factor, bundle in experiment.bundles.items():
        for level in bundle:
            for key in level:
                if key != "level" and key not in targets:
                    targets[key] = _find(experiment, key, f'sweep.{factor} level {show(level["level"])}: "{key}"')
    return targets


def _is_used(experiment: Experiment, name: str) -> bool:
    expressions = [*experiment.let.values(), *(skip.when for skip in experiment.skips)]
    if any(_mentions(expression, name) for expression in expressions):
        return True
    written = json.dumps(
        [experiment.document[section] for section in (*_FILLED, "sweep")] + [experiment.top], default=str
    )
    return f"{{{name}}}" in written


def _mentions(expression: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", expression, re.IGNORECASE) is not None


def _settable(experiment: Experiment) -> list[str]:
    """The dotted keys a sweep may set."""
    keys = list(TOP_FACTORS)
    for section in _SETTABLE:
        tables = {name: _keys(section, name, table) for name, table in experiment.document[section].items()}
        keys += [f"{section}.*.{key}" for key in dict.fromkeys(key for names in tables.values() for key in names)]
        keys += [f"{section}.{name}.{key}" for name, names in tables.items() for key in names]
    return keys


def _model(section: str, name: str, table: Mapping[str, Any]) -> type[BaseModel]:
    return flow_model(table, name) if section == "flow" else _SETTABLE[section]


def _keys(section: str, name: str, table: Mapping[str, Any]) -> list[str]:
    return [key for key in keys_of(_model(section, name, table)) if key != "name"]


def _find(experiment: Experiment, key: str, place: str) -> list[_Target]:
    document = experiment.document
    if key in TOP_FACTORS:
        return [_Target(("",), (key,))]
    section, _, rest = key.partition(".")
    name, _, setting = rest.partition(".")
    path = tuple(setting.split("."))
    tables = document.get(section) if section in _SETTABLE else None
    if tables is None or not setting or (len(path) > 1 and path[0] != "options"):
        remedy = suggest(key, _settable(experiment))
        raise InputError(f"is not a key that can be swept; {remedy}", file=experiment.file, key=place)
    if name != "*" and name not in tables:
        remedy = suggest(name, tables) if tables else f"the file has no [{section}.NAME]"
        raise InputError(f"names no {section} {show(name)}; {remedy}", file=experiment.file, key=place)
    named = {name: tables[name]} if name != "*" else tables
    found = []
    for one, table in named.items():
        if path[0] in _keys(section, one, table):
            found.append(_Target((section, one), path))
    if not found:
        valid = [k.rpartition(".")[2] for k in _settable(experiment) if k.startswith(f"{section}.{name}.")]
        raise InputError(
            f"sets an unknown key {show(path[0])}; {suggest(path[0], valid)}", file=experiment.file, key=place
        )
    return found


def _set_levels(experiment: Experiment, levels: dict[str, Level], targets: dict[str, list[_Target]]) -> _Combination:
    """The document with the levels of one combination set; `experiment.document` is not changed."""
    combination = _Combination(levels, dict(experiment.document), dict(experiment.top), {})
    # A key for all flows comes before one for a single flow, wherever they stand in the file.
    for name in sorted(experiment.factors, key=lambda name: "*" not in name):
        for target in targets.get(name, []):
            _set(combination, target, levels[name], f'sweep."{name}"')
    for factor, bundle in experiment.bundles.items():
        chosen = next(level for level in bundle if _typed(level["level"]) == _typed(levels[factor]))
        for key, value in chosen.items():
            for target in targets[key] if key != "level" else []:
                _set(combination, target, value, f"sweep.{factor} level {show(chosen['level'])}")
    with told(experiment.file, combination.origin):
        for name, flow in combination.document["flow"].items():
            flow_model(flow, name)
    return combination


def _set(combination: _Combination, target: _Target, value: object, origin: str) -> None:
    section, *name = target.table
    if not section:
        combination.top[target.path[0]] = value
        combination.origin[target.path] = origin
        return
    tables = dict(combination.document[section])
    table = tables[name[0]] = dict(tables[name[0]])
    for part in target.path[:-1]:
        inner = table.get(part)
        table[part] = dict(inner) if isinstance(inner, dict) else {}
        table = table[part]
    table[target.path[-1]] = value
    combination.document[section] = tables
    combination.origin[(*target.table, target.path[0])] = origin


# -- expressions ------------------------------------------------------------------------------------------------------


def _evaluate(
    experiment: Experiment, combinations: list[_Combination], where: Where | None
) -> Iterator[tuple[_Combination, str | None]]:
    """Each combination with its [let] values and chosen trials, and why it is left out, or None."""
    expressions = {f"let.{name}": text for name, text in experiment.let.items()}
    expressions |= {f"[[skip]] no. {n}: when": skip.when for n, skip in enumerate(experiment.skips, start=1)}
    if not expressions and where is None:
        yield from ((combination, None) for combination in combinations)
        return
    text = " ".join([*expressions.values(), where.sql if where else ""])
    columns, differing = _sql_columns(experiment, combinations, text)
    with duckdb.connect(config={"enable_external_access": "false", "threads": "1"}) as connection:
        connection.register("combinations_0", _frame(columns, len(combinations)).to_arrow())
        table = "combinations_0"
        for number, (place, expression) in enumerate(expressions.items(), start=1):
            column = place.removeprefix("let.") if place.startswith("let.") else f" skip {number}"
            previous, table = table, f"combinations_{number}"
            try:
                _one_expression(connection, expression)
                connection.execute(
                    f'create table {table} as select *, ({expression}) as "{column}" from {previous} order by " row"'
                )
            except duckdb.Error as error:
                raise _not_evaluated(experiment, combinations[0], expression, place, differing, error) from None
        if where is not None:
            try:
                _one_expression(connection, where.sql)
                trials = f"(select unnest(range(1, {experiment.trials + 1})) as trial)"
                for row, trial in connection.execute(
                    f'select " row", trial from {table} cross join {trials} where ({where.sql})'
                ).fetchall():
                    combinations[row].chosen.add(trial)
            except duckdb.Error as error:
                raise _not_evaluated(experiment, combinations[0], where.sql, where.place, differing, error) from None
        cursor = connection.execute(f'select * from {table} order by " row"')
        names = [column[0] for column in cursor.description or []]
        rows = cursor.fetchall()
    for combination, row in zip(combinations, rows, strict=True):
        found = dict(zip(names, row, strict=True))
        combination.values = {name: found[name] for name in experiment.let}
        yield combination, _skip_reason(experiment, found)


def _not_evaluated(
    experiment: Experiment,
    combination: _Combination,
    expression: str,
    place: str,
    differing: Mapping[str, str],
    error: duckdb.Error,
) -> InputError:
    """What is wrong with an expression of the file, or of the command line."""
    reason = sql_reason(error)
    unknown = re.match(r'Referenced column "([^"]*)" not found', reason)
    ambiguous = next((name for name in differing if _mentions(expression, name)), None)
    kind = InputError
    if ambiguous:
        reason = f'"{ambiguous}" differs between links or flows; write it in full, such as "{differing[ambiguous]}"'
    elif unknown:
        kind = UnknownNameError
        keys = {key: None for _, key in _scalar_keys(combination)}
        own = place.removeprefix("let.")
        known = [*levels_of(experiment), *(name for name in experiment.let if name != own), *keys]
        reason = f'there is no "{unknown[1]}" here; {suggest(unknown[1], known)}'
    return kind(f"= {show(expression)} cannot be evaluated: {reason}", file=experiment.file, key=place)


def _one_expression(connection: duckdb.DuckDBPyConnection, expression: str) -> None:
    """Refuse text that closes the parenthesis it is put into."""
    if len(connection.extract_statements(f"select ({expression})")) != 1:
        raise duckdb.ParserException("more than one expression")


def _skip_reason(experiment: Experiment, row: Mapping[str, Any]) -> str | None:
    for number, skip in enumerate(experiment.skips, start=1):
        verdict = row[f" skip {len(experiment.let) + number}"]
        if not isinstance(verdict, bool):
            what = "NULL" if verdict is None else show(verdict)
            raise InputError(
                f"= {show(skip.when)} gives {what} for {_row_text(experiment, row)}; "
                "write a condition that is true or false",
                file=experiment.file,
                key=f"[[skip]] no. {number}: when",
            )
        if verdict:
            return one_line(skip.why or skip.when).rstrip(".")
    return None


def _row_text(experiment: Experiment, row: Mapping[str, Any]) -> str:
    levels = [f"{name} = {row[name]}" for name in levels_of(experiment) if name in row]
    return ", ".join(levels) or "the only combination"


def _sql_columns(
    experiment: Experiment, combinations: list[_Combination], text: str
) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """The columns that `text` may mention, a value per combination, and the plain names that are ambiguous."""
    columns: dict[str, list[Any]] = {}
    for name, levels in levels_of(experiment).items():
        in_si: list[object] = [si(level) for level in levels] if name in experiment.factors else list(levels)
        if not metrics.is_numeric(in_si) and not all(isinstance(level, bool) for level in levels):
            in_si = [str(level) for level in levels]
        value_of = dict(zip(map(_typed, levels), in_si, strict=True))
        columns[name] = [value_of[_typed(combination.levels[name])] for combination in combinations]

    resolved: dict[str, list[Any]] = {}
    plain: dict[str, list[str]] = {}
    for place, key in _scalar_keys(combinations[0]):
        dotted = ".".join((*place, key)) if place else key
        if _mentions(text, key) or dotted in text:
            resolved[dotted] = [_scalar(combination, place, key) for combination in combinations]
            plain.setdefault(key, []).append(dotted)
    ambiguous: dict[str, str] = {}
    taken = {name.lower() for name in (*columns, *experiment.let)}
    for key, places in plain.items():
        same = [resolved[dotted] for dotted in places]
        written = [values for values in same if any(value is not None for value in values)]
        if key.lower() in taken or not written:
            continue
        if all(values == written[0] for values in written):
            columns[key] = written[0]
        else:
            ambiguous[key] = places[0]
    columns |= {dotted: values for dotted, values in resolved.items() if dotted not in columns}
    return columns, ambiguous


def _scalar_keys(combination: _Combination) -> Iterator[tuple[tuple[str, ...], str]]:
    for key in TOP_FACTORS:
        yield (), key
    for section in ("link", "flow"):
        for name, table in combination.document[section].items():
            for key in _keys(section, name, table):
                if key not in ("path", "reverse_path", "options"):
                    yield (section, name), key


def _scalar(combination: _Combination, place: tuple[str, ...], key: str) -> Any:
    """A key's value in SI units, its default where it is not written, None where it has none."""
    table: Mapping[str, Any] = combination.top
    model: type[BaseModel] = Top
    if place:
        table = combination.document[place[0]][place[1]]
        model = _model(place[0], place[1], table)
    if key in table:
        return si(table[key])
    default: Any = model.model_fields[key].default if key in model.model_fields else PydanticUndefined
    return None if default is PydanticUndefined else si(default)


def _frame(columns: Mapping[str, list[Any]], rows: int) -> pl.DataFrame:
    series = [pl.Series(" row", range(rows), dtype=pl.Int64)]
    for name, values in columns.items():
        present = [value for value in values if value is not None]
        if all(isinstance(value, bool) for value in present):
            series.append(pl.Series(name, values, dtype=pl.Boolean))
        elif metrics.is_numeric(present):
            series.append(pl.Series(name, values, dtype=pl.Float64, strict=False))
        else:
            series.append(pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String))
    return pl.DataFrame(series)


def sql_reason(error: duckdb.Error) -> str:
    """DuckDB's message as one sentence part, without its copy of the query."""
    text = re.sub(r"^\w+ Error: ", "", str(error).split("\n\nLINE ")[0])
    return one_line(re.sub(r"[.!]?\n+", "; ", text)).rstrip(".;! ")


# -- placeholders -----------------------------------------------------------------------------------------------------


def _fill(experiment: Experiment, combination: _Combination) -> None:
    """Put levels and [let] values into the {names} of the document's strings."""
    for section in _FILLED:
        combination.document[section] = _filled(experiment, combination, combination.document[section], section)
    combination.top = {
        key: value if key == "title" else _filled(experiment, combination, value, key)
        for key, value in combination.top.items()
    }


def _filled(experiment: Experiment, combination: _Combination, value: Any, place: str) -> Any:
    if isinstance(value, dict):
        return {key: _filled(experiment, combination, inner, f"{place}.{key}") for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(experiment, combination, inner, place) for inner in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    names = {**combination.levels, **combination.values}

    def text_of(match: re.Match[str]) -> str:
        name = match[1].strip()
        if name not in names:
            remedy = suggest(name, names) if names else "no factor or [let] value exists"
            raise InputError(
                f"= {show(value)} has {{{name}}}, which is neither a factor nor in [let]; {remedy}",
                file=experiment.file,
                key=place,
            )
        if names[name] is None:
            levels = ", ".join(f"{factor} = {level}" for factor, level in combination.levels.items())
            raise InputError(
                f"= {show(experiment.let[name])} is NULL where it is needed ({levels}); correct the expression",
                file=experiment.file,
                key=f"let.{name}",
            )
        return _plain_text(names[name])

    return _PLACEHOLDER.sub(text_of, value)


def _plain_text(value: Any) -> str:
    """A value as it would be typed: no exponent, no trailing ".0"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    if not isinstance(value, float | Decimal):
        return str(value)
    number = float(value)
    return str(int(number)) if number.is_integer() else format(Decimal(repr(number)), "f")
