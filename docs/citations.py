"""Every RFC that the code cites: document, section, what is implemented, what differs.

    .venv/bin/python docs/citations.py           # prints the list of the page citations.md
    .venv/bin/python docs/citations.py 8985      # only those of this RFC

A citation is written `RFC 8985, 6.2` with the number of a section, `RFC 9332, A.1` with that of an appendix's section,
`RFC 9332, Appendix A`, or `RFC 8985` for the whole document.
A module that differs from an RFC has a table in its first comment, with a column that is headed by the RFC.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("crates/core/src", "crates/io/src")
CITATION = re.compile(r"RFC (\d{3,5})(?:, (\d+(?:\.\d+)*|[A-Z](?:\.\d+)+|(?<=, )Appendix [A-Z])(?![\w-]))?")
# Any other way to write the number of a document or of a section.
OTHERS = (
    re.compile(r"RFC-?\d+(?!\d*_)"),
    re.compile(r"RFCs? \d+,? \(?(?:[Ss]ections?|sec\.|§)|RFC \d+,? appendix|RFC \d+ \(?Appendix"),
    re.compile(r"RFC \d+ \(?(?:\d+\.|[A-D]\.)\d|RFC \d+, [A-D](?![.\w-])"),
)
_COMMENT = re.compile(r"^\s*(//[/!]?) ?(.*)$")
_ITEM = re.compile(r"\b(?:fn|struct|enum|trait|const|static|mod|type|impl) (\w+)")
_FIELD = re.compile(r"^\s*(?:pub(?:\(\w+\))? )?(\w+)\b")
_FUNCTION = re.compile(r"\b(?:fn|struct|enum|trait|impl(?:<.*?>)?) (\w+)")


@dataclass(frozen=True, order=True)
class Citation:
    """Where something of a document is implemented. `section` is empty for the whole document."""

    document: int
    section: str
    file: str
    item: str
    says: str


@dataclass(frozen=True, order=True)
class Difference:
    """A row of a module's table."""

    document: int
    file: str
    what: str
    here: str
    there: str


def files() -> Iterator[Path]:
    """The sources that cite."""
    for folder in SOURCES:
        yield from (path for path in sorted((ROOT / folder).rglob("*.rs")) if path.name != "tests.rs")


def citations(path: Path) -> Iterator[Citation]:
    """Those of a file."""
    name = str(path.relative_to(ROOT))
    lines = path.read_text("utf-8").split("#[cfg(test)]\nmod ")[0].splitlines()
    enclosing, block = "", list[str]()
    for number, line in enumerate(lines):
        if comment := _COMMENT.match(line):
            mark, text = comment.groups()
            if not text.startswith("|"):
                block.append(text)
            after = _COMMENT.match(lines[number + 1]) if number + 1 < len(lines) else None
            if not text or text.startswith("|") or after is None or after[1] != mark:
                item = {"///": _item_after(lines, number + 1), "//!": ""}.get(mark, enclosing)
                for sentence in re.split(r"(?<=[a-z)`][.]) (?=[A-Z`])", " ".join(block)):
                    yield from _cited(name, item, sentence)
                block = []
            continue
        if found := _FUNCTION.search(line):
            enclosing = found[1]
        for text in re.findall(r'"([^"]*)"', line):
            parameter = re.match(r"\s*(\w+): .* = ", line)
            yield from _cited(name, enclosing, f"default of `{parameter[1]}`: {text}" if parameter else text)
        if '"' not in line:
            yield from _cited(name, enclosing, line.partition("// ")[2])


def _item_after(lines: list[str], number: int) -> str:
    code = next((x for x in lines[number:] if x.strip() and not x.lstrip().startswith(("#[", "///"))), "")
    found = _ITEM.search(code) or _FIELD.search(code)
    return found[1] if found else ""


def _cited(file: str, item: str, sentence: str) -> Iterator[Citation]:
    for found in CITATION.finditer(sentence):
        yield Citation(int(found[1]), found[2] or "", file, item, _plain(sentence))


def _plain(sentence: str) -> str:
    without_links = re.sub(r"\[(`[^`]+`|[\w ]+)\](?:\([^)]*\))?", r"\1", sentence)
    return without_links.replace("|", "\\|").strip().rstrip(":")


def differences(path: Path) -> Iterator[Difference]:
    """The rows of a module's tables with a column of an RFC."""
    name = str(path.relative_to(ROOT))
    head: list[str] = []
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith("//! |"):
            head = []
            continue
        cells = [cell.strip() for cell in line.removeprefix("//! |").rstrip("|").split("|")]
        if not head:
            head = cells
        elif (found := CITATION.search(" ".join(head))) and not cells[0].startswith("--"):
            column = next(number for number, cell in enumerate(head) if CITATION.search(cell))
            if column > 1 and len(cells) > column:
                yield Difference(int(found[1]), name, cells[0], cells[1], cells[column])


def misspelt(path: Path) -> list[str]:
    """Where a document or a section is named in another form."""
    text = re.sub(r"\n\s*//[/!]? ?", " ", path.read_text("utf-8"))
    return [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for other in OTHERS
        for found in re.finditer(rf"{other.pattern}.*", text)
    ]


def _order(section: str) -> list[tuple[bool, int, str]]:
    parts = section.removeprefix("Appendix ").split(".")
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts if part]


def markdown(only: int | None = None) -> str:
    """The page."""
    cited = sorted({one for path in files() for one in citations(path)}, key=lambda one: (_order(one.section), one))
    differ = sorted({one for path in files() for one in differences(path)})
    lines = [
        "# Citations of RFCs",
        "",
        "`./dev.sh docs` writes this page from the comments of the code (`docs/citations.py`). It lists what cites",
        "an RFC, by section, and what differs on purpose. [The model](model.md) says more about differences.",
    ]
    for document in sorted({one.document for one in cited}):
        if only not in (None, document):
            continue
        lines += ["", f"## [RFC {document}](https://www.rfc-editor.org/rfc/rfc{document})", ""]
        lines += ["| section | where | what |", "|---|---|---|"]
        for one in (one for one in cited if one.document == document):
            where = one.file.removeprefix("crates/").replace("/src/", "/")
            item = f" `{one.item}`" if one.item else ""
            lines.append(f"| {one.section} | `{where}`{item} | {one.says} |")
        rows = [one for one in differ if one.document == document]
        if rows:
            lines += ["", "Differences:", "", "| what | here | RFC | where |", "|---|---|---|---|"]
            for row in rows:
                where = row.file.removeprefix("crates/").replace("/src/", "/")
                lines.append(f"| {row.what} | {row.here} | {row.there} | `{where}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(int(sys.argv[1]) if len(sys.argv) > 1 else None), end="")
