"""DIR/kernels.html: what differs between two kernels. It needs no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from l4slab import _core
from l4slab.base.numbers import number
from l4slab.experimentfile import Experiment
from l4slab.report import environment, text_of
from l4slab.report.results import replace
from l4slab.report.tables import heading
from l4slab.tools.agreement.page import label, place

if TYPE_CHECKING:
    from l4slab.tools.agreement.changes import Comparison


def write(
    result: Comparison, names: tuple[str, str], made_from: Sequence[str], experiments: Sequence[Experiment]
) -> None:
    """The page. `names`: the kernel and the one against which it is held; `made_from`: of each, in the same order."""
    changed = list(result.worst().iter_rows(named=True))
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
            missing=[label(row, result.missing) | {"engine": row["engine"]} for row in _rows(result.missing)],
            failures=[(str(run), run.engine, reason) for run, reason in result.failures],
            trials=_trials(result.rows),
            files=[(e.file.name, e.source.decode("utf-8-sig")) for e in experiments],
            words=" ".join(e.file.name for e in experiments),
        )
    )
    replace(result.folder / "kernels.html", lambda path: path.write_text(page, encoding="utf-8"))


def shown(row: Mapping[str, Any], result: Comparison) -> dict[str, str]:
    """The surest change of a cell, as text."""
    return {
        "cell": label({**row, "engine": None}, result.cells.drop("changed"))["cell"],
        "quantity": heading(row["quantity"]),
        "place": place(row),
        "against": _value(row, "against"),
        "kernel": _value(row, "kernel"),
        "changes": str(row["changes"]),
        "part": _part(row),
    }


def _value(row: Mapping[str, Any], side: str) -> str:
    spread = row[f"{side}_sd"]
    return number(row[side]) + (f" ± {number(spread)}" if spread else "")


def _part(row: Mapping[str, Any]) -> str:
    """By how much, of the value against which it is held."""
    if not row["against"] or row["difference"] is None:
        return ""
    return f"{100 * row['difference'] / row['against']:+.1f} %"


def _rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return list(frame.iter_rows(named=True))


def _cells(result: Comparison) -> list[dict[str, Any]]:
    """Every cell with its quantities, and those that have changed first."""
    cell = list(result.cells.columns[:-1])
    order = pl.col("changed").not_(), pl.col("p").fill_null(0)
    found = []
    for row in _rows(result.cells):
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
                        "against": _value(one, "against"),
                        "kernel": _value(one, "kernel"),
                        "part": _part(one),
                        "p": "" if one["p"] is None else f"{one['p']:.2g}",
                        "changed": one["changed"],
                    }
                    for one in _rows(rows)
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
