"""Writes the map of harm: its tables, their pictures in docs/_static/atlas, and its part of docs/atlas.md.

    .venv/bin/python docs/atlas.py              pictures and page, from the tables in python/l4slab/suites/atlas
    .venv/bin/python docs/atlas.py run          runs the map, too: 20 minutes of processor time
    .venv/bin/python docs/atlas.py run crowds   runs that file of it: 6 minutes

A run goes on where it stopped. A test runs some places of the map again.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from l4slab import __version__, plot
from l4slab.api import campaign
from l4slab.base.packaged import atlas
from l4slab.cli import terminal
from l4slab.plot.roles import INK
from l4slab.plot.style import PLATE, Figure, ink_on, styled
from l4slab.tools.advice.atlas import CROWDS, PAIRS, Cell, cells
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D

DOCS = Path(__file__).resolve().parent
PAGE, PICTURES, RESULTS = DOCS / "atlas.md", DOCS / "_static" / "atlas", DOCS.parent / "results" / "atlas"
EXPERIMENTS = {file.stem: file for file in atlas()}
BEGIN, END = "<!-- written by docs/atlas.py -->\n", "<!-- end of the map -->\n"
HEAD = """\
# Source: .venv/bin/python docs/atlas.py run, l4slab {version}: the runs of {name}.toml.
# Flows of Prague beside flows of a rival, so many of each. Of the goodput of one flow each: Prague's share, and the
# rival's beside CUBIC in Prague's place. Of the rival beside either: the 99th percentile of its time in the queue in
# ms, and its packets dropped in %.
"""
# At 390 px a picture stands as it is drawn.
_WIDTH_IN, _ROW_IN = 3.85, 0.21
# Both ends are dark and the middle is light, as the report's heat maps.
_COLOURS = mpl.colormaps["PuOr_r"]
_SHARES = Normalize(0, 1)
_RIVALS = ("cubic", "cubic, ECN", "reno", "reno, ECN", "bbr", "bbr3", "bbr3, ECN")
# Marks of harm: where in a cell, from its middle, and the triangle.
_RIVAL_HURT, _PRAGUE_HURT = (0.38, -0.27), (-0.38, 0.27)
_MARKS = {
    _RIVAL_HURT: ("the rival is hurt", [(-1, 1), (1, 1), (1, -1)]),
    _PRAGUE_HURT: ("Prague is hurt", [(-1, 1), (-1, -1), (1, -1)]),
}
_STYLE = """<style>svg{color:#111;background:#fff}
@media (prefers-color-scheme:dark){
svg{color:#ddd;background:#131416;--figure-plate:#2a2c30;--figure-page:#131416}}</style>"""


def table(flows: pl.DataFrame) -> list[Cell]:
    """The places of a file, from its runs' table `flows`."""
    keys = ["aqm", "rival", "prague", "rivals", "capacity_mbps", "base_rtt_ms"]
    counts = {
        name: pl.col("count").filter(pl.col("flow") == flow).first().over("run")
        for name, flow in (("prague", "first"), ("rivals", "rival"))
    }
    own, others = pl.col("count"), pl.col("prague") + pl.col("rivals") - pl.col("count")
    of_one = pl.col("share") / (pl.col("share") + (1 - pl.col("share")) * own / others)
    rows = flows.with_columns(pl.col("sojourn_ms_p99", "drop_pct").fill_null(0.0), **counts)
    rows = rows.with_columns(of_one=of_one)
    prague = rows.filter(beside="prague", flow="first").select(*keys, "of_one")
    rival = rows.filter(beside="prague", flow="rival").select(*keys, delay="sojourn_ms_p99", drop="drop_pct")
    without = rows.filter(beside="cubic", flow="rival").select(
        *keys, other="of_one", delay_other="sojourn_ms_p99", drop_other="drop_pct"
    )
    whole = prague.join(rival, on=keys).join(without, on=keys).sort(keys)
    return [
        Cell(
            row["aqm"], row["rival"], row["prague"], row["rivals"], float(row["capacity_mbps"]),
            float(row["base_rtt_ms"]), _kept(row["of_one"]), _kept(row["other"]), _kept(row["delay"]),
            _kept(row["delay_other"]), _kept(row["drop"]), _kept(row["drop_other"]),
        )
        for row in whole.iter_rows(named=True)
    ]  # fmt: skip


def _kept(value: float) -> float:
    """Three digits."""
    return float(f"{value:.3g}")


def run(name: str) -> None:
    """Run what of a file has not been run, and write its table."""
    results = campaign.run([EXPERIMENTS[name]], RESULTS / name, workers=1, console=terminal.err())
    with EXPERIMENTS[name].with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        file.write(HEAD.format(version=__version__, name=name))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([one.name for one in fields(Cell)])
        for cell in table(results.flows):
            writer.writerow([f"{value:g}" if isinstance(value, float) else value for value in asdict(cell).values()])


def picture(aqm: str, found: Sequence[Cell]) -> Figure:
    """Prague's share in %, a panel per rival: by rate and round trip, or by rate and number of flows for each RTT."""
    rivals = [name for name in _RIVALS if any(cell.rival == name for cell in found)]
    rates = sorted({cell.capacity_mbps for cell in found})
    rtts = sorted({cell.base_rtt_ms for cell in found})
    crowds = _crowds(found)
    # Of each panel of a row: its title, and of each row in it the label, RTT and number of flows.
    if len(crowds) == 1:
        across = [("beside {}", [(f"{rtt:g} ms", rtt, crowds[0]) for rtt in rtts])]
    else:
        across = [(f"{{}} at {rtt:g} ms", [(crowd, rtt, crowd) for crowd in crowds]) for rtt in rtts]
    places = {(cell.rival, cell.base_rtt_ms, cell.flows, cell.capacity_mbps): cell for cell in found}
    with styled():
        height = 1.2 + len(rivals) * (len(across[0][1]) * _ROW_IN + 0.24)
        figure = Figure(figsize=(_WIDTH_IN, height))
        panels = figure.subplots(len(rivals), len(across), sharex=True, sharey=True, squeeze=False)
        for rival, row in zip(rivals, panels, strict=True):
            for panel, (title, lines) in zip(row, across, strict=True):
                _panel(panel, [[places.get((rival, rtt, crowd, rate)) for rate in rates] for _, rtt, crowd in lines])
                panel.set_title(title.format(rival), pad=2)
                panel.set_yticks(range(len(lines)), [label for label, _, _ in lines])
        for panel in panels[-1]:
            panel.set_xticks(range(len(rates)), [_rate(rate) for rate in rates], fontsize=8)
        figure.supxlabel("rate of the link (bit/s)", fontsize=9)
        if len(crowds) > 1:
            figure.supylabel("flows: Prague + rivals", fontsize=9)
        bar = figure.colorbar(mpl.cm.ScalarMappable(_SHARES, _COLOURS), ax=panels, location="top", aspect=50, pad=0.03)
        bar.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0: rival has all", "", "50: equal", "", "100: Prague"])
        ends = bar.ax.get_xticklabels()
        ends[0].set_horizontalalignment("left")
        ends[-1].set_horizontalalignment("right")
        bar.set_label(f"{aqm}: Prague's share{' per flow' if len(crowds) > 1 else ''} in %")
        bar.outline.set_visible(False)
        figure.legend(
            handles=[Line2D([], [], label=label, **_mark(marker)) for label, marker in _MARKS.values()],
            loc="outside upper center", ncols=2, handlelength=1,
        )  # fmt: skip
    return figure


def _crowds(found: Sequence[Cell]) -> list[str]:
    """Numbers of flows, from one Prague among many to one rival among many."""
    ordered = sorted(found, key=lambda one: (one.prague / one.rivals, one.prague + one.rivals))
    return list(dict.fromkeys(cell.flows for cell in ordered))


def _panel(panel: Axes, rows: list[list[Cell | None]]) -> None:
    shares = np.array([[np.nan if cell is None else cell.share for cell in row] for row in rows])
    panel.set_facecolor(PLATE)
    panel.imshow(shares, cmap=_COLOURS, norm=_SHARES, aspect="auto")
    panel.grid(visible=False)
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)
    marks = defaultdict(list)
    for row, found in enumerate(rows):
        for column, cell in enumerate(found):
            if cell is not None:
                ink = ink_on(_COLOURS(_SHARES(cell.share)))
                panel.text(column, row, f"{100 * cell.share:.0f}", ha="center", va="center", color=ink, fontsize=8)
                place = _RIVAL_HURT if cell.rival_hurt else _PRAGUE_HURT if cell.prague_hurt else None
                if place is not None:
                    marks[place, ink].append((column + place[0], row + place[1]))
    for (place, ink), points in marks.items():
        panel.plot(*zip(*points, strict=True), clip_on=False, **_mark(_MARKS[place][1], ink))


def _mark(marker: list[tuple[int, int]], colour: str = INK) -> dict[str, Any]:
    return {"marker": marker, "markersize": 4.5, "color": colour, "markeredgewidth": 0, "linestyle": ""}


def _rate(mbps: float) -> str:
    return f"{mbps / 1000:g}G" if mbps >= 1000 else f"{mbps:g}M"


def svg(figure: Figure) -> str:
    """The picture with its colours for light and dark pages, without what says nothing."""
    text = plot.to_page(figure)
    fonts = re.search(r"font-family: ([^;\"]*)", text)
    style = _STYLE if fonts is None else _STYLE.replace("<style>", f"<style>text{{font-family:{fonts[1]}}}\n")
    for pattern in (
        r"; font-family: [^;\"]*",
        r' transform="rotate\(-0 [^"]*\)"',
        r'<g id="[^"]*"/>',
        r"(?<=>)\s+(?=<)",
    ):
        text = re.sub(pattern, "", text)
    text = re.sub(r'<g id="(?:text|[xy]tick|line2d)_\d+">', "<g>", text).replace('<g id="axes', '\n<g id="axes')
    end = text.index(">", text.index("<svg")) + 1
    return text[:end] + style + text[end:]


def text() -> str:
    """The page's part: two tables of all queues, then each queue's pictures."""
    pictures = (
        f"### {aqm}\n\n"
        f"![Prague's share in {aqm}, by rate, RTT and rival]({_file(PAIRS, aqm)})\n\n"
        f"![Prague's share per flow in {aqm}, by rate, number of flows, RTT and rival]({_file(CROWDS, aqm)})\n"
        for aqm in _by_queue(PAIRS)
    )
    return "\n".join([_by_flows(), _in_all(), *pictures])


def _by_queue(name: str) -> dict[str, list[Cell]]:
    queues = dict.fromkeys(cell.aqm for cell in cells(name))
    return {aqm: [cell for cell in cells(name) if cell.aqm == aqm] for aqm in queues}


def _by_flows() -> str:
    """Of each queue and number of flows, in how many places a camp is hurt."""
    crowds = _crowds(cells(CROWDS))
    rows = ["queue", *crowds], ["---"] * (1 + len(crowds))
    for aqm, found in _by_queue(CROWDS).items():
        places = [[cell for cell in found if cell.flows == crowd] for crowd in crowds]
        hurt = [f"{_count(some, 'rival_hurt')} / {_count(some, 'prague_hurt')}" for some in places]
        rows = *rows, [aqm, *hurt]
    number = len(cells(CROWDS)) // len(crowds) // (len(rows) - 2)
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        "### By number of flows\n\n"
        f"Number of places, of {number}, in which the rival is hurt / Prague is hurt. The columns are the numbers of "
        f"flows, Prague's + rivals:\n\n{lines}\n"
    )


def _in_all() -> str:
    """Of each queue, in how many places a side gets less, or is starved, or the rival waits longer."""
    alone, crowds = _by_queue(PAIRS), _by_queue(CROWDS)
    lines = ""
    for aqm, found in alone.items():
        counts = zip(_counts(found), _counts(crowds[aqm]), strict=True)
        lines += f"| {aqm} | {' | '.join(f'{one}; {several}' for one, several in counts)} |\n"
    places, of_crowds = (len(cells(name)) // len(alone) for name in (PAIRS, CROWDS))
    return (
        "### By queue\n\n"
        f"Number of places with one flow each, of {places}, and with several flows, of {of_crowds}. Starved: less than "
        "a tenth of an equal rate. The rival waits: its 99th percentile of delay more than doubles and grows by more "
        "than 5 ms.\n\n"
        "| queue | rival hurt | rival starved | Prague hurt | Prague starved | rival waits |\n"
        f"| --- | --- | --- | --- | --- | --- |\n{lines}"
    )


def _counts(found: Sequence[Cell]) -> list[int]:
    waits = [
        cell for cell in found if cell.delay_ms > max(2 * cell.delay_beside_cubic_ms, cell.delay_beside_cubic_ms + 5)
    ]
    harms = (f"{who}_{harm}" for who in ("rival", "prague") for harm in ("hurt", "starved"))
    return [*(_count(found, harm) for harm in harms), len(waits)]


def _count(found: Sequence[Cell], harm: str) -> int:
    return sum(getattr(cell, harm) for cell in found)


def _file(name: str, aqm: str) -> str:
    queue = aqm.replace(", ", "-").replace(" ", "-").replace(".", "")
    return f"_static/atlas/{queue}{'' if name == PAIRS else f'-{name}'}.svg"


def main(arguments: list[str]) -> None:
    """Bring tables, pictures and page up to date."""
    if arguments[:1] == ["run"]:
        for name in arguments[1:] or EXPERIMENTS:
            run(name)
        cells.cache_clear()
    PICTURES.mkdir(exist_ok=True)
    for name in EXPERIMENTS:
        for aqm, found in _by_queue(name).items():
            (DOCS / _file(name, aqm)).write_text(svg(picture(aqm, found)) + "\n", encoding="utf-8")
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    PAGE.write_text(before + BEGIN + text() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
