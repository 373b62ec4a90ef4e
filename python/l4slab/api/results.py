"""The results of a campaign: its tables, SQL over them, figures, and their display in a notebook."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from l4slab import experimentfile
from l4slab.base import damage, frames, metrics, paths
from l4slab.base.arguments import checked
from l4slab.base.errors import InputError
from l4slab.base.numbers import counted
from l4slab.campaign import remote
from l4slab.campaign.store import with_engine
from l4slab.experimentfile import Experiment, show
from l4slab.results import claims, precision, printed
from l4slab.sweep import Run, sql_reason

if TYPE_CHECKING:
    from l4slab.report.plots import Plots

_TABLES = (*metrics.TABLES, "claims", "published")
# In a notebook. The report has them all.
_SHOWN_CLAIMS = 30
_SHOWN_CASES = 12


@dataclass(frozen=True)
class Results:
    """The tables of a campaign as polars DataFrames (columns: docs/results.md), and the runs that failed.

    `folder` is where they are kept, None where they are only here; `report` where report.html is.
    """

    folder: Path | None
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    failures: list[tuple[Run, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    report: str | None = None
    _experiments: Sequence[Experiment] = field(default=(), repr=False)
    _copy: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)  # holds what came from a URL

    def _table(self, name: str) -> pl.DataFrame:
        if self.folder is None:
            return self.tables[name]
        with self._whole():
            rows = pl.read_parquet(self.folder / f"{name}.parquet")
        return with_engine(rows, self.folder) if name in metrics.TABLES else rows

    @cached_property
    def flows(self) -> pl.DataFrame:
        """A row per run and flow group."""
        return self._table("flows")

    @cached_property
    def members(self) -> pl.DataFrame:
        """A row per run and single flow, where the file says `per_flow = true`."""
        return self._table("members")

    @cached_property
    def links(self) -> pl.DataFrame:
        """A row per run and link queue."""
        return self._table("links")

    @cached_property
    def series(self) -> pl.DataFrame:
        """A row per run, sample time and flow or link queue."""
        return self._table("series")

    @cached_property
    def transfers(self) -> pl.DataFrame:
        """A row per run and completed transfer."""
        return self._table("transfers")

    @cached_property
    def histograms(self) -> pl.DataFrame:
        """A row per run, distribution and bin that is not empty."""
        return self._table("histograms")

    @cached_property
    def losses(self) -> pl.DataFrame:
        """A row per run, flow group, place and reason: packets that were lost."""
        return self._table("losses")

    def overflows(self) -> list[str]:
        """A sentence for each impairment whose limit has lost packets: it is netem's own, of which nobody thinks."""
        lost = self.losses.filter(pl.col("lost_at").str.starts_with("impair."), lost_by="overflow")
        sums = lost.group_by("lost_at", maintain_order=True).agg(pl.col("lost_packets").sum(), pl.col("run").n_unique())
        return [
            f"[{place}]: its limit lost {packets} packets, in {runs} run{'s' if runs > 1 else ''} (losses.parquet has "
            'them by flow); if that is not meant, write a larger limit, such as netem = "... limit 100000"'
            for place, packets, runs in sums.iter_rows()
        ]

    def precision(self) -> list[str]:
        """How many runs were as precise as their file asks, in sentences; nothing if no file does."""
        return precision.sentences(self.flows)

    @cached_property
    def claims(self) -> pl.DataFrame:
        """A row per claim with its verdict."""
        return self._table("claims")

    @cached_property
    def published(self) -> pl.DataFrame:
        """A row per published figure with what is measured here."""
        return self._table("published")

    @cached_property
    def experiments(self) -> Sequence[Experiment]:
        """The experiments as their files have them."""
        if self.folder is None:
            return self._experiments
        return [experimentfile.load(file) for file in sorted((self.folder / "experiments").glob("*.toml"))]

    @checked("query", "columns")
    def sql(self, query: str, columns: Sequence[str] = ()) -> pl.DataFrame:
        """One SELECT, in DuckDB's SQL, over these tables, of all experiments.

        Raises InputError, also where the query does not give these columns.
        """
        with self._whole():
            return self._selected(query, columns)

    def _selected(self, query: str, columns: Sequence[str]) -> pl.DataFrame:
        import duckdb

        sources = {name: self._source(name) for name in (*metrics.TABLES, "claims", "published")}
        with claims.connect_to(sources) as connection:
            for name in metrics.TABLES:
                connection.execute(f"create temp view {name} as from all_{name}")
            for name in ("claims", "published"):
                claims.register(connection, name, self._source(name))
            try:
                return frames.fetch(claims.select(connection, query, self.folder or Path("results"), "", columns))
            except duckdb.Error as error:
                if self.folder is not None and damage.damaged(self.folder) is not None:
                    raise
                raise InputError(f"sql = {show(query)} cannot be evaluated: {sql_reason(error)}") from None

    def _whole(self) -> AbstractContextManager[None]:
        return nullcontext() if self.folder is None else damage.told(self.folder, self.folder)

    def _source(self, name: str) -> pl.DataFrame | Path:
        # Tables that are read already are not read again. A query reads only the columns that it needs.
        if self.folder is None or name in vars(self):
            frame: pl.DataFrame = getattr(self, name)
            return frame
        file = self.folder / f"{name}.parquet"
        is_complete = name not in metrics.TABLES or metrics.LABELS.keys() <= pl.read_parquet_schema(file).keys()
        return file if is_complete else self._table(name)

    @property
    def plot(self) -> Plots:
        """Figures of these results."""
        from l4slab.report.plots import Plots

        return Plots(self)

    def __repr__(self) -> str:
        return f"<l4slab.Results: {self._summary()}>"

    def __str__(self) -> str:
        """The flows, claims and published numbers as on the terminal."""
        return "\n".join([printed.text(self), *(f"{run}: the run failed: {reason}" for run, reason in self.failures)])

    def _summary(self) -> str:
        runs, experiments = self.flows["run"].n_unique(), list(self.flows["experiment"].unique(maintain_order=True))
        named = f"{len(experiments)} experiments" if len(experiments) > 3 else ", ".join(experiments)
        parts = [f"{counted(runs, 'run')} of {named}"]
        if len(self.failures):
            parts.append(f"{len(self.failures)} failed")
        if len(self.claims):
            parts += [tally.text for tally in claims.tally(self.claims)]
        return ", ".join(parts)

    def _repr_html_(self) -> str:
        """Verdicts and the first figure, for a notebook."""
        from l4slab import plot

        shown = [f"<p>{escape(self._summary())}</p>"]
        if len(self.claims):
            listed = self.claims.with_columns(
                claims.as_expected().alias("expected"), claims.as_recorded().alias("as_recorded")
            ).head(_SHOWN_CLAIMS)
            rows = "".join(map(_claim_row, metrics.rows_of(listed, claims.JudgedRow)))
            head = "".join(f'<th style="text-align:left">{name}</th>' for name in ("", "", "says", "evidence"))
            shown.append(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
            if (more := len(self.claims) - _SHOWN_CLAIMS) > 0:
                shown.append(f"<p>… and {more} more: see <code>claims</code>.</p>")
        figure = self.plot.overview(cases=_SHOWN_CASES) if plot.AVAILABLE else None
        if figure is not None:
            svg = plot.to_svg(figure)
            shown.append(svg[svg.index("<svg") :])
        return "\n".join(shown)


def _claim_row(claim: claims.JudgedRow) -> str:
    evidence = json.loads(claim["evidence"])
    numbers = ", ".join(f"{name} = {_short(value)}" for name, value in evidence.items())
    decided = claim["verdict"] in ("holds", "fails")
    verdict = claims.shown_verdict(claim["kind"], claim["verdict"])
    mark = "✓" if claim["expected"] else "✗" if decided else "?"
    cells = (f"{mark} {verdict}", claim["kind"], claim["says"] or claim["id"], numbers)
    return (
        "<tr>"
        + "".join(f'<td style="text-align:left;padding-right:1em">{escape(cell)}</td>' for cell in cells)
        + "</tr>"
    )


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@checked("place")
def open(place: Path | str) -> Results:  # noqa: A001  (said as l4slab.open)
    """The results that are in a folder, or at a URL that fsspec knows; nothing is written there.

    Raises InputError where there are none, StoreError where the URL cannot be reached.
    """
    copy = None
    folder = Path(place) if remote.is_url(place) else paths.usable(place)
    if remote.is_url(place):
        copy = tempfile.TemporaryDirectory(prefix="l4slab-")
        folder = Path(copy.name)
        remote.fetch_tables(str(place), folder)
    require_results(folder, place)
    if missing := [name for name in _TABLES if not (folder / f"{name}.parquet").is_file()]:
        raise InputError(f'has no {missing[0]}.parquet; write the tables with "l4slab report {place}"', file=place)
    return Results(folder, report=f"{str(place).rstrip('/')}/report.html", _copy=copy)


def require_results(folder: Path, place: Path | str) -> None:
    """Raises InputError where a folder, which the user calls `place`, has no results."""
    if (folder / "experiments").is_file():
        raise InputError("is a file, and l4slab keeps a folder there; move it away", file=folder / "experiments")
    if not (folder / "experiments").is_dir():
        raise no_results(place)


def no_results(place: Path | str) -> InputError:
    """The message about a place without results."""
    return InputError('is not a results folder; give a DIR that "l4slab run --out DIR" has written', file=place)
