"""[let], [[skip]] and --where: SQL over one row per combination, evaluated by DuckDB.

Values are in SI units: rates in bit/s, times in s, sizes in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

import polars as pl
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from l4slab.base import frames, metrics
from l4slab.base.errors import InputError, one_line
from l4slab.base.hints import unquoted
from l4slab.base.units import si
from l4slab.experimentfile import Experiment, show
from l4slab.experimentfile.tables import TOP_FACTORS, Top
from l4slab.sweep.combination import Combination, Section, levels_of, mentions, model_of, sweepable, typed

if TYPE_CHECKING:
    import duckdb

# A value per combination, by the name that SQL has for it.
Columns = dict[str, list[object]]
_SECTIONS: tuple[Section, ...] = ("link", "flow")
# Section and name of a table; the top level has none.
_Place = tuple[()] | tuple[Section, str]


@dataclass(frozen=True)
class Where:
    """A selection of a sweep's runs: an SQL condition over the names of [[skip]] and `trial`, and its source."""

    sql: str
    place: str  # "--where", or a key of the file


class UnknownNameError(InputError):
    """A condition mentions a name that is not in this file."""


def evaluate(
    experiment: Experiment, combinations: list[Combination], where: Where | None
) -> Iterator[tuple[Combination, str | None]]:
    """Each combination with its [let] values and chosen trials, and why it is left out, or None."""
    expressions = {f"let.{name}": text for name, text in experiment.let.items()}
    expressions |= {f"[[skip]] no. {n}: when": skip.when for n, skip in enumerate(experiment.skips, start=1)}
    if not expressions and where is None:
        yield from ((combination, None) for combination in combinations)
        return
    import duckdb

    text = " ".join([*expressions.values(), where.sql if where else ""])
    columns, differing = _sql_columns(experiment, combinations, text)
    with frames.connect() as connection:
        frames.register(connection, "combinations_0", _frame(columns, len(combinations)))
        table = "combinations_0"
        for number, (place, expression) in enumerate(expressions.items(), start=1):
            column = place.removeprefix("let.") if place.startswith("let.") else f" skip {number}"
            previous, table = table, f"combinations_{number}"
            try:
                _one_expression(connection, expression)
                chosen = f'select *, ({expression}) as "{column}" from {previous} order by " row"'
                connection.execute(f"create temp table {table} as {chosen}")
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
    combination: Combination,
    expression: str,
    place: str,
    differing: Mapping[str, str],
    error: duckdb.Error,
) -> InputError:
    """The mistake in an expression of the file or of the command line."""
    reason = sql_reason(error)
    if reason.endswith('at or near ")"') and ")" not in expression:  # the one that we put behind it
        reason = "it ends too early"
    unknown = re.match(r'Referenced column "([^"]*)" not found', reason)
    ambiguous = next((name for name in differing if mentions(expression, name)), None)
    kind = InputError
    dotted = [".".join((*where, key)) for where, key in _scalar_keys(combination)]
    if (remedy := unquoted(expression, [*dotted, *levels_of(experiment)])) is not None:
        reason = remedy
    elif ambiguous:
        full = differing[ambiguous]
        reason = f'"{ambiguous}" differs between links or flows; write which one, with double quotes: "{full}"'
    elif unknown:
        kind = UnknownNameError
        keys = {key: None for _, key in _scalar_keys(combination)}
        own = place.removeprefix("let.")
        known = [*levels_of(experiment), *(name for name in experiment.let if name != own), *keys]
        known = [name for name in known if name != unknown[1]]
        # Only conditions that select runs know the trials.
        known += ["trial"] if place in ("--where", "subset") else []
        if unknown[1] in experiment.let:
            reason = f'"{unknown[1]}" is no value yet; move it above'
        else:
            reason = f'there is no "{unknown[1]}" here; {_near(unknown[1], known, levels_of(experiment))}'
    return kind(f"= {show(expression)} cannot be evaluated: {reason}", file=experiment.file, key=place)


def _near(name: str, known: list[str], factors: Iterable[str]) -> str:
    """The remedy for an unknown name: near ones, and the factors of the file, which conditions are mostly about."""
    near = [f'"{one}"' for one in get_close_matches(name, known, n=3)]
    valid = ", ".join([*(f'"{one}"' if "." in one else one for one in factors), "trial"])
    if near:
        return f"did you mean {' or '.join(near)}, or a factor ({valid})?"
    return f"the factors are {valid}; text stands in single quotes"


def _one_expression(connection: duckdb.DuckDBPyConnection, expression: str) -> None:
    """Refuse text that closes the parenthesis it is put into."""
    import duckdb

    if len(connection.extract_statements(f"select ({expression})")) != 1:
        raise duckdb.ParserException("more than one expression")


def _skip_reason(experiment: Experiment, row: Mapping[str, object]) -> str | None:
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


def _row_text(experiment: Experiment, row: Mapping[str, object]) -> str:
    levels = [f"{name} = {row[name]}" for name in levels_of(experiment) if name in row]
    return ", ".join(levels) or "the only combination"


def _sql_columns(experiment: Experiment, combinations: list[Combination], text: str) -> tuple[Columns, dict[str, str]]:
    """The columns that `text` may mention, a value per combination, and the plain names that are ambiguous."""
    columns: Columns = {}
    for name, levels in levels_of(experiment).items():
        in_si: list[object] = [si(level) for level in levels] if name in experiment.factors else list(levels)
        if not metrics.is_numeric(in_si) and not all(isinstance(level, bool) for level in levels):
            in_si = [str(level) for level in levels]
        value_of = dict(zip(map(typed, levels), in_si, strict=True))
        columns[name] = [value_of[typed(combination.levels[name])] for combination in combinations]

    resolved: Columns = {}
    plain: dict[str, list[str]] = {}
    for place, key in _scalar_keys(combinations[0]):
        dotted = ".".join((*place, key)) if place else key
        if mentions(text, key) or dotted in text:
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


def _scalar_keys(combination: Combination) -> Iterator[tuple[_Place, str]]:
    for key in TOP_FACTORS:
        yield (), key
    for section in _SECTIONS:
        for name, table in combination.document[section].items():
            for key in sweepable(section, name, table):
                if key not in ("path", "reverse_path", "options", "env", "class", "filter"):
                    yield (section, name), key


def _scalar(combination: Combination, place: _Place, key: str) -> object:
    """A key's value in SI units, its default where it is not written, None where it has none."""
    table = combination.top
    model: type[BaseModel] = Top
    if place:
        section, name = place
        table = combination.document[section][name]
        model = model_of(section, name, table)
    if key in table:
        return si(table[key])
    default: object = model.model_fields[key].default if key in model.model_fields else PydanticUndefined
    return None if default is PydanticUndefined else si(default)


def _frame(columns: Columns, rows: int) -> pl.DataFrame:
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
