"""Mutated experiment files: none may end in a traceback, a panic, a kill, or in more than 2 GiB of memory.

    python tests/mutations.py [--count 20000] [--seed 1] [--workers 2] [--run]

Each file is an experiment of the repository with one to three changes of keys, values, types, units or tables. A worker
process gives it to `l4slab run --dry-run`; with --run, cheap experiments also run for real, report included. Findings
and counts are printed as they come. Every finding names a number; --only NUMBER prints that file and tries it again.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import random
import re
import resource
import selectors
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

ROOT = Path(__file__).parents[1]
MEMORY_BYTES = 2 << 30
# Address space is larger than what is used, most of all by the stacks of threads.
_ADDRESSES_BYTES = 6 << 30
_SILENT_S = 240.0
_COUNTS_EVERY = 500
# A run that is tried for real; what it would cost is known before.
_CHEAP_PACKETS = 300_000
_CHEAP_ROWS = 20_000
_VALUES: list[Any] = [
    *("", " ", "x", "0", "-1", "1", "{rate}", "1e9Gbit", "1Tbit", "1bit", "0bit", "-5Mbit", "100Mbps", "10"),
    *("1ns", "0s", "1us", "100000h", "168h", "-1s", "1e-9s", "10ms", "1e300s", "1B", "0B", "1e15B", "64B", "9014B"),
    *("1/min", "1000000/s", "0/s", "1e-9/s", "pfifo limit 4294967295", "netem delay 5ms", "cake", "dualpi2", "fq"),
    *("limit 4000000000", "loss 100%", "delay 274s limit 4000000000", "htb default 1", "not-ect", "ect1", "ce", "\0"),
    *(0, 1, -1, 2, 3, 1000, 100_000, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 0.0, -0.5, 1.5, 1e-300, 1e300),
    *(
        float("nan"),
        float("inf"),
        True,
        False,
        [],
        [[]],
        ["x"],
        [1, "x"],
        {},
        {"x": 1},
        {"level": "x"},
        "µ",
        "a.b",
        "*",
    ),
]
_UNITS = (
    "bit",
    "kbit",
    "Mbit",
    "Gbit",
    "Tbit",
    "ns",
    "us",
    "ms",
    "s",
    "min",
    "h",
    "B",
    "kB",
    "MB",
    "GB",
    "/s",
    "/min",
    "%",
)


def sources() -> list[dict[str, Any]]:
    """The repository's experiments, of at most two levels per factor and one trial."""
    found = []
    for file in sorted([*(ROOT / "examples").rglob("*.toml"), *(ROOT / "python/l4slab/studies").rglob("*.toml")]):
        with contextlib.suppress(tomllib.TOMLDecodeError):
            document = tomllib.loads(file.read_text())
            if "link" not in document or "search" in document:
                continue
            document["trials"] = 1
            _shorten_sweep(document.get("sweep", {}))
            found.append(document)
    return found


def _shorten_sweep(sweep: dict[str, Any]) -> None:
    for key, value in sweep.items():
        if isinstance(value, dict):
            _shorten_sweep(value)
        elif isinstance(value, list):
            sweep[key] = value[:2]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


class Mutator:
    """Makes the files; equal seeds make equal files."""

    def __init__(self, seed: int):
        from l4slab.experimentfile.tables import At, Impair, Link, Rewrite, Skip, Top
        from l4slab.experimentfile.traffic import KINDS
        from l4slab.experimentfile.wording import keys_of

        self._seed = seed
        self._sources = sources()
        models = (At, Impair, Link, Rewrite, Skip, Top, *KINDS.values())
        self._keys = sorted({key for model in models for key in keys_of(model)})
        self._written: dict[str, list[Any]] = {}
        for document in self._sources:
            for path in _places(document):
                value = _at(document, path)
                key = next(part for part in reversed(path) if isinstance(part, str))
                self._written.setdefault(key.split(".")[-1], []).append(value)

    def document(self, number: int) -> dict[str, Any]:
        rng = random.Random(f"{self._seed}/{number}")
        document = copy.deepcopy(rng.choice(self._sources))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            places = list(_places(document))
            if places:
                self._change(document, rng.choice(places), rng)
        return document

    def _change(self, document: Any, path: tuple[Any, ...], rng: random.Random) -> None:
        table, key = _at(document, path[:-1]), path[-1]
        value = table[key]
        # Most new keys are refused at once: what changes a value goes further.
        match rng.choice((0, 1, 2, 3, 4, 4, 4, 5, 5, 6, 6, 6, 7, 8)):
            case 0:
                del table[key]
            case 1 if isinstance(table, dict):
                table[rng.choice((*self._keys, f"{key}x", key[:-1] or "x"))] = table.pop(key)
            case 2 | 3 if isinstance(table, dict):
                new = rng.choice(self._keys)
                table[new] = copy.deepcopy(rng.choice(self._written.get(new, _VALUES)))
            case 4 if isinstance(value, str):
                number = re.sub(r"[A-Za-z/%]+$", "", value)
                table[key] = number + rng.choice(_UNITS)
            case 5 if isinstance(value, str) and value:
                at = rng.randrange(len(value))
                table[key] = value[:at] + rng.choice(("", "0", "9999", " ", "-", ".", "e9", "x")) + value[at + 1 :]
            case 6 if isinstance(key, str):
                table[key] = copy.deepcopy(rng.choice(self._written.get(key.split(".")[-1], _VALUES)))
            case 7 if isinstance(table, list):
                table.append(copy.deepcopy(value))
            case _:
                table[key] = rng.choice(_VALUES)

    def text(self, number: int) -> str:
        from l4slab.api.experiment import to_toml

        try:
            text = to_toml(self.document(number))
        except Exception:  # tomlkit cannot write every mutation
            return ""
        rng = random.Random(f"text/{self._seed}/{number}")
        if rng.random() < 0.05 and text:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice('"[]={}.\n#,x') + text[at + rng.randrange(3) :]
        return text


def attempt(text: str, file: Path, run: bool) -> str:
    """What came of a file: "refused", "valid", "ran", or a finding, which has several words."""
    from l4slab.cli import main

    file.write_text(text)
    out = file.with_suffix("")
    arguments = [["run", str(file), "--dry-run"]]
    outcome = "valid"
    for number in range(2):
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                status = main(arguments[number])
        except BaseException:  # panics, too, are what is looked for
            return "traceback: " + " | ".join(traceback.format_exc().splitlines()[-3:])
        told = said.getvalue()
        if "panicked" in told or "Warning" in told:
            return "panic or warning: " + told[-300:].replace("\n", " | ")
        if status == 2:
            # One for each mistake.
            are_sentences = told and all(line.startswith("l4slab: ") for line in told.splitlines())
            return "refused" if are_sentences and not number else "no sentence: " + told[-300:].replace("\n", " | ")
        if status not in (0, 1):
            return f"exit status {status}: " + told[-300:].replace("\n", " | ")
        if status == 1 and "(exit status 1)" not in told:  # of claims
            return "exit status 1: " + told[-300:].replace("\n", " | ")
        if number or not run or not _is_cheap(file):
            return "ran" if number else outcome
        arguments.append(["run", str(file), "--out", str(out), "--workers", "1"])
    return outcome


def _is_cheap(file: Path) -> bool:
    from l4slab.api import campaign
    from l4slab.experimentfile import bounds

    runs = [run.description for plan in campaign.plan([file]) for run in plan.todo]
    rows = sum(run["duration_ns"] / run["sample_ns"] * len(run["flows"]) for run in runs)
    return 0 < len(runs) <= 4 and sum(map(bounds.packets, runs)) < _CHEAP_PACKETS and rows < _CHEAP_ROWS


def _work(seed: int, numbers: range, run: bool) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES_BYTES, _ADDRESSES_BYTES))
    # Half of what an attempt may use.
    os.environ["L4SLAB_MEMORY"] = f"{MEMORY_BYTES // 2}B"
    mutator = Mutator(seed)
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            print(json.dumps({"number": number}), flush=True)
            outcome = attempt(mutator.text(number), Path(folder) / f"m{number}.toml", run)
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            if used > MEMORY_BYTES:
                outcome = f"memory: {used / 2**30:.1f} GiB"
            print(json.dumps({"number": number, "outcome": outcome}), flush=True)
            if used > MEMORY_BYTES:
                os._exit(1)


class _Outcomes:
    """What came of each file, told as it comes."""

    def __init__(self, count: int):
        self._count = count
        self._lock = Lock()
        self.counts: Counter[str] = Counter()
        self.findings: list[tuple[int, str]] = []

    def add(self, number: int, outcome: str) -> None:
        with self._lock:
            if " " in outcome:
                self.findings.append((number, outcome))
                print(number, outcome, file=sys.stderr, flush=True)
            self.counts["finding" if " " in outcome else outcome] += 1
            if (ended := self.counts.total()) % _COUNTS_EVERY == 0:
                print(f"{ended} of {self._count}: {dict(self.counts)}", file=sys.stderr, flush=True)


def _watch(seed: int, numbers: range, run: bool, outcomes: _Outcomes) -> None:
    """Try these files, in processes that may die."""
    rest = numbers
    while rest:
        command = [
            sys.executable,
            __file__,
            "--seed",
            str(seed),
            "--worker",
            str(rest.start),
            str(rest.stop),
            str(rest.step),
        ]
        environment = os.environ | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen([*command, *(["--run"] if run else [])], stdout=subprocess.PIPE, env=environment)
        assert process.stdout is not None
        at, ended, wrong = rest.start, False, "killed"
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(_SILENT_S):
                    process.kill()
                    wrong = f"silent for {_SILENT_S:g} s"
                line = process.stdout.readline()
                if not line:
                    break
                found = json.loads(line)
                at, ended = found["number"], "outcome" in found
                if ended:
                    outcomes.add(at, found["outcome"])
        status = process.wait()
        if not ended:
            outcomes.add(at, f"{wrong}: exit status {status}")
        rest = range(at + rest.step, rest.stop, rest.step)


def mutate(seed: int, count: int, workers: int = 2, run: bool = False) -> tuple[Counter[str], list[str]]:
    """How many files were refused, valid and run, and the findings."""
    outcomes = _Outcomes(count)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda first: _watch(seed, range(first, count, workers), run, outcomes), range(workers)))
    return outcomes.counts, [f"{number}: {outcome}" for number, outcome in sorted(outcomes.findings)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--only", type=int)
    parser.add_argument("--worker", type=int, nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        _work(given.seed, range(*given.worker), given.run)
        return 0
    if given.only is not None:
        text = Mutator(given.seed).text(given.only)
        print(text)
        print(attempt(text, Path(tempfile.mkdtemp()) / f"m{given.only}.toml", given.run))
        return 0
    counts, findings = mutate(given.seed, given.count, given.workers, given.run)
    print(dict(counts), *findings, sep="\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
