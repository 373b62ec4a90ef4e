"""A results folder as the report sees it: tables, experiment files, and the cases to show."""

from __future__ import annotations

import filecmp
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl

from l4slab import experimentfile, sweep
from l4slab.base import metrics
from l4slab.base.numbers import counted
from l4slab.base.packaged import studies
from l4slab.base.run import Run as Description
from l4slab.base.values import Cell
from l4slab.engines.contract import LOG, PACKETS
from l4slab.engines.registry import DEFAULT, folder_name, option
from l4slab.experimentfile import Experiment
from l4slab.plot.roles import Look, looks_of_flows
from l4slab.results import many
from l4slab.results.apart import Apart, apart
from l4slab.sweep import Plan

# Cases drawn at most, and marks of cases side by side; every run can be opened beyond these.
MAX_CASES = 12
MAX_COMPARED_MARKS = 150


@dataclass(frozen=True)
class Case:
    """An experiment at one level of every factor."""

    levels: Mapping[str, Cell]  # of the columns `experiment` and every factor

    @property
    def experiment(self) -> str:
        """The experiment's name."""
        return str(self.levels["experiment"])

    @property
    def level_text(self) -> str:
        """The factors' levels, or "" where there are none; of a dotted key the last part, where that is unique."""
        levels = zip(short_names(list(self.levels)), self.levels.values(), strict=True)
        return ", ".join(f"{name} = {level}" for name, level in levels if name != "experiment" and level is not None)

    def label(self, folder: Folder) -> str:
        """How a person calls it: the title where that is enough, else with the levels."""
        if not self.level_text:
            return folder.file(self.experiment).title
        return self.level_text if len(folder.experiments) == 1 else f"{self.experiment}: {self.level_text}"

    def rows(self) -> pl.Expr:
        """True for the rows of this case."""
        return pl.all_horizontal(pl.col(name).eq_missing(pl.lit(value)) for name, value in self.levels.items())


@dataclass(frozen=True)
class Folder:
    """Everything the report needs from a results folder."""

    folder: Path
    url: str | None
    files: list[Experiment]
    flows: pl.DataFrame
    links: pl.DataFrame
    claims: pl.DataFrame
    published: pl.DataFrame
    factors: list[str]
    cases: list[Case]
    _plans: dict[str, Plan] = field(default_factory=dict)
    _described: dict[int, Description] = field(default_factory=dict)

    @cached_property
    def experiments(self) -> list[str]:
        """The experiments that have runs, by name."""
        return [e.name for e in self.files if not e.is_study]

    @cached_property
    def senders(self) -> dict[str, str | None]:
        """Every flow with its congestion control, in the order of the files, of which its look in figures follows.

        Of a flow whose controller is swept, the first.
        """
        return dict(self.flows.select("flow", "cc").unique("flow", maintain_order=True).drop_nulls("flow").rows())

    @property
    def is_compared(self) -> bool:
        """Whether there are some cases to draw side by side, and not too many."""
        return len(self.cases) > 1 and len(self.cases) * len(self.senders) <= MAX_COMPARED_MARKS

    @cached_property
    def looks(self) -> dict[tuple[str, str | None], Look]:
        """How each flow with each of its controllers is drawn in every figure."""
        return looks_of_flows(
            self.flows.select("flow", "cc").unique(maintain_order=True).drop_nulls("flow").iter_rows()
        )

    @cached_property
    def apart(self) -> dict[tuple[Cell, ...], list[Apart]]:
        """The quantities whose trials lie apart, by experiment and levels of the case."""
        found: dict[tuple[Cell, ...], list[Apart]] = {}
        for one in apart(self.flows):
            found.setdefault((one.experiment, *map(one.levels.get, self.factors)), []).append(one)
        return found

    def looks_in(self, case: Case) -> dict[str, Look]:
        """How the flows of a case are drawn; of many, the worst."""
        rows = self.flows.filter(case.rows())
        if (worst := many.worst_flows(rows)) is not None:
            rows = rows.filter(pl.col("flow").is_in(worst))
        rows = rows.select("flow", "cc").unique("flow", maintain_order=True)
        return {flow: self.looks[flow, cc] for flow, cc in rows.drop_nulls("flow").iter_rows()}

    @cached_property
    def study(self) -> Experiment | None:
        """The file that says what the folder is about: a study, the only file, or the only one that has an `about`."""
        named = [e for e in self.files if e.is_study]
        if named:
            return named[0]
        told = [e for e in self.files if e.about] if len(self.files) > 1 else self.files
        return told[0] if len(told) == 1 else None

    @property
    def is_own(self) -> bool:
        """Whether these are experiments of one's own, not a study about experiments."""
        return not any(file.is_study for file in self.files)

    @property
    def title(self) -> str:
        """The title of the page."""
        return self.study.title if self.study else "l4slab: " + ", ".join(self.experiments)

    @property
    def about(self) -> str:
        """The question of the study, or what one of several files says; a single file's stands with its figures."""
        return self.study.about if self.study and (self.study.is_study or len(self.files) > 1) else ""

    def file(self, experiment: str) -> Experiment:
        """The experiment file of this name."""
        return next(e for e in self.files if e.name == experiment)

    def engine(self, experiment: str) -> str:
        """The engine that ran an experiment."""
        rows = self.flows.filter(pl.col("experiment") == experiment)
        return next(iter(rows["engine"].drop_nulls()), DEFAULT)

    def plan(self, experiment: str) -> Plan:
        """The runs that the file describes."""
        if experiment not in self._plans:
            self._plans[experiment] = sweep.expand(self.file(experiment), self.engine(experiment))
        return self._plans[experiment]

    def rows_of(self, table: str, case: Case) -> pl.DataFrame:
        """The rows of a case in a table that is too large to be read whole, of all trials."""
        path = self.folder / f"{table}.parquet"
        if not path.is_file():
            return pl.DataFrame(schema=metrics.LABELS | metrics.TABLES[table])
        # Conditions on single columns: from the statistics of the file, groups of other cases are not read.
        wanted = [
            pl.col(name).is_null() if value is None else pl.col(name) == value for name, value in case.levels.items()
        ]
        return pl.scan_parquet(path).filter(*wanted).collect()

    @cached_property
    def overflows(self) -> pl.DataFrame:
        """Packets dropped for lack of room: the labels of a run, `lost_at` ("link.NAME" or "impair.NAME"),
        `lost_packets`, and of them `dropped_packets` in the measured interval, NULL where only this is known.
        """
        # These are columns of the tables, so no factor has such a name.
        keys = ["experiment", "trial", *self.factors, "lost_at"]
        found = self._overflowed(self.links.lazy(), keys)
        whole, losses = (self.folder / f"{table}.parquet" for table in ("series", "losses"))
        if whole.is_file():
            measured = found.rename({"lost_packets": "dropped_packets"})
            both = self._overflowed(pl.scan_parquet(whole), keys).join(
                measured, on=keys, how="full", coalesce=True, nulls_equal=True
            )
            is_known = pl.col("lost_packets").is_not_null()
            found = both.with_columns(
                pl.coalesce("lost_packets", "dropped_packets"),
                dropped_packets=pl.when(is_known).then(pl.col("dropped_packets").fill_null(0)),
            )
        else:
            found = found.with_columns(dropped_packets=pl.lit(None, pl.Int64))
        if losses.is_file():
            of_netem = pl.col("lost_at").str.starts_with("impair.") & (pl.col("lost_by") == "overflow")
            rows = pl.scan_parquet(losses).filter(of_netem).group_by(keys)
            found = pl.concat([found, rows.agg(pl.col("lost_packets").sum()).collect()], how="diagonal_relaxed")
        return found.sort(keys, nulls_last=True)

    def _overflowed(self, rows: pl.LazyFrame, keys: list[str]) -> pl.DataFrame:
        """Packets that the links of these rows dropped for lack of room."""
        name = "dropped_overflow_packets"
        count = pl.col(name) if name in rows.collect_schema() else pl.lit(None, pl.Int64)
        of_queue = rows.with_columns(lost_packets=count, lost_at=pl.lit("link.") + pl.col("link")).filter(
            pl.col("queue") == "all", pl.col("lost_packets") > 0
        )
        return of_queue.group_by(keys).agg(pl.col("lost_packets").sum().round().cast(pl.Int64)).collect()

    def tables(self) -> dict[str, pl.DataFrame | Path]:
        """The result tables for queries."""
        files = {name: self.folder / f"{name}.parquet" for name in metrics.TABLES}
        return {name: file for name, file in files.items() if file.is_file()} | {
            "flows": self.flows,
            "links": self.links,
        }

    def described(self, case: Case) -> Description:
        """The description of a run of a case."""
        place = self.cases.index(case)
        if place not in self._described:
            self._described[place] = sweep.describe(self.file(case.experiment), case.levels)
        return self._described[place]

    @cached_property
    def run_ids(self) -> list[str]:
        """The runs that have results, in the order of the tables."""
        return list(self.flows["run"].unique(maintain_order=True))

    @cached_property
    def shortfall(self) -> str:
        """A sentence where runs are missing that were asked for, else ""."""
        wanted, _, present = self._counts
        if present >= wanted:
            return ""
        runs = counted(wanted, "run is", "runs are")
        return f"{wanted - present} of {runs} missing; everything below is about the others."

    @cached_property
    def part(self) -> str:
        """A sentence where these are the runs that a study does by default, and there are more; else ""."""
        wanted, planned, _ = self._counts
        if wanted == planned:
            return ""
        whole = f"; {self.command} --full does all {planned}" if self.command.startswith("l4slab reproduce") else ""
        return f"This is the part of the study that is done by default, {wanted} of {planned} runs{whole}."

    @cached_property
    def _counts(self) -> tuple[int, int, int]:
        """The numbers of wanted runs, of runs that the files describe, and of wanted runs that are done.

        If only runs of a study's default part are done, only this part is wanted.
        """
        planned = {(name, run.id) for name in self.experiments for run in self.plan(name).runs}
        present = set(self.flows.select("experiment", "run").unique().iter_rows())
        if present >= planned:
            return len(planned), len(planned), len(planned)
        part = {(name, run.id) for name in self.experiments for run in self._default(name)}
        wanted = part if present <= part else planned
        return len(wanted), len(planned), len(present & wanted)

    def _default(self, experiment: str) -> list[sweep.Run]:
        """The runs that a study does of this file when it is not asked for all."""
        plan = self.plan(experiment)
        condition = plan.experiment.subset
        if not condition or not plan.runs:
            return plan.runs
        return sweep.expand(plan.experiment, plan.runs[0].engine, sweep.Where(condition, "subset")).todo

    @cached_property
    def command(self) -> str:
        """The command that makes these results again, in a folder of this one's name."""
        engines = {self.engine(name) for name in self.experiments}
        engine = engines.pop() if len(engines) == 1 else DEFAULT
        mine = {e.file.name: e.source for e in self.files}
        study = next(
            (name for name, files in studies().items() if {file.name: file.read_bytes() for file in files} == mine),
            None,
        )
        what = f"reproduce {study}" if study else f"run {' '.join(map(shlex.quote, mine))}"
        whole = self.folder.resolve()
        # Where the folder is on this machine is no business of those who read the page.
        out = Path("results", whole.name) if whole.parent.name == "results" else Path(whole.name)
        usual = study or (Path(next(iter(mine))).stem if len(mine) == 1 else None)
        is_usual = usual is not None and out == Path("results", folder_name(usual, engine)) and self.url is None
        return f"l4slab {what}{option(engine)}" + ("" if is_usual else f" --out {shlex.quote(self.url or str(out))}")


def short_names(factors: Sequence[str]) -> list[str]:
    """Of each dotted key the last part, where that is unique."""
    short = [name.rpartition(".")[2] for name in factors]
    return [last if short.count(last) == 1 else name for name, last in zip(factors, short, strict=True)]


def replace(path: Path, write_to: Any) -> None:
    """Write a file so that a reader sees the old one or the new one, whole. One that stays the same is left alone."""
    temporary = path.with_name(f".{path.name}.tmp")
    write_to(temporary)
    if path.is_file() and filecmp.cmp(temporary, path, shallow=False):
        temporary.unlink()
    else:
        temporary.replace(path)


def load(folder: Path, plans: Mapping[str, Plan] | None = None, url: str | None = None) -> Folder:
    """Read a results folder; plans of its files that are not given are made where they are wanted. `url` is where the
    folder goes, if it is a working copy.

    Raises InputError for an experiment file that cannot be read.
    """
    flows = _read(folder, "flows", metrics.LABELS | metrics.FLOWS)
    links = _read(folder, "links", metrics.LABELS | metrics.LINKS)
    position = {name: number for number, name in enumerate(flows.columns)}
    factors = flows.columns[position["trial"] + 1 : position["flow"]]
    levels = flows.select("experiment", *factors).unique(maintain_order=True)
    return Folder(
        folder=folder,
        url=url,
        files=[experimentfile.load(file) for file in sorted((folder / "experiments").glob("*.toml"))],
        flows=flows,
        links=links,
        claims=_read(folder, "claims", metrics.CLAIMS),
        published=_read(folder, "published", metrics.PUBLISHED),
        factors=factors,
        cases=[Case(row) for row in levels.iter_rows(named=True)],
        _plans=dict(plans or {}),
    )


def packets_of(folder: Path, run: str) -> tuple[str, pl.DataFrame, pl.DataFrame] | None:
    """The flow of a stack whose log the run has kept, its packets and the log; None without a log."""
    for log in (folder / "lab" / run / "programs").glob(f"*-{LOG}.parquet"):
        name = log.name.removesuffix(f"-{LOG}.parquet")
        return unquote(name), pl.read_parquet(log.with_name(f"{name}-{PACKETS}.parquet")), pl.read_parquet(log)
    return None


def _read(folder: Path, table: str, schema: metrics.Schema) -> pl.DataFrame:
    """A table with every column of `schema`; empty where there is no file."""
    path = folder / f"{table}.parquet"
    frame = pl.read_parquet(path) if path.is_file() else pl.DataFrame(schema=schema)
    missing = [pl.lit(None, dtype=dtype).alias(name) for name, dtype in schema.items() if name not in frame.columns]
    return frame.with_columns(missing)
