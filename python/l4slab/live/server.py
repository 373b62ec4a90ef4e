"""`l4slab live`: gives out the page on 127.0.0.1 and connects it with engines over WebSockets.

    GET /?token=T                      the page, with the run that it begins with
    GET /socket?engine=native&token=T  a WebSocket of one session: requests and answers as in docs/live.md, both with
                                       the request's `id`, one answered after the other

Other pages in the same browser are kept out by the token, by the Origin of WebSockets, and by Host: a name that an
attacker lets point to 127.0.0.1 is not ours. The page may load nothing, and connect to this server only.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import re
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as listen
from websockets.datastructures import Headers, MultipleValuesError
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from l4slab.base import system
from l4slab.base.errors import InputError
from l4slab.base.run import Run
from l4slab.engines.contract import Live
from l4slab.live import bounds, page
from l4slab.live.sessions import Session, engines, refused

ADDRESS = "127.0.0.1"
_HOST = re.compile(rf"({re.escape(ADDRESS)}|localhost)(:[0-9]+)?")
_LOCKED = (
    "the token is wrong or missing; copy the whole address, up to the end of its token, from the terminal in which "
    "l4slab live runs: each start has a new one"
)
_CLOSING_S = 1.0  # for a page to say goodbye
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass
class Server:
    """The page and its engines. `file` is another build of the page than the package's; it begins with `run_first`."""

    engines: Mapping[str, Live] = field(default_factory=engines)
    file: Path | None = None
    run_first: Run | None = None
    answer_s: float = bounds.ANSWER_S
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _sessions: list[Session] = field(default_factory=list)

    async def run(self, port: int, tell: Callable[[str], None], stop: asyncio.Event) -> None:
        """Serve on a port of 127.0.0.1, 0 for any that is free, until `stop`; `tell` gets the page's address.

        Raises InputError where there is no page, or the port is taken.
        """
        page.document(file=self.file)  # or there is nothing to serve
        log = logging.getLogger("l4slab.live")
        log.addHandler(logging.NullHandler())
        log.propagate = False
        try:
            server = await listen(
                self._talk,
                ADDRESS,
                port,
                process_request=self._answer,
                compression=None,
                server_header=None,
                max_size=bounds.MESSAGE_BYTES,
                close_timeout=_CLOSING_S,
                logger=log,
            )
        except OSError as error:
            raise InputError(
                f"= {port} cannot be used ({error.strerror}); leave it out for a free one", key="--port"
            ) from None
        async with server:
            (own,) = server.sockets
            tell(f"http://{ADDRESS}:{own.getsockname()[1]}/?token={self.token}")
            await stop.wait()

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """An HTTP answer, or None for a WebSocket that may be opened."""
        refuse = partial(_text, connection)
        try:
            host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
            asked = urlsplit(request.path)
        except MultipleValuesError:
            return refuse(400, "a header is there twice")
        except ValueError:
            return refuse(400, "this is no address; open the one that l4slab live has printed")
        if not _HOST.fullmatch(host):
            return refuse(403, f"the host {host!r} is not this server's; open the address that l4slab live has printed")
        said = {key: values[-1] for key, values in parse_qs(asked.query).items()}
        if asked.path not in ("/", "/socket"):
            return refuse(404, "there is nothing here; open the address that l4slab live has printed")
        if not hmac.compare_digest(said.get("token", "").encode(), self.token.encode()):
            return refuse(403, _LOCKED)
        if asked.path == "/socket":
            if origin != f"http://{host}":
                return refuse(
                    403, f"the page is of another server: {origin or 'none'}; open the address that l4slab live prints"
                )
            if said.get("engine") not in self.engines:
                return refuse(404, f"there is no such engine; there are {', '.join(self.engines)}")
            return None
        lacking = {name: engine.lacking() for name, engine in self.engines.items()}
        why_not = {name: sentence for name, sentence in lacking.items() if sentence is not None}
        engines = [name for name in self.engines if name not in why_not]
        facts: page.Facts = {"socket": f"ws://{host}/socket?token={self.token}", "engines": engines, "why_not": why_not}
        if self.run_first is not None:
            facts["run"] = self.run_first
        text = page.document(facts, self.file)
        return _response(connection, 200, "text/html", text, {"Content-Security-Policy": _policy(text, host)})

    async def _talk(self, connection: ServerConnection) -> None:
        """One session, from its opening to its end. It reads on while it answers, so that it sees the page's end."""
        request = cast(Request, connection.request)
        engine = self.engines[parse_qs(urlsplit(request.path).query)["engine"][-1]]
        sentence = engine.lacking()
        if len(self._sessions) >= bounds.SESSIONS:
            sentence = f"there are {bounds.SESSIONS} sessions already, which is the most; close another page"
        session = Session(engine, self.answer_s, sentence)
        self._sessions += [session] if sentence is None else []
        waiting: asyncio.Queue[str | bytes] = asyncio.Queue(bounds.WAITING)
        try:
            # A defect in one of the two ends both, and the session with them.
            async with asyncio.TaskGroup() as tasks:
                answering = tasks.create_task(_answers(connection, session, waiting))
                with suppress(ConnectionClosed):
                    async for message in connection:
                        try:
                            waiting.put_nowait(message)
                        except asyncio.QueueFull:
                            await connection.close(1008, f"more than {bounds.WAITING} requests wait for an answer")
                answering.cancel()
        finally:
            if sentence is None:
                self._sessions.remove(session)
            await session.close()


async def _answers(connection: ServerConnection, session: Session, waiting: asyncio.Queue[str | bytes]) -> None:
    """One after the other."""
    with suppress(ConnectionClosed):
        while True:
            message = await waiting.get()
            try:
                request = json.loads(message)
            except (ValueError, RecursionError):
                request = None
            if not isinstance(request, dict):
                await connection.send(refused("the request is not a JSON object"))
                continue
            number = request.pop("id", None)
            answer = await session.ask(request)
            # The answer is an object with at least one key, and is not read.
            await connection.send(f'{{"id":{json.dumps(number)},{answer.lstrip()[1:]}')


def serve(server: Server, port: int, tell: Callable[[str], None]) -> None:
    """Serve until Ctrl-C (or what else ends a process politely); no session is left then."""
    stop = asyncio.Event()

    async def run() -> None:
        with _stopping(stop):
            await server.run(port, tell, stop)

    asyncio.run(run())


@contextmanager
def _stopping(stop: asyncio.Event) -> Iterator[None]:
    """Signals set the event, where this is the process's main thread; what nohup ignores stays so."""
    loop = asyncio.get_running_loop()
    names = (signal.SIGINT, *system.ENDING_SIGNALS)
    taken = []
    if threading.current_thread() is threading.main_thread():
        taken = [name for name in names if signal.getsignal(name) != signal.SIG_IGN]
    try:
        with suppress(NotImplementedError):  # on Windows, Ctrl-C ends the loop
            for name in taken:
                loop.add_signal_handler(name, stop.set)
        yield
    finally:
        with suppress(NotImplementedError):
            for name in taken:
                loop.remove_signal_handler(name)


def _text(connection: ServerConnection, status: int, sentence: str) -> Response:
    return _response(connection, status, "text/plain", sentence + "\n", {})


def _response(connection: ServerConnection, status: int, kind: str, text: str, more: Mapping[str, str]) -> Response:
    response = connection.respond(status, text)
    headers = Headers(response.headers.raw_items())
    del headers["Content-Type"]
    headers.update({"Content-Type": f"{kind}; charset=utf-8", **_HEADERS, **more})
    response.headers = headers
    return response


def _policy(document: str, host: str) -> str:
    """The page may run its own scripts, its module and its worker, and connect to this server; it loads nothing."""
    scripts = " ".join(f"'sha256-{_digest(text)}'" for text in _scripts(document))
    return (
        f"default-src 'none'; script-src {scripts} 'wasm-unsafe-eval'; worker-src blob:; "
        f"style-src 'unsafe-inline'; img-src data: blob:; connect-src ws://{host}; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


class _Scripts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script" and dict(attrs).get("type") != "application/json"
        if self._inside:
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found[-1] += data


def _scripts(document: str) -> list[str]:
    parser = _Scripts()
    parser.feed(document)
    parser.close()
    return parser.found


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
