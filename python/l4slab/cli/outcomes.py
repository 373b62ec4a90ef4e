"""What to do with results: `l4slab compare` and `l4slab export`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from l4slab.base.errors import InputError
from l4slab.cli import options, terminal
from l4slab.cli.terminal import Column

if TYPE_CHECKING:
    from l4slab.results.differences import Change, Differences


@click.command()
@click.argument("before", metavar="DIR", type=click.Path())
@click.argument("after", metavar="DIR", type=click.Path())
@options.as_json
def compare(before: str, after: str, as_json: bool) -> int:
    """What changed from the results in the first DIR to those in the second.

    A quantity has moved where the ranges over the trials do not overlap. The exit status is 1 where a claim that came
    out as expected no longer does, else 0.
    """
    from l4slab.results import differences

    for folder in (before, after):
        _refuse_url(folder, "compare")
    found = differences.compare(before, after)
    status = 1 if any(verdict.worse for verdict in found.verdicts) else 0
    if as_json:
        terminal.as_json(_document(found) | {"exit_status": status})
    else:
        _show(found, status)
    return status


def _refuse_url(folder: str, command: str) -> None:
    if "://" in folder:
        raise InputError(
            f"is a URL, and {command} reads folders; copy the .parquet files into a folder first", file=folder
        )


def _document(found: Differences) -> dict[str, Any]:
    def changes(of_them: list[Change]) -> list[dict[str, Any]]:
        return [
            asdict(change)
            | {"mean_before": change.mean_before, "mean_after": change.mean_after, "relative": change.relative}
            for change in of_them
        ]

    return asdict(found) | {"moved": changes(found.moved), "different": changes(found.different)}


def _show(found: Differences, status: int) -> None:
    _show_changes("Moved beyond the spread of the trials", found.moved)
    _show_changes("Different, with too few trials to tell from noise", found.different)
    if found.verdicts:
        columns = [
            Column("before", [verdict.before or "not there" for verdict in found.verdicts], stays=True, weight=9),
            Column("after", [verdict.after or "not there" for verdict in found.verdicts], stays=True, weight=9),
            Column("experiment", [verdict.experiment for verdict in found.verdicts]),
            Column("id", [verdict.id for verdict in found.verdicts], weight=5),
            Column("says", [verdict.says for verdict in found.verdicts], weight=4, folds=True),
        ]
        terminal.show("Verdicts", columns, ["red" if verdict.worse else "" for verdict in found.verdicts])
        terminal.say("")
    for where, cells in (("first", found.only_before), ("second", found.only_after)):
        for cell in cells[:10]:
            terminal.say(f"only in the {where}: {cell}")
        if cells[10:]:
            terminal.say(f"... {len(cells) - 10} more only in the {where}")
    if found.same:
        terminal.say(f"{found.same} of {found.compared} quantities are the same in every trial.")
    if found.judged:
        terminal.say(
            f"{len(found.moved)} of {found.judged} quantities moved beyond the spread of their trials; "
            f"by chance alone at most about {found.by_chance:.1f} would."
        )
    if few := found.compared - found.same - found.judged:
        terminal.say(
            f"{few} quantities differ and have too few trials to tell that from noise; four in each folder are enough."
        )
    if not found.compared:
        terminal.say("The folders have no cell in common: nothing to compare.")
    worse = sum(verdict.worse for verdict in found.verdicts)
    verdicts, claims = _count(len(found.verdicts), "verdict"), _count(worse, "claim")
    terminal.say(f"{verdicts} changed; {claims} no longer as expected (exit status {status})")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _percent(change: Change) -> str:
    if not change.mean_before:
        return ""
    return f"{100 * (change.mean_after / change.mean_before - 1):+.1f}"


def _show_changes(title: str, changes: list[Change]) -> None:
    if not changes:
        return
    shown = changes[: terminal.ROWS_SHOWN]
    factors = list(dict.fromkeys(name for change in changes for name in change.factors))
    columns = [
        Column("experiment", [change.experiment for change in shown], weight=6),
        *(
            Column(heading, [terminal.cell(change.factors.get(name)) for change in shown], weight=7)
            for name, heading in zip(factors, terminal.short(factors), strict=True)
        ),
        Column("where", [change.place for change in shown], weight=8),
        Column("quantity", [change.quantity for change in shown], weight=9, stays=True),
        Column("before", [terminal.cell(change.mean_before) for change in shown], True, 9, stays=True),
        Column("after", [terminal.cell(change.mean_after) for change in shown], True, 9, stays=True),
        Column("change\n%", [_percent(change) for change in shown], True, 3, stays=True),
        Column("trials", [f"{len(change.before)}, {len(change.after)}" for change in shown], True, 1),
    ]
    terminal.show(title, columns)
    if len(changes) > len(shown):
        terminal.say(f"... {len(changes) - len(shown)} more; --json has all")
    terminal.say("")


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--csv", is_flag=True, help="Tables as CSV (the default).")
@click.option("--json", is_flag=True, help="Tables as JSON, a list of rows each.")
@click.option("--flent", is_flag=True, help="Runs as data files of flent, for flent-gui.")
@click.option("--qlog", is_flag=True, help="Captured TCP connections as qlog, for qvis.")
@click.option("--run", metavar="RUN", help="Only this run; its first digits suffice. With --qlog.")
@click.option("--flow", metavar="NAME", help="Only this flow. With --qlog.")
@click.option("--to", metavar="DIR", type=click.Path(path_type=Path), help="Where to; default: DIR/export/FORMAT.")
def export(folder: str, run: str | None, flow: str | None, to: Path | None, **chosen: bool) -> int:
    """Write the results in DIR for other programs, in each of the formats asked for; prints the files' names."""
    from l4slab.results.export import FORMS
    from l4slab.results.export import export as write

    _refuse_url(folder, "export")
    forms = [form for form in FORMS if chosen[form]] or ["csv"]
    if forms != ["qlog"] and (run, flow) != (None, None):
        raise click.UsageError("--run and --flow choose among connections; give --qlog with them, and no other format")
    for form in forms:
        for path in write(folder, form, to, run, flow):
            click.echo(path)
    return 0
