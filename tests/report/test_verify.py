"""`l4slab verify`: each alteration is found in its place, and no untouched report is accused."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from l4slab.campaign import digests
from l4slab.campaign.store import Store
from l4slab.cli import main
from l4slab.engines import sim
from l4slab.report import grids, runs
from l4slab.tools import verify as tool
from l4slab.tools.verify import given, intervals, rewritten
from l4slab.tools.verify.findings import Finding

from . import altering
from .altering import ALTERATIONS

# Kinds that only a computation of the run finds.
COMPUTED = ("a capture", "a forged run")


def computed(folder: Path) -> Path:
    (folder / "x.toml").write_text(altering.EXPERIMENT)
    assert main(["run", str(folder / "x.toml"), "--out", str(folder / "out"), "-q"]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return computed(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def anew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return computed(tmp_path_factory.mktemp("anew"))


@pytest.fixture
def folder(untouched: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(untouched, tmp_path / "copied"))


def names(findings: list[Finding], file: str, place: tuple[str, ...]) -> bool:
    """Whether a finding is in this file and has these words."""
    return any(one.file == file and all(word in str(one) for word in place) for one in findings)


def verified(capsys: pytest.CaptureFixture[str], place: Path, *options: str, status: int = 0) -> str:
    capsys.readouterr()
    assert main(["verify", str(place), "-q", *options]) == status
    printed = capsys.readouterr()
    return printed.out + printed.err


# -- alterations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in ALTERATIONS if kind not in COMPUTED])
def test_an_alteration_is_found_and_named(folder: Path, anew: Path, kind: str) -> None:
    file, place = ALTERATIONS[kind](folder, random.Random(kind))
    one = given.read(str(folder), folder)
    findings = [*given.of_files(one), *rewritten.differences(one, anew, anew, {}, None, [])]
    findings += [Finding(f"parts/{name}", (), "", "") for name in Store(folder).damaged()]
    assert names(findings, file, place), findings


@pytest.mark.parametrize("kind", [*COMPUTED, "a number of a text", "the seed of the file"])
def test_the_command_says_where(folder: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    file, place = ALTERATIONS[kind](folder, random.Random(kind))
    text = verified(capsys, folder, "--all", status=1)
    (line, *_) = [line for line in text.splitlines() if line.startswith(file)]
    assert all(word in line for word in place)
    assert ": found " in line
    assert ", recomputed " in line
    assert "Altered: " in text


def test_what_large_results_have_in_files_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs, "MAX_EMBEDDED_ROWS", 0)
    monkeypatch.setattr(grids, "MAX_EMBEDDED_BYTES", 0)
    folder = computed(tmp_path)
    assert "what the stored runs give" in verified(capsys, folder, "--runs", "0")
    one, other = sorted(folder.glob("runs/*/*.js"))[:2]
    (table,) = folder.glob("runs/links-*.js")
    packed = other.read_text("utf-8").split('"')[3]
    for path, text in (
        (one, f'l4slab.run("{one.stem}","{packed}")\n'),
        (table, re.sub(r"(?<=\[)[\d.]+(?=,)", "17", table.read_text("utf-8"), count=1)),
    ):
        before = path.read_text("utf-8")
        path.write_text(text, "utf-8")
        assert verified(capsys, folder, "--runs", "0", status=1).startswith(path.relative_to(folder).as_posix())
        path.write_text(before, "utf-8")


@pytest.mark.slow
def test_a_hundred_alterations_are_found_and_twenty_untouched_reports_are_not(untouched: Path, tmp_path: Path) -> None:
    kinds = list(ALTERATIONS)
    missed = []
    for number in range(100):
        kind = kinds[number % len(kinds)]
        folder = Path(shutil.copytree(untouched, tmp_path / f"{number}"))
        file, place = ALTERATIONS[kind](folder, random.Random(number))
        found = tool.verify(str(folder), every=True)
        if found.status != 1 or not names(found.findings, file, place):
            missed.append((number, kind, found.findings))
        shutil.rmtree(folder)
    assert not missed
    accused = []
    for number in range(20):
        folder = Path(shutil.copytree(untouched, tmp_path / "results" / f"copy {number}"))
        place = folder
        if number % 2:
            place = tmp_path / f"{number}.html"
            shutil.copy(folder / "report.html", place)
        accused += tool.verify(str(place), count=number % 5 or None).findings
    assert not accused


# -- what is untouched ------------------------------------------------------------------------------------------------


def test_a_folder_is_verified_wherever_it_is(
    untouched: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in untouched.rglob("*")}
    text = verified(capsys, untouched, "--runs", "2")
    assert "2 of 4 runs recomputed, identical" in text
    assert "Every table, verdict, text and figure is what the stored runs give." in text
    assert "4 or more altered runs" not in text
    assert "3 or more altered runs would have been found with at least 95% probability; 1 with 50%" in text
    assert {path: path.stat().st_mtime_ns for path in untouched.rglob("*")} == before
    moved = Path(shutil.copytree(untouched, tmp_path / "results" / "x y"))
    assert "4 of 4 runs recomputed, identical" in verified(capsys, moved / "report.html", "--all")


def test_a_page_alone_is_verified(untouched: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "sent.html"
    shutil.copy(untouched / "report.html", page)
    assert "4 of 4 runs recomputed, identical" in verified(capsys, page)
    assert "texts and figures, which are about all runs, were not compared" in verified(capsys, page, "--runs", "1")


def test_a_page_alone_that_was_altered_is_found(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "sent.html"
    original = (folder / "report.html").read_text("utf-8")
    for kind, some in [("a number of a text", False), ("a curve of a run", True), ("the experiment in the page", True)]:
        ALTERATIONS[kind](folder, random.Random(kind))
        page.write_text((folder / "report.html").read_text("utf-8"), "utf-8")
        (folder / "report.html").write_text(original, "utf-8")
        assert "Altered" in verified(capsys, page, *(["--runs", "4"] if some else []), status=1)


def test_a_forged_page_alone_is_found_by_its_digests(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, (_, run, _) = altering.forged(folder, random.Random(1))
    page = tmp_path / "sent.html"
    shutil.copy(folder / "report.html", page)
    assert f"digest of run: {run}" in verified(capsys, page, "--all", status=1)


def test_a_folder_without_its_stored_runs_is_verified_by_digests(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(folder / "parts")
    assert "4 of 4 runs recomputed, identical" in verified(capsys, folder)
    assert "were not compared" in verified(capsys, folder, "--runs", "1")
    ALTERATIONS["a cell of series"](folder, random.Random(1))
    assert "series.parquet: " in verified(capsys, folder, status=1)


def test_digests_do_not_depend_on_the_number_of_workers(untouched: Path, tmp_path: Path) -> None:
    file = untouched / "experiments" / "x.toml"
    assert main(["run", str(file), "--out", str(tmp_path), "--workers", "1", "--no-report", "-q"]) == 0
    assert (tmp_path / "digests.json").read_text() == (untouched / "digests.json").read_text()


# -- builds -----------------------------------------------------------------------------------------------------------


def test_another_build_with_the_same_numbers_is_no_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sim, "_version", lambda: "0123456789abcdef")
    monkeypatch.setattr(digests, "build", lambda: "another")
    text = verified(capsys, folder, "--all")
    assert "build another" in text
    assert "pip install l4slab==" in text
    assert "4 of 4 runs recomputed, identical" in text


def test_a_difference_to_another_build_is_no_accusation(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ALTERATIONS["a number of a text"](folder, random.Random(1))
    monkeypatch.setattr(digests, "build", lambda: "another")
    text = verified(capsys, folder, "--runs", "0", status=2)
    assert "Not decided: 1 place differs, which may be due to the version." in text
    assert "Altered" not in text


def test_digests_depend_on_values_only() -> None:
    rows = pl.DataFrame({"a": [1.0, None, 3.0], "b": ["x", "y", None], "c": [True, False, True]})
    same = rows.with_columns(d=pl.lit(None, pl.Float64)).select("d", "c", "b", "a")
    parts = pl.concat([same[:1], same[1:]], rechunk=False)
    assert digests.of_rows(rows) == digests.of_rows(same) == digests.of_rows(parts)
    lists = pl.DataFrame({"a": [["x"], None, ["y", "z"]]})  # the table of a search
    assert digests.of_rows(lists) != digests.of_rows(lists.reverse())
    others = [rows.reverse(), rows[:2], rows.rename({"a": "e"}), rows.with_columns(pl.col("a").fill_null(0.0))]
    others += [rows.with_columns(a=pl.col("a") * (1 + 2**-52)), rows.with_columns(b=pl.col("b").fill_null("z"))]
    assert len({digests.of_rows(one) for one in (rows, *others)}) == 7


# -- chance and intervals ---------------------------------------------------------------------------------------------


def test_the_chance_to_find_altered_runs() -> None:
    assert tool.found_by_chance(60, 5, 1) == pytest.approx(5 / 60)
    assert tool.found_by_chance(4, 2, 3) == 1
    drawn = random.Random(1)
    found = sum(min(drawn.sample(range(60), 5)) < 26 for _ in range(4000)) / 4000
    assert tool.found_by_chance(60, 5, 26) == pytest.approx(found, abs=0.02)
    assert tool.found_by_chance(60, 5, tool.surely_found(60, 5)) >= tool.SURE


def values(stored: list[float], spread: float, quantity: str = "share") -> list[intervals.Value]:
    chance = random.Random(3)
    return [
        intervals.Value("flows", f"flow {number}", quantity, value, [0.5 + chance.gauss(0, spread) for _ in range(5)])
        for number, value in enumerate(stored)
    ]


def test_runs_of_a_kernel_are_compared_by_intervals() -> None:
    found, notes = intervals.judged(values([0.5, 0.52, 0.9], 0.01))
    assert [(one.file, one.place) for one in found] == [("flows.parquet", ("flow 2", "share"))]
    assert not notes
    few = [intervals.Value("flows", "flow a", "share", 0.9, [0.5, 0.5])]
    assert intervals.judged(few) == (
        [],
        ["1 of 1 values have fewer than 3 others to be held against; more trials judge them."],
    )


def test_twenty_untouched_runs_of_a_kernel_are_not_accused() -> None:
    chance = random.Random(5)
    for _ in range(20):
        stored = [chance.gauss(0.5, 0.1) for _ in range(30)]
        assert not intervals.judged(values(stored, 0.1))[0]


def test_an_engine_that_is_not_exact_is_held_against_its_trials(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sim.SimEngine, "is_exact", False)
    page = Path(shutil.copy(folder / "report.html", tmp_path / "sent.html"))
    for place in (folder, page):
        assert "within the intervals of their trials" in verified(capsys, place)
    ALTERATIONS["a number of a text"](folder, random.Random(1))
    assert "report.html: what-happened" in verified(capsys, folder, status=1)


# -- input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none", None, "is neither a folder nor a file; give a DIR"),
        ("x.html", "<p>hello</p>", "is not a report of l4slab"),
        ("x.html", '<script type="application/json" id="index">{}</script>', "does not hold its experiment files"),
        ("x.html", b"\xff\xfe", "is not a report of l4slab"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    text = verified(capsys, tmp_path / name, status=2)
    assert message in text
    assert text.count("\n") == 1


def test_a_folder_without_results_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a results folder" in verified(capsys, tmp_path, status=2)
    assert "is a URL" in verified(capsys, "memory://x", status=2)  # type: ignore[arg-type]
    assert "exclude each other" in verified(capsys, tmp_path, "--all", "--runs", "3", status=2)


def test_a_page_cannot_write_outside_of_its_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "sent.html"
    text = (folder / "report.html").read_text("utf-8")
    page.write_text(text.replace('"files":{"x.runs"', '"files":{"../../x.runs"'), "utf-8")
    assert "outside of its folder" in verified(capsys, page, status=2)


def test_the_result_is_there_for_scripts(untouched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(verified(capsys, untouched, "--runs", "1", "--json"))
    assert (found["runs"], len(found["again"]), found["findings"], found["exit_status"]) == (4, 1, [], 0)
