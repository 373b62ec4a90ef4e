"""Changes that wait for a state, and TCP whose application limits it."""

from __future__ import annotations

import l4slab
import polars as pl
import pytest
from l4slab.api.experiment import Experiment, load
from l4slab.base.errors import InputError
from l4slab.engines.registry import get_engine
from l4slab.sweep import expand

FILE = """
duration = "4s"
sample = "1ms"
start_jitter = "0s"
[link.bottleneck]
rate = "10Mbit"
qdisc = "pfifo limit 200"
[[flow]]
name = "a"
cc = "bbr3"
rtt = "40ms"
{flow}
"""
WAITS = """
[[at]]
flow = "a"
state = "{state}"
{more}
"link.bottleneck.rate" = "5Mbit"
"""


def series(flow: str = "", at: str = "") -> pl.DataFrame:
    result = l4slab.run(Experiment.from_toml(FILE.format(flow=flow) + at, "states"))
    assert not result.failures
    return result.series.filter(pl.col("flow") == "a").drop("run")


def slows_at(at: str) -> float:
    """When the path has become slower, from when the queue's delay is that of the slower link: the rate halves."""
    plain, slower = series(), series(at=at)
    rates = plain.join(slower, on="time_s").filter(pl.col("rate_mbps") != pl.col("rate_mbps_right"))
    return float(rates["time_s"].min())


def begins(state: str, after: float = 0.0) -> float:
    return float(series().filter((pl.col("cc_state") == state) & (pl.col("time_s") >= after))["time_s"].min())


def test_a_change_comes_within_milliseconds_of_its_state() -> None:
    for state in ("drain", "probe_bw_refill"):
        assert 0 <= slows_at(WAITS.format(state=state, more="")) - begins(state) <= 0.004


def test_it_waits_from_its_time_on_and_then_for_so_long() -> None:
    second = begins("probe_bw_refill", 2.5)
    at = slows_at(WAITS.format(state="probe_bw_refill", more='time = "2.5s"\nafter = "100ms"'))
    assert 0.1 <= at - second <= 0.104


def test_a_state_that_never_comes_changes_nothing() -> None:
    plain = series()
    assert series(at=WAITS.format(state="probe_rtt", more="")).equals(plain)


@pytest.mark.parametrize(
    ("at", "sentence"),
    [
        ('[[at]]\nstate = "drain"\n"link.bottleneck.rate" = "5Mbit"', 'add its name, such as flow = "l4s"'),
        ('[[at]]\nflow = "a"\ntime = "1s"\n"link.bottleneck.rate" = "5Mbit"', "stands without state"),
        ('[[at]]\nafter = "1s"\ntime = "1s"\n"link.bottleneck.rate" = "5Mbit"', "stands without state"),
        ('[[at]]\n"link.bottleneck.rate" = "5Mbit"', 'has no time; add it, such as time = "20s"'),
        (WAITS.format(state="drian", more=""), 'did you mean "drain"'),
        (WAITS.format(state="drain", more="").replace('"a"', '"b"'), "names no flow"),
    ],
)
def test_mistakes(at: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        expand(load(Experiment.from_toml(FILE.format(flow="") + at, "states"), {}), "sim")


def test_a_controller_without_states_is_named() -> None:
    text = FILE.format(flow="").replace("bbr3", "cubic") + WAITS.format(state="drain", more="")
    with pytest.raises(InputError, match="cubic has none; those that have are bbr, bbr3"):
        expand(load(Experiment.from_toml(text, "states"), {}), "sim")


def test_the_kernel_looks_too_seldom() -> None:
    text = (FILE.format(flow="") + WAITS.format(state="drain", more="")).replace("bbr3", "bbr")
    (run,) = expand(load(Experiment.from_toml(text.replace("1ms", "10ms"), "states"), {}), "sim").runs
    with pytest.raises(ValueError, match='shows its state at samples only; write sample = "5ms"'):
        get_engine("linux").check(run.description)


def test_an_application_limits_tcp_to_its_rate() -> None:
    limited = series('app_rate = "5.792Mbit"').filter(pl.col("time_s") > 1)
    assert limited["goodput_mbps"].mean() == pytest.approx(5.792, rel=0.01)
    assert limited["app_limited"].min() == 1
    full = series('app_rate = "50Mbit"').filter(pl.col("time_s") > 1)
    assert full["app_limited"].mean() < 0.01


def test_an_application_writes_blocks() -> None:
    """As iperf3 with -b 4M: 131072 bytes each 262 ms on average, which the link sends in less than half of the time."""
    ten = pl.col("time_s").is_between(1, 1 + 10 * 0.262144)
    blocks = series('app_rate = "4Mbit"\napp_block = "128KiB"').filter(ten)["goodput_mbps"]
    assert blocks.mean() == pytest.approx(4, rel=0.02)
    assert 0.5 < (blocks == 0).mean() < 0.8
    pieces = series('app_rate = "4Mbit"').filter(ten)["goodput_mbps"].rolling_mean(10)
    assert pieces.min() > 2


def test_blocks_need_a_rate() -> None:
    with pytest.raises(InputError, match='app_block = "128KiB" needs app_rate'):
        expand(load(Experiment.from_toml(FILE.format(flow='app_block = "128KiB"'), "states"), {}), "sim")


def test_an_application_rests_and_writes_again() -> None:
    at = '[[at]]\ntime = "1s"\n"flow.a.pause" = true\n[[at]]\ntime = "2s"\n"flow.a.pause" = false'
    rates = series('app_rate = "50Mbit"', at)
    part = {
        name: rates.filter(pl.col("time_s").is_between(begin, end))["rate_mbps"].mean()
        for name, begin, end in (("before", 0.5, 1), ("pause", 1.2, 2), ("after", 2.3, 4))
    }
    assert part["pause"] == 0
    assert part["before"] > 9
    assert part["after"] > 9


@pytest.mark.parametrize("kind", ["tcp", "media"])
def test_who_begins_while_its_group_rests_rests_too(kind: str) -> None:
    flow = {"tcp": 'app_rate = "4Mbit"', "media": 'kind = "media"\nrate_max = "4Mbit"'}[kind]
    text = FILE.format(flow=flow).replace("bbr3", {"tcp": "cubic", "media": "scream"}[kind])
    steps = [("1s", "pause", "true"), ("1500ms", "count", "3"), ("2500ms", "pause", "false")]
    text += "".join(f'[[at]]\ntime = "{time}"\n"flow.a.{key}" = {value}\n' for time, key, value in steps)
    rates = l4slab.run(Experiment.from_toml(text, "states")).series.filter(pl.col("flow") == "a")
    assert rates.filter(pl.col("time_s").is_between(1.2, 2.5))["rate_mbps"].max() == 0
    assert rates.filter(pl.col("time_s").is_between(3.5, 4))["rate_mbps"].mean() > 5


@pytest.mark.parametrize("cc", ["bbr", "bbr3"])
def test_a_pause_stands_for_a_probe_of_the_rtt(cc: str) -> None:
    """Longer than a smallest RTT is kept, so that it would be probed for else (Linux `idle_restart`)."""
    text = FILE.format(flow='app_rate = "5.792Mbit"').replace("bbr3", cc).replace('"4s"', '"16s"')
    rests = '[[at]]\ntime = "3s"\n"flow.a.pause" = true\n[[at]]\ntime = "14s"\n"flow.a.pause" = false'
    found = l4slab.run(Experiment.from_toml(text.replace('"1ms"', '"5ms"') + rests, "states")).series
    after = found.filter((pl.col("flow") == "a") & (pl.col("time_s") > 14.1))
    assert "probe_rtt" not in set(after["cc_state"])
    assert after["goodput_mbps"].mean() == pytest.approx(5.792, rel=0.02)
