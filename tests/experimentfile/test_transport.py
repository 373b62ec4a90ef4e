"""Rules of TCP that a flow sets otherwise, and their laws in a run."""

from __future__ import annotations

import l4slab
import pytest
from l4slab.base.errors import InputError

RTT_MS = 40
SEGMENT = 1448


def flow(**keys: object) -> dict[str, object]:
    return {"name": "a", "cc": "cubic", "rtt": f"{RTT_MS}ms", **keys}


def results(seconds: int, of: dict[str, object], limit: int = 60) -> l4slab.Results:
    link = {"bottleneck": {"rate": "20Mbit", "qdisc": f"pfifo limit {limit}"}}
    return l4slab.run({"duration": f"{seconds}s", "link": link, "flow": [of]})


def test_a_larger_first_window_saves_a_round_trip() -> None:
    # 30 segments are flights of 10 and 20, after the handshake.
    times = [
        results(2, flow(bytes=f"{30 * SEGMENT}B", transport={"initial_window": window})).flows["completion_ms_p50"][0]
        for window in (10, 30)
    ]
    assert times[0] - times[1] == pytest.approx(RTT_MS, abs=8)


@pytest.mark.parametrize("beta", [0.5, 0.7, 0.85])
def test_a_loss_takes_the_part_of_the_window_that_beta_says(beta: float) -> None:
    series = results(30, flow(options={"beta": beta, "hystart": "off"})).series.drop_nulls("cwnd_packets")
    windows = series.filter(series["time_s"] > 5)["cwnd_packets"].to_list()
    largest = max(windows)
    after = min(windows[windows.index(largest) :])
    # A sample sees the window at most 0.1 s before and after the cut.
    assert after / largest == pytest.approx(beta, abs=0.05)


def test_only_what_differs_from_linux_is_part_of_the_description() -> None:
    from l4slab import _core

    assert _core.canonical_transport({"prr": "on", "ack_every": "4"}) == [("ack_every", "4")]
    assert results(1, flow(transport={"prr": "on"})).flows["run"][0] == results(1, flow()).flows["run"][0]


@pytest.mark.parametrize(
    ("rules", "words"),
    [({"prr": "maybe"}, ["transport", '"maybe"', "on or off"]), ({"pr": "on"}, ['"pr"', '"prr"'])],
)
def test_a_wrong_rule_is_a_sentence(rules: dict[str, str], words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        results(1, flow(transport=rules))
    assert all(word in str(error.value) for word in words)


def test_the_kernel_has_its_own_rules() -> None:
    from l4slab.api import campaign

    document = {
        "duration": "1s",
        "link": {"b": {"rate": "20Mbit", "qdisc": "pfifo"}},
        "flow": [flow(transport={"prr": "off"})],
    }
    with pytest.raises(InputError, match="transport is of the sim engine"):
        campaign.plan([document], "linux")
