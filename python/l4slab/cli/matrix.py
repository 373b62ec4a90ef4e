"""`l4slab matrix`, and `l4slab stacks prove`, which is its smallest part."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from l4slab.base import tabular
from l4slab.base.errors import InputError
from l4slab.base.numbers import counted
from l4slab.base.tabular import Column
from l4slab.base.values import Keys
from l4slab.cli import options, terminal, verdicts
from l4slab.cli.verdicts import Outcome, Outputs, Verdict
from l4slab.engines.registry import KERNEL

if TYPE_CHECKING:
    from l4slab.results.differences import Change, Differences
    from l4slab.results.regressions import Judged
    from l4slab.tools.matrix import Asked, Cell, Matrix, Proof
    from l4slab.tools.matrix.page import Moved

_ENGINE = click.option(
    "--engine", default=KERNEL, show_default=True, metavar="E", shell_complete=options.engine_names,
    help=f"The kernel that runs it, such as {KERNEL}:NAME.",
)  # fmt: skip


@click.command()
@click.argument("stacks", nargs=-1, metavar="[STACK[:CC]]...", shell_complete=options.stack_names)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="QDISC",
    shell_complete=options.qdisc_names,
    help="A queue; default: pfifo and dualpi2.",
)
@click.option(
    "--against",
    "rivals",
    multiple=True,
    metavar="CC",
    help="A rival: alone, itself, a CC, or STACK:CC; default: alone, cubic.",
)
@click.option(
    "--rate",
    "rates",
    multiple=True,
    default=["20Mbit"],
    metavar="RATE",
    help="Rate of the link; may be repeated; default: 20Mbit.",
)
@click.option(
    "--rtt",
    "rtts",
    multiple=True,
    default=["20ms"],
    metavar="TIME",
    help="Base round trip of both flows; may be repeated; default: 20ms.",
)
@click.option("--duration", default="20s", show_default=True, metavar="TIME", help="Length of a run.")
@click.option("--warmup", default="5s", show_default=True, metavar="TIME", help="Not measured at the beginning.")
@click.option("--trials", default=1, show_default=True, type=click.IntRange(1, 1000), metavar="N", help="Trials.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), metavar="N", help="Seed of the trials.")
@click.option("--qlog", is_flag=True, help="Let stacks write their qlog, for window, RTT and state in the results.")
@click.option("--bytes", "size", metavar="SIZE", help="Also time a transfer of this size in each cell.")
@click.option("--out", default="results/matrix", show_default=True, metavar="DIR", help="Folder for the results.")
@click.option("--baseline", metavar="DIR", type=click.Path(), help="Show what changed from this matrix.")
@click.option("--fail-on", metavar="LIMITS", help="With --baseline: fail on these changes, as compare does.")
@_ENGINE
@options.workers
@verdicts.with_outputs
@options.dry_run
@options.as_json
def matrix(
    stacks: tuple[str, ...],
    queues: tuple[str, ...],
    rivals: tuple[str, ...],
    rates: tuple[str, ...],
    rtts: tuple[str, ...],
    duration: str,
    warmup: str,
    trials: int,
    seed: int,
    qlog: bool,
    size: str | None,
    out: str,
    baseline: str | None,
    fail_on: str | None,
    engine: str,
    workers: int | None,
    outputs: Outputs,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Compare transport stacks: each controller, in each queue, alone and against each rival.

    Without STACK, every stack that is built takes part (l4slab list stacks). After an interruption the same command
    resumes. The page is DIR/matrix.html.
    """
    from l4slab.tools import matrix as tool

    options.refuse_empty(out=out, baseline=baseline, fail_on=fail_on)
    if "://" in out:
        raise InputError("is a URL, and the matrix writes a folder; give one of this machine", key=f"--out {out}")
    if fail_on is not None and baseline is None:
        raise click.UsageError("--fail-on needs --baseline; give the folder to compare with")
    _require(baseline, fail_on)
    one = tool.Asked(
        tool.rows(stacks), list(dict.fromkeys(queues)), list(dict.fromkeys(rivals)) or [tool.ALONE, "cubic"],
        duration=duration, warmup=warmup, trials=trials, seed=seed, qlog=qlog, bytes=size,
    )  # fmt: skip
    asked = tool.on_paths(one, rates, rtts)
    if dry_run:
        return _dry_run(asked, engine, out, as_json)
    found = tool.run(asked, out, engine, workers, terminal.progress())
    differences, judged = _compared(baseline, out, fail_on)
    command = _command(asked, stacks, queues, out)
    page = _written(found, out, command, engine, differences, judged)
    is_worse = differences is not None and any(one.worse for one in differences.verdicts)
    status = 1 if not found.is_whole or is_worse or any(one.fails for one in judged) else 0
    outputs.write(lambda: outcome(command, found, differences, judged))
    if as_json:
        terminal.as_json(_document(found, page) | {"exit_status": status})
        return status
    _show(found)
    if differences is not None:
        from l4slab.cli import outcomes

        outcomes.show(differences, judged, status)
    terminal.say(f"Page: {page}")
    terminal.say(f"{_line(found)} (exit status {status})")
    return status


@click.command()
@click.argument("stacks", nargs=-1, metavar="[STACK[:CC]]...", shell_complete=options.stack_names)
@click.option("--out", default="results/prove", show_default=True, metavar="DIR", help="Folder for the results.")
@_ENGINE
@options.workers
@options.as_json
def prove(stacks: tuple[str, ...], out: str, engine: str, workers: int | None, as_json: bool) -> int:
    """Check the runners of stacks: alone in a FIFO, each has to fill the link with full packets."""
    from l4slab.tools import matrix as tool

    options.refuse_empty(out=out)
    asked = tool.Asked(tool.rows(stacks), [tool.fifo("20Mbit", "20ms")], [tool.ALONE], duration="10s", qlog=True)
    found = tool.run([asked], out, engine, workers, terminal.progress())
    status = 0 if found.is_whole else 1
    if as_json:
        terminal.as_json({"proofs": [asdict(proof) for proof in found.proofs], "exit_status": status})
        return status
    _show_proofs(found.proofs)
    terminal.say(f"{_line(found)} (exit status {status})")
    return status


def _dry_run(asked: Sequence[Asked], engine: str, out: str, as_json: bool) -> int:
    from l4slab.api import campaign
    from l4slab.cli import summary
    from l4slab.tools import matrix as tool

    files = [file for one in asked for file in tool.experiments(one)]
    summary.show_plans(campaign.plan(files, engine), engine, out, as_json)
    return 0


def _command(asked: Sequence[Asked], stacks: tuple[str, ...], queues: tuple[str, ...], out: str) -> str:
    one = asked[0]
    words = ["l4slab", "matrix", *(stacks or [f"{row.given}:{row.cc}" for row in one.rows])]
    rates, rtts = (list(dict.fromkeys(getattr(path, name) for path in asked)) for name in ("rate", "rtt"))
    for option, values in (("--queue", queues), ("--against", one.against), ("--rate", rates), ("--rtt", rtts)):
        words += [word for value in values for word in (option, value)]
    for name in ("duration", "warmup", "trials", "seed", "bytes"):
        if (value := getattr(one, name)) is not None:
            words += [f"--{name}", str(value)]
    return shlex.join([*words, *(["--qlog"] if one.qlog else []), "--out", out])


def _require(baseline: str | None, fail_on: str | None) -> None:
    """Refuse a baseline or limits that the comparison after the runs could not use."""
    from l4slab.results import differences, regressions

    if baseline is not None:
        differences.read(baseline, "flows")
    if fail_on is not None:
        regressions.limits(fail_on)


def _compared(baseline: str | None, out: str, fail_on: str | None) -> tuple[Differences | None, list[Judged]]:
    if baseline is None:
        return None, []
    from l4slab.results import differences, regressions

    judged = regressions.judge(baseline, out, regressions.limits(fail_on)) if fail_on is not None else []
    return differences.compare(baseline, out), judged


def _written(
    found: Matrix, out: str, command: str, engine: str, differences: Differences | None, judged: list[Judged]
) -> Path:
    from l4slab.tools.matrix import page

    changes: dict[str, list[Moved]] = {}
    if differences is not None:
        changes["Beyond the limits"] = [_moved(one.change) for one in judged if one.fails]
        changes["Moved beyond the spread of the trials"] = [_moved(one) for one in differences.moved]
        changes["Different, with too few trials to distinguish from noise"] = [
            _moved(one) for one in differences.different
        ]
        if not judged:
            del changes["Beyond the limits"]
    return page.write(found, Path(out), command, engine, changes)


def _moved(change: Change) -> Moved:
    from l4slab.base.numbers import number
    from l4slab.tools import matrix as tool

    other = [] if change.experiment == tool.NAME else [change.experiment]
    return {
        "cell": ", ".join(str(level) for level in [*other, *change.factors.values()]),
        "place": change.place,
        "quantity": change.quantity,
        "before": number(change.mean_before),
        "after": number(change.mean_after) if change.after else "no value",
    }


def _show(found: Matrix) -> None:
    _show_proofs(found.proofs)
    terminal.say("")
    cells = found.cells
    columns = [
        Column("stack", [cell.row for cell in cells], weight=9, stays=True),
        *([Column("path", [cell.path for cell in cells], weight=8, stays=True)] if len(found.asked) > 1 else []),
        Column("queue", [cell.queue for cell in cells], weight=8, stays=True),
        Column("against", [cell.against for cell in cells], weight=8, stays=True),
        Column("goodput\nMb/s", [tabular.cell(cell.goodput_mbps) for cell in cells], True, 6),
        Column("share\n", [tabular.cell(cell.share) for cell in cells], True, 7, stays=True),
        Column("delay\nms", [tabular.cell(cell.sojourn_ms_mean) for cell in cells], True, 6),
        Column("CE\n%", [tabular.cell(cell.ce_pct) for cell in cells], True, 3),
        Column("drop\n%", [tabular.cell(cell.drop_pct) for cell in cells], True, 4),
        *([] if found.asked[0].bytes is None else [_completion(cells)]),
        Column("state", [cell.state for cell in cells], weight=9, stays=True),
        Column("why", [cell.why for cell in cells], weight=2, folds=True),
    ]
    terminal.show("Cells", columns, ["" if cell.state == "measured" else "red" for cell in cells], "; --json has all")
    terminal.say("")


def _completion(cells: Sequence[Cell]) -> Column:
    return Column("completion\nms", [tabular.cell(cell.completion_ms) for cell in cells], True, 7)


def _show_proofs(proofs: Sequence[Proof]) -> None:
    has_paths = len({proof.path for proof in proofs}) > 1
    columns = [
        Column("stack", [proof.row for proof in proofs], weight=9, stays=True),
        *([Column("path", [proof.path for proof in proofs], weight=8, stays=True)] if has_paths else []),
        Column("verdict", [proof.verdict for proof in proofs], weight=9, stays=True),
        Column("because", [proof.why for proof in proofs], weight=5, folds=True),
    ]
    styles = ["" if proof.verdict == "proven" else "red" for proof in proofs]
    terminal.show("Runners, each alone in a FIFO", columns, styles, "; --json has all")


def _line(found: Matrix) -> str:
    proven = sum(proof.verdict == "proven" for proof in found.proofs)
    measured = sum(cell.state == "measured" for cell in found.cells)
    line = f"{proven} of {len(found.proofs)} runners are proven; {measured} of {len(found.cells)} cells are measured"
    return f"{line}; {counted(len(found.failures), 'run')} failed" if found.failures else line


def _document(found: Matrix, page: Path) -> Keys:
    return {
        "proofs": [asdict(proof) for proof in found.proofs],
        "cells": [asdict(cell) | {"file": f"cells/{cell.name}.toml"} for cell in found.cells],
        "failures": list(found.failures),
        "page": str(page),
        "report": found.results.report,
    }


def outcome(command: str, found: Matrix, differences: Differences | None, judged: list[Judged]) -> Outcome:
    """The report for CI: a verdict per runner, per failed run and per comparison."""
    told = [
        Verdict(
            f"runner {proof.row}", "alone in a FIFO it fills the link with full packets",
            "pass" if proof.verdict == "proven" else "fail", "runners", measured=proof.why,
        )
        for proof in found.proofs
    ]  # fmt: skip
    told += [Verdict("run", "the run ends", "error", "runs", measured=text) for text in found.failures]
    if differences is not None:
        from l4slab.cli import outcomes

        told += outcomes.outcome(command, differences, judged).verdicts
    return Outcome(command, _line(found), told, report=found.results.report)
