"""A server of `l4slab live` in a thread of the test, with engines of `engines.py`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from l4slab.engines.contract import Live
from l4slab.live.server import Server
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

PAGE = """<!doctype html><title>l4slab live</title>
<script id="server" type="application/json">{}</script>
<script>document.title = JSON.parse(document.getElementById("server").textContent).engines.join();</script>
"""
ENGINES = {
    "native": Live("engines:Odd", memory_bytes=1 << 30),
    "linux": Live("engines:Missing", memory_bytes=0),
    "absent": Live("engines:Odd", memory_bytes=0, lacking=lambda: "it is not there"),
}


class Client:
    """What a page does over its WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._id = 0

    def ask(self, do: str, **more: Any) -> Any:
        """The value of `ok`; of a refusal, its sentence."""
        self._id += 1
        self.socket.send(json.dumps({"id": self._id, "do": do, **more}))
        answer = json.loads(self.socket.recv(timeout=60))
        assert answer.pop("id") == self._id
        (value,) = answer.values()
        return value


@contextmanager
def serving(server: Server) -> Iterator[str]:
    """Its address, while it serves."""
    stop, loop = asyncio.Event(), asyncio.new_event_loop()
    told: Future[str] = Future()

    def run() -> None:
        try:
            loop.run_until_complete(server.run(0, told.set_result, stop))
        except BaseException as error:
            told.set_exception(error)
        loop.close()

    thread = Thread(target=run)
    thread.start()
    try:
        yield told.result(timeout=60)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=60)
    assert not thread.is_alive()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page that only says which engines it was told."""
    file = tmp_path / "live.html"
    file.write_text(PAGE)
    return file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has a file for each process of an engine `Odd` that lives."""
    made = tmp_path / "processes"
    made.mkdir()
    monkeypatch.setenv("ODD_FOLDER", str(made))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    return made


@pytest.fixture
def address(page: Path, folder: Path) -> Iterator[str]:
    """Of a server with engines that are odd."""
    with serving(Server(ENGINES, page)) as told:
        yield told


def socket_of(address: str, engine: str = "native") -> str:
    """The WebSocket's address."""
    parts = urlsplit(address)
    return f"ws://{parts.netloc}/socket?engine={engine}&{parts.query}"


@pytest.fixture
def visit(address: str) -> Iterator[Callable[..., Client]]:
    """`visit(engine)` opens a session as the page does."""
    with ExitStack() as opened:

        def open_(engine: str = "native") -> Client:
            origin = Origin(f"http://{urlsplit(address).netloc}")
            return Client(opened.enter_context(connect(socket_of(address, engine), origin=origin, max_size=None)))

        yield open_
