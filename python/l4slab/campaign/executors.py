"""Where runs are computed: threads of this process, or a Dask cluster. Both are the same code."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l4slab.base.code import Code
from l4slab.base.errors import InputError, L4slabError, one_line
from l4slab.campaign import memory
from l4slab.engines.contract import Captures, Recording
from l4slab.engines.registry import get_engine
from l4slab.own import files
from l4slab.sweep import Run

# Runs handed out per worker: enough that none waits, few enough that little is lost when one dies.
_AHEAD = 2
# Threads of one process.
_MOST_WORKERS = 1000
# How often a cluster is asked for its workers, and how long it may be without any.
_LOOK_S = 2.0
_NO_WORKERS_S = 60.0


class ClusterError(L4slabError):
    """The Dask cluster cannot go on with the campaign."""


class UnfitError(Exception):
    """A worker must not compute runs of this campaign."""


@dataclass(frozen=True)
class Failure:
    """A run that gave no recording, and why, in one sentence."""

    reason: str


def compute(
    engine: str,
    version: str,
    run_json: str,
    keep: Path | None = None,
    captures: Captures | None = None,
    own: Sequence[Code] = (),
) -> Recording | Failure:
    """Compute one run in the calling process. `own` has the run's custom code, files next to the experiment file."""
    try:
        for one in own:
            files.declare(one)
        if get_engine(engine).version() != version:
            return Failure(f"the engine {engine} was built anew meanwhile; give the same command again")
        return get_engine(engine).execute(run_json, keep, captures)
    except Exception as error:
        return Failure(one_line(str(error)) or type(error).__name__)


def compute_on_cluster(shared: Path | None, engine: str, version: str, *run: Any) -> Recording | Failure:
    """`compute` on a worker that may have come in the middle of the campaign. Raises UnfitError."""
    if (reason := unfit(engine, version, shared)) is not None:
        raise UnfitError(reason)
    return compute(engine, version, *run)


def unfit(engine: str, version: str, shared: Path | None) -> str | None:
    """Why this process must not compute runs for a driver whose engine has this version; `shared` is a file that it
    has to see.
    """
    if (here := get_engine(engine).version()) != version:
        has = f"has build {here}" if here else "has no build"
        return f"{has} of the engine {engine}, and this machine has {version}; install the same version on every worker"
    if shared is not None and not shared.is_file():
        return (
            f"does not see {shared.parent}, where it would write captures; put the results on a file system that "
            'every worker mounts in the same place, or set captures = "none"'
        )
    return None


class Pool:
    """An executor and how many runs it computes at once."""

    def __init__(self, executor: Executor, workers: int):
        self.executor, self.workers = executor, workers

    def map(
        self, runs: Iterable[Run], folder: Path | None = None, tick_s: float = 0.25
    ) -> Iterator[tuple[Run, Recording | Failure] | None]:
        """Each run with its outcome, in the order in which they end; None at least every `tick_s` seconds.

        `folder` is the results folder. Files that engines keep besides the tables go to `lab`, captures to `captures`.
        """
        todo = iter(runs)
        running: dict[Future[Recording | Failure], Run] = {}
        while True:
            # Without workers, queue as much as for one: a new worker finds it, and only the last run ends the loop.
            while len(running) < max(self.workers, 1) * _AHEAD and (run := next(todo, None)) is not None:
                running[
                    self.submit(run.engine, run.version, run.json, *_besides(run, folder), files.used(run.description))
                ] = run
            if not running:
                return
            done, _ = wait(running, timeout=tick_s, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), self.outcome(future)
            self.look()
            yield None

    def prepare(self, runs: Sequence[Run], folder: Path | None) -> AbstractContextManager[None]:
        """Refuse impossible runs before anything runs."""
        del runs, folder
        return nullcontext()

    def submit(self, *run: Any) -> Future[Recording | Failure]:
        return self.executor.submit(compute, *run)

    def outcome(self, future: Future[Recording | Failure]) -> Recording | Failure:
        try:
            return future.result()
        except Exception as error:
            return Failure(f"the worker failed: {one_line(str(error)) or type(error).__name__}")

    def look(self) -> None:
        """Check on the workers."""


class _Cluster(Pool):
    """The workers of a Dask cluster; they may come and go."""

    def __init__(self, client: Any, address: str):
        super().__init__(client.get_executor(pure=False), 0)
        self._client, self._address = client, address
        self._shared: Path | None = None
        self._last_look = self._last_worker = time.monotonic()
        self.workers = self._threads()
        if not self.workers:
            raise InputError(f"--dask {address} has no workers; start some with: dask worker {address}")

    def _threads(self) -> int:
        return sum(self._client.nthreads().values())

    @contextmanager
    def prepare(self, runs: Sequence[Run], folder: Path | None) -> Iterator[None]:
        writes = folder is not None and any(run.captures or get_engine(run.engine).keeps_files for run in runs)
        if writes and folder is not None:
            self._shared = folder / f".shared-{uuid.uuid4().hex}"
            self._shared.touch()
        try:
            # A campaign has one engine.
            for engine, version in {(run.engine, run.version) for run in runs}:
                found = self._client.run(unfit, engine, version, self._shared, on_error="return")
                for worker, reason in found.items():
                    if isinstance(reason, Exception):
                        reason = f"cannot run this l4slab ({one_line(str(reason))}); install it there"
                    if reason is not None:
                        raise InputError(f"--dask {self._address}: the worker {worker} {reason}")
            yield
        finally:
            if self._shared is not None:
                self._shared.unlink(missing_ok=True)

    def submit(self, *run: Any) -> Future[Recording | Failure]:
        return self.executor.submit(compute_on_cluster, self._shared, *run)

    def outcome(self, future: Future[Recording | Failure]) -> Recording | Failure:
        try:
            return future.result()
        except CancelledError:
            raise self._lost() from None
        except UnfitError as error:
            raise self._error(f"a worker that came later {error}") from None
        except (ImportError, AttributeError) as error:
            reason = f"a worker that came later cannot run this l4slab ({one_line(str(error))}); install it there"
            raise self._error(reason) from None
        except Exception as error:
            if type(error).__name__ == "KilledWorker":
                return Failure("every worker that was given it died; see the workers' logs (out of memory?)")
            return Failure(f"the worker failed: {one_line(str(error)) or type(error).__name__}")

    def look(self) -> None:
        now = time.monotonic()
        if now - self._last_look < _LOOK_S:
            return
        self._last_look = now
        if self._client.status != "running":
            raise self._lost()
        try:
            self.workers = self._threads()
        except Exception:
            raise self._lost() from None
        if self.workers:
            self._last_worker = now
        elif now - self._last_worker >= _NO_WORKERS_S:
            raise self._error(f"has lost all its workers; start some with: dask worker {self._address}")

    def _lost(self) -> ClusterError:
        _silence()
        return self._error("the scheduler is gone; start it and its workers")

    def _error(self, reason: str) -> ClusterError:
        return ClusterError(
            f"--dask {self._address}: {reason}, and give the same command again: finished runs are kept"
        )


def captures_of(run: Run, folder: Path) -> Path:
    """Where the results folder has the captures of a run."""
    return folder / "captures" / run.id


def _besides(run: Run, folder: Path | None) -> tuple[Path | None, Captures | None]:
    if folder is None:
        return None, None
    captures = Captures(captures_of(run, folder), f"l4slab {run.engine} run {run.id}, {run}") if run.captures else None
    return folder / "lab" / run.id, captures


def local(workers: int | None, engine: str) -> AbstractContextManager[Pool]:
    """Threads of this process: by default one per core, as the core releases the GIL, and one where runs in real time
    would disturb each other. Raises InputError.
    """
    if workers is not None and not 1 <= workers <= _MOST_WORKERS:
        raise InputError(f"--workers {workers} is not possible; give 1 or more, at most {_MOST_WORKERS}")
    return _threads(memory.at_a_time(workers, get_engine(engine)))


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
        reason = one_line(str(error)).partition(" (known schemes")[0].rstrip(".")
        raise InputError(
            f"--dask {address} cannot be reached ({reason}); give the scheduler's address, such as tcp://host:8786"
        ) from None
    _ignore_lost_connections()
    try:
        cluster = _Cluster(client, address)
        try:
            yield cluster
        finally:
            cluster.executor.shutdown(wait=False)
    finally:
        # A scheduler that is gone is not waited for.
        with suppress(Exception):
            client.close(timeout=2)


def _ignore_lost_connections() -> None:
    """Dask's loop logs pending messages of a broken connection before `look` can notice the break."""
    for name in ("tornado.application", "distributed.batched"):
        logging.getLogger(name).addFilter(_is_no_lost_connection)


def _is_no_lost_connection(record: logging.LogRecord) -> bool:
    return record.exc_info is None or type(record.exc_info[1]).__name__ != "CommClosedError"


def _silence() -> None:
    """Suppress Dask's tracebacks when it gives up a scheduler, because our own sentence says what has happened."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).disabled = True
