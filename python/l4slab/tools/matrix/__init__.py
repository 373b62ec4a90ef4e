"""`l4slab matrix`: transport stacks and their controllers, each alone and against rivals, in several queues.

The matrix is a generated experiment file per path, and one more for its transfers. Runs, resuming, trials and tables
are those of `l4slab run`, and comparing two versions is `l4slab compare`. A runner proves itself first: alone in a
FIFO, a stack has to fill the link with full packets. If it does not, its cells say nothing about the stack.

DIR/experiments/matrix.toml  the file of the only path, or matrix-RATE-RTT.toml; all else as `l4slab run` writes it
DIR/cells/NAME.toml          the same for one cell
DIR/matrix.html              the page
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl
from rich.console import Console

from l4slab import stacks
from l4slab.api import campaign
from l4slab.api.experiment import Experiment, load, to_toml
from l4slab.api.results import Results
from l4slab.base.errors import InputError, suggest
from l4slab.base.units import RATE, TIME
from l4slab.base.values import Keys
from l4slab.engines.contract import LackingError
from l4slab.engines.registry import KERNEL, get_engine
from l4slab.experimentfile.traffic import OUT
from l4slab.results.claims import quoted
from l4slab.stacks import Stack
from l4slab.sweep import expand

NAME, TRANSFER = "matrix", "transfer"
ALONE, ITSELF = "alone", "itself"
TESTED, RIVAL = "tested", "rival"
# Of the link, what a runner has to use alone in a FIFO, and how large its mean packet is, as a part of its largest.
# Some stacks fill the last bytes of their window with a small packet.
FILLED, FULL = 0.9, 0.75
# Of the time, in which it may call itself limited by its application, where its log tells.
_LIMITED_PCT = 5
_PACKET_BYTES = 1500
_LEAST_PACKETS = 10
_STOPPED = "nothing arrived in the measured interval: its client or the stack stopped"

State = Literal["measured", "runner", "stalled", "not run"]


@dataclass(frozen=True)
class Row:
    """A stack with one of its controllers."""

    stack: Stack
    given: str  # the stack as a file names it
    cc: str

    @property
    def level(self) -> str:
        """How it is called."""
        return f"{self.stack.name} {self.cc}"


@dataclass(frozen=True)
class Asked:
    """The rows, the queues in `tc`'s words, the rivals, and the path that all have; `name` is that of the file."""

    rows: Sequence[Row]
    queues: Sequence[str]
    against: Sequence[str]
    rate: str = "20Mbit"
    rtt: str = "20ms"
    duration: str = "20s"
    warmup: str = "5s"
    trials: int = 1
    seed: int = 1
    qlog: bool = False  # stacks that write one do
    bytes: str | None = None  # each cell also has a transfer of this size, in a run of its own
    name: str = NAME

    @property
    def path(self) -> str:
        """The rate and the round trip."""
        return f"{self.rate} {self.rtt}"

    @property
    def transfers(self) -> str:
        """The name of the file with the transfers."""
        return f"{self.name}-{TRANSFER}"

    @property
    def timed(self) -> Sequence[Row]:
        """The rows with transfers: a client that sends until it is ended has none."""
        return [row for row in self.rows if self.bytes is not None and stacks.BYTES in row.stack.recipe.client]

    @property
    def files(self) -> list[str]:
        """The names of the files."""
        return [self.name, self.transfers] if self.timed else [self.name]

    @property
    def proof(self) -> str:
        """The queue in which a runner proves itself: a FIFO of these, or one more."""
        return next((queue for queue in self.queues if queue.split()[:1] == ["pfifo"]), fifo(self.rate, self.rtt))


@dataclass(frozen=True)
class Cell:
    """The measurement at one path, row, queue and rival: means over the trials, and ranges.

    `completion_ms` is of the transfers, as far as they completed, of which `unfinished` tells the first that did not.
    """

    name: str  # of its file
    path: str
    row: str
    queue: str
    against: str
    state: State
    why: str = ""
    runs: Sequence[str] = ()
    goodput_mbps: float | None = None
    goodput_mbps_min: float | None = None
    goodput_mbps_max: float | None = None
    share: float | None = None
    share_min: float | None = None
    share_max: float | None = None
    sojourn_ms_mean: float | None = None
    sojourn_ms_mean_min: float | None = None
    sojourn_ms_mean_max: float | None = None
    sojourn_ms_p99: float | None = None
    rival_sojourn_ms_mean: float | None = None
    ce_pct: float | None = None
    drop_pct: float | None = None
    completion_ms: float | None = None
    completion_ms_min: float | None = None
    completion_ms_max: float | None = None
    unfinished: str = ""
    transfer_runs: Sequence[str] = ()


@dataclass(frozen=True)
class Proof:
    """Whether the runner of a row has proven itself on a path, and by what."""

    path: str
    row: str
    build: str
    verdict: Literal["proven", "not proven", "not run"]
    why: str
    filled: float | None = None
    packet_bytes_mean: float | None = None
    packet_bytes_max: float | None = None
    app_limited_pct: float | None = None


@dataclass(frozen=True)
class Matrix:
    """The proofs and the cells of each path, and where their runs are."""

    asked: Sequence[Asked]
    proofs: Sequence[Proof]
    cells: Sequence[Cell]
    results: Results
    failures: Sequence[str] = field(default=())

    @property
    def is_whole(self) -> bool:
        """Whether every run has ended well and every runner has proven itself."""
        return not self.failures and all(proof.verdict == "proven" for proof in self.proofs)


def rows(names: Sequence[str]) -> list[Row]:
    """Rows by `STACK` (all its controllers) or `STACK:CC`; without any, of all built stacks. Raises InputError."""
    if not names:
        packaged = map(stacks.find, stacks.names())
        names = [stack.name for stack in packaged if stack.is_built and stack.recipe.kind == "program"]
        if not names:
            raise InputError(f"no stack is built; build some with: l4slab stacks build {' '.join(stacks.names())}")
    found: dict[str, Row] = {}
    for name in names:
        given, colon, cc = name.partition(":")
        stack = _found(given, name)
        known = stack.recipe.controllers
        if colon and cc not in known:
            raise InputError(f"names {cc}, which is not a controller of {stack.name}; {suggest(cc, known)}", key=name)
        for one in [cc] if colon else known:
            row = Row(stack, str(stack.folder) if "/" in given else given, one)
            found[row.level] = row
    return list(found.values())


def _found(given: str, key: str) -> Stack:
    try:
        stack = stacks.find(given)
    except ValueError as error:
        raise InputError(str(error), key=key) from None
    if stack.recipe.kind != "program":
        text = f'carries flows of kind = "{stack.recipe.kind}", and the matrix has bulk transfers; see docs/stacks.md'
        raise InputError(text, key=key)
    return stack


def fifo(rate: str, rtt: str) -> str:
    """A FIFO of two bandwidth-delay products. Raises ValueError for a wrong rate or time."""
    bits = RATE.parse(rate) * TIME.parse(rtt) * 1e-9
    return f"pfifo limit {max(round(2 * bits / 8 / _PACKET_BYTES), _LEAST_PACKETS)}"


def on_paths(asked: Asked, rates: Sequence[str], rtts: Sequence[str]) -> list[Asked]:
    """The same on each path, with a FIFO and DualPI2 where no queues are named. Raises InputError."""
    found = []
    for rate, rtt in itertools.product(dict.fromkeys(rates), dict.fromkeys(rtts)):
        for option, text, unit in (("--rate", rate, RATE), ("--rtt", rtt, TIME)):
            try:
                unit.parse(text)
            except ValueError as error:
                raise InputError(f"{text}: {error}", key=option) from None
        one = replace(asked, rate=rate, rtt=rtt, queues=asked.queues or [fifo(rate, rtt), "dualpi2"])
        found.append(one)
    if len(found) == 1:
        return found
    return [replace(one, name=f"{NAME}-{_file_name(one.path)}") for one in found]


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text).strip("-")


def document(asked: Asked) -> dict[str, Any]:
    """The experiment file."""
    queues = list(dict.fromkeys([*asked.queues, asked.proof]))
    rivals = list(dict.fromkeys([ALONE, *asked.against]))
    # What was not asked for is there for the proof only.
    skips = [
        {"when": when, "why": "this is for the proof of the runner only"}
        for when, is_more in (
            (f"qdisc = '{asked.proof}' and against <> '{ALONE}'", asked.proof not in asked.queues),
            (f"against = '{ALONE}' and qdisc <> '{asked.proof}'", ALONE not in asked.against),
        )
        if is_more
    ]
    return {
        **_swept(asked, asked.rows, queues, rivals),
        **({"skip": skips} if skips else {}),
        "claim": [_claim(asked, row) for row in asked.rows],
    }


def transfer_document(asked: Asked) -> dict[str, Any]:
    """The experiment file of the transfers."""
    found = _swept(asked, asked.timed, asked.queues, asked.against)
    found["title"] = f"Transfers of {asked.bytes} after the warm-up"
    found["flow"][0] |= _transfer(asked)
    return found


def _transfer(asked: Asked) -> Keys:
    return {"bytes": asked.bytes, "start": asked.warmup}


def _swept(asked: Asked, rows: Sequence[Row], queues: Sequence[str], rivals: Sequence[str]) -> dict[str, Any]:
    sweep: dict[str, list[Keys]] = {
        "stack": [
            {"level": row.level, **{f"flow.{TESTED}.{key}": value for key, value in _tested(asked, row).items()}}
            for row in rows
        ],
        "qdisc": [{"level": queue, "link.bottleneck.qdisc": queue} for queue in queues],
        "against": [{"level": rival, **_rival(rival)} for rival in rivals],
    }
    return {**_head(asked), **({"let": _let(asked)} if ITSELF in rivals else {}), "sweep": sweep}


def _head(asked: Asked) -> dict[str, Any]:
    return {
        "title": "Transport stacks, queues and rivals",
        "duration": asked.duration,
        "warmup": asked.warmup,
        "seed": asked.seed,
        "trials": asked.trials,
        # Without it, trials in a queue without random numbers are all the same.
        "start_jitter": asked.rtt,
        "link": {"bottleneck": {"rate": asked.rate}},
        "flow": [
            {"name": TESTED, "kind": "program", "rtt": asked.rtt},
            {"name": RIVAL, "rtt": asked.rtt},
        ],
    }


def _tested(asked: Asked, row: Row) -> Keys:
    """The keys of a flow with a row's stack."""
    log: Keys = {"env": {stacks.LOG: OUT}} if asked.qlog and row.stack.recipe.qlog else {}
    return {"stack": row.given, "cc": row.cc, **log}


def _let(asked: Asked) -> Keys:
    """By the factor `stack`, what a rival that is the same has."""
    found: Keys = {}
    for name, values in (
        ("rival_stack", [row.given for row in asked.rows]),
        ("rival_cc", [row.cc for row in asked.rows]),
    ):
        cases = (
            f"when {quoted(row.level)} then {quoted(value)}" for row, value in zip(asked.rows, values, strict=True)
        )
        found[name] = f"case stack {' '.join(cases)} end"
    return found


def _rival(name: str, row: Row | None = None) -> Keys:
    """The keys of a level: nobody, a congestion control of the kernel, STACK:CC, or the tested stack: that of `row`, or
    else the one that the sweep fills in.
    """
    if name == ITSELF:
        given, cc = ("{rival_stack}", "{rival_cc}") if row is None else (row.given, row.cc)
        return {f"flow.{RIVAL}.kind": "program", f"flow.{RIVAL}.stack": given, f"flow.{RIVAL}.cc": cc}
    if name == ALONE:
        return {f"flow.{RIVAL}.cc": "cubic", f"flow.{RIVAL}.count": 0}
    if ":" not in name:
        return {f"flow.{RIVAL}.cc": name}
    (other,) = rows([name])
    return {f"flow.{RIVAL}.kind": "program", f"flow.{RIVAL}.stack": other.given, f"flow.{RIVAL}.cc": other.cc}


def _claim(asked: Asked, row: Row) -> Keys:
    mbps = RATE.parse(asked.rate) * 1e-6
    tells = asked.qlog and "limited" in row.stack.recipe.qlog
    limited = "max(app_limited_pct)" if tells else "null::double"
    return {
        "id": _claim_id(row),
        "says": f"alone in {asked.proof}, {row.level} fills {FILLED:.0%} of the link with full packets",
        "sql": f"""
select filled >= {FILLED} and packet_bytes_mean >= {FULL} * packet_bytes_max
       and coalesce(app_limited_pct, 0) <= {_LIMITED_PCT}, * from (
    select round(avg(goodput_mbps) / {mbps:g}, 3) as filled, round(avg(packet_bytes_mean)) as packet_bytes_mean,
           max(packet_bytes_max) as packet_bytes_max, {limited} as app_limited_pct
    from flows where flow = '{TESTED}' and stack = '{row.level}' and qdisc = '{asked.proof}' and against = '{ALONE}')
""",
    }


def _claim_id(row: Row) -> str:
    return f"runner-{row.stack.name}-{row.cc}"


def cell_document(asked: Asked, row: Row, queue: str, against: str, is_transfer: bool = False) -> dict[str, Any]:
    """The experiment file of one cell, whose runs are those of the matrix, or those of its transfers."""
    found = {**_head(asked), "title": f"{row.level} in {queue}, against {against}"}
    found["link"]["bottleneck"]["qdisc"] = queue
    tested, rival = found["flow"]
    tested |= {**_tested(asked, row), **(_transfer(asked) if is_transfer else {})}
    rival |= {key.rpartition(".")[2]: value for key, value in _rival(against, row).items()}
    return found


def experiments(asked: Asked) -> list[Experiment]:
    """The matrix of a path as `l4slab.run` takes it, and its transfers. Raises InputError."""
    found = [Experiment.from_toml(to_toml(document(asked)), asked.name)]
    if asked.timed:
        found.append(Experiment.from_toml(to_toml(transfer_document(asked)), asked.transfers))
    return found


def run(
    asked: Sequence[Asked],
    out: Path | str,
    engine: str = KERNEL,
    workers: int | None = None,
    console: Console | None = None,
) -> Matrix:
    """Run what is not in `out` yet. Raises InputError."""
    files = [file for one in asked for file in experiments(one)]
    results = campaign.run(files, out, engine, workers, console=console or Console(quiet=True))
    return matrix(asked, results, engine)


def matrix(asked: Sequence[Asked], results: Results, engine: str = KERNEL) -> Matrix:
    """The cells of these results."""
    failed: dict[tuple[object, ...], str] = {}
    for lost, reason in results.failures:
        levels = (lost.factors.get(name) for name in ("stack", "qdisc", "against"))
        failed.setdefault((lost.experiment, *levels), reason)
    claims = {(row["experiment"], row["id"]): row for row in results.claims.iter_rows(named=True)}
    proofs: list[Proof] = []
    cells: list[Cell] = []
    for one in asked:
        of_path = {row.level: _proof(one, row, claims.get((one.name, _claim_id(row))), failed) for row in one.rows}
        proofs += of_path.values()
        cells += [
            _cell(one, row, queue, against, results.flows, of_path[row.level], failed, engine)
            for queue in one.queues
            for row in one.rows
            for against in one.against
        ]
    return Matrix(asked, proofs, cells, results, [f"{lost}: {why}" for lost, why in results.failures])


def _proof(asked: Asked, row: Row, claim: Mapping[str, Any] | None, failed: Mapping[tuple[object, ...], str]) -> Proof:
    place = (asked.path, row.level, row.stack.id)
    if (reason := failed.get((asked.name, row.level, asked.proof, ALONE))) is not None:
        return Proof(*place, "not run", reason)
    evidence = {} if claim is None else json.loads(claim["evidence"])
    filled, mean, most = (evidence.get(name) for name in ("filled", "packet_bytes_mean", "packet_bytes_max"))
    limited = evidence.get("app_limited_pct")
    if claim is None or filled is None:
        return Proof(*place, "not run", f"it has not run alone in {asked.proof}")
    if mean is None or most is None:
        return Proof(*place, "not proven", f"alone in {asked.proof}, {_STOPPED}", filled)
    text = f"alone it fills {filled:.0%} of the link, with packets of {mean:.0f} B on average and {most:.0f} B at most"
    if limited is not None:
        text += f"; its log calls it limited by the application in {limited:.0f}% of the time"
    verdict: Literal["proven", "not proven"] = "proven" if claim["verdict"] == "holds" else "not proven"
    return Proof(*place, verdict, text, filled, mean, most, limited)


def _cell(
    asked: Asked,
    row: Row,
    queue: str,
    against: str,
    flows: pl.DataFrame,
    proof: Proof,
    failed: Mapping[tuple[object, ...], str],
    engine: str,
) -> Cell:
    path = [] if asked.name == NAME else [asked.path]
    name = "--".join(map(_file_name, (*path, row.level, queue, against)))
    cell = Cell(name, asked.path, row.level, queue, against, "not run")
    # Where a rival is the row itself by two names, both are the same run, which has the first name.
    same = [name for name in asked.against if name == ITSELF or (":" in name and rows([name])[0].level == row.level)]
    names = same if against in same else [against]
    of_cell = flows.filter(pl.col("stack") == row.level, pl.col("qdisc") == queue, pl.col("against").is_in(names))

    def reason_of(experiment: str) -> str | None:
        places = ((experiment, row.level, queue, name) for name in names)
        return next((failed[place] for place in places if place in failed), None)

    of_it = of_cell.filter(experiment=asked.name)
    tested, rival = of_it.filter(flow=TESTED), of_it.filter(flow=RIVAL)
    reason = reason_of(asked.name)
    if reason is not None or tested.is_empty():
        why = reason or _lacking(asked, row, queue, against, engine) or "it has not run"
        return replace(cell, why=why)

    state: State = "measured" if proof.verdict == "proven" else "runner"
    why = "" if state == "measured" else proof.why
    if state == "measured" and (tested["goodput_mbps"] == 0).any():
        state, why = "stalled", f"in a trial {_STOPPED}"
    transfers = of_cell.filter(experiment=asked.transfers, flow=TESTED)
    return replace(
        cell,
        state=state,
        why=why,
        runs=tested.sort("trial")["run"].to_list(),
        **_mean_and_range(tested, "goodput_mbps"),
        **_mean_and_range(tested, "share"),
        **_mean_and_range(tested, "sojourn_ms_mean"),
        sojourn_ms_p99=_mean(tested, "sojourn_ms_p99"),
        rival_sojourn_ms_mean=_mean(rival, "sojourn_ms_mean"),
        ce_pct=_mean(tested, "ce_pct"),
        drop_pct=_mean(tested, "drop_pct"),
        **(_mean_and_range(transfers, "completion_ms_p50", "completion_ms") if len(transfers) else {}),
        unfinished=reason_of(asked.transfers) or "",
        transfer_runs=transfers.sort("trial")["run"].to_list(),
    )


def _mean(rows: pl.DataFrame, name: str) -> float | None:
    found = rows[name].mean()
    return found if isinstance(found, float) else None


def _mean_and_range(rows: pl.DataFrame, column: str, name: str = "") -> dict[str, Any]:
    """The fields of a cell that begin with `name`, which is `column` unless it is given."""
    name = name or column
    least, most = rows[column].min(), rows[column].max()
    return {
        name: _mean(rows, column),
        f"{name}_min": least if isinstance(least, float) else None,
        f"{name}_max": most if isinstance(most, float) else None,
    }


def _lacking(asked: Asked, row: Row, queue: str, against: str, engine: str) -> str | None:
    """What the engine has not got that a cell needs."""
    try:
        one = expand(load(cell_document(asked, row, queue, against), {}), engine).runs[0]
        get_engine(engine).check(one.description)
    except LackingError as error:
        return str(error)
    return None
