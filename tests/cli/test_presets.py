"""`l4slab init --preset`: each file is whole, and runs with frames."""

from pathlib import Path

import pytest
from l4slab import experimentfile
from l4slab.api import campaign
from l4slab.cli import main
from l4slab.cli.start import PRESETS


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_runs(preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "mine", "--preset", preset]) == 0
    text = Path("mine.toml").read_text()
    assert "l4slab run mine.toml" in text
    assert "FILE" not in text
    assert experimentfile.load(Path("mine.toml")).title
    Path("short.toml").write_text(text.replace('"40s"', '"8s"').replace('"10s"', '"2s"').replace("trials   = 10", ""))
    flows = campaign.run("short.toml").flows
    media = flows.filter(flows["frames"].is_not_null())
    assert media["frames"].min() > 20
    # Each with a FIFO and at least two other queues.
    assert "FIFO" in media["aqm"].to_list()
    assert media["aqm"].n_unique() >= 3


def test_another_preset_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "mine", "--preset", "cal"]) == 2
    assert 'did you mean "call"' in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_what_a_preset_says_is_to_be_seen_holds(preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "mine", "--preset", preset]) == 0
    assert "# What to see here: " in Path("mine.toml").read_text()
    results = campaign.run("mine.toml")
    assert results.flows["trial"].n_unique() == 10
    assert {"scream", "prague"} & set(results.flows["cc"]), "an L4S flow stands next to a classic one"
    assert results.claims.height >= 2
    assert results.claims.filter(verdict="holds").height == results.claims.height, results.claims
