"""The page's model (web/src/model) against the package, by what vitest writes to `page/` and holds current."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from l4slab import _core, experimentfile, sweep
from l4slab.base.units import FREQUENCY, RATE, SIZE, TIME

PAGE = Path(__file__).parent / "page"
STUDIES = Path(experimentfile.__file__).parent.parent / "studies"
PRESETS = sorted(file.stem for file in (PAGE / "presets").glob("*.toml"))
MEDIA = ("home-wifi", "5g", "cable", "leo")
# What a study sets for its figures, and not for its set-up.
MEASUREMENT = ("duration_ns", "warmup_ns", "sample_ns", "seed")


def read_lines(file: str) -> list[Any]:
    return [json.loads(line) for line in (PAGE / file).read_text().splitlines()]


def canonical(description: dict[str, Any]) -> dict[str, Any]:
    """With queues and options written out, as a file's are, and without what is not set."""
    links = [link | {"qdisc": _core.canonical_qdisc(link["qdisc"])} for link in description["links"]]
    for link in links:
        if "medium" in link:
            link["medium"] = _core.canonical_medium(link["medium"])[0]
        if "medium" in link or "up_of" in link:
            link["rate_bps"] = 0  # what the medium says
    options = {True: _core.canonical_media, False: _core.canonical_controller}
    flows = [
        flow | {"options": options[flow["kind"] == "media"](flow["cc"], flow["options"])} if "cc" in flow else flow
        for flow in description["flows"]
    ]
    at = [{key: value for key, value in change.items() if value is not None} for change in description["at"]]
    at = [one | {"qdisc": _core.canonical_qdisc(one["qdisc"])} if "qdisc" in one else one for one in at]
    impairs = [
        impair | {"netem": _core.canonical_qdisc(f"netem {impair['netem']}").removeprefix("netem ")}
        for impair in description.get("impairs", [])
    ]
    flows = [{key: value for key, value in flow.items() if (key, value) != ("station", None)} for flow in flows]
    return description | {"links": links, "flows": flows, "at": at} | ({"impairs": impairs} if impairs else {})


@pytest.mark.parametrize("saved", ["by-hand", "medium-by-hand", *(f"presets/{preset}" for preset in PRESETS)])
def test_a_saved_file_is_the_run_of_the_page(saved: str) -> None:
    of_page = json.loads((PAGE / f"{saved}.json").read_text())["run"]
    plan = sweep.expand(experimentfile.load(PAGE / f"{saved}.toml"), "sim")
    assert len(plan.runs) == (2 if saved == "by-hand" else 1), "the run is the last of its trials"
    assert canonical(dict(plan.runs[-1].description)) == canonical(of_page)


@pytest.mark.parametrize("words", [one for one in read_lines("media.jsonl") if len(one) == 3])
def test_words_of_a_medium_change_as_in_the_core(words: list[str]) -> None:
    before, change, after = words
    assert _core.canonical_medium(after)[0] == _core.change_medium(before, change, False)


@pytest.mark.parametrize("words", [one for one in read_lines("media.jsonl") if len(one) == 4])
def test_words_of_a_station_change_as_in_the_core(words: list[str]) -> None:
    medium, own, change, after = words
    assert _core.check_station(medium, after) == _core.change_medium(_core.check_station(medium, own), change, True)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_of_a_study_is_set_up_as_the_study_is(preset: str) -> None:
    told = json.loads((PAGE / "presets" / f"{preset}.json").read_text())
    if told["study"] is None:
        assert preset in ("start", "low-rate", "low-rate-step", "call", "game", *MEDIA), "which study is it from?"
        return
    experiment = experimentfile.load(STUDIES / f"{told['study']['file']}.toml")
    levels = sweep.levels_of(experiment)
    assert set(told["study"]["levels"]) == set(levels)
    assert all(level in levels[name] for name, level in told["study"]["levels"].items())
    described = canonical(sweep.describe(experiment, told["study"]["levels"]))
    of_page = canonical(told["run"])
    for key in MEASUREMENT:
        described.pop(key), of_page.pop(key)
    assert of_page == described


def test_the_first_preset_is_the_picture_of_the_readme() -> None:
    experiment = experimentfile.load(STUDIES.parents[2] / "examples" / "picture.toml")
    picture = canonical(sweep.describe(experiment, {}))
    page = canonical(json.loads((PAGE / "presets" / "start.json").read_text())["run"])
    assert page["links"] == picture["links"]
    for key in ("time_ns", "name"):
        for one in [*page["at"], *picture["at"], *page["flows"], *picture["flows"]]:
            one.pop(key, None)
    assert page["at"] == picture["at"]
    assert page["flows"] == picture["flows"]


@pytest.mark.parametrize(("dimension", "text", "result"), read_lines("units.jsonl"))
def test_quantities_are_read_alike_and_told_alike(dimension: str, text: str, result: int | str) -> None:
    of = {one.name: one for one in (RATE, TIME, SIZE, FREQUENCY)}[dimension]
    if isinstance(result, int):
        assert of.parse(text) == result
        return
    with pytest.raises(ValueError, match=r".") as caught:
        of.parse(text)
    told, suggested = str(caught.value), ("; did you mean", "; valid are")
    # Which name is the nearest is for each to say.
    cut = min((told.index(one) for one in suggested if one in told), default=len(told))
    assert result[:cut] == told[:cut]
    assert cut == len(told) or any(one in result[cut:] for one in suggested)
