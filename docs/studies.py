"""Writes the table of studies in README.md: runs studies, counts and records their verdicts, measures processor time.

    ./dev.sh studies [STUDY...]       by default all of them; results are in results/STUDY, as of `l4slab reproduce`

The counts are kept in docs/studies.json, with a mark of what each study consists of, so that a test tells when a study
has changed and the table has not. Where results are there already they are used, and the time is that of before.
"""

from __future__ import annotations

import hashlib
import json
import re
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from l4slab import experimentfile
from l4slab.base.packaged import studies, study
from l4slab.results import claims

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = ROOT / "docs" / "studies.json"
BEGIN, END = "<!-- written by ./dev.sh studies -->\n", "<!-- end -->\n"
# Of a claim, what its verdict and its list follow from; of a file, what no verdict follows from.
_OF_A_CLAIM = ("id", "kind", "expect", "source", "sql")
# No study searches.
_BESIDE_THE_CLAIMS = ("title", "about", "published", "figure", "table", "cause", "bar", "search")
_HEADINGS = {
    "statement": "statements reproduced",
    "disputed": "disputed statements refuted",
    "found": "own findings that hold",
}


def mark(name: str) -> str:
    """Changes with the runs and the claims of a study."""
    content = []
    for file in study(name):
        experiment = experimentfile.load(file)
        document: dict[str, Any] = {
            key: value
            for key, value in {**experiment.top, **experiment.document}.items()
            # A section that a file does not have leaves no trace, so that a new kind of section changes no mark.
            if key not in _BESIDE_THE_CLAIMS and value != {}
        }
        document["claim"] = [{key: claim.get(key) for key in _OF_A_CLAIM} for claim in document["claim"]]
        content.append((file.name, document))
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


def counts(found: pl.DataFrame) -> dict[str, list[int]]:
    """Of each list of claims, how many are as expected, and how many there are."""
    return {one.kind: [one.expected, one.expected + one.contrary + one.undecided] for one in claims.tally(found)}


def record(name: str, found: pl.DataFrame) -> None:
    """Write into a study's files which verdicts are to come out: `recorded`, where a claim's list expects another."""
    unexpected = {(row["experiment"], row["id"]): row["verdict"] for row in claims.unexpected(found).to_dicts()}
    for file in study(name):
        head, *tables = re.split(r"(?m)^(?=\[\[claim\]\]$)", file.read_text("utf-8"))
        for number, text in enumerate(tables):
            without = re.sub(r"(?m)^recorded\s*=.*\n", "", text)
            claim = re.findall(r'(?m)^id\s*= "(.*)"$', without)[0]  # what follows may be another table with an id
            verdict = unexpected.get((file.stem, claim))
            line = "" if verdict is None else f'recorded = "{verdict}"\n'
            tables[number] = re.sub(r"(?m)^(id\s*=.*\n)", rf"\1{line}", without, count=1)
        file.write_text(head + "".join(tables), "utf-8")


def measured(name: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """A study's entry in the summary."""
    out = ROOT / "results" / name
    fresh = not out.exists()
    started = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "l4slab", "reproduce", name, "--out", str(out)]
    done = subprocess.run(command, check=False)  # noqa: S603  (ourselves)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(done.returncode)
    found = pl.read_parquet(out / "claims.parquet")
    record(name, found)
    processor_s = ended.ru_utime + ended.ru_stime - started.ru_utime - started.ru_stime
    return {
        "of": mark(name),
        "counts": counts(found),
        "processor_s": round(processor_s) if fresh else before.get("processor_s"),
    }


def table(summary: Mapping[str, Any]) -> str:
    """The table as Markdown."""
    rows = [["study", "question", *_HEADINGS.values(), "processor time"], ["---"] * (3 + len(_HEADINGS))]
    for name in studies():
        one = summary[name]
        title = next(file.title for file in map(experimentfile.load, study(name)) if file.is_study)
        linked = f"[`{name}`](docs/{name}.md)" if (ROOT / "docs" / f"{name}.md").is_file() else f"`{name}`"
        found = (one["counts"].get(kind) for kind in _HEADINGS)
        rows.append([linked, title, *(f"{n[0]} of {n[1]}" if n else "none" for n in found), _time(one["processor_s"])])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 15:
        return f"{seconds:.0f} s"
    return f"{round(seconds, -1):.0f} s" if seconds < 95 else f"{seconds / 60:.0f} min"


def main(names: list[str]) -> None:
    """Bring summary and README up to date."""
    summary = json.loads(SUMMARY.read_text()) if SUMMARY.exists() else {}
    for name in names or studies():
        entry = measured(name, summary.get(name, {}))
        # Another process may have written meanwhile.
        summary = (json.loads(SUMMARY.read_text()) if SUMMARY.exists() else {}) | {name: entry}
        SUMMARY.write_text(json.dumps(summary, indent=1, sort_keys=True) + "\n")
    readme = ROOT / "README.md"
    head, _, rest = readme.read_text().partition(BEGIN)
    if set(summary) >= set(studies()):
        readme.write_text(head + BEGIN + table(summary) + END + rest.partition(END)[2])


if __name__ == "__main__":
    main(sys.argv[1:])
