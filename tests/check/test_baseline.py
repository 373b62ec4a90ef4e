"""`l4slab check --baseline` and `--badge`: what got worse since a card was saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from l4slab import _core
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.cli.checking import against, badge_of, outcome
from l4slab.tools.check import Card, Item, quick, suite
from l4slab.tools.check.baseline import Baseline, read

LINUX = '{"l4slab": "0.2.0", "cc": "reno", "engine": "linux", "items": [{"id": "a", "verdict": "pass"}]}'
ITEMS = [word for item in ("codepoint", "feedback", "feedback-lacking") for word in ("--item", item)]


def item(name: str, verdict: Any, level: str = "MUST") -> Item:
    return Item(name, "RFC 9331", "4.1", level, f"says {name}", "", "", f"x-{name}", verdict)


def card(*items: Item, lacking: str = "", failures: tuple[str, ...] = ()) -> Card:
    return Card("mine", {}, "sim", items, failures, lacking={lacking: "left out by --quick"} if lacking else {})


def saved_card(*given: Any) -> Baseline:
    """What a saved card says: its verdicts, and perhaps its numbers and how much worse one may be."""
    return Baseline(Path("base.json"), "sim", "mine", _core.version(), *given)


@pytest.mark.slow
def test_a_card_round_trips_and_tells_what_got_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "prague", *ITEMS, "--json"]) == 0
    printed = capsys.readouterr().out
    saved = Path("results/check-prague/card.json")
    kept = json.loads(saved.read_text("utf-8"))
    assert json.loads(printed) == kept | {"exit_status": 0}
    for text in (printed, saved.read_text("utf-8")):
        Path("base.json").write_text(text, "utf-8")
        assert main(["check", "prague", *ITEMS, "--baseline", "base.json"]) == 0
        assert "verdicts that differ from base.json: 0, for the worse: 0" in capsys.readouterr().out
    # DCTCP in its place, as a Prague that was broken.
    assert main(["check", "dctcp", *ITEMS, "--json"]) == 0
    broken = json.loads(capsys.readouterr().out) | {"cc": "prague"}
    Path("better.json").write_text(json.dumps(kept | {"cc": "dctcp"}), "utf-8")
    files = ["--baseline", "better.json", "--junit", "x.xml", "--badge", "badge/x.json"]
    assert main(["check", "dctcp", *ITEMS, *files]) == 1
    told = capsys.readouterr().out
    assert "verdicts that differ from better.json: 3, for the worse: 3 (exit status 1)" in told
    assert Path("x.xml").read_text("utf-8").count("<failure") == 3
    assert json.loads(Path("badge/x.json").read_text("utf-8")) == {
        "schemaVersion": 1, "label": "l4slab check", "message": "0 of 2 met", "color": "red", "isError": False,
    }  # fmt: skip
    # The other way round everything got better.
    Path("broken.json").write_text(json.dumps(broken), "utf-8")
    assert main(["check", "prague", *ITEMS, "--baseline", "broken.json", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (set(again["changed"]), again["worse"]) == ({"codepoint", "feedback", "feedback-lacking"}, [])


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        ("pass", "fail", True),
        ("pass", "not applicable", True),
        ("pass", "not measured", True),
        ("pass", "pass", False),
        ("fail", "fail", False),
        ("fail", "pass", False),
        ("not measured", "fail", False),
        ("fail", "not measured", True),
        ("not applicable", "fail", False),
    ],
)
def test_worse_is_what_passed_and_does_not(before: str, after: str, worse: bool) -> None:
    saved, now = saved_card({"a": before}), card(item("a", after))
    assert [one.id for one in saved.changed(now)] == ["a"] * (before != after)
    assert [one.id for one in saved.worse(now)] == ["a"] * worse
    assert outcome(now, saved).count("fail") == worse


@pytest.mark.parametrize(
    ("relation", "bound", "before", "after", "is_worse"),
    [
        ("≤", 1.0, 0.88, 0.96, True),
        ("≤", 1.0, 0.88, 0.92, False),
        ("≤", 1.0, 0.88, 0.5, False),
        ("≥", 20.0, 23.2, 20.5, True),
        ("≥", 20.0, 23.2, 40.0, False),
        ("=", 4.0, 4.0, 3.5, True),
        ("≤", 2.0, 0.0, 0.11, True),  # what was 0 is held against the bound
        ("≤", 2.0, 0.0, 0.09, False),
        ("≤", 0.0, 0.0, 0.0, False),
    ],
)
def test_a_number_is_worse_beyond_the_limit(
    relation: str, bound: float, before: float, after: float, is_worse: bool
) -> None:
    def of(value: float) -> Card:
        tested = replace(item("a", "pass"), quantity="x_pct", measured=value, relation=relation, bound=bound)
        return card(tested)

    now = of(after)
    limited = saved_card({"a": "pass"}, {"a": before}, 0.05)
    assert [one.id for one in limited.worse(now)] == ["a"] * is_worse
    assert outcome(now, limited).count("fail") == is_worse
    assert saved_card({"a": "pass"}, {"a": before}).worse(now) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--fail-on", "5%"], "--fail-on needs --baseline; give the card to compare with"),
        (["--fail-on", "0.05", "--baseline", "base.json"], "'0.05' is not a percentage; give one such as 5%"),
    ],
)
def test_what_is_no_limit(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "reno", "--item", "codepoint", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_the_last_line_counts_verdicts_and_numbers_apart() -> None:
    def of(value: float, verdict: str, name: str = "a") -> Item:
        return replace(item(name, verdict), quantity="x_pct", measured=value, relation="≤", bound=2.0)

    numbers = {"a": 1.0, "b": 1.0, "c": 3.0, "d": 1.0}
    before = {"a": "pass", "b": "pass", "c": "fail", "d": "pass"}
    saved = saved_card(before, numbers, 0.05)
    now = card(of(2.5, "fail"), of(1.1, "pass", "b"), of(1.0, "pass", "c"), of(1.01, "pass", "d"))
    assert against(now, saved) == (
        "verdicts that differ from base.json: 2, for the worse: 1; other numbers worse by more than 5 %: 1"
    )
    assert [saved.beyond(one) for one in now.items] == pytest.approx([1.5, 0.1, -2 / 3, 0.01])


def test_what_was_not_asked_for_is_not_worse() -> None:
    saved = saved_card({"a": "pass", "b": "pass"})
    assert saved.worse(card(item("a", "pass"))) == [], "--item chose it"
    assert saved.worse(card(item("a", "pass"), item("new", "fail"))) == []


def test_a_row_that_was_measured_and_is_not_any_more_is_worse() -> None:
    saved = saved_card({"a": "pass", "b": "fail"})
    now = card(item("a", "not measured"), item("b", "not measured"), lacking="x-a")
    assert [one.id for one in saved.worse(now)] == ["a", "b"]


@pytest.mark.parametrize(
    ("changes", "words", "sentence"),
    [
        ({"cc": "cubic"}, [], "base.json: is a card of the congestion control cubic, and this check is of reno"),
        ({"l4slab": "0.0.9"}, [], "base.json: is a card of the version 0.0.9, and this check is of"),
        ({"items": [{"id": "gone", "verdict": "pass"}]}, [], "base.json: has gone, which this check does not measure"),
        ({"items": [{"id": "gone", "verdict": "pass"}]}, ["--item", "codepoint"], ""),
        ({"items": [{"id": "gone", "verdict": "not measured"}]}, [], ""),
        ({"items": [{"id": "share-of-reno", "verdict": "pass"}]}, ["--quick"], ""),
    ],
)
def test_a_card_that_cannot_judge_this_check_is_no_baseline(
    changes: dict[str, Any],
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    saved = {"l4slab": _core.version(), "cc": "reno", "engine": "sim", "items": []} | changes
    Path("base.json").write_text(json.dumps(saved))
    status = main(["check", "reno", *words, "--baseline", "base.json", "--dry-run"])
    assert status == (2 if sentence else 0)
    assert sentence in capsys.readouterr().err


def test_what_the_baseline_has_measured_and_this_check_leaves_out_is_told(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    items = [{"id": name, "verdict": "pass"} for name in ("codepoint", "share-of-reno")]
    file.write_text(json.dumps({"l4slab": _core.version(), "cc": "reno", "engine": "sim", "items": items}))
    whole = suite("reno")
    read(file, "sim").require(whole, ())
    with pytest.raises(InputError, match="has share-of-reno, which this check does not measure"):
        read(file, "sim").require(quick(whole, "sim", seconds=10), ())


@pytest.mark.parametrize(
    ("items", "failures", "shown"),
    [
        ([item("a", "pass"), item("b", "not applicable")], (), ("1 of 1 met", "brightgreen", False)),
        ([item("a", "pass"), item("b", "fail", "SHOULD")], (), ("1 of 2 met", "yellow", False)),
        ([item("a", "fail"), item("b", "pass")], (), ("1 of 2 met", "red", False)),
        ([item("a", "not measured")], (), ("no verdict", "lightgrey", False)),
        ([item("a", "pass")], ("it broke",), ("1 of 1 met", "lightgrey", True)),
    ],
)
def test_a_badge(items: list[Item], failures: tuple[str, ...], shown: tuple[str, str, bool]) -> None:
    badge = json.loads(badge_of(card(*items, failures=failures)))
    assert (badge["message"], badge["color"], badge["isError"]) == shown


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda file: None, "base.json: cannot be read (No such file or directory); give a saved card"),
        (lambda file: file.write_text("{"), "base.json: is not a card; give the card.json of a check"),
        (lambda file: file.write_text('{"items": [{"id": 1}]}'), "base.json: is not a card"),
        (lambda file: file.write_text(LINUX), "base.json: is a card of the engine linux"),
    ],
)
def test_what_is_no_baseline(
    make: Callable[[Path], object],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path("base.json"))
    assert main(["check", "reno", "--item", "codepoint", "--baseline", "base.json"]) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.count("\n") == 1
    assert not Path("results").exists()


def test_a_card_is_of_an_engine(tmp_path: Path) -> None:
    file = tmp_path / "card.json"
    file.write_text(LINUX)
    assert read(file, "linux").verdicts == {"a": "pass"}
