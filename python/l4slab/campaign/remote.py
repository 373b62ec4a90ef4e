"""Results at any location that fsspec knows, such as s3://bucket/campaign.

The results folder is a working copy in the cache folder. Opening it downloads the parts (`l4slab.campaign.store`). A
new part stays in `unsent` until its upload is complete. All other files are uploaded at the end. Parts have unique
names and never change, and a part is removed only when an uploaded one contains its runs. So the results are complete
after a kill, and another machine can continue. Several writers need not know of each other: no lock is held, no clock
is read, and no decision relies on a listing that must stay true until a write. Files that are made from the parts, such
as the tables, are those of the last writer. `l4slab report` makes them again from all parts. Plots, captures and
teardowns that the location already has are empty files in the working copy.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Self

from l4slab.base.errors import InputError, L4slabError, StoreError, one_line
from l4slab.campaign.store import DIGESTS, ORDER, PART, SIGN, TABLES_OF, Store, refuse_foreign
from l4slab.experimentfile import Experiment
from l4slab.sweep import Run

# Where an upload appears whole or not at all.
_ATOMIC = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "memory")
_BY_NAME_ONLY = ("captures", "lab", "runs")


def is_url(out: Path | str) -> bool:
    """Whether results go to a location that fsspec has to know."""
    return "://" in str(out)


class _Location:
    """Files below a URL."""

    def __init__(self, url: str):
        self.url = url.rstrip("/")
        if url.startswith("://"):
            raise InputError(f"--out {url} is not a location: it has no protocol; write it such as s3://bucket/name")
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise InputError(f'--out {url} needs fsspec; install it with: pip install "l4slab[fsspec]"') from None
        with self.reached():
            try:
                self.fs, root = url_to_fs(self.url)
            except ImportError as error:
                raise InputError(
                    f"--out {url} needs a package that is not installed: {one_line(str(error)).rstrip('.')}"
                ) from None
            except ValueError as error:
                reason = one_line(str(error)).rstrip(".")
                raise InputError(f"--out {url} is not a location: {reason}; give one that fsspec knows") from None
            self.root = str(root).rstrip("/")
        names = [self.fs.protocol] if isinstance(self.fs.protocol, str) else self.fs.protocol
        self._atomic = any(name in _ATOMIC for name in names)

    @contextmanager
    def reached(self) -> Iterator[None]:
        try:
            yield
        except L4slabError:
            raise
        # Each file system raises what its library does.
        except Exception as error:
            reason = one_line(str(error)).rstrip(".") or type(error).__name__
            raise StoreError(
                f"{self.url} cannot be reached ({reason}); check address, rights and network, and give the same "
                "command again: finished runs are kept"
            ) from None

    def list(self) -> dict[str, int]:
        """Every file with its bytes."""
        with self.reached():
            self.fs.invalidate_cache()
            found = self.fs.find(self.root, detail=True)
            strip = self.fs._strip_protocol
            names = {str(strip(path)).removeprefix(self.root).lstrip("/"): info for path, info in found.items()}
            sizes = {name: int(info.get("size") or 0) for name, info in sorted(names.items())}
            return {name: size for name, size in sizes.items() if name and not name.endswith(".tmp")}

    def read(self, name: str) -> bytes | None:
        with self.reached():
            try:
                self.fs.invalidate_cache()
                return bytes(self.fs.cat_file(self._path(name)))
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes) -> None:
        with self.reached():
            self.fs.makedirs(self.root, exist_ok=True)
            self.fs.pipe_file(self._path(name), content)

    def open(self, name: str) -> IO[bytes]:
        """A file for reading here and there in it. Raises FileNotFoundError."""
        found: IO[bytes] = self.fs.open(self._path(name), "rb")
        return found

    def get(self, name: str, path: Path) -> None:
        """Fetch a file, where it is still there; it appears whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        with self.reached(), suppress(FileNotFoundError):
            self.fs.get_file(self._path(name), str(temporary))
            temporary.replace(path)

    def put(self, path: Path, name: str) -> None:
        """Bring a file there; it appears whole."""
        target = self._path(name)
        with self.reached():
            self.fs.makedirs(self.fs._parent(target), exist_ok=True)
            if self._atomic:
                self.fs.put_file(str(path), target)
                return
            temporary = self._path(str(PurePosixPath(name).with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")))
            self.fs.put_file(str(path), temporary)
            if "file" not in self.fs.protocol:
                with suppress(FileNotFoundError):
                    self.fs.rm_file(target)  # elsewhere than on a disk, a rename replaces nothing
            self.fs.mv(temporary, target)

    def remove(self, name: str) -> None:
        with self.reached(), suppress(FileNotFoundError):
            self.fs.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"


def working_copy(url: str) -> Path:
    """Where the results of a location stand on this machine."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "l4slab" / "copies" / hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:16]


class Glance(Store):
    """A location's content for reading: enough to know which runs are finished."""

    def __init__(self, url: str, folder: Path):
        super().__init__(folder)
        self._location = _Location(url)
        for name in self._location.list():
            if name.startswith("experiments/"):
                self._location.get(name, folder / name)

    def part_names(self) -> list[str]:
        return _parts_of(self._location.list())

    def _open(self, name: str) -> IO[bytes]:
        return self._location.open(f"parts/{name}")

    def finished(self) -> set[str]:
        with self._location.reached():
            return super().finished()

    def size(self) -> int:
        return sum(self._location.list().values())


@contextmanager
def glance(url: str) -> Iterator[Glance]:
    """A look at a location. Raises InputError and StoreError."""
    with tempfile.TemporaryDirectory(prefix="l4slab-") as folder:
        yield Glance(url, Path(folder))


def fetch_tables(url: str, folder: Path) -> None:
    """Bring the tables and the experiment files of a location into a folder. Raises InputError and StoreError."""
    location = _Location(url)
    for name in location.list():
        if name.startswith("experiments/") or ("/" not in name and name.endswith(".parquet")):
            location.get(name, folder / name)


class RemoteStore(Store):
    """A results folder whose files go to a location as well; `folder` is the working copy."""

    def __init__(self, url: str):
        super().__init__(working_copy(url))
        self.place = url.rstrip("/")
        self._location = _Location(url)
        self.fresh = self.folder / "unsent"
        self._signed = False

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            with self._disk():
                self._pull()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _pull(self) -> None:
        """Download into the working copy, and upload the parts that an earlier run did not upload."""
        there = self._location.list()
        self._signed = SIGN in there
        if not self._signed:
            refuse_foreign((name.partition("/")[0] for name in there), self.place)
        self.fresh.mkdir(exist_ok=True)
        for part in self.fresh.glob(PART):
            there[f"parts/{part.name}"] = part.stat().st_size
            self._send(part.name)
        for folder in (self.parts, self.folder / "experiments"):
            for path in folder.glob("*"):
                if f"{folder.name}/{path.name}" not in there:
                    path.unlink()
        # Whoever writes there merges some meanwhile: then there is another one instead.
        while missing := [name for name in _parts_of(self._location.list()) if not (self.parts / name).is_file()]:
            for name in missing:
                self._location.get(f"parts/{name}", self.parts / name)
        for name in there:
            path = self.folder / name
            if name.startswith("experiments/"):
                path.write_bytes(self._location.read(name) or b"")
            elif name.split("/")[0] in _BY_NAME_ONLY and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()

    def keep_experiment(self, experiment: Experiment, runs: Sequence[Run] = ()) -> list[str]:
        kept = super().keep_experiment(experiment, runs)
        self._sign()
        for name in kept:
            self._location.put(self.folder / name, name)
        return kept

    # -- parts --------------------------------------------------------------------------------------------------------

    def _sign(self) -> None:
        """Make the location ours, before the first file."""
        if not self._signed:
            self._location.write(SIGN, b"")
            self._signed = True

    def _send(self, name: str) -> None:
        """Bring a part there; from then on it is one of the parts here as well."""
        self._sign()
        self._location.put(self.fresh / name, f"parts/{name}")
        (self.fresh / name).replace(self.parts / name)

    def _remove_part(self, name: str) -> None:
        self._location.remove(f"parts/{name}")
        super()._remove_part(name)

    # -- files made from the parts ------------------------------------------------------------------------------------

    def publish(self, report: bool = True) -> None:
        """Upload the files that are made from the parts, in the order of their dependence.

        Without `report`, the one that is there stays whole, with the runs that it opens.
        """
        there = self._location.list()
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            # A name made of everything that determines a run: its file does not change.
            if name.split("/")[0] in _BY_NAME_ONLY and path.is_file() and name not in there:
                self._location.put(path, name)
        tables = [f"{table}.parquet" for table in ORDER]
        of = (self.folder / TABLES_OF).read_bytes()
        if self._location.read(TABLES_OF) != of or [there.get(name) for name in tables] != self._sizes():
            self._location.remove(TABLES_OF)
            for name in (*tables, TABLES_OF):
                self._location.put(self.folder / name, name)
        for name in ("claims.parquet", "published.parquet", DIGESTS):
            self._location.put(self.folder / name, name)
        if not report:
            return
        self._location.put(self.folder / "report.html", "report.html")
        live = self.folder / "live.html"
        if live.is_file() and there.get(live.name) != live.stat().st_size:
            self._location.put(live, live.name)
        for name in there:
            # The run belongs to a former report.
            if name.startswith("runs/") and not (self.folder / name).is_file():
                self._location.remove(name)


def _parts_of(names: Iterable[str]) -> list[str]:
    """The names of the parts among the files of a location."""
    found = (PurePosixPath(name) for name in names)
    return [name.name for name in found if str(name.parent) == "parts" and fnmatch(name.name, PART)]
