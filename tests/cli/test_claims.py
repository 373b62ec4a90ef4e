"""Verdicts, the lists in which they count, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import l4slab
import polars as pl
import pytest
from l4slab.cli import main
from l4slab.results import claims

BASE = """
duration = "500ms"
[link.bottleneck]
rate = "10Mbit"
qdisc = "pfifo limit 100"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[sweep]
"flow.a.rtt" = ["5ms", "10ms"]
"""


def claim(sql: str, keys: str = "", name: str = "c") -> str:
    return f"[[claim]]\nid = \"{name}\"\nsays = \"s\"\nsource = \"o\"\nsql = '''{sql}'''\n{keys}\n"


@pytest.mark.parametrize(
    ("sql", "verdict", "evidence"),
    [
        ("select count(*) = 2 from flows", "holds", {}),
        ("select count(*) = 3, count(*) as rows from flows", "fails", {"rows": 2}),
        (
            "select avg(share) < 0.25 from flows where flow = 'none'",
            "undecided",
            {"hint": "no flow is called 'none'; the flows are a"},
        ),
        ("select avg(share) < 0.25 from flows where share < 0", "undecided", {}),
        (
            "select count(*) = 9 from flows where flow in ('a', 'it''s')",
            "fails",
            {"hint": "no flow is called 'it's'; the flows are a"},
        ),
        ("select true from flows where share < 0", "undecided", {"error": "the query gives no row"}),
        (
            "select true from flows",
            "error",
            {"error": "the query gives more than one row; make it one, such as with bool_and(...)"},
        ),
        ("select null, 'text' as t", "undecided", {"t": "text"}),
        ("select error('no') is null", "error", None),
        ("select bool_and(share = 1), list(trial) as trials from flows", "holds", {"trials": [1, 1]}),
        ("select max(time_s) > 0.3, 1.5::decimal(4, 2) as d from series where flow = 'a'", "holds", {"d": 1.5}),
        ("select count(*) = 1 from flows where \"flow.a.rtt\" = '5ms'", "holds", {}),
        ("select count(*) = 2 from links where queue = 'all'", "holds", {}),
    ],
)
def test_verdict(tmp_path: Path, sql: str, verdict: str, evidence: dict[str, object] | None) -> None:
    file = tmp_path / "x.toml"
    file.write_text(BASE + claim(sql))
    (row,) = l4slab.run(file).claims.rows(named=True)
    assert {key: row[key] for key in ("experiment", "id", "says", "source", "kind")} == {
        "experiment": "x",
        "id": "c",
        "says": "s",
        "source": "o",
        "kind": "statement",
    }
    assert row["verdict"] == verdict
    if evidence is not None:
        assert json.loads(row["evidence"]) == evidence


def test_a_view_is_a_table_of_its_file_alone(tmp_path: Path) -> None:
    """Also of a later view. Another file's view of the same name is another."""
    view = '[view]\nshares = "select avg(share) as share from flows"\n'
    view += "twice = 'select 2 * {n} * share as share from shares;'\n"
    for name, n in (("x", 1), ("y", 2)):
        held = claim(f"select share = {2 * n}, share from twice")
        (tmp_path / f"{name}.toml").write_text(BASE + view.replace("{n}", str(n)) + held)
    (tmp_path / "z.toml").write_text("title = 'z'\n" + view.replace("{n}", "3") + claim("select share = 6 from twice"))
    found = l4slab.run([tmp_path / f"{name}.toml" for name in "xyz"]).claims
    assert found["verdict"].to_list() == ["holds"] * 3
    alone = tmp_path / "alone.toml"
    alone.write_text(BASE + claim("select share > 0 from shares"))
    with pytest.raises(l4slab.InputError, match="shares"):
        l4slab.run([tmp_path / "x.toml", alone])


def test_a_view_of_no_rows_refutes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    view = '[view]\nof_none = "select share from flows where share < 0"\n'
    file.write_text(BASE + view + claim("select count(*) > 1 and min(share) > 0, min(share) as share from of_none"))
    assert l4slab.run(file).claims["verdict"].to_list() == ["undecided"]


@pytest.mark.parametrize(
    ("sql", "keys", "status"),
    [
        ("select true", "", 0),
        ("select false", "", 1),
        ("select true", "expect = false", 1),
        ("select false", "expect = false", 0),
        ("select null", "", 1),
        ("select null", "expect = false", 1),
        ("select error('no') is null", "expect = false", 1),
    ],
)
def test_exit_status_counts_what_was_not_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: str, keys: str, status: int
) -> None:
    file = tmp_path / "x.toml"
    file.write_text(BASE + claim("select true", name="first") + claim(sql, keys))
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == status
    told = "refuted" if keys else "not reproduced"
    assert told in capsys.readouterr().out or "false" not in sql


@pytest.mark.parametrize(
    ("sql", "keys", "status", "told"),
    [
        ("select false", 'recorded = "fails"', 0, "every verdict is the recorded one"),
        ("select true", 'recorded = "fails"', 1, "1 of 2 verdicts differ from the recorded ones: said (reproduced)"),
        ("select null", 'recorded = "undecided"', 0, "every verdict is the recorded one"),
        ("select true", 'expect = false\nrecorded = "holds"', 0, "every verdict is the recorded one"),
        ("select false", "", 1, "0 of 1 statements of the study reproduced; 1 not"),
    ],
)
def test_exit_status_follows_the_recorded_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: str, keys: str, status: int, told: str
) -> None:
    """Also of the tables that are there already, whose verdicts nothing has to run for."""
    file = tmp_path / "x.toml"
    mine = "[[claim]]\nid = \"mine\"\nsql = 'select true'\n"
    file.write_text(BASE + mine + claim(sql, keys, name="said"))
    for _ in range(2):
        assert main(["run", str(file), "--out", str(tmp_path / "out")]) == status
        text = capsys.readouterr().out
        assert told in text
        assert ("(exit status 1)" in text) == (status == 1)
        assert "fails" not in text


def test_three_lists_are_counted_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = "[[claim]]\nid = \"mine\"\nsql = 'select true'\n"
    of_a_study = [
        claim("select true", name="said"),
        claim("select false", name="not-found"),
        claim("select null", name="undecided"),
        claim("select range > 0 from range(2)", name="two-rows"),
        claim("select false", "expect = false", name="refuted"),
        claim("select true", "expect = false", name="not-refuted"),
        claim("select true", 'kind = "found"\nbeside = "not-found"', name="instead"),
    ]
    (tmp_path / "x.toml").write_text(BASE + mine + "".join(of_a_study))
    assert main(["run", str(tmp_path / "x.toml"), "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().out
    found = claims.tally(pl.read_parquet(tmp_path / "out" / "claims.parquet"))
    assert [counted.text for counted in found] == [
        "1 of 4 statements of the study reproduced; 1 not; 1 undecided; 1 error",
        "1 of 2 disputed statements refuted; 1 not",
        "1 of 1 own findings hold",
        "1 of 1 claims hold",
    ]
    assert all(f"{counted.text}\n" in told for counted in found[:-1])
    assert f"{found[-1].text} (exit status 1)\n" in told


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ('kind = "finding"', ["kind", '"finding"', "found"]),
        ('beside = "first"', ["beside", '"first"', 'kind = "found"']),
        ('kind = "found"\nbeside = "firts"', ["beside", '"firts"', '"first"']),
    ],
)
def test_a_mistake_about_the_list_is_one_sentence(tmp_path: Path, capsys, keys: str, names: list[str]) -> None:
    file = tmp_path / "x.toml"
    file.write_text(BASE + claim("select true", name="first") + claim("select true", keys))
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert all(name in message for name in [str(file), *names]), message


def test_a_claim_sees_its_own_experiment_and_may_ask_for_all(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(
            BASE
            + claim("select count(distinct experiment) = 1 from flows", name="own")
            + claim("select count(distinct experiment) = 2 from all_flows", name="all")
        )
    results = l4slab.run([tmp_path / "one.toml", tmp_path / "two.toml"])
    assert results.claims["verdict"].to_list() == ["holds"] * 4


def test_a_claim_may_name_factors_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(BASE.replace("[sweep]", '[sweep]\n"link.bottleneck.rate" = ["10Mbit"]'))
    (tmp_path / "two.toml").write_text(BASE + claim('select count("link.bottleneck.rate") = 2 from all_flows'))
    assert l4slab.run([tmp_path / "one.toml", tmp_path / "two.toml"]).claims["verdict"].to_list() == ["holds"]


def test_a_claim_may_use_what_a_queue_and_a_controller_tell(tmp_path: Path) -> None:
    sql = "select max(alpha) <= 1 and max(p_prime) <= 1 from series"
    (tmp_path / "x.toml").write_text(BASE.replace("pfifo limit 100", "dualpi2").replace("cubic", "prague") + claim(sql))
    assert l4slab.run(tmp_path / "x.toml").claims["verdict"].to_list() == ["holds"]
    (tmp_path / "y.toml").write_text(BASE + claim(sql))
    with pytest.raises(l4slab.InputError, match="alpha"):
        l4slab.run(tmp_path / "y.toml")
