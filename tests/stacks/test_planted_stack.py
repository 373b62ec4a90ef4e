"""A fault in a stack's controller fails the rows that the fault is about, and no others. Some six minutes of two cores.

The stack is quinn with the NewReno of `planted.rs`. Its card has a place for each fault: a FIFO of one bandwidth-delay
product, and queues that mark.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from l4slab import stacks
from l4slab.api.experiment import Experiment, to_toml
from l4slab.cli import main
from l4slab.engines.linux import kernels
from l4slab.tools import check

NAME = "quinn-planted"
SEED = 101
CONTROLLERS = {"reno": (0.5, 2), "half-answer": (0.75, 2), "floor-ten": (0.5, 10)}
PLACES = {
    "share": {"mbit": [10], "ms": [10], "n_bdp": [1], "rival": ["reno"]},
    "queues": {"aqm": ["dualpi2"]},
    "classic-ecn": {"aqm": ["fq_codel flows 1"]},
}
OF_MARKS = {"queues", "classic-ecn"}
OF_SMALL_WINDOWS = {"loss-response", "share-of-reno"}
HARM = {"harm-delay", "harm-loss"}
# The stack's NewReno gets a little less than the kernel's.
OWN = "own-share"


def write(folder: Path) -> None:
    """The recipe, in a folder of its own."""
    shutil.copytree(stacks.find("quinn").folder, folder / NAME, ignore=shutil.ignore_patterns("target"))
    shutil.copy(Path(__file__).with_name("planted.rs"), folder / NAME / "src")
    more = "".join(
        f'\n        "{cc}" => Arc::new(planted::Planted {{ on_mark: {on_mark}, least: {least} }}),'
        for cc, (on_mark, least) in CONTROLLERS.items()
    )
    bbr = '"bbr" => Arc::new(BbrConfig::default()),'
    quinn = 'features = ["runtime-tokio", "rustls-ring", "qlog"] }'
    for name, old, new in (
        ("src/main.rs", "use std::error::Error;", "mod planted;\n\nuse std::error::Error;"),
        ("src/main.rs", bbr, bbr + more),
        ("Cargo.toml", quinn, quinn + '\nquinn-proto = { version = "0.11", default-features = false }'),
        ("stack.toml", "--locked ", ""),
        (
            "stack.toml",
            '["cubic", "newreno", "bbr"]',
            '["reno", "half-answer", "floor-ten", "newreno", "cubic", "bbr"]',
        ),
    ):
        file = folder / NAME / name
        text = file.read_text("utf-8")
        assert text.count(old) == 1
        file.write_text(text.replace(old, new), "utf-8")


def judged(cc: str, seed: int) -> check.Card:
    """The card of a controller, in this folder; each seed has trials of its own, and the references stay."""
    asked = check.suite(cc, program=check.Program(stack=f"./{NAME}"))
    kept = []
    for experiment in asked.experiments:
        if experiment.name in PLACES:
            document = experiment.written() | {"figure": [], "seed": seed, "duration": "30s", "warmup": "10s"}
            document["sweep"] = document["sweep"] | PLACES[experiment.name]
            if experiment.name != "share":
                document["link"]["bottleneck"]["rate"] = "20Mbit"
            kept.append(Experiment.from_toml(to_toml(document), experiment.name))
    asked.experiments[:] = kept
    asked.claims[:] = [claim for claim in asked.claims if claim[0] in PLACES]
    return check.judge(check.possible(asked, "linux"), "runs", "linux")


def failed(card: check.Card) -> set[str]:
    assert not card.failures
    return {item.id for item in card.items if item.verdict == "fail"} - {OWN}


def rates(card: check.Card) -> dict[str, float]:
    """Mb/s of the rival in the rows about marks."""
    return {item.id: item.measured for item in card.items if item.id in OF_MARKS}


@pytest.mark.slow
def test_a_fault_in_a_stack_fails_its_rows_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernels.installed() is None or shutil.which("cargo") is None:
        pytest.skip("no kernel is built, or there is no cargo")
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    assert main(["stacks", "build", f"./{NAME}"]) == 0
    plain = judged("reno", SEED)
    assert {item.id for item in plain.items if item.verdict == "pass"} >= OF_MARKS | OF_SMALL_WINDOWS | HARM
    assert not failed(plain)
    # One trial is near the bound of both rows, so either may pass; that CUBIC gets less next to the fault stays.
    half = judged("half-answer", SEED)
    assert failed(half) <= OF_MARKS
    assert all(rates(half)[row] < 0.95 * rates(plain)[row] for row in OF_MARKS)
    # The delay is near its bound.
    assert OF_SMALL_WINDOWS <= failed(judged("floor-ten", SEED)) <= OF_SMALL_WINDOWS | HARM
