"""DIR/kernels.html: what differs between two kernels. It needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import polars as pl

from l4slab import _core
from l4slab.base import metrics
from l4slab.base.numbers import number
from l4slab.experimentfile import Experiment
from l4slab.report import environment, text_of
from l4slab.report.results import replace
from l4slab.report.tables import heading
from l4slab.tools.agreement.changes import ChangedRow, KernelRow
from l4slab.tools.agreement.page import label, missing, place

if TYPE_CHECKING:
    from l4slab.tools.agreement.changes import Comparison


def write(
    result: Comparison, names: tuple[str, str], made_from: Sequence[str], experiments: Sequence[Experiment]
) -> None:
    """The page. `names`: the kernel and the one against which it is held; `made_from`: of each, in the same order."""
    changed = metrics.rows_of(result.worst(), ChangedRow)
    page = (
        environment()
        .get_template("kernels.html.j2")
        .render(
            title="Two kernels",
            version=_core.version(),
            style=text_of("templates/page.css"),
            kernel=names[0],
            against=names[1],
            made_from=dict(zip(names, made_from, strict=True)),
            changed=[shown(row, result) for row in changed],
            cells=_cells(result),
            missing=missing(result.missing),
            failures=[(str(run), run.engine, reason) for run, reason in result.failures],
            trials=_trials(result.rows),
            files=[(e.file.name, e.source.decode("utf-8-sig")) for e in experiments],
            words=" ".join(e.file.name for e in experiments),
        )
    )
    replace(result.folder / "kernels.html", lambda path: path.write_text(page, encoding="utf-8"))


def shown(row: ChangedRow, result: Comparison) -> dict[str, str]:
    """The surest change of a cell, as text."""
    return {
        "cell": label({**row, "engine": None}, result.cells.drop("changed"))["cell"],
        "quantity": heading(row["quantity"]),
        "place": place(row),
        "against": _value(row["against"], row["against_sd"]),
        "kernel": _value(row["kernel"], row["kernel_sd"]),
        "changes": str(row["changes"]),
        "part": _part(row),
    }


def _value(mean: float | None, spread: float | None) -> str:
    return number(mean) + (f" ± {number(spread)}" if spread else "")


def _part(row: KernelRow) -> str:
    """By how much, of the value against which it is held."""
    if not row["against"] or row["difference"] is None:
        return ""
    return f"{100 * row['difference'] / row['against']:+.1f} %"


class Quantity(TypedDict):
    """A quantity of a cell on both kernels, as text."""

    quantity: str
    place: str
    against: str
    kernel: str
    part: str
    p: str
    changed: bool


class Cell(TypedDict):
    """A cell with its quantities, and how many of them have changed."""

    cell: str
    changes: int
    rows: list[Quantity]


def _cells(result: Comparison) -> list[Cell]:
    """Every cell with its quantities, and those that have changed first."""
    cell = list(result.cells.columns[:-1])
    order = pl.col("changed").not_(), pl.col("p").fill_null(0)
    found: list[Cell] = []
    for row in result.cells.iter_rows(named=True):
        same = pl.all_horizontal(pl.col(name).eq_missing(pl.lit(row[name])) for name in cell)
        rows = result.rows.filter(same).sort(order, maintain_order=True)
        found.append(
            {
                "cell": label({**row, "engine": None}, result.cells.drop("changed"))["cell"],
                "changes": int(rows["changed"].sum()),
                "rows": [
                    {
                        "quantity": heading(one["quantity"]),
                        "place": place(one),
                        "against": _value(one["against"], one["against_sd"]),
                        "kernel": _value(one["kernel"], one["kernel_sd"]),
                        "part": _part(one),
                        "p": "" if one["p"] is None else f"{one['p']:.2g}",
                        "changed": one["changed"],
                    }
                    for one in metrics.rows_of(rows, KernelRow)
                ],
            }
        )
    return found


def _trials(rows: pl.DataFrame) -> str:
    """How many each kernel has."""
    low, high = (of(rows["kernel_trials"], rows["against_trials"]) for of in (_least, _most))
    return str(high) if low == high else f"up to {high}"


def _least(*columns: pl.Series) -> int:
    return min((int(value) for column in columns for value in column), default=0)


def _most(*columns: pl.Series) -> int:
    return max((int(value) for column in columns for value in column), default=0)
