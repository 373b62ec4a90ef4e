"""The report's figures as matplotlib draws them: files for papers, and what the page does not draw itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from markupsafe import Markup

from l4slab import plot
from l4slab.experimentfile import capacity
from l4slab.plot.figures import draw as draw_figures
from l4slab.plot.quantities import times_of
from l4slab.report.results import MAX_CASES, Case, Folder, packets_of, replace
from l4slab.results import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The distributions of a case: quantity, the file's name, and what it is.
DELAYS = (
    ("sojourn_ms", "queue-delay", "How long the packets of each flow waited in queues"),
    ("completion_ms", "completion", "How long the transfers of each flow took"),
    ("frame_ms", "frames", "How long the frames of each flow took, from the camera to the last byte"),
)


@dataclass(frozen=True)
class Drawn:
    """A figure of the report; `id` is its file's name, too."""

    id: str
    figure: Figure
    caption: str
    source: str = ""


def first_sentence(caption: str) -> str:
    """The caption's first sentence; what ends within parentheses ends none."""
    return re.split(r"(?<=[.:;])\s+(?![^(]*\))", caption.strip(), maxsplit=1)[0].rstrip(".:;")


def of_the_study(folder: Folder) -> Iterator[Drawn]:
    """The figures that the files choose; they take the place of all others."""
    files = sorted(folder.files, key=lambda file: not file.is_study)  # the study's first, as among the claims
    for figure, drawing in draw_figures(files, folder.tables()):
        yield Drawn(figure.id, drawing or _nothing(figure.id), figure.caption, figure.source)


def _nothing(name: str) -> Figure:
    """In the place of a figure whose query finds nothing, so that it does not vanish unseen."""
    from l4slab.plot.style import WIDTH_IN, Figure

    figure = Figure(figsize=(WIDTH_IN, 0.5))
    figure.text(0.02, 0.5, f'Figure "{name}" has nothing to draw: its query gives no row with a value.', va="center")
    return figure


def are_chosen(folder: Folder) -> bool:
    """Whether the files choose figures."""
    return any(experiment.tables(figures.Figure) for experiment in folder.files)


def comparison(folder: Folder) -> Drawn | None:
    """All cases side by side, where there are some, but not too many."""
    if not folder.is_compared:
        return None
    figure = plot.comparison(
        folder.flows,
        cases=[case.levels if folder.factors else {"experiment": case.experiment} for case in folder.cases],
        labels=[case.label(folder) for case in folder.cases],
        names={flow: folder.looks[flow, cc] for flow, cc in folder.senders.items()},
        published=folder.published,
    )
    if figure is None:
        return None
    published = "; diamonds are the published values" if len(folder.published) else ""
    caption = (
        f"{len(folder.cases)} cases side by side: rate and delay, mean over the trials of each flow; the bar is the "
        f"range over the trials{published}."
    )
    return Drawn("side-by-side", figure, caption)


def overview(folder: Folder) -> Drawn | None:
    """All cases of the user's files: who gets which rate, who waits how long, what is marked and lost."""
    cases = folder.cases[:MAX_CASES]
    figure = plot.overview(
        folder.flows,
        cases=[case.levels for case in cases],
        labels=[case.label(folder) for case in cases],
        capacities=[capacity.means(folder.described(case)) for case in cases],
    )
    if figure is None:
        return None
    times = [one.name for one in times_of(folder.flows)]
    first = f", of the first {len(cases)} of {len(folder.cases)} cases" if len(cases) < len(folder.cases) else ""
    caption = (
        f"Rate, {', '.join(times)}, marks and drops of every flow{first}. Means over the trials; a thin line is the "
        "range of the rate over them, a dashed one the capacity of the flow's path."
    )
    return Drawn("overview", figure, caption)


def of_case(folder: Folder, case: Case) -> Iterator[Drawn]:
    """A case over time, and inside its queue."""
    series, described = folder.rows_of("series", case), folder.described(case)
    warmup_s = described["warmup_ns"] / 1e9
    if series.is_empty():
        return
    trial, trials = plot.median_trial(folder.flows.filter(case.rows())), series["trial"].n_unique()
    which = f"trial {trial}" + (f", the median of {trials}; the others faint" if trials > 1 else "")
    shaded = "; shaded: before the measured interval" if warmup_s else ""
    stem = _stem(folder, case)
    known, looks = folder.published, folder.looks_in(case)
    of_paths = capacity.table(described)
    varies = "; dashed: the capacity of the path" if of_paths["flow"].is_duplicated().any() else ""
    over_time = plot.time_series(
        series,
        flows=looks,
        warmup_s=warmup_s,
        trial=trial,
        published=None if folder.factors else known.filter(pl.col("experiment") == case.experiment),
        capacity=of_paths,
    )
    if over_time is not None:
        caption = f"Delivery rate and round-trip time of each flow, {which}{shaded}{varies}."
        yield Drawn(f"{stem}-over-time", over_time, caption)
    histograms = folder.rows_of("histograms", case)
    for quantity, name, says in DELAYS:
        figure = plot.delays(histograms, quantity=quantity, flows=looks)
        if figure is not None:
            together = f", {trials} trials together" if trials > 1 else ""
            yield Drawn(f"{stem}-{name}", figure, f"{says}: the distribution and, right, its tail{together}.")
    inside = plot.inside(series, warmup_s=warmup_s, trial=trial)
    if inside is not None:
        yield Drawn(f"{stem}-inside", inside, f"Inside the queue: marking probabilities, {which}{shaded}.")
    if (drawn := packets(folder, case)) is not None:
        yield drawn


def packets(folder: Folder, case: Case) -> Drawn | None:
    """Each packet of a stack in the median trial of a case; None where the run has kept no log."""
    flows, described = folder.flows.filter(case.rows()), folder.described(case)
    trial = plot.median_trial(flows)
    kept = packets_of(folder.folder, str(flows.filter(trial=trial)["run"][0]))
    if kept is None or not plot.AVAILABLE:
        return None
    warmup_s = described["warmup_ns"] / 1e9
    figure = plot.packets(*kept[1:], warmup_s=warmup_s, end_s=described["duration_ns"] / 1e9)
    shaded = "; shaded: before the measured interval" if warmup_s else ""
    caption = f"Each packet of {kept[0]} in its queues, and what the stack's log says, trial {trial}{shaded}."
    return None if figure is None else Drawn(f"{_stem(folder, case)}-packets", figure, caption)


def _stem(folder: Folder, case: Case) -> str:
    return f"{case.experiment}-{folder.cases.index(case) + 1}"


def all_of(folder: Folder) -> Iterator[Drawn]:
    """Every figure of the page."""
    is_own = folder.is_own
    first = overview(folder) if is_own else None if are_chosen(folder) else comparison(folder)
    if first is not None:
        yield first
    if are_chosen(folder):
        yield from of_the_study(folder)
        if not is_own:
            return
    for case in folder.cases[:MAX_CASES]:
        yield from of_case(folder, case)


def save(folder: Folder, kind: str) -> list[Path]:
    """Write every figure of the page as `figures/ID.KIND` ("png", "pdf" or "svg"); the paths."""
    place = folder.folder / "figures"
    place.mkdir(exist_ok=True)
    paths = []
    for drawn in all_of(folder):
        name = re.sub(r"[^\w.-]+", "-", drawn.id)
        paths.append(place / f"{name}.{kind}")
        replace(paths[-1], partial(_save, drawn.figure, kind))
    return paths


def _save(figure: Figure, kind: str, path: Path) -> None:
    if kind == "svg":
        path.write_text(plot.to_svg(figure), encoding="utf-8")
    else:
        from l4slab.plot.style import styled

        # Without a date, so that the same results give the same bytes.
        with styled():
            figure.savefig(path, format=kind, dpi=200, metadata={"CreationDate" if kind == "pdf" else "Software": None})


def element(figure: Figure, alternative: str, number: int = 1) -> Markup:
    """The figure as part of a page, with a text for those who cannot see it; `number` tells its ids from others'."""
    svg = plot.to_page(figure)
    own = f"f{number}-"
    svg = re.sub(r'(?<= id=")|(?<=url\(#)|(?<=href="#)', own, svg)
    opening = f'<svg role="img" aria-label="{escape(alternative)}" '
    svg = re.sub(r"<svg (?=[^>]*>)", opening, svg, count=1)
    return Markup(re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2))  # noqa: S704  (our own drawing)
