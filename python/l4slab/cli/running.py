"""`l4slab run` and `l4slab reproduce`."""

from __future__ import annotations

from pathlib import Path

import click

from l4slab.cli import options, terminal


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--out", metavar="DIR", help="Folder for the results, or a URL such as s3://bucket/name.")
@options.engine
@options.workers
@options.dask
@options.where
@options.dry_run
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
    from l4slab import campaign
    from l4slab.cli import summary

    if dry_run:
        summary.show_plans(campaign.plan(files, engine, where=where), out)
        return 0
    _require(engine)
    if out is None:
        raise click.UsageError("--out is missing; give a folder for the results, such as --out results")
    _either(workers, dask)
    return summary.show_results(campaign.run(files, out, engine, workers, dask, console=terminal.err(), where=where))


@click.command()
@click.argument("name", metavar="STUDY")
@click.option("--out", metavar="DIR", help="Folder or URL; default: results/STUDY, or results/STUDY-linux.")
@options.engine
@options.workers
@options.dask
@options.where
@click.option("--full", is_flag=True, help="All runs of a study that by default does a part of them.")
@options.dry_run
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
    from l4slab import campaign
    from l4slab.cli import summary
    from l4slab.studies import study

    files = study(name)
    folder = out or str(Path("results") / (name if engine == "sim" else f"{name}-{engine}"))
    if dry_run:
        summary.show_plans(campaign.plan(files, engine, where=where, subset=not full), folder)
        return 0
    _require(engine)
    _either(workers, dask)
    return summary.show_results(
        campaign.run(files, folder, engine, workers, dask, console=terminal.err(), where=where, subset=not full)
    )


def _either(workers: int | None, dask: str | None) -> None:
    if workers is not None and dask is not None:
        raise click.UsageError("--workers and --dask exclude each other; give one of them")


def _require(engine: str) -> None:
    if engine == "linux":
        from l4slab.engines.linux.engine import require

        require()
