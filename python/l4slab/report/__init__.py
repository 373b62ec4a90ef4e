"""report.html: one self-contained page from a results folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup
from matplotlib.figure import Figure

from l4slab import __version__, plot
from l4slab import figures as study_figures
from l4slab.report import explorer, runs, tables
from l4slab.report.results import Case, Folder, load, replace
from l4slab.sweep import Plan

# Static figures of at most so many cases; the interactive view and the tables go on.
MAX_FIGURE_CASES = 12
MAX_COMPARED_CASES = 60


def write_report(out_dir: Path | str, plans: Mapping[str, Plan] | None = None) -> Path:
    """Write `report.html` from the tables and experiment files in `out_dir`; its path.

    `plans` are those of the experiment files, by name, where the caller has them.

    The same folder gives the same bytes, and the page needs no network. Raises InputError where an experiment file
    in the folder cannot be read, OSError where the page cannot be written.
    """
    path = Path(out_dir) / "report.html"
    page = render(load(Path(out_dir), plans or {}))
    replace(path, lambda file: file.write_text(page, encoding="utf-8"))
    return path


def render(folder: Folder) -> str:
    """The page as text."""
    figures = _Figures(folder)
    drawn = figures.of_the_study()
    verdicts = tables.verdicts(folder)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            title=folder.title,
            about=folder.about,
            version=__version__,
            verdicts=verdicts,
            lists=tables.lists(folder, verdicts),
            agreement=tables.agreement(folder),
            references=tables.references(folder),
            figures=drawn,
            run_tables=runs.of_the_study(folder),
            comparison=None if drawn else figures.comparison(),
            sections=[_section(folder, experiment, figures) for experiment in folder.experiments],
            explorer=_json(explorer.data(folder)),
            flows=tables.results(folder, "flows"),
            links=tables.results(folder, "links"),
            command=folder.command,
            shortfall=folder.shortfall,
            files=[(e.file.name, e.source.decode("utf-8-sig")) for e in folder.files],
            style=text_of("templates/report.css"),
            chart_style=text_of("vendor/uPlot.min.css"),
            chart_library=text_of("vendor/uPlot.iife.min.js"),
            script=text_of("templates/report.js"),
        )
    )


def _section(folder: Folder, experiment: str, figures: _Figures) -> dict[str, Any]:
    cases = [case for case in folder.cases if case.experiment == experiment]
    drawn = [] if figures.chosen else [figures.case(case) for case in cases if figures.room()]
    return {
        "name": experiment,
        "title": folder.file(experiment).title,
        "about": folder.file(experiment).about,
        "cases": drawn,
        "omitted": 0 if figures.chosen else len(cases) - len(drawn),
        "set_up": tables.set_up(folder, experiment),
        "set_up_omitted": max(len(cases) - tables.MAX_SET_UPS, 0),
        "runs": tables.runs(folder, experiment),
    }


class _Figures:
    """Draws the page's figures, each once, with ids that differ from every other's.

    Figures that the files choose take the place of those of every case.
    """

    def __init__(self, folder: Folder):
        self.folder, self.number, self.cases = folder, 0, 0
        self.chosen = any(experiment.tables(study_figures.Figure) for experiment in folder.files)

    def of_the_study(self) -> list[dict[str, Any]]:
        if not self.chosen:
            return []
        drawn = []
        files = sorted(self.folder.files, key=lambda file: not file.is_study)  # the study's first, as among the claims
        for figure, drawing in study_figures.draw(files, self.folder.arrow(), self.folder.senders):
            svg = self._svg(drawing, figure.caption or figure.id)
            if svg is not None:
                drawn.append({"id": figure.id, "svg": svg, "caption": figure.caption, "source": figure.source})
        return drawn

    def room(self) -> bool:
        return self.cases < MAX_FIGURE_CASES

    def comparison(self) -> Markup | None:
        folder = self.folder
        if not 1 < len(folder.cases) <= MAX_COMPARED_CASES:
            return None
        figure = plot.comparison(
            folder.flows,
            cases=[case.levels if folder.factors else {"experiment": case.experiment} for case in folder.cases],
            labels=[case.label(folder) for case in folder.cases],
            names=folder.senders,
            published=folder.published,
        )
        many = f"{len(folder.cases)} cases"
        return self._svg(figure, f"Rate and delay of every flow, {many} side by side. The numbers are under Results.")

    def case(self, case: Case) -> dict[str, Any]:
        self.cases += 1
        series, warmup_s = self.folder.series_of(case), self.folder.warmup_s(case)
        trial = plot.median_trial(series, warmup_s)
        known = self.folder.published
        over_time = plot.time_series(
            series,
            flows=self.folder.senders_of(case),
            warmup_s=warmup_s,
            trial=trial,
            published=None if self.folder.factors else known.filter(pl.col("experiment") == case.experiment),
        )
        inside = plot.inside(series, warmup_s=warmup_s, trial=trial)
        name = case.label(self.folder)
        return {
            "label": case.level_text,
            "trial": trial,
            "trials": series["trial"].n_unique(),
            "warmup_s": warmup_s,
            "over_time": self._svg(over_time, f"{name}: delivery rate and round-trip time of each flow over time."),
            "inside": self._svg(inside, f"{name}: Classic, coupled and native marking probability over time."),
        }

    def _svg(self, figure: Figure | None, alternative: str) -> Markup | None:
        """The figure as an element of the page, with a text for those who cannot see it."""
        if figure is None:
            return None
        self.number += 1
        return element(figure, alternative, self.number)


def element(figure: Figure, alternative: str, number: int = 1) -> Markup:
    """The figure as part of a page, with a text for those who cannot see it; `number` tells its ids from others'."""
    svg = plot.to_page(figure)
    own = f"f{number}-"
    svg = re.sub(r'(?<= id=")|(?<=url\(#)|(?<=href="#)', own, svg)
    opening = f'<svg role="img" aria-label="{escape(alternative)}" '
    svg = re.sub(r"<svg (?=[^>]*>)", opening, svg, count=1)
    return Markup(re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2))  # noqa: S704  (our own drawing)


def _json(value: object) -> Markup:
    import json

    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Inside a script element nothing is escaped, and only this could end it.
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704


@cache
def text_of(name: str) -> Markup:
    """A file of this package, such as a style sheet, as it stands."""
    return Markup((files("l4slab.report") / name).read_text(encoding="utf-8"))  # noqa: S704  (our own file)


@cache
def environment() -> jinja2.Environment:
    """Where the templates of pages are."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("l4slab.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
