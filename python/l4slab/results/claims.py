"""Claims: statements checked by SQL over the result tables, in lists that are counted separately.

A study's statements, the statements that it disputes, and our own findings are three lists (`Kind`). `tally` counts
each.

In a claim, `flows`, `links` and the other tables of `metrics.TABLES` have the rows of the claim's experiment;
`all_flows`, `all_links` and so on have those of every experiment in the results folder. In a study file, both have all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import polars as pl
from pydantic import Field

from l4slab.base import frames, metrics
from l4slab.base.errors import InputError, one_line, suggest
from l4slab.base.hints import in_words, unmatched, unquoted
from l4slab.base.numbers import counted
from l4slab.base.values import Keys, Row, Value
from l4slab.experimentfile import Experiment, Table, show
from l4slab.sweep import Plan, columns_of, levels_of, sql_reason

if TYPE_CHECKING:
    import duckdb

# Key in the evidence of a claim: a hint about its query.
HINT = "hint"
# Keys in the evidence of a requirement without a verdict: the reason.
REASONS = ("not_applicable", "not_measured")
# DuckDB's types of numbers, and of a missing value.
_NUMBERS = ("DOUBLE", "FLOAT", "DECIMAL", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "U", "NULL")
# Verdicts on a publication's statements, as a person reads them; other verdicts are their own words.
_SHOWN = {
    ("statement", "holds"): "reproduced",
    ("statement", "fails"): "not reproduced",
    ("disputed", "fails"): "refuted",
    ("disputed", "holds"): "not refuted",
}
# In the order in which the lists are shown.
Kind = Literal["requirement", "statement", "disputed", "found", "claim"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_COUNTED: dict[Kind, str] = {
    "requirement": "{} of {} requirements met",
    "statement": "{} of {} statements of the study reproduced",
    "disputed": "{} of {} disputed statements refuted",
    "found": "{} of {} own findings hold",
    "claim": "{} of {} claims hold",
}


class ClaimRow(TypedDict):
    """A row of the table of claims."""

    experiment: str
    id: str
    says: str
    source: str
    kind: Kind
    beside: str | None
    recorded: str | None
    verdict: str
    evidence: str


class JudgedRow(ClaimRow):
    """A claim's row, with whether the verdict is the expected one of its list, and the one that the file records."""

    expected: bool
    as_recorded: bool


class Claim(Table):
    """A statement and the SQL that checks it."""

    section = "claim"
    id: str = Field(min_length=1, examples=['"A-smaller-share"'])
    says: str = ""
    source: str = ""
    kind: Literal["requirement", "statement", "found"] | None = Field(default=None, examples=['"found"'])
    expect: bool = Field(default=True, examples=["false"])
    beside: str | None = Field(default=None, examples=['"A-smaller-share"'])
    recorded: Literal["holds", "fails", "undecided"] | None = Field(default=None, examples=['"fails"'])
    sql: str = Field(examples=["\"select avg(share) < 0.25 from flows where flow = 'l4s'\""])

    @property
    def listed(self) -> Kind:
        """The list in which it counts. A claim with a source and without a kind is a statement."""
        if not self.expect:
            return "disputed"
        return self.kind or ("statement" if self.source else "claim")

    def mistake(self, raw: Keys) -> tuple[str, str] | None:  # noqa: ARG002
        if not self.expect and self.kind == "found":
            return "expect", "= false stands in a finding, which is to hold; remove it, or kind"
        if self.beside is not None and self.kind != "found":
            text = f'= {show(self.beside)} stands in a claim that is no finding; add kind = "found", or remove it'
            return "beside", text
        return None


@dataclass(frozen=True)
class Tally:
    """How the claims of one list came out: as expected, to the contrary, undecided, or with an error in the query.

    Requirements that do not apply are counted apart from all others.
    """

    kind: Kind
    expected: int
    contrary: int
    undecided: int
    errors: int = 0
    not_applicable: int = 0

    @property
    def text(self) -> str:
        """The count in words."""
        total = self.expected + self.contrary + self.undecided + self.errors
        others = [f"{self.contrary} not"] if self.contrary else []
        others += [f"{self.undecided} undecided"] if self.undecided else []
        others += [counted(self.errors, "error")] if self.errors else []
        others += [f"{self.not_applicable} not applicable"] if self.not_applicable else []
        return "; ".join([_COUNTED[self.kind].format(self.expected, total), *others])


def tally(claims: pl.DataFrame) -> list[Tally]:
    """The lists that have claims, each counted."""
    counts = claims.group_by("kind").agg(
        as_expected().sum().alias("expected"),
        pl.col("verdict").is_in(["holds", "fails"]).sum().alias("decided"),
        (pl.col("verdict") == "error").sum().alias("errors"),
        is_applicable().sum().alias("len"),
        (~is_applicable()).sum().alias("not_applicable"),
    )
    found = {row["kind"]: row for row in counts.iter_rows(named=True)}
    return [
        Tally(
            kind,
            row["expected"],
            row["decided"] - row["expected"],
            row["len"] - row["decided"] - row["errors"],
            row["errors"],
            row["not_applicable"],
        )
        for kind in KINDS
        if (row := found.get(kind)) is not None
    ]


def as_expected() -> pl.Expr:
    """Whether a claim's verdict is the one of its list: a disputed statement is expected to fail, any other to hold."""
    return pl.col("verdict") == pl.when(pl.col("kind") == "disputed").then(pl.lit("fails")).otherwise(pl.lit("holds"))


def is_applicable() -> pl.Expr:
    """Whether a requirement has an object in these results; of other claims, always."""
    reason = pl.col("evidence").str.json_path_match(f"$.{REASONS[0]}")
    return ~((pl.col("kind") == "requirement") & (pl.col("verdict") == "undecided") & reason.is_not_null())


def as_recorded() -> pl.Expr:
    """Whether a claim's verdict is the recorded one; where none is recorded, that of its list."""
    expected = pl.when(pl.col("kind") == "disputed").then(pl.lit("fails")).otherwise(pl.lit("holds"))
    return pl.col("verdict") == pl.coalesce("recorded", expected)


def shown_verdict(kind: str, verdict: str) -> str:
    """A verdict as tables and reports show it."""
    return _SHOWN.get((kind, verdict), verdict)


def connect(files: Iterable[str] = ()) -> duckdb.DuckDBPyConnection:
    """An empty database without access to the network, nor to files but these (absolute paths)."""
    import duckdb

    paths = ", ".join(map(quoted, files))
    if not paths:
        return frames.connect()
    connection = duckdb.connect(config={"threads": "1"})
    connection.execute(f"set allowed_paths = [{paths}]")
    connection.execute("set enable_external_access = false")
    return connection


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def show_experiment(connection: duckdb.DuckDBPyConnection, experiment: Experiment) -> None:
    """Make `flows`, `links` and the other tables the rows that a claim of this file is about, and make its [view].

    Raises InputError.
    """
    of_another = "select view_name from duckdb_views() where temporary and not internal and view_name not like 'all_%'"
    for (name,) in connection.execute(of_another).fetchall():
        connection.execute(f'drop view "{name}"')
    rows = "true" if experiment.is_study else f"experiment = {quoted(experiment.name)}"
    for table in metrics.TABLES:
        connection.execute(f"create or replace temp view {table} as select * from all_{table} where {rows}")
    for name, query in experiment.views.items():
        place = f"view.{name}:"
        if name in metrics.TABLES:
            raise InputError("is a table of results; choose another name", file=experiment.file, key=place[:-1])
        select(connection, query, experiment.file, place)
        connection.execute(f"create temp view {name} as {query.strip().rstrip(';')}")


def check(plans: Sequence[Plan]) -> None:
    """Prepare every claim's query. Raises InputError for the first that cannot run."""
    if not any(plan.experiment.tables(Claim) for plan in plans):
        return
    with connect_empty(plans) as connection:
        for plan in plans:
            show_experiment(connection, plan.experiment)
            claims = plan.experiment.tables(Claim)
            for claim in claims:
                _check_one(connection, plan.experiment, claim)
                if claim.beside is not None and claim.beside not in (others := [one.id for one in claims]):
                    text = f"= {show(claim.beside)} is not a claim of this file; {suggest(claim.beside, others)}"
                    raise InputError(f"beside {text}", file=plan.experiment.file, key=f'claim "{claim.id}":')


def connect_empty(plans: Sequence[Plan]) -> duckdb.DuckDBPyConnection:
    """A database with the tables that these plans will fill, empty."""
    levels: dict[str, list[Any]] = {}
    for plan in plans:
        for name, values in levels_of(plan.experiment).items():
            levels.setdefault(name, []).extend(values)
    labels = metrics.labels_schema(levels)
    connection = connect()
    for table, schema in _columns(plans).items():
        frames.register(connection, f"all_{table}", pl.DataFrame(schema=schema | labels))
    return connection


def connect_to(tables: Mapping[str, pl.DataFrame | Path]) -> duckdb.DuckDBPyConnection:
    """A database with these tables of results, in memory or in a Parquet file; one that is not given has no rows.

    DuckDB reads a file itself: it knows its size, so that it joins it to what is small, and reads only the columns and
    row groups that a query needs.
    """
    files = {name: str(table.absolute()) for name, table in tables.items() if isinstance(table, Path)}
    connection = connect(files.values())
    for name, schema in metrics.TABLES.items():
        table = tables[name] if name in tables else pl.DataFrame(schema=metrics.LABELS | schema)
        register(connection, f"all_{name}", table)
    return connection


def register(connection: duckdb.DuckDBPyConnection, name: str, table: pl.DataFrame | Path) -> None:
    """Make a frame or a Parquet file a table of a database."""
    if isinstance(table, Path):
        connection.execute(f"create temp view {name} as from read_parquet({quoted(str(table.absolute()))})")
    else:
        frames.register(connection, name, table)


def _columns(plans: Sequence[Plan]) -> dict[str, metrics.Schema]:
    """The contract's columns and those that the engine adds for the queues and controllers in use."""
    tables = {table: dict(schema) for table, schema in metrics.TABLES.items()}
    seen: set[tuple[str, ...]] = set()
    for experiment, run in ((plan.experiment, run) for plan in plans for run in plan.runs):
        places = [place for section in ("links", "at") for place in run.description[section]]
        qdiscs = [str(place["qdisc"]) for place in places if place.get("qdisc")]
        controllers = [str([flow.get(key) for key in ("kind", "cc", "options")]) for flow in run.description["flows"]]
        if (kinds := (run.engine, *qdiscs, *controllers)) in seen:
            continue
        seen.add(kinds)
        for table, schema in columns_of(experiment, run.engine, run.description).items():
            tables[table] |= {name: dtype for name, dtype in schema.items() if name not in tables[table]}
    return tables


def _check_one(connection: duckdb.DuckDBPyConnection, experiment: Experiment, claim: Claim) -> None:
    place = f'claim "{claim.id}":'
    first = str(select(connection, claim.sql, experiment.file, place).types[0])
    if first not in ("BOOLEAN", '"NULL"', "NULL"):
        raise InputError(
            f"sql = {show(claim.sql)} gives {first} in its first column; make it a comparison, which is true or false",
            file=experiment.file,
            key=place,
        )


def select(
    connection: duckdb.DuckDBPyConnection, sql: str, file: Path, place: str, columns: Iterable[str] = ()
) -> duckdb.DuckDBPyRelation:
    """The query of an experiment file, ready to run. Raises InputError unless it is one SELECT with these columns."""
    import duckdb

    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InputError(f"sql = {show(sql)} is not one SELECT query; write one", file=file, key=place)
        relation = connection.sql(sql)
    except duckdb.Error as error:
        columns = connection.table("all_flows").columns
        reason = unquoted(sql, columns) or in_words(sql, sql_reason(error), columns)
        text = f"sql = {show(sql)} is not valid SQL for these tables: {reason}"
        raise InputError(text, file=file, key=place) from None
    if missing := [name for name in columns if name not in relation.columns]:
        text = f"sql = {show(sql)} gives no column {missing[0]}; name the columns {', '.join(columns)}"
        raise InputError(text, file=file, key=place)
    return relation


def require_numbers(relation: duckdb.DuckDBPyRelation, names: Iterable[str], sql: str, file: Path, place: str) -> None:
    """Raises InputError unless these columns of the query, where it has them, are numbers."""
    for name, kind in zip(relation.columns, map(str, relation.types), strict=True):
        if name in names and not kind.strip('"').startswith(_NUMBERS):
            text = f"sql = {show(sql)} gives {kind} in its column {name}; make it a number"
            raise InputError(text, file=file, key=place)


def evaluate(experiments: Sequence[Experiment], tables: Mapping[str, pl.DataFrame | Path]) -> pl.DataFrame:
    """A row per claim with its verdict and evidence (see `metrics.CLAIMS`).

    `tables` are those of `metrics.TABLES` of all experiments, in memory or as Parquet files.
    """
    rows: list[Row] = []
    if not any(experiment.tables(Claim) for experiment in experiments):
        return pl.DataFrame(rows, schema=metrics.CLAIMS)
    with connect_to(tables) as connection:
        for experiment in sorted(experiments, key=lambda experiment: experiment.name):
            show_experiment(connection, experiment)
            names = _names(experiments if experiment.is_study else [experiment])
            for claim in experiment.tables(Claim):
                verdict, evidence = _verdict(
                    connection, claim, partial(_refutes_nothing, connection, experiment, claim)
                )
                if verdict in ("fails", "undecided") and (hint := unmatched(claim.sql, names)) is not None:
                    evidence[HINT] = hint
                rows.append(
                    {
                        "experiment": experiment.name,
                        "id": claim.id,
                        "says": one_line(claim.says),
                        "source": claim.source,
                        "kind": claim.listed,
                        "beside": claim.beside,
                        "recorded": claim.recorded,
                        "verdict": verdict,
                        "evidence": json.dumps(evidence, ensure_ascii=False),
                    }
                )
    return pl.DataFrame(rows, schema=metrics.CLAIMS)


def _names(experiments: Iterable[Experiment]) -> dict[str, list[str]]:
    """The texts that flows, links and factors have in the results of these experiments, by column."""
    names: dict[str, list[str]] = {}
    for experiment in experiments:
        for section in ("flow", "link"):
            names.setdefault(section, []).extend(experiment.document[section])
        for name, levels in levels_of(experiment).items():
            names.setdefault(name, []).extend(map(metrics.level_text, levels))
    return {name: list(dict.fromkeys(texts)) for name, texts in names.items()}


def _refutes_nothing(connection: duckdb.DuckDBPyConnection, experiment: Experiment, claim: Claim) -> bool:
    """Whether a claim fails without any rows, too: in SQL, NULL AND false is false, so a count of rows that are not
    there seems to refute it.
    """
    for table in metrics.TABLES:
        connection.execute(f"create or replace temp view {table} as select * from all_{table} where false")
    rows = connection.execute(claim.sql).fetchmany(2)
    show_experiment(connection, experiment)
    return len(rows) == 1 and rows[0][0] is False


def _verdict(
    connection: duckdb.DuckDBPyConnection, claim: Claim, refutes_nothing: Callable[[], bool]
) -> tuple[str, Keys]:
    import duckdb

    try:
        cursor = connection.execute(claim.sql)
        names = [column[0] for column in cursor.description or []]
        rows = cursor.fetchmany(2)
        connection.abort()
    except duckdb.Error as error:
        return "error", {"error": sql_reason(error)}
    if not rows:
        return "undecided", {"error": "the query gives no row"}
    if len(rows) > 1:
        return "error", {"error": "the query gives more than one row; make it one, such as with bool_and(...)"}
    evidence = {name: _plain(value) for name, value in zip(names[1:], rows[0][1:], strict=True)}
    match rows[0][0]:
        case None:
            return "undecided", evidence
        case False if set(evidence.values()) == {None} and claim.kind != "requirement" and refutes_nothing():
            return "undecided", evidence
        case bool(holds):
            return ("holds" if holds else "fails"), evidence
        case other:
            return "error", {**evidence, "error": f"the first column is {other!r}, neither true nor false"}


def _plain(value: object) -> Value:
    """A value of a result row as JSON has it."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, bool | int | float | str) or value is None else one_line(str(value))


def unexpected(claims: pl.DataFrame) -> pl.DataFrame:
    """The claims whose verdict is not that of their list."""
    return claims.filter(~as_expected())


def changed(claims: pl.DataFrame) -> pl.DataFrame:
    """The claims whose verdict is not the recorded one."""
    return claims.filter(~as_recorded())
