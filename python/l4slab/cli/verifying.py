"""`l4slab verify`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from l4slab.base.numbers import counted
from l4slab.cli import options, terminal

if TYPE_CHECKING:
    from l4slab.tools.verify import Verified

# Findings that are printed; --json has them all.
_SHOWN = 20


@click.command()
@click.argument("place", metavar="DIR|REPORT", type=click.Path())
@click.option(
    "--runs",
    "count",
    type=click.IntRange(min=0),
    metavar="N",
    help="Recompute N runs, chosen at random; default: 5 of a folder, all of a report alone.",
)
@click.option("--all", "every", is_flag=True, help="Recompute every run.")
@options.workers
@options.as_json
def verify(place: str, count: int | None, every: bool, workers: int | None, as_json: bool) -> int:
    """Recompute runs of a report and compare: its tables, texts, figures, verdicts and files.

    DIR is a results folder, REPORT a report.html alone. The exit status is 0 if everything is as computed, 1 if
    something was altered, and 2 if the input is wrong or another build of l4slab wrote it and something differs.
    """
    from l4slab.tools import verify as tool

    if every and count is not None:
        raise click.UsageError("--runs and --all exclude each other; give one")
    found = tool.verify(place, count, every, workers, terminal.progress())
    if as_json:
        sure = tool.surely_found(found.runs, len(found.again)) if found.again else None
        terminal.as_json(asdict(found) | {"surely_found": sure, "exit_status": found.status})
    else:
        _show(found)
    return found.status


def _show(found: Verified) -> None:
    if found.other_build is not None:
        terminal.say(f"{found.place}: {found.other_build}.")
    for one in found.findings[:_SHOWN]:
        terminal.say(str(one))
    if (more := len(found.findings) - _SHOWN) > 0:
        terminal.say(f"... and {more} more; --json has all.")
    for note in found.notes:
        terminal.say(note)
    for sentence in sentences(found):
        terminal.say(sentence)


def sentences(found: Verified) -> list[str]:
    """What was proven, and how surely."""
    from l4slab.tools import verify as tool

    again, runs = len(found.again), found.runs
    told = []
    if found.findings:
        differ = f"{counted(len(found.findings), 'place')} differ{'s' * (len(found.findings) == 1)}"
        told.append(
            f"Altered: {differ}, first in {found.findings[0].file}."
            if found.other_build is None
            else f"Not decided: {differ}, which may be due to the version."
        )
        return told
    how = "identical" if found.is_exact else "within the intervals of their trials"
    told.append(f"Verified: {again} of {counted(runs, 'run')} recomputed, {how}." if again else "No run recomputed.")
    if found.is_whole:
        told.append("Every table, verdict, text and figure is what the stored runs give.")
    else:
        told.append(
            "The other runs are not stored, so texts and figures, which are about all runs, were not compared; give "
            "the whole folder, or --all."
        )
    if 0 < again < runs and (sure := tool.surely_found(runs, again)) is not None:
        chances = [(number, tool.found_by_chance(runs, again, number)) for number in (1, max(1, round(runs / 10)))]
        words = ", ".join(f"{number} with {chance:.0%}" for number, chance in dict(chances).items() if number < sure)
        least = f"{sure} or more altered runs would have been found with at least {tool.SURE:.0%} probability"
        told.append(f"{least}{f'; {words}' if words else ''}.")
    return told
