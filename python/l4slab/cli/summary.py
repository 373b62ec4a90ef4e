"""What a campaign gave, or would give, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from l4slab.cli import terminal

if TYPE_CHECKING:
    import polars as pl

    from l4slab.campaign import Results
    from l4slab.sweep import Plan

_SUMMARY = ("goodput_mbps", "share", "rtt_ms_mean", "sojourn_ms_mean", "ce_pct", "drop_pct")


def show_plans(plans: list[Plan], out: str | None = None) -> None:
    """The sweeps, and what of them is to be done in the results folder `out`."""
    from l4slab import campaign, claims
    from l4slab.estimate import estimate

    for plan in plans:
        experiment = plan.experiment
        if experiment.is_study:
            terminal.out().print(
                f"{experiment.name}: {len(experiment.tables(claims.Claim))} claims about the other files, no runs"
            )
            continue
        trials = f", {experiment.trials} trials each" if experiment.trials > 1 else ""
        terminal.out().print(
            f"{experiment.name}: {len(plan.runs)} runs of {plan.combinations} combinations{trials}", soft_wrap=True
        )
        for name, levels in plan.factors.items():
            terminal.out().print(f"  {name}: {', '.join(map(str, levels))}", soft_wrap=True, markup=False)
        for note in plan.notes():
            terminal.out().print(note, soft_wrap=True, markup=False)
    todo = campaign.left_to_do(plans, out)
    if todo:
        terminal.out().print(f"{len(todo)} runs to do, {estimate(todo)}.", soft_wrap=True, markup=False)
    else:
        terminal.out().print("No run is to be done.")


def show_results(results: Results) -> int:
    """The tables of a campaign in short; the exit status."""
    from l4slab.campaign import LEFT_OUT
    from l4slab.claims import unexpected

    _show_flows(results.flows)
    claims = results.claims
    failed = unexpected(claims)
    if len(claims):
        _show_claims(claims)
    if len(results.published):
        _show_published(results.published)
    for run, reason in results.failures[:10]:
        terminal.err().print(f"l4slab: {run}: the run failed: {reason}", markup=False)
    if more := results.failures[10:]:
        terminal.err().print(f"l4slab: {len(more)} more runs failed")
    for note in results.notes:
        if LEFT_OUT in note:
            terminal.err().print(note, markup=False)
    if results.report is not None:
        terminal.out().print(f"\nReport: {results.report}", soft_wrap=True, markup=False)
    return 1 if results.failures or len(failed) else 0


def _show_flows(flows: pl.DataFrame) -> None:
    import polars as pl
    from rich.table import Table

    position = {name: index for index, name in enumerate(flows.columns)}
    factors = flows.columns[position["trial"] + 1 : position["flow"]]
    keys = ["experiment", *factors, "flow", "cc"]
    means = flows.group_by(keys, maintain_order=True).agg(
        pl.col("trial").n_unique().alias("trials"), *(pl.col(name).mean() for name in _SUMMARY)
    )
    table = Table(title="Flows, mean over trials", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in means.columns:
        table.add_column(name, justify="right" if means[name].dtype.is_numeric() else "left")
    for row in means.head(terminal.ROWS_SHOWN).iter_rows():
        table.add_row(*(terminal.cell(value) for value in row))
    terminal.out().print(table)
    if len(means) > terminal.ROWS_SHOWN:
        terminal.out().print(f"... {len(means) - terminal.ROWS_SHOWN} more rows in flows.parquet")


def _show_claims(claims: pl.DataFrame) -> None:
    from rich.table import Table

    table = Table(title="\nClaims", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in ("verdict", "expected", "experiment", "id", "says"):
        table.add_column(name)
    for row in claims.iter_rows(named=True):
        expected = "holds" if row["expect"] else "fails"
        style = "" if row["verdict"] == expected else "red"
        table.add_row(row["verdict"], expected, row["experiment"], row["id"], row["says"], style=style)
    terminal.out().print(table)


def _show_published(published: pl.DataFrame) -> None:
    import polars as pl
    from rich.table import Table

    columns = ["experiment", "quantity", "unit", "published", "measured", "distance", "tolerance"]
    table = Table(
        title="\nMeasured against published", title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    for name in columns:
        table.add_column(name, justify="right" if published[name].dtype.is_numeric() else "left")
    for row in published.filter(pl.col("reference").is_null()).iter_rows(named=True):
        style = "red" if row["within"] is False else ""
        table.add_row(*(terminal.cell(row[name]) for name in columns), style=style)
    terminal.out().print(table)
