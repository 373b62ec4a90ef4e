"""Options that several commands have."""

from __future__ import annotations

import click

from l4slab.engines import ENGINES

engine = click.option("--engine", default="sim", show_default=True, metavar="|".join(ENGINES), help="What runs it.")
where = click.option("--where", metavar="SQL", help="Only these runs, such as \"aqm = 'DualPI2' and trial = 1\".")
dask = click.option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster that computes the runs.")
dry_run = click.option("--dry-run", is_flag=True, help="Check the files; say what would run, how long and how large.")
workers = click.option("--workers", type=int, metavar="N", help="Runs computed at once; default: one per core.")
