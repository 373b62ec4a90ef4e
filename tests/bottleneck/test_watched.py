"""A running bottleneck is watched and changed, as the page of `l4slab live` does it."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from l4slab.engines.real import live
from l4slab.engines.real.live import RealLive
from l4slab.tools import bottleneck as tool

from .test_bottleneck import PROGRAMS, PYTHON, experiment, machine

pytestmark = pytest.mark.alone

__all__ = ["machine"]
S = 1_000_000_000


def ask(engine: RealLive, **request: Any) -> Any:
    answer = json.loads(engine.ask(json.dumps(request)))
    return answer.get("ok", answer)


def rates(samples: Any, link: str | None = "one") -> list[float]:
    series = samples["series"]
    rows = zip(series["link"], series["queue"], series["rate_mbps"], strict=True)
    return [rate for name, queue, rate in rows if name == link and queue in (None, "all") and rate is not None]


@pytest.mark.slow
@pytest.mark.usefixtures("machine")
def test_sliders_move_a_running_bottleneck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rate and queue change while a program sends, the samples show it, and a replay makes the same changes."""
    path = tool.path_of(experiment(tmp_path, "50Mbit", "pfifo limit 100"))
    log = tmp_path / "x.log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        listener.setblocking(False)
        monkeypatch.setenv(live.SOCKET, str(tmp_path / "s"))
        command = [PYTHON, str(PROGRAMS / "send.py"), "udp", "10.0.0.2", "8000", "20e6"]
        server = f"{PYTHON} {PROGRAMS / 'receive.py'} udp"
        wanted = tool.Wanted(command, server, log, late_ns=10 * S, quiet=True, control=listener.fileno())
        running = threading.Thread(target=tool.run, args=(path, wanted))
        running.start()
        engine = RealLive()
        assert ask(engine, do="start", run=path.shown, watch={"sample_ns": S // 10})["now_ns"] == 0
        before = ask(engine, do="advance", until_ns=S)
        assert before["now_ns"] == S
        assert median(rates(before)) == pytest.approx(20, rel=0.3)
        assert median(rates(before, None)) == pytest.approx(20, rel=0.3)
        assert before["histograms"] == []
        assert ask(engine, do="change", change={"link": "one", "rate_bps": 5_000_000})["time_ns"] > 0
        assert "time_ns" in ask(engine, do="change", change={"link": "one", "qdisc": "dualpi2"})
        ask(engine, do="watch", watch={"sample_ns": S // 10, "histograms": True})
        after = ask(engine, do="advance", until_ns=2 * S)
        waited = {row["queue"]: sum(count for _, _, count in row["bins"]) for row in after["histograms"]}
        assert waited["all"] > 1000
        assert median(rates(after)[3:]) == pytest.approx(5, rel=0.2)
        assert {"L", "C"} <= set(after["series"]["queue"])
        assert "what sends is real" in ask(engine, do="change", change={"flow": "a", "rtt_ns": S})["refused"]
        assert "no qdisc" in ask(engine, do="change", change={"link": "one", "qdisc": "nothing"})["refused"]
        rows = {row["queue"]: row for row in ask(engine, do="report")["links"]}
        assert rows["all"]["dropped_packets"] > 0
        running.join()
        assert "has ended" in ask(engine, do="report")["refused"]
        engine.close()
    told = tool.replay(log)
    assert told["difference"] is None
    assert told["arrivals"] > 8000
