"""Files beside the experiment file that it names: traces, recipes of stacks, and with `reference` tables of published
figures, as CSV.

Lines that begin with `#` say where the figures are from and how exactly they could be read; the next has the columns.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from l4slab import stacks
from l4slab.base import frames
from l4slab.base.errors import InputError, one_line
from l4slab.base.values import Keys
from l4slab.experimentfile import Experiment, show
from l4slab.experimentfile.traces import is_beside
from l4slab.experimentfile.wording import PLACEHOLDER

if TYPE_CHECKING:
    import duckdb


def names(experiment: Experiment) -> list[str]:
    """The files that the experiment's tables name."""
    sections = (tables for tables in experiment.document.values() if isinstance(tables, list))
    found = (table.get("reference") for tables in sections for table in tables if isinstance(table, dict))
    return sorted({name for name in found if isinstance(name, str)} | _traces_and_recipes(experiment))


def _traces_and_recipes(experiment: Experiment) -> set[str]:
    """Those of links and flows, also those that a sweep names; of a name with {placeholders} all that it may be."""
    tables: list[Keys] = [*experiment.document["link"].values(), *experiment.document["flow"].values()]
    levels = [level.settings for levels in experiment.bundles.values() for level in levels]
    settings = [(key, value) for table in [*tables, *levels] for key, value in table.items()]
    settings += [(key, value) for key, values in experiment.factors.items() for value in values]
    found: set[str] = set()
    folder = experiment.file.parent
    for key, name in settings:
        last = key.split(".")[-1]
        if not isinstance(name, str) or not is_beside(name):
            continue
        if last == "stack" and "/" in name:
            found |= {str(path.relative_to(folder)) for path in stacks.sources(folder / name)}
        if last not in ("rate_trace", "delay_trace"):
            continue
        pattern = PLACEHOLDER.sub("*", glob.escape(name).replace("[{]", "{"))
        found |= {str(path.relative_to(folder)) for path in folder.glob(pattern)}
    return found


def contents(experiment: Experiment) -> dict[str, bytes]:
    """Each of these files as it is. Raises InputError where one is not there."""
    return {name: _read(experiment, name) for name in names(experiment)}


def register(connection: duckdb.DuckDBPyConnection, experiment: Experiment, name: str) -> None:
    """Make the file the table `reference`. Raises InputError."""
    try:
        text = _read(experiment, name).decode("utf-8-sig")
        frame = pl.read_csv(text.encode(), comment_prefix="#", infer_schema_length=None)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        reason = one_line(str(error)).partition(". ")[0]
        message = f"= {show(name)} is not a CSV table: {reason}; write a line of column names and a line per figure"
        raise InputError(message, file=experiment.file, key="reference") from None
    frames.register(connection, "reference", frame)


def check(experiments: Sequence[Experiment]) -> None:
    """Read every file. Raises InputError where one is missing, or two of one name differ: results keep one of each."""
    seen: dict[str, tuple[Experiment, bytes]] = {}
    for experiment in experiments:
        for name, content in contents(experiment).items():
            other, known = seen.setdefault(name, (experiment, content))
            if known != content:
                text = f"= {show(name)} is not the file of that name beside {other.file}; rename one of them"
                raise InputError(text, file=experiment.file, key="reference")


def _read(experiment: Experiment, name: str) -> bytes:
    file = experiment.file.parent / name
    try:
        return file.read_bytes()
    except OSError as error:
        reason = (
            "there is no such file" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        )
        text = f"= {show(name)}: {reason} beside the experiment file; put the table there as {file}"
        raise InputError(text, file=experiment.file, key="reference") from None
