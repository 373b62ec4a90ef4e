"""README's table of studies: that of the studies as they are, and of their results."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import l4slab
import polars as pl
import pytest
from l4slab import experimentfile
from l4slab.base.packaged import studies, study
from l4slab.results import claims

STUDIES = list(studies())


@pytest.mark.parametrize("name", STUDIES)
def test_the_counts_are_of_the_study_as_it_is(name: str, readme: ModuleType, in_readme: Any) -> None:
    entry = json.loads(readme.SUMMARY.read_text())[name]
    assert entry["of"] == readme.mark(name), (
        f"{name} has changed: ./dev.sh studies {name} (with no results/{name}) writes README's table"
    )
    lists = Counter(claim.listed for file in study(name) for claim in experimentfile.load(file).tables(claims.Claim))
    assert {kind: total for kind, (_, total) in in_readme(name).items()} == lists
    recorded = Counter(
        claim.listed
        for file in study(name)
        for claim in experimentfile.load(file).tables(claims.Claim)
        if claim.recorded
    )
    assert {
        kind: total - expected for kind, (expected, total) in in_readme(name).items() if expected < total
    } == recorded
    assert entry["processor_s"] > 0


def test_readme_has_the_table_of_these_counts(readme: ModuleType) -> None:
    text = (Path(readme.ROOT) / "README.md").read_text()
    table = text.partition(readme.BEGIN)[2].partition(readme.END)[0]
    assert table == readme.table(json.loads(readme.SUMMARY.read_text()))
    assert all(f"`{name}`" in table for name in STUDIES)


def test_a_mark_changes_with_claims_and_runs_alone(readme: ModuleType, tmp_path: Path, monkeypatch) -> None:
    files = study("fast-lane")
    text = {file.name: file.read_text() for file in files}

    def marked(**changed: str) -> str:
        for name, content in (text | {f"{stem}.toml": content for stem, content in changed.items()}).items():
            (tmp_path / name).write_text(content)
        monkeypatch.setattr(readme, "study", lambda name: [tmp_path / file.name for file in files])
        return readme.mark("fast-lane")

    as_it_is = marked()
    assert as_it_is == readme.mark("fast-lane")
    assert marked(study=text["study.toml"].replace("No evidence", "None") + "# A comment.\n") == as_it_is
    assert marked(study=text["study.toml"].replace("expect = false", "", 1)) != as_it_is
    assert marked(A=text["A.toml"].replace("max(share) <= 0.5", "max(share) <= 0.6")) != as_it_is
    assert marked(A=text["A.toml"].replace("seed", "seed ") + "") == as_it_is
    assert marked(A=text["A.toml"].replace("40Mbit", "41Mbit")) != as_it_is
    assert marked(A=text["A.toml"].replace('duration = "', 'duration = "1')) != as_it_is


def test_verdicts_are_recorded_in_the_files_of_the_study(readme: ModuleType, tmp_path: Path, monkeypatch) -> None:
    """Only those that the lists do not expect, beside the claim's id; recorded again, the files are the same."""
    before = {file.name: file.read_bytes() for file in study("fast-lane")}
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(readme, "study", lambda name: [tmp_path / name for name in before])

    def recorded(**verdicts: str) -> dict[str, str | None]:
        files = [experimentfile.load(tmp_path / name) for name in before]
        found = [(file.name, claim) for file in files for claim in file.tables(claims.Claim)]
        rows = [
            {
                "experiment": experiment,
                "id": claim.id,
                "kind": claim.listed,
                "verdict": verdicts.get(claim.id, "fails" if claim.listed == "disputed" else "holds"),
            }
            for experiment, claim in found
        ]
        readme.record("fast-lane", pl.DataFrame(rows))
        files = [experimentfile.load(tmp_path / name) for name in before]
        return {c.id: c.recorded for file in files for c in file.tables(claims.Claim) if c.recorded}

    changed = {"A-smaller-share": "fails", "objection-fast-lane": "holds"}
    assert recorded(**changed) == changed
    assert recorded(**changed) == changed
    assert recorded() == {}
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_fast_lane(readme: ModuleType, in_readme: Any) -> None:
    assert readme.counts(l4slab.run(study("fast-lane")).claims) == in_readme("fast-lane")
