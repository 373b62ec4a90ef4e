"""The experiment file: read, check, and resolve to what an engine runs.

`load` reads a TOML file into an `Experiment` whose tables are still as written, because a sweep may set or
complete any of them. `Resolver.resolve` turns one complete document into the plain description of a run
(times in ns, rates in bit/s, sizes in bytes, every default filled in). Both raise `InputError`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from l4slab import _core, metrics
from l4slab.errors import InputError, one_line, suggest
from l4slab.units import FREQUENCY, RATE, SIZE, TIME, Dimension

Level = str | int | float | bool

CODEPOINTS = ("not-ect", "ect0", "ect1", "ce")
SECTIONS = (
    "link", "flow", "at", "impair", "rewrite", "sweep", "let", "skip", "claim", "published", "figure", "table", "agree",
    "cause",
)  # fmt: skip
# Names are parts of dotted keys and of {placeholders}.
_RESERVED = set('.*{}":')


def _quantity(dimension: Dimension, *, zero: bool = False) -> BeforeValidator:
    def parse(text: object) -> int:
        value = dimension.parse(text)
        if value < 0 or (value == 0 and not zero):
            least = "must not be negative" if zero else "must be more than 0"
            raise ValueError(f'{least}; write a {dimension.name} such as "{dimension.example}"')
        return value

    return BeforeValidator(parse)


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("is not an option value; write text or a number")


# Codepoints by name: RFC 2474, 2597, 3246, 5865, 8622 and 9956.
DSCP = (
    {f"cs{n}": n << 3 for n in range(8)}
    | {f"af{n}{drop}": (n << 3) + (drop << 1) for n in range(1, 5) for drop in range(1, 4)}
    | {"df": 0, "le": 1, "va": 44, "nqb": 45, "ef": 46}
)


def _dscp(value: object) -> int:
    if isinstance(value, str) and value.lower() in DSCP:
        return DSCP[value.lower()]
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value < 64:
            return value
        raise ValueError('has more than the six bits of a DSCP; write 0 to 63, or a name such as "ef"')
    if isinstance(value, str):
        raise ValueError(f"is no DSCP; {suggest(value.lower(), DSCP)}")
    raise ValueError('is no DSCP; write a number from 0 to 63, or a name such as "ef"')


Rate = Annotated[int, _quantity(RATE)]
Size = Annotated[int, _quantity(SIZE)]
Duration = Annotated[int, _quantity(TIME)]
TimeOrZero = Annotated[int, _quantity(TIME, zero=True)]
Frequency = Annotated[int, _quantity(FREQUENCY)]
TcpEcn = Literal["accecn", "classic", "sce", "off"]
Captured = Literal["none", "first trial", "all trials"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Top(_Table):
    """The top-level keys. Times in ns."""

    title: str = ""
    about: str = ""
    duration: Duration = Field(examples=['"60s"'])
    warmup: TimeOrZero = 0
    seed: int = Field(1, ge=0, lt=2**63, examples=["1"])
    trials: int = Field(1, ge=1, le=1_000_000, examples=["5"])
    captures: Captured = Field("none", examples=['"first trial"'])
    sample: Duration = 100_000_000
    start_jitter: TimeOrZero = 100_000_000
    subset: str = Field("", examples=['"rate <= 100e6"'])


class Link(_Table):
    """A shaped link with one queue discipline. Rate in bit/s, burst in bytes."""

    rate: Rate = Field(examples=['"100Mbit"'])
    qdisc: str = Field(examples=['"dualpi2"'])
    burst: Size = 1600


class _Flow(_Table):
    name: str = Field(examples=['"l4s"'])
    count: int = Field(1, ge=1, le=1_000_000, examples=["1"])
    start: TimeOrZero = 0
    stop: Duration | None = None
    dscp: Annotated[int, BeforeValidator(_dscp)] = Field(0, examples=['"ef"'])
    path: list[str] | None = Field(None, examples=['["bottleneck"]'])


class _Tcp(_Flow):
    """What connections are like. Times in ns, sizes in bytes, rates in bit/s."""

    cc: str = Field(examples=['"cubic"'])
    rtt: Duration = Field(examples=['"10ms"'])
    ecn: TcpEcn | None = None
    peer_ecn: TcpEcn | None = None
    reverse_path: list[str] = Field([], examples=['["bottleneck"]'])
    pace: Rate | None = None
    receive_window: Size | None = Field(None, examples=['"3MB"'])
    options: dict[str, Annotated[str, BeforeValidator(_option_text)]] = Field({}, examples=['{ version = "0.7" }'])


class TcpFlow(_Tcp):
    """`count` TCP connections."""

    kind: Literal["tcp"] = "tcp"
    bytes: Size | None = None


class WebFlow(_Tcp):
    """`count` sources of requests, each over a connection of its own; sizes have a bounded Pareto distribution."""

    kind: Literal["web"] = "web"
    requests: Frequency = Field(examples=['"10/s"'])
    size_alpha: float = Field(0.9, gt=0, le=100, examples=["0.9"])
    size_min: Size = 1_000
    size_max: Size = 1_000_000


class VideoFlow(_Tcp):
    """`count` connections with a frame at a time, and a viewer's messages (`controls`) upstream."""

    kind: Literal["video"] = "video"
    rate: Rate = Field(examples=['"4Mbit"'])
    frames: Frequency = FREQUENCY.parse("60/s")
    frame_spread: float = Field(0.15, ge=0, le=10, examples=["0.15"])
    controls: Frequency | None = None


class CbrFlow(_Flow):
    """`count` unresponsive UDP sources; `packet` is the Ethernet frame, `batch` frames leave back to back."""

    kind: Literal["cbr"] = "cbr"
    rate: Rate = Field(examples=['"50Mbit"'])
    rtt: TimeOrZero = Field(examples=['"10ms"'])
    ecn: Literal["not-ect", "ect0", "ect1"] = "not-ect"
    packet: Annotated[Size, Field(ge=64, le=9014)] = 1514
    batch: int = Field(1, ge=1, le=65_536, examples=["1"])


class UdpPragueFlow(_Flow):
    """`count` bulk senders of UDP Prague; `packet` is the largest Ethernet frame, `pace` a cap on the rate."""

    kind: Literal["udp-prague"] = "udp-prague"
    rtt: Duration = Field(examples=['"10ms"'])
    packet: Annotated[Size, Field(ge=192, le=9014)] = 1442
    reverse_path: list[str] = Field([], examples=['["bottleneck"]'])
    pace: Rate | None = None


class At(_Table):
    """A change while it runs; the changed keys stand beside `time`, as dotted keys."""

    time: TimeOrZero = Field(examples=['"20s"'])


class Impair(_Table):
    """netem in front of a link."""

    netem: str = Field(examples=['"delay 2ms"'])
    before: str = Field(examples=['"bottleneck"'])
    direction: Literal["forward", "reverse", "both"] = "forward"


class Rewrite(_Table):
    """ECN field rewriting on one flow's path."""

    flow: str = Field(examples=['"tweaked"'])
    where: str = Field(examples=['"before:bottleneck"'])
    from_: Literal["not-ect", "ect0", "ect1", "ce"] = Field(alias="from", examples=['"ect0"'])
    to: Literal["not-ect", "ect0", "ect1", "ce"] = Field(examples=['"ect1"'])


class Skip(_Table):
    """Combinations of a sweep that are left out."""

    when: str = Field(examples=["\"aqm = 'FIFO'\""])
    why: str = ""


class Claim(_Table):
    """A statement of the study and the SQL that checks it; `expect` is the verdict the study states."""

    id: str = Field(min_length=1, examples=['"A-smaller-share"'])
    says: str = ""
    source: str = ""
    sql: str = Field(examples=["\"select avg(share) < 0.25 from flows where flow = 'l4s'\""])
    expect: bool = Field(True, examples=["true"])


class Published(_Table):
    """A published figure and how the same quantity is measured here (see `l4slab.published`)."""

    id: str = Field(min_length=1, examples=['"A-cubic-rate"'])
    quantity: str = ""
    unit: str = ""
    value: float | None = Field(None, examples=["43.6"])
    tolerance: float | None = Field(None, ge=0, examples=["2.0"])
    flow: str | None = Field(None, examples=['"cubic"'])
    column: str | None = Field(None, examples=['"rate_mbps"'])
    sql: str | None = Field(None, examples=["\"select rate_mbps from flows where flow = 'cubic'\""])
    reference: str | None = Field(None, examples=['"fast_lane_summary.csv"'])
    source: str = ""


class Figure(_Table):
    """A figure of the study's report: how it is drawn, and the SQL that gives what is drawn (see `l4slab.figures`)."""

    id: str = Field(min_length=1, examples=['"rate-share"'])
    kind: Literal["shares", "spread", "lines", "heatmap", "runs"] = Field(examples=['"shares"'])
    caption: str = ""
    source: str = ""
    sql: str = Field(examples=['"select flow as part, flow as bar, 100 * share as value from flows"'])
    label: str = Field("", examples=['"queue delay (ms)"'])
    x_label: str = Field("", examples=['"size (kB)"'])
    limits: list[float] | None = Field(None, min_length=2, max_length=2, examples=["[99, 100]"])
    log: bool = False
    x_log: bool = False


class RunTable(_Table):
    """A table of the study's report whose cells are runs, and the SQL that says which (see `l4slab.report.runs`)."""

    id: str = Field(min_length=1, examples=['"scenario-1"'])
    title: str = ""
    about: str = ""
    source: str = ""
    sql: str = Field(examples=['"select aqm as row, rtt as column, run, goodput_mbps from flows"'])


class Bar(_Table):
    """How far the simulator may be from the kernel in one quantity (see `l4slab.agreement`).

    Over the cells, of the absolute difference: `median` and `p90`. Of each cell: within `absolute` or within
    `relative` times the kernel's value, in the part `cells` of them. It is measured over `at_least` so many cells.
    """

    median: float | None = Field(None, ge=0, examples=["0.03"])
    p90: float | None = Field(None, ge=0, examples=["0.08"])
    absolute: float | None = Field(None, ge=0, examples=["0.3"])
    relative: float | None = Field(None, ge=0, examples=["0.1"])
    cells: float | None = Field(None, ge=0, le=1, examples=["0.9"])
    at_least: int = Field(1, ge=1, examples=["8"])


class Agree(_Table):
    """How `l4slab agree` compares this experiment on both engines; bars stand in tables of their own."""

    set: str = Field("", examples=['"tcp"'])
    simulator_trials: int | None = Field(None, ge=1, le=1_000_000, examples=["10"])
    bars: Mapping[str, Bar] = {}


class Cause(_Table):
    """Why cells are beyond a bar: an SQL condition over the rows of `agreement.parquet`, and a sentence."""

    when: str = Field(examples=["\"quantity = 'share' and rtt_ms = 5\""])
    why: str = Field(min_length=1, examples=['"..."'])


FLOW_KINDS: dict[str, type[_Flow]] = {
    "tcp": TcpFlow, "web": WebFlow, "video": VideoFlow, "cbr": CbrFlow, "udp-prague": UdpPragueFlow,
}  # fmt: skip
AT_KEYS = ("rate", "qdisc")
# What may be swept at the top level; the others, such as `title` and `trials`, describe the experiment, not a run.
TOP_FACTORS = ("duration", "warmup", "seed", "sample", "start_jitter")


@dataclass(frozen=True)
class Experiment:
    """An experiment file as written, with its structure checked.

    A study file has neither links nor flows: it describes no run, and its claims and published figures are about
    every experiment in the results folder.
    """

    name: str
    file: Path
    source: bytes
    document: dict[str, Any]
    top: dict[str, Any]
    title: str
    about: str
    trials: int
    subset: str
    captures: Captured
    factors: dict[str, list[Level]]
    bundles: dict[str, list[dict[str, Any]]]
    let: dict[str, str]
    skips: list[Skip]
    claims: list[Claim]
    published: list[Published]
    figures: list[Figure]
    tables: list[RunTable]
    agree: Agree
    causes: list[Cause]

    @property
    def is_study(self) -> bool:
        """Whether this is a study file."""
        return not self.document["link"] and not self.document["flow"]


@dataclass
class _Problem(Exception):
    """A wrong value: the table it stands in, its key, and a text that continues `key = value`."""

    table: tuple[str, ...]
    key: str
    message: str

    def where(self, origin: Mapping[tuple[str, ...], str]) -> str:
        """The place in the file: the sweep that set the value, or the table."""
        first_key = self.key.split(".")[0]
        return origin.get((*self.table, first_key)) or table_title(self.table)


def table_title(table: tuple[str, ...]) -> str:
    """How a message names a table of the file."""
    match table:
        case ("flow", name):
            return f'flow "{name}"'
        case (
            "at" | "rewrite" | "skip" | "claim" | "published" | "figure" | "table" | "cause" | "flow[]" as section,
            number,
        ):
            return f"[[{section.removesuffix('[]')}]] no. {number}"
        case _:
            return ".".join(table)


def show(value: object) -> str:
    """A value as it is written in TOML, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys a table of this model may have, as written in the file."""
    return [info.alias or name for name, info in model.model_fields.items()]


_KIND_OF_TYPE = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
}
_BOUNDS = {
    "greater_than_equal": "must be at least",
    "greater_than": "must be more than",
    "less_than_equal": "must be at most",
    "less_than": "must be less than",
}


def _check(model: type[BaseModel], raw: object, table: tuple[str, ...], *, complete: bool = True) -> Any:
    """`raw` as a `model`, or `_Problem` for its first mistake; missing keys count only where `complete`."""
    if not isinstance(raw, dict):
        raise _Problem(table, "", "is not a table of keys and values")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        # A misspelt key is also missing under its right name: the misspelling is what to tell.
        for mistake in sorted(mistakes, key=lambda mistake: mistake["type"] == "missing"):
            if complete or mistake["type"] != "missing":
                raise _problem(model, mistake, raw, table) from None
    return None


def _problem(model: type[BaseModel], mistake: Any, raw: dict[str, Any], table: tuple[str, ...]) -> _Problem:
    path = [str(part) for part in mistake["loc"]]
    key, kind, context = ".".join(path), mistake["type"], mistake.get("ctx", {})
    info = next((i for n, i in model.model_fields.items() if path[0] in (n, i.alias)), None)
    example = info.examples[0] if info and info.examples else None
    remedy = f"; write it such as {path[0]} = {example}" if example else ""
    if kind == "missing":
        return _Problem(table, "", f"has no {key}{remedy.replace('write it', 'add it', 1)}")
    if kind == "extra_forbidden":
        others = [name for name in keys_of(model) if name not in raw]
        text = f"is not a key here; {suggest(path[-1], others)}"
    elif kind == "value_error":
        text = str(context["error"])
    elif kind == "literal_error":
        values = [v.strip("' ") for v in context["expected"].replace(" or ", ", ").split(",")]
        given = mistake["input"]
        text = f"is none of {', '.join(values)}"
        if isinstance(given, str):
            text += f"; {suggest(given, values)}"
    elif kind in _KIND_OF_TYPE:
        text = f"is not {_KIND_OF_TYPE[kind]}{remedy}"
    elif kind in _BOUNDS:
        text = f"{_BOUNDS[kind]} {next(iter(context.values()))}"
    else:
        text = f"is not valid: {mistake['msg']}{remedy}"
    # pydantic gives the parsed number where a bound is broken; the user wants to see what is in the file.
    given = raw.get(key, mistake["input"])
    return _Problem(table, key, f"= {show(given)} {text}")


def _input_error(problem: _Problem, file: Path, origin: Mapping[tuple[str, ...], str]) -> InputError:
    where = problem.where(origin)
    key, joint = problem.key, ": "
    if where == ".".join(problem.table):
        joint = "." if where else ""
    if not key:
        return InputError(f"{where} {problem.message}".strip(), file=file)
    return InputError(f"{where}{joint}{key} {problem.message}", file=file)


def load(path: Path | str, trials: int | None = None) -> Experiment:
    """Read an experiment file and check its structure.

    `trials` replaces the file's number of them, in `source` too.
    Values that a sweep sets later are checked when it is expanded (`l4slab.sweep.expand`).
    Raises InputError.
    """
    file = Path(path)
    document, source = _read(file)
    if trials is not None and document.get("trials", 1) != trials:
        source = _with_trials(source, trials)
        document["trials"] = trials
    try:
        return _structure(file, document, source)
    except _Problem as problem:
        raise _input_error(problem, file, {}) from None


def _read(file: Path) -> tuple[dict[str, Any], bytes]:
    try:
        source = file.read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file; give the path of an experiment file", file=file) from None
    except IsADirectoryError:
        raise InputError("is a directory; give the path of an experiment file (.toml)", file=file) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be read ({reason}); check its permissions", file=file) from None
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
        twice = "Cannot declare" in str(error) or "overwrite" in str(error)
        remedy = "give each table and key its own name" if twice else "correct the line"
        raise InputError(f"is not valid TOML: {error}; {remedy}", file=file) from None
    if (found := _with_nul(document)) is not None:
        place, written = found
        raise InputError(f"has {show(written)} with a NUL character; remove it", file=file, key=place)
    return document, source


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


def _structure(file: Path, document: dict[str, Any], source: bytes) -> Experiment:
    valid = [*keys_of(Top), *SECTIONS]
    for key, value in document.items():
        if key not in valid:
            others = [name for name in valid if name not in document or name in SECTIONS]
            raise _Problem((), key, f"= {show(value)} is not a key here; {suggest(key, others)}")
    for key in ("link", "impair", "sweep", "let", "agree"):
        if not isinstance(document.setdefault(key, {}), dict):
            raise _Problem((), key, f"= {show(document[key])} is not a table; write [{key}...]")
    for key in ("flow", "at", "rewrite", "skip", "claim", "published", "figure", "table", "cause"):
        if not isinstance(document.setdefault(key, []), list):
            raise _Problem((), key, f"= {show(document[key])} is not a list of tables; write [[{key}]]")

    top = {key: value for key, value in document.items() if key not in SECTIONS}
    _check(Top, {k: v for k, v in top.items() if not _has_placeholder(v)}, (), complete=False)
    study = _is_study(document)
    if not document["link"] and not study:
        raise _Problem((), "", "has no link; add a [link.NAME] with rate and qdisc")
    if not document["flow"] and not study:
        raise _Problem((), "", 'has no flow; add a [[flow]] such as name = "a", cc = "cubic", rtt = "10ms"')
    for name, table in document["link"].items():
        _name_ok(name, ("link", name))
        _check_written(Link, table, ("link", name))
    document["flow"] = _flows_by_name(document["flow"])
    for name, table in document["flow"].items():
        _check_written(flow_model(table, name), table, ("flow", name))
    document["at"] = [_flat(table, ("at", str(number))) for number, table in enumerate(document["at"], start=1)]
    for name, table in document["impair"].items():
        _check_written(Impair, table, ("impair", name))
    for number, table in enumerate(document["rewrite"], start=1):
        _check_written(Rewrite, table, ("rewrite", str(number)))

    factors, bundles = _sweep(document["sweep"])
    let = _let(document["let"], {*factors, *bundles})
    skips = [_check(Skip, t, ("skip", str(n))) for n, t in enumerate(document["skip"], start=1)]
    claims = _with_ids(Claim, document, "claim")
    published = _with_ids(Published, document, "published")
    for number, figure in enumerate(published, start=1):
        _published_ok(figure, ("published", str(number)))
    figures = _with_ids(Figure, document, "figure")
    tables = _with_ids(RunTable, document, "table")
    model = {k: v for k, v in top.items() if k in ("title", "about", "trials", "subset", "captures")}
    return Experiment(
        name=file.stem,
        file=file,
        source=source,
        document=document,
        top=top,
        title=model.get("title") or file.stem,
        about=one_line(model.get("about", "")),
        trials=model.get("trials", 1),
        subset=model.get("subset", ""),
        captures=model.get("captures", "none"),
        factors=factors,
        bundles=bundles,
        let=let,
        skips=skips,
        claims=claims,
        published=published,
        figures=figures,
        tables=tables,
        agree=_agree(document["agree"]),
        causes=[_check(Cause, t, ("cause", str(n))) for n, t in enumerate(document["cause"], start=1)],
    )


def _is_study(document: dict[str, Any]) -> bool:
    """Whether the file states things about experiments and describes none itself."""
    statements = ("claim", "published", "figure", "table")
    described = [key for key in document if document[key] and key not in ("title", "about", "cause", *statements)]
    return not described and any(document[section] for section in statements)


def _with_ids(model: type[BaseModel], document: dict[str, Any], section: str) -> list[Any]:
    """The tables of a section, each with an id of its own."""
    found = [_check(model, table, (section, str(number))) for number, table in enumerate(document[section], start=1)]
    seen: set[str] = set()
    for one in found:
        if one.id in seen:
            raise _Problem((), section, f'id = "{one.id}" is used twice; give each its own id')
        seen.add(one.id)
    return found


def _published_ok(figure: Published, table: tuple[str, ...]) -> None:
    if (figure.value is None) == (figure.reference is None):
        raise _Problem(table, "", "needs either value (one figure) or reference (a file of them); give one of the two")
    direct = figure.flow is not None and figure.column is not None
    if figure.sql is None and not direct:
        raise _Problem(table, "", "does not say what to measure; add sql, or flow and column")
    if figure.sql is not None and (figure.flow is not None or figure.column is not None):
        raise _Problem(table, "sql", f"= {show(figure.sql)} stands beside flow or column; give one of the two")
    if figure.reference is not None:
        if direct:
            raise _Problem(table, "", "has a reference but no sql; add sql that gives quantity, published and measured")
        if "/" in figure.reference or "\\" in figure.reference or not figure.reference.endswith(".csv"):
            text = (
                f'= {show(figure.reference)} is not the name of a .csv file; write it such as "fast_lane_summary.csv"'
            )
            raise _Problem(table, "reference", text)


# Of every file that says nothing else: (quantity) -> bar.
DEFAULT_BARS: dict[str, Bar] = {
    name: Bar.model_validate(bar)
    for name, bar in {
        "share": {"median": 0.03, "p90": 0.08},
        "utilisation": {"absolute": 0.01, "cells": 0.95},
        "sojourn_ms_mean": {"relative": 0.1, "absolute": 0.3, "cells": 0.85},
        "ce_pct": {"relative": 0.15, "absolute": 0.2, "cells": 0.9},
    }.items()
}


def _agree(raw: dict[str, Any]) -> Agree:
    tables = {key: value for key, value in raw.items() if isinstance(value, dict)}
    quantities = list(dict.fromkeys(name for names in metrics.COMPARED.values() for name in names))
    for name in tables:
        if name not in quantities:
            raise _Problem((f"[agree.{name}]",), "", f"is about no quantity; {suggest(name, quantities)}")
    written = {key: value for key, value in raw.items() if key not in tables}
    if "bars" in written:
        raise _Problem(("agree",), "bars", "is not a key here; write a table such as [agree.share]")
    settings: Agree = _check(Agree, written, ("agree",))
    bars = {name: _bar(name, table) for name, table in tables.items()}
    return settings.model_copy(update={"bars": DEFAULT_BARS | bars})


def _bar(name: str, raw: object) -> Bar:
    place = (f"agree.{name}",)
    bar: Bar = _check(Bar, raw, place)
    tolerance = bar.absolute is not None or bar.relative is not None
    if tolerance and bar.cells is None:
        raise _Problem(place, "", "has a tolerance but does not say for how many cells; add it such as cells = 0.9")
    if bar.cells is not None and not tolerance:
        raise _Problem(place, "", "has cells but no tolerance; add absolute or relative")
    return bar


def _has_placeholder(value: object) -> bool:
    return isinstance(value, str) and "{" in value


def _check_written(model: type[BaseModel], table: object, name: tuple[str, ...]) -> None:
    """Check what is written so far: placeholders and missing keys come with the sweep."""
    if isinstance(table, dict):
        table = {key: value for key, value in table.items() if not _has_placeholder(value)}
    _check(model, table, name, complete=False)


def _name_ok(name: str, table: tuple[str, ...]) -> None:
    if not name.strip() or _RESERVED & set(name):
        raise _Problem(table, "", 'has a name with a character of . * { } " : or none; use letters, digits, _ and -')


def _flows_by_name(flows: list[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for number, table in enumerate(flows, start=1):
        place = ("flow[]", str(number))
        if not isinstance(table, dict):
            raise _Problem(place, "", "is not a table; write [[flow]]")
        name = table.get("name")
        if name is None:
            raise _Problem(place, "", 'has no name; add it such as name = "l4s"')
        if not isinstance(name, str):
            raise _Problem(place, "name", f'= {show(name)} is not text; write it such as name = "l4s"')
        _name_ok(name, place)
        if name in named:
            raise _Problem(place, "name", f"= {show(name)} is the name of an earlier flow; give each its own name")
        named[name] = table
    return named


def flow_model(table: Mapping[str, Any], name: str) -> type[_Flow]:
    """The model for a flow's `kind`."""
    kind = table.get("kind", "tcp")
    if not isinstance(kind, str) or kind not in FLOW_KINDS:
        remedy = suggest(str(kind), FLOW_KINDS)
        raise _Problem(("flow", name), "kind", f"= {show(kind)} is not a kind of flow; {remedy}")
    return FLOW_KINDS[kind]


def _flat(table: object, name: tuple[str, ...]) -> dict[str, Any]:
    """A table with nested tables as dotted keys, so that quoted and bare dotted keys mean the same."""
    if not isinstance(table, dict):
        raise _Problem(name, "", "is not a table of keys and values")
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat.update({f"{key}.{inner}": v for inner, v in _flat(value, name).items()})
        else:
            flat[key] = value
    return flat


def _sweep(raw: dict[str, Any]) -> tuple[dict[str, list[Level]], dict[str, list[dict[str, Any]]]]:
    factors: dict[str, list[Level]] = {}
    bundles: dict[str, list[dict[str, Any]]] = {}
    for key, levels in _flat(raw, ("sweep",)).items():
        place = ("sweep", f'"{key}"' if "." in key else key)
        if not isinstance(levels, list):
            raise _Problem(place, "", f"= {show(levels)} is not a list of levels; write [{show(levels)}]")
        if not levels:
            raise _Problem(place, "", "= [] has no levels; give at least one, or remove it")
        if all(isinstance(level, dict) for level in levels):
            bundles[key] = [_bundle_level(key, number, level) for number, level in enumerate(levels, start=1)]
            names = [level["level"] for level in bundles[key]]
        else:
            for level in levels:
                if not isinstance(level, str | int | float):
                    raise _Problem(place, "", f"has the level {show(level)}; a level is text, a number, true or false")
            factors[key] = names = levels
        for position, level in enumerate(names):
            if any(level == other and type(level) is type(other) for other in names[:position]):
                raise _Problem(place, "", f"has the level {show(level)} twice; remove one")
    return factors, bundles


def _bundle_level(key: str, number: int, raw: dict[str, Any]) -> dict[str, Any]:
    place = (f"[[sweep.{key}]] no. {number}",)
    if "level" not in raw:
        raise _Problem(place, "", 'has no level; add its name such as level = "pie"')
    if isinstance(raw["level"], bool) or not isinstance(raw["level"], str | int | float):
        raise _Problem(place, "level", f"= {show(raw['level'])} is neither text nor a number; name the level")
    return _flat(raw, place)


def _let(raw: dict[str, Any], factors: Iterable[str]) -> dict[str, str]:
    taken = {name.lower() for name in factors}
    let: dict[str, str] = {}
    for name, expression in raw.items():
        if isinstance(expression, bool) or not isinstance(expression, str | int | float):
            raise _Problem(("let",), name, f'= {show(expression)} is not an SQL expression; write it as text, "..."')
        if name.lower() in taken:
            raise _Problem(("let",), name, "is already the name of a factor or of another value; choose another name")
        taken.add(name.lower())
        let[name] = str(expression)
    return let


@dataclass
class Resolver:
    """Turns complete documents of one file into run descriptions; equal tables are checked only once."""

    file: Path
    _seen: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def resolve(
        self, document: Mapping[str, Any], top: Mapping[str, Any], origin: Mapping[tuple[str, ...], str]
    ) -> dict[str, Any]:
        """The description of the run that `document` describes, with the experiment's own seed.

        `origin` tells which part of a sweep has set a key, (section, name, key) -> text, for messages.
        Raises InputError.
        """
        try:
            return self._resolve(document, top)
        except _Problem as problem:
            raise _input_error(problem, self.file, origin) from None

    def _once(self, kind: str, name: str, raw: object, make: Callable[[], Any]) -> Any:
        key = (kind, name, json.dumps(raw, default=str))
        if key not in self._seen:
            self._seen[key] = make()
        return self._seen[key]

    def _resolve(self, document: Mapping[str, Any], raw_top: Mapping[str, Any]) -> dict[str, Any]:
        top: Top = self._once("top", "", raw_top, partial(_check, Top, raw_top, ()))
        if top.warmup >= top.duration:
            raise _Problem(
                (),
                "warmup",
                f"= {show(raw_top['warmup'])} is not shorter than duration = {show(raw_top['duration'])}; "
                "shorten the warmup or lengthen the duration",
            )
        links = {
            name: self._once("link", name, raw, partial(_link, name, raw)) for name, raw in document["link"].items()
        }
        names = list(links)
        flows = {
            name: self._once("flow", name, [raw, names], partial(_flow, name, raw, names))
            for name, raw in document["flow"].items()
        }
        for name, flow in flows.items():
            raw = document["flow"][name]
            if flow["start_ns"] >= top.duration:
                raise _Problem(
                    ("flow", name),
                    "start",
                    f"= {show(raw['start'])} is not before the end of the run, duration = {show(raw_top['duration'])}; "
                    "start it earlier",
                )
            if flow["stop_ns"] is not None and flow["stop_ns"] >= top.duration:
                flows[name] = flow | {"stop_ns": None}
        description: dict[str, Any] = {
            "duration_ns": top.duration,
            "warmup_ns": top.warmup,
            "seed": top.seed,
            "sample_ns": top.sample,
            "start_jitter_ns": top.start_jitter,
            "links": list(links.values()),
            "flows": list(flows.values()),
            "at": _changes(document["at"], names, top, raw_top),
            "rewrites": [_rewrite(n, raw, flows) for n, raw in enumerate(document["rewrite"], start=1)],
        }
        if document["impair"]:
            description["impairs"] = [_impair(name, raw, names) for name, raw in document["impair"].items()]
        return description


def _qdisc(text: str, table: tuple[str, ...], key: str) -> str:
    try:
        return _core.canonical_qdisc(text)
    except ValueError as error:
        raise _Problem(table, key, f"= {show(text)}: {error}") from None


def _link(name: str, raw: dict[str, Any]) -> dict[str, Any]:
    link: Link = _check(Link, raw, ("link", name))
    qdisc = _qdisc(link.qdisc, ("link", name), "qdisc")
    return {"name": name, "rate_bps": link.rate, "qdisc": qdisc, "burst_bytes": link.burst}


def _flow(name: str, raw: dict[str, Any], links: list[str]) -> dict[str, Any]:
    table = ("flow", name)
    flow: Any = _check(flow_model(raw, name), raw, table)
    if flow.stop is not None and flow.stop <= flow.start:
        raise _Problem(
            table, "stop", f"= {show(raw['stop'])} is not after start = {show(raw.get('start', '0s'))}; stop it later"
        )
    path = flow.path if flow.path is not None else links
    if not path:
        raise _Problem(table, "path", f"= [] names no link; name at least one of {', '.join(links)}")
    resolved = {
        "name": name,
        "kind": flow.kind,
        "cc": None,
        "count": flow.count,
        "rtt_ns": flow.rtt,
        "start_ns": flow.start,
        "stop_ns": flow.stop,
        "dscp": flow.dscp,
        "bytes": None,
        "ecn": None,
        "peer_ecn": None,
        "path": path,
        "reverse_path": [],
        "pace_bps": None,
        "options": {},
        "rate_bps": None,
        "packet_bytes": None,
        "batch": None,
    }
    if isinstance(flow, CbrFlow):
        resolved |= {"ecn": flow.ecn, "rate_bps": flow.rate, "packet_bytes": flow.packet, "batch": flow.batch}
    elif isinstance(flow, UdpPragueFlow):
        resolved |= {"packet_bytes": flow.packet, "reverse_path": flow.reverse_path, "pace_bps": flow.pace}
    else:
        resolved |= {
            "ecn": flow.ecn,
            "cc": flow.cc,
            "peer_ecn": flow.peer_ecn,
            "reverse_path": flow.reverse_path,
            "pace_bps": flow.pace,
            "options": _controller_options(flow, table),
        }
        if flow.receive_window is not None:
            resolved["receive_window_bytes"] = flow.receive_window
    if isinstance(flow, TcpFlow):
        resolved["bytes"] = flow.bytes
    elif isinstance(flow, WebFlow):
        if flow.size_min > flow.size_max:
            raise _Problem(
                table,
                "size_min",
                f"= {show(raw.get('size_min', '1kB'))} is above size_max = {show(raw.get('size_max', '1MB'))}; "
                "make it smaller",
            )
        resolved |= {
            "interval_ns": _interval(flow.requests, table, "requests", raw),
            "size_alpha": flow.size_alpha,
            "size_min_bytes": flow.size_min,
            "size_max_bytes": flow.size_max,
        }
    elif isinstance(flow, VideoFlow):
        controls = None if flow.controls is None else _interval(flow.controls, table, "controls", raw)
        resolved |= {
            "rate_bps": flow.rate,
            "interval_ns": _interval(flow.frames, table, "frames", raw),
            "spread": flow.frame_spread,
            "control_interval_ns": controls,
        }
    for key in ("path", "reverse_path"):
        for position, link in enumerate(resolved[key]):
            if link not in links:
                raise _Problem(
                    table, key, f"= {show(resolved[key])} names no link {show(link)}; {suggest(link, links)}"
                )
            if link in resolved[key][:position]:
                raise _Problem(table, key, f"= {show(resolved[key])} crosses link {show(link)} twice; name it once")
    return resolved


def _interval(frequency: int, table: tuple[str, ...], key: str, raw: Mapping[str, Any]) -> int:
    """The mean time between events, ns."""
    interval = round(FREQUENCY.per_si * 10**9 / frequency)
    if interval < 1_000:
        raise _Problem(table, key, f'= {show(raw[key])} is more than once per microsecond; "1000000/s" is the most')
    return interval


def _controller_options(flow: _Tcp, table: tuple[str, ...]) -> dict[str, str]:
    valid = [controller["name"] for controller in _core.controllers()]
    if flow.cc not in valid:
        raise _Problem(table, "cc", f"= {show(flow.cc)} is not a congestion control; {suggest(flow.cc, valid)}")
    try:
        return _core.canonical_controller(flow.cc, flow.options)
    except ValueError as error:
        raise _Problem(table, "options", f"= {show(flow.options)}: {error}") from None


def _changes(
    changes: list[dict[str, Any]], links: list[str], top: Top, raw_top: Mapping[str, Any]
) -> list[dict[str, Any]]:
    resolved = []
    for number, raw in enumerate(changes, start=1):
        table = ("at", str(number))
        at: At = _check(At, {"time": raw["time"]} if "time" in raw else {}, table)
        if at.time >= top.duration:
            raise _Problem(
                table,
                "time",
                f"= {show(raw['time'])} is not before the end of the run, duration = {show(raw_top['duration'])}; "
                "choose an earlier time",
            )
        by_link: dict[str, dict[str, Any]] = {}
        for key, value in raw.items():
            if key == "time":
                continue
            match key.split("."):
                case ["link", link, setting] if link in links and setting in AT_KEYS:
                    by_link.setdefault(link, {})[setting] = value
                case ["link", link, setting] if link in links:
                    raise _Problem(
                        table, key, f"= {show(value)} cannot change while it runs; {suggest(setting, AT_KEYS)}"
                    )
                case ["link", link, _]:
                    raise _Problem(table, key, f"= {show(value)} names no link {show(link)}; {suggest(link, links)}")
                case _:
                    keys = ["time", *(f"link.{link}.{setting}" for link in links for setting in AT_KEYS)]
                    raise _Problem(table, key, f"= {show(value)} is not a key here; {suggest(key, keys)}")
        if not by_link:
            raise _Problem(table, "", f'changes nothing; add a key such as "link.{links[0]}.rate" = "5Mbit"')
        for link, settings in by_link.items():
            change: dict[str, Any] = {"time_ns": at.time, "link": link, "rate_bps": None, "qdisc": None}
            if "rate" in settings:
                checked = _check(Link, {"rate": settings["rate"], "qdisc": ""}, (f"[[at]] no. {number}: link", link))
                change["rate_bps"] = checked.rate
            if "qdisc" in settings:
                key = f"link.{link}.qdisc"
                if not isinstance(settings["qdisc"], str):
                    raise _Problem(table, key, f'= {show(settings["qdisc"])} is not text; write it such as "pie"')
                change["qdisc"] = _qdisc(settings["qdisc"], table, key)
            resolved.append(change)
    return sorted(resolved, key=lambda change: change["time_ns"])


def _rewrite(number: int, raw: dict[str, Any], flows: dict[str, Any]) -> dict[str, Any]:
    table = ("rewrite", str(number))
    rewrite: Rewrite = _check(Rewrite, raw, table)
    if rewrite.flow not in flows:
        raise _Problem(table, "flow", f"= {show(rewrite.flow)} is not a flow; {suggest(rewrite.flow, flows)}")
    path = flows[rewrite.flow]["path"]
    where, colon, link = rewrite.where.partition(":")
    if not colon or where not in ("before", "after"):
        raise _Problem(
            table, "where", f'= {show(rewrite.where)} is not a place; write "before:{path[0]}" or "after:{path[0]}"'
        )
    if link not in path:
        raise _Problem(
            table,
            "where",
            f'= {show(rewrite.where)} is not on the path of flow "{rewrite.flow}"; {suggest(link, path)}',
        )
    if rewrite.from_ == rewrite.to:
        raise _Problem(table, "to", f"= {show(rewrite.to)} is the same as from; give another codepoint")
    return {"flow": rewrite.flow, "where": where, "link": link, "from": rewrite.from_, "to": rewrite.to}


def _impair(name: str, raw: dict[str, Any], links: list[str]) -> dict[str, Any]:
    impair: Impair = _check(Impair, raw, ("impair", name))
    if impair.before not in links:
        raise _Problem(
            ("impair", name), "before", f"= {show(impair.before)} is not a link; {suggest(impair.before, links)}"
        )
    try:
        netem = _core.canonical_qdisc(f"netem {impair.netem}").removeprefix("netem ")
    except ValueError as error:
        raise _Problem(("impair", name), "netem", f"= {show(impair.netem)}: {error}") from None
    return {"name": name, "netem": netem, "before": impair.before, "direction": impair.direction}
