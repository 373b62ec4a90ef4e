"""The command line. Exit status: 0 done, 1 a run or claim failed, 2 the input is wrong, 130 interrupted."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from l4slab import __version__, _core, campaign, claims, parameters, spec
from l4slab.claims import unexpected
from l4slab.doctor import examine
from l4slab.engines import ENGINES
from l4slab.errors import L4slabError, one_line, suggest
from l4slab.estimate import estimate
from l4slab.progress import building
from l4slab.studies import comparisons, studies, study
from l4slab.sweep import Plan

if TYPE_CHECKING:
    from l4slab.agreement import Agreement

_LISTS = ("qdiscs", "controllers", "studies", "comparisons")
_ROWS_SHOWN = 40
_CAUSE_SHOWN = 60
_SUMMARY = ("goodput_mbps", "share", "rtt_ms_mean", "sojourn_ms_mean", "ce_pct", "drop_pct")

_engine = click.option("--engine", default="sim", show_default=True, metavar="|".join(ENGINES), help="What runs it.")
_where = click.option("--where", metavar="SQL", help="Only these runs, such as \"aqm = 'DualPI2' and trial = 1\".")
_dask = click.option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster that computes the runs.")
_dry_run = click.option("--dry-run", is_flag=True, help="Check the files; say what would run, how long and how large.")
_workers = click.option("--workers", type=int, metavar="N", help="Runs computed at once; default: one per core.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="l4slab", message="%(prog)s %(version)s")
def cli() -> None:
    """What L4S does to a network, and a network to L4S, before anyone deploys it."""


@cli.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--out", metavar="DIR", help="Folder for the results, or a URL such as s3://bucket/name.")
@_engine
@_workers
@_dask
@_where
@_dry_run
def run(
    files: tuple[Path, ...],
    out: str | None,
    engine: str,
    workers: int | None,
    dask: str | None,
    where: str | None,
    dry_run: bool,
) -> int:
    """Run experiment files; finished runs in DIR are not repeated."""
    if dry_run:
        _show_plans(campaign.plan(files, engine, where=where), out)
        return 0
    _require(engine)
    if out is None:
        raise click.UsageError("--out is missing; give a folder for the results, such as --out results")
    _either(workers, dask)
    return _show_results(campaign.run(files, out, engine, workers, dask, console=_err(), where=where))


def _either(workers: int | None, dask: str | None) -> None:
    if workers is not None and dask is not None:
        raise click.UsageError("--workers and --dask exclude each other; give one of them")


def _require(engine: str) -> None:
    if engine == "linux":
        from l4slab.engines.linux.engine import require

        require()


@cli.command()
@click.argument("folder", metavar="DIR")
def report(folder: str) -> int:
    """Write DIR/report.html again from the results in DIR."""
    _out().print(campaign.report(folder), soft_wrap=True, markup=False)
    return 0


@cli.command()
@click.argument("name", metavar="STUDY")
@click.option("--out", metavar="DIR", help="Folder or URL; default: results/STUDY, or results/STUDY-linux.")
@_engine
@_workers
@_dask
@_where
@click.option("--full", is_flag=True, help="All runs of a study that by default does a part of them.")
@_dry_run
def reproduce(
    name: str,
    out: str | None,
    engine: str,
    workers: int | None,
    dask: str | None,
    where: str | None,
    full: bool,
    dry_run: bool,
) -> int:
    """Run a published study and check every statement it makes."""
    files = study(name)
    folder = out or str(Path("results") / (name if engine == "sim" else f"{name}-{engine}"))
    if dry_run:
        _show_plans(campaign.plan(files, engine, where=where, subset=not full), folder)
        return 0
    _require(engine)
    _either(workers, dask)
    return _show_results(
        campaign.run(files, folder, engine, workers, dask, console=_err(), where=where, subset=not full)
    )


@cli.command()
@click.argument("folder", metavar="DIR")
def status(folder: str) -> int:
    """How much of the campaign in DIR is done."""
    table = Table(box=None, pad_edge=False)
    for name in ("experiment", "finished", "of", "to go"):
        table.add_column(name, justify="left" if name == "experiment" else "right")
    state = campaign.status(folder)
    for row in state.experiments:
        table.add_row(row.name, str(row.finished), str(row.planned), str(row.planned - row.finished))
    _out().print(table)
    _out().print(f"{state.size / 1e6:.1f} MB in {folder}", soft_wrap=True, markup=False)
    return 0


@cli.command()
@click.argument("names", nargs=-1, metavar="[NAME|FILE]...")
@click.option("--out", metavar="DIR", help="Folder for the results.")
@click.option("--trials", type=int, metavar="N", help="Trials on each engine; default: what the files say.")
@_workers
@_dry_run
def agree(names: tuple[str, ...], out: str | None, trials: int | None, workers: int | None, dry_run: bool) -> int:
    """Compare simulator and kernel on the same experiments; finished runs in DIR are not repeated.

    NAME is a packaged comparison ("l4slab list comparisons"); without any, all of them.
    """
    from l4slab import agreement

    files = agreement.find(names)
    if dry_run:
        for engine, plans in zip(ENGINES, agreement.plan(files, trials), strict=True):
            _out().print(f"{engine}:")
            _show_plans(plans)
        return 0
    if out is None:
        raise click.UsageError("--out is missing; give a folder for the results, such as --out agreement")
    return _show_agreement(agreement.agree(files, out, workers, trials, console=_err()))


@cli.command("list")
@click.argument("what", required=False, metavar="[qdiscs|controllers|studies|comparisons]")
@click.option("--markdown", is_flag=True, help="Queues and controllers with all that is known, as Markdown.")
def list_(what: str | None, markdown: bool) -> int:
    """What experiments can use: queue disciplines, congestion controls, studies, comparisons with the kernel."""
    if markdown:
        click.echo(parameters.markdown(), nl=False)
        return 0
    if what is not None and what not in _LISTS:
        raise click.UsageError(f"cannot list {what}; {suggest(what, _LISTS)}")
    for kind in _LISTS if what is None else (what,):
        table = Table(title=kind, title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False)
        if kind == "studies":
            for name, files in studies().items():
                table.add_row(name, ", ".join(file.stem for file in files))
        elif kind == "comparisons":
            for name, file in comparisons().items():
                table.add_row(name, spec.load(file).title)
        else:
            for entry in _core.qdiscs() if kind == "qdiscs" else _core.controllers():
                table.add_row(f"[bold]{entry['name']}[/]", entry["summary"])
                if what and entry["required"]:
                    table.add_row("  [i]required[/]", f"for example {entry['required']}")
                for parameter in entry["parameters"] if what else ():
                    words, meaning = parameters.described(parameter)
                    table.add_row(f"  {escape(words)}", escape(meaning))
                for gauge in entry["gauges"] if what else ():
                    table.add_row(f"  [i]{gauge['name']}[/]", escape(f"gauge: {gauge['help']}"))
                for preset in entry["presets"] if what else ():
                    sets = ", ".join(f"{name} {value}" for name, value in preset["sets"])
                    table.add_row(f"  {preset['keyword']} {preset['value']}", f"makes the defaults {sets}")
        _out().print(table)
        _out().print()
    return 0


@cli.group()
def linux() -> None:
    """The real kernel that --engine linux runs on."""


@linux.command()
@click.option("--kernel", metavar="PATH", type=click.Path(path_type=Path), help="Use this kernel (ARCH=um).")
@click.option("--jobs", type=int, metavar="N", help="Compilations at once; default: one per core.")
def build(kernel: Path | None, jobs: int | None) -> int:
    """Fetch sources and build the kernel; what is there already is not done again."""
    from l4slab.engines.linux import build as laboratory

    with building(_err()) as progress:
        made = laboratory.build(progress, kernel, jobs)
    _out().print(f"Linux {made.version} is ready in {laboratory.cache()}.", soft_wrap=True, markup=False)
    return 0


@cli.command()
def doctor() -> int:
    """Look whether this machine can run experiments."""
    findings = list(examine())
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        table.add_row("ok" if finding.ok else "[red]no[/]", finding.what, finding.text)
    _out().print(table)
    return 0 if all(finding.ok for finding in findings) else 1


def _out() -> Console:
    # A pipe has no width; tables must not be folded to 80 columns there.
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def _err() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def _show_plans(plans: list[Plan], out: str | None = None) -> None:
    """The sweeps, and what of them is to be done in the results folder `out`."""
    for plan in plans:
        experiment = plan.experiment
        if experiment.is_study:
            _out().print(
                f"{experiment.name}: {len(experiment.tables(claims.Claim))} claims about the other files, no runs"
            )
            continue
        trials = f", {experiment.trials} trials each" if experiment.trials > 1 else ""
        _out().print(
            f"{experiment.name}: {len(plan.runs)} runs of {plan.combinations} combinations{trials}", soft_wrap=True
        )
        for name, levels in plan.factors.items():
            _out().print(f"  {name}: {', '.join(map(str, levels))}", soft_wrap=True, markup=False)
        for note in plan.notes():
            _out().print(note, soft_wrap=True, markup=False)
    todo = campaign.left_to_do(plans, out)
    if todo:
        _out().print(f"{len(todo)} runs to do, {estimate(todo)}.", soft_wrap=True, markup=False)
    else:
        _out().print("No run is to be done.")


def _show_results(results: campaign.Results) -> int:
    _show_flows(results.flows)
    claims = results.claims
    failed = unexpected(claims)
    if len(claims):
        _show_claims(claims)
    if len(results.published):
        _show_published(results.published)
    for run, reason in results.failures[:10]:
        _err().print(f"l4slab: {run}: the run failed: {reason}", markup=False)
    if more := results.failures[10:]:
        _err().print(f"l4slab: {len(more)} more runs failed")
    for note in results.notes:
        if campaign.LEFT_OUT in note:
            _err().print(note, markup=False)
    if results.report is not None:
        _out().print(f"\nReport: {results.report}", soft_wrap=True, markup=False)
    return 1 if results.failures or len(failed) else 0


def _show_flows(flows: pl.DataFrame) -> None:
    position = {name: index for index, name in enumerate(flows.columns)}
    factors = flows.columns[position["trial"] + 1 : position["flow"]]
    keys = ["experiment", *factors, "flow", "cc"]
    means = flows.group_by(keys, maintain_order=True).agg(
        pl.col("trial").n_unique().alias("trials"), *(pl.col(name).mean() for name in _SUMMARY)
    )
    table = Table(title="Flows, mean over trials", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in means.columns:
        table.add_column(name, justify="right" if means[name].dtype.is_numeric() else "left")
    for row in means.head(_ROWS_SHOWN).iter_rows():
        table.add_row(*(_cell(value) for value in row))
    _out().print(table)
    if len(means) > _ROWS_SHOWN:
        _out().print(f"... {len(means) - _ROWS_SHOWN} more rows in flows.parquet")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _show_claims(claims: pl.DataFrame) -> None:
    table = Table(title="\nClaims", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in ("verdict", "expected", "experiment", "id", "says"):
        table.add_column(name)
    for row in claims.iter_rows(named=True):
        expected = "holds" if row["expect"] else "fails"
        style = "" if row["verdict"] == expected else "red"
        table.add_row(row["verdict"], expected, row["experiment"], row["id"], row["says"], style=style)
    _out().print(table)


def _show_published(published: pl.DataFrame) -> None:
    columns = ["experiment", "quantity", "unit", "published", "measured", "distance", "tolerance"]
    table = Table(
        title="\nMeasured against published", title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    for name in columns:
        table.add_column(name, justify="right" if published[name].dtype.is_numeric() else "left")
    for row in published.filter(pl.col("reference").is_null()).iter_rows(named=True):
        style = "red" if row["within"] is False else ""
        table.add_row(*(_cell(row[name]) for name in columns), style=style)
    _out().print(table)


def _show_agreement(result: Agreement) -> int:
    from l4slab.agreement import page

    table = Table(title="Bars", title_justify="left", title_style="bold", box=None, pad_edge=False)
    names = ("set", "quantity", "bar", "wanted", "measured", "by_chance", "cells")
    for name in (*names, "met"):
        table.add_column(name, justify="right" if name in ("wanted", "measured", "by_chance", "cells") else "left")
    for row in page.bars(result.bars):
        met = "" if row["met"] is None else "yes" if row["met"] else "no"
        table.add_row(*(str(row[n]) for n in names), met, style="red" if row["met"] is False else "")
    _out().print(table)
    beyond = page.beyond(result.rows)
    if beyond:
        _show_beyond(beyond)
    for run, reason in result.failures[:10]:
        _err().print(f"l4slab: {run} ({run.engine}): the run failed: {reason}", markup=False)
    for note in result.notes:
        _err().print(note, markup=False)
    if len(result.missing):
        _err().print(f"{len(result.missing)} cells have not run on both engines", markup=False)
    _out().print(f"\nReport: {result.folder / 'agreement.html'}", soft_wrap=True, markup=False)
    return 0 if result.met else 1


def _show_beyond(rows: list[dict[str, Any]]) -> None:
    from l4slab.agreement.page import NOT_EXPLAINED

    table = Table(title="\nCells beyond", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in ("cell", "quantity", "kernel", "simulator", "cause"):
        table.add_column(name, justify="right" if name in ("kernel", "simulator") else "left")
    for row in rows[:_ROWS_SHOWN]:
        table.add_row(
            row["cell"],
            f"{row['quantity']}, {row['place']}",
            row["kernel"],
            row["simulator"],
            _shortened(row["cause"] or NOT_EXPLAINED),
        )
    _out().print(table)
    if len(rows) > _ROWS_SHOWN:
        _out().print(f"... {len(rows) - _ROWS_SHOWN} more in agreement.html")


def _shortened(text: str) -> str:
    return text if len(text) <= _CAUSE_SHOWN else text[: _CAUSE_SHOWN - 3].rstrip() + "..."


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    try:
        status = cli.main(args=arguments, prog_name="l4slab", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        print(f"l4slab: {_sentence(error)}", file=sys.stderr)
        return 2
    except L4slabError as error:
        print(f"l4slab: {error}", file=sys.stderr)
        return error.status
    except (KeyboardInterrupt, click.Abort):
        print("l4slab: interrupted; finished runs are kept, and the same command does the rest", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1


def _sentence(error: click.ClickException) -> str:
    text = one_line(error.format_message()).rstrip(".").replace(". Did you mean", "; did you mean")
    if isinstance(error, click.UsageError) and ";" not in text:
        command = error.ctx.command_path if error.ctx else "l4slab"
        text += f'; see "{command} --help"'
    return text


def entry() -> None:
    """The `l4slab` script."""
    # What a batch system or a lost terminal sends ends a campaign as Ctrl-C does; nohup's SIG_IGN stays.
    for name in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(name) == signal.SIG_DFL:
            signal.signal(name, signal.default_int_handler)
    status = main()
    if (machines := sys.modules.get("l4slab.engines.linux.machine")) is not None:
        machines.stop_all()
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    # Not sys.exit: after an error or Ctrl-C it would wait for simulations that nobody wants any more.
    os._exit(status)
