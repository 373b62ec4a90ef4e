"""`l4slab compare` and `l4slab export`."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from l4slab.base import tabular
from l4slab.base.errors import InputError
from l4slab.base.numbers import counted
from l4slab.base.tabular import Column
from l4slab.base.values import Keys, Value
from l4slab.cli import options, terminal, verdicts
from l4slab.cli.verdicts import Outcome, Outputs, Verdict

if TYPE_CHECKING:
    from l4slab.results.differences import Change, Differences
    from l4slab.results.regressions import Judged


@click.command()
@click.argument("before", metavar="DIR", type=click.Path())
@click.argument("after", metavar="DIR", type=click.Path())
@click.option("--fail-on", metavar="LIMITS", help='Fail on these changes, such as "share -5%, sojourn_ms_p99 +10%".')
@verdicts.with_outputs
@options.as_json
def compare(before: str, after: str, fail_on: str | None, outputs: Outputs, as_json: bool) -> int:
    """Show what changed from the results in the first DIR to those in the second.

    A quantity has moved if the ranges over the trials do not overlap. The exit status is 1 if a claim came out as
    expected in the first DIR and not in the second, or if a quantity changed beyond its --fail-on and beyond chance.
    """
    from l4slab.results import differences, regressions

    for folder in (before, after):
        _refuse_url(folder, "compare")
    options.refuse_empty(fail_on=fail_on)
    asked = regressions.limits(fail_on) if fail_on is not None else []
    found = differences.compare(before, after)
    judged = regressions.judge(before, after, asked) if asked else []
    status = 1 if any(verdict.worse for verdict in found.verdicts) or any(one.fails for one in judged) else 0
    outputs.write(lambda: outcome(f"l4slab compare {before} {after}", found, judged))
    if as_json:
        terminal.as_json(_document(found, judged) | {"exit_status": status})
    else:
        show(found, judged, status)
    return status


def _refuse_url(folder: str, command: str) -> None:
    if "://" in folder:
        raise InputError(
            f"is a URL, and {command} reads folders; copy the .parquet files into a folder first", file=folder
        )


def _document(found: Differences, judged: list[Judged]) -> Keys:
    def changes(of_them: list[Change]) -> list[Value]:
        return [
            asdict(change)
            | {"mean_before": change.mean_before, "mean_after": change.mean_after, "relative": change.relative}
            for change in of_them
        ]

    limits = [
        asdict(one.change) | {"limit": str(one.limit), "decidable": one.is_decidable, "fails": one.fails}
        for one in judged
    ]
    return asdict(found) | {
        "moved": changes(found.moved), "different": changes(found.different), "limits": limits,
    }  # fmt: skip


def show(found: Differences, judged: list[Judged], status: int) -> None:
    """Show the changes on the terminal."""
    _show_changes("Moved beyond the spread of the trials", found.moved)
    _show_changes("Different, with too few trials to distinguish from noise", found.different)
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
            f"{few} quantities differ, with too few trials to distinguish this from noise; four per folder are enough."
        )
    if not found.compared:
        terminal.say("The folders have no cell in common: nothing to compare.")
    if judged:
        _show_limits(judged)
    terminal.say(f"{_line(found, judged)} (exit status {status})")


def _line(found: Differences, judged: list[Judged]) -> str:
    worse = sum(verdict.worse for verdict in found.verdicts)
    changed, claims = counted(len(found.verdicts), "verdict"), counted(worse, "claim")
    line = f"{changed} changed; {claims} no longer as expected"
    if not judged:
        return line
    failed = sum(one.fails for one in judged)
    return f"{line}; {failed} of {counted(len(judged), 'quantity', 'quantities')} failed"


def _show_limits(judged: list[Judged]) -> None:
    from l4slab.results import regressions

    failed = [one for one in judged if one.fails]
    shown = failed[: tabular.ROWS_SHOWN]
    columns = [
        Column("cell", [one.cell for one in shown], weight=7, folds=True),
        Column("where", [one.change.place for one in shown], weight=8, stays=True),
        Column("limit", [str(one.limit) for one in shown], weight=9, stays=True),
        Column("before", [tabular.cell(one.change.mean_before) for one in shown], True, 9, stays=True),
        Column("after", [_after(one) for one in shown], True, 9, stays=True),
        Column("change\n%", [_percent(one.change) for one in shown], True, 5, stays=True),
        Column("p", [_p(one) for one in shown], True, 3, stays=True),
    ]
    if shown:
        terminal.show("Failed: changed beyond the limit and beyond chance", columns)
    if len(failed) > len(shown):
        terminal.say(f"... {len(failed) - len(shown)} more; --json has all")
    if few := sum(not one.is_decidable and bool(one.change.after) for one in judged):
        terminal.say(f"{counted(few, 'quantity has', 'quantities have')} too few trials to fail.")
    tested = [one for one in judged if one.change.after]
    trials = min((len(side) for one in tested for side in (one.change.before, one.change.after)), default=0)
    least = regressions.shows_from(trials, len(tested)) if trials else math.inf
    if math.isfinite(least):
        text = f"With {trials} trials, a change of {least:.1f} standard deviations of a trial is found in 95 of 100"
        enough = regressions.trials_for(len(tested))
        more = f"; one of {regressions.SPREADS:g} needs trials = {enough}" if trials < enough else ""
        terminal.say(f"{text}{more}. A change by chance fails in 1 of 100 at most.")


def _after(one: Judged) -> str:
    return tabular.cell(one.change.mean_after) if one.change.after else "no value"


def _p(one: Judged) -> str:
    return f"{one.change.chance:.2g}" if one.change.after else ""


def outcome(command: str, found: Differences, judged: list[Judged]) -> Outcome:
    """The report for CI: a verdict per limit and cell, and per claim that changed."""
    told = [_judged(one) for one in judged]
    told += [
        Verdict(
            one.id, one.says, "fail" if one.worse else "pass", one.experiment, "",
            one.after or "not there", f"{one.before or 'not there'}, as before",
        )
        for one in found.verdicts
    ]  # fmt: skip
    if not any(one.worse for one in found.verdicts):
        told.append(Verdict("claims", "Every claim that came out as expected still does", "pass"))
    moved = [
        [
            ", ".join([one.experiment, *(f"{name} {level}" for name, level in one.factors.items())]), one.place,
            one.quantity, tabular.cell(one.mean_before), tabular.cell(one.mean_after), _percent(one),
        ]
        for one in found.moved
    ]  # fmt: skip
    headings = ("cell", "where", "quantity", "before", "after", "change %")
    tables = (verdicts.Table("Moved beyond the spread of the trials", headings, moved),)
    return Outcome(command, _line(found, judged), told, tables=tables)


def _judged(one: Judged) -> Verdict:
    change, limit = one.change, one.limit
    percent = f" ({_percent(change)} %)" if change.after and change.mean_before else ""
    measured = f"{tabular.cell(change.mean_before)} → {_after(one)}{percent}"
    measured += f", p = {_p(one)}" if change.after else ""
    excess = None
    accepted = limit.amount * (abs(change.mean_before) if limit.is_relative else 1)
    if change.after and accepted:
        difference = change.mean_after - change.mean_before
        excess = (limit.sign * difference if limit.sign else abs(difference)) / accepted - 1
    status: verdicts.Status = "fail" if one.fails else "pass" if one.is_decidable else "undecided"
    name = f"{one.cell}, {change.place}: {limit}"
    says = "No change beyond the limit that is beyond chance"
    return Verdict(name, says, status, change.experiment, "", measured, str(limit), excess)


def _percent(change: Change) -> str:
    if not change.mean_before or not change.after:
        return ""
    return f"{100 * (change.mean_after / change.mean_before - 1):+.1f}"


def _show_changes(title: str, changes: list[Change]) -> None:
    if not changes:
        return
    shown = changes[: tabular.ROWS_SHOWN]
    factors = list(dict.fromkeys(name for change in changes for name in change.factors))
    columns = [
        Column("experiment", [change.experiment for change in shown], weight=6),
        *(
            Column(heading, [tabular.cell(change.factors.get(name)) for change in shown], weight=7)
            for name, heading in zip(factors, tabular.short(factors), strict=True)
        ),
        Column("where", [change.place for change in shown], weight=8),
        Column("quantity", [change.quantity for change in shown], weight=9, stays=True),
        Column("before", [tabular.cell(change.mean_before) for change in shown], True, 9, stays=True),
        Column("after", [tabular.cell(change.mean_after) for change in shown], True, 9, stays=True),
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
@click.option("--json", is_flag=True, help="Tables as JSON, each a list of rows.")
@click.option("--flent", is_flag=True, help="Runs as data files of flent, for flent-gui.")
@click.option("--qlog", is_flag=True, help="Captured TCP connections as qlog, for qvis.")
@click.option("--run", metavar="RUN", help="With --qlog: only this run; its first digits suffice.")
@click.option("--flow", metavar="NAME", help="With --qlog: only this flow.")
@click.option("--to", metavar="DIR", type=click.Path(path_type=Path), help="Target folder; default: DIR/export/FORMAT.")
def export(folder: str, run: str | None, flow: str | None, to: Path | None, **chosen: bool) -> int:
    """Write the results in DIR for other programs, and print the names of the files."""
    from l4slab.results.export import FORMS
    from l4slab.results.export import export as write

    _refuse_url(folder, "export")
    forms = [form for form in FORMS if chosen[form]] or ["csv"]
    if forms != ["qlog"] and (run, flow) != (None, None):
        raise click.UsageError("--run and --flow select connections; give --qlog with them, and no other format")
    for form in forms:
        for path in write(folder, form, to, run, flow):
            click.echo(path)
    return 0
