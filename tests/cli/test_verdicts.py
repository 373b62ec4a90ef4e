"""What CI reads: JUnit XML, Markdown summaries, and that both say what the exit status says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from l4slab.cli import main
from l4slab.cli.verdicts import Outcome, Table, Verdict, junit, summary
from l4slab.engines import contract, sim

FILE = """
duration = "1s"
[link.l]
rate = "10Mbit"
qdisc = "pfifo limit 50"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[sweep]
"flow.a.rtt" = ["10ms", "20ms"]
[[claim]]
id = "true"
says = "it <sends> | with a pipe"
sql = "select min(goodput_mbps) > 0, max(sojourn_ms_p99) as worst from flows"
"""
FALSE = """
[[claim]]
id = "false"
says = "it is lossless and quick"
sql = "select max(sojourn_ms_p99) < 1, max(sojourn_ms_p99) as p99_ms from links"
"""
KNOWN = FALSE.replace("sql =", 'recorded = "fails"\nsql =').replace('id = "false"', 'id = "known"')
WRONG = """
[[claim]]
id = "wrong"
says = "one row"
sql = "select goodput_mbps > 0 from flows"
"""
EVERY = [
    Verdict("a", "says", "pass"),
    Verdict("b", "says", "fail", "group", "10 ms", "3", "≤ 2", 0.5),
    Verdict("c", "says", "error", measured="a bell \a and a <tag>"),
    Verdict("d", "says", "undecided", "group", excess=-0.1),
    Verdict("e", "says", "skipped", "group", excess=-0.2),
]


def cases(file: Path) -> dict[str, str]:
    """How each test case ended. The counts of every level have to be those of the cases."""
    root = ElementTree.fromstring(file.read_text("utf-8"))
    assert root.tag == "testsuites"
    ends: dict[str, str] = {}
    for suite in root:
        found = {case.attrib["name"]: "".join(child.tag for child in case) for case in suite}
        count_of(suite, found)
        assert all(case.attrib["classname"] == suite.attrib["name"] for case in suite)
        assert not set(found) & set(ends)
        ends |= found
    count_of(root, ends)
    return ends


def count_of(element: ElementTree.Element, found: dict[str, str]) -> None:
    counts = Counter(found.values())
    assert element.attrib["tests"] == str(len(found))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert element.attrib[name] == str(counts[tag])


def test_every_status_has_its_element(tmp_path: Path) -> None:
    file = tmp_path / "x.xml"
    file.write_text(junit(Outcome("l4slab x", "a line", EVERY)), "utf-8")
    assert cases(file) == {"a": "", "b": "failure", "c": "error", "d": "skipped", "e": "skipped"}
    (failure,) = ElementTree.parse(file).iter("failure")
    assert failure.attrib["message"] == "measured 3; expected ≤ 2; 10 ms"
    assert failure.text == "says"


def test_a_summary_shows_what_did_not_pass_the_worst_numbers_and_tables() -> None:
    table = Table("Flows", ("a", "b"), [["1", "x | y"]] * 100)
    text = summary(Outcome("l4slab x", "a line", EVERY, tables=[table]))
    assert "Verdicts: 1 failed, 1 error, 1 passed, 1 undecided, 1 skipped." in text
    bad, worst = text.split("### Not passed")[1].split("### The worst numbers")
    assert "| failed | b | says | 3 | ≤ 2 | group, 10 ms |" in bad
    assert [line.split(" ")[1] for line in worst.splitlines() if line.startswith("| ")][2:5] == ["b", "d", "e"]
    assert worst.count(r"| 1 | x \| y |") == 40
    assert "60 more rows are not shown." in worst
    assert r"\<tag\>" in text


def run(tmp_path: Path, text: str) -> int:
    file = tmp_path / "x.toml"
    file.write_text(text)
    outputs = ["--junit", str(tmp_path / "ci" / "x.xml"), "--summary", str(tmp_path / "ci" / "x.md")]
    return main(["run", str(file), "--out", str(tmp_path / "out"), "--workers", "1", *outputs])


@pytest.mark.parametrize(
    ("claims", "status", "ends"),
    [
        ("", 0, {"true": ""}),
        (FALSE, 1, {"true": "", "false": "failure"}),
        (KNOWN, 0, {"true": "", "known": "skipped"}),
        (WRONG, 1, {"true": "", "wrong": "error"}),
    ],
)
def test_the_files_of_run_say_what_the_exit_status_says(
    claims: str, status: int, ends: dict[str, str], tmp_path: Path
) -> None:
    assert run(tmp_path, FILE + claims) == status
    assert cases(tmp_path / "ci" / "x.xml") == ends
    text = (tmp_path / "ci" / "x.md").read_text("utf-8")
    assert r"it \<sends\> \| with a pipe" in text
    assert "longest queueing delay, p99" in text
    assert "| x | 10ms | a | cubic | 1 |" in text


def test_summaries_add_up_and_junit_is_replaced(tmp_path: Path) -> None:
    run(tmp_path, FILE + FALSE)
    run(tmp_path, FILE)
    assert cases(tmp_path / "ci" / "x.xml") == {"true": ""}
    assert (tmp_path / "ci" / "x.md").read_text("utf-8").count("## l4slab run") == 2


def test_a_failed_run_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = sim.SimEngine.execute

    def sometimes(self: sim.SimEngine, run_json: str, *besides: str) -> contract.Recording:
        if '"rtt_ns":20000000' in run_json:
            raise ValueError("a reason")
        return execute(self, run_json, *besides)

    monkeypatch.setattr(sim.SimEngine, "execute", sometimes)
    assert run(tmp_path, FILE) == 1
    assert cases(tmp_path / "ci" / "x.xml") == {"true": "", "x, flow.a.rtt = 20ms, trial 1": "error"}
    assert "a reason" in (tmp_path / "ci" / "x.xml").read_text("utf-8")
    assert "a reason" in (tmp_path / "ci" / "x.md").read_text("utf-8")


def test_a_command_that_breaks_off_is_an_error(tmp_path: Path) -> None:
    run(tmp_path, FILE)
    for part in ("flows", "links"):
        (tmp_path / "out" / f"{part}.parquet").write_text("broken")
    out = str(tmp_path / "out")
    assert main(["compare", out, out, "--junit", str(tmp_path / "x.xml"), "--summary", str(tmp_path / "x.md")]) == 2
    assert cases(tmp_path / "x.xml") == {"l4slab compare": "error"}
    assert "flows.parquet: is damaged" in (tmp_path / "x.md").read_text("utf-8")


def test_a_card_has_a_case_per_requirement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    items = ["codepoint", "feedback-lacking", "replaceable"]
    words = [word for item in items for word in ("--item", item)]
    assert main(["check", "dctcp", *words, "--junit", "x.xml", "--summary", "x.md"]) == 0
    assert cases(tmp_path / "x.xml") == {
        "codepoint": "failure",
        "feedback-lacking": "skipped",
        "replaceable": "skipped",
    }
    assert "| failed | codepoint | 4.1, MUST: All data packets carry ECT(1). | ect1 0 % | ≥ 100 |" in (
        tmp_path / "x.md"
    ).read_text("utf-8")


def test_scenarios_drawn_at_random_are_cases(tmp_path: Path) -> None:
    files = ["--junit", str(tmp_path / "x.xml"), "--summary", str(tmp_path / "x.md")]
    out = str(tmp_path / "out")
    status = main(["agree", "--random", "1", "--engine", "sim", "--no-reduce", "--out", out, *files])
    (ended,) = cases(tmp_path / "x.xml").values()
    assert (ended in ("failure", "error")) == (status == 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--junit", ""], "--junit is empty"),
        (["--summary", ""], "--summary is empty"),
        (["--junit", "."], "--junit . is a folder; give the name of a file in it"),
        (["--junit", "x.toml"], "--junit x.toml exists and is no file that this option writes; name another one"),
        (["--summary", "x.toml"], "--summary x.toml exists"),
        (["--summary", "x.toml/y.md"], "x.toml/y.md: cannot be written"),
        (["--summary", "s.md", "--dry-run"], "--dry-run gives no verdicts; leave --junit and --summary out"),
    ],
)
def test_mistakes_are_told_before_anything_runs(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.toml").write_text(FILE)
    assert main(["run", "x.toml", *words]) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["x.toml"]
