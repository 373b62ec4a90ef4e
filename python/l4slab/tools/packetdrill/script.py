"""The language of packetdrill's scripts, read into events.

https://github.com/google/packetdrill describes it. Times are microseconds, sequence numbers those of the script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from l4slab.base.errors import InputError
from l4slab.tools.packetdrill.words import Word, split, words


@dataclass(frozen=True)
class When:
    """When an event happens, us. `relative`: after the one before; `until`: the end of a range."""

    kind: Literal["at", "range", "any"]
    at: float = 0
    until: float = 0
    relative: bool = False


@dataclass(frozen=True)
class Options:
    """TCP options. Of the AccECN option each field that is there, by its name in the script (e0b, ceb, e1b)."""

    mss: int | None = None
    wscale: int | None = None
    sack_ok: bool = False
    stamps: tuple[int, int] | None = None
    sack: tuple[tuple[int, int], ...] = ()
    accecn: Mapping[str, int] | None = None
    other: tuple[str, ...] = ()


@dataclass(frozen=True)
class Segment:
    """A TCP packet. `ecn` is the word in brackets, "" for none; `options` None: any."""

    inbound: bool
    flags: str
    seq: int
    length: int
    ack: int | None
    window: int | None
    ecn: str = ""
    options: Options | None = field(default_factory=Options)

    @property
    def bits(self) -> int:
        """AE, CWR and ECE as the ACE field."""
        if digits := re.search(r"\d", self.flags):
            return int(digits[0])
        return sum(value for letter, value in _ACE.items() if letter in self.flags)

    def has(self, letter: str) -> bool:
        return letter in self.flags


@dataclass(frozen=True)
class Call:
    """A system call: its arguments as words, the value that it returns, and until when it blocks, us."""

    name: str
    arguments: Sequence[Word]
    result: Word
    error: str = ""
    ends: float | None = None


@dataclass(frozen=True)
class Shell:
    """Commands of a shell."""

    text: str


@dataclass(frozen=True)
class Code:
    """Python, with the names of `tcp_info`."""

    text: str


@dataclass(frozen=True)
class Foreign:
    """A packet that is not TCP's."""

    text: str


@dataclass(frozen=True)
class Event:
    """What is to happen, and when."""

    line: int
    when: When
    what: Segment | Call | Shell | Code | Foreign


@dataclass(frozen=True)
class Script:
    """A script with its options."""

    file: Path
    options: Mapping[str, str]
    events: Sequence[Event]


_ACE = {"E": 1, "W": 2, "A": 4}
_NUMBER = r"\d*\.?\d+(?:[eE]-?\d+)?"
_TIME = re.compile(rf"\*|(\+?)\s*({_NUMBER})(?:\s*~\s*\+?\s*({_NUMBER}))?")
_ENDS = re.compile(rf"\s*\.\.\.\s*(\+?)({_NUMBER})")
_PACKET = re.compile(
    r"(?P<side>[<>])\s*(?:\[(?P<ecn>[^\]]*)\]\s*)?(?:(?P<foreign>icmp|udp|gre|ipv4|ipv6|mpls)\b[^\n]*|"
    r"(?P<flags>[SFRPUEWAC.\d]+|-)\s+(?P<seq>\d+):(?P<end>\d+)\((?P<len>\d+)\)"
    r"(?:\s+ack\s+(?P<ack>\d+))?(?:\s+win\s+(?P<win>\d+))?(?P<urg>\s+urg\s+\d+)?"
    r"[ \t]*(?P<options><[^>]*>)?)"
)
_CALL = re.compile(r"(\w+)\s*\(")
_RESULT = re.compile(r"\s*=\s*")


def read(file: Path) -> Script:
    """Reads a script. Raises InputError, with the line, for what is not the language."""
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from None
    events = []
    reader = _Reader(file, text)
    options = dict(reader.options())
    while (event := reader.event()) is not None:
        events.append(event)
    return Script(file, options, events)


class _Reader:
    def __init__(self, file: Path, text: str) -> None:
        self.file, self.text, self.at = file, text, 0

    def options(self) -> Iterator[tuple[str, str]]:
        while self._skip() and self.text.startswith("--", self.at):
            end = self.text.find("\n", self.at)
            line = self.text[self.at + 2 : end if end >= 0 else None].split("//")[0].strip()
            self.at = end if end >= 0 else len(self.text)
            name, _, value = line.partition("=")
            yield name, value

    def event(self) -> Event | None:
        if not self._skip():
            return None
        line = self.text.count("\n", 0, self.at) + 1
        if self.text[self.at] == "`":
            return Event(line, When("at", relative=True), Shell(self._quoted("`", "`")))
        when, ends = self._when(), None
        if found := _ENDS.match(self.text, self.at):
            self.at = found.end()
            ends = _us(found[2])
        self._skip()
        return Event(line, when, self._what(ends))

    def _skip(self) -> bool:
        found = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|#[^\n]*)*", re.S).match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at < len(self.text)

    def _when(self) -> When:
        found = _TIME.match(self.text, self.at)
        if found is None:
            raise self._wrong("an event begins with its time")
        self.at = found.end()
        if found[0] == "*":
            return When("any")
        at = _us(found[2])
        kind: Literal["at", "range"] = "range" if found[3] else "at"
        return When(kind, at, _us(found[3]) if found[3] else at, bool(found[1]))

    def _what(self, ends: float | None) -> Segment | Call | Shell | Code | Foreign:
        if self.text.startswith("`", self.at):
            return Shell(self._quoted("`", "`"))
        if self.text.startswith("%{", self.at):
            return Code(self._quoted("%{", "}%"))
        if found := _PACKET.match(self.text, self.at):
            self.at = found.end()
            return self._packet(found)
        if found := _CALL.match(self.text, self.at):
            return self._call(found, ends)
        raise self._wrong("neither a packet, a system call, a command nor code")

    def _quoted(self, begin: str, end: str) -> str:
        start = self.at + len(begin)
        if (stop := self.text.find(end, start)) < 0:
            raise self._wrong(f"{begin} has no {end}")
        self.at = stop + len(end)
        return self.text[start:stop]

    def _packet(self, found: re.Match[str]) -> Segment | Foreign:
        if found["foreign"] or found["urg"]:
            return Foreign(found["foreign"] or "urgent data")
        text = found["options"]
        try:
            options = Options() if text is None else None if text == "<...>" else self._options(text[1:-1])
        except (IndexError, ValueError):
            raise self._wrong(f"options {text}") from None
        number = {key: int(found[key]) if found[key] else None for key in ("ack", "win")}
        flags = "" if found["flags"] == "-" else found["flags"]
        inbound, ecn = found["side"] == "<", (found["ecn"] or "").strip()
        return Segment(inbound, flags, int(found["seq"]), int(found["len"]), number["ack"], number["win"], ecn, options)

    def _options(self, text: str) -> Options:
        known: dict[str, object] = {}
        other = []
        for one in (part.strip() for part in text.split(",")):
            word, *values = one.split()
            if word in ("nop", "eol"):
                continue
            if word in ("mss", "wscale"):
                known[word] = int(values[0])
            elif word == "sackOK":
                known["sack_ok"] = True
            elif word == "TS":
                known["stamps"] = (int(values[1]), int(values[3]))
            elif word == "sack":
                known["sack"] = tuple(tuple(map(int, block.split(":"))) for block in values)
            elif word == "ECN":
                known["accecn"] = dict(zip(values[::2], map(int, values[1::2]), strict=False))
            else:
                other.append(word)
        return Options(**known, other=tuple(other))  # type: ignore[arg-type]

    def _call(self, found: re.Match[str], ends: float | None) -> Call:
        inside = split(self.text, found.end())
        if inside is None:
            raise self._wrong(f"{found[1]}( has no )")
        arguments, self.at = inside
        equals = _RESULT.match(self.text, self.at)
        if equals is None:
            raise self._wrong(f"{found[1]}() has no result")
        self.at = equals.end()
        rest = re.compile(r"(-?\w+|\.\.\.)(?:[ \t]+([A-Z][A-Z0-9]+))?[ \t]*(\([^)\n]*\))?").match(self.text, self.at)
        if rest is None:
            raise self._wrong(f"{found[1]}() has no result")
        self.at = rest.end()
        return Call(found[1], [words(one) for one in arguments], words(rest[1]), rest[2] or "", ends)

    def _wrong(self, why: str) -> InputError:
        line = self.text.count("\n", 0, self.at) + 1
        return InputError(f"line {line}: {why}: {self.text[self.at :].splitlines()[0].strip()}", file=self.file)


def _us(seconds: str) -> float:
    return float(seconds) * 1e6
