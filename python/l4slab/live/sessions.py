"""The server's end of a session: an engine in a process of its own.

A process can be ended at once, whatever it computes; its memory has a limit; and if it breaks, the other pages go on.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from contextlib import suppress
from typing import IO, cast

from l4slab.base.errors import one_line
from l4slab.base.values import Keys
from l4slab.engines.contract import Live
from l4slab.engines.registry import ENGINES, engine_class
from l4slab.live import bounds
from l4slab.live.bounds import Bounds

_GRACE_S = 3.0  # for an engine to put its things away


def engines() -> dict[str, Live]:
    """The engines that a page can choose, by the page's names."""
    found = (engine_class(name).live for name in ENGINES)
    return dict(live for live in found if live is not None)


def refused(sentence: str) -> str:
    """The answer that says no."""
    return json.dumps({"refused": sentence}, ensure_ascii=False)


class Session:
    """One page's engine. Its process begins with the first request, and again after it was ended for what was asked.

    An answer is waited for `answer_s` seconds; with a sentence `why_not`, that is each answer.
    """

    def __init__(self, engine: Live, answer_s: float = bounds.ANSWER_S, why_not: str | None = None):
        self._engine = engine
        self._memory_bytes = bounds.MEMORY_BYTES if engine.memory_bytes is None else engine.memory_bytes
        self._answer_s = answer_s
        self._why_not = why_not
        self._bounds = Bounds()
        self._process: asyncio.subprocess.Process | None = None
        self._log: IO[bytes] | None = None  # what the process writes on its standard error output

    async def ask(self, request: Keys) -> str:
        """The answer as JSON on one line; a session is asked one thing at a time."""
        if (sentence := self._why_not or self._bounds.refusal(request)) is not None:
            return refused(sentence)
        try:
            process = await self._running()
            asks, answers = cast(asyncio.StreamWriter, process.stdin), cast(asyncio.StreamReader, process.stdout)
            asks.write(json.dumps(request).encode() + b"\n")
            async with asyncio.timeout(self._answer_s):
                await asks.drain()
                answer = await answers.readline()
        except TimeoutError:
            await self._end(0)
            return refused(
                f"the answer was not there after {self._answer_s:g} s, which is the most a request may take, and the "
                "run was ended; ask for a shorter time, less rate or fewer flows"
            )
        except ValueError:  # of readline
            await self._end(0)
            return refused(
                f"the answer is longer than {bounds.ANSWER_BYTES >> 20} MB, which is the most it may be, and the run "
                "was ended; ask for a shorter time or less often for samples"
            )
        except ConnectionError:
            answer = b""
        if not answer.endswith(b"\n"):
            return refused(await self._broken())
        return answer[:-1].decode()

    async def close(self) -> None:
        """End the engine and its process."""
        await self._end(_GRACE_S)

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115  (gone with the session, or the next process)
            # -P: what lies in the folder that l4slab was called in is not imported.
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "l4slab.live.session"),
                *(self._engine.place, str(self._memory_bytes)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
                limit=bounds.ANSWER_BYTES,
            )
        return self._process

    async def _end(self, grace_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        cast(asyncio.StreamWriter, process.stdin).close()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await process.wait()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def _broken(self) -> str:
        """Why the process has ended by itself."""
        process = self._process
        await self._end(_GRACE_S)
        said = "" if self._log is None else _end_of(self._log)
        if "memory allocation" in said or "MemoryError" in said:
            return (
                f"the run needed more than {self._memory_bytes >> 30} GB of memory, which is the most it may "
                "use, and was ended; take fewer flows, less rate or a queue with a lower limit"
            )
        status = process.returncode if process is not None and process.returncode is not None else 0
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        last = one_line(said.rstrip().rpartition("\n")[2])
        return f"the engine broke off ({how}); its last words: {last or 'none'}"


def _end_of(log: IO[bytes]) -> str:
    size = log.seek(0, 2)
    log.seek(max(size - 4096, 0))
    return log.read().decode(errors="replace")
