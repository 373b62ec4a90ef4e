"""What a person sees of many subscribers: how their values spread and the worst ten, not a row or a curve each."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from l4slab.api import campaign
from l4slab.cli import main
from l4slab.report.results import load

from .pages import Report

PLANS, BUSY = 40, 24


def tree(plans: int, busy: int) -> str:
    lines = ['duration = "1s"\n[link.down]\nrate = "100Mbit"\nqdisc = "htb default 1"']
    lines += ['[link.down.class.1]\nrate = "1Mbit"\nqdisc = "cake"']
    for n in range(plans):
        lines.append(f'[link.down.class.{n + 2:x}]\nrate = "{1 + n % 3}Mbit"\nceil = "{n + 2}Mbit"\nqdisc = "cake"')
        lines.append(f'[[link.down.filter]]\nhost = "plan-{n}"\nclass = "{n + 2:x}"')
    lines += [f'[[flow]]\nname = "f{n}"\ncc = "cubic"\nrtt = "10ms"\npeer_host = "plan-{n}"' for n in range(busy)]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The results folder of a run, and what the terminal shows of it."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "x.toml").write_text(tree(PLANS, BUSY))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["run", str(folder / "x.toml"), "--out", str(folder / "out")]) == 0
    return folder / "out", out.getvalue()


def rows_of(text: str, title: str) -> dict[str, list[float]]:
    """The rows of the table with this title, by their names."""
    lines = text[text.index(title) :].splitlines()[3:]
    rows = {}
    for line in lines:
        if (found := re.fullmatch(r"(least|10 %|median|90 %|most|\w+(?:, plan-\d+)?)((?: +[\d.]+)+)", line)) is None:
            break
        rows[found[1]] = list(map(float, found[2].split()))
    return rows


@pytest.mark.parametrize(
    "title", [f"{BUSY} flows", f"{PLANS + 1} classes of link down, {PLANS + 1 - BUSY} without packets"]
)
def test_the_terminal_shows_the_spread_and_the_worst(done: tuple[Path, str], title: str) -> None:
    folder, text = done
    rows = rows_of(text, title)
    spread, worst = list(rows.values())[:5], list(rows.values())[5:]
    assert len(worst) == 10
    assert all(below <= above for low, high in pairwise(spread) for below, above in zip(low, high, strict=True))
    delays = [row[2] for row in worst]
    assert delays == sorted(delays, reverse=True)
    assert delays[0] == spread[-1][2], "the worst is the most"
    links = pl.read_parquet(folder / "links.parquet").filter(pl.col("queue") != "all")
    assert rows["most"][0] == pytest.approx(links["rate_mbps"].max(), rel=1e-3)


def test_a_class_is_named_by_its_host(done: tuple[Path, str]) -> None:
    names = list(rows_of(done[1], "classes of link down"))[5:]
    assert all(int(name.partition(",")[0], 16) - 2 == int(name.rpartition("-")[2]) for name in names)


def test_the_page_draws_ten(done: tuple[Path, str]) -> None:
    report = Report(done[0])
    assert f"{BUSY} flows" in report.page.text
    assert "without packets" in report.page.text
    (run,) = load(done[0]).run_ids
    for panel in report.run(run)["panels"]:
        assert len(panel["lines"]) == 10, panel["title"]
    assert all(len(one["heads"]) <= 11 for one in report.run(run)["measured"])


def test_an_idle_class_has_no_rows_over_time(done: tuple[Path, str]) -> None:
    tables = {name: pl.read_parquet(done[0] / f"{name}.parquet") for name in ("links", "series")}
    busy = tables["links"].filter(pl.col("arrived_packets") > 0)["queue"]
    assert len(tables["links"]) == PLANS + 2
    assert set(tables["series"]["queue"].drop_nulls()) == set(busy)


def test_few_are_shown_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.toml").write_text(tree(18, 18))
    assert main(["run", str(tmp_path / "x.toml"), "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "least" not in text
    assert all(re.search(rf"^f{n} ", text, re.MULTILINE) for n in range(18))


def steps(folder: Path, plans: int) -> int:
    """Lines of Python that reading and resolving the file takes."""
    (folder / "x.toml").write_text(tree(plans, 1))
    count = 0

    def trace(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        campaign.plan([folder / "x.toml"])
    finally:
        sys.settrace(None)
    return count


def test_reading_classes_takes_time_in_proportion(tmp_path: Path) -> None:
    steps(tmp_path, 10)  # what is kept from the first time on
    one, four = steps(tmp_path, 100), steps(tmp_path, 400)
    assert four < 4.4 * one
