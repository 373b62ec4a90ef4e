"""The results or the plan of a campaign: tables on the terminal, or JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from l4slab.base import tabular
from l4slab.base.numbers import counted
from l4slab.base.values import Keys
from l4slab.cli import terminal
from l4slab.cli.verdicts import Outcome, Status, Table, Verdict

if TYPE_CHECKING:
    from l4slab.api.results import Results
    from l4slab.results.claims import JudgedRow
    from l4slab.sweep import Plan

# Combinations of a file that a dry run looks at: a few seconds.
LOOKED_AT = 20_000


def show_plans(plans: list[Plan], engine: str, out: str | None = None, as_json: bool = False) -> None:
    """The sweeps, their runs that are still to be done in the results folder `out`, and what the machine lacks."""
    from l4slab.api import campaign
    from l4slab.campaign.estimate import estimate

    todo = campaign.left_to_do(plans, out)
    looked_at = sum(len(plan.todo) for plan in plans)
    every = sum(len(plan.todo) * plan.combinations // (plan.tried or plan.combinations) for plan in plans if plan.runs)
    factor = every / looked_at if looked_at else 1.0
    if as_json:
        terminal.as_json(
            {
                "experiments": [_plan(plan) for plan in plans],
                "folder": out,
                "runs_to_do": round(len(todo) * factor),
                "missing": list(map(str, campaign.missing(plans, engine))),
                "estimate": asdict(estimate(todo).times(factor)),
            }
        )
        return
    for plan in plans:
        _show_plan(plan)
    if todo:
        about = "" if factor == 1 else "at most about "
        ends_early = any("precision" in run.description for run in todo)
        expected = estimate(todo).times(factor)
        terminal.say(
            f"{about}{counted(round(len(todo) * factor), 'run')} to do, {'at most ' if ends_early else ''}{expected}."
        )
        if expected.warning is not None:
            terminal.say(expected.warning)
    else:
        terminal.say("All runs are done already.")
    for error in campaign.missing(plans, engine):
        terminal.say(f"This machine cannot run them yet: {error}")


def _plan(plan: Plan) -> Keys:
    return {
        "experiment": plan.experiment.name,
        "title": plan.experiment.title,
        "runs": len(plan.runs) if plan.is_whole else None,
        "combinations": plan.combinations,
        "trials": plan.experiment.trials,
        "factors": {name: [*levels] for name, levels in plan.factors.items()} if not plan.experiment.is_study else {},
        "notes": [*plan.notes()],
    }


def _show_plan(plan: Plan) -> None:
    from l4slab.results.claims import Claim

    experiment = plan.experiment
    if experiment.is_study:
        terminal.say(
            f"{experiment.name}: {counted(len(experiment.tables(Claim)), 'claim')} about the other files, no runs"
        )
        return
    trials = f", {experiment.trials} trials each" if experiment.trials > 1 else ""
    runs = f"{counted(len(plan.runs), 'run')} of " if plan.is_whole else ""
    terminal.say(f"{experiment.name}: {runs}{counted(plan.combinations, 'combination')}{trials}")
    for name, levels in plan.factors.items():
        terminal.say(f"  {name}: {', '.join(map(str, levels))}")
    for note in plan.notes():
        terminal.say(note)


def show_results(results: Results, as_json: bool = False) -> int:
    """The tables of a campaign in short; the exit status."""
    from l4slab.api.campaign import LEFT_OUT
    from l4slab.results import printed
    from l4slab.results.claims import changed

    status = 1 if results.failures or len(changed(results.claims)) else 0
    if as_json:
        terminal.as_json(_results(results) | {"exit_status": status})
        return status
    printed.show(terminal.out(), results)
    for run, reason in results.failures[:10]:
        terminal.err().print(f"l4slab: {run}: the run failed: {reason}", markup=False)
    if more := results.failures[10:]:
        terminal.err().print(f"l4slab: {len(more)} more runs failed")
    for note in results.notes:
        if LEFT_OUT in note:
            terminal.progress().print(note, markup=False)
    tallied = printed.tallied(results.claims)
    if tallied:
        terminal.say("")
    for text in tallied[:-1]:
        terminal.say(text)
    for text in tallied[-1:]:
        terminal.say(f"{text} (exit status {status})" if status else text)
    return status


def outcome(results: Results, command: str) -> Outcome:
    """The report for CI: a verdict per claim and failed run."""
    from l4slab.base import metrics
    from l4slab.results import printed
    from l4slab.results.apart import apart
    from l4slab.results.claims import JudgedRow, as_expected, as_recorded

    judged = results.claims.with_columns(expected=as_expected(), as_recorded=as_recorded())
    rows = metrics.rows_of(judged, JudgedRow)
    verdicts = [_verdict(row) for row in rows]
    verdicts += [
        Verdict(str(run), "the run ends", "error", run.experiment, measured=reason) for run, reason in results.failures
    ]
    means, factors = printed.means_of(results)
    columns = {name: heading for name, (heading, _) in printed.columns_of(results.flows).items() if means[name].count()}
    headings = ["experiment", *factors, "flow", "cc", "trials", *(" ".join(one.split()) for one in columns.values())]
    labels = ["experiment", *factors, "flow", "cc", "trials"]
    flows = [[tabular.cell(row[name]) for name in (*labels, *columns)] for row in means.to_dicts()]
    failed = f"{counted(len(results.failures), 'run')} failed" if results.failures else ""
    line = "; ".join(filter(None, [failed, *printed.tallied(results.claims)])) or "no claim and no failed run"
    tables = [Table("Flows, mean over trials", headings, flows)]
    if found := apart(results.flows):
        cells = [
            [
                one.experiment,
                one.case,
                one.flow,
                f"{printed.named(one.quantity)} ({printed.unit(one.quantity)})",
            ]
            + [tabular.cell(value) for value in (one.least, one.median, one.most)]
            for one in found
        ]
        tables.append(
            Table("Trials that lie apart", ["experiment", "levels", "flow", "", "least", "median", "most"], cells)
        )
    return Outcome(command, line, verdicts, _worst(results), tables, results.report)


def _verdict(claim: JudgedRow) -> Verdict:
    from l4slab.results import printed
    from l4slab.results.claims import shown_verdict

    wanted = "fails" if claim["kind"] == "disputed" else "holds"
    shown = shown_verdict(claim["kind"], claim["verdict"])
    evidence = json.loads(claim["evidence"])
    measured = "; ".join([shown, *printed.evidence(evidence)])
    about = claim["says"] or claim["id"]
    if claim["as_recorded"]:
        # As a test that is known to fail: in order, and no success.
        status: Status = "pass" if claim["expected"] else "skipped"
        measured += "" if claim["expected"] else "; as recorded"
    else:
        status = "error" if claim["verdict"] == "error" else "fail"
    expected = shown_verdict(claim["kind"], claim["recorded"] or wanted)
    return Verdict(claim["id"], about, status, claim["experiment"], measured=measured, expected=expected)


def _worst(results: Results) -> list[tuple[str, str, str, str]]:
    """The longest queueing delay, the least utilisation and the largest loss of all runs, and where they are."""
    import polars as pl

    found = []
    for name, table, column, unit, largest in (
        ("longest queueing delay, p99", results.links.filter(queue="all"), "sojourn_ms_p99", "ms", True),
        ("least utilisation", results.links.filter(queue="all"), "utilisation", "", False),
        ("largest loss", results.flows, "drop_pct", "%", True),
    ):
        some = table.filter(pl.col(column).is_not_null()).sort(column, descending=largest, maintain_order=True)
        for row in some.head(1).to_dicts():
            own = "link" if "link" in row else "flow"
            labels = list(row)[: list(row).index(own)]
            levels = [f"{key} {row[key]}" for key in labels[2:] if row[key] is not None]
            where = ", ".join([row["experiment"], *levels, f"{own} {row[own]}"])
            found.append((name, f"{tabular.cell(row[column])} {unit}".strip(), "", where))
    return found


def _results(results: Results) -> Keys:
    from l4slab.results import printed
    from l4slab.results.apart import apart
    from l4slab.results.claims import tally

    means, _ = printed.means_of(results)
    claims = [row | {"evidence": json.loads(row["evidence"])} for row in results.claims.to_dicts()]
    return {
        "folder": None if results.folder is None else str(results.folder),
        "report": results.report,
        "runs": results.flows["run"].n_unique(),
        "failures": [{"run": str(run), "id": run.id, "reason": reason} for run, reason in results.failures],
        "notes": [*results.notes],
        "flows": [*means.to_dicts()],
        "apart": [asdict(one) for one in apart(results.flows)],
        "claims": [*claims],
        "counts": [asdict(one) for one in tally(results.claims)],
        "published": [*results.published.to_dicts()],
    }
