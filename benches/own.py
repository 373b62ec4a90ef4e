"""Delivered packets per second with controllers and a queue in Python: `.venv/bin/python benches/own.py`.

The laws are those that `l4slab new` writes; the built-in ones beside them are what the interpreter costs.
"""

from __future__ import annotations

import os
import tempfile
import time
from importlib.resources import files
from pathlib import Path

import l4slab
from l4slab import _core, experimentfile, sweep
from l4slab.own import files as own_files
from l4slab.own import processes

FLOWS, TRIALS = 4, 4
CASES = {
    "reno, pfifo": ("reno", "pfifo limit 100"),
    "a controller in Python on all flows": ("controller.py:Mine", "pfifo limit 100"),
    "a queue in Python": ("reno", "queue.py:Mine limit 100"),
    "both in Python": ("controller.py:Mine", "queue.py:Mine limit 100"),
}


def main() -> None:
    """A line per case: one process, best of three; then all cores."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what in ("controller", "queue"):
            source = (files("l4slab.own") / f"templates/{what}.py").read_text().replace("CLASS", "Mine")
            (folder / f"{what}.py").write_text(source)
        cores = len(os.sched_getaffinity(0))
        print(
            f"{FLOWS} flows, 100 Mbit/s, 10 ms: delivered packets per second in one process, and with {cores} workers"
        )
        for case, (cc, qdisc) in CASES.items():
            file = folder / "x.toml"
            file.write_text(
                f'duration = "60s"\ntrials = {TRIALS}\nsample = "1s"\n[link.b]\nrate = "100Mbit"\nqdisc = "{qdisc}"\n'
                f'[[flow]]\nname = "f"\ncount = {FLOWS}\ncc = "{cc}"\nrtt = "10ms"\n'
            )
            run = sweep.expand(experimentfile.load(file), "sim").runs[0]
            used = own_files.used(run.description)
            best = 0.0
            for _ in range(3):
                start = time.perf_counter()
                tables = processes.simulate(run.json, None, used) if used else _core.simulate(run.json)
                best = max(best, tables["delivered_packets"] / (time.perf_counter() - start))
            start = time.perf_counter()
            l4slab.run(file)
            together = TRIALS * tables["delivered_packets"] / (time.perf_counter() - start)
            print(f"{case:<40}{best:>12,.0f}{together:>12,.0f}")


if __name__ == "__main__":
    main()
