"""`l4slab report DIR --open`: the folder's page in the browser, from a server on this machine only.

A server rather than a file's address: browsers in a sandbox (snap, flatpak) may not read the folder, and a port can be
forwarded from another machine.
"""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
        pass


def serve(
    folder: Path, page: str, tell: Callable[[str], None], browse: Callable[[str], bool] = webbrowser.open
) -> None:
    """Serve the folder's files on a free port of 127.0.0.1 and show `page` until Ctrl-C."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        server.daemon_threads = True
        address = f"http://127.0.0.1:{server.server_address[1]}/{page}"
        tell(address)
        browse(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
