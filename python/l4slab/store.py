"""The results folder: finished runs survive a kill at any instant, and the tables do not depend on how they came.

    DIR/experiments/*.toml     the files whose runs the tables hold (*.runs: the ids of all their runs)
    DIR/{flows,links,series,transfers}.parquet, {claims,published}.parquet, report.html
    DIR/parts/                 finished runs that are not in the tables (yet)
    DIR/captures/RUN/          packet captures, where the experiment file asks for them

A part is a file per table, written to the side, synced and renamed; the flows file comes last and makes the part
count. The tables are rebuilt from tables and parts together, flows last, and only then are the parts removed:
at every instant each finished run is complete either in a part or in the tables. Rows in parts carry the run's
id only; which experiment, trial and factor levels a run has is what the experiment files say today, so renaming
a level runs nothing. A run whose captures are missing is run again; of a run that is there twice, the newer one
counts. Runs that no file describes any more leave the tables but stay in a part, and come back with the file.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from l4slab import metrics
from l4slab.engines import Recording, get_engine
from l4slab.errors import InputError, StoreError
from l4slab.executors import captures_of
from l4slab.sweep import Plan, Run

# flows last: it is the mark that the others are complete.
_ORDER = ("links", "series", "transfers", "flows")
_LABELS_KEY = b"l4slab.labels"
# Runs per row group of the tables: some 10 MB, so that memory does not grow with the campaign.
_CHUNK = 64
# Parts of one size are merged when there are this many, so that opening never reads thousands of files.
_MERGE = 32
_COMPRESSION = "zstd"
_OF_A_PART = "[abcz]-" + 8 * "[0-9]" + ".*.parquet"
# Held by the process that writes, and the sign that the folder is ours.
_LOCK = ".lock"
_TABLES = (*metrics.TABLES, "claims", "published")
_WRITTEN = ("parts", "experiments", "captures", "lab", "runs", "report.html", *(f"{name}.parquet" for name in _TABLES))


class _Source:
    """One Parquet file with the rows of some runs, read by row groups."""

    def __init__(self, path: Path):
        self.path = path
        self.file = pq.ParquetFile(path)
        schema = self.file.schema_arrow
        labels = json.loads((schema.metadata or {}).get(_LABELS_KEY, b"[]"))
        self.columns = [name for name in schema.names if name == "run" or name not in labels]
        self.schema: pl.Schema = pl.from_arrow(schema.empty_table().select(self.columns)).schema  # type: ignore[union-attr]
        self._labelled = bool(labels)
        self._cached: tuple[int, pl.DataFrame] | None = None
        self._groups: list[set[str]] | None = None
        self._runs: set[str] | None = None

    def groups(self) -> list[set[str]]:
        """The runs in each row group."""
        if self._groups is None:
            self._groups = [
                set(self.file.read_row_group(i, columns=["run"])["run"].unique().to_pylist())
                for i in range(self.file.num_row_groups)
            ]
        return self._groups

    def runs(self) -> set[str]:
        """Every run with a row in this file."""
        if self._runs is None:
            self._runs = set(self.file.read(columns=["run"])["run"].unique().to_pylist())
        return self._runs

    def take(self, runs: set[str]) -> pl.DataFrame:
        """The rows of these runs, without labels."""
        found = [
            self._group(index).filter(pl.col("run").is_in(list(runs)))
            for index, group in enumerate(self.groups())
            if not group.isdisjoint(runs)
        ]
        if not found:
            return pl.DataFrame(schema=self.schema)
        rows = pl.concat(found, how="vertical")
        if self._labelled:
            # A run that two experiments share stands here twice.
            first = pl.col("experiment") == pl.col("experiment").first().over("run")
            rows = rows.filter(first).drop("experiment")
        return rows

    def frames(self) -> Iterator[pl.DataFrame]:
        """The rows of a part, row group by row group."""
        for index in range(self.file.num_row_groups):
            yield self._group(index)

    def _group(self, index: int) -> pl.DataFrame:
        if self._cached is None or self._cached[0] != index:
            columns = [*self.columns, *(["experiment"] if self._labelled else [])]
            self._cached = index, pl.DataFrame(pl.from_arrow(self.file.read_row_group(index, columns=columns)))
        return self._cached[1]


class Store:
    """The results folder DIR, held by one process at a time.

    Raises StoreError (the disk, a second process) and InputError (DIR cannot be a results folder).
    """

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        self.place = str(folder)  # as the user calls it
        self.parts = self.folder / "parts"
        self._pending: list[tuple[str, Recording]] = []
        self._lock: IO[str] | None = None
        self._next = 1

    def __enter__(self) -> Self:
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError("is a file; give --out a folder", file=self.folder)
        if not (self.folder / _LOCK).exists():
            for name in _WRITTEN:
                if (self.folder / name).exists():
                    raise InputError(
                        f"has {name}, which no l4slab has written there; give --out a folder of its own",
                        file=self.folder,
                    )
        with self._disk():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / _LOCK).open("a")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._lock.close()
                raise StoreError(
                    f"{self.folder}: another l4slab process writes here; wait until it ends or give another --out"
                ) from None
            self.parts.mkdir(exist_ok=True)
            (self.folder / "experiments").mkdir(exist_ok=True)
            self._clean()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.close()

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreError(
                    f"{self.folder}: the disk is full; finished runs are kept: "
                    "free some space and give the same command again"
                ) from None
            raise StoreError(
                f"{self.folder}: {error.strerror or error}; check the folder and give the same command again"
            ) from None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Say in one sentence what goes wrong where others write into the folder."""
        with self._disk():
            try:
                yield
            except subprocess.CalledProcessError:
                # The plots' processes have said why.
                raise StoreError(
                    f"{self.folder}: the plots cannot be written; see that the disk has room and give the same command "
                    "again: finished runs are kept"
                ) from None

    @property
    def report(self) -> str:
        """Where report.html is."""
        return f"{self.place}/report.html"

    def publish(self) -> None:
        """Bring the finished folder to where it belongs: it is there."""

    # -- finished runs ------------------------------------------------------------------------------------------------

    def _clean(self) -> None:
        """Remove what a kill has left half-written."""
        for folder in (self.folder, self.parts, self.folder / "experiments"):
            for file in folder.glob(".*.tmp"):
                file.unlink()
        for leftover in (self.folder / "captures").glob(".*.tmp"):
            shutil.rmtree(leftover)
        complete = {file.name.partition(".")[0] for file in self.parts.glob("*.flows.parquet")}
        for file in self.parts.glob(_OF_A_PART):
            if file.name.partition(".")[0] not in complete:
                file.unlink()
        numbers = [int(name.rpartition("-")[2]) for name in complete if name.rpartition("-")[2].isdigit()]
        self._next = max(numbers, default=0) + 1

    def _part_names(self) -> list[str]:
        """Every part, the newest first."""
        names = [file.name.partition(".")[0] for file in self.parts.glob("*.flows.parquet")]
        return sorted(names, key=lambda name: name.rpartition("-")[2], reverse=True)

    def _open(self, path: Path) -> _Source | None:
        """A readable file, or None: what cannot be read is run again."""
        try:
            source = _Source(path)
            return source if "run" in source.columns else None
        except (OSError, pa.ArrowException, ValueError):
            return None

    def _part_files(self, name: str) -> dict[str, Path]:
        return {table: self.parts / f"{name}.{table}.parquet" for table in _ORDER}

    def _open_all(self, places: Iterable[Mapping[str, Path]]) -> list[dict[str, _Source]]:
        """The places whose files can all be read."""
        opened = [{table: self._open(path) for table, path in place.items()} for place in places]
        return [
            {table: source for table, source in place.items() if source is not None}
            for place in opened
            if None not in place.values()
        ]

    def _table_files(self) -> dict[str, Path]:
        return {table: self.folder / f"{table}.parquet" for table in _ORDER}

    def _sources(self) -> list[dict[str, _Source]]:
        """Every readable part, the newest first, then the tables."""
        return self._open_all([*map(self._part_files, self._part_names()), self._table_files()])

    def finished(self) -> set[str]:
        """The ids of all runs whose results are on the disk, or handed to `add`."""
        with self._disk():
            on_disk = [source["flows"].runs() for source in self._sources()]
        return set().union(*on_disk, (run for run, _ in self._pending))

    def seen(self) -> set[str]:
        """As `finished`, without a look into the files that only have to be there: quick, for those who only ask."""
        with self._disk():
            places = [*map(self._part_files, self._part_names()), self._table_files()]
            there = [place for place in places if all(path.is_file() for path in place.values())]
            opened = [self._open(place["flows"]) for place in there]
            return set().union(*(source.runs() for source in opened if source is not None))

    def has_captures(self, run: Run) -> bool:
        """Whether the captures that the run is to have are there."""
        return not run.captures or captures_of(run, self.folder).is_dir()

    def add(self, run: str, recording: Recording) -> None:
        """Take a finished run; `flush` makes it durable."""
        self._pending.append((run, recording))

    def flush(self) -> None:
        """Write what was added as one part. Returns when it is on the disk."""
        if not self._pending:
            return
        tables = {
            table: pl.concat([_with_run(run, getattr(r, table)) for run, r in self._pending], how="diagonal_relaxed")
            for table in _ORDER
        }
        with self._disk():
            self._write_part("a", {table: (frame.schema, [frame]) for table, frame in tables.items()})
            self._pending.clear()
            self._merge()

    def _write_part(self, size: str, tables: Mapping[str, tuple[pl.Schema, Iterable[pl.DataFrame]]]) -> None:
        name = f"{size}-{self._next:08d}"
        self._next += 1
        for table in _ORDER:
            _replace(self.parts / f"{name}.{table}.parquet", partial(_write_rows, *tables[table]))

    def _merge(self) -> None:
        for size, larger in (("a", "b"), ("b", "c")):
            names = [name for name in self._part_names() if name.startswith(f"{size}-")]
            if len(names) < _MERGE:
                continue
            sources = self._open_all([self._part_files(name) for name in names])
            tables = {table: _merged(table, [source[table] for source in sources]) for table in _ORDER}
            self._write_part(larger, tables)
            self._remove_parts(names)

    def _remove_parts(self, names: Iterable[str]) -> None:
        for name in names:
            # The flows file goes first: without it the others are leftovers.
            for path in reversed(self._part_files(name).values()):
                path.unlink(missing_ok=True)

    # -- experiment files ---------------------------------------------------------------------------------------------

    def keep_experiment(self, name: str, source: bytes, runs: Sequence[Run] = ()) -> None:
        """Copy an experiment file into the folder, so that the folder explains itself, and the ids of its runs."""
        path = self.folder / "experiments" / f"{name}.toml"
        engines = sorted({(run.engine, run.version) for run in runs})
        ids = json.dumps({"of": _mark(source), "engines": engines, "runs": [run.id for run in runs]}).encode()
        for file, content in ((path, source), (path.with_suffix(".runs"), ids)):
            if not file.is_file() or file.read_bytes() != content:
                with self._disk():
                    _replace(file, partial(_write_bytes, content))

    def planned(self, name: str) -> set[str] | None:
        """The ids of the runs of an experiment file in the folder; None where they have to be found out again."""
        path = self.folder / "experiments" / f"{name}.toml"
        try:
            kept = json.loads(path.with_suffix(".runs").read_bytes())
            current = all(get_engine(name).version() == version for name, version in kept["engines"])
            return set(kept["runs"]) if current and kept["of"] == _mark(path.read_bytes()) else None
        except (OSError, ValueError, KeyError, TypeError, InputError):
            return None

    def size(self) -> int:
        """Bytes that the folder takes."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    def experiment_files(self) -> list[Path]:
        """The experiment files whose runs this folder holds, by name."""
        return sorted((self.folder / "experiments").glob("*.toml"))

    # -- tables -------------------------------------------------------------------------------------------------------

    def consolidate(self, plans: Sequence[Plan]) -> int:
        """Rebuild the tables: the finished runs of `plans`, in sweep order.

        Returns how many finished runs are kept out of the tables because no plan has them. Writes nothing where
        the tables are already right.
        """
        labels = label_frame(plans)
        with self._disk():
            sources = self._sources()
            names = self._part_names()
            of_run: dict[str, dict[str, _Source]] = {}
            for source in sources:
                for run in source["flows"].runs():
                    of_run.setdefault(run, source)
            wanted = set(labels["run"])
            unused = sorted(set(of_run) - wanted)
            labels = labels.filter(pl.col("run").is_in(list(of_run)))
            in_parts = {run for source in sources if self._is_part(source) for run in source["flows"].runs()}
            in_tables = self._table_labels()
            if in_parts == set(unused) and in_tables is not None and in_tables.equals(labels):
                return len(unused)
            schemas = {table: _schema(table, (source[table].schema for source in sources)) for table in _ORDER}
            if unused:
                self._write_part(
                    "z", {t: (schema, _gather(of_run, t, unused, schema)) for t, schema in schemas.items()}
                )
            for table in _ORDER:
                rows = _labelled(labels, of_run, table, schemas[table])
                _replace(self.folder / f"{table}.parquet", partial(_write_rows, *rows, labels=labels.columns))
            self._remove_parts(names)
        return len(unused)

    def _is_part(self, source: Mapping[str, _Source]) -> bool:
        return source["flows"].path.parent == self.parts

    def _table_labels(self) -> pl.DataFrame | None:
        source = self._open(self.folder / "flows.parquet")
        if source is None:
            return None
        names = json.loads((source.file.schema_arrow.metadata or {}).get(_LABELS_KEY, b"[]"))
        return pl.DataFrame(pl.from_arrow(source.file.read(columns=names))).unique(maintain_order=True)

    def write(self, table: str, rows: pl.DataFrame) -> None:
        """Write a table that follows from the others, TABLE.parquet."""
        with self._disk():
            _replace(self.folder / f"{table}.parquet", partial(_write_rows, rows.schema, [rows]))


def _schema(table: str, schemas: Iterable[pl.Schema]) -> pl.Schema:
    """The union of the schemas: `run`, the columns of the contract, then others by name."""
    found: dict[str, pl.DataType] = {"run": pl.String(), **metrics.TABLES[table]}
    others = list(schemas)
    for name in sorted({name for schema in others for name in schema if name not in found}):
        empty = [pl.DataFrame(schema={name: schema[name]}) for schema in others if name in schema]
        found[name] = pl.concat(empty, how="vertical_relaxed").schema[name]
    return pl.Schema(found)


def _merged(table: str, sources: Sequence[_Source]) -> tuple[pl.Schema, Iterator[pl.DataFrame]]:
    """The rows of parts, one after the other; of a run that is in several, those of the first."""
    schema = _schema(table, (source.schema for source in sources))

    def frames() -> Iterator[pl.DataFrame]:
        seen: set[str] = set()
        for source in sources:
            for frame in source.frames():
                yield _aligned(frame.filter(~pl.col("run").is_in(list(seen))), schema)
            seen |= source.runs()

    return schema, frames()


def _with_run(run: str, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(pl.lit(run).alias("run"), pl.all())


def _aligned(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The frame with exactly the columns of `schema`, NULL where it has none."""
    missing = [pl.lit(None, dtype=dtype).alias(name) for name, dtype in schema.items() if name not in frame.columns]
    return frame.with_columns(missing).select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def _gather(
    of_run: Mapping[str, Mapping[str, _Source]], table: str, runs: Sequence[str], schema: pl.Schema
) -> Iterator[pl.DataFrame]:
    """The rows of these runs in this order, `_CHUNK` runs at a time."""
    for start in range(0, len(runs), _CHUNK):
        chunk = runs[start : start + _CHUNK]
        by_source: dict[int, tuple[_Source, set[str]]] = {}
        for run in chunk:
            source = of_run[run][table]
            by_source.setdefault(id(source), (source, set()))[1].add(run)
        rows = pl.concat([_aligned(source.take(members), schema) for source, members in by_source.values()])
        order = pl.DataFrame({"run": list(chunk)}, schema={"run": pl.String})
        yield order.join(rows, on="run", how="inner", maintain_order="left_right").select(schema.names())


def _labelled(
    labels: pl.DataFrame, of_run: Mapping[str, Mapping[str, _Source]], table: str, schema: pl.Schema
) -> tuple[pl.Schema, Iterator[pl.DataFrame]]:
    """The rows of the labelled runs in the order of `labels`, labels first."""
    # A factor hides a further column of the engine that has its name (the contract's names are refused).
    own = {name: dtype for name, dtype in schema.items() if name == "run" or name not in labels.columns}
    full = pl.Schema(dict(labels.schema) | own)

    def frames() -> Iterator[pl.DataFrame]:
        for start in range(0, len(labels), _CHUNK):
            chunk = labels.slice(start, _CHUNK)
            runs = list(chunk["run"].unique(maintain_order=True))
            rows = pl.concat(_gather(of_run, table, runs, pl.Schema(own)))
            yield chunk.join(rows, on="run", how="inner", maintain_order="left_right").select(full.names())

    return full, frames()


def label_frame(plans: Sequence[Plan]) -> pl.DataFrame:
    """A row per run in sweep order: experiment, run, trial and every factor of any plan.

    Factors are numbers where every level in every plan is one, else text as written.
    """
    plans = sorted(plans, key=lambda plan: plan.experiment.name)
    levels: dict[str, list[Any]] = {}
    for plan in plans:
        for name, values in plan.factors.items():
            levels.setdefault(name, []).extend(values)
    schema = metrics.labels_schema(levels)
    runs: list[Run] = [run for plan in plans for run in plan.runs]
    columns: dict[str, list[Any]] = {
        "experiment": [run.experiment for run in runs],
        "run": [run.id for run in runs],
        "trial": [run.trial for run in runs],
    }
    for name, values in levels.items():
        text = not metrics.is_numeric(values)
        found = [run.factors.get(name) for run in runs]
        columns[name] = [metrics.level_text(v) if text and v is not None else v for v in found]
    return pl.DataFrame(columns, schema=schema, strict=False)


def label(frames: Iterable[tuple[Run, Recording]], plans: Sequence[Plan]) -> dict[str, pl.DataFrame]:
    """The tables of runs that are not stored, as `Store.consolidate` would write them."""
    by_id = {run.id: recording for run, recording in frames}
    labels = label_frame(plans).filter(pl.col("run").is_in(list(by_id)))
    tables = {}
    for table in metrics.TABLES:
        rows = {run: _with_run(run, getattr(recording, table)) for run, recording in by_id.items()}
        schema = _schema(table, (frame.drop(labels.columns[3:], strict=False).schema for frame in rows.values()))
        found = [pl.DataFrame(schema=schema), *(_aligned(rows[run], schema) for run in labels["run"].unique())]
        tables[table] = labels.join(pl.concat(found), on="run", how="inner", maintain_order="left_right")
    return tables


def _write_rows(schema: pl.Schema, frames: Iterable[pl.DataFrame], file: IO[bytes], labels: Sequence[str] = ()) -> None:
    """Write one row group per frame; `labels` are the columns that do not come from the engine."""
    arrow_schema = pl.DataFrame(schema=schema).to_arrow().schema
    if labels:
        arrow_schema = arrow_schema.with_metadata({_LABELS_KEY: json.dumps(list(labels)).encode()})
    with pq.ParquetWriter(file, arrow_schema, compression=_COMPRESSION) as writer:
        for frame in frames:
            writer.write_table(frame.to_arrow().cast(arrow_schema), row_group_size=max(len(frame), 1))


def _mark(source: bytes) -> str:
    """Changes with an experiment file."""
    return hashlib.sha256(source).hexdigest()


def _write_bytes(content: bytes, file: IO[bytes]) -> None:
    file.write(content)


def _replace(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file so that a reader, or a kill, sees the old one or the new one, whole."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
