"""A report as its reader sees it, held against the one that follows from the tables.

Two pages are compared by what they say: texts and drawn elements in their order, section by section, and the data of
their scripts. What depends on the folder's place is left out: the folder in the command, other files of a run, and
whether the page of `l4slab live` is beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import islice, zip_longest
from typing import Any

from l4slab.report import provenance
from l4slab.tools.verify.findings import MOST, Finding, of_texts, of_values, shown, table_of

FILE = "report.html"
_OUT = re.compile(r"(l4slab (?:run|reproduce) [^;\n]*?) --out (?:'[^']*'|[^\s;]+)")
_PLACE = ("live", "files")
TABLE = "table-of-"
_VOID = {"meta", "br", "link", "img", "input", "hr", "path", "i"}


@dataclass(frozen=True)
class Token:
    """A text or an element, with what stands in front of it: the row's and the column's heading."""

    row: str
    column: str
    text: str


class Page(HTMLParser):
    """The sections of a page with their tokens, and the JSON of its scripts by id."""

    def __init__(self, text: str):
        super().__init__()
        self.sections: dict[str, list[Token]] = {"": []}
        self.data: dict[str, Any] = {}
        self._section, self._row, self._heads, self._column = "", "", [""], 0
        self._tags: list[str] = []
        self._script: list[str] = []
        self._json: str | None = None
        self._in_head = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "section":
            self._section = attributes.get("id") or ""
            self.sections.setdefault(self._section, [])
            self._row, self._heads = "", []
        elif tag == "thead":
            self._heads, self._in_head = [], True
        elif tag == "tr":
            self._column = 0
        elif tag in ("td", "th"):
            if self._in_head:
                self._heads += [""] * int(attributes.get("colspan") or 1)
            self._column += int(attributes.get("colspan") or 1)
        if (name := attributes.get("id")) is not None:
            self._row = name
        if tag == "script":
            self._script, self._json = [], name if attributes.get("type") == "application/json" else None
        if tag not in _VOID:
            self._tags.append(tag)
        self._add(f"<{tag}{''.join(f' {key}={value}' for key, value in attrs)}>")

    def handle_endtag(self, tag: str) -> None:
        if tag == "thead":
            self._in_head = False
        elif tag == "table":
            self._heads = []
        if self._tags and self._tags[-1] == tag:
            self._tags.pop()
        if tag == "script":
            self._end_script("".join(self._script))
        self._add(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        inside = self._tags[-1] if self._tags else ""
        if inside == "script":
            self._script.append(data)
            return
        text = " ".join(data.split()) if inside != "pre" else data
        if not text:
            return
        self._add(_OUT.sub(r"\1", text))
        if self._in_head and self._heads:
            span = next((n for n, head in enumerate(reversed(self._heads)) if head), len(self._heads))
            self._heads[-max(span, 1) :] = [f"{self._heads[-1]} {text}".strip()] * max(span, 1)
        elif inside in ("th", "strong", "summary", "h3", "dt", "span"):
            self._row = text

    def _end_script(self, text: str) -> None:
        if self._json is None:
            self._add(text)
            return
        try:
            self.data[self._json] = json.loads(text)
        except ValueError:
            self.data[self._json] = text  # which is not what any page has

    def handle_decl(self, decl: str) -> None:
        self._add(decl)

    def handle_comment(self, data: str) -> None:
        self._add(data)

    def _add(self, text: str) -> None:
        heads = self._heads
        column = heads[self._column - 1] if 0 < self._column <= len(heads) and not self._in_head else ""
        self.sections[self._section].append(Token(self._row, column, text))


def read(text: str) -> Page:
    """Raises ValueError for what is no page of ours."""
    page = Page(text)
    if "index" not in page.data:
        raise ValueError("it has not the data of a report")
    return page


def unpacked(run: str) -> Any:
    """A run as the page holds it. Raises ValueError."""
    return json.loads(provenance.unpacked(run))


def differences(found: Page, again: Page, runs: Collection[str] | None = None) -> Iterator[Finding]:
    """What differs. With `runs`, `again` has only these, and only what depends on nothing else is compared."""
    for section, tokens in again.sections.items() if runs is None else [("reproduce", again.sections["reproduce"])]:
        yield from _of_sections(section, found.sections.get(section, []), tokens)
    if runs is None:
        for section in found.sections.keys() - again.sections.keys():
            yield Finding(FILE, (section,), "this section", "nothing")
        for name in found.data.keys() - again.data.keys():
            yield Finding(FILE, (name,), "this element", "nothing")
    for name, value in again.data.items():
        if name not in found.data:
            # A large table of a page that has all runs is in a file.
            if runs is None or not name.startswith(TABLE):
                yield Finding(FILE, (name,), "nothing", "this element")
        elif name.startswith(TABLE):
            table = name.removeprefix(TABLE)
            yield from of_grids(FILE, table, found.data[name], value, runs)
        elif name == "index":
            yield from _of_indices(found.data[name], value, runs)
        elif name == provenance.ELEMENT:
            yield from _of_provenance(found.data[name], value, runs)
        elif runs is None:
            yield from _of_data(FILE, (name,), found.data[name], value)


def _of_sections(section: str, found: list[Token], again: list[Token]) -> Iterator[Finding]:
    pairs = ((a, b) for a, b in zip_longest(found, again) if a is None or b is None or a.text != b.text)
    for a, b in islice(pairs, MOST if len(found) == len(again) else 1):
        near, found_text, again_text = b or a or Token("", "", ""), a.text if a else "", b.text if b else ""
        yield of_texts(FILE, (section or "around the sections", near.row, near.column), found_text, again_text)


def _of_data(file: str, place: tuple[str, ...], found: object, again: object) -> Iterator[Finding]:
    for inner, a, b in islice(of_values(found, again), MOST):
        yield Finding(file, (*place, ", ".join(inner)), shown(a), shown(b))


def of_grids(
    file: str, table: str, found: object, again: object, runs: Collection[str] | None = None
) -> Iterator[Finding]:
    """Differences of a result table, by row and column."""
    try:
        both = [rows(one) for one in (found, again)]
    except (KeyError, IndexError, TypeError, ValueError):
        yield Finding(file, (table,), "no table", "a table")
        return
    if runs is not None:
        both = [[row for row in one if row["run"] in runs] for one in both]
    if len(both[0]) != len(both[1]):
        yield Finding(file, (table,), f"{len(both[0])} rows", f"{len(both[1])}")
        return
    for a, b in zip(*both, strict=True):
        names = b.keys() if runs is None else b.keys() & a.keys()
        for name in (*names, *(a.keys() - b.keys() if runs is None else ())):
            if a.get(name) != b.get(name):
                place = " ".join(str(b[key]) for key in ("run", "flow", "link", "queue") if b.get(key) is not None)
                yield Finding(file, (table, f"run {place}", name), shown(a.get(name)), shown(b.get(name)))
    if runs is None and not any(a != b for a, b in zip(*both, strict=True)):
        yield from _of_data(file, (table,), found, again)


def rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a result table, as the page has it. Raises KeyError, IndexError, TypeError, ValueError."""
    columns = {
        column["id"]: [column["levels"][code] for code in column["codes"]] if "levels" in column else column["values"]
        for column in table["columns"]
    }
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _of_indices(found: Any, again: Any, runs: Collection[str] | None) -> Iterator[Finding]:
    if not isinstance(found, dict):
        yield Finding(FILE, ("index",), shown(found), "the data of the figures")
        return
    packed = table_of(found.get("runs")), table_of(again.get("runs"))
    for run in packed[1] if runs is not None else dict.fromkeys((*packed[1], *packed[0])):
        if any(run not in one for one in packed):
            if runs is None or found.get("runs") is not None:
                a, b = (shown("this run") if run in one else "nothing" for one in packed)
                yield Finding(FILE, ("index", f"run {run}"), a, b)
            continue
        yield from of_runs(FILE, run, packed[0][run], packed[1][run])
    if runs is None:
        left = [{key: value for key, value in one.items() if key not in (*_PLACE, "runs")} for one in (found, again)]
        yield from _of_data(FILE, ("data of the figures",), *left)


def of_runs(file: str, run: str, found: str, again: str) -> Iterator[Finding]:
    """Differences of a run as the page opens it."""
    try:
        one = unpacked(found)
    except (ValueError, TypeError):
        yield Finding(file, (f"run {run}",), "what cannot be unpacked", "a run")
        return
    yield from _of_data(file, (f"run {run}",), one, unpacked(again))


def _of_provenance(found: Any, again: Any, runs: Collection[str] | None) -> Iterator[Finding]:
    """Digests, and the files that the page holds."""
    given = table_of(found)
    of_runs_ = table_of(given.get("runs"))
    if runs is not None:
        of_runs_ = {run: of_runs_.get(run) for run in runs}
    for inner, a, b in islice(of_values(of_runs_, again["runs"]), MOST):
        yield Finding(FILE, (provenance.ELEMENT, "digest of run", *inner), shown(a), shown(b))
    if runs is not None:
        return
    for inner, a, b in islice(of_values(given.get("tables"), again["tables"]), MOST):
        yield Finding(FILE, (provenance.ELEMENT, "digest of table", *inner), shown(a), shown(b))
    if given.get("build") == again["build"] and given.get("l4slab") != again["l4slab"]:
        yield Finding(FILE, (provenance.ELEMENT, "l4slab"), shown(given.get("l4slab")), shown(again["l4slab"]))
    files = table_of(given.get("files"))
    for name, text in again["files"].items():
        try:
            same = name in files and provenance.unpacked(files[name]) == provenance.unpacked(text)
        except (ValueError, TypeError):
            same = False
        if not same:
            yield Finding(FILE, (provenance.ELEMENT, f"experiments/{name}"), "another file", "that of the results")
    for name in files.keys() - again["files"].keys():
        yield Finding(FILE, (provenance.ELEMENT, f"experiments/{name}"), "this file", "nothing")
