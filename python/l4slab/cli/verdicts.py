"""A command's verdicts for CI: as JUnit XML, as a Markdown summary and as a badge.

Every command makes one list of verdicts. All files are written from this list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

import click

from l4slab.base.errors import InputError, L4slabError
from l4slab.base.paths import unwritable
from l4slab.cli import options

if TYPE_CHECKING:
    from l4slab.tools.kerneltests import Result

# A failed run is an error. A verdict that is undecided or skipped never makes the exit status 1.
Status = Literal["fail", "error", "pass", "undecided", "skipped"]
_WORDS: dict[Status, str] = {
    "fail": "failed", "error": "error", "pass": "passed", "undecided": "undecided", "skipped": "skipped",
}  # fmt: skip
# Files that people write, and those of results folders: verdicts never overwrite them.
_NOT_OURS = {".c", ".csv", ".html", ".ipynb", ".parquet", ".py", ".rs", ".toml"}
_ROWS = 40  # of a table in the summary, which GitHub limits to 1 MiB
_WORST = 3


@dataclass(frozen=True)
class Verdict:
    """A command's verdict on one statement.

    `group` is the experiment or document that requires it, `where` the place that decides. `excess` is the distance of
    the measured number from its bound, as a part of the bound, and negative if the number is within the bound.
    """

    id: str
    says: str
    status: Status
    group: str = ""
    where: str = ""
    measured: str = ""
    expected: str = ""
    excess: float | None = None


@dataclass(frozen=True)
class Table:
    """A small table of the summary; `rows` may be more than it shows."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command: its verdicts, the last line on the terminal, and more for the summary.

    `worst` has rows of name, value, bound and place. Without it, the summary shows the verdicts of the largest excess.
    """

    command: str
    line: str
    verdicts: Sequence[Verdict]
    worst: Sequence[Sequence[str]] = ()
    tables: Sequence[Table] = ()
    report: str | None = None

    def count(self, *statuses: Status) -> int:
        """How many verdicts have one of these statuses."""
        return sum(one.status in statuses for one in self.verdicts)


@dataclass(frozen=True)
class Outputs:
    """The files that an outcome goes to."""

    junit: Path | None
    summary: Path | None

    def write(self, outcome: Callable[[], Outcome]) -> None:
        """Write the files that the user asked for. The outcome is made only for them."""
        if self.junit is None and self.summary is None:
            return
        made = outcome()
        if self.junit is not None:
            write(self.junit, junit(made))
        if self.summary is not None:
            write(self.summary, summary(made), "a")


def with_outputs(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a command the options --junit and --summary, as its argument `outputs`."""

    @click.option("--junit", metavar="FILE", help="Write the verdicts as JUnit XML.")
    @click.option("--summary", metavar="FILE", help="Append the verdicts as Markdown, as for $GITHUB_STEP_SUMMARY.")
    @wraps(command)
    def with_files(junit: str | None, summary: str | None, **given: Any) -> int:
        if given.get("dry_run") and (junit, summary) != (None, None):
            raise click.UsageError("--dry-run gives no verdicts; leave --junit and --summary out")
        outputs = Outputs(writable(junit=junit), writable(summary=summary))
        try:
            return command(outputs=outputs, **given)
        except L4slabError as error:
            name, reason = click.get_current_context().command_path, str(error)
            broken = Verdict(name, "the command ends", "error", measured=reason)
            # If these files cannot be written either, the first reason counts.
            with suppress(L4slabError):
                outputs.write(lambda: Outcome(name, reason, [broken]))
            raise

    return with_files


def writable(**option: str | None) -> Path | None:
    """The file that an option names, in a folder that exists from now on. Raises InputError."""
    options.refuse_empty(**option)
    ((name, given),) = option.items()
    if given is None:
        return None
    file = Path(given)
    if file.is_dir():
        raise InputError(f"{file} is a folder; give the name of a file in it", key=f"--{name}")
    if file.suffix in _NOT_OURS and file.exists():
        raise InputError(f"{file} exists and is no file that this option writes; name another one", key=f"--{name}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(file, error) from None
    return file


def write(file: Path, text: str, mode: Literal["w", "a"] = "w") -> None:
    """Write or append. Raises InputError."""
    try:
        with file.open(mode, encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise unwritable(file, error) from None


def tell_tests(command: str, total: int, judged: Iterable[Result], outputs: Outputs) -> int:
    """Print the verdicts of tests as TAP while they come, and write them. The command's exit status."""
    from l4slab.tools.kerneltests import tap

    print(tap.heading(total), flush=True)
    results = []
    for result in judged:
        results.append(result)
        print(tap.lines(len(results), result), flush=True)
    print(f"# {tap.count(results)}", flush=True)
    outputs.write(lambda: _of_tests(command, tap.count(results), results))
    return int(any(one.status == "fail" for one in results))


def _of_tests(command: str, counts: str, results: Sequence[Result]) -> Outcome:
    """Of tests, each with its repetitions."""
    verdicts = [
        Verdict(
            one.test.name,
            "\n".join(one.details()) or one.why,
            "skipped" if one.status == "skip" else one.status,
            one.test.group,
            measured=one.why,
        )
        for one in results
    ]
    return Outcome(command, counts, verdicts)


def junit(outcome: Outcome) -> str:
    """JUnit XML: a test suite per group, a test case per verdict."""
    groups: dict[str, list[Verdict]] = {}
    for one in outcome.verdicts:
        groups.setdefault(one.group or outcome.command, []).append(one)
    root = ElementTree.Element("testsuites", _counts(outcome.command, outcome.verdicts))
    for group, verdicts in groups.items():
        suite = ElementTree.SubElement(root, "testsuite", _counts(group, verdicts))
        for one in verdicts:
            case = ElementTree.SubElement(suite, "testcase", {"classname": _xml(group), "name": _xml(one.id)})
            if one.status != "pass":
                tag = {"fail": "failure", "error": "error"}.get(one.status, "skipped")
                child = ElementTree.SubElement(case, tag, {"message": _xml(_found(one) or one.says)})
                child.text = _xml(one.says)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _counts(name: str, verdicts: Sequence[Verdict]) -> dict[str, str]:
    statuses = [one.status for one in verdicts]
    return {
        "name": _xml(name),
        "tests": str(len(verdicts)),
        "failures": str(statuses.count("fail")),
        "errors": str(statuses.count("error")),
        "skipped": str(statuses.count("undecided") + statuses.count("skipped")),
    }


def _found(one: Verdict) -> str:
    """The details of a test case. Its name stays the same in every run."""
    parts = [f"measured {one.measured}" if one.measured and one.expected else one.measured]
    parts += [f"expected {one.expected}"] if one.expected else []
    parts += [one.where]
    return "; ".join(filter(None, parts))


def _xml(text: str) -> str:
    """Without the characters that XML 1.0 has not got."""
    return re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\N{REPLACEMENT CHARACTER}", text)


def summary(outcome: Outcome) -> str:
    """The outcome as Markdown: verdicts, the worst numbers, small tables."""
    counted = [f"{count} {word}" for status, word in _WORDS.items() if (count := outcome.count(status))]
    parts = [f"## {_markdown(outcome.command)}", _markdown(outcome.line)]
    parts += [f"Verdicts: {', '.join(counted)}."] if counted else []
    bad = [one for one in outcome.verdicts if one.status in ("fail", "error")]
    headings = ("verdict", "id", "statement", "measured", "expected", "where")
    if bad:
        parts.append(_table(Table("Not passed", headings, [_row(one) for one in bad])))
    worst = outcome.worst or _furthest(outcome.verdicts)
    if worst:
        parts.append(_table(Table("The worst numbers", ("number", "measured", "expected", "where"), worst[:_WORST])))
    parts += [_table(table) for table in outcome.tables if table.rows]
    if outcome.verdicts:
        every = _table(Table("", headings, [_row(one) for one in outcome.verdicts]))
        parts.append(f"<details><summary>All verdicts</summary>\n\n{every}\n\n</details>")
    parts += [f"Report: {_markdown(outcome.report)}"] if outcome.report else []
    return "\n\n".join(parts) + "\n\n"


def _row(one: Verdict) -> tuple[str, ...]:
    return _WORDS[one.status], one.id, one.says, one.measured, one.expected, _place(one)


def _place(one: Verdict) -> str:
    return ", ".join(filter(None, (one.group, one.where)))


def _furthest(verdicts: Sequence[Verdict]) -> list[tuple[str, str, str, str]]:
    """The numbers that are furthest beyond their bounds, or nearest to them."""
    ordered = sorted((-one.excess, number) for number, one in enumerate(verdicts) if one.excess is not None)
    found = [verdicts[number] for _, number in ordered]
    return [(one.id, one.measured, one.expected, _place(one)) for one in found]


def _table(table: Table) -> str:
    lines = [f"### {_markdown(table.title)}", ""] if table.title else []
    rows = (table.headings, ["---"] * len(table.headings), *table.rows[:_ROWS])
    lines += ["| " + " | ".join(map(_markdown, row)) + " |" for row in rows]
    if more := len(table.rows) - _ROWS:
        lines += ["", f"{more} more rows are not shown."] if more > 0 else []
    return "\n".join(lines)


def _markdown(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return re.sub(r"([\\`*|<>\[\]])", r"\\\1", " ".join(text.split()))


def badge(label: str, message: str, color: str, is_error: bool = False) -> str:
    """The JSON that shields.io's endpoint badge takes."""
    document = {"schemaVersion": 1, "label": label, "message": message, "color": color, "isError": is_error}
    return json.dumps(document, ensure_ascii=False) + "\n"
