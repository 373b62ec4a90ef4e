"""Traces of links: CSV with a column of times and one of rates, Pensieve's and mm-link's files, and captures."""

from __future__ import annotations

import csv
import re
import struct
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from l4slab.base.errors import InputError
from l4slab.tools.importing.draft import PLAIN, Draft

# By data set: the columns of time and rate in small letters, and Mbit/s per unit. More than one row may have a time.
_KNOWN = {
    "Lumos5G": ("seq_num", "throughput", 1.0),
    "UCC 5G": ("timestamp", "dl_bitrate", 1e-3),
    "rate trace": ("time_s", "rate_mbps", 1.0),
}
_UNITS = {"gbps": 1e3, "gbit": 1e3, "mbps": 1.0, "mbit": 1.0, "kbps": 1e-3, "kbit": 1e-3, "bps": 1e-6, "bitrate": 1e-3}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_STAMPS = ("%Y.%m.%d_%H.%M.%S", "%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%H:%M:%S")
_BIN_NS = 100_000_000
_MOST_MISTAKES = 10


def read_csv(text: str, draft: Draft, columns: tuple[str | None, str | None]) -> None:
    """A table whose columns are known, or named by the user. Raises InputError with all mistakes."""
    rows = [
        row for row in csv.reader(text.splitlines(), delimiter=_delimiter(text)) if row and not row[0].startswith("#")
    ]
    heads = [head.strip() for head in rows[0]]
    small = [head.lower() for head in heads]
    time, rate, scale = _columns(heads, small, columns, draft)
    own = [row for row in rows[1:] if len(row) > max(time, rate)]
    if "run_num" in small:
        first = own[0][small.index("run_num")] if own else ""
        rest = [row for row in own if row[small.index("run_num")] != first]
        own = [row for row in own if row[small.index("run_num")] == first]
        if rest:
            draft.leave(
                f"{len(rest)} rows", f"they are of other runs than {first}, the first; keep another in the file"
            )
    points: list[tuple[float, float]] = []
    mistakes: list[str] = []
    for line, row in enumerate(own, 2):
        if row[rate].strip() in ("", "-", "nan", "NaN"):
            continue
        try:
            points.append((_time(row[time].strip(), heads[time]), float(row[rate]) * scale))
        except ValueError as error:
            mistakes.append(f"line {line}: {error}")
    if mistakes:
        more = f" and {len(mistakes) - _MOST_MISTAKES} more" if len(mistakes) > _MOST_MISTAKES else ""
        raise InputError(
            f"has {len(mistakes)} rows that cannot be read: {'; '.join(mistakes[:_MOST_MISTAKES])}{more}; correct or "
            "remove them",
            file=draft.source,
        )
    draft.taken.append(f"time from column {heads[time]!r}, rate from column {heads[rate]!r}, {scale:g} Mbit/s per unit")
    for head in heads:
        if head not in (heads[time], heads[rate]):
            draft.leave(f"column {head}", "a link has a rate over time only")
    _add(draft, points)


def _delimiter(text: str) -> str:
    head = text.splitlines()[0] if text.strip() else ""
    return max(",;\t", key=head.count)


def _columns(
    heads: Sequence[str], small: Sequence[str], columns: tuple[str | None, str | None], draft: Draft
) -> tuple[int, int, float]:
    for time, rate, scale in _KNOWN.values():
        if columns == (None, None) and time in small and rate in small:
            return small.index(time), small.index(rate), scale
    time_of, rate_of = columns
    rate_of, _, unit = (rate_of or "").partition(":")
    problems = [
        f"--{what} {name or ''} names no column".replace("  ", " ")
        for what, name in (("time", time_of), ("rate", rate_of))
        if not name or name.lower() not in small
    ]
    if problems:
        raise InputError(
            f"has the columns {', '.join(heads)}, and {' and '.join(problems)}; give --time COLUMN --rate COLUMN",
            file=draft.source,
        )
    found = next((one for one in _UNITS if one == unit.lower() or (not unit and one in rate_of.lower())), None)
    if found is None:
        raise InputError(
            f"= {rate_of!r} does not say its unit; write it behind a colon, such as --rate {rate_of}:mbps",
            file=draft.source,
            key="--rate",
        )
    return small.index((time_of or "").lower()), small.index(rate_of.lower()), _UNITS[found]


def _time(text: str, head: str) -> float:
    """Seconds; the name of the column may say another unit."""
    try:
        value = float(text)
    except ValueError:
        for form in _STAMPS:
            try:
                return datetime.strptime(text, form).timestamp()
            except ValueError:
                continue
        try:
            return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        except ValueError:
            raise ValueError(f"{head} = {text!r} is not a time") from None
    unit = next((one for one in _SECONDS if re.search(rf"(_|\(|\b){one}\)?$", head.lower())), "s")
    # Of a clock in milliseconds, whatever it is called.
    return value * (1e-3 if unit == "s" and value > 1e11 else _SECONDS[unit])


def is_pensieve(text: str) -> bool:
    """Whether each line has a time in s and a rate in Mbit/s."""
    lines = [line.split() for line in text.splitlines()[:50] if line.strip()]
    return bool(lines) and all(len(line) == 2 and all(map(_is_number, line)) for line in lines)


def read_pensieve(text: str, draft: Draft) -> None:
    """Such a file."""
    draft.taken.append("lines of seconds and Mbit/s, as Pensieve has them")
    _add(draft, [(float(a), float(b)) for a, b in (line.split() for line in text.splitlines() if line.strip())])


def is_opportunities(text: str) -> bool:
    """Whether it is a trace of mm-link: whole milliseconds."""
    lines = [line.strip() for line in text.splitlines()[:50] if line.strip()]
    return bool(lines) and all(line.isdigit() for line in lines)


def read_opportunities(text: str, draft: Draft) -> None:
    """A trace of mm-link, which is a rate_trace as it is."""
    draft.taken.append("milliseconds of delivery opportunities, as mm-link has them")
    _with(draft, text, "txt")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_capture(content: bytes, draft: Draft) -> None:
    """The rate of all packets of a capture, in bins of 100 ms. Raises InputError."""
    totals: dict[int, int] = {}
    begin: int | None = None
    for time, size in _packets(content, draft.source):
        begin = time if begin is None else begin
        place = (time - begin) // _BIN_NS
        if place >= 0:
            totals[place] = totals.get(place, 0) + size
    if begin is None:
        raise InputError("has no packets", file=draft.source)
    draft.taken.append(f"the bytes of all frames, both directions, in bins of {_BIN_NS * 1e-9:g} s")
    _add(draft, [(place * _BIN_NS * 1e-9, totals.get(place, 0) * 8e3 / _BIN_NS) for place in range(max(totals) + 2)])


def _packets(content: bytes, source: str) -> Iterator[tuple[int, int]]:
    """Times in ns, and lengths on the wire."""
    magic = content[:4]
    orders = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),
              b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}  # fmt: skip
    at = 24
    if magic in orders:
        order, step = orders[magic]
        while at + 16 <= len(content):
            seconds, part, kept, size = struct.unpack_from(f"{order}IIII", content, at)
            yield seconds * 10**9 + part * step, size
            at += 16 + kept
        return
    if magic != b"\x0a\x0d\x0d\x0a":
        raise InputError("is no capture in the formats pcap and pcapng", file=source)
    order, at = ("<" if content[8:12] == b"\x4d\x3c\x2b\x1a" else ">"), 0
    unit = 1000.0
    while at + 12 <= len(content):
        kind, length = struct.unpack_from(f"{order}II", content, at)
        if length < 12:
            return
        if kind == 1:
            resolution = re.search(rb"\x09\x00\x01\x00(.)", content[at + 16 : at + length], re.DOTALL)
            if resolution is not None and order == "<":
                unit = 10.0 ** (9 - resolution[1][0])
        elif kind == 6 and length >= 32:
            high, low, _, size = struct.unpack_from(f"{order}IIII", content, at + 12)
            yield int(((high << 32) + low) * unit), size
        at += length


def _add(draft: Draft, points: list[tuple[float, float]]) -> None:
    """The link, with the rates as a file beside it. Raises InputError."""
    steps: dict[float, float] = {}
    for time, rate in sorted(points, key=lambda point: point[0]):
        begin = next(iter(steps), None)
        steps[round(time, 6)] = max(rate, 0.0) if begin is None or time > begin else steps[begin]
    if not any(steps.values()):
        raise InputError("has no rate above 0", file=draft.source)
    first = next(iter(steps))
    rows = [(round(time - first, 6), rate) for time, rate in steps.items()]
    draft.taken.append(f"{len(rows)} steps over {rows[-1][0]:g} s, from time 0 on")
    if not any(rate for _, rate in rows[:-1]):
        rows.append((rows[-1][0] + 1, rows[-1][1]))
    _with(draft, "".join(["time_s,rate_mbps\n", *(f"{time:.6f},{rate:.6g}\n" for time, rate in rows)]), "csv")


def _with(draft: Draft, text: str, ending: str) -> None:
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", Path(draft.source).stem) + f"-rate.{ending}"
    draft.files[name] = text
    link = draft.link("link", rate_trace=name, qdisc=PLAIN)
    link.comments.append("the queue is not in a trace; write yours")
