"""Where runs are computed: threads of this process, or a Dask cluster. Both are the same code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l4slab.engines import Captures, Recording, get_engine
from l4slab.errors import InputError, one_line
from l4slab.sweep import Run

# Runs handed out per worker: enough that none waits, few enough that little is lost when one dies.
_AHEAD = 2


@dataclass(frozen=True)
class Failure:
    """A run that gave no recording, and why, in one sentence."""

    reason: str


def compute(
    engine: str, run_json: str, keep: Path | None = None, captures: Captures | None = None
) -> Recording | Failure:
    """One run, wherever this is called."""
    try:
        return get_engine(engine).execute(run_json, keep, captures)
    except Exception as error:
        return Failure(one_line(str(error)) or type(error).__name__)


@dataclass(frozen=True)
class Pool:
    """An executor and how many runs it computes at once."""

    executor: Executor
    workers: int

    def map(
        self, runs: Iterable[Run], folder: Path | None = None, tick_s: float = 0.25
    ) -> Iterator[tuple[Run, Recording | Failure] | None]:
        """Each run with its outcome, in the order in which they end; None at least every `tick_s` seconds.

        `folder` is the results folder: what engines keep besides the tables goes to `lab`, captures to `captures`.
        """
        todo = iter(runs)
        running: dict[Future[Recording | Failure], Run] = {}
        while True:
            while len(running) < self.workers * _AHEAD and (run := next(todo, None)) is not None:
                running[self.executor.submit(compute, run.engine, run.json, *_besides(run, folder))] = run
            if not running:
                return
            done, _ = wait(running, timeout=tick_s, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), _outcome(future)
            yield None


def captures_of(run: Run, folder: Path) -> Path:
    """Where the results folder has the captures of a run."""
    return folder / "captures" / run.id


def _besides(run: Run, folder: Path | None) -> tuple[Path | None, Captures | None]:
    if folder is None:
        return None, None
    captures = Captures(captures_of(run, folder), f"l4slab {run.engine} run {run.id}, {run}") if run.captures else None
    return folder / "lab" / run.id, captures


def _outcome(future: Future[Recording | Failure]) -> Recording | Failure:
    try:
        return future.result()
    except Exception as error:
        return Failure(f"the worker failed: {one_line(str(error)) or type(error).__name__}")


def local(workers: int | None) -> AbstractContextManager[Pool]:
    """Threads of this process, by default one per core: the core releases the GIL. Raises InputError."""
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers} is not possible; give 1 or more")
    return _threads(workers or len(os.sched_getaffinity(0)))


@contextmanager
def _threads(count: int) -> Iterator[Pool]:
    executor = ThreadPoolExecutor(count, thread_name_prefix="l4slab")
    try:
        yield Pool(executor, count)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def dask(address: str) -> Iterator[Pool]:
    """The workers of the Dask cluster whose scheduler listens at `address`."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError('--dask needs dask.distributed; install it with: pip install "l4slab[dask]"') from None
    try:
        client: Any = Client(address, timeout="10s", set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as error:
        reason = one_line(str(error)).rstrip(".")
        raise InputError(
            f"--dask {address} cannot be reached ({reason}); give the scheduler's address, such as tcp://host:8786"
        ) from None
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise InputError(f"--dask {address} has no workers; start some with: dask worker {address}")
        executor = client.get_executor(pure=False)
        try:
            yield Pool(executor, threads)
        finally:
            executor.shutdown(wait=False)
