"""The process that runs code of one's own: it says what a file declares, and computes runs, one at a time.

It is asked by the process that started it, over a socket, and ends with that. What it prints goes to the standard
error of that process; its own standard error is read by it when this one dies.
"""

from __future__ import annotations

import faulthandler
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from l4slab import _core
from l4slab.base import system
from l4slab.base.errors import one_line
from l4slab.own import beside, declared
from l4slab.own.declared import Refused

# Processor time that one call of a method, and loading a file, may take.
CALL_S, LOAD_S = 3.0, 60.0
# A call that holds the interpreter, so that no other thread of Python can look, is ended by the wall clock.
HELD_S = 20.0
# One that waits uses no processor: it may take so many times as long by the wall clock.
_PATIENCE = 10
_TICK_S = 0.2
# Memory that a worker may take: a core's part of the machine's, or what libraries with a thread per core take for
# granted. Without a bound the system ends whatever it likes.
_ALL = system.memory() or 4 << 30
MEMORY = max(_ALL // (os.cpu_count() or 1), min(4 << 30, _ALL // 2))
ENDLESS = "l4slab: no end after"


class _Watch(threading.Thread):
    """Ends the process when a call does not return, or when nobody waits for it any more."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.is_loading = False
        self._parent = os.getppid()

    def run(self) -> None:
        call, since, looks = 0, time.process_time(), 0
        while os.getppid() == self._parent:
            faulthandler.dump_traceback_later(HELD_S, exit=True)
            time.sleep(_TICK_S)
            under_way, now = -1 if self.is_loading else _core.own_call(), time.process_time()
            if under_way == 0 or under_way != call:
                call, since, looks = under_way, now, 0
            limit = LOAD_S if self.is_loading else CALL_S
            # Looks are counted, and the clock is not asked: it goes on while the machine sleeps.
            looks += 1
            waits = looks * _TICK_S > limit * _PATIENCE
            if now - since > limit or waits:
                took = f"{limit:g} s of processor time; look for a loop without end"
                if waits:
                    took = f"{limit * _PATIENCE:g} s; look for what it waits for"
                print(f"{ENDLESS} {took}", file=sys.stderr, flush=True)
                faulthandler.dump_traceback(all_threads=True)
                break
        os._exit(1)


def _describe(kind: Any, reference: str, name: str, content: bytes, modules: dict[str, bytes]) -> tuple[str, str]:
    """Its declaration as JSON, and the kind of ECN that a controller asks for."""
    file, _, thing = name.partition(":")
    if not file.endswith(".py"):
        with tempfile.TemporaryDirectory(prefix="l4slab-own-") as folder:
            library = Path(folder) / Path(file).name
            library.write_bytes(content)
            try:
                return _core.load_library(kind, library, reference, name)
            except ValueError as error:
                raise Refused(f"{name} {error}") from None
    beside.offer(file, modules)
    found = declared.declare(kind, file, thing, content)
    text = json.dumps(found.declaration)
    try:
        constants = (found.ecn, found.governs_window, found.report_interval_ns)
        _core.load_class(kind, reference, text, found.make, found.methods, constants)
    except ValueError as error:
        raise Refused(f"{name}: {error}") from None
    return text, found.ecn


def _run(
    watch: _Watch,
    run_json: str,
    folder: Path | None,
    title: str,
    own: Sequence[tuple[str, str, str, bytes, dict[str, bytes]]],
) -> _core.Tables:
    # Loaded anew for each run, so that nothing that a module or a library remembers goes from one to the next.
    for one in own:
        _describe(*one)
    watch.is_loading = False
    return _core.simulate(run_json) if folder is None else _core.simulate(run_json, folder, title)


def _socket() -> int:
    """The end of the socket that the parent gave this process: by number, or on Windows as bytes on standard input."""
    if sys.platform == "win32":
        return socket.fromshare(sys.stdin.buffer.read()).detach()
    return int(sys.argv[1])


def main() -> NoReturn:
    """Answer until the socket is closed. A refusal is a sentence."""
    channel = Connection(_socket())
    faulthandler.enable()
    watch = _Watch()
    watch.start()
    while True:
        try:
            what, *asked = channel.recv()
        except (EOFError, OSError):
            os._exit(0)
        try:
            watch.is_loading = True
            # A sentence about memory has lifted it.
            system.bound_memory("DATA", MEMORY)
            # Nothing that a module remembers goes from one run to the next.
            beside.forget()
            if what == "run":
                answer: tuple[str, Any] = ("done", _run(watch, *asked))
            elif what == "describe":
                answer = ("done", _describe(*asked))
            else:
                file, content, modules = asked
                beside.offer(file, modules)
                answer = ("done", declared.classes(file, content))
        except (Refused, ValueError) as error:
            answer = ("refused", str(error))
        except OSError as error:
            answer = ("disk", error.strerror or one_line(str(error)))
        except BaseException as error:
            answer = ("broken", f"{type(error).__name__}: {one_line(str(error))}")
        watch.is_loading = False
        try:
            channel.send(answer)
        except OSError:
            os._exit(0)
