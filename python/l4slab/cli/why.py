"""`l4slab why`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from l4slab.base import tabular
from l4slab.base.tabular import Column
from l4slab.cli import options, terminal

if TYPE_CHECKING:
    from l4slab.tools.why import Answer
    from l4slab.tools.why.explaining import Candidate
    from l4slab.tools.why.states import State

# Rows of the tables, and states that are drawn.
_ROWS, _DRAWN = 8, 2


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option("--out", metavar="DIR", help="Folder for why.toml and why.json; default: results/why.")
@click.option("--trials", type=int, metavar="N", help="Trials of A and B; default: 8, or 5 on a kernel.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Another value than that of the file.")
@options.workers
@options.as_json
def why(
    a: str,
    b: str,
    file: Path | None,
    out: str | None,
    trials: int | None,
    changes: tuple[str, ...],
    workers: int | None,
    as_json: bool,
) -> int:
    """Find out why A and B differ: which feature of the model makes them equal.

    A and B are experiment files, results folders, engines (sim, linux, linux:NAME) that run FILE, or STACK:CC and
    kernel:CC. Exit status 0: they do not differ, or a cause is found; 1: they differ, and nothing explains it.
    """
    from l4slab.base.progress import working
    from l4slab.experimentfile.changed import value_of
    from l4slab.tools import why as asking

    options.refuse_empty(out=out)
    if trials is not None and trials < 1:
        raise click.UsageError(f"--trials {trials} is not possible; give 1 or more")
    given = dict(options.setting(change, "--set", "flow.a.rtt=20ms") for change in changes)
    with working(terminal.progress()) as told:
        settings = {key: value_of(text) for key, text in given.items()}
        found = asking.why(a, b, file, settings, trials, workers, told)
    folder = Path(out or "results/why")
    written = asking.write(found, folder)
    if as_json:
        terminal.as_json(asking.as_json(found) | {"file": written and str(written), "exit_status": found.status})
        return found.status
    _show(found)
    if written is not None:
        terminal.say(f"{written} shows it: l4slab run {written}")
    return found.status


def _show(found: Answer) -> None:
    if found.differing:
        _show_differences(found)
        for state in found.first[:_DRAWN]:
            _draw(state)
        if found.explanation is not None and found.explanation.candidates:
            _show_candidates(found.explanation.candidates[:_ROWS])
            terminal.say(f"{found.explanation.tried} models were tried, in {found.runs} runs.")
    terminal.say(found.sentence)


def _show_differences(found: Answer) -> None:
    from l4slab.tools.why.quantities import mean

    rows = found.differing[:_ROWS]
    columns = [
        Column("where", [one.key[0] for one in rows], weight=8, stays=True),
        Column("quantity", [one.key[1] for one in rows], weight=9, stays=True),
        Column("A", [tabular.cell(mean(one.a)) for one in rows], True, 9, stays=True),
        Column("B", [tabular.cell(mean(one.b)) for one in rows], True, 9, stays=True),
        Column("p", [f"{one.p:.2g}" for one in rows], True, 3, stays=True),
    ]
    title = f"A ({found.a.name}) and B ({found.b.name}) differ beyond chance"
    terminal.show(title, columns)
    terminal.say(f"{len(found.differing)} of {found.compared} quantities differ.")
    terminal.say("")


def _draw(state: State) -> None:
    from l4slab.base.metrics import unit_of

    a, b = (f"{tabular.cell(one)} {unit_of(state.name)}".strip() for one in state.at)
    terminal.say(f"{state.name} of {state.flow} differs first at {state.time_s:g} s: A {a}, B {b}")
    for name, line in zip(("A", "B", " "), state.drawn(), strict=True):
        terminal.say(f"  {name} {line}")
    terminal.say("")


def _show_candidates(rows: Sequence[Candidate]) -> None:
    columns = [
        Column("switch", [one.name for one in rows], weight=9, stays=True),
        Column("explains\n%", [f"{100 * one.explained:.0f}" for one in rows], True, 9, stays=True),
        Column("from\n%", [f"{100 * one.low:.0f}" if one.is_judged else "" for one in rows], True, 8),
        Column("to\n%", [f"{100 * one.high:.0f}" if one.is_judged else "" for one in rows], True, 8),
        Column("left", [str(len(one.left)) if one.is_judged else "" for one in rows], True, 8),
        Column("law", [one.parts[-1].switch.law for one in rows], weight=3, folds=True),
    ]
    terminal.show("What makes A like B", columns)
