"""The results or the plan of a campaign: tables on the terminal, or JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from l4slab.base.numbers import counted
from l4slab.base.values import Keys
from l4slab.cli import terminal
from l4slab.cli.terminal import Column
from l4slab.cli.verdicts import Outcome, Status, Table, Verdict

if TYPE_CHECKING:
    import polars as pl

    from l4slab.api.results import Results
    from l4slab.results.claims import JudgedRow
    from l4slab.sweep import Plan

# Combinations of a file that a dry run looks at: a few seconds.
LOOKED_AT = 20_000

# Columns of `flows`, how they are headed, and their weight where the terminal is narrow.
_SUMMARY = {
    "goodput_mbps": ("goodput\nMb/s", 4),
    "share": ("share\n", 5),
    "rtt_ms_mean": ("RTT\nms", 3),
    "sojourn_ms_mean": ("queue\nms", 4),
    "ce_pct": ("CE\n%", 3),
    "drop_pct": ("drop\n%", 4),
}
# In place of its heading, where a flow crosses a medium.
_WITH_MEDIA = ("wait\nms", 4)
_WAIT_LEGEND = (
    "Wait: in the queues of all links, and in media behind these until the arrival (queue_ms_mean and others)."
)
# Beside these, where there are transfers.
_TRANSFERS = {
    "completion_ms_p50": ("done p50\nms", 8),
    "completion_ms_p99": ("done p99\nms", 8),
    "unfinished": ("unfin-\nished", 6),
}
# And of media.
_FRAMES = {
    "frame_ms_p50": ("frame p50\nms", 8),
    "frame_ms_p99": ("frame p99\nms", 9),
    "late_pct": ("late\n%", 8),
    "lost_frames_pct": ("frames\nlost %", 6),
    "freezes": ("freezes\n", 9),
}
# Of the quantities whose trials lie apart.
_APART_SHOWN = 5
_FRAMES_LEGEND = (
    "Frame: from its capture until all of it has arrived. Late: beyond the flow's deadline (default 100 ms). "
    "Freezes: number per run."
)
# And of tests of responsiveness.
_RESPONSIVENESS = {
    "rpm_foreign": ("RPM\nforeign", 8),
    "rpm_self": ("RPM\nself", 8),
    "idle_ms_p50": ("idle\nms", 6),
    "loaded_ms_p50": ("loaded\nms", 8),
}


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
    from l4slab.results.claims import changed

    status = 1 if results.failures or len(changed(results.claims)) else 0
    if as_json:
        terminal.as_json(_results(results) | {"exit_status": status})
        return status
    _show_flows(results)
    for sentence in (*_apart_in_words(results), *results.precision(), *results.overflows()):
        terminal.say(sentence)
    if len(results.claims):
        _show_claims(results.claims)
    if len(results.published):
        _show_published(results.published)
    for run, reason in results.failures[:10]:
        terminal.err().print(f"l4slab: {run}: the run failed: {reason}", markup=False)
    if more := results.failures[10:]:
        terminal.err().print(f"l4slab: {len(more)} more runs failed")
    for note in results.notes:
        if LEFT_OUT in note:
            terminal.progress().print(note, markup=False)
    tallied = _tallied(results.claims)
    if tallied:
        terminal.say("")
    for text in tallied[:-1]:
        terminal.say(text)
    for text in tallied[-1:]:
        terminal.say(f"{text} (exit status {status})" if status else text)
    return status


def _apart_in_words(results: Results) -> list[str]:
    """Sentences on the quantities whose mean describes no trial."""
    from l4slab.results.apart import FACTOR, apart

    found = apart(results.flows)
    if not found:
        return []
    lines = [
        f"  {', '.join(filter(None, [one.case, one.flow]))}: "
        f"{_named(one.quantity)} {terminal.cell(one.least)} to {terminal.cell(one.most)} "
        f"{_unit(one.quantity)}, median {terminal.cell(one.median)}"
        for one in found[:_APART_SHOWN]
    ]
    more = [f"  ... and {len(found) - _APART_SHOWN} more"] if len(found) > _APART_SHOWN else []
    return [
        f"Trials lie apart (the largest is more than {FACTOR:g} times the least), so a mean misleads:",
        *lines,
        *more,
    ]


def _named(column: str) -> str:
    return _SUMMARY[column][0].split("\n")[0]


def _unit(column: str) -> str:
    return _SUMMARY[column][0].split("\n")[1]


def _tallied(claims: pl.DataFrame) -> list[str]:
    """A sentence per list of claims, and how the verdicts compare with the recorded ones."""
    from l4slab.results.claims import tally

    return [*(one.text for one in tally(claims)), *_against_the_record(claims)]


def outcome(results: Results, command: str) -> Outcome:
    """The report for CI: a verdict per claim and failed run."""
    from l4slab.base import metrics
    from l4slab.results.apart import apart
    from l4slab.results.claims import JudgedRow, as_expected, as_recorded

    judged = results.claims.with_columns(expected=as_expected(), as_recorded=as_recorded())
    rows = metrics.rows_of(judged, JudgedRow)
    verdicts = [_verdict(row) for row in rows]
    verdicts += [
        Verdict(str(run), "the run ends", "error", run.experiment, measured=reason) for run, reason in results.failures
    ]
    means, factors = _means(results)
    columns = {name: heading for name, (heading, _) in _columns(results.flows).items() if means[name].count()}
    headings = ["experiment", *factors, "flow", "cc", "trials", *(" ".join(one.split()) for one in columns.values())]
    labels = ["experiment", *factors, "flow", "cc", "trials"]
    flows = [[terminal.cell(row[name]) for name in (*labels, *columns)] for row in means.to_dicts()]
    failed = f"{counted(len(results.failures), 'run')} failed" if results.failures else ""
    line = "; ".join(filter(None, [failed, *_tallied(results.claims)])) or "no claim and no failed run"
    tables = [Table("Flows, mean over trials", headings, flows)]
    if found := apart(results.flows):
        cells = [
            [
                one.experiment,
                one.case,
                one.flow,
                f"{_named(one.quantity)} ({_unit(one.quantity)})",
            ]
            + [terminal.cell(value) for value in (one.least, one.median, one.most)]
            for one in found
        ]
        tables.append(
            Table("Trials that lie apart", ["experiment", "levels", "flow", "", "least", "median", "most"], cells)
        )
    return Outcome(command, line, verdicts, _worst(results), tables, results.report)


def _verdict(claim: JudgedRow) -> Verdict:
    from l4slab.results.claims import shown_verdict

    wanted = "fails" if claim["kind"] == "disputed" else "holds"
    shown = shown_verdict(claim["kind"], claim["verdict"])
    evidence = json.loads(claim["evidence"])
    measured = "; ".join([shown, *_evidence(evidence)])
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
            found.append((name, f"{terminal.cell(row[column])} {unit}".strip(), "", where))
    return found


def _against_the_record(claims: pl.DataFrame) -> list[str]:
    """How the verdicts of a file that records verdicts compare with them; nothing for other files."""
    from l4slab.results.claims import changed, shown_verdict

    if claims["recorded"].is_null().all():
        return []
    differ = changed(claims).to_dicts()
    if not differ:
        return ["every verdict is the recorded one"]
    named = [f"{row['id']} ({shown_verdict(row['kind'], row['verdict'])})" for row in differ]
    more = f" and {len(named) - 5} more" if len(named) > 5 else ""
    return [f"{len(named)} of {len(claims)} verdicts differ from the recorded ones: {', '.join(named[:5])}{more}"]


def _results(results: Results) -> Keys:
    from l4slab.results.apart import apart
    from l4slab.results.claims import tally

    means, _ = _means(results)
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


def _means(results: Results) -> tuple[pl.DataFrame, list[str]]:
    """`flows` as means over trials, and the factors among the columns; a share only where flows share a link."""
    import polars as pl

    flows = results.flows
    position = {name: index for index, name in enumerate(flows.columns)}
    factors = flows.columns[position["trial"] + 1 : position["flow"]]
    means = flows.group_by(["experiment", *factors, "flow", "cc"], maintain_order=True).agg(
        pl.col("trial").n_unique().alias("trials"), *(pl.col(name).mean() for name in _columns(flows))
    )
    if "unfinished" in means.columns:  # of flows that have transfers
        means = means.with_columns(
            unfinished=pl.when((pl.col("unfinished") > 0) | pl.col("completion_ms_p50").is_not_null()).then(
                "unfinished"
            )
        )
    shared = _shared(results, means.select("experiment", *factors))
    return means.with_columns(share=pl.when(pl.Series(shared, dtype=pl.Boolean)).then("share")), factors


def _columns(flows: pl.DataFrame) -> dict[str, tuple[str, int]]:
    """The columns to show of flows. Those of transfers and of frames only if there are any."""
    told = [name for name in ("transfers", "unfinished") if name in flows.columns and flows[name].sum()]
    columns = _SUMMARY | ({name: how for name, how in _TRANSFERS.items() if name in flows.columns} if told else {})
    if _crosses_media(flows):
        columns["sojourn_ms_mean"] = _WITH_MEDIA
    for group, key in ((_FRAMES, "frames"), (_RESPONSIVENESS, "rpm_foreign")):
        columns |= group if key in flows.columns and flows[key].count() else {}
    return columns


def _crosses_media(flows: pl.DataFrame) -> bool:
    return "queue_ms_mean" in flows.columns and flows["queue_ms_mean"].count() > 0


def _shared(results: Results, cases: pl.DataFrame) -> list[bool]:
    """For each row, whether the flows of its case share a link in the same direction."""
    from l4slab.experimentfile.capacity import is_shared
    from l4slab.sweep import describe

    files = {experiment.name: experiment for experiment in results.experiments}
    known: dict[tuple[Any, ...], bool] = {}
    found = []
    for row in cases.iter_rows(named=True):
        file = files[row["experiment"]]
        # Resolving thousands of cases takes long, and few files sweep a path.
        key = tuple(row.values()) if "path" in str(file.document["sweep"]) else (file.name,)
        if key not in known:
            known[key] = is_shared(describe(file, row))
        found.append(known[key])
    return found


def _show_flows(results: Results) -> None:
    means, factors = _means(results)
    shown = means.head(terminal.ROWS_SHOWN)

    def column(name: str, heading: str, weight: int) -> Column:
        cells = [terminal.cell(value) for value in shown[name]]
        return Column(heading, cells, means[name].dtype.is_numeric(), weight)

    columns = [
        column("experiment", "experiment", 6),
        *(column(name, heading, 7) for name, heading in zip(factors, terminal.short(factors), strict=True)),
        column("flow", "flow", 8),
        column("cc", "cc", 2),
        column("trials", "trials", 1),
        *(column(name, *how) for name, how in _columns(results.flows).items() if means[name].count()),
    ]
    terminal.show("Flows, mean over trials", columns, more="; flows.parquet has all")
    if len(means) > terminal.ROWS_SHOWN:
        terminal.say(f"... {len(means) - terminal.ROWS_SHOWN} more rows in flows.parquet")
    if _crosses_media(results.flows):
        terminal.say(_WAIT_LEGEND)
    if "frame_ms_p99" in means.columns and means["frame_ms_p99"].count():
        terminal.say(_FRAMES_LEGEND)


def _show_claims(claims: pl.DataFrame) -> None:
    from l4slab.base import metrics
    from l4slab.results.claims import JudgedRow, as_expected, as_recorded, shown_verdict

    judged = claims.with_columns(expected=as_expected(), as_recorded=as_recorded())
    rows = metrics.rows_of(judged, JudgedRow)
    kinds = [row["kind"] for row in rows]
    columns = [
        Column("verdict", [shown_verdict(row["kind"], row["verdict"]) for row in rows], weight=9, stays=True),
        *([Column("kind", kinds, weight=1)] if len(set(kinds)) > 1 else []),
        Column("experiment", [row["experiment"] for row in rows]),
        Column("id", [row["id"] for row in rows], weight=5),
        Column("says", [_says(row) for row in rows], weight=4, folds=True),
    ]
    styles = ["" if row["as_recorded"] else "red" for row in rows]
    terminal.say("")
    terminal.show("Claims", columns, styles)


def _evidence(columns: Keys) -> list[str]:
    """What a claim's query gives beside the verdict."""
    return [f"{name} {'NULL' if value is None else terminal.cell(value)}" for name, value in columns.items()]


def _says(claim: JudgedRow) -> str:
    """The statement. If its verdict is not as expected, also the evidence and a hint about its query."""
    from l4slab.results.claims import HINT

    evidence = {} if claim["expected"] else json.loads(claim["evidence"])
    reasons = [str(evidence.pop(key)) for key in ("error", HINT) if key in evidence]
    reasons += _evidence(evidence)
    return str(claim["says"] or claim["id"]) + (f" [{'; '.join(reasons)}]" if reasons else "")


def _show_published(published: pl.DataFrame) -> None:
    import polars as pl

    found = published.filter(pl.col("reference").is_null())
    rows = found.to_dicts()
    if not rows:
        return
    numbers = ("published", "measured", "distance", "tolerance")
    columns = [
        Column("experiment", [row["experiment"] for row in rows]),
        Column("quantity", [row["quantity"] for row in rows], weight=9, folds=True),
        Column("unit", [row["unit"] or "" for row in rows], weight=5),
        *(
            Column(name, [terminal.cell(row[name]) for row in rows], True, 1 if name == "tolerance" else 6)
            for name in numbers
        ),
    ]
    terminal.say("")
    terminal.show("Measured against published", columns, ["red" if row["within"] is False else "" for row in rows])
