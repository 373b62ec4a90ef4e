"""What a campaign costs is told from short versions of a few of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from l4slab import experimentfile, sweep
from l4slab.campaign import estimate
from l4slab.engines.contract import Recording
from l4slab.engines.registry import get_engine
from l4slab.experimentfile import bounds

FILE = """
duration = "15s"
sample = "50ms"
start_jitter = "0s"
[link.bottleneck]
rate = "5Mbit"
qdisc = "pfifo limit 20"
[[flow]]
name = "a"
{sender}
rtt = "20ms"
[[flow]]
name = "b"
cc = "cubic"
rtt = "20ms"
"""
SENDERS = {
    "answers": 'cc = "prague"',
    "ignores losses": 'cc = "prague"\noptions = { version = "0.6", fallback = "correct", ignore_loss_in_l4s = "on" }',
    "constant": 'kind = "cbr"\nrate = "10Mbit"',
}


def sent(recording: Recording) -> float:
    return float(recording.series["sent_packets"].sum())


@pytest.mark.parametrize("sender", SENDERS)
def test_packets_that_are_lost_count_too(tmp_path: Path, sender: str) -> None:
    """The work of a run goes with the packets that are sent, of which who ignores losses sends ever more."""
    (tmp_path / "x.toml").write_text(FILE.format(sender=SENDERS[sender]))
    (run,) = sweep.expand(experimentfile.load(tmp_path / "x.toml"), "sim").runs

    def simulated(seconds: int) -> Recording:
        return get_engine("sim").execute(sweep.canonical_json(dict(run.description) | {"duration_ns": seconds * 10**9}))

    short, whole = simulated(5), simulated(15)
    longer = sent(whole) / sent(short)
    assert estimate._longer(short, 3) == pytest.approx(longer, rel=0.2)
    assert (longer > 6) == (sender == "ignores losses")


def test_the_end_of_slow_start_is_no_growing_rate(tmp_path: Path) -> None:
    """A deep buffer overflows in the third quarter of a try, and not again for long."""
    text = FILE.format(sender='cc = "prague"').replace("15s", "60s").replace("20ms", "50ms")
    text = text.replace("5Mbit", "200Mbit").replace("pfifo limit 20", "bfifo limit 12500000")
    (tmp_path / "x.toml").write_text(text)
    (run,) = sweep.expand(experimentfile.load(tmp_path / "x.toml"), "sim").runs
    first = get_engine("sim").execute(sweep.canonical_json(estimate._shortened(run.description, 1e6)))
    assert estimate._longer(first, 30) == 30
    short, *_, longer = estimate._try(run.description, 1e6)
    assert longer == pytest.approx(60e9 / short["duration_ns"])


def test_every_sender_is_tried(tmp_path: Path) -> None:
    levels = [f'[[sweep.sender]]\nlevel = "{name}"\n' for name in ("as it is", "another")]
    text = (
        "trials = 30\n"
        + FILE.format(sender=SENDERS["answers"])
        + "".join(levels)
        + '"flow.a.options.version" = "0.6"\n'
    )
    (tmp_path / "x.toml").write_text(text)
    runs = sweep.expand(experimentfile.load(tmp_path / "x.toml"), "sim").runs
    few = runs[:30] + runs[-1:]
    tried: list[tuple[Any, float]] = list(estimate._tried(few))
    assert sum(alike for _, alike in tried) == pytest.approx(len(few))
    assert [alike for description, alike in tried if description == runs[-1].description] == [1]


def test_a_sweep_over_rates_counts_its_packets(tmp_path: Path) -> None:
    """Few of its runs are tried; they stand for the packets of all."""
    levels = ", ".join(f'"{rate}Mbit"' for rate in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000))
    text = "trials = 7\n" + FILE.format(sender=SENDERS["answers"]) + f'[sweep]\n"link.bottleneck.rate" = [{levels}]\n'
    (tmp_path / "x.toml").write_text(text)
    runs = sweep.expand(experimentfile.load(tmp_path / "x.toml"), "sim").runs
    tried = list(estimate._tried(runs))
    assert len(tried) < len(runs) / 5
    stand_for = sum(bounds.packets(description) * alike for description, alike in tried)
    assert stand_for == pytest.approx(sum(bounds.packets(run.description) for run in runs))
    fastest = max(runs, key=lambda run: bounds.packets(run.description)).description
    assert any(bounds.packets(description) == bounds.packets(fastest) for description, _ in tried)


def test_all_tries_together_are_bounded(tmp_path: Path) -> None:
    """However many senders a file has, and however fast they are, its estimate simulates so many packets at most."""
    text = FILE.format(sender='kind = "cbr"\nrate = "1Gbit"') + "[sweep]\n" + '"flow.a.rate" = ["90Gbit", "900Gbit"]\n'
    text += '"link.bottleneck.rate" = ["5Mbit", "500Gbit"]\n"link.bottleneck.qdisc" = ["lfq_cobalt", "pfifo", "cake"]\n'
    (tmp_path / "x.toml").write_text(text)
    tried = list(estimate._tried(sweep.expand(experimentfile.load(tmp_path / "x.toml"), "sim").runs))
    assert len(tried) > 4
    short = [estimate._shortened(description, estimate._MOST_PACKETS / len(tried)) for description, _ in tried]
    assert sum(bounds.packets(description) for description in short) <= 1.01 * estimate._MOST_PACKETS


def test_what_programs_carry_costs_as_programs_do(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(FILE.format(sender='kind = "responsiveness"\ncc = "cubic"'))
    (run,) = sweep.expand(experimentfile.load(tmp_path / "x.toml"), "linux").runs
    work = estimate._work([run], 1000, 0.1)
    assert (work.program_packets, work.calls_s) == (500, 0)
