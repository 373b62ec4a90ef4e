"""A results folder written anew from its runs, and what differs between the given one and this."""

from __future__ import annotations

import filecmp
import hashlib
import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path

import polars as pl

from l4slab import plot
from l4slab.base import metrics
from l4slab.campaign.store import DIGESTS, SIGN, digests_of
from l4slab.sweep import Run
from l4slab.tools.verify import pages
from l4slab.tools.verify.findings import MOST, Finding, of_tables, of_texts, of_values, shown, table_of
from l4slab.tools.verify.given import Given

_KINDS = ("png", "pdf", "svg")
_OF_RUN = re.compile(r'l4slab\.run\("(\w+)","([\w+/=]*)"\)\n')
_OF_TABLE = re.compile(r'l4slab\.table\("(\w+)",(.*)\)\n', re.DOTALL)


def prepare(given: Given, folder: Path) -> None:
    """Make the folder one of results with the experiment files of the given one, and without runs."""
    shutil.copytree(given.folder / "experiments", folder / "experiments")
    (folder / SIGN).touch()


def link(given: Given, known: Mapping[str, Run], again: Path, folder: Path) -> None:
    """Let the folder have the captures and the files of the laboratory that the given one has, or `again`."""
    source = given.folder if given.is_folder else again
    for place in ("captures", "lab"):
        for run, one in known.items():
            if (path := source / place / (run if given.is_folder else one.id)).is_dir():
                (folder / place).mkdir(exist_ok=True)
                (folder / place / one.id).symlink_to(path.resolve(), target_is_directory=True)


def figures(given: Given, notes: list[str]) -> list[str]:
    """The kinds of the files in `figures/` that can be drawn here as they were drawn there."""
    paths = (given.folder / "figures").glob("*.*") if given.is_folder else ()
    kinds = sorted({path.suffix[1:] for path in paths} & {*_KINDS})
    if not kinds:
        return []
    reason = given.of_another_build("matplotlib") if plot.AVAILABLE else 'they need "pip install l4slab[plot]"'
    if reason is not None:
        notes.append(f"The files in figures/ are not compared: {reason}.")
        return []
    return kinds


def differences(
    given: Given,
    folder: Path,
    again: Path,
    ids: Mapping[str, str],
    runs: Collection[str] | None,
    notes: list[str],
) -> Iterator[Finding]:
    """What differs in tables, digests, report and the other files.

    `again` has the captures of runs that were computed again; `ids` are the given ids of runs that have others in
    `folder`. With `runs`, `folder` has only these.
    """
    if given.is_folder:
        for table in (*metrics.TABLES, *(("claims", "published") if runs is None else ())):
            yield from _of_table(given.folder, folder, f"{table}.parquet", ids, runs)
        yield from _of_digests(given.folder, folder, ids, runs)
    if given.page is None and given.broken is None:
        notes.append(f"There is no {pages.FILE}; tables and verdicts were compared.")
    elif given.page is not None:
        text = (folder / pages.FILE).read_text(encoding="utf-8")
        yield from pages.differences(given.page, pages.read(_renamed(text, ids)), runs)
    if given.is_folder:
        yield from _of_files(given, folder, again, ids)


def _of_table(
    found: Path, again: Path, name: str, ids: Mapping[str, str], runs: Collection[str] | None
) -> Iterator[Finding]:
    if not (found / name).is_file():
        yield Finding(name, (), "no such file", "a table")
        return
    if not ids and filecmp.cmp(found / name, again / name, shallow=False):
        return
    computed = pl.read_parquet(again / name)
    if "run" in computed.columns and ids:
        computed = computed.with_columns(pl.col("run").replace(ids))
    try:
        given = pl.read_parquet(found / name)
    except (pl.exceptions.PolarsError, OSError):
        yield Finding(name, (), "what cannot be read", "a table")
        return
    if runs is not None and "run" in given.columns:
        given = given.filter(pl.col("run").is_in(list(runs)))
        # Of other runs there may be more columns.
        given = given.select(one for one in given if one.name in computed.columns or one.null_count() < len(one))
    yield from islice(of_tables(name, given, computed), MOST)


def _of_digests(found: Path, again: Path, ids: Mapping[str, str], runs: Collection[str] | None) -> Iterator[Finding]:
    if not (found / DIGESTS).is_file():
        yield Finding(DIGESTS, (), "no such file", "digests")
        return
    given, computed = digests_of(found), digests_of(again)
    of_runs = table_of(given.get("runs"))
    if runs is not None:
        of_runs = {run: of_runs.get(run) for run in runs}
    pairs = {"run": (of_runs, {ids.get(run, run): one for run, one in computed["runs"].items()})}
    if runs is None:
        pairs["table"] = table_of(given.get("tables")), computed["tables"]
    for part, pair in pairs.items():
        for place, a, b in islice(of_values(*pair), MOST):
            yield Finding(DIGESTS, (f"digest of {part}", *place), shown(a), shown(b))


def _renamed(text: str, ids: Mapping[str, str]) -> str:
    return re.sub("|".join(map(re.escape, ids)), lambda match: ids[match[0]], text) if ids else text


def _of_files(given: Given, folder: Path, again: Path, ids: Mapping[str, str]) -> Iterator[Finding]:
    """What the page loads, captures of runs that were computed again, and figures."""
    for path in sorted((folder / "runs").rglob("*.js")):
        name = _renamed(path.relative_to(folder).as_posix(), ids)
        if not (given.folder / name).is_file():
            yield Finding(name, (), "no such file", "what the page opens")
        else:
            yield from of_scripts(name, (given.folder / name).read_bytes(), path.read_text("utf-8"), ids)
    for path in sorted((folder / "figures").glob("*")):
        yield from _of_bytes(f"figures/{path.name}", given.folder / "figures" / path.name, path)
    for path in sorted((again / "captures").rglob("*.pcap*")):
        if (run := path.parent.name) not in ids:  # which the packets' title has
            yield from _of_bytes(f"captures/{run}/{path.name}", given.folder / "captures" / run / path.name, path)
    live, wanted = given.folder / "live.html", given.provenance.get("live")
    found = hashlib.sha256(live.read_bytes()).hexdigest() if live.is_file() else None
    if wanted is not None and found != wanted:
        yield Finding(live.name, ("SHA-256",), shown(found), shown(wanted))


def of_scripts(name: str, found: bytes, again: str, ids: Mapping[str, str]) -> Iterator[Finding]:
    """Differences of a script with a run or a table."""
    text = found.decode("utf-8", "replace")
    for pattern in (_OF_RUN, _OF_TABLE):
        computed = pattern.fullmatch(_renamed(again, ids) if pattern is _OF_RUN else again)
        if computed is None:
            continue
        given = pattern.fullmatch(text)
        if given is None or given[1] != computed[1]:
            yield of_texts(name, (), text, again)
        elif pattern is _OF_RUN:
            yield from pages.of_runs(name, computed[1], given[2], computed[2])
        else:
            try:
                one = json.loads(given[2])
            except ValueError:
                one = None
            yield from islice(pages.of_grids(name, computed[1], one, json.loads(_renamed(computed[2], ids))), MOST)


def _of_bytes(name: str, found: Path, again: Path) -> Iterator[Finding]:
    if not found.is_file():
        yield Finding(name, (), "no such file", f"{again.stat().st_size} bytes")
        return
    a, b = found.read_bytes(), again.read_bytes()
    if a != b:
        at = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        yield Finding(name, (f"byte {at + 1}",), f"{len(a)} bytes", f"{len(b)} bytes, and others from here on")
