"""`l4slab report DIR --open`: the page and what it loads, from this machine only, until Ctrl-C."""

from __future__ import annotations

import _thread
import socket
import urllib.request
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
from l4slab.report.serve import serve


def test_it_serves_the_folder_until_it_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "report.html").write_text("the page")
    (tmp_path / "runs" / "a.js").write_text("a run")
    told: list[str] = []
    found: list[str] = []

    def visit(address: str) -> None:
        for name in (address, address.replace("report.html", "runs/a.js")):
            with urllib.request.urlopen(name) as answer:
                found.append(answer.read().decode())
        _thread.interrupt_main()

    def browse(address: str) -> bool:
        Thread(target=visit, args=(address,)).start()
        return True

    serve(tmp_path, "report.html", told.append, browse)
    assert found == ["the page", "a run"]
    (address,) = told
    assert urlsplit(address).hostname == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), timeout=5)
