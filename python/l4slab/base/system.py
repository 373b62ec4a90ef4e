"""Differences between Linux, macOS and Windows. Only `engines/linux` asks elsewhere which system this is."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any


def _where_it_is(name: str) -> Any:
    """A module of some systems; None on the others."""
    try:
        return import_module(name)
    except ImportError:
        return None


_fcntl, _resource, _msvcrt = map(_where_it_is, ("fcntl", "resource", "msvcrt"))
# sysctl net.ipv4.tcp_ecn of Linux: the kind of ECN that a host asks for and accepts.
TCP_ECN = {"off": 0, "classic": 1, "accecn": 3}
# What a batch system or a lost terminal sends.
ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def is_linux() -> bool:
    """Whether this is Linux, or what passes for it, such as WSL."""
    return platform.system() == "Linux"


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int | None:
    """Bytes of memory of this machine; None where that is not known."""
    if not hasattr(os, "sysconf"):
        return None
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def available_memory() -> int | None:
    """Bytes that this process may take: those of the machine, of its control groups and of setrlimit; None where that
    is not known.
    """
    bounds = [memory(), *_of_control_groups()]
    if _resource is not None:
        limits = (_resource.getrlimit(kind)[0] for kind in (_resource.RLIMIT_AS, _resource.RLIMIT_DATA))
        bounds += [limit for limit in limits if limit != _resource.RLIM_INFINITY]
    return min((bound for bound in bounds if bound is not None), default=None)


def _of_control_groups() -> Iterator[int]:
    """The bounds of this process's control groups and of those above them (Linux, versions 1 and 2)."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            top = Path("/sys/fs/cgroup", controllers)
            name = "memory.max" if not controllers else "memory.limit_in_bytes"
            # In a container, its own group is at the top.
            for folder in (top / group.lstrip("/"), *(top / group.lstrip("/")).parents):
                with suppress(OSError, ValueError):  # "max": no bound
                    yield int((folder / name).read_text())
                if folder == top:
                    break


def bound_memory(kind: str, most_bytes: int | None) -> int | None:
    """Bound what this process may take, "DATA" or "AS" of setrlimit; with None, lift the bound. Returns the old bound.

    Does nothing on a system without such bounds, and returns None.
    """
    if _resource is None:
        return None
    limit = getattr(_resource, f"RLIMIT_{kind}")
    before, most = _resource.getrlimit(limit)
    allowed = [bytes_ for bytes_ in (most_bytes, most) if bytes_ not in (None, _resource.RLIM_INFINITY)]
    _resource.setrlimit(limit, (min(allowed, default=most), most))
    return int(before)


def lock(file: IO[str], wait: bool = False) -> None:
    """Hold a file until it is closed or this process ends. Raises BlockingIOError where another process holds it."""
    if _fcntl is not None:
        _fcntl.flock(file, _fcntl.LOCK_EX | (0 if wait else _fcntl.LOCK_NB))
    elif _msvcrt is not None:
        try:
            _msvcrt.locking(file.fileno(), _msvcrt.LK_LOCK if wait else _msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(*error.args) from None


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
