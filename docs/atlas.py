"""Writes the map of harm: atlas.csv, its pictures in docs/_static/atlas, and their places in docs/atlas.md.

    .venv/bin/python docs/atlas.py          pictures and page, from python/l4slab/experiments/atlas/atlas.csv
    .venv/bin/python docs/atlas.py run      runs the map, too: 15 minutes of processor time; goes on where it stopped

A test runs some places of the map again.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import matplotlib as mpl
import numpy as np
import polars as pl
from l4slab import __version__, campaign, plot
from l4slab.advice.atlas import TABLE, Cell, cells
from l4slab.cli import terminal
from l4slab.plot.style import PLATE, Figure, styled
from l4slab.studies import atlas
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

DOCS = Path(__file__).resolve().parent
PAGE, PICTURES, RESULTS = DOCS / "atlas.md", DOCS / "_static" / "atlas", DOCS.parent / "results" / "atlas"
EXPERIMENT = atlas()[0]
FILE = EXPERIMENT.with_name(TABLE)
BEGIN, END = "<!-- written by docs/atlas.py -->\n", "<!-- end of the map -->\n"
HEAD = """\
# Source: .venv/bin/python docs/atlas.py run, l4slab {version}: the runs of pairs.toml.
# A Prague flow beside a rival: Prague's share of the goodput; the rival's share beside CUBIC in Prague's place;
# of the rival beside either, the 99th percentile of its time in the queue in ms and its packets dropped in %.
"""
# At 390 px a picture stands as it is drawn.
_WIDTH_IN, _ROW_IN = 3.85, 0.21
# Both ends are dark and the middle is light, as the report's heat maps.
_COLOURS = mpl.colormaps["PuOr_r"]
_SHARES = Normalize(0, 1)
_RIVALS = ("cubic", "cubic, ECN", "reno", "reno, ECN", "bbr", "bbr3", "bbr3, ECN")
_STYLE = """<style>svg{color:#111;background:#fff}
@media (prefers-color-scheme:dark){
svg{color:#ddd;background:#131416;--figure-plate:#2a2c30;--figure-page:#131416}}</style>"""


def table(flows: pl.DataFrame) -> list[Cell]:
    """The map, from the runs' table `flows`."""
    keys = ["aqm", "rival", "capacity_mbps", "base_rtt_ms"]
    rows = flows.with_columns(pl.col("sojourn_ms_p99", "drop_pct").fill_null(0.0))
    prague = rows.filter(beside="prague", flow="first").select(*keys, "share")
    rival = rows.filter(beside="prague", flow="rival").select(*keys, delay="sojourn_ms_p99", drop="drop_pct")
    without = rows.filter(beside="cubic", flow="rival").select(
        *keys, other="share", delay_other="sojourn_ms_p99", drop_other="drop_pct"
    )
    whole = prague.join(rival, on=keys).join(without, on=keys).sort(keys)
    return [
        Cell(
            row["aqm"], row["rival"], float(row["capacity_mbps"]), float(row["base_rtt_ms"]),
            _kept(row["share"]), _kept(row["other"]), _kept(row["delay"]), _kept(row["delay_other"]),
            _kept(row["drop"]), _kept(row["drop_other"]),
        )
        for row in whole.iter_rows(named=True)
    ]  # fmt: skip


def _kept(value: float) -> float:
    """Three digits."""
    return float(f"{value:.3g}")


def run() -> None:
    """Run what of the map has not been run, and write its file."""
    results = campaign.run([EXPERIMENT], RESULTS, workers=1, console=terminal.err())
    with FILE.open("w", encoding="utf-8", newline="") as file:
        file.write(HEAD.format(version=__version__))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([one.name for one in fields(Cell)])
        for cell in table(results.flows):
            writer.writerow([f"{value:g}" if isinstance(value, float) else value for value in asdict(cell).values()])


def picture(aqm: str, found: Sequence[Cell]) -> Figure:
    """A panel per rival: Prague's share in % of the goodput by rate and round trip."""
    rivals = [name for name in _RIVALS if any(cell.rival == name for cell in found)]
    rates = sorted({cell.capacity_mbps for cell in found})
    rtts = sorted({cell.base_rtt_ms for cell in found})
    with styled():
        height = 0.65 + len(rivals) * (len(rtts) * _ROW_IN + 0.24) + 0.35
        figure = Figure(figsize=(_WIDTH_IN, height))
        panels = figure.subplots(len(rivals), 1, sharex=True, squeeze=False)[:, 0]
        for panel, rival in zip(panels, rivals, strict=True):
            shares = {(c.base_rtt_ms, c.capacity_mbps): c.share for c in found if c.rival == rival}
            _panel(panel, rival, [[shares.get((rtt, rate), np.nan) for rate in rates] for rtt in rtts])
            panel.set_yticks(range(len(rtts)), [f"{rtt:g} ms" for rtt in rtts])
        panels[-1].set_xticks(range(len(rates)), [_rate(rate) for rate in rates])
        panels[-1].set_xlabel("rate of the link (bit/s)")
        bar = figure.colorbar(
            mpl.cm.ScalarMappable(_SHARES, _COLOURS), ax=list(panels), location="top", aspect=45, shrink=0.9, pad=0.03
        )
        bar.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0: rival has all", "", "50: equal", "", "100: Prague"])
        bar.set_label(f"{aqm}: Prague's share in %")
        bar.outline.set_visible(False)
    return figure


def _panel(panel: Axes, rival: str, rows: list[list[float]]) -> None:
    values = np.array(rows)
    panel.set_facecolor(PLATE)
    panel.imshow(values, cmap=_COLOURS, norm=_SHARES, aspect="auto")
    panel.set_title(f"beside {rival}", pad=2)
    panel.grid(visible=False)
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)
    for (row, column), share in np.ndenumerate(values):
        if np.isfinite(share):
            ink = "#fefefe" if abs(share - 0.5) > 0.3 else "#010101"
            panel.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color=ink, fontsize=8)


def _rate(mbps: float) -> str:
    return f"{mbps / 1000:g}G" if mbps >= 1000 else f"{mbps:g}M"


def svg(figure: Figure) -> str:
    """The picture with its colours for light and dark pages, without what says nothing."""
    text = plot.to_page(figure)
    fonts = re.search(r" ?font-family: ([^;]*);?", text)
    style = _STYLE if fonts is None else _STYLE.replace("<style>", f"<style>text{{font-family:{fonts[1]}}}\n")
    for pattern in (
        r" ?font-family: [^;]*;",
        r' transform="rotate\(-0 [^"]*\)"',
        r'<g id="[^"]*"/>',
        r"(?<=>)\s+(?=<)",
    ):
        text = re.sub(pattern, "", text)
    text = re.sub(r'<g id="(?:text|[xy]tick|line2d)_\d+">', "<g>", text).replace('<g id="axes', '\n<g id="axes')
    end = text.index(">", text.index("<svg")) + 1
    return text[:end] + style + text[end:]


def text() -> str:
    """The page's part about each queue."""
    parts = []
    for aqm in dict.fromkeys(cell.aqm for cell in cells()):
        found = [cell for cell in cells() if cell.aqm == aqm]
        parts.append(
            f"### {aqm}\n\n{_told(found)}\n\n![Prague's share in {aqm}, by rate, RTT and rival]({_file(aqm)})\n"
        )
    return "\n".join(parts)


def _told(found: Sequence[Cell]) -> str:
    """Of how many places the rival, and Prague, has more than a fifth less than with CUBIC in Prague's place."""
    rival = [cell for cell in found if 1 - cell.share < 0.8 * cell.share_beside_cubic]
    prague = [cell for cell in found if cell.share < 0.8 * (1 - cell.share_beside_cubic)]
    starved = [cell for cell in found if cell.share > 0.95]
    starving = [cell for cell in found if cell.share < 0.05]
    waits = [
        cell for cell in found if cell.delay_ms > max(2 * cell.delay_beside_cubic_ms, cell.delay_beside_cubic_ms + 5)
    ]
    return (
        f"Of {len(found)} places, the rival loses more than a fifth of its rate in {len(rival)} (and has less than a "
        f"tenth of an equal rate in {len(starved)}), Prague has more than a fifth less than CUBIC in its place in "
        f"{len(prague)} (less than a tenth of an equal rate in {len(starving)}). The rival's 99th percentile of delay "
        f"is more than twice as long, and by 5 ms or more, in {len(waits)}."
    )


def _file(aqm: str) -> str:
    return f"_static/atlas/{aqm.replace(', ', '-').replace(' ', '-').replace('.', '')}.svg"


def main(arguments: list[str]) -> None:
    """Bring file, pictures and page up to date."""
    if "run" in arguments:
        run()
        cells.cache_clear()
    PICTURES.mkdir(exist_ok=True)
    for aqm in dict.fromkeys(cell.aqm for cell in cells()):
        figure = picture(aqm, [cell for cell in cells() if cell.aqm == aqm])
        (DOCS / _file(aqm)).write_text(svg(figure) + "\n", encoding="utf-8")
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    PAGE.write_text(before + BEGIN + text() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
