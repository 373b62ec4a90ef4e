"""report.html: one page from a results folder, with what it loads on demand in `runs/`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypedDict

import jinja2
from markupsafe import Markup

from l4slab import _core
from l4slab.base.progress import Told, silent
from l4slab.live import page as live
from l4slab.plot.roles import OnThePage
from l4slab.report import cases, chosen, drawings, grids, provenance, runs, strips, summary, tables
from l4slab.report.results import MAX_CASES, Case, Folder, load, replace
from l4slab.sweep import Plan

# Figures are unfolded up to this height of the page; the others show their caption.
_UNFOLDED_PX = 4000
_CASE_PX = 900  # of a case with all its panels, about


class Later(TypedDict):
    """What the page draws when it is unfolded: its place among these, and the caption."""

    number: int
    caption: str


class ShownCase(TypedDict):
    """A case in words and figures."""

    label: str
    words: list[tuple[str, str]]
    many: list[summary.Many]
    drawn: Later
    packets: Markup | None
    open: bool


class Experiment(TypedDict):
    """An experiment with its cases. For a study that chooses figures, only its description."""

    name: str
    title: str
    about: str
    file: str
    runs: int
    cases: list[ShownCase]
    omitted: int
    open: bool


def write_report(
    out_dir: Path | str, plans: Mapping[str, Plan] | None = None, told: Told = silent, url: str | None = None
) -> Path:
    """Write `report.html` from the tables and experiment files in `out_dir`; its path.

    `plans` are those of the experiment files, by name, where the caller has them; `told` hears of progress; `url` is
    where the folder goes, if it is a working copy. Runs of
    large results are written into `runs/`. The page of `l4slab live`, in which every run can be changed, is
    written as `live.html` where it is built and has the simulator in it.

    The same folder gives the same bytes, and the page needs no network. Raises InputError where an experiment file
    in the folder cannot be read, OSError where the page cannot be written.
    """
    path = Path(out_dir) / "report.html"
    page = render(load(Path(out_dir), plans or {}, url), told)
    replace(path, lambda file: file.write_text(page, encoding="utf-8"))
    return path


def save_figures(out_dir: Path | str, kind: str, plans: Mapping[str, Plan] | None = None) -> list[Path]:
    """Write every figure of the report into `figures/`, as "png", "pdf" or "svg"; the paths."""
    return drawings.save(load(Path(out_dir), plans or {}), kind)


def render(folder: Folder, told: Told = silent) -> str:
    """The page as text; writes what it loads on demand."""
    told("Writing the runs", None)
    embedded = runs.embedded(folder)
    if embedded is None:
        runs.write(folder, told)
    told("Writing the report", None)
    results = grids.results(folder)
    is_own, are_chosen = folder.is_own, drawings.are_chosen(folder)
    shown = _Shown()
    # In the order of the page, so that the first are unfolded.
    overview = strips.overview(folder) if is_own else None
    comparison = None if is_own or are_chosen else strips.comparison(folder)
    experiments = [_experiment(folder, name, shown) for name in folder.experiments] if is_own else []
    figures = [shown.figure(figure) for figure in chosen.of_the_study(folder)] if are_chosen else []
    experiments = experiments or [_experiment(folder, name, shown) for name in folder.experiments]
    index = {
        "tables": [{"name": grid["name"], "file": grid["file"]} for grid in results],
        "cases": shown.cases,
        "figures": shown.panels,
        "looks": _looks(folder),
        "runs": embedded,
        "form": runs.form(),
        "files": runs.other_files(folder),
        "live": _live(folder.folder / "live.html"),
    }
    parts = {
        "is_own": is_own,
        "apart": summary.apart(folder),
        "ranges": summary.over_the_cases(folder) if is_own else None,
        "cases": len(folder.cases),
        "overall": summary.of_all(folder) if is_own and len(folder.cases) > 1 else [],
        "overview": overview,
        "comparison": comparison,
        "figures": figures,
        "lists": tables.lists(folder, tables.verdicts(folder)),
        "agreement": tables.agreement(folder),
        "references": tables.references(folder),
        "run_tables": grids.of_the_study(folder),
        "experiments": experiments,
        "grids": [{**grid, "text": _script_safe(grid["text"])} for grid in results],
    }
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            title=folder.title,
            about=folder.about,
            version=_core.version(),
            contents=_contents(parts),
            command=folder.command,
            part=folder.part,
            shortfall=folder.shortfall,
            files=[(e.file.name, e.source.decode("utf-8-sig")) for e in folder.files],
            index=_script_safe(json.dumps(index, separators=(",", ":"), ensure_ascii=False, allow_nan=False)),
            provenance=_script_safe(provenance.of(folder.folder)),
            text_of=text_of,
            **parts,
        )
    )


def _live(path: Path) -> bool:
    """Whether the page on which a run can be changed stands there; it is written where it is not this one."""
    text = "" if live.built() is None else live.document()
    if not live.simulates(text):
        return path.is_file()
    page = text.encode()
    if not path.is_file() or path.read_bytes() != page:
        replace(path, lambda file: file.write_bytes(page))
    return True


def _contents(parts: Mapping[str, object]) -> list[tuple[str, str]]:
    """The sections that the page has, as (id, name)."""
    sections = [
        ("what-happened", "What happened", parts["is_own"]),
        ("verdict", "Verdict", parts["lists"]),
        ("figures", "Figures", parts["figures"] or parts["comparison"]),
        ("claims", "Statements", parts["lists"]),
        ("published", "Measured against published", parts["agreement"] or parts["references"]),
        ("experiments", "Experiments", not parts["is_own"]),
        ("runs", "Runs of the study", parts["run_tables"]),
        ("results", "Results", parts["grids"]),
        ("reproduce", "How to reproduce", True),
    ]
    return [(id_, name) for id_, name, there in sections if there]


def _experiment(folder: Folder, experiment: str, shown: _Shown) -> Experiment:
    """An experiment with its cases in words and figures. For a study that chooses figures, only its description."""
    is_own = folder.is_own
    of_it = [case for case in folder.cases if case.experiment == experiment]
    drawn = of_it[: max(MAX_CASES - len(shown.cases), 0)] if is_own or not drawings.are_chosen(folder) else []
    cases_: list[ShownCase] = []
    for case in drawn:
        # A folded case costs nothing until the user opens it; then the page draws it.
        is_open = shown.has_room and (not cases_ or not is_own)
        cases_.append(
            {
                "label": case.level_text or "Over time",
                "words": summary.of_case(folder, case),
                "many": summary.of_many(folder, case),
                "drawn": shown.case(folder, case, is_open=is_open),
                "packets": shown.packets(folder, case) if is_open else None,
                "open": is_open,
            }
        )
    file = folder.file(experiment)
    return {
        "name": experiment,
        "title": file.title,
        "about": "" if file.about == folder.about else file.about,
        "file": file.file.name,
        "runs": folder.flows.filter(experiment=experiment)["run"].n_unique(),
        "cases": cases_,
        "omitted": len(of_it) - len(drawn) if drawn else 0,
        "open": any(case["open"] for case in cases_),
    }


def _looks(folder: Folder) -> dict[str, dict[str, OnThePage]]:
    """Colour and dashes of each flow with each of its controllers ("" for none)."""
    found: dict[str, dict[str, OnThePage]] = {}
    for (flow, cc), look in folder.looks.items():
        found.setdefault(flow, {})[cc or ""] = look.on_the_page
    return found


class _Shown:
    """What the page draws, and how much of it is unfolded."""

    def __init__(self) -> None:
        self.cases: list[cases.Drawn] = []
        self.panels: list[chosen.Panels] = []
        self._number, self._left_px = 0, float(_UNFOLDED_PX)

    @property
    def has_room(self) -> bool:
        """Whether what comes next is unfolded."""
        return self._left_px > 0 or not self._number

    def case(self, folder: Folder, case: Case, *, is_open: bool) -> Later:
        """The place of a case among those that the page draws, and its caption."""
        self.cases.append(cases.of(folder, case))
        self._number += 1
        self._left_px -= _CASE_PX * is_open
        return {"number": len(self.cases) - 1, "caption": cases.note(folder, case, self.cases[-1])}

    def packets(self, folder: Folder, case: Case) -> Markup | None:
        """Each packet of a stack, which needs matplotlib; None where there is no log, as is usual."""
        drawn = drawings.packets(folder, case)
        return None if drawn is None else drawings.element(drawn.figure, drawn.caption, self._number)

    def figure(self, figure: chosen.Chosen) -> chosen.Chosen:
        """A figure that a file chooses, with its place in the page."""
        figure.open = self.has_room
        self._number += 1
        self._left_px -= figure.height_px
        if figure.panels is not None:
            figure.place = len(self.panels)
            self.panels.append(figure.panels)
        return figure


def _script_safe(text: str | None) -> Markup | None:
    """JSON inside a script element, where nothing is escaped and only this could end it."""
    return None if text is None else Markup(text.replace("<", "\\u003c"))  # noqa: S704


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
