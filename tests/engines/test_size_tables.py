"""Size tables (`stab`): what a queue takes its packets to be is what it shapes by, on both engines."""

from __future__ import annotations

import pytest
from l4slab.base.errors import InputError
from l4slab.engines.contract import Recording
from l4slab.engines.linux import kernels
from l4slab.engines.linux.engine import LinuxEngine, refuse
from l4slab.engines.sim import SimEngine
from l4slab.sweep import canonical_json

from .conftest import Describe

FLOWS = """
[[flow]]
name = "long"
kind = "cbr"
rate = "20Mbit"
rtt = "10ms"
[[flow]]
name = "short"
kind = "cbr"
rate = "20Mbit"
packet = "200B"
rtt = "10ms"
"""
PAYLOAD = {"long": 1472, "short": 158}
# What 1514 and 200 bytes count with 24 bytes of overhead in ATM cells: 33 and 5 cells.
CELLS = {"long": 33 * 53, "short": 5 * 53}
HTB = 'qdisc = "stab overhead 24 linklayer atm htb default 10"\n[link.b.class.10]\nrate = "8Mbit"\nqdisc = "fq_codel"'
TBF = 'qdisc = "stab overhead 24 linklayer atm tbf rate 8mbit burst 10k limit 100k"'
CAKE = 'qdisc = "stab mpu 300 cake bandwidth 8mbit overhead 10"'
QUEUES = {"htb": HTB, "tbf": TBF, "cake": CAKE}


def of(queue: str, rate: str = "100Mbit") -> str:
    return f'[link.b]\nrate = "{rate}"\n{queue}\n{FLOWS}'


def goodputs(recording: Recording) -> dict[str, float]:
    rows = recording.flows.select("flow", "goodput_mbps").iter_rows()
    return {str(flow): float(goodput) for flow, goodput in rows}


def test_a_shaper_sends_its_rate_in_the_sizes_of_the_table(describe: Describe) -> None:
    found = goodputs(SimEngine().execute(canonical_json(describe(of(HTB)))))
    # fq_codel gives both the same share of 8 Mbit/s, in these bytes.
    for flow, goodput in found.items():
        assert goodput == pytest.approx(4 * PAYLOAD[flow] / CELLS[flow], rel=0.01), flow
    tbf = goodputs(SimEngine().execute(canonical_json(describe(of(TBF)))))
    assert sum(tbf[flow] * CELLS[flow] / PAYLOAD[flow] for flow in tbf) == pytest.approx(8, rel=0.01)


def test_the_link_still_sends_frames(describe: Describe) -> None:
    """Where nothing shapes, a size table changes no rate."""
    found = goodputs(
        SimEngine().execute(canonical_json(describe(of('qdisc = "stab linklayer atm fq_codel"', "8Mbit"))))
    )
    frames = {"long": 1514, "short": 200}
    assert sum(found[flow] * frames[flow] / PAYLOAD[flow] for flow in found) == pytest.approx(8, rel=0.01)


CHANGE = '[[at]]\ntime = "2s"\n"link.b.qdisc" = "{}"\n'


def test_a_change_keeps_the_size_table(describe: Describe) -> None:
    words = "stab overhead 24 linklayer atm tbf rate 4mbit burst 10k limit 100k"
    recording = SimEngine().execute(canonical_json(describe(of(TBF) + CHANGE.format(words))))
    late = recording.series.filter(flow="long").sort("time_s").tail(15)["rate_mbps"].mean()
    assert isinstance(late, float)
    assert late < 4
    with pytest.raises(InputError, match=r'take the size table away; write "stab .* pfifo limit 3"'):
        describe(of(TBF) + CHANGE.format("pfifo limit 3"))
    with pytest.raises(InputError, match="another size table"):
        describe(of(TBF) + CHANGE.format("stab overhead 23 pfifo limit 3"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("stab overhead 24", "has no qdisc after stab"),
        ("stab htb default 10", "overhead is missing"),
        ("stab overhead no pfifo", 'overhead "no" is refused'),
        ("stab overhead 24 stab overhead 24 pfifo", "size table of its link"),
    ],
)
def test_mistakes_are_one_sentence(describe: Describe, words: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        describe(of(f'qdisc = "{words}"'))


def test_the_kernel_needs_a_shaper_below_the_link(describe: Describe) -> None:
    refuse(describe(of(HTB)), None)
    for queue, rate in (('qdisc = "stab overhead 9 fq_codel"', "100Mbit"), (TBF, "7Mbit"), (HTB, "7Mbit")):
        with pytest.raises(ValueError, match="stab would count for the link's rate, too"):
            refuse(describe(of(queue, rate)), None)


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
@pytest.mark.parametrize("queue", QUEUES)
def test_the_kernel_takes_packets_to_be_as_long(describe: Describe, queue: str) -> None:
    text = canonical_json(describe(of(QUEUES[queue])))
    simulated, measured = goodputs(SimEngine().execute(text)), goodputs(LinuxEngine().execute(text))
    for flow, goodput in measured.items():
        assert simulated[flow] == pytest.approx(goodput, rel=0.01, abs=0.02), flow
