"""`l4slab check --queue`: what the cards of well-known queues must say, and what a broken one's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import l4slab
import polars as pl
import pytest
from l4slab.base import metrics
from l4slab.base.errors import InputError
from l4slab.base.packaged import queue_requirements
from l4slab.cli import main
from l4slab.engines.linux import kernels
from l4slab.tools import check
from l4slab.tools.check.baseline import read
from l4slab.tools.check.card import PARTS, items

# What each fault of broken_queues.py fails that `Plain` does not. Losses slow down flows of long RTTs most. A queue
# without signals for Not-ECT flows is a FIFO for them. What TCP sends again because of reordering is no goodput.
OF_DROPS = {
    *("ecn", "loss", "goodput", "untuned-goodput", "unresponsive-goodput", "in-class-goodput", "faster", "two-way"),
    *("burst-loss", "short-flows", "rtt-fairness"),
}
OF_A_FIFO = {
    *("standing-queue", "lock-out", "untuned-delay", "aggressive", "unresponsive-delay", "in-class-delay", "voice"),
    *("more-flows-delay", "slower", "short-flows", "rtt-fairness"),
}
FAULTS = {
    "Drops": OF_DROPS,
    "Blind": OF_A_FIFO | {"not-ect"},
    "Shuffles": {"order", "untuned-goodput"},
    "Bytes": {"packet-size", "two-way"},
    "Starves": {"dual-starvation"},
}
TREE = """
qdisc = "htb default 10"
class.1 = { rate = "{mbit}Mbit" }
class.10 = { parent = "1", rate = "{half}Mbit", ceil = "{mbit}Mbit", qdisc = "fq_codel" }
class.20 = { parent = "1", rate = "{half}Mbit", ceil = "{mbit}Mbit", qdisc = "dualpi2" }
filter = [{ ecn = "ect1", class = "20" }]
let = { half = "mbit / 2" }
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the broken queues and a class tree."""
    shutil.copy(Path(__file__).parent / "broken_queues.py", tmp_path)
    (tmp_path / "tree.toml").write_text(TREE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verdicts(queue: str, *only: str, engine: str = "sim") -> dict[str, str]:
    card = check.check_queue(queue, only=only, engine=engine)
    assert not card.failures
    return {item.id: item.verdict for item in card.items}


def failed(queue: str, *only: str) -> set[str]:
    return {name for name, verdict in verdicts(queue, *only).items() if verdict == "fail"}


def test_each_requirement_has_a_place_and_an_id_of_its_own() -> None:
    asked = check.suite_of_queue("pfifo")
    assert len({claim.id for _, claim in asked.claims}) == len(asked.claims)
    found = items(asked, pl.DataFrame(schema=metrics.CLAIMS), {})
    assert {item.part for item in found} == {"RFC 7567", "RFC 7928", "RFC 9332", "RFC 3819"} < set(PARTS)
    assert all(item.section and item.says for item in found)
    levels = {item.id: item.level for item in found}
    assert (levels["standing-queue"], levels["dual-starvation"], levels["goodput"]) == ("SHOULD", "MUST", "")


def test_a_fifo_has_a_standing_queue_and_no_ecn() -> None:
    fails = ("in-class-delay", "unresponsive-delay", "ecn")
    passes = ("in-class-goodput", "unresponsive-goodput", "order", "burst-loss", "packet-size", "not-ect")
    assert failed("pfifo", *fails, *passes) == set(fails)


def test_what_well_known_queues_are_known_for() -> None:
    # CoDel marks without end, and DOCSIS' classic queue weighs drops by size.
    assert failed("codel ecn", "ecn", "overload-ecn") == {"overload-ecn"}
    assert failed("docsis_ll", "packet-size", "burst-loss") == {"packet-size"}
    # Strict priority for L starves C.
    dual = ("dual-starvation", "dual-coupling", "dual-classifier")
    assert failed("curvy_red", *dual) == {"dual-starvation"}
    assert failed("dualpi2", *dual) == set()
    assert set(verdicts("fq_codel", "dual-delay", "packet-size").values()) == {"not applicable"}


@pytest.mark.parametrize(
    ("queue", "fails", "passes"),
    [
        ("Plain", (), ("burst-loss", "ecn", "not-ect", "order", "packet-size", "in-class-delay")),
        ("Drops", ("burst-loss", "ecn"), ("not-ect", "order", "packet-size", "overload-ecn")),
        ("Blind", ("not-ect", "in-class-delay"), ("ecn", "order", "packet-size", "overload-ecn")),
        ("Shuffles", ("order",), ("ecn", "not-ect", "packet-size", "burst-loss")),
        ("Bytes", ("packet-size",), ("ecn", "not-ect", "order", "overload-ecn")),
        ("Starves", ("dual-starvation",), ("ecn", "not-ect", "order", "dual-classifier")),
    ],
)
def test_a_fault_fails_the_rows_that_say_so(
    here: Path, queue: str, fails: tuple[str, ...], passes: tuple[str, ...]
) -> None:
    assert failed(f"broken_queues.py:{queue}", *fails, *passes) == set(fails)


@pytest.mark.slow
def test_a_fault_fails_no_other_rows_of_the_whole_card(here: Path) -> None:
    plain = failed("broken_queues.py:Plain")
    assert plain <= {"two-way"}
    for queue, rows in FAULTS.items():
        assert failed(f"broken_queues.py:{queue}") - plain == rows - plain, queue


def test_queues_compare_as_published() -> None:
    """Packets wait less in CoDel than in PIE, and less in both than in a FIFO. CoDel loses most, as a shorter RTT needs
    a higher loss rate. Fair queueing shares most evenly (RFC 8290).
    """
    (levels,) = [file for file in queue_requirements() if file.stem == "levels"]
    found = (
        l4slab.run(levels, where="load = 'medium' and who <> 'tested'")
        .flows.group_by("who")
        .agg(pl.col("sojourn_ms_mean", "drop_pct", "jain").mean())
    )
    mean = {row["who"]: row for row in found.iter_rows(named=True)}

    def order(column: str, *names: str) -> list[str]:
        return sorted(names, key=lambda name: mean[name][column])

    delays = ["codel", "pie", "FIFO"]
    assert order("sojourn_ms_mean", *delays) == delays
    assert mean["FIFO"]["sojourn_ms_mean"] > 1.5 * mean["pie"]["sojourn_ms_mean"]
    assert order("drop_pct", "codel", "pie", "FIFO")[-1] == "codel"
    assert max(mean, key=lambda name: mean[name]["jain"]) in ("FQ-CoDel", "CAKE")
    # DualPI2's classic queue aims at PIE's target (RFC 9332, RFC 8033).
    assert mean["DualPI2"]["sojourn_ms_mean"] == pytest.approx(mean["pie"]["sojourn_ms_mean"], rel=0.15)


def test_a_class_tree_is_judged_by_its_file(here: Path) -> None:
    found = verdicts("tree.toml", "ecn", "dual-delay", "in-class-delay", "in-class-goodput", "burst-loss")
    assert found == {
        "ecn": "pass",
        "burst-loss": "pass",
        "dual-delay": "not applicable",
        **dict.fromkeys(("in-class-delay", "in-class-goodput"), "not applicable"),
    }


def test_the_card_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["check", "--queue", "pie ecn", "--item", "ecn", "--item", "burst-loss"]
    assert main(asked) == 0
    told = capsys.readouterr().out
    assert "RFC 7567: recommendations" in told
    assert "pie ecn meets 1 of 1 SHOULD, 1 of 1 others." in told
    card = Path("results/check-queue-pie-ecn/card.json")
    assert json.loads(card.read_text())["queue"] == "pie ecn"
    assert main([*asked, "--baseline", str(card), "--junit", "x.xml"]) == 0
    assert 'name="l4slab check' in Path("x.xml").read_text()
    with pytest.raises(InputError, match="a card of the queue pie ecn, and this check is of pie"):
        read(card, "sim").require(check.suite_of_queue("pie"), ())


def test_the_whole_card_is_quick() -> None:
    """`--quick` leaves nothing out in the simulator."""
    assert not check.quick(check.suite_of_queue("dualpi2"), "sim").lacking


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--queue", "codle"], 'did you mean "codel"'),
        (["--queue", "codel target 5"], "target"),
        (["--queue", "codel", "--item", "codepoint"], "--item codepoint is not a requirement"),
        (["cubic", "--queue", "codel"], "--queue judges a queue; leave CC and its options out"),
        (["--queue", "gone.toml"], "gone.toml: cannot be read"),
        (["--queue", "bare.toml"], "bare.toml: qdisc is missing; write qdisc ="),
        (["--queue", "wrong.toml"], "wrong.toml: rate is no key of a link's queue"),
        (["--queue", "../mine.py:Mine"], "go there: cd .. && l4slab check --queue mine.py:Mine"),
        (["--queue", "curvy_red", "--engine", "linux"], "no Linux kernel has curvy_red"),
    ],
)
def test_mistakes_are_sentences(
    here: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "wrong.toml").write_text('rate = "1Mbit"')
    (here / "bare.toml").write_text('let = { half = "mbit / 2" }')
    assert main(["check", *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
def test_the_kernels_dualpi2_gets_the_simulators_verdicts() -> None:
    asked = ("ecn", "not-ect", "order", "packet-size", "overload-ecn", "burst-loss")
    dual = ("dual-delay", "dual-classifier", "dual-marks", "dual-coupling", "dual-starvation")
    found = verdicts("dualpi2", *asked, *dual, engine="linux")
    assert found == verdicts("dualpi2", *asked, *dual)


@pytest.fixture(scope="module")
def page(docs_script: Callable[[str], ModuleType]) -> ModuleType:
    return docs_script("queues")


def test_the_cards_are_of_the_suite_as_it_is(page: ModuleType) -> None:
    cards = page.current()
    stale = [name for name in page.QUEUES if f"{name} on sim" not in cards]
    assert not stale, f"the suite has changed: .venv/bin/python docs/queues.py {' '.join(stale)} writes docs/queues.md"
    ids = {item.id for item in page.asked()}
    assert all(set(card["items"]) == ids for card in cards.values())
    text = page.PAGE.read_text("utf-8")
    assert text.partition(page.BEGIN)[2].partition(page.END)[0] == page.text(cards)


def test_the_page_says_which_row_decides_each_section_of_rfc_7928(page: ModuleType) -> None:
    (table,) = [part for part in page.PAGE.read_text("utf-8").split("\n## ") if part.startswith("The sections of")]
    assert {item.id for item in page.asked() if item.part == "RFC 7928"} <= set(
        table.replace("`", " ").replace(",", " ").split()
    )


def test_dualpi2_has_the_same_verdicts_on_both_engines(page: ModuleType) -> None:
    cards = page.current()
    sim, linux = (
        {name: row[0] for name, row in cards[f"dualpi2 on {engine}"]["items"].items()} for engine in page.ENGINES
    )
    measured = {name for name, verdict in linux.items() if verdict != "not measured"}
    assert len(measured) >= 25
    assert {name: linux[name] for name in measured} == {name: sim[name] for name in measured}


def test_alarms_are_counted(page: ModuleType) -> None:
    """Each card of a FIFO fails, with any seed."""
    found = page.alarms(2, ["in-class", "ecn"], check.suite_of_queue("pfifo"))
    assert found == {"ecn": 2, "not-ect": 0, "in-class-delay": 2, "in-class-goodput": 0, "": 2}
