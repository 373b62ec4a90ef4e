"""`l4slab live`."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from l4slab.base.errors import InputError
from l4slab.base.paths import unwritable, usable
from l4slab.base.run import Run
from l4slab.cli import options, terminal

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("file", required=False, metavar="[FILE]", type=click.Path(path_type=Path))
@options.where
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Port of this machine; default: a free one.")
@click.option("--open/--no-open", "browse", default=None, help="Open it in the browser; default: if there is a screen.")
@click.option(
    "--out", metavar="FILE.html", type=click.Path(path_type=Path), help="Write the page as one file for any web server."
)
def live(file: Path | None, where: str | None, port: int | None, browse: bool | None, out: Path | None) -> int:
    """Serve a page on which everything can be changed while it runs.

    The page starts with the first run of FILE. It is served on this machine only, until Ctrl-C. With --out it is one
    file that needs no server and simulates in the browser.
    """
    from l4slab.live import page

    options.refuse_empty(where=where)
    if where is not None and file is None:
        raise click.UsageError("--where chooses among the runs of a file; name the file")
    if out is not None and (port is not None or browse is not None):
        raise click.UsageError("--port and --open are of a page that is served; leave them out, or --out")
    document = page.document()  # before anything takes time
    if out is not None and not page.simulates(document):
        raise InputError("needs a page with the simulator in it, and this one has none; see ./dev.sh page", key="--out")
    run = None if file is None else _run(file, where)
    if out is not None:
        _write(out, page.document({"run": run} if run else None))
        terminal.say(str(out))
        return 0

    from l4slab.live.server import Server, serve

    def tell(address: str) -> None:
        terminal.say(address)
        sys.stdout.flush()
        terminal.err().print("until Ctrl-C", markup=False)
        if _has_browser() if browse is None else browse:
            webbrowser.open(address)

    serve(Server(run_first=run), port or 0, tell)
    return 0


def _run(file: Path, where: str | None) -> Run:
    """The description of the first run that is chosen."""
    from l4slab.api import campaign

    (plan,) = campaign.plan([file], where=where)
    if not plan.todo:
        raise InputError("describes no run; give an experiment file", file=file)
    if any("state" in change for change in plan.todo[0].description["at"]):
        raise InputError("has a change that waits for a state, which the page does not know; write its time", file=file)
    return plan.todo[0].description


def _write(out: Path, text: str) -> None:
    try:
        usable(out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(out, error) from None


def _has_browser() -> bool:
    """Whether a browser has a screen to appear on."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
