"""`l4slab conform`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from l4slab.base.tabular import Column
from l4slab.cli import options, terminal, verdicts
from l4slab.cli.verdicts import Outcome, Outputs, Verdict

if TYPE_CHECKING:
    from l4slab.tools.conform import Answer, Judged, Number


@click.command()
@click.argument("cc", metavar="CANDIDATE")
@click.option("--reference", metavar="CC", help="The congestion control that it is to be; default: that of its name.")
@click.option("--option", "given", multiple=True, metavar="NAME=VALUE", help="An option of the candidate.")
@click.option("--out", metavar="DIR", help="Folder for conform.json; default: results/conform.")
@click.option("--trials", type=int, metavar="N", help="Trials of each side on each path; default: 8, or 5 on a kernel.")
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="N", help="Seed of the candidate's first trial."
)
@options.workers
@verdicts.with_outputs
@options.as_json
def conform(
    cc: str,
    reference: str | None,
    given: tuple[str, ...],
    out: str | None,
    trials: int | None,
    seed: int,
    workers: int | None,
    outputs: Outputs,
    as_json: bool,
) -> int:
    """Judge whether a congestion control is the one whose name it has: conformant, but for X, or not.

    CANDIDATE is STACK:CC (quinn:cubic), kernel:CC, linux:NAME:CC for a kernel of your own, a custom controller
    (mine.py:Mine, ./libmine.so), or one of the simulator (cubic). The first three are compared with the kernel's, the
    others with the simulator's. Exit status 0: conformant; 1: not, or only but for something.
    """
    from l4slab.base.progress import working
    from l4slab.tools import conform as judging

    options.refuse_empty(out=out, reference=reference)
    if trials is not None and trials < 1:
        raise click.UsageError(f"--trials {trials} is not possible; give 1 or more")
    settings = dict(options.setting(text) for text in given)
    with working(terminal.progress()) as told:
        found = judging.conform(cc, reference, settings, trials, seed, workers, told)
    written = judging.write(found, Path(out or "results/conform"))
    outputs.write(lambda: outcome(f"l4slab conform {cc}", found))
    if as_json:
        terminal.as_json(judging.as_json(found) | {"file": str(written), "exit_status": found.status})
        return found.status
    _show(found)
    return found.status


def _show(found: Answer) -> None:
    if found.proof is not None:
        terminal.say(f"runner: {found.proof.verdict}; {found.proof.why}")
    if found.judged is not None:
        rows = found.judged.numbers
        columns = [
            Column("number of the law", [one.name for one in rows], weight=9, stays=True),
            Column("candidate", [_range(one.candidate) for one in rows], True, 9, stays=True),
            Column("reference", [_range(one.reference) for one in rows], True, 9, stays=True),
            Column("p", [f"{one.p:.2g}" for one in rows], True, 5),
            Column("document", [_law(one) for one in rows], weight=6),
            Column("", ["differs" if one.differs else "" for one in rows], weight=9, stays=True),
        ]
        if rows:
            terminal.show(
                f"{found.candidate.name} and {found.reference.name}",
                columns,
                ["red" if one.differs else "" for one in rows],
            )
        terminal.say(_envelope(found.judged))
        terminal.say(f"{found.runs} runs.")
    terminal.say(f"{found.sentence} (exit status {found.status})")


def _range(values: tuple[float, ...]) -> str:
    return f"{sum(values) / len(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def _law(one: Number) -> str:
    return f"{one.law[0]:.3g} ({one.law[1]})" if one.law else ""


def _envelope(judged: Judged) -> str:
    overlap = judged.overlap
    return (
        f"Envelopes of goodput and delay overlap by {100 * overlap.found:.0f} %; equals overlap by "
        f"{100 * overlap.usual:.0f} %, and by {100 * overlap.least:.0f} % or less in {100 * judged.chance:.2g} % "
        f"of cases (p = {overlap.p:.2g})."
    )


def outcome(command: str, found: Answer) -> Outcome:
    """The report for CI: a verdict per number of the law, one on the envelope, one on the runner, and the answer."""
    from l4slab.tools.conform.laws import LAWS

    told = []
    if found.proof is not None:
        is_proven = found.proof.verdict == "proven"
        says = "alone in a FIFO it fills the link with full packets"
        told.append(Verdict("runner", says, "pass" if is_proven else "fail", "runner", measured=found.proof.why))
    if found.judged is not None:
        told += [
            Verdict(
                one.name, LAWS[one.name].says, "fail" if one.differs else "pass", "law", "",
                _range(one.candidate), _range(one.reference),
            )
            for one in found.judged.numbers
        ]  # fmt: skip
        is_small: verdicts.Status = "fail" if found.judged.overlap.p <= found.judged.chance else "pass"
        says = "goodput and delay lie where the reference's do"
        told.append(Verdict("envelope", says, is_small, "envelope", measured=_envelope(found.judged)))
        status: verdicts.Status = "fail" if found.status else "pass"
        told.append(Verdict("conformant", f"as {found.reference.name}", status, "answer", measured=found.sentence))
    return Outcome(command, found.sentence, told)
