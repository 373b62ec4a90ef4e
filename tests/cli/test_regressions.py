"""`l4slab compare --fail-on`: how often chance fails, how often a planted change is found, and what is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from l4slab.base import metrics
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.results import chance, regressions
from l4slab.results.differences import Change
from l4slab.results.regressions import Judged, Limit, decide, limits

QUANTITIES = 3
ANY = Limit("", "share", 0, 0.0, is_relative=True)


def compared(before: np.ndarray, after: np.ndarray, limit: Limit = ANY) -> list[bool]:
    """Of each quantity (a row per quantity, a column per trial), whether it fails."""
    changes = [
        Change("x", {}, "a", "share", tuple(first), tuple(second), 1.0)
        for first, second in zip(before, after, strict=True)
    ]
    return [one.fails for one in decide([Judged(change, limit, "x") for change in changes])]


@pytest.mark.parametrize(
    "kind", ["two values", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("normal", "skewed"))]
)
def test_chance_fails_at_most_one_comparison_in_100(kind: str) -> None:
    rng = np.random.default_rng(1)
    failed = 0
    for _ in range(500):
        drawn = {
            "normal": rng.normal,
            "skewed": lambda size: rng.lognormal(size=size),
            "two values": lambda size: rng.integers(2, size=size).astype(float),
        }[kind](size=(2, QUANTITIES, 8))
        failed += any(compared(*drawn))
    # At 1 % each, 5 of 500 are expected; more than 11 come out for 1 seed in 180.
    assert failed <= 11


@pytest.mark.slow
def test_a_change_of_twice_the_spread_is_found_in_95_of_100() -> None:
    rng = np.random.default_rng(1)
    trials = regressions.trials_for(QUANTITIES)
    shift = np.zeros((QUANTITIES, 1))
    shift[1] = regressions.SPREADS
    limit = Limit("", "share", 0, 1.0, is_relative=False)
    found = [
        compared(rng.normal(size=(QUANTITIES, trials)), shift + rng.normal(size=(QUANTITIES, trials)), limit)
        for _ in range(120)
    ]
    # At 95 % each, 114 of 120 are expected; fewer than 108 come out for 1 seed in 100.
    assert sum(one[1] for one in found) >= 108
    assert sum(one[0] or one[2] for one in found) <= 5


def test_the_trials_that_are_needed_grow_slowly() -> None:
    assert [regressions.trials_for(count) for count in (1, 10, 100)] == [11, 15, 19]
    assert regressions.shows_from(4, 1) == float("inf")
    assert regressions.shows_from(20, 10) < regressions.SPREADS < regressions.shows_from(10, 10)


def test_the_permutation_test_counts_ways() -> None:
    # Of the 20 ways to choose three of six, the highest three are one; both directions are two.
    assert chance.permutation([1, 2, 3], [4, 5, 6], 1) == 1 / 20
    assert chance.permutation([1, 2, 3], [4, 5, 6]) == 2 / 20
    assert chance.permutation([1, 2, 3], [4, 5, 6], -1) == 1
    assert chance.permutation([0.1] * 3, [0.1] * 3) == 1
    # The median of three ways to choose one of three.
    assert chance.permutation([1, 3], [2], 1) == 2 / 3


def test_the_limit_has_a_direction_and_a_size() -> None:
    before, after = np.full((1, 8), 10.0), np.full((1, 8), 11.0)
    for text, fails in {"share 5%": True, "share +5%": True, "share -5%": False, "share 20%": False}.items():
        assert compared(before, after, *limits(text)) == [fails]
    for text, fails in {"rpm 0.9": True, "rpm +1.1": False}.items():
        assert compared(before, after, *limits(text)) == [fails]


def results(folder: Path, shares: Mapping[str, Sequence[float | None]], claim: str = "holds") -> Path:
    """A results folder: of two flows, the share in each trial; and a link with a constant delay."""
    folder.mkdir()
    labels = [{"experiment": "x", "run": f"r{trial}", "trial": trial, "rate": "1Mbit"} for trial in range(1, 41)]
    flows = [
        labels[trial] | {"flow": flow, "cc": "reno", "share": share, "goodput_mbps": 1.0}
        for flow, of_flow in shares.items()
        for trial, share in enumerate(of_flow)
    ]
    count = max(map(len, shares.values()))
    links = [one | {"link": "l", "queue": queue, "sojourn_ms_mean": 5.0} for one in labels[:count] for queue in "LC"]
    claims = {"experiment": "x", "id": "c", "says": "it works", "kind": "claim", "verdict": claim}
    tables = {"flows": flows, "links": links, "claims": [dict.fromkeys(metrics.CLAIMS) | claims]}
    for name, rows in tables.items():
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(folder / f"{name}.parquet")
    return folder


RNG = np.random.default_rng(3)
SPREAD = RNG.normal(0, 0.01, (2, 12))
HALF = list(0.5 + SPREAD[0])


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, str]:
    before = results(tmp_path / "before", {"mine": HALF, "rival": HALF})
    after = results(tmp_path / "after", {"mine": list(0.4 + SPREAD[1]), "rival": list(0.6 + SPREAD[1])})
    return str(before), str(after)


@pytest.mark.parametrize(
    ("text", "failing"),
    [
        ("share 5%", ["mine", "rival"]),
        ("mine.share -5%", ["mine"]),
        ("rival.share -5%", []),
        ("share -0.05, goodput_mbps 1%", ["mine"]),
        ("share -50%", []),
        ("l.sojourn_ms_mean +1%, l.L.sojourn_ms_mean +1%", []),
    ],
)
def test_exit_status_and_files(
    text: str, failing: list[str], folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = ["--junit", str(tmp_path / "x.xml"), "--summary", str(tmp_path / "x.md")]
    assert main(["compare", *folders, "--fail-on", text, "--json", *outputs]) == bool(failing)
    told = json.loads(capsys.readouterr().out)["limits"]
    assert [one["place"] for one in told if one["fails"]] == failing
    assert (tmp_path / "x.xml").read_text("utf-8").count("<failure") == len(failing)
    assert ("### Not passed" in (tmp_path / "x.md").read_text("utf-8")) == bool(failing)
    assert main(["compare", *folders, "--fail-on", text]) == bool(failing)
    shown = capsys.readouterr().out
    assert "With 12 trials, a change of" in shown
    assert ("Failed: changed beyond the limit and beyond chance" in shown) == bool(failing)
    assert main(["compare", folders[0], folders[0], "--fail-on", text]) == 0


def test_without_limits_only_claims_fail(folders: tuple[str, str], tmp_path: Path) -> None:
    assert main(["compare", *folders]) == 0
    worse = results(tmp_path / "worse", {"mine": HALF, "rival": HALF}, claim="fails")
    assert main(["compare", folders[0], str(worse), "--junit", str(tmp_path / "x.xml")]) == 1
    assert '<failure message="measured fails; expected holds, as before"' in (tmp_path / "x.xml").read_text("utf-8")


def test_what_is_gone_fails(folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = results(tmp_path / "gone", {"rival": HALF})
    assert main(["compare", folders[0], str(gone), "--fail-on", "share 5%", "--summary", str(tmp_path / "x.md")]) == 1
    assert "no value" in capsys.readouterr().out
    assert "→ no value" in (tmp_path / "x.md").read_text("utf-8")


def test_a_quantity_with_few_values_is_undecided(
    folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = results(tmp_path / "few", {"mine": [0.1, 0.1, *[None] * 10], "rival": HALF})
    assert main(["compare", folders[0], str(few), "--fail-on", "share 5%", "--junit", str(tmp_path / "x.xml")]) == 0
    assert "1 quantity has too few trials to fail" in capsys.readouterr().out
    assert (tmp_path / "x.xml").read_text("utf-8").count("<skipped") == 1


@pytest.mark.parametrize(
    ("trials", "sentence"),
    [
        (
            1,
            "with 1 trial; the same seed gives the same numbers, so one trial has no spread; run both with trials = 12",
        ),
        (4, "cannot tell a change of 2 quantities from chance with 4 trials; run both with trials = 12"),
    ],
)
def test_too_few_trials_are_refused(
    trials: int, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(results(tmp_path / name, dict.fromkeys("ab", HALF[:trials]))) for name in ("one", "two")]
    assert main(["compare", *folders, "--fail-on", "share 5%"]) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "--fail-on is empty"),
        ("share", '"share" is not a quantity and its limit; write such as "share -5%, sojourn_ms_p99 +10%"'),
        ("share -5", '"share -5" can never be passed, because share is between 0 and 1; write "share -5%"'),
        ("share -5%,", '"" is not a quantity and its limit'),
        ("shar -5%", 'shar is not a number in flows.parquet or links.parquet; did you mean "share"?'),
        ("cc -5%", "cc is not a number"),
        ("nobody.share -5%", "nobody.share has no value in "),
    ],
)
def test_mistakes_in_limits(
    text: str, sentence: str, folders: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *folders, "--fail-on", text]) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.count("\n") == 1


def test_more_quantities_than_a_comparison_can_judge() -> None:
    change = Change("x", {}, "a", "share", tuple(HALF), tuple(HALF), 1.0)
    with pytest.raises(InputError, match=r"name a flow or link, such as l4s\.share"):
        decide([Judged(change, ANY, "x")] * 1001)
