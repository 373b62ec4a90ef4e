"""`l4slab run` and `l4slab reproduce`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from l4slab.base.values import Value
from l4slab.cli import options, terminal, verdicts

if TYPE_CHECKING:
    from l4slab.api.results import Results


@dataclass(frozen=True)
class _How:
    """How runs are executed and reported: the options of both commands."""

    engine: str
    workers: int | None
    memory: str | None
    dask: str | None
    where: str | None
    captures: bool
    report: bool
    dry_run: bool
    as_json: bool
    outputs: verdicts.Outputs


def _how(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a command these options, as its argument `how`."""

    @verdicts.with_outputs
    @options.engine
    @options.workers
    @options.memory
    @options.dask
    @options.where
    @options.captures
    @options.report
    @options.dry_run
    @options.as_json
    @wraps(command)
    def with_options(**given: Any) -> int:
        how = _How(**{name: given.pop(name) for name in _How.__dataclass_fields__})
        options.refuse_empty(out=given["out"], where=how.where, dask=how.dask)
        return command(how=how, **given)

    return with_options


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--out", metavar="DIR", help="Folder or URL (s3://bucket/name); default for one file: results/NAME.")
@click.option(
    "--set", "given", multiple=True, metavar="KEY=VALUE", help="A value instead of the file's; may be repeated."
)
@click.option("--trials", type=click.IntRange(1), metavar="N", help="As --set trials=N.")
@click.option("--duration", metavar="TIME", help="As --set duration=TIME.")
@_how
def run(
    files: tuple[Path, ...],
    out: str | None,
    given: tuple[str, ...],
    trials: int | None,
    duration: str | None,
    how: _How,
) -> int:
    """Run experiment files; - is the standard input. After an interruption the same command resumes.

    A KEY is dotted as in [sweep], such as link.NAME.rate or flow.*.rtt, or the name of a factor, whose VALUE is one of
    its levels.
    """
    if out is None and len(files) == 1:
        out = options.results_folder(options.stem(files[0]), how.engine)
    if out is None and not how.dry_run:
        raise click.UsageError("--out is missing; give several files one folder for the results, such as --out results")
    from l4slab.experimentfile.changed import value_of

    changes = {key: value_of(text) for key, text in (options.setting(one, "--set", "duration=20s") for one in given)}
    changes |= {key: one for key, one in (("trials", trials), ("duration", duration)) if one is not None}
    return _run(f"run {' '.join(map(str, files))}", files, out, how, changes=changes)


@click.command()
@click.argument("name", metavar="STUDY", shell_complete=options.study_names)
@click.option("--out", metavar="DIR", help="Folder or URL; default: results/STUDY, or results/STUDY-linux.")
@click.option("--full", is_flag=True, help="All runs of a study, if its default is a part of them.")
@_how
def reproduce(name: str, out: str | None, full: bool, how: _How) -> int:
    """Run a published study and check its statements."""
    from l4slab.base.packaged import study

    return _run(f"reproduce {name}", study(name), out or options.results_folder(name, how.engine), how, subset=not full)


def _run(
    command: str,
    files: tuple[Path, ...] | list[Path],
    out: str | None,
    how: _How,
    subset: bool = False,
    changes: Mapping[str, Value] | None = None,
) -> int:
    from l4slab.api import campaign
    from l4slab.cli import summary

    if how.workers is not None and how.dask is not None:
        raise click.UsageError("--workers and --dask exclude each other; give one of them")
    if how.dry_run:
        plans = campaign.plan(
            files,
            how.engine,
            where=how.where,
            subset=subset,
            captures=how.captures,
            at_most=summary.LOOKED_AT,
            changes=changes,
            workers=1 if how.dask else how.workers,
            memory=how.memory,
        )
        summary.show_plans(plans, how.engine, out, how.as_json)
        return 0
    status = 0

    def show(results: Results) -> None:
        nonlocal status
        status = summary.show_results(results, how.as_json)
        sys.stdout.flush()

    results = campaign.run(
        files,
        out,
        how.engine,
        how.workers,
        how.dask,
        console=terminal.progress(),
        where=how.where,
        subset=subset,
        captures=how.captures,
        report=how.report,
        shown=show,
        changes=changes,
        memory=how.memory,
    )
    how.outputs.write(lambda: summary.outcome(results, f"l4slab {command}"))
    if results.report is not None and not how.as_json:
        terminal.say(f"\nReport: {results.report}")
    return status
