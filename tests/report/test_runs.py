"""Tables of runs: what a cell shows, and that everything it links to is there."""

from __future__ import annotations

import re
from pathlib import Path

import l4slab
import pytest
from l4slab.errors import InputError

EXPERIMENT = """
title = "Two queues"
duration = "3s"
trials = 2
[link.l]
rate = "5Mbit"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[sweep.aqm]]
level = "FIFO"
"link.l.qdisc" = "pfifo limit 20"
[[sweep.aqm]]
level = "CoDel"
"link.l.qdisc" = "codel"
[[table]]
id = "t"
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "two.toml"
    file.write_text(EXPERIMENT + text)
    return file


def test_each_cell_links_to_a_plot_and_a_log(tmp_path: Path) -> None:
    sql = "select trial as row, aqm as column, run, rtt_ms_mean from flows order by all"
    file = write(tmp_path, f'title = "A table"\nsql = "{sql}"')
    results = l4slab.run(file, out=tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    section = page[page.index('<section aria-labelledby="runs">') :]
    section = section[: section.index("</section>")]
    assert "A table" in section
    assert section.count("rtt mean (ms)") == 4
    links = re.findall(r'<a href="(runs/\w+\.(?:svg|txt))">', section)
    assert len(set(links)) == 8
    for run, aqm, sent in results.links.filter(queue="all").select("run", "aqm", "sent_packets").iter_rows():
        assert f"runs/{run}.svg" in links
        assert "</svg>" in (tmp_path / "out" / "runs" / f"{run}.svg").read_text()
        log = (tmp_path / "out" / "runs" / f"{run}.txt").read_text()
        assert {"FIFO": "pfifo limit 20", "CoDel": "codel limit"}[aqm] in log
        assert f"sent_packets {sent}\n" in log


def test_a_group_has_a_table_of_its_own(tmp_path: Path) -> None:
    sql = "select aqm as 'group', flow as row, trial as column, run from flows order by aqm desc, trial"
    l4slab.run(write(tmp_path, f'sql = "{sql}"'), out=tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.index("<h4>FIFO</h4>") < page.index("<h4>CoDel</h4>")


def test_a_missing_column_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"table \"t\".* no column run"):
        l4slab.run(write(tmp_path, 'sql = "select aqm as row, trial as column from flows"'), out=tmp_path / "out")
