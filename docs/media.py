"""How far models of calls and of tests of responsiveness are from programs: tables of docs/model.md and docs/call.md.

l4slab stacks build libwebrtc pion responsiveness, and scream (docs/stacks.md)
l4slab agree media --out DIR    # or media-at-once, media-pion, media-scream, responsiveness
python docs/media.py DIR [ANOTHER]

With the folder of another comparison, a last column counts in how many cells the program's two runs are within the bar.
Of the study `call` it takes the results of both engines, and the last column is about the program's two trials:

l4slab reproduce call
l4slab reproduce call --engine linux --where "sender = 'GCC' and encoder = 'VP8'"
python docs/media.py results/call results/call-linux
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import polars.selectors as cs

# A column of `flows`, how it is called, its unit, and its bar: relative, absolute.
QUANTITIES = {
    "goodput_mbps": ("goodput", "Mb/s", 0.2, 0.0),
    "sojourn_ms_p50": ("queueing delay, median", "ms", 0.3, 3.0),
    "frame_ms_p50": ("frame latency, median", "ms", 0.3, 3.0),
    "frame_ms_p99": ("frame latency, 99th percentile", "ms", 0.3, 3.0),
    "media_mbps": ("encoder", "Mb/s", 0.2, 0.0),
    "late_pct": ("late frames", "%", 0.0, 2.0),
    "lost_frames_pct": ("lost frames", "%", 0.0, 2.0),
    "ce_pct": ("marks", "%", 0.5, 0.1),
    "rpm_foreign": ("foreign probes", "1/min", 0.1, 0.0),
    "rpm_self": ("self probes", "1/min", 0.1, 0.0),
}


def agreement(folder: Path) -> pl.DataFrame:
    """What `l4slab agree` found about the flows that programs carry."""
    rows = pl.read_parquet(folder / "agreement.parquet").filter(pl.col("flow").is_in(["call", "rpm"]))
    if "cell" in rows.columns:
        return rows
    return rows.with_columns(cell=pl.concat_str("link.down.rate", "link.down.qdisc", "flow.rpm.rtt", separator=", "))


def compared(folders: list[Path]) -> pl.DataFrame:
    """A row per sender, cell and quantity: `kernel`, `simulator`, and two runs of the program, `one` and `again`."""
    keys = ["sender", "cell", "quantity"]
    if (folders[0] / "agreement.parquet").exists():
        rows, *others = (agreement(folder) for folder in folders)
        for other in others:
            rows = rows.with_columns(one="kernel").join(other.select(*keys, again="kernel"), on=keys)
        return rows
    simulator, kernel = (
        pl.read_parquet(folder / "flows.parquet")
        .filter(flow="call", sender="GCC", encoder="VP8")
        .sort("trial")
        .with_columns(cell=pl.concat_str("line", "mbps", "rivals", separator=", "))
        .unpivot(
            cs.by_name(*QUANTITIES, require_all=False), index=["sender", "cell", "trial"], variable_name="quantity"
        )
        .group_by(keys, maintain_order=True)
        .agg(pl.col("value").mean(), one=pl.col("value").first(), again=pl.col("value").last())
        for folder in folders
    )
    kernel = kernel.rename({"value": "kernel"})
    return kernel.join(simulator.select(*keys, simulator="value"), on=keys, maintain_order="left")


def main() -> None:
    """The table: medians over the cells, and how many are within the bar."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    rows = compared([Path(name) for name in sys.argv[1:]])
    titles = ["controller", "", "program", "model", "relative difference, median", "within", "cells"]
    if "again" in rows.columns:
        titles.append("the program again")
    print(f"| {' | '.join(titles)} |\n" + "|---" * len(titles) + "|")
    for sender in rows["sender"].unique(maintain_order=True):
        for column, (name, unit, relative, absolute) in QUANTITIES.items():
            cells = rows.filter(pl.col("sender") == sender, pl.col("quantity") == column).drop_nulls(
                ["kernel", "simulator"]
            )
            if cells.is_empty():
                continue
            counts = [
                int(((cells[other] - cells[one]).abs() <= (cells[one] * relative).clip(lower_bound=absolute)).sum())
                for one, other in (("kernel", "simulator"), ("one", "again"))
                if other in cells.columns
            ]
            bar = " or ".join(
                text
                for text in (f"{100 * relative:g} %" * bool(relative), f"{absolute:g} {unit}" * bool(absolute))
                if text
            )
            real, model = cells["kernel"].median(), cells["simulator"].median()
            apart = (cells["simulator"] / cells["kernel"] - 1).abs().filter(cells["kernel"] > 0).median()
            of_it = f"{apart:.2f}" if isinstance(apart, float) and relative else ""
            within, *others = counts
            medians = f"{real:.2f} | {model:.2f} | {of_it}"
            last = "".join(f" {other} |" for other in others)
            print(f"| `{sender}` | {name}, {unit} | {medians} | {within} ({bar}) | {len(cells)} |{last}")


if __name__ == "__main__":
    main()
