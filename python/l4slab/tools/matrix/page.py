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
from l4slab.tools.matrix import ALONE, TRANSFER, Asked, Cell, Matrix, Proof, cell_document

CELLS = "cells"


class ShownCell(TypedDict):
    """A cell as text."""

    state: str
    why: str
    numbers: list[tuple[str, str]]
    files: list[tuple[str, str, Sequence[str]]]  # a file, its command, its runs


class ShownQueue(TypedDict):
    """A table of the page: a queue on a path, its rivals, and the cells by row."""

    path: str
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
    paths = {one.path: one for one in found.asked}
    rows = {row.level: row for row in found.asked[0].rows}
    (folder / CELLS).mkdir(exist_ok=True)
    for cell in found.cells:
        asked = paths[cell.path]
        for name, is_transfer in _files(cell, asked):
            text = to_toml(cell_document(asked, rows[cell.row], cell.queue, cell.against, is_transfer))
            replace(folder / name, lambda path, text=text: path.write_text(text, encoding="utf-8"))
    page = (
        environment()
        .get_template("matrix.html.j2")
        .render(
            title="Transport stacks, queues and rivals",
            version=_core.version(),
            style=text_of("templates/page.css"),
            asked=found.asked[0],
            paths=[*paths],
            files=[name for one in found.asked for name in one.files],
            proved_in=[one.proof for one in found.asked],
            proofs=[(proof, _numbers_of(proof)) for proof in found.proofs],
            queues=[_queue(found, asked, queue, engine) for asked in found.asked for queue in asked.queues],
            failures=found.failures,
            changes=changes,
            command=command,
        )
    )
    path = folder / "matrix.html"
    replace(path, lambda file: file.write_text(page, encoding="utf-8"))
    return path


def _files(cell: Cell, asked: Asked) -> list[tuple[str, bool]]:
    """The files of a cell, and whether each is the one with transfers."""
    found = [(f"{CELLS}/{cell.name}.toml", False)]
    is_timed = any(row.level == cell.row for row in asked.timed)
    return [*found, (f"{CELLS}/{cell.name}--{TRANSFER}.toml", True)] if is_timed else found


def _queue(found: Matrix, asked: Asked, queue: str, engine: str) -> ShownQueue:
    cells = (cell for cell in found.cells if (cell.path, cell.queue) == (asked.path, queue))
    of_it = {(cell.row, cell.against): cell for cell in cells}
    rows = [
        (row.level, [_shown(of_it[row.level, rival], asked, engine) for rival in asked.against]) for row in asked.rows
    ]
    return {"path": asked.path, "queue": queue, "against": asked.against, "rows": rows}


def _shown(cell: Cell, asked: Asked, engine: str) -> ShownCell:
    return {
        "state": cell.state,
        "why": cell.why,
        "numbers": numbers(cell),
        "files": [
            (name, f"l4slab run {name} --engine {engine}", cell.transfer_runs if is_transfer else cell.runs)
            for name, is_transfer in _files(cell, asked)
        ],
    }


def numbers(cell: Cell) -> list[tuple[str, str]]:
    """The numbers of a cell, by name."""
    if cell.share is None:
        return []
    goodput = f"{number(cell.goodput_mbps)}{_range(cell.goodput_mbps_min, cell.goodput_mbps_max)} Mb/s"
    share = f"{number(cell.share)}{_range(cell.share_min, cell.share_max)}, {goodput}"
    found = [("goodput", goodput) if cell.against == ALONE else ("share", share)]
    rival = "" if cell.rival_sojourn_ms_mean is None else f"; rival {number(cell.rival_sojourn_ms_mean)}"
    mean = f"{number(cell.sojourn_ms_mean)}{_range(cell.sojourn_ms_mean_min, cell.sojourn_ms_mean_max)}"
    found.append(("delay", f"{mean} ms, p99 {number(cell.sojourn_ms_p99)}{rival}"))
    found.append(("CE, drops", f"{number(cell.ce_pct)} %, {number(cell.drop_pct)} %"))
    if (completion := completion_of(cell)) is not None:
        found.append(("completion", completion))
    return found


def completion_of(cell: Cell) -> str | None:
    """The completion time of a cell's transfers as text."""
    if cell.unfinished:
        return f"none: {cell.unfinished}"
    if cell.completion_ms is None:
        return None
    return f"{number(cell.completion_ms)}{_range(cell.completion_ms_min, cell.completion_ms_max)} ms"


def _range(least: float | None, most: float | None) -> str:
    return "" if least == most else f" ({number(least)} to {number(most)})"


def _numbers_of(proof: Proof) -> tuple[str, str, str, str]:
    filled = "" if proof.filled is None else f"{proof.filled:.0%}"
    limited = "" if proof.app_limited_pct is None else f"{proof.app_limited_pct:.0f}%"
    return filled, number(proof.packet_bytes_mean), number(proof.packet_bytes_max), limited
