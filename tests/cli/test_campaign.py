"""Parts of a campaign: --where, a study's default part, the dry run, the status."""

from __future__ import annotations

from pathlib import Path

import l4slab
import polars as pl
import pytest
from l4slab import report
from l4slab.api import campaign
from l4slab.base.errors import InputError
from l4slab.cli import main, summary

EXPERIMENT = """
title = "Two queues"
duration = "2s"
trials = 2
subset = "rate <= 4e6"
[link.l]
rate = "4Mbit"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[sweep]
"link.l.rate" = ["4Mbit", "8Mbit"]
[[sweep.aqm]]
level = "FIFO"
"link.l.qdisc" = "pfifo limit {packets}"
[[sweep.aqm]]
level = "CoDel"
"link.l.qdisc" = "codel"
[let]
packets = "cast(rate * rtt / 8 / 1500 as bigint) + 5"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(EXPERIMENT)
    return path


@pytest.mark.parametrize(
    ("where", "count"),
    [("aqm = 'CoDel'", 4), ("aqm <> 'no rate'", 8), ("trial = 2", 4), ("rate > 4e6 and packets > 10 and trial = 1", 2)],
)
def test_a_condition_chooses_runs(file: Path, where: str, count: int) -> None:
    (plan,) = campaign.plan([file], where=where)
    assert (len(plan.todo), len(plan.runs)) == (count, 8)


def test_the_rest_comes_later_and_nothing_runs_twice(file: Path, tmp_path: Path) -> None:
    first = l4slab.run(file, out=tmp_path / "out", where="aqm = 'CoDel' and trial = 1")
    assert first.flows["aqm"].to_list() == ["CoDel", "CoDel"]
    assert [(p.finished, p.planned) for p in campaign.status(tmp_path / "out").experiments] == [(2, 8)]
    assert "6 of 8 runs are missing" in (tmp_path / "out" / "report.html").read_text()
    other = l4slab.run(file, out=tmp_path / "out", where="aqm = 'FIFO'")
    assert other.flows["run"].n_unique() == 6, "what was there before stays in the tables"
    whole = l4slab.run(file, out=tmp_path / "out")
    assert any("6 runs are in" in note for note in whole.notes)
    assert campaign.left_to_do(campaign.plan([file]), tmp_path / "out") == []
    alone = l4slab.run(file)
    assert pl.DataFrame.equals(whole.flows, alone.flows)


def test_a_study_has_a_default_part(file: Path) -> None:
    (plan,) = campaign.plan([file], subset=True)
    assert {run.factors["link.l.rate"] for run in plan.todo} == {"4Mbit"}
    (everything,) = campaign.plan([file])
    assert len(everything.todo) == 8


def test_a_condition_is_about_the_files_that_have_its_factors(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(EXPERIMENT.replace("aqm", "kind_of_queue").replace("title", "about"))
    plans = campaign.plan([file, other], where="aqm = 'FIFO'")
    assert [len(plan.todo) for plan in plans] == [4, 0]
    with pytest.raises(InputError, match=r"--where.*there is no"):
        campaign.plan([file, other], where="qdisc_kind = 'FIFO'")


def test_a_dry_run_of_a_million_combinations_looks_at_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    factors = "".join(f"{name} = {list(range(10))}\n" for name in "abcdef")
    path = tmp_path / "many.toml"
    path.write_text(
        EXPERIMENT.replace("[sweep]\n", f"[sweep]\n{factors}").replace(
            "+ 5", "+ a + 10*b + 100*c + 1000*d + 10000*e + 100000*f"
        )
    )
    (plan,) = campaign.plan([path], at_most=300)
    assert (plan.combinations, plan.tried, plan.is_whole) == (4 * 10**6, 300, False)
    for name, levels in plan.factors.items():
        assert {run.factors[name] for run in plan.runs} >= set(levels), name
    with pytest.raises(InputError, match=r"4000000 combinations.* are more than 250000 runs; leave out levels"):
        campaign.plan([path])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(summary, "LOOKED_AT", 500)
        assert main(["run", str(path), "--dry-run"]) == 0
    assert "500 of 4000000 combinations were looked at" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("where", "mention"),
    [
        ("aqm = 'FIF0'", "aqm is never 'FIF0'; it is one of FIFO, CoDel"),
        ("rate > 1e9", "relax it; the factors are link.l.rate, aqm, trial"),
        ("link.l.rate > 1", 'only in double quotes: write "link.l.rate"'),
    ],
)
def test_a_condition_that_chooses_nothing_says_why(
    file: Path, where: str, mention: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(file), "--where", where]) == 2
    assert mention in capsys.readouterr().err


@pytest.mark.parametrize(
    ("where", "mention"),
    [("aqn = 'FIFO'", 'did you mean "aqm"'), ("aqm =", "it ends too early"), ("1); drop table x", "")],
)
def test_a_wrong_condition_is_one_sentence(
    file: Path, where: str, mention: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(file), "--dry-run", "--where", where]) == 2
    message = capsys.readouterr().err
    assert message.startswith("l4slab: ")
    assert message.count("\n") == 1
    assert "--where" in message
    assert mention in message


def test_a_dry_run_says_how_many_how_long_and_how_large(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["run", str(file), "--dry-run", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "8 runs to do, about" in text
    assert "processor time" in text
    assert "of tables" in text
    assert not out.exists()
    l4slab.run(file, out=out, where="trial = 1")
    assert main(["run", str(file), "--dry-run", "--out", str(out)]) == 0
    assert "4 runs to do" in capsys.readouterr().out


def test_status_is_told_by_the_command(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    l4slab.run(file, out=tmp_path / "out", where="trial = 1")
    (tmp_path / "out" / "experiments" / "two.runs").unlink()
    assert main(["status", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[2].split() == ["two", "4", "8", "4"]
    assert told[3].endswith(f"MB in {tmp_path / 'out'}")
    assert main(["status", str(tmp_path)]) == 2
    assert "is not a results folder" in capsys.readouterr().err


def test_the_table_is_printed_before_the_report_is_written(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []

    def write(folder: Path, *_: object) -> None:
        printed.append(capsys.readouterr().out)
        (folder / "report.html").write_text("drawn")

    monkeypatch.setattr(report, "write_report", write)
    command = ["run", str(file), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    (before,) = printed
    assert "Flows, mean over trials" in before
    assert "CoDel" in before
    assert capsys.readouterr().out == f"\nReport: {tmp_path / 'out'}/report.html\n"


def test_no_report_writes_none_until_it_is_asked_for(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["run", str(file), "--out", str(out), "--no-report"]) == 0
    assert "Report" not in capsys.readouterr().out
    assert not (out / "report.html").exists()
    assert main(["report", str(out)]) == 0
    assert (out / "report.html").exists()


def test_what_has_not_changed_is_not_written_again(file: Path, tmp_path: Path) -> None:
    def written() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}

    file.write_text(EXPERIMENT + '[[claim]]\nid = "some"\nsql = "select count(*) > 0 from flows"\n')
    command = ["run", str(file), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    first = written()
    assert main(command) == 0
    assert written() == first
    file.write_text(file.read_text().replace("count(*) > 0", "count(*) > 1"))
    assert main(command) == 0
    changed = {Path(name).name for name, time in written().items() if first.get(name) != time}
    assert {"report.html", "two.toml"} <= changed
    assert not changed & {"flows.parquet", "series.parquet"}
