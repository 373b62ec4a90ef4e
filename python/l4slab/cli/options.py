"""Options that several commands have, and what the shell completes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from l4slab import _core
from l4slab.base.packaged import comparisons, studies
from l4slab.cli import terminal
from l4slab.engines.registry import DEFAULT, ENGINES, engines, folder_name

# What `l4slab list` has lists of.
LISTED = (
    "qdiscs",
    "policers",
    "controllers",
    "transport",
    "media-controllers",
    "media",
    "traffic",
    "stacks",
    "studies",
    "comparisons",
)


def engine_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes the name of an engine."""
    return [name for name in engines() if name.startswith(incomplete)]


def study_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the name of a study."""
    return [CompletionItem(name) for name in studies() if name.startswith(incomplete)]


def comparison_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the name of a packaged comparison, or a file."""
    found = [CompletionItem(name) for name in comparisons() if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def listed_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the arguments of `l4slab list`."""
    kinds = [CompletionItem(name) for name in LISTED]
    described = [
        CompletionItem(entry["name"], help=entry["summary"])
        for entry in (
            *_core.qdiscs(),
            *_core.trees(),
            *_core.controllers(),
            _core.transport(),
            *_core.media_controllers(),
        )
    ]
    named = [CompletionItem(name) for name in (*studies(), *comparisons())]
    return [item for item in (*kinds, *described, *named) if item.value.startswith(incomplete)]


def qdisc_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the name of a queue."""
    return _named(_core.qdiscs(), incomplete)


def controller_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the name of a congestion control."""
    return _named(_core.controllers(), incomplete)


def stack_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the name of a packaged stack, and behind a colon its congestion control."""
    from l4slab import stacks

    name, colon, _ = incomplete.partition(":")
    if colon and name in stacks.names():
        controls = stacks.find(name).recipe.controllers
        return [CompletionItem(text) for cc in controls if (text := f"{name}:{cc}").startswith(incomplete)]
    found = [(name, stacks.find(name).recipe.summary) for name in stacks.names() if name.startswith(incomplete)]
    return [CompletionItem(name, help=summary) for name, summary in found]


def _named(entries: Iterable[Mapping[str, Any]], incomplete: str) -> list[CompletionItem]:
    names = [CompletionItem(one["name"], help=one["summary"]) for one in entries]
    return [item for item in names if item.value.startswith(incomplete)]


def stem(file: Path) -> str:
    """The name of an experiment file, or of the standard input."""
    return "stdin" if str(file) == "-" else file.stem


def refuse_empty(**given: str | None) -> None:
    """Refuses options with an empty value, for example from an empty variable of a script."""
    for name, value in given.items():
        if value is not None and not value.strip():
            raise click.UsageError(f"--{name.replace('_', '-')} is empty; give it a value, or leave it out")


def results_folder(stem: str, engine: str = DEFAULT) -> str:
    """The default results folder."""
    return str(Path("results") / folder_name(stem, engine))


def setting(text: str, option: str = "--option", example: str = "fallback=correct") -> tuple[str, str]:
    """NAME=VALUE, such as an option of a congestion control."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.UsageError(f'{option} {text} is not NAME=VALUE; write it such as "{example}"')
    return name, value


engine = click.option(
    "--engine",
    default=DEFAULT,
    show_default=True,
    metavar="|".join(ENGINES),
    shell_complete=engine_names,
    help="Engine that executes the runs.",
)
where = click.option("--where", metavar="SQL", help="Select runs, such as \"aqm = 'DualPI2' and trial = 1\".")
dask = click.option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster for the runs.")
dry_run = click.option("--dry-run", is_flag=True, help="Check the files; print what would run, its time and its size.")
workers = click.option("--workers", type=int, metavar="N", help="Runs at a time; default: one per core.")
memory = click.option(
    "--memory",
    metavar="SIZE",
    help="Memory that the runs at a time may need together, such as 4GiB; default: half of the machine's.",
)
captures = click.option(
    "--captures/--no-captures", default=True, help="Write the packet captures that the files request."
)
report = click.option(
    "--report/--no-report", default=True, help="Write report.html; l4slab report DIR writes it later."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, for scripts.")


def _be_quiet(context: click.Context, _parameter: click.Parameter, is_quiet: bool) -> None:
    context.meta[terminal.QUIET] = is_quiet


quiet = click.option(
    "-q", "--quiet", is_flag=True, expose_value=False, callback=_be_quiet, help="No progress and no notes."
)
