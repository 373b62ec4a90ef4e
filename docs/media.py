"""How far the models of media controllers are from libwebrtc or pion: the table of docs/model.md.

l4slab stacks build libwebrtc pion
l4slab agree media --out DIR    # or media-pion
python docs/media.py DIR [ANOTHER]

With the folder of another comparison, a last column counts in how many cells the program's two runs are within the bar.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

# A column of `flows`, how it is called, its unit, and its bar: relative, absolute.
QUANTITIES = {
    "goodput_mbps": ("goodput", "Mb/s", 0.2, 0.0),
    "sojourn_ms_p50": ("queueing delay, median", "ms", 0.3, 3.0),
    "frame_ms_p50": ("frame latency, median", "ms", 0.3, 3.0),
    "frame_ms_p99": ("frame latency, 99th percentile", "ms", 0.3, 3.0),
    "media_mbps": ("encoder", "Mb/s", 0.2, 0.0),
    "late_pct": ("late frames", "%", 0.0, 2.0),
    "lost_frames_pct": ("lost frames", "%", 0.0, 2.0),
}


def main() -> None:
    """The table: medians over the cells, and how many are within the bar."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    rows, *again = (pl.read_parquet(Path(name) / "agreement.parquet").filter(flow="call") for name in sys.argv[1:])
    titles = ["controller", "", "program", "model", "relative difference, median", "within", "cells"]
    if again:
        keys = ["sender", "cell", "quantity"]
        rows = rows.join(again[0].select(*keys, again="kernel"), on=keys)
        titles.append("the program again")
    print(f"| {' | '.join(titles)} |\n" + "|---" * len(titles) + "|")
    for sender in rows["sender"].unique(maintain_order=True):
        for column, (name, unit, relative, absolute) in QUANTITIES.items():
            cells = rows.filter(pl.col("sender") == sender, pl.col("quantity") == column).drop_nulls(
                ["kernel", "simulator"]
            )
            difference, *differences = (
                (cells[name] - cells["kernel"]).abs() for name in ("simulator", "again") if name in cells.columns
            )
            allowed = (cells["kernel"] * relative).clip(lower_bound=absolute)
            bar = " or ".join(
                text
                for text in (f"{100 * relative:g} %" * bool(relative), f"{absolute:g} {unit}" * bool(absolute))
                if text
            )
            real, model = cells["kernel"].median(), cells["simulator"].median()
            apart = (difference / cells["kernel"]).filter(cells["kernel"] > 0).median()
            of_it = f"{apart:.2f}" if isinstance(apart, float) and relative else ""
            within, *others = (int((one <= allowed).sum()) for one in (difference, *differences))
            medians = f"{real:.2f} | {model:.2f} | {of_it}"
            last = "".join(f" {other} |" for other in others)
            print(f"| `{sender}` | {name}, {unit} | {medians} | {within} ({bar}) | {len(cells)} |{last}")


if __name__ == "__main__":
    main()
