"""The results folder: finished runs survive a kill at any instant, and the tables do not depend on the order of runs.

    DIR/.l4slab                a writer locks it; the kernel frees the lock with the process
    DIR/parts/*.parquet        the finished runs
    DIR/experiments/*.toml     the files whose runs are in the tables (*.runs: the ids of all their runs), and the
                               tables of published values that they name
    DIR/TABLE.parquet          (`metrics.TABLES`), {claims,published}.parquet, report.html: derived from these
    DIR/digests.json           what wrote the tables, and digests of every table and run (`l4slab.campaign.digests`)
    DIR/captures/RUN/          packet captures, if the experiment file asks for them

A part has a row for each of its runs: the id, and each table as an Arrow stream. It is written to a temporary file,
synced and renamed. It has a unique name and never changes. Small parts are merged into a new one, and removed when the
new one is complete. So at every instant each finished run is complete in at least one part, even if several processes
write. At worst two processes do the same work, so the results need no lock, also at a URL (`l4slab.campaign.remote`).
If several parts contain a run, the newest counts.

The tables are written from the parts, some runs at a time, whenever the parts or the files have changed. Rows get their
labels then: the current experiment files give a run's experiment, trial and factor levels, so renaming a level runs
nothing. A run whose captures are missing is run again. Runs that no file describes any more leave the tables and come
back with the file.

Why not a database of DuckDB: it locks its file for all others, `l4slab status` included, and does not write to an
object store in steps. Arrow streams, Parquet's row groups and columns, and SQL over the finished tables are used.
"""

from __future__ import annotations

import filecmp
import hashlib
import io
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import polars as pl

from l4slab.base import damage, frames, metrics, paths, system
from l4slab.base.errors import InputError, StoreError
from l4slab.base.values import Keys
from l4slab.campaign import digests
from l4slab.campaign.executors import captures_of
from l4slab.engines.contract import Recording
from l4slab.engines.registry import get_engine
from l4slab.experimentfile import Experiment, references
from l4slab.own import files
from l4slab.sweep import Plan, Run

# flows last: if flows is there, so are the others.
ORDER = (*(name for name in metrics.TABLES if name != "flows"), "flows")
# Runs per row group: some 10 MB, so that memory does not grow with the campaign.
_CHUNK = 64
# Parts of one level are merged into one of the next when there are this many, so that opening never reads thousands.
_MERGE = 32
_LEVELS = 2
# Level, number, and a unique word.
PART = "[0-9]-" + 8 * "[0-9]" + "-*.parquet"
# In the metadata of a part: the runs of its rows.
_RUNS = "runs"
_PART_SCHEMA = pl.Schema({"run": pl.String(), **dict.fromkeys(ORDER, pl.Binary())})
# Held by the process that writes, and the sign that the folder is ours.
SIGN = ".l4slab"
# What the tables were written from, and how large they are.
TABLES_OF = ".tables"
# What wrote the tables, and their digests.
DIGESTS = "digests.json"
_TABLES = (*metrics.TABLES, "claims", "published")
_PAGES = ("report.html", "live.html")
_FOLDERS = ("parts", "experiments", "captures", "lab", "runs")
_FILES = (*_PAGES, DIGESTS, *(f"{name}.parquet" for name in _TABLES))
_WRITTEN = (*_FOLDERS, *_FILES)


class _Part:
    """A file of whole runs. Raises PolarsError where it is none."""

    def __init__(self, name: str, file: Path | IO[bytes]):
        self.name = name
        # Only the end of a part at a URL is fetched, because it answers which runs the part has. No rows are needed.
        self._is_here = isinstance(file, Path)
        end = file if isinstance(file, Path) else frames.footer(file)
        self._metadata = pl.read_parquet_metadata(end)
        self.rows = pl.scan_parquet(end)
        if self.rows.collect_schema() != _PART_SCHEMA or _RUNS not in self._metadata:
            raise pl.exceptions.SchemaError(f"{name} is no part")
        self._cached: tuple[int, str, dict[str, bytes]] | None = None

    @cached_property
    def groups(self) -> list[list[str]]:
        """The runs of each `_CHUNK` rows."""
        runs: list[str]
        if self._is_here:
            runs = self.rows.select("run").collect()["run"].to_list()
        else:
            runs = json.loads(self._metadata[_RUNS])
        return [runs[at : at + _CHUNK] for at in range(0, len(runs), _CHUNK)]

    def schema(self, table: str) -> pl.Schema:
        """The columns of a table of any of its runs."""
        return _unpacked(bytes.fromhex(self._metadata[table])).schema

    def tables(self, group: int, table: str) -> dict[str, bytes]:
        """A table of each run in a group, as `_packed` gives it."""
        if self._cached is None or self._cached[:2] != (group, table):
            found = self.rows.slice(group * _CHUNK, _CHUNK).select("run", table).collect()
            self._cached = group, table, dict(found.iter_rows())
        return self._cached[2]


def _age(part: str) -> str:
    """The sort key of a part's name. A merged part is as old as its newest source."""
    return part.partition("-")[2]


class Store:
    """The results folder DIR, held by one process at a time.

    Raises StoreError (the disk, a second process) and InputError (DIR cannot be a results folder).
    """

    def __init__(self, folder: Path | str):
        self.folder = paths.usable(folder)
        self.place = str(folder)  # as the user calls it
        self.parts = self.fresh = self.folder / "parts"
        self._pending: dict[str, Recording] = {}
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError("is a file; give --out a folder", file=self.folder)
        if (file := next((one for one in self.folder.parents if one.is_file()), None)) is not None:
            raise InputError(f"cannot be a folder, as {file} is a file; give --out another", file=self.folder)
        self.check_kinds()
        if not (self.folder / SIGN).exists():
            refuse_foreign((path.name for path in self.folder.glob("*")), self.place)
        with self._disk():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / SIGN).open("a")
            try:
                system.lock(self._lock)
            except BlockingIOError:
                self._lock.close()
                raise StoreError(
                    f"{self.place}: another l4slab process writes here; wait until it ends or give another --out"
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

    def check_kinds(self) -> None:
        """Raises InputError where a file stands for one of the folders in it, or a folder for one of the files."""
        for name in _FOLDERS:
            if (path := self.folder / name).is_file():
                raise InputError("is a file, and l4slab keeps a folder there; move it away", file=path)
        for name in (*_FILES, SIGN, TABLES_OF):
            if (path := self.folder / name).is_dir():
                raise InputError("is a folder, and l4slab keeps a file there; move it away", file=path)

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno is None:  # of a library that cannot read a damaged file
                raise
            raise paths.told(error, self.folder) from None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn failures of other writers into the folder into one sentence."""
        with self._disk():
            try:
                yield
            except subprocess.CalledProcessError:
                # The plots' processes have printed the reason.
                raise StoreError(
                    f"{self.folder}: the plots cannot be written; see that the disk has room and give the same command "
                    "again: finished runs are kept"
                ) from None

    @property
    def report(self) -> str:
        """The place of report.html."""
        return f"{self.place}/report.html"

    def publish(self, report: bool = True) -> None:
        """Bring the finished folder to its place, with or without a new report. A local folder is there already."""

    # -- finished runs ------------------------------------------------------------------------------------------------

    def _clean(self) -> None:
        """Remove files that a kill has left half-written."""
        for folder in (self.folder, self.parts, self.fresh, self.folder / "experiments"):
            for file in folder.glob(".*.tmp"):
                file.unlink()
        for leftover in (self.folder / "captures").glob(".*.tmp"):
            shutil.rmtree(leftover)

    def part_names(self) -> list[str]:
        """The names of all parts."""
        return [path.name for path in self.parts.glob(PART)]

    def _open(self, name: str) -> Path | IO[bytes]:
        return self.parts / name

    def _parts(self) -> list[_Part]:
        """Every readable part, the newest first. Runs of unreadable parts are run again."""
        found = []
        try:
            for name in sorted(self.part_names(), key=_age, reverse=True):
                with suppress(pl.exceptions.PolarsError):
                    part = _Part(name, self._open(name))
                    # Whoever has the runs can read the part.
                    found += [part] if part.groups else []
        except FileNotFoundError:
            # Whoever writes has merged them meanwhile.
            return self._parts()
        return found

    def damaged(self) -> list[str]:
        """The names of parts that cannot be read any more, such as truncated ones."""
        return [name for name in self.part_names() if not damage.is_readable(self._open(name))]

    def forget_tables(self) -> None:
        """Have `consolidate` write all tables again."""
        (self.folder / TABLES_OF).unlink(missing_ok=True)

    def _places(self) -> dict[str, tuple[_Part, int]]:
        """The part and the row group of every finished run."""
        found: dict[str, tuple[_Part, int]] = {}
        for part in self._parts():
            for index, group in enumerate(part.groups):
                for run in group:
                    found.setdefault(run, (part, index))
        return found

    def finished(self) -> set[str]:
        """The ids of all runs whose results are on the disk, or handed to `add`."""
        with self._disk():
            return {*self._places(), *self._pending}

    def recordings(self, runs: Iterable[str]) -> Iterator[tuple[str, str, Recording]]:
        """Each of these finished runs with the name of its part and its tables, the runs of a part together."""
        with self._disk():
            places = self._places()
            for run in sorted(runs, key=lambda run: (places[run][0].name, places[run][1])):
                part, group = places[run]
                yield run, part.name, Recording(**{name: _unpacked(part.tables(group, name)[run]) for name in ORDER})

    def has_captures(self, run: Run) -> bool:
        """Whether the captures that the run is to have are there."""
        return not run.captures or captures_of(run, self.folder).is_dir()

    def add(self, run: str, recording: Recording) -> None:
        """Take a finished run; `flush` makes it durable."""
        self._pending[run] = recording

    def flush(self) -> None:
        """Write the added runs as one part. Returns when it is on the disk."""
        if not self._pending:
            return
        with self._disk():
            try:
                self._write_runs(self._pending)
            except OSError:
                # Where one part has no room, some of the runs may have.
                for run in list(self._pending) if len(self._pending) > 1 else ():
                    with suppress(OSError):
                        self._write_runs({run: self._pending[run]})
                        del self._pending[run]
                raise
            self._pending.clear()
            self._merge()

    def _write_runs(self, runs: Mapping[str, Recording]) -> None:
        """Write a part that has these runs."""
        tables = {name: [getattr(recording, name) for recording in runs.values()] for name in ORDER}
        rows = {name: [_packed(frame) for frame in column] for name, column in tables.items()}
        schemas = {name: _union(frame.schema for frame in column) for name, column in tables.items()}
        number = 1 + max((int(name.split("-")[1]) for name in self.part_names()), default=0)
        part = pl.DataFrame({"run": list(runs), **rows}, _PART_SCHEMA)
        self._write_part(0, number, list(runs), part.lazy(), schemas)

    def _write_part(
        self, level: int, number: int, runs: Sequence[str], rows: pl.LazyFrame, schemas: Mapping[str, pl.Schema]
    ) -> None:
        name = f"{level}-{number:08d}-{uuid.uuid4().hex[:12]}.parquet"
        metadata = {table: _packed(pl.DataFrame(schema=schema)).hex() for table, schema in schemas.items()}
        metadata[_RUNS] = json.dumps(list(runs))
        _replace(self.fresh / name, partial(frames.write, rows, group=_CHUNK, metadata=metadata))
        self._send(name)

    def _send(self, name: str) -> None:
        """Bring a part that has been written to where it counts: it is there."""

    def _merge(self) -> None:
        for level in range(_LEVELS):
            if sum(name.startswith(f"{level}-") for name in self.part_names()) < _MERGE:
                continue
            parts = [part for part in self._parts() if part.name.startswith(f"{level}-")]
            if len(parts) < _MERGE:
                continue
            schemas = {table: _union(part.schema(table) for part in parts) for table in ORDER}
            self._write_part(level + 1, int(_age(parts[0].name).split("-")[0]), *_merged(parts), schemas)
            for part in parts:
                self._remove_part(part.name)

    def _remove_part(self, name: str) -> None:
        (self.parts / name).unlink()

    # -- experiment files ---------------------------------------------------------------------------------------------

    def keep_experiment(self, experiment: Experiment, runs: Sequence[Run] = ()) -> list[str]:
        """Copy an experiment file and the tables that it names into the folder, so that the folder explains itself, and
        the ids of its runs. Returns their names in the folder.
        """
        engines = sorted({(run.engine, run.version) for run in runs})
        ids = json.dumps(
            {"of": digest_of_file(experiment.source), "engines": engines, "runs": [run.id for run in runs]}
        )
        kept = {f"{experiment.name}.toml": experiment.source, f"{experiment.name}.runs": ids.encode()}
        kept |= references.contents(experiment) | files.contents(run.description for run in runs)
        for name, content in kept.items():
            file = self.folder / "experiments" / name
            if not file.is_file() or file.read_bytes() != content:
                with self._disk():
                    file.parent.mkdir(parents=True, exist_ok=True)
                    _replace(file, partial(_write_bytes, content))
        return [f"experiments/{name}" for name in kept]

    def engine_of(self, name: str) -> str | None:
        """The engine that ran an experiment of the folder, or None."""
        return engine_of(self.folder, name)

    def planned(self, name: str) -> set[str] | None:
        """The ids of the runs of an experiment file in the folder; None where they have to be found out again."""
        path = self.folder / "experiments" / f"{name}.toml"
        try:
            kept = json.loads(path.with_suffix(".runs").read_bytes())
            current = all(get_engine(name).version() == version for name, version in kept["engines"])
            return set(kept["runs"]) if current and kept["of"] == digest_of_file(path.read_bytes()) else None
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
        """Write the tables: the finished runs of `plans`, in sweep order.

        Returns how many finished runs are kept out of the tables because no plan has them. Writes nothing where
        the tables are already right.
        """
        labels = label_frame(plans)
        with self._disk():
            places = self._places()
            unused = len(places.keys() - set(labels["run"]))
            labels = labels.filter(pl.col("run").is_in(list(places)))
            parts = list({part.name: part for part, _ in places.values()}.values())
            of = hashlib.sha256(repr((sorted(part.name for part in parts), labels.schema, labels.rows())).encode())
            if self.tables_of() == (of.hexdigest(), self._sizes()) and "runs" in digests_of(self.folder):
                return unused
            (self.folder / TABLES_OF).unlink(missing_ok=True)
            of_rows: dict[str, dict[str, str]] = {run: {} for run in labels["run"]}
            for table in ORDER:
                schema = _schema(table, [part.schema(table) for part in parts])
                # A factor hides an extra column of runs of other experiments. In its own experiment it is refused.
                own = {name: dtype for name, dtype in schema.items() if name == "run" or name not in labels.columns}
                rows = _labelled(labels, places, table, pl.Schema(own), of_rows)
                self._write_rows(table, pl.Schema(dict(labels.schema) | own), rows)
            of_tables = {
                table: digests.of_table(labels, {run: found[table] for run, found in of_rows.items()})
                for table in ORDER
            }
            self._keep_digests(of_tables, {run: digests.of_run(found) for run, found in of_rows.items()})
            content = json.dumps([of.hexdigest(), self._sizes()]).encode()
            _replace(self.folder / TABLES_OF, partial(_write_bytes, content))
        return unused

    def tables_of(self) -> tuple[str, list[int]] | None:
        """A hash of the parts behind the tables, and the tables' sizes. None if unknown."""
        try:
            of, sizes = json.loads((self.folder / TABLES_OF).read_bytes())
            return of, sizes
        except (OSError, ValueError, TypeError):
            return None

    def _sizes(self) -> list[int]:
        paths = [self.folder / f"{table}.parquet" for table in ORDER]
        return [path.stat().st_size if path.is_file() else -1 for path in paths]

    def write(self, table: str, rows: pl.DataFrame) -> None:
        """Write a table that follows from the others, TABLE.parquet."""
        with self._disk():
            self._write_rows(table, rows.schema, [rows])
            self._keep_digests({table: digests.of_rows(rows)})

    def _keep_digests(self, tables: Mapping[str, str], runs: Mapping[str, str] | None = None) -> None:
        """Note the digests of these tables, and of all runs where they are given."""
        kept = digests_of(self.folder)
        found: Keys = {**digests.writer(), "tables": {**kept.get("tables", {}), **tables}}
        found |= {"runs": dict(runs)} if runs is not None else {"runs": kept["runs"]} if "runs" in kept else {}
        content = json.dumps(found, indent=1).encode()
        _replace(self.folder / DIGESTS, partial(_write_bytes, content))

    def _write_rows(self, table: str, schema: pl.Schema, rows: Iterable[pl.DataFrame]) -> None:
        _replace(self.folder / f"{table}.parquet", partial(frames.write, frames.lazy(schema, rows)))


def engine_of(folder: Path, experiment: str) -> str | None:
    """The engine that ran an experiment of a results folder, as `Store.keep_experiment` has noted it, or None."""
    try:
        kept = json.loads((folder / "experiments" / f"{experiment}.runs").read_bytes())
        return str(kept["engines"][0][0])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None


def digests_of(folder: Path) -> dict[str, Any]:
    """What `Store` has noted about the tables of a results folder (see docs/results.md); empty if nothing."""
    try:
        found = json.loads((folder / DIGESTS).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def with_engine(rows: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """Rows of a table with their label `engine`, which earlier versions did not write."""
    if "engine" in rows.columns:
        return rows
    engines = {name: engine_of(folder, name) for name in rows["experiment"].unique()}
    column = rows["experiment"].replace_strict(engines, return_dtype=pl.String).alias("engine")
    return rows.insert_column(list(metrics.LABELS).index("engine"), column)


def refuse_foreign(names: Iterable[str], place: str) -> None:
    """Raises InputError if a folder has files of a results folder but not its sign."""
    for name in sorted({*names} & {*_WRITTEN}):
        raise InputError(
            f"has {name} but no {SIGN}, so it is no results folder of this l4slab; give --out another one", file=place
        )


def _packed(frame: pl.DataFrame) -> bytes:
    sink = io.BytesIO()
    frame.write_ipc_stream(sink)
    return sink.getvalue()


def _unpacked(packed: bytes) -> pl.DataFrame:
    return pl.read_ipc_stream(packed)


def _union(schemas: Iterable[pl.Schema]) -> pl.Schema:
    """Every column of any of them."""
    schemas, found = list(schemas), pl.Schema()
    for schema in schemas:
        for name, dtype in schema.items():
            if found.setdefault(name, dtype) != dtype:
                # Only polars knows the type that has both. To make frames takes milliseconds.
                return pl.concat([pl.DataFrame(schema=schema) for schema in schemas], how="diagonal_relaxed").schema
    return found


def _schema(table: str, schemas: Sequence[pl.Schema]) -> pl.Schema:
    """The columns of a table of these runs: `run`, the columns of the contract, then others by name."""
    found: dict[str, pl.DataType] = {"run": pl.String(), **metrics.TABLES[table]}
    others = _union([pl.Schema(), *schemas])
    return pl.Schema(found | {name: others[name] for name in sorted(others) if name not in found})


def _merged(parts: Sequence[_Part]) -> tuple[list[str], pl.LazyFrame]:
    """The runs of parts, and their rows. If several parts contain a run, the first counts."""
    seen: dict[str, None] = {}
    kept = []
    for part in parts:
        kept.append(part.rows.filter(~pl.col("run").is_in(list(seen))))
        seen |= dict.fromkeys(run for group in part.groups for run in group)
    return list(seen), pl.concat(kept)


def _with_run(run: str, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(pl.lit(run).alias("run"), pl.all())


def _aligned(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The frame with exactly the columns of `schema`, NULL where it has none."""
    missing = [pl.lit(None, dtype=dtype).alias(name) for name, dtype in schema.items() if name not in frame.columns]
    return frame.with_columns(missing).select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def _labelled(
    labels: pl.DataFrame,
    places: Mapping[str, tuple[_Part, int]],
    table: str,
    schema: pl.Schema,
    of_rows: Mapping[str, dict[str, str]],
) -> Iterator[pl.DataFrame]:
    """The rows of the labelled runs in the order of `labels`, labels first, `_CHUNK` runs at a time.

    `of_rows` gets the digest of each run's rows.
    """
    for start in range(0, len(labels), _CHUNK):
        chunk = labels.slice(start, _CHUNK)
        runs = [(run, *places[run]) for run in chunk["run"].unique(maintain_order=True)]
        found = [_with_run(run, _unpacked(part.tables(group, table)[run])) for run, part, group in runs]
        together = pl.concat(found, how="diagonal_relaxed")
        of_those = digests.of_runs(together)
        for run, *_ in runs:
            of_rows[run][table] = of_those.get(run, digests.EMPTY)
        rows = _aligned(together, schema)
        columns = [*labels.columns, *(name for name in schema if name != "run")]
        yield chunk.join(rows, on="run", how="inner", maintain_order="left_right").select(columns)


def label_frame(plans: Sequence[Plan]) -> pl.DataFrame:
    """A row per run in sweep order: experiment, run, engine, trial and every factor of any plan.

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
        "engine": [run.engine for run in runs],
        "trial": [run.trial for run in runs],
    }
    for name, values in levels.items():
        text = not metrics.is_numeric(values)
        found = [run.factors.get(name) for run in runs]
        columns[name] = [metrics.level_text(v) if text and v is not None else v for v in found]
    return pl.DataFrame(columns, schema=schema, strict=False)


def label(recordings: Iterable[tuple[Run, Recording]], plans: Sequence[Plan]) -> dict[str, pl.DataFrame]:
    """The tables of runs that are not stored, as `Store.consolidate` would write them."""
    by_id = {run.id: recording for run, recording in recordings}
    labels = label_frame(plans).filter(pl.col("run").is_in(list(by_id)))
    factors = [name for name in labels.columns if name not in metrics.LABELS]
    tables = {}
    for table in metrics.TABLES:
        rows = {run: _with_run(run, getattr(recording, table)) for run, recording in by_id.items()}
        schema = _schema(table, [frame.drop(factors, strict=False).schema for frame in rows.values()])
        found = [pl.DataFrame(schema=schema), *(_aligned(rows[run], schema) for run in labels["run"].unique())]
        tables[table] = labels.join(pl.concat(found), on="run", how="inner", maintain_order="left_right")
    return tables


def digest_of_file(source: bytes) -> str:
    """Changes with an experiment file."""
    return hashlib.sha256(source).hexdigest()


def _write_bytes(content: bytes, file: IO[bytes]) -> None:
    file.write(content)


def _replace(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file so that a reader, or a kill, sees the old one or the new one, whole. One that stays the same is left
    alone, with its time.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            if path.is_file() and filecmp.cmp(temporary, path, shallow=False):
                temporary.unlink()
                return
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    system.sync_folder(path.parent)
