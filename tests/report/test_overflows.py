"""The page says which queue dropped packets for lack of room, how many, and how many of them in the warm-up."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from l4slab.cli import main
from l4slab.report import summary
from l4slab.report.results import load

# 4 Mbit/s into 2 Mbit/s for half a second: 165 frames, of which 82 leave meanwhile and 10 wait.
EARLY = """
duration = "3s"
warmup = "1s"
start_jitter = "0s"

[link.first]
rate = "100Mbit"
qdisc = "pfifo limit 1000"

[link.narrow]
rate = "2Mbit"
qdisc = "pfifo limit 10"

[[flow]]
name = "burst"
kind = "cbr"
rate = "4Mbit"
rtt = "10ms"
stop = "500ms"

[[flow]]
name = "steady"
kind = "cbr"
rate = "200kbit"
rtt = "10ms"
start = "1500ms"
"""
NETEM = '[impair.radio]\nnetem = "delay 100ms limit 1"\nbefore = "first"\n'
# A factor may be called as one likes.
SWEEP = """
[[sweep.place]]
level = "short"
"link.narrow.qdisc" = "pfifo limit 10"
[[sweep.place]]
level = "long"
"link.narrow.qdisc" = "pfifo limit 1000"
"""


def told(text: str, folder: Path) -> tuple[list[tuple[str, str]], str]:
    (folder / "x.toml").write_text(text)
    out = folder / "out"
    assert main(["run", str(folder / "x.toml"), "--out", str(out), "--workers", "1"]) == 0
    return summary.overflows(load(out)), (out / "report.html").read_text()


def test_an_overflow_in_the_warm_up_is_told(tmp_path: Path) -> None:
    sentences, page = told(EARLY, tmp_path)
    series = pl.read_parquet(tmp_path / "out/series.parquet").filter(link="narrow", queue="all")
    dropped = int(series["dropped_overflow_packets"].sum())
    assert 65 < dropped < 80
    assert pl.read_parquet(tmp_path / "out/links.parquet")["dropped_overflow_packets"].sum() == 0
    sentence = f"dropped {dropped} packets because its queue was full, all of them in the warm-up."
    assert sentences == [("narrow", sentence)]
    assert sentence in page


def test_an_overflow_later_is_told_of_every_run(tmp_path: Path) -> None:
    text = EARLY.replace('stop = "500ms"', 'stop = "1500ms"')
    sentences, page = told(text + NETEM.replace("limit 1", "limit 30") + SWEEP, tmp_path)
    links = pl.read_parquet(tmp_path / "out/links.parquet").filter(link="narrow", queue="all")
    series = pl.read_parquet(tmp_path / "out/series.parquet").filter(link="narrow", queue="all")
    dropped = int(series["dropped_overflow_packets"].sum())
    early = dropped - int(links["dropped_overflow_packets"].sum())
    assert 0 < early < dropped
    (_, netem), (_, narrow) = sentences
    assert (
        narrow
        == f"dropped {dropped} packets because its queue was full, in 1 of 2 runs, {early} of them in the warm-up."
    )
    losses = pl.read_parquet(tmp_path / "out/losses.parquet").filter(lost_at="impair.radio", lost_by="overflow")
    lost = losses["lost_packets"].sum()
    assert netem == f"lost {lost} packets because its netem was full, in 2 of 2 runs."
    assert narrow in page
    assert netem in page


def test_without_an_overflow_nothing_is_told(tmp_path: Path) -> None:
    sentences, page = told(EARLY.replace('"4Mbit"', '"1Mbit"'), tmp_path)
    assert sentences == []
    assert "was full" not in page
