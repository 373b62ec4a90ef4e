"""Output of `l4slab matrix` besides the campaign: a page that needs no network, and a file per cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from l4slab import _core
from l4slab.api.experiment import to_toml
from l4slab.base.numbers import number
from l4slab.report import environment, text_of
from l4slab.report.results import replace
from l4slab.tools.matrix import ALONE, Cell, Matrix, Proof, cell_document

CELLS = "cells"


class ShownCell(TypedDict):
    """A cell as text."""

    state: str
    why: str
    numbers: list[tuple[str, str]]
    runs: Sequence[str]
    file: str
    command: str


class ShownQueue(TypedDict):
    """A table of the page: a queue, its rivals, and the cells by row."""

    queue: str
    against: Sequence[str]
    rows: list[tuple[str, list[ShownCell]]]


class Moved(TypedDict):
    """A quantity that is another one than in the baseline."""

    cell: str
    place: str
    quantity: str
    before: str
    after: str


def write(found: Matrix, folder: Path, command: str, engine: str, changes: Mapping[str, Sequence[Moved]]) -> Path:
    """The page and the files of the cells; the page's path. `changes` are lists of what differs from a baseline."""
    rows = {row.level: row for row in found.asked.rows}
    (folder / CELLS).mkdir(exist_ok=True)
    for cell in found.cells:
        text = to_toml(cell_document(found.asked, rows[cell.row], cell.queue, cell.against))
        replace(folder / CELLS / f"{cell.name}.toml", lambda path, text=text: path.write_text(text, encoding="utf-8"))
    page = (
        environment()
        .get_template("matrix.html.j2")
        .render(
            title="Transport stacks, queues and rivals",
            version=_core.version(),
            style=text_of("templates/page.css"),
            asked=found.asked,
            proofs=[(proof, _numbers_of(proof)) for proof in found.proofs],
            queues=[_queue(found, queue, engine) for queue in found.asked.queues],
            failures=found.failures,
            changes=changes,
            command=command,
        )
    )
    path = folder / "matrix.html"
    replace(path, lambda file: file.write_text(page, encoding="utf-8"))
    return path


def _queue(found: Matrix, queue: str, engine: str) -> ShownQueue:
    of_it = {(cell.row, cell.against): cell for cell in found.cells if cell.queue == queue}
    against = found.asked.against
    rows = [(row.level, [_shown(of_it[row.level, rival], engine) for rival in against]) for row in found.asked.rows]
    return {"queue": queue, "against": against, "rows": rows}


def _shown(cell: Cell, engine: str) -> ShownCell:
    file = f"{CELLS}/{cell.name}.toml"
    return {
        "state": cell.state,
        "why": cell.why,
        "numbers": numbers(cell),
        "runs": cell.runs,
        "file": file,
        "command": f"l4slab run {file} --engine {engine}",
    }


def numbers(cell: Cell) -> list[tuple[str, str]]:
    """The numbers of a cell, by name."""
    if cell.share is None:
        return []
    spread = "" if cell.share_min == cell.share_max else f" ({number(cell.share_min)} to {number(cell.share_max)})"
    goodput = f"{number(cell.goodput_mbps)} Mb/s"
    found = [("goodput", goodput) if cell.against == ALONE else ("share", f"{number(cell.share)}{spread}, {goodput}")]
    rival = "" if cell.rival_sojourn_ms_mean is None else f"; rival {number(cell.rival_sojourn_ms_mean)}"
    found.append(("delay", f"{number(cell.sojourn_ms_mean)} ms, p99 {number(cell.sojourn_ms_p99)}{rival}"))
    found.append(("CE, drops", f"{number(cell.ce_pct)} %, {number(cell.drop_pct)} %"))
    return found


def _numbers_of(proof: Proof) -> tuple[str, str, str, str]:
    filled = "" if proof.filled is None else f"{proof.filled:.0%}"
    limited = "" if proof.app_limited_pct is None else f"{proof.app_limited_pct:.0f}%"
    return filled, number(proof.packet_bytes_mean), number(proof.packet_bytes_max), limited
