"""What a report holds to be computed again: its experiment files, what wrote it, and digests of tables and runs.

`l4slab verify` reads it. A file is packed (deflate, then base64). Seeds are in the experiment files; a run's own is in
its description.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from l4slab.campaign import digests
from l4slab.campaign.store import digests_of

# The element of the page.
ELEMENT = "provenance"
# Largest packed size of a file in the page, such as a trace; without it, only the folder can be verified.
_MAX_BYTES = 1_000_000


def of(folder: Path) -> str:
    """The JSON of a results folder's page."""
    place = folder / "experiments"
    # A name with a point in front is of a file that is being written.
    paths = sorted(path for path in place.rglob("*") if path.is_file() and not path.name.startswith("."))
    files = {path.relative_to(place).as_posix(): packed(path.read_bytes()) for path in paths}
    kept = {name: text for name, text in files.items() if len(text) <= _MAX_BYTES}
    found: dict[str, Any] = {**digests_of(folder), **digests.writer()}
    live = folder / "live.html"
    found["live"] = hashlib.sha256(live.read_bytes()).hexdigest() if live.is_file() else None
    found |= {"files": kept, "left_out": sorted(files.keys() - kept.keys())}
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def packed(content: bytes) -> str:
    """Bytes as a page holds them."""
    return base64.b64encode(zlib.compress(content, 6)).decode("ascii")


def unpacked(text: str) -> bytes:
    """The bytes that `packed` packed. Raises ValueError."""
    try:
        return zlib.decompress(base64.b64decode(text, validate=True))
    except zlib.error as error:
        raise ValueError(str(error)) from None
