"""The options of a TCP segment, as far as a sender's story needs them."""

from __future__ import annotations

import struct
from typing import NamedTuple

_END, _NOP, _SACK, _TIMESTAMPS = 0, 1, 5, 8
# AccECN options have three 24-bit counters of payload bytes (RFC 9768, 3.2.3), of which the last ones may be left out.
_ACCECN = {172: ("ect0", "ce", "ect1"), 174: ("ect1", "ce", "ect0")}
# How both engines begin them: timestamps after two NOPs (RFC 7323, appendix A).
_USUAL = struct.Struct("!4xII")
_USUAL_HEAD = bytes((_NOP, _NOP, _TIMESTAMPS, 10))


class Options(NamedTuple):
    """Their content."""

    stamp: int = 0  # TSval and TSecr (RFC 7323, 3.2)
    echo: int | None = None
    blocks: tuple[tuple[int, int], ...] = ()  # of SACK: left edge, right edge
    counters: dict[str, int] = {}  # noqa: RUF012 (nobody writes to it)


def read_options(data: bytes) -> Options:
    """From the bytes after the fixed header; what is cut off is left out."""
    stamp, echo, blocks, counters = Options()
    at = 0
    if data[:4] == _USUAL_HEAD and len(data) >= _USUAL.size:
        stamp, echo = _USUAL.unpack_from(data)
        at = _USUAL.size
    while at + 1 < len(data) and (kind := data[at]) != _END:
        if kind == _NOP:
            at += 1
            continue
        end = at + data[at + 1]
        if not at + 2 <= end <= len(data):
            break
        if kind == _TIMESTAMPS:
            stamp, echo = int.from_bytes(data[at + 2 : at + 6]), int.from_bytes(data[at + 6 : end])
        elif kind == _SACK:
            edges = [int.from_bytes(data[i : i + 4]) for i in range(at + 2, end, 4)]
            blocks = tuple(zip(edges[::2], edges[1::2], strict=False))
        elif kind in _ACCECN:
            found = [int.from_bytes(data[i : i + 3]) for i in range(at + 2, end, 3)]
            counters = dict(zip(_ACCECN[kind], found, strict=False))
        at = end
    return Options(stamp, echo, blocks, counters)
