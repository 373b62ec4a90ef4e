"""Verdicts, expectations and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import l4slab
import pytest
from l4slab.cli import main

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


def claim(sql: str, expect: str = "", name: str = "c") -> str:
    return f"[[claim]]\nid = \"{name}\"\nsays = \"s\"\nsource = \"o\"\nsql = '''{sql}'''\n{expect}\n"


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
        ("select true from flows", "error", {"error": "the query gives more than one row"}),
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
    assert {key: row[key] for key in ("experiment", "id", "says", "source", "expect")} == {
        "experiment": "x",
        "id": "c",
        "says": "s",
        "source": "o",
        "expect": True,
    }
    assert row["verdict"] == verdict
    if evidence is not None:
        assert json.loads(row["evidence"]) == evidence


@pytest.mark.parametrize(
    ("sql", "expect", "status"),
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: str, expect: str, status: int
) -> None:
    file = tmp_path / "x.toml"
    file.write_text(BASE + claim("select true", name="first") + claim(sql, expect))
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == status
    assert "fails" in capsys.readouterr().out or "false" not in sql + expect


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
