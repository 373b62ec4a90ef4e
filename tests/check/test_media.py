"""`l4slab check --media`: RFC 8867's test cases for a congestion control of media."""

from pathlib import Path

import pytest
from l4slab import InputError
from l4slab.api.experiment import load
from l4slab.cli import main
from l4slab.tools import check


def verdicts(cc: str, only: tuple[str, ...] = ()) -> dict[str, str]:
    card = check.check(cc, only=only, media=True)
    assert not card.failures
    return {item.id: item.verdict for item in card.items}


def test_a_fixed_rate_does_not_answer() -> None:
    found = verdicts("none", ("queue", "losses", "pause", "priority"))
    assert found == {"queue": "fail", "losses": "fail", "pause": "pass", "priority": "not measured"}


@pytest.mark.slow
@pytest.mark.parametrize("cc", ["gcc", "nada", "scream"])
def test_the_cases_that_rfc_8868_has_a_bound_for(cc: str) -> None:
    cases = ("capacity-two", "self-fairness", "rtt-fairness", "long-tcp", "pause", "several-links", "queue", "losses")
    assert set(verdicts(cc, cases).values()) == {"pass"}


@pytest.mark.slow
def test_jitter_looks_like_a_queue_to_nada() -> None:
    # What a packet needs beyond the least delay is a queue for NADA.
    found = {cc: verdicts(cc, ("jitter",))["jitter"] for cc in ("gcc", "scream", "prague", "nada")}
    assert found == dict.fromkeys(("gcc", "scream", "prague"), "pass") | {"nada": "fail"}


@pytest.mark.slow
def test_the_cases_of_rfc_8869_over_wifi_and_lte() -> None:
    found = verdicts("gcc", ("wifi-line", "wifi-line-tcp", "wifi-fair", "wifi-rivals", "cell-use", "cell-late"))
    # Next to a long TCP transfer it keeps its lowest rate, a fifth of TCP's. On a bad channel an AQM helps little, and
    # frames are skipped while the cell holds 350 ms.
    failing = ("wifi-line-tcp", "cell-use", "cell-late")
    assert found == dict.fromkeys(found, "pass") | dict.fromkeys(failing, "fail")


def test_options_reach_the_calls() -> None:
    asked = check.suite("nada", {"priority": "2"}, only=("pause",), media=True)
    flows = load(asked.experiments[0], {}).document["flow"]
    assert [flow["options"] for flow in flows.values()] == [{"priority": "2"}] * 3


def test_the_card_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "r")
    assert main(["check", "--media", "gcc", "--item", "self-fairness", "--out", out]) == 0
    told = capsys.readouterr().out
    assert "RFC 8867: test cases" in told
    assert "self-fairness" in told


@pytest.mark.parametrize(
    ("cc", "options", "words"),
    [
        ("gccc", {}, 'did you mean "gcc"'),
        ("cubic", {}, "not a congestion control for media"),
        ("gcc", {"pacing": "0"}, "1 to 100"),
    ],
)
def test_mistakes_are_sentences(cc: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check.suite(cc, options, media=True)


def test_without_the_flag_it_is_named() -> None:
    with pytest.raises(InputError, match="l4slab check --media gcc"):
        check.suite("gcc")
