"""`l4slab run` and `l4slab reproduce`."""

from __future__ import annotations

from pathlib import Path

import click

from l4slab.cli import options, terminal


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--out", metavar="DIR", help="Folder or URL (s3://bucket/name); default of one file: results/NAME.")
@options.engine
@options.workers
@options.dask
@options.where
@options.captures
@options.dry_run
@options.as_json
def run(
    files: tuple[Path, ...],
    out: str | None,
    engine: str,
    workers: int | None,
    dask: str | None,
    where: str | None,
    captures: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Run experiment files; finished runs in DIR are not repeated."""
    options.refuse_empty(out=out, where=where)
    if out is None and len(files) == 1:
        out = options.results_folder(files[0].stem, engine)
    if out is None and not dry_run:
        raise click.UsageError("--out is missing; give several files one folder for the results, such as --out results")
    return _run(files, out, engine, workers, dask, where, captures, dry_run, as_json)


@click.command()
@click.argument("name", metavar="STUDY", shell_complete=options.study_names)
@click.option("--out", metavar="DIR", help="Folder or URL; default: results/STUDY, or results/STUDY-linux.")
@options.engine
@options.workers
@options.dask
@options.where
@click.option("--full", is_flag=True, help="All runs of a study that by default does a part of them.")
@options.captures
@options.dry_run
@options.as_json
def reproduce(
    name: str,
    out: str | None,
    engine: str,
    workers: int | None,
    dask: str | None,
    where: str | None,
    full: bool,
    captures: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Run a published study and check every statement it makes."""
    from l4slab.studies import study

    files = study(name)
    options.refuse_empty(out=out, where=where)
    out = out or options.results_folder(name, engine)
    return _run(files, out, engine, workers, dask, where, captures, dry_run, as_json, subset=not full)


def _run(
    files: tuple[Path, ...] | list[Path],
    out: str | None,
    engine: str,
    workers: int | None,
    dask: str | None,
    where: str | None,
    captures: bool,
    dry_run: bool,
    as_json: bool,
    subset: bool = False,
) -> int:
    from l4slab import campaign
    from l4slab.cli import summary

    _either(workers, dask)
    if dry_run:
        plans = campaign.plan(files, engine, where=where, subset=subset, captures=captures, at_most=summary.LOOKED_AT)
        summary.show_plans(plans, out, as_json)
        return 0
    _require(engine)
    results = campaign.run(
        files,
        out,
        engine,
        workers,
        dask,
        console=terminal.err(),
        where=where,
        subset=subset,
        captures=captures,
    )
    return summary.show_results(results, as_json)


def _either(workers: int | None, dask: str | None) -> None:
    if workers is not None and dask is not None:
        raise click.UsageError("--workers and --dask exclude each other; give one of them")


def _require(engine: str) -> None:
    if engine == "linux":
        from l4slab.engines.linux.engine import require

        require()
