"""The page as one self-contained file, and addresses that hold a run's set-up."""

from __future__ import annotations

import base64
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TypedDict

from l4slab.base.errors import InputError
from l4slab.base.run import Run

# What the server tells the page; the built page has an empty object there.
_FACTS = re.compile(r'(<script id="server" type="application/json">)\s*\{\}\s*(</script>)')

# How gzip begins, in base64: the simulator's module. It is not there where nothing could compile it.
_MODULE = re.compile("[\"'`]H4sI")


class Facts(TypedDict, total=False):
    """The facts for the page: the WebSocket's address, the engines of its server, why it has not got others, and the
    description of the run that it begins with.
    """

    socket: str
    engines: list[str]
    why_not: dict[str, str]
    run: Run


def built() -> Path | None:
    """Where the page is, which `./dev.sh page` builds from web/ and a wheel contains; None where it is not."""
    file = Path(str(files("l4slab.live"))) / "page" / "live.html"
    return file if file.is_file() else None


def document(facts: Facts | None = None, file: Path | None = None) -> str:
    """The page, with the server's facts.

    `file` is another build than the package's. Raises InputError where no page is built.
    """
    file = file or built()
    if file is None:
        raise InputError("the page of l4slab live is not built; build it with: ./dev.sh page")
    text = file.read_text(encoding="utf-8")
    if not facts:
        return text
    told = json.dumps(facts, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    text, places = _FACTS.subn(lambda found: found[1] + told + found[2], text, count=1)
    if not places:
        raise InputError("has no place for what the server tells it; build it anew with: ./dev.sh page", file=file)
    return text


def simulates(document: str) -> bool:
    """Whether the simulator is in the page, so that it needs no server."""
    return _MODULE.search(document) is not None


def fragment(description: Run, engine: str = "") -> str:
    """The fragment of the page's address that opens this run (a resolved description): "#run=…".

    Without `engine` the page takes the first that it has.
    """
    text = json.dumps(description, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    run = base64.urlsafe_b64encode(text.encode()).decode("ascii").rstrip("=")
    return f"#run={run}" + (f"&view.engine={engine}" if engine else "")
