"""report.html: one page from a results folder, with what it loads on demand in `runs/`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypedDict

import jinja2
from markupsafe import Markup

from l4slab import _core, plot
from l4slab.base.progress import Told, silent
from l4slab.live import page as live
from l4slab.report import drawings, grids, runs, summary, tables
from l4slab.report.drawings import Drawn
from l4slab.report.results import Case, Folder, load, replace
from l4slab.sweep import Plan

# Figures are unfolded up to this height of the page; the others show their caption.
_UNFOLDED_PX = 4000
_WIDTH_PX = 1000  # of the figures, on a large screen


class Element(TypedDict):
    """A figure of the page."""

    id: str
    svg: Markup
    caption: str
    summary: str
    source: str
    open: bool


class Later(TypedDict):
    """A case that the page draws when it is unfolded: its place among these, and the caption."""

    number: int
    caption: str


class ShownCase(TypedDict):
    """A case in words and figures."""

    label: str
    words: list[tuple[str, str]]
    figures: list[Element]
    folded: Later | None
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


def write_report(out_dir: Path | str, plans: Mapping[str, Plan] | None = None, told: Told = silent) -> Path:
    """Write `report.html` from the tables and experiment files in `out_dir`; its path.

    `plans` are those of the experiment files, by name, where the caller has them; `told` hears of progress. Runs of
    large results are written into `runs/`. The page of `l4slab live`, in which every run can be changed, is
    written as `live.html` where it is built and has the simulator in it.

    The same folder gives the same bytes, and the page needs no network. Raises InputError where an experiment file
    in the folder cannot be read, OSError where the page cannot be written.
    """
    path = Path(out_dir) / "report.html"
    page = render(load(Path(out_dir), plans or {}), told)
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
    overview = drawings.overview(folder) if is_own and plot.AVAILABLE else None
    first = [shown.one(overview)] if overview else []
    experiments = [_experiment(folder, name, shown) for name in folder.experiments] if is_own else []
    compared = plot.AVAILABLE and not (is_own or are_chosen)
    comparison = drawings.comparison(folder) if compared else None
    figures = shown.all([comparison] if comparison else [])
    figures += shown.all(drawings.of_the_study(folder)) if are_chosen and plot.AVAILABLE else []
    experiments = experiments or [_experiment(folder, name, shown) for name in folder.experiments]
    index = {
        "tables": [{"name": grid["name"], "file": grid["file"]} for grid in results],
        "cases": shown.folded,
        "runs": embedded,
        "form": runs.form(),
        "files": runs.other_files(folder),
        "live": _live(folder.folder / "live.html"),
    }
    parts = {
        "is_own": is_own,
        "can_draw": plot.AVAILABLE,
        "overall": summary.over_the_cases(folder) if is_own else [],
        "overview": first,
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
        ("figures", "Figures", parts["figures"]),
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
    drawn = of_it[: max(drawings.MAX_CASES - shown.cases, 0)] if is_own or not drawings.are_chosen(folder) else []
    shown.cases += len(drawn)
    cases: list[ShownCase] = []
    for case in drawn:
        # A folded case costs nothing until the user opens it; then the page draws it.
        is_open = shown.has_room and (not cases or not is_own)
        cases.append(
            {
                "label": case.level_text or "Over time",
                "words": summary.of_case(folder, case),
                "figures": shown.all(drawings.of_case(folder, case)) if is_open else [],
                "folded": None if is_open else shown.later(folder, case),
                "open": is_open or (is_own and not plot.AVAILABLE and not cases),
            }
        )
    file = folder.file(experiment)
    return {
        "name": experiment,
        "title": file.title,
        "about": "" if file.about == folder.about else file.about,
        "file": file.file.name,
        "runs": folder.flows.filter(experiment=experiment)["run"].n_unique(),
        "cases": cases,
        "omitted": len(of_it) - len(drawn) if drawn else 0,
        "open": any(case["open"] for case in cases),
    }


class _Shown:
    """Turns figures into elements of the page, each with ids that differ from every other's."""

    def __init__(self) -> None:
        self.number, self.cases, self._left_px = 0, 0, float(_UNFOLDED_PX)
        self.folded: list[drawings.Folded] = []

    @property
    def has_room(self) -> bool:
        """Whether what comes next is unfolded. The page itself draws what is folded, so that needs no matplotlib."""
        return plot.AVAILABLE and (self._left_px > 0 or not self.number)

    def later(self, folder: Folder, case: Case) -> Later:
        """The place of a case among those that the page draws when they are unfolded, and its caption."""
        self.folded.append(drawings.of_folded(folder, case))
        return {"number": len(self.folded) - 1, "caption": drawings.note_of_folded(folder, case, self.folded[-1])}

    def all(self, drawn: Iterable[Drawn]) -> list[Element]:
        return [self.one(figure) for figure in drawn]

    def one(self, drawn: Drawn) -> Element:
        self.number += 1
        self._left_px -= drawn.aspect * _WIDTH_PX
        return {
            "id": drawn.id,
            "svg": drawings.element(drawn.figure, drawn.caption or drawn.id, self.number),
            "caption": drawn.caption,
            "summary": drawn.summary,
            "source": drawn.source,
            "open": self._left_px > 0 or self.number == 1,
        }


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
