"""The process of a session: requests on the standard input, answers on the standard output, a line of JSON each.

    python -m l4slab.live.session MODULE:CLASS MEMORY_BYTES

CLASS has `ask(text) -> text`, and `close()` if it holds anything. The process ends at once when its input does, also
amidst an answer, so that neither a page that is closed nor a server that is killed leaves anything behind.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, Protocol

from l4slab.base import system
from l4slab.base.errors import L4slabError


class Engine(Protocol):
    """An object that answers the requests of one page."""

    def ask(self, text: str) -> str: ...


class Refusing:
    """Stands for an engine that cannot be had."""

    def __init__(self, sentence: str):
        self._sentence = sentence

    def ask(self, text: str) -> str:  # noqa: ARG002
        return json.dumps({"refused": self._sentence}, ensure_ascii=False)


def main() -> None:
    """Answer until the input ends."""
    place, memory_bytes = sys.argv[1:]
    # What anything prints goes to the log; Ctrl-C in the terminal is the server's to act upon.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory(int(memory_bytes))
    waiting: SimpleQueue[bytes] = SimpleQueue()
    engines: list[Engine] = []
    Thread(target=_answer, args=(place, waiting, answers, engines), daemon=True).start()
    for line in sys.stdin.buffer:
        waiting.put(line)
    for engine in engines:
        with suppress(Exception):
            getattr(engine, "close", lambda: None)()
    os._exit(0)


def _answer(place: str, waiting: SimpleQueue[bytes], answers: BinaryIO, engines: list[Engine]) -> None:
    try:
        module, _, name = place.partition(":")
        try:
            engines.append(getattr(import_module(module), name)())
        except L4slabError as error:
            engines.append(Refusing(str(error)))
        while True:
            answer = engines[0].ask(waiting.get().decode())
            answers.write(answer.encode() + b"\n")
            answers.flush()
    except BaseException:  # a defect, which the server tells; the process must not stay without its worker
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)


def _limit_memory(most_bytes: int) -> None:
    """0 is no limit."""
    if not most_bytes:
        return
    system.bound_memory("AS", most_bytes)


if __name__ == "__main__":
    main()
