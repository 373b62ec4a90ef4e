"""Workers as the rest of the package sees them: a process for each thread that computes runs.

One that dies, crashes or never returns takes a run with it and is replaced by another.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from l4slab import _core
from l4slab.base.code import Code
from l4slab.base.errors import L4slabError, one_line
from l4slab.own.worker import ENDLESS, HELD_S
from l4slab.own.wrong import in_dump

_LAST_BYTES = 20_000
# -P: a file of the folder at hand is not taken for a module of Python's.
_START = ["-P", "-c", "from l4slab.own.worker import main; main()"]


class WorkerError(L4slabError):
    """A worker died, or could not do what it was asked."""


class _Worker:
    """A process that was started."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        # Windows gives a socket to a process that runs; elsewhere a new process inherits it by its number.
        on_windows = sys.platform == "win32"
        self._last_words = tempfile.TemporaryFile()  # noqa: SIM115
        with there:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, *_START, str(there.fileno())],
                pass_fds=[] if on_windows else [there.fileno()],
                stdin=subprocess.PIPE if on_windows else subprocess.DEVNULL,
                stdout=2,
                stderr=self._last_words,
                # The order of sets and dicts of text is the same in each.
                env=os.environ | {"PYTHONHASHSEED": "0"},
                start_new_session=True,
            )
            if sys.platform == "win32" and self._process.stdin is not None:
                with self._process.stdin as to:
                    to.write(there.share(self._process.pid))
        self._channel = Connection(here.detach())
        self.end = weakref.finalize(self, _end, self._process, self._channel, self._last_words)

    def ask(self, what: str, *asked: Any) -> tuple[str, Any]:
        """Its answer. Raises EOFError when it has died."""
        try:
            self._channel.send((what, *asked))
            answer: tuple[str, Any] = self._channel.recv()
        except OSError:
            raise EOFError from None
        return answer

    def obituary(self, names: Sequence[str]) -> str:
        """Why it has died while it had to do with these names."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        size = self._last_words.seek(0, os.SEEK_END)
        self._last_words.seek(max(size - _LAST_BYTES, 0))
        text = self._last_words.read().decode(errors="replace")
        files = [name.partition(":")[0] for name in names]
        known = in_dump(text, [file for file in files if file.endswith(".py")])
        what = " or ".join(dict.fromkeys(names))
        if ENDLESS in text or "Timeout (" in text:
            took = f"{HELD_S:g} s; look for a loop without end"
            if ENDLESS in text:
                took = text.rpartition(ENDLESS)[2].partition("\n")[0].strip()
            return f"{known or what}: a call has not returned after {took}"
        code = self._process.returncode
        how = "ended its process"
        if code is not None and code < 0:
            how = f"made its process die of {signal.Signals(-code).name}"
        panicked = [line for line in text.splitlines() if "panicked at" in line]
        if panicked:
            lines = text.splitlines()
            said = lines[lines.index(panicked[0]) :][:2]
            how += f" ({one_line(' '.join(said))})"
        return f"{known or what} {how}" if known is None else f"{known}: it {how}"


def _end(process: subprocess.Popen[bytes], channel: Connection, last_words: Any) -> None:
    channel.close()
    process.kill()
    process.wait()
    last_words.close()


_mine = threading.local()


def ask(what: str, *asked: Any, names: Sequence[str]) -> tuple[str, Any]:
    """The answer of this thread's worker. Raises WorkerError when it has died over it, because of these names."""
    worker: _Worker | None = getattr(_mine, "worker", None)
    if worker is None:
        worker = _mine.worker = _Worker()
    try:
        return worker.ask(what, *asked)
    except EOFError:
        reason = worker.obituary(names)
        _mine.worker = None
        worker.end()
        raise WorkerError(reason) from None
    except BaseException:
        # An answer that nobody has taken must not be the next one's.
        _mine.worker = None
        worker.end()
        raise


def simulate(run_json: str, folder: Path | None, title: str, own: Sequence[Code]) -> _core.Tables:
    """As `_core.simulate`, of a run with these controllers and queues, in this thread's worker.

    Raises ValueError with one sentence, OSError where captures cannot be written, WorkerError where it breaks off.
    """
    told = [(one.kind, one.reference, one.name, one.content, dict(one.modules)) for one in own]
    how, answer = ask("run", run_json, folder, title, told, names=[one.name for one in own])
    if how == "disk":
        raise OSError(None, answer)
    if how == "broken":
        raise WorkerError(f"{answer}; please report this with the experiment file")
    if how == "refused":
        raise ValueError(answer)
    found: _core.Tables = answer
    return found
