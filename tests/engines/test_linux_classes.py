"""Classes on the kernel: the commands, which packets are of which class, and the kernel's own counts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from l4slab.engines.contract import LackingError
from l4slab.engines.linux import engine, kernels, lab
from l4slab.engines.linux.engine import LinuxEngine
from l4slab.engines.linux.recording.observed import BACKWARD, PACKET, Link
from l4slab.engines.sim import SimEngine
from l4slab.experimentfile.classes import holds_classes

from .conftest import CUBIC, Describe

HTB = """
[link.one]
rate = "10Mbit"
qdisc = "htb default b"
[link.one.class.1]
rate = "9Mbit"
[link.one.class.a]
parent = "1"
rate = "3Mbit"
ceil = "9Mbit"
quantum = "3028B"
qdisc = "dualpi2"
[link.one.class.b]
parent = "1"
rate = "2Mbit"
ceil = "9Mbit"
prio = 1
qdisc = "pfifo limit 50"
[[link.one.filter]]
dscp = "ef"
ecn = "ect0"
class = "a"
[[link.one.filter]]
host = "b"
class = "a"
"""
PRIO = """
[link.one]
rate = "10Mbit"
qdisc = "prio"
[link.one.class.1]
qdisc = "pfifo"
[link.one.class.2]
qdisc = "fq_codel"
[link.one.class.3]
qdisc = "pfifo limit 30"
[[link.one.filter]]
ecn = "ect1"
class = "1"
"""
# Each kind of queue with classes in a class of each.
INNER_PRIO = (
    HTB.replace('qdisc = "dualpi2"', 'qdisc = "prio bands 2 priomap 0 1 1 1 0 1 0 0 1 1 1 1 1 1 1 1"')
    + """
[link.one.class."a:1"]
qdisc = "fq_codel"
[link.one.class."a:2"]
qdisc = "pfifo limit 20"
[[link.one.filter]]
host = "a"
class = "a:1"
"""
)
INNER_HTB = (
    HTB.replace('qdisc = "dualpi2"', 'qdisc = "htb default 2"')
    + """
[link.one.class."a:1"]
rate = "4Mbit"
qdisc = "fq_codel"
[link.one.class."a:2"]
rate = "3Mbit"
ceil = "5Mbit"
qdisc = "sfq"
[[link.one.filter]]
ecn = "ect0"
class = "a:1"
"""
)
BANDS = (
    PRIO.replace('qdisc = "fq_codel"', 'qdisc = "htb default a"')
    + """
[link.one.class."2:1"]
rate = "6Mbit"
[link.one.class."2:a"]
parent = "2:1"
rate = "3Mbit"
ceil = "6Mbit"
qdisc = "fq_codel"
[link.one.class."2:b"]
parent = "2:1"
rate = "3Mbit"
ceil = "5Mbit"
qdisc = "pfifo limit 30"
[[link.one.filter]]
host = "b"
class = "2:b"
"""
)
TWO_FLOWS = CUBIC + 'dscp = "ef"\n' + CUBIC.replace('"a"', '"b"') + 'dscp = "af11"\n'


def of_tree(run: dict[str, Any]) -> list[str]:
    script = lab.script(lab.build(run)).splitlines()
    return [line for line in script if re.search(r"parent (2:|1:1 )", line)]


def test_the_commands_of_a_tree(describe: Describe) -> None:
    assert of_tree(describe(HTB + TWO_FLOWS)) == [
        "qdisc replace dev out parent 1:1 handle 2: htb default b",
        "class replace dev out parent 2: classid 2:1 htb rate 9000000bit ceil 9000000bit burst 1600b cburst 1600b "
        "prio 0 quantum 112500",
        "class replace dev out parent 2:1 classid 2:a htb rate 3000000bit ceil 9000000bit burst 1600b cburst 1600b "
        "prio 0 quantum 3028",
        "class replace dev out parent 2:1 classid 2:b htb rate 2000000bit ceil 9000000bit burst 1600b cburst 1600b "
        "prio 1 quantum 25000",
        *[
            f"qdisc replace dev out parent 2:{one['id']} handle f00{number}: {one['qdisc']}"
            for number, one in enumerate(describe(HTB + TWO_FLOWS)["links"][0]["classes"])
            if "qdisc" in one
        ],
        "filter add dev out parent 2: protocol ip pref 1 flower ip_tos 0xba/0xff classid 2:a",
        "filter add dev out parent 2: protocol ip pref 2 flower src_ip 10.208.0.2 classid 2:a",
        "filter add dev out parent 2: protocol ip pref 3 flower dst_ip 10.208.0.2 classid 2:a",
    ]


def test_prio_makes_its_classes_itself(describe: Describe) -> None:
    commands = of_tree(describe(PRIO + CUBIC))
    assert commands[0].endswith("handle 2: prio bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1")
    assert [line.split()[5] for line in commands[1:4]] == ["2:1", "2:2", "2:3"]
    assert not any("class replace" in line for line in commands)


def test_hfsc_is_told_its_classes_in_their_order(describe: Describe) -> None:
    classes = """
    [link.one.class.1]
    parent = "2"
    qdisc = "pfifo"
    curves = "rt m1 8mbit d 5ms m2 1mbit"
    [link.one.class.2]
    curves = "ls rate 5mbit ul rate 9mbit"
    """
    link = PRIO[: PRIO.index("[link.one.class")].replace('qdisc = "prio"', 'qdisc = "hfsc default 1"', 1)
    run = describe(link + classes + CUBIC + '[[at]]\ntime = "1s"\n"link.one.class.1.curves" = "sc rate 2mbit"\n')
    assert of_tree(run)[:3] == [
        "qdisc replace dev out parent 1:1 handle 2: hfsc default 1",
        "class replace dev out parent 2: classid 2:2 hfsc ls m2 5000000bit ul m2 9000000bit",
        "class replace dev out parent 2:2 classid 2:1 hfsc rt m1 8000000bit d 5000us m2 1000000bit",
    ]
    assert [line for line in lab.build(run).plan if line.startswith("at ")] == [
        "at 1000000000 do k1 tc class change dev out parent 2:2 classid 2:1 hfsc rt m2 2000000bit ls m2 2000000bit"
    ]


def test_drr_is_told_its_classes_and_ets_its_bands(describe: Describe) -> None:
    drr = PRIO.replace('qdisc = "prio"', 'qdisc = "drr"', 1) + '[[link.one.filter]]\nclass = "2"\n'
    run = describe(drr + CUBIC + '[[at]]\ntime = "1s"\n"link.one.class.1.quantum" = "700B"\n')
    commands = of_tree(run)
    assert commands[0].endswith("handle 2: drr")
    assert commands[1] == "class replace dev out parent 2: classid 2:1 drr quantum 1514"
    assert commands[-1] == "filter add dev out parent 2: protocol ip pref 2 flower  classid 2:2"
    assert [line for line in lab.build(run).plan if line.startswith("at ")] == [
        "at 1000000000 do k1 tc class change dev out parent 2: classid 2:1 drr quantum 700"
    ]
    commands = of_tree(describe(PRIO.replace('qdisc = "prio"', 'qdisc = "ets strict 2 quanta 3000"', 1) + CUBIC))
    assert commands[0].endswith(f"ets bands 3 strict 2 quanta 3000 priomap {' '.join('2' * 16)}")
    assert not any("class replace" in line for line in commands)


CHANGES = """
[[at]]
time = "1s"
"link.one.class.b.qdisc" = "pfifo limit 20"
"link.one.class.a.qdisc" = "pie"
"link.one.class.a.rate" = "4Mbit"
[[at]]
time = "2s"
"link.one.class.1.ceil" = "10Mbit"
"link.one.class.b.qdisc" = "pfifo limit 20"
"""


def test_changes_of_a_tree(describe: Describe) -> None:
    run = describe(HTB + TWO_FLOWS + CHANGES)
    pie = run["at"][0]["classes"][0]["qdisc"]
    assert [line for line in lab.build(run).plan if line.startswith("at ")] == [
        "at 1000000000 do k1 tc class change dev out parent 2:1 classid 2:a htb rate 4000000bit ceil 9000000bit "
        "burst 1600b cburst 1600b prio 0 quantum 3028",
        f"at 1000000000 do k1 tc qdisc replace dev out parent 2:a handle 3: {pie}",
        "at 1000000000 do k1 tc qdisc change dev out parent 2:b pfifo limit 20",
        "at 2000000000 do k1 tc class change dev out parent 2: classid 2:1 htb rate 9000000bit ceil 10000000bit "
        "burst 1600b cburst 1600b prio 0 quantum 112500",
        "at 2000000000 do k1 tc qdisc change dev out parent 2:b pfifo limit 20",
    ]
    # A kernel of one's own says itself what its defaults are.
    assert [line.split("handle 3: ")[1] for line in lab.build(run, own_defaults=True).plan if "handle 3" in line] == [
        "pie"
    ]


def test_a_queue_that_no_kernel_has_cannot_come_into_a_class(describe: Describe) -> None:
    run = describe(HTB + TWO_FLOWS + CHANGES)
    run["at"][0]["classes"][0]["qdisc"] = "curvy_red"
    with pytest.raises(LackingError, match="no Linux kernel has curvy_red"):
        engine.refuse(run, None)


def bands(run: dict[str, Any], packets: list[tuple[int, int, int]]) -> list[str]:
    """The class of each packet: (flow, ECN, kind)."""
    array = np.zeros(len(packets), PACKET)
    for row, (flow, ecn, kind) in zip(array, packets, strict=True):
        row["flow"], row["ecn_in"], row["kind"] = flow, ecn, kind
    found = Link("one", array, [], run["links"][0], [], run["duration_ns"], lab.build(run).flows).bands
    assert sum(which.astype(int) for which in found.values()).tolist() == [1] * len(packets)
    return [next(name for name, which in found.items() if which[i]) for i in range(len(packets))]


def test_the_first_filter_that_fits_decides(describe: Describe) -> None:
    run = describe(HTB + TWO_FLOWS)
    # EF with ECT(0), EF with CE, the other host's data and ACKs.
    assert bands(run, [(1, 2, 0), (1, 3, 0), (2, 0, 0), (2, 0, BACKWARD)]) == ["a", "b", "a", "a"]


def test_the_priomap_gets_what_no_filter_takes(describe: Describe) -> None:
    run = describe(PRIO + TWO_FLOWS)
    # EF is Linux's priority 4, AF11 is 2; ACKs have no DSCP.
    assert bands(run, [(1, 2, 0), (2, 2, 0), (2, 1, 0), (2, 0, BACKWARD)]) == ["2", "3", "1", "2"]


def test_a_program_is_not_sorted_by_a_codepoint_that_nobody_knows(describe: Describe) -> None:
    run = describe(HTB + TWO_FLOWS)
    run["flows"][0] |= {"kind": "program", "server": "cat", "client": "cat {server}", "files": {}}
    with pytest.raises(ValueError, match="sorts packets by DSCP"):
        engine.refuse(run, None)


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
@pytest.mark.parametrize("tree", [HTB, PRIO, INNER_PRIO, INNER_HTB, BANDS])
def test_the_kernel_counts_the_same_packets_in_each_class(describe: Describe, tmp_path: Path, tree: str) -> None:
    # All that they send has left before the end, so that both have counted all of it.
    flows = TWO_FLOWS.replace('rtt = "20ms"', 'rtt = "20ms"\nbytes = "800kB"')
    run = describe(tree + flows, warmup='"0s"')
    links = LinuxEngine().execute(json.dumps(run), tmp_path).links
    text = (tmp_path / "teardown.txt").read_text()
    handles = lab.handles_of(run["links"][0])
    leaves = [one["id"] for one in run["links"][0]["classes"] if "qdisc" in one and not holds_classes(one["qdisc"])]
    for name in leaves:
        classid = lab.classid(handles, name)
        counted = re.search(rf"class (?:htb|prio) {classid} .*?Sent \d+ bytes (\d+) pkt", text, re.DOTALL)
        row = next((row for row in links.iter_rows(named=True) if row["queue"] == name), None)
        assert counted is not None
        assert row is not None
        assert int(counted[1]) == row["sent_packets"]


# Sources beyond what there is, so that who gets what follows from the classes: each two seconds from other ones.
OVERLOADED = """
[link.one]
rate = "20Mbit"
qdisc = "htb default a"
[link.one.class.1]
rate = "12Mbit"
[link.one.class.a]
parent = "1"
rate = "3Mbit"
ceil = "12Mbit"
quantum = "1514B"
qdisc = "pfifo limit 40"
[link.one.class.b]
parent = "1"
rate = "2Mbit"
ceil = "12Mbit"
quantum = "1514B"
qdisc = "pfifo limit 60"
[[link.one.filter]]
host = "b"
class = "b"
[link.two]
rate = "4Mbit"
qdisc = "prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"
[link.two.class.1]
qdisc = "pfifo limit 500"
[link.two.class.2]
qdisc = "pfifo"
[[flow]]
name = "a"
kind = "cbr"
rate = "15Mbit"
rtt = "10ms"
path = ["one"]
[[flow]]
name = "b"
kind = "cbr"
rate = "14Mbit"
rtt = "10ms"
path = ["one"]
[[flow]]
name = "c"
kind = "cbr"
rate = "5Mbit"
rtt = "10ms"
path = ["two"]
[[at]]
time = "2s"
"link.one.class.a.rate" = "7Mbit"
[[at]]
time = "4s"
"link.one.class.1.rate" = "16Mbit"
"link.one.class.b.ceil" = "5Mbit"
[[at]]
time = "6s"
"link.one.class.b.ceil" = "16Mbit"
"link.one.class.b.burst" = "30kB"
"link.one.class.a.ceil" = "16Mbit"
"link.one.class.a.quantum" = "4542B"
[[at]]
time = "8s"
"link.one.class.a.prio" = 3
"link.two.class.1.qdisc" = "bfifo limit 15140b"
[[at]]
time = "10s"
"link.one.class.a.qdisc" = "bfifo limit 60560b"
"""
# Mbit/s of both: what is left of 12, and then of 16, goes to them in turns, three to one after 6 s. Only when its queue
# is replaced, by one of another kind, has class a been empty since its prio is another one.
SHARES = [(6.5, 5.5), (8.5, 3.5), (11, 5), (12.25, 3.75), (12.25, 3.75), (7, 9), (7, 9)]


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
def test_both_engines_agree_after_each_change(describe: Describe) -> None:
    run = json.dumps(describe(OVERLOADED, duration='"14s"', warmup='"0s"', start_jitter='"0s"'))
    both = [one.execute(run) for one in (SimEngine(), LinuxEngine())]
    for recording in both:
        step = (pl.col("time_s") / 2 - 1e-6).floor()
        rates = recording.series.group_by("link", "queue", step=step).agg(pl.col("rate_mbps").mean()).sort("step")
        for queue, shares in zip("ab", zip(*SHARES, strict=True), strict=True):
            found = rates.filter(link="one", queue=queue)["rate_mbps"].to_list()
            assert found == pytest.approx(shares, rel=0.01)
    here, there = (recording.links.sort("link", "queue").to_dicts() for recording in both)
    for one, other in zip(here, there, strict=True):
        for count in ("arrived_packets", "sent_packets", "dropped_packets"):
            assert one[count] == pytest.approx(other[count], abs=1), (one["link"], one["queue"], count)
    # Most of what it drops was in the queue that went.
    (band,) = (row for row in here if (row["link"], row["queue"]) == ("two", "1"))
    assert band["dropped_packets"] > 1000


# Sources beyond what there is, in classes of queues in classes.
NESTED = (
    """
[link.one]
rate = "20Mbit"
qdisc = "htb default a"
[link.one.class.a]
rate = "12Mbit"
qdisc = "prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"
[link.one.class."a:1"]
qdisc = "htb default 1"
[link.one.class."a:1:1"]
rate = "3Mbit"
qdisc = "pfifo limit 40"
[link.one.class."a:2"]
qdisc = "pfifo limit 60"
[link.one.class.b]
rate = "8Mbit"
qdisc = "htb default 2"
[link.one.class."b:1"]
rate = "2Mbit"
qdisc = "pfifo limit 50"
[link.one.class."b:2"]
rate = "5Mbit"
qdisc = "sfq"
[[link.one.filter]]
host = "c"
class = "b"
[[link.one.filter]]
host = "d"
class = "b"
[[link.one.filter]]
host = "a"
class = "a:1"
[[link.one.filter]]
host = "c"
class = "b:1"
"""
    + "".join(
        f"""
[[flow]]
name = "{name}"
kind = "cbr"
rate = "{rate}Mbit"
rtt = "10ms"
"""
        for name, rate in zip("abcd", (9, 15, 11, 13), strict=True)
    )
    + """
[[at]]
time = "2s"
"link.one.class.a:1:1.ceil" = "7Mbit"
"link.one.class.a:1:1.rate" = "7Mbit"
[[at]]
time = "4s"
"link.one.class.a:2.qdisc" = "bfifo limit 30280b"
"""
)


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
def test_both_engines_agree_on_classes_in_classes(describe: Describe) -> None:
    run = json.dumps(describe(NESTED, duration='"6s"', warmup='"0s"', start_jitter='"0s"'))
    both = [one.execute(run) for one in (SimEngine(), LinuxEngine())]
    for recording in both:
        of_queues = recording.series.filter(pl.col("link") == "one").group_by("queue")
        rates = dict(of_queues.agg(pl.col("rate_mbps").mean()).iter_rows())
        assert rates.keys() == {"a:1:1", "a:2", "all", "b:1", "b:2"}
        # The first band has 3 Mbit/s for two seconds and 7 for four; the second has the rest of 12. Below b no class
        # has a parent to borrow from.
        assert rates["a:1:1"] == pytest.approx(17 / 3, rel=0.01)
        assert rates["a:2"] == pytest.approx(12 - 17 / 3, rel=0.01)
        assert rates["b:1"] == pytest.approx(2, rel=0.01)
        assert rates["b:2"] == pytest.approx(5, rel=0.01)
    here, there = (recording.links.filter(pl.col("queue") != "all").sort("queue").to_dicts() for recording in both)
    for one, other in zip(here, there, strict=True):
        for count in ("arrived_packets", "sent_packets", "dropped_packets"):
            assert one[count] == pytest.approx(other[count], abs=1), (one["queue"], count)
