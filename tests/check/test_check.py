"""`l4slab check`: what the cards of well-known congestion controls must say, and what a broken one's."""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from l4slab import sweep
from l4slab.api.experiment import Experiment, load, to_toml
from l4slab.base import metrics
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.cli.checking import bottom_line, measured
from l4slab.engines.linux import kernels
from l4slab.results import claims
from l4slab.tools import check
from l4slab.tools.check.card import PARTS, Item, items
from l4slab.tools.check.programs import Program
from l4slab.tools.check.suite import Suite, suite


def verdicts(cc: str, only: Sequence[str], **options: str) -> dict[str, str]:
    return {item.id: item.verdict for item in check.check(cc, options=options, only=only).items}


def without_marks(asked: Suite) -> Suite:
    """The same experiments on a path that hides all marks from the tested sender: to it, a Prague that ignores them."""
    experiments = []
    for experiment in asked.experiments:
        document = experiment.written()
        erased = {"flow": "tested", "where": "after:bottleneck", "from": "ce", "to": "ect1"}
        document["rewrite"] = [*document.get("rewrite", []), erased]
        experiments.append(Experiment.from_toml(to_toml(document), experiment.name))
    return replace(asked, experiments=experiments)


def test_each_requirement_has_a_place_and_an_id_of_its_own() -> None:
    asked = suite("prague")
    ids = [claim.id for _, claim in asked.claims]
    assert len(ids) == len(set(ids))
    for _, claim in asked.claims:
        assert claim.listed == "requirement"
        assert claim.source.partition(", ")[0] in PARTS
        assert claim.says
    found = items(asked, pl.DataFrame(schema=metrics.CLAIMS), {})
    assert all(item.section for item in found)
    assert [item.part for item in found] == sorted((item.part for item in found), key=list(PARTS).index)


def test_the_controller_is_where_its_options_are() -> None:
    for experiment in suite("prague", {"fallback": "correct"}).experiments:
        text = experiment.to_toml() if experiment.flows else ""
        assert text.count('cc = "{controller}"') + text.count('.cc" = "{controller}"') == text.count("fallback")


def test_codepoint_and_feedback() -> None:
    asked = ["codepoint", "feedback", "feedback-lacking"]
    assert set(verdicts("prague", asked).values()) == {"pass"}
    expected = {"codepoint": "fail", "feedback": "fail", "feedback-lacking": "not applicable"}
    assert verdicts("dctcp", asked) == expected
    assert verdicts("reno", asked) == expected


def test_a_sender_that_never_sees_a_mark_does_not_answer_it() -> None:
    asked = suite("prague", only=["answers-marks"])
    (heard,) = check.judge(asked).items
    (deaf,) = check.judge(without_marks(asked)).items
    assert heard.verdict == "pass"
    assert deaf.verdict == "fail"
    assert deaf.measured < 1 < 80 < heard.measured
    assert deaf.evidence["queue_p99_ms"] > 90
    assert deaf.run is not None


DEAF = """
from l4slab import own


class Deaf(own.Controller):
    ecn = "accecn"
    governs_window = True  # else TCP holds the window while it answers marks

    def __init__(self):
        self.acked = 0

    def on_ack(self, ack, window):
        self.acked += ack.acked * (window.cwnd if window.cwnd < window.ssthresh else 1)
        window.cwnd, self.acked = window.cwnd + self.acked // window.cwnd, self.acked % window.cwnd

    def on_congestion(self, why, now_ns, window):
        if why != "ecn":
            window.cwnd = window.ssthresh = max(2, window.cwnd // 2)
"""


def test_a_controller_of_ones_own_has_a_card(tmp_path, monkeypatch) -> None:
    (tmp_path / "mine.py").write_text(DEAF)
    monkeypatch.chdir(tmp_path)
    assert verdicts("mine.py:Deaf", ["codepoint", "feedback"]) == {"codepoint": "pass", "feedback": "pass"}


@pytest.mark.parametrize("folder", ["/elsewhere", "../elsewhere"])
def test_a_controller_in_another_folder_is_judged_from_there(folder: str) -> None:
    with pytest.raises(InputError, match=rf"go there: cd {folder} && l4slab check mine\.py:Deaf"):
        suite(f"{folder}/mine.py:Deaf")


# TCP holds the window while it brings it to where it is: nothing is dropped, and every packet finds the queue too long.
STILL = (
    DEAF.replace("governs_window = True", "governs_window = False")
    .replace("        if why", "        window.ssthresh = window.cwnd\n        if why")
    .replace("        self.acked +=", "        if not ack.may_grow:\n            return\n        self.acked +=")
)


@pytest.mark.slow
@pytest.mark.parametrize("source", [DEAF, STILL])
def test_a_controller_of_ones_own_that_ignores_marks_fails(tmp_path, monkeypatch, source: str) -> None:
    (tmp_path / "mine.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    assert verdicts("mine.py:Deaf", ["answers-marks"]) == {"answers-marks": "fail"}


@pytest.mark.slow
def test_the_fallback_is_seen_in_a_classic_queue() -> None:
    assert verdicts("prague", ["classic-ecn"]) == {"classic-ecn": "fail"}
    assert verdicts("prague", ["classic-ecn"], fallback="correct") == {"classic-ecn": "pass"}


def test_who_negotiates_no_ecn_is_not_asked_about_marks() -> None:
    (item,) = check.check("reno", only=["answers-marks"]).items
    assert (item.verdict, item.why) == ("not applicable", "it negotiates no ECN")


def test_an_item_without_an_experiment_says_why() -> None:
    (item,) = check.check("reno", only=["replaceable"]).items
    assert item.verdict == "not measured"
    assert "administrator" in item.why


def test_what_the_kernel_has_not_got_is_not_measured() -> None:
    asked = check.possible(suite("cubic"), "linux")
    assert {"idle", "short-flows"} <= set(asked.lacking)
    left_out = {experiment.name for experiment in suite("cubic").experiments} - {e.name for e in asked.experiments}
    assert left_out <= set(asked.lacking)
    nothing = pl.DataFrame(schema=metrics.CLAIMS)
    found = {item.id: item for item in items(asked, nothing, {})}
    assert found["idle-loss"].verdict == "not measured"
    assert "video" in found["idle-loss"].why


def test_a_program_takes_the_place_of_the_controller() -> None:
    """Wherever a controller is tested, and nowhere else; what asks TCP for more than a program has is left out."""
    asked = suite("prague", program=Program("python3 server", "python3 client {server}"))
    others = {one.name: one for one in suite("prague").experiments}
    assert set(asked.lacking) == {"idle", "reordering", "short-flows"}
    assert {one.name for one in asked.experiments} == set(others) - set(asked.lacking)
    for experiment in asked.experiments:
        plan = sweep.expand(load(experiment, {}), "linux")
        tested = [flow for run in plan.runs for flow in run.description["flows"] if flow["kind"] == "program"]
        wanted = [
            flow
            for run in sweep.expand(load(others[experiment.name], {}), "linux").runs
            if run.factors.get("peer") != "classic"
            for flow in run.description["flows"]
            if flow["kind"] == "tcp" and flow["cc"] == "prague"
        ]
        assert [(flow["name"], flow["count"], flow["rtt_ns"]) for flow in tested] == [
            (flow["name"], flow["count"], flow["rtt_ns"]) for flow in wanted
        ]
        assert {(flow["client"], flow["cc"]) for flow in tested} <= {("python3 client {server}", "prague")}


def test_tcp_of_a_program_has_the_kernels_default_where_nothing_is_said() -> None:
    """Also where the experiment has another flow in this place."""
    for experiment in suite(None, program=Program("python3 server", "python3 client {server}")).experiments:
        runs = sweep.expand(load(experiment, {}), "linux").runs
        tested = [flow for run in runs for flow in run.description["flows"] if flow["kind"] == "program"]
        assert {flow["cc"] for flow in tested} <= {"cubic"}


SERVER = """
import socket
s = socket.create_server(("", 5000))
while True:
    c, _ = s.accept()
    while c.recv(1 << 16): pass
"""
CLIENT = """
import socket, sys
c = socket.create_connection((sys.argv[1], 5000))
for _ in range({writes}): c.sendall(bytes(1 << 16))
"""


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
def test_the_card_of_a_program(tmp_path) -> None:
    def card(writes: int, cc: str | None, *only: str) -> dict[str, Item]:
        (tmp_path / "server.py").write_text(SERVER)
        (tmp_path / "client.py").write_text(CLIENT.format(writes=writes))
        commands = (f"{sys.executable} {tmp_path}/{name}" for name in ("server.py", "client.py {server}"))
        found = check.check(cc, engine="linux", only=only, program=Program(*commands))
        return {item.id: item for item in found.items}

    plain = card(10**9, None, "codepoint", "feedback", "full-backoff", "idle-loss", "answers-marks")
    assert {name: item.verdict for name, item in plain.items()} == {
        "codepoint": "fail",
        "feedback": "fail",
        "full-backoff": "pass",
        "idle-loss": "not measured",
        "answers-marks": "not applicable",
    }
    assert "transfers of given sizes" in plain["idle-loss"].why
    l4s = card(10**9, "prague", "codepoint", "feedback")
    assert (l4s["codepoint"].verdict, l4s["feedback"].verdict) == ("pass", "not measured")
    gone = card(100, None, "codepoint")["codepoint"]
    assert gone.verdict == "not measured"
    # 6.5 MB take .9 to 1.1 s, as the numbers fall that this kernel draws.
    assert re.search(r"ended by itself after [01]\.\d s", gone.why)


def test_the_bottom_line_counts_by_level_and_names_what_is_not_met() -> None:
    asked = {item.id: item for item in items(suite("reno"), pl.DataFrame(schema=metrics.CLAIMS), {})}
    assert [asked[name].level for name in ("codepoint", "queues", "share-of-reno", "bursts")] == [
        *("MUST", "SHOULD", "SHOULD", ""),
    ]
    verdicts = {"codepoint": "fail", "feedback": "pass", "queues": "pass", "bursts": "fail"}
    found = [replace(asked[name], verdict=verdict) for name, verdict in verdicts.items()]
    found.append(replace(asked["scalable"], verdict="not applicable"))
    assert bottom_line(found) == (
        "meets 1 of 2 MUST, 1 of 1 SHOULD, 0 of 1 others; not met: codepoint, bursts; 1 not applicable."
    )
    assert bottom_line(found[-1:]) == "has no verdict; 1 not applicable."


def test_what_does_not_apply_is_not_undecided() -> None:
    evidence = ({"not_applicable": "no ECN"}, {"not_applicable": None, "not_measured": "no run"})
    rows = [
        dict.fromkeys(metrics.CLAIMS) | {"kind": "requirement", "verdict": "undecided", "evidence": json.dumps(reason)}
        for reason in evidence
    ]
    (counted,) = claims.tally(pl.DataFrame(rows, schema=metrics.CLAIMS))
    assert counted.text == "0 of 1 requirements met; 1 undecided; 1 not applicable"


@pytest.mark.parametrize(
    ("verdict", "evidence", "shown"),
    [
        ("holds", {"ect1_pct": 100, "at_least": 100}, "ect1 100 %"),
        ("fails", {"ect1_pct": 99, "at_least": 100}, "ect1 99 %"),
        ("fails", {"ect1_pct": 100, "at_least": 100, "and_a_peer_agrees": False}, "ect1 100 %; not: a peer agrees"),
        ("fails", {"ect1_pct": 100, "at_least": 100, "and_a_peer_agrees": None}, "ect1 100 %; not: a peer agrees"),
        ("fails", {"ect1_pct": None, "at_least": 100}, "no ect1"),
    ],
)
def test_a_verdict_follows_from_what_its_row_shows(verdict: str, evidence: dict, shown: str) -> None:
    asked = suite("reno", only=["codepoint"])
    row = dict.fromkeys(metrics.CLAIMS) | {"experiment": "codepoint", "id": "codepoint", "verdict": verdict}
    rows = pl.DataFrame([row | {"kind": "requirement", "evidence": json.dumps(evidence)}], schema=metrics.CLAIMS)
    (row_of_it,) = items(asked, rows, {})
    assert measured(row_of_it) == shown
    for other in ("holds", "fails"):  # whatever the query says besides
        (told,) = items(asked, rows.with_columns(verdict=pl.lit(other)), {})
        assert told.verdict == {"holds": "pass", "fails": "fail"}[verdict]


def test_quick_leaves_out_the_longest_and_says_so() -> None:
    asked = suite("reno", only=["codepoint", "recovery"])
    assert check.quick(asked, "sim").lacking == {}
    shorter = check.quick(asked, "sim", seconds=0)
    assert set(shorter.lacking) == {"codepoint", "blackout"}
    assert not shorter.experiments
    assert all(why.startswith("left out by --quick: ") for why in shorter.lacking.values())


def test_quick_is_the_same_list_on_a_slow_machine_and_for_a_slow_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def left_out(cc: str) -> set[str]:
        return set(check.quick(check.possible(suite(cc), "sim"), "sim", seconds=10).lacking) & names

    names = {experiment for experiment, _ in suite("reno").claims if not experiment.startswith("bbr")}
    as_it_is = left_out("reno")
    assert as_it_is
    monkeypatch.chdir(tmp_path)
    assert main(["new", "controller", "mine", "--python"]) == 0
    clock = itertools.count(step=1000)
    for name in ("thread_time", "process_time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, lambda: float(next(clock)))
    monkeypatch.chdir(tmp_path / "mine")
    assert left_out("reno") == as_it_is
    assert left_out("mine.py:Mine") == as_it_is


def test_a_dry_run_says_what_would_run(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "reno", "--item", "codepoint", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "codepoint: 2 runs of 2 combinations" in told
    assert "2 runs to do, about 1 s of processor time" in told
    assert not list(tmp_path.iterdir())


def test_a_failed_run_gives_no_verdict() -> None:
    asked = suite("cubic", only=["codepoint"])
    row: dict[str, Any] = dict.fromkeys(metrics.CLAIMS, "") | {"experiment": "codepoint", "id": "codepoint"}
    row |= {"verdict": "holds", "evidence": json.dumps({"ect1_pct": 100, "at_least": 100, "run": "x"})}
    rows = pl.DataFrame([row], schema=metrics.CLAIMS)
    (item,) = items(asked, rows, {})
    assert (item.verdict, item.quantity, item.measured, item.relation, item.bound) == (
        *("pass", "ect1_pct", 100),
        *("≥", 100),
    )
    (item,) = items(asked, rows, {"codepoint": "a run failed: it broke"})
    assert (item.verdict, item.why) == ("not measured", "a run failed: it broke")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nope"], 'cc = "nope" is not a congestion control'),
        (["prague", "--option", "fallbak=off"], 'prague has no option "fallbak"'),
        (["prague", "--option", "fallback"], "is not NAME=VALUE"),
        (["prague", "--item", "codepint"], 'did you mean "codepoint"?'),
        (["prague", "--engine", "ns3"], "is not an engine"),
        ([], "CC is missing; give a congestion control, or --server and --client of a program"),
        (["--server", "python3"], "--server needs --client"),
        (["--sender", "server"], "--sender needs --server"),
        (["--server", "python3", "--client", "python3"], "does not say where its server is; write {server}"),
        (["--server", "python3", "--client", "python3 {server}"], "needs a kernel; give --engine linux"),
        (["--server", "python3", "--client", "python3 {server}", "--option", "a=b"], "tell the program in its command"),
    ],
)
def test_bad_input_is_a_sentence(words: list[str], sentence: str, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", *words]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert len(told.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_controller_that_no_kernel_has_is_bad_input() -> None:
    with pytest.raises(InputError, match="no Linux kernel has bbr3"):
        check.possible(suite("bbr3"), "linux")


def test_the_card_on_the_terminal_and_for_scripts(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["check", "dctcp", "--item", "codepoint", "--item", "replaceable"]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "dctcp meets 0 of 1 MUST; not met: codepoint; 1 not measured." in told
    assert "RFC 9331, section 4" in told
    assert main([*words, "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    first = card["items"][0]
    assert (first["verdict"], first["quantity"], first["measured"], first["bound"]) == ("fail", "ect1_pct", 0, 100)
    report = (tmp_path / "results" / "check-dctcp" / "report.html").read_text("utf-8")
    assert f'<a href="#run={first["run"]}">' in report
    assert "not measured" in report
    flows = pl.read_parquet(tmp_path / "results" / "check-dctcp" / "flows.parquet")
    assert first["run"] in set(flows["run"])
