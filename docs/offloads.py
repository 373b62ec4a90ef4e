"""Runs cells of studies between hosts with offloads, for the tables of docs/laboratory/deployment.md and overload.md.

    .venv/bin/python docs/offloads.py [sim | linux | overload]

`sim` runs all cells of the heat maps of the study `deployment` on the simulator, and `linux` runs some of them on the
kernel; without a word it does both. `overload` runs cells of that study. Each variant is a copy of a study's file with
more keys. Results stay in results/offloads, so the same command resumes.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from statistics import geometric_mean, median

import duckdb
import l4slab

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ROOT / "python" / "l4slab" / "studies"
STUDY = STUDIES / "deployment"
FOLDER = ROOT / "results" / "offloads"


def interrupts(every: str, direction: str = "both") -> str:
    """A table of the file: between hosts, packets wait for the next of these instants, as for an interrupt."""
    netem = f"delay 0ms slot {every} limit 60000"
    return f'[impair.hosts]\nnetem = "{netem}"\nbefore = "bottleneck"\ndirection = "{direction}"\n\n'


ENGINES = ("sim", "linux")
# Keys of both flows, and tables of the file.
VARIANTS = {
    "none": ("", ""),
    "gso": ("gso = true\n", ""),
    "gro 50us": ('gro = "50us"\n', ""),
    "gso, gro 50us": ('gso = true\ngro = "50us"\n', ""),
    "gro 250us": ('gro = "250us"\n', ""),
    "interrupts 250us": ("", interrupts("250us")),
    "of ACKs only": ("", interrupts("250us", "reverse")),
    "of data only": ("", interrupts("250us", "forward")),
    "interrupts 125us": ("", interrupts("125us")),
    "interrupts 500us": ("", interrupts("500us")),
}
ON_KERNEL = ("none", "gso", "gso, gro 50us", "interrupts 250us")
WHERE = {
    "sim": """
    l4s_receiver = 'AccECN' and legacy_receiver = 'classic ECN' and capacity_mbps = 100 and ecn_threshold_ms in (1, 5)
    and base_rtt_ms in (5, 10, 50) and fallback = 'off' and trial <= 3"""
}
WHERE["linux"] = f"""trial = 1 and {WHERE["sim"]} and base_rtt_ms <= 10 and ecn_threshold_ms = 1
    and (aqm = 'FIFO' and n_bdp = 0.5
         or base_rtt_ms = 10 and (aqm = 'DualPI2' or n_bdp = 2 and aqm in ('FQ', 'FQ_CoDel', 'single_queue_FQ')))"""


def main(words: list[str]) -> None:
    """Runs the variants, and prints the tables of those that have results."""
    if words == ["overload"]:
        print(overload())
        return
    for engine in words or ENGINES:
        for name in VARIANTS if engine == "sim" else ON_KERNEL:
            l4slab.run(copy(name), results(name, engine), engine, workers=1, where=WHERE[engine])
    print(table())
    print()
    print(both())


def copy(name: str) -> Path:
    """The file of the study `deployment` with the variant's keys."""
    text = (STUDY / "single.toml").read_text("utf-8")
    return written(FOLDER / name / "single.toml", text, name, "[[flow]]\n")


def written(file: Path, text: str, name: str, line: str) -> Path:
    """A file of this text, with the variant's keys after each such line and its tables before the sweep."""
    keys, tables = VARIANTS[name]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text.replace(line, line + keys).replace("[sweep]\n", f"{tables}[sweep]\n", 1), "utf-8")
    return file


def results(name: str, engine: str = "sim") -> Path:
    """Where a variant's results are."""
    return FOLDER / name / engine


def cells(name: str, published: str, engine: str = "sim") -> dict[str, tuple[float, float]]:
    """What is published and what is measured, by cell, in a table of the study `deployment`."""
    rows = compared(STUDY, published, results(name, engine) / "flows.parquet")
    return {cell.split(" [")[0]: (reference, measured) for cell, reference, measured in rows}


def compared(study: Path, published: str, file: Path) -> list[tuple[str, float, float]]:
    """Quantity, published value and measured value, of what a study says of its table in the file."""
    told = tomllib.loads((study / "study.toml").read_text("utf-8"))["published"]
    one = next(one for one in told if one["id"] == published)
    with duckdb.connect() as connection:
        connection.execute(f"create view {file.stem} as from '{file}'")
        connection.execute(f"create view reference as from read_csv('{study / one['reference']}', comment = '#')")
        return connection.execute(f"select quantity, published, measured from ({one['sql']})").fetchall()


def told(pairs: list[tuple[float, float]], bar: float | None = None) -> str:
    """The median distance, and how many are within the bar."""
    distances = [abs(measured - published) for published, measured in pairs]
    within = "" if bar is None else f", {sum(one <= bar for one in distances)} of {len(distances)}"
    return f"{median(distances):.2f}{within}"


def table() -> str:
    """The distances of each variant on the simulator."""
    lines = [
        "| hosts | relative delay | fair queues, 1 ms | fair queues, 5 ms | one queue | DualPI2 | FIFO | share "
        "| share, FIFO of 0.5 BDP |",
        f"|{'---|' * 9}",
    ]
    for name in VARIANTS:
        if not (results(name) / "flows.parquet").is_file():
            continue
        delays = cells(name, "cubic-relative-delay")
        parts = [
            [pair for cell, pair in delays.items() if cell.split(",")[0] in queues and cell.endswith(threshold)]
            for queues, threshold in (
                (("FQ", "FQ_CoDel"), " 1 ms"),
                (("FQ", "FQ_CoDel"), " 5 ms"),
                (("CoDel", "single_queue_FQ"), ""),
                (("DualPI2",), ""),
                (("FIFO",), ""),
            )
        ]
        shares, short = ([*cells(name, one).values()] for one in ("prague-share", "prague-share-short-fifo"))
        row = [name, told([*delays.values()], 0.1), *map(told, parts), told(shares, 0.1), told(short, 0.2)]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def both() -> str:
    """Relative delay and share in the cells that ran on both engines: simulator / kernel."""
    ran = [name for name in ON_KERNEL if (results(name, "linux") / "flows.parquet").is_file()]
    lines = [f"| cell | published | {' | '.join(ran)} |", f"|{'---|' * (2 + len(ran))}"]
    for published in ("cubic-relative-delay", "prague-share", "prague-share-short-fifo"):
        of = {engine: {name: cells(name, published, engine) for name in ran} for engine in ENGINES}
        kernel = of["linux"][ran[0]] if ran else {}
        for cell, (reference, _) in kernel.items():
            if cell.startswith("DualPI2") and ", 2.0 BDP" not in cell:
                continue
            pairs = (f"{of['sim'][name][cell][1]:.2f} / {of['linux'][name][cell][1]:.2f}" for name in ran)
            what = "relative delay" if published == "cubic-relative-delay" else "share"
            lines.append(f"| {what}, {cell} | {reference:.2f} | {' | '.join(pairs)} |")
    return "\n".join(lines)


def overload() -> str:
    """Drops and marks beside UDP of 50 and 70 Mb/s over those of the page: geometric means of twelve values."""
    study = STUDIES / "overload"
    text = (study / "loads.toml").read_text("utf-8").replace('"250s"', '"130s"')
    lines = ["| hosts | PIE | DualPI2 | CoDel |", "|---|---|---|---|"]
    for name in ("none", "gso", "gso, gro 50us", "interrupts 125us", "interrupts 250us"):
        file = written(FOLDER / "overload" / name / "loads.toml", text, name, 'cc    = "cubic"\n')
        l4slab.run(file, file.parent / "sim", workers=1, where="trial = 1 and load_mbps in (50, 70)")
        ratios: dict[str, list[float]] = {}
        for quantity, reference, measured in compared(study, "drops-and-marks", file.parent / "sim" / "series.parquet"):
            if measured is not None:
                ratios.setdefault(quantity.split(",")[0], []).append(measured / reference)
        means = (f"{geometric_mean(ratios[aqm]):.2f}" for aqm in ("PIE", "DualPI2", "CoDel"))
        lines.append(f"| {name} | {' | '.join(means)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
