"""Results at any location that fsspec knows, such as s3://bucket/campaign.

The results folder is a working copy in the cache folder, held as any other. What is there comes here when it is opened;
every part goes there as soon as it is written, and everything else at the end. At the location the files stand as in a
results folder and appear in the order of `l4slab.store` (flows last, a part is removed only when the tables have its
runs), so that what a kill leaves there is what a kill leaves in a folder. The location is the truth: another machine
goes on from it. Plots, captures and teardowns that are there already stand in the working copy as empty files.

`.lock` at the location says who writes. Its age is renewed while that process lives; when nothing has been heard for
`_SILENT_S` the next process takes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from l4slab.errors import InputError, L4slabError, StoreError, one_line
from l4slab.store import Store
from l4slab.sweep import Run

_LOCK = ".lock"
_STATE = ".remote.json"
_RENEW_S = 60.0
_SILENT_S = 900.0
# Two processes that have seen no lock both write theirs; after this long each sees who was last.
_SETTLE_S = 1.0
# Where an upload appears whole or not at all.
_ATOMIC = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "memory")
# What tells one version of a file from the next, as the file systems call it.
_STAMPS = ("size", "ETag", "etag", "md5Hash", "LastModified", "last_modified", "updated", "mtime", "created")
_BY_NAME_ONLY = ("captures", "lab", "runs")
_OWN = (_LOCK, _STATE)


def is_url(out: Path | str) -> bool:
    """Whether results go to a location that fsspec has to know."""
    return "://" in str(out)


@dataclass
class _Known:
    """A file as it was when both sides were the same."""

    here: tuple[int, int]  # size and time
    there: str | None  # None: it has gone there, and was not looked at since


class _Location:
    """Files below a URL."""

    def __init__(self, url: str):
        self.url = url.rstrip("/")
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

    def list(self) -> dict[str, Mapping[str, Any]]:
        """Every file with what is known of it."""
        with self.reached():
            self.fs.invalidate_cache()
            found = self.fs.find(self.root, detail=True)
            strip = self.fs._strip_protocol
            names = {str(strip(path)).removeprefix(self.root).lstrip("/"): info for path, info in found.items()}
            return {name: info for name, info in sorted(names.items()) if name and not name.endswith(".tmp")}

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

    def get(self, name: str, path: Path) -> None:
        """Fetch a file; it appears whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        with self.reached():
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
            temporary = self._path(str(PurePosixPath(name).with_name(f".{path.name}.tmp")))
            self.fs.put_file(str(path), temporary)
            if "file" not in self.fs.protocol and self.fs.exists(target):
                self.fs.rm_file(target)  # elsewhere than on a disk, a rename replaces nothing
            self.fs.mv(temporary, target)

    def remove(self, name: str) -> None:
        with self.reached(), suppress(FileNotFoundError):
            self.fs.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"


def stamp(info: Mapping[str, Any]) -> str:
    """Changes when a file at a location is written again."""
    return "|".join(str(info.get(key, "")) for key in _STAMPS)


def working_copy(url: str) -> Path:
    """Where the results of a location stand on this machine."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "l4slab" / "results" / hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:16]


@contextmanager
def glance(url: str) -> Iterator[tuple[Path, int]]:
    """A folder with as much of a location as tells which runs are finished, for reading; and the location's bytes."""
    location = _Location(url)
    there = location.list()
    with tempfile.TemporaryDirectory(prefix="l4slab-") as name:
        folder = Path(name)
        for file in there:
            if not file.startswith(("parts/", "experiments/")) and "/" in file:
                continue
            if file.endswith(("flows.parquet", ".toml", ".runs")):
                location.get(file, folder / file)
            elif file not in _OWN:
                _touch(folder / file)
        yield folder, sum(int(info.get("size") or 0) for info in there.values())


class RemoteStore(Store):
    """A results folder whose files go to a location as well; `folder` is the working copy."""

    def __init__(self, url: str):
        super().__init__(working_copy(url))
        self.place = url.rstrip("/")
        self._location = _Location(url)
        self._known: dict[str, _Known] = {}
        self._token = uuid.uuid4().hex
        self._renewed = 0.0

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._take_lock()
            with self._disk():
                self._pull()
                self._clean()
            self._push()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(L4slabError):
            if self._holder().get("token") == self._token:
                self._location.remove(_LOCK)
        super().__exit__(kind, error, trace)

    def keep_experiment(self, name: str, source: bytes, runs: Sequence[Run] = ()) -> None:
        super().keep_experiment(name, source, runs)
        self._push()

    def flush(self) -> None:
        """As `Store.flush`; returns when it is at the location."""
        written = bool(self._pending)
        super().flush()
        if written:
            self._push()
        elif time.monotonic() - self._renewed >= _RENEW_S:
            self._renew()

    def publish(self) -> None:
        self._push(everything=True)
        # Seen once after everything has gone there, a file that nobody changes is not fetched again.
        for name, info in self._location.list().items():
            known = self._known.get(name)
            if known is not None and known.there is None and int(info.get("size") or 0) == known.here[0]:
                known.there = stamp(info)
        with self._disk():
            self._write_state()

    # -- who writes ---------------------------------------------------------------------------------------------------

    def _holder(self) -> dict[str, Any]:
        try:
            found = json.loads(self._location.read(_LOCK) or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _take_lock(self) -> None:
        holder = self._holder()
        silent = time.time() - float(holder.get("time", 0))
        if holder and silent < _SILENT_S and not _is_dead(holder):
            raise StoreError(
                f"{self.place}: another l4slab process writes there (process {holder.get('process')} on "
                f"{holder.get('host')}, heard of {max(silent, 0):.0f} s ago); wait until it ends, or until "
                f"{_SILENT_S / 60:.0f} minutes after it died"
            )
        self._write_lock()
        if self._location.url.startswith(("file:", "memory:")):
            return
        time.sleep(_SETTLE_S)
        self._require_lock()

    def _write_lock(self) -> None:
        holder = {"token": self._token, "host": socket.gethostname(), "process": os.getpid(), "time": time.time()}
        self._location.write(_LOCK, json.dumps(holder).encode())
        self._renewed = time.monotonic()

    def _require_lock(self) -> None:
        holder = self._holder()
        if holder.get("token") != self._token:
            raise StoreError(
                f"{self.place}: another l4slab process ({holder.get('process')} on {holder.get('host')}) has taken "
                "over; give the same command again when it has ended"
            )

    def _renew(self) -> None:
        self._require_lock()
        self._write_lock()

    # -- there and back -----------------------------------------------------------------------------------------------

    def _pull(self) -> None:
        """Make the working copy what is there, and keep the parts that never went there."""
        there = self._location.list()
        known = self._read_state()
        for name in self._files():
            path = self.folder / name
            if name in there or name.split("/")[0] in _BY_NAME_ONLY:
                continue
            if not name.startswith("parts/") or name in known:
                path.unlink()
        for name in known.keys() - there.keys():
            (self.folder / name).unlink(missing_ok=True)
        self._rename_new_parts(known, there)
        for name, info in there.items():
            if name in _OWN:
                continue
            path = self.folder / name
            now, before = stamp(info), known.get(name)
            if before is None or before.there != now or _signature(path) != before.here:
                if name.split("/")[0] in _BY_NAME_ONLY:
                    _touch(path)
                else:
                    self._location.get(name, path)
            self._known[name] = _Known(_signature(path) or (0, 0), now)
        self._write_state()

    def _rename_new_parts(self, known: Mapping[str, _Known], there: Mapping[str, Any]) -> None:
        """Give parts that never went there names that are not taken there."""
        numbers = [_number(name) for name in (*there, *self._files()) if name.startswith("parts/")]
        free = max(numbers, default=0) + 1
        for part in self._part_names()[::-1]:
            files = self._part_files(part)
            if any(f"parts/{path.name}" not in known for path in files.values()):
                size = part.partition("-")[0]
                for table, path in files.items():
                    if path.is_file():
                        path.rename(self.parts / f"{size}-{free:08d}.{table}.parquet")
                free += 1

    def _push(self, everything: bool = False) -> None:
        """Bring there what has changed here: parts and experiment files, or everything."""
        here = {name: found for name in self._files(everything) if (found := _signature(self.folder / name))}
        changed = [name for name, found in here.items() if name not in self._known or self._known[name].here != found]
        gone = [name for name in self._known if name.startswith("parts/") and name not in here]
        if not changed and not gone:
            return
        self._renew()
        for name in sorted(changed, key=_order):
            self._location.put(self.folder / name, name)
            self._known[name] = _Known(here[name], None)
            if time.monotonic() - self._renewed >= _RENEW_S:
                self._renew()
        # Parts leave when what has their runs is there, and their flows files first.
        for name in sorted(gone, key=_order, reverse=True):
            self._location.remove(name)
            del self._known[name]
        with self._disk():
            self._write_state()

    def _files(self, everything: bool = True) -> list[str]:
        folders = [self.folder] if everything else [self.parts, self.folder / "experiments"]
        paths = [path.relative_to(self.folder) for folder in folders for path in folder.rglob("*") if path.is_file()]
        hidden = (".tmp",)
        return sorted(str(path) for path in paths if str(path) not in _OWN and path.suffix not in hidden)

    def _read_state(self) -> dict[str, _Known]:
        try:
            found = json.loads((self.folder / _STATE).read_bytes())
            return {name: _Known((size, changed), there) for name, (size, changed, there) in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _write_state(self) -> None:
        state = {name: [*known.here, known.there] for name, known in self._known.items()}
        temporary = self.folder / f"{_STATE}.tmp"
        temporary.write_text(json.dumps(state))
        temporary.replace(self.folder / _STATE)


def _order(name: str) -> tuple[int, int, str]:
    """What goes there first: what others need to be complete."""
    kind = 1 if name.startswith("parts/") else 2 if "/" not in name else 0
    derived = 2 if kind == 2 and not name.startswith(("links.", "series.", "flows.")) else 0
    return kind, 1 if name.endswith("flows.parquet") else derived, name


def _signature(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def _number(name: str) -> int:
    digits = name.partition(".")[0].rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


def _is_dead(holder: Mapping[str, Any]) -> bool:
    """Whether the process of a lock was one of this machine and is no more."""
    if holder.get("host") != socket.gethostname() or not isinstance(holder.get("process"), int):
        return False
    if holder["process"] == os.getpid():
        return False
    try:
        os.kill(holder["process"], 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
