"""Classes of a link and the filters that sort packets into them: what is described, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from l4slab.errors import InputError
from l4slab.spec import load
from l4slab.sweep import expand

HEAD = """
duration = "4s"
[link.one]
rate = "10Mbit"
qdisc = "{qdisc}"
{classes}
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[flow]]
name = "b"
cc = "prague"
rtt = "10ms"
"""
HTB = """
[link.one.class.1]
rate = "8Mbit"
[link.one.class.a]
parent = "1"
rate = "2Mbit"
ceil = "8Mbit"
qdisc = "dualpi2"
[link.one.class.b]
parent = "1"
rate = "3Mbit"
qdisc = "pfifo limit 50"
[[link.one.filter]]
ecn = "ect1"
class = "a"
[[link.one.filter]]
dscp = "ef"
host = "b"
class = "a"
"""
PRIO = """
[link.one.class.1]
qdisc = "pfifo"
[link.one.class.2]
qdisc = "fq_codel"
"""
TWO = "priomap 0 1 1 1 0 1 0 0 1 1 1 1 1 1 1 1"


def described(tmp_path: Path, classes: str = HTB, qdisc: str = "htb default b") -> dict:
    file = tmp_path / "x.toml"
    file.write_text(HEAD.format(qdisc=qdisc, classes=classes))
    plan = expand(load(file), "sim")
    return plan.runs[0].description | {"remarks": plan.remarks}


def test_a_tree_is_described_with_every_default(tmp_path: Path) -> None:
    link = described(tmp_path)["links"][0]
    assert link["qdisc"] == "htb default b"
    assert [one["id"] for one in link["classes"]] == ["1", "a", "b"]
    buckets = {"burst_bytes": 1600, "cburst_bytes": 1600, "prio": 0}
    assert link["classes"][1] | {"qdisc": ""} == {
        "id": "a", "parent": "1", "rate_bps": 2_000_000, "ceil_bps": 8_000_000, "quantum_bytes": 25_000, "qdisc": "",
        **buckets,
    }  # fmt: skip
    assert link["classes"][2]["ceil_bps"] == 3_000_000
    assert link["filters"] == [{"class": "a", "ecn": "ect1"}, {"class": "a", "dscp": 46, "host": 1}]


def test_a_link_without_classes_is_described_as_ever(tmp_path: Path) -> None:
    assert described(tmp_path, "", "pfifo")["links"][0].keys() == {"name", "rate_bps", "qdisc", "burst_bytes"}


def test_rates_that_are_more_than_there_is_are_told(tmp_path: Path) -> None:
    remarks = described(tmp_path, HTB.replace('"3Mbit"', '"7Mbit"'))["remarks"]
    assert any("link.one.class.1 has a rate of 8 Mbit/s and the classes below it have 9 Mbit/s" in r for r in remarks)
    assert not any("together" in remark for remark in described(tmp_path)["remarks"])


MISTAKES = [
    ('parent = "1"\nrate = "3', 'parent = "7"\nrate = "3', "htb default b", 'parent = "7" is no class of this link'),
    ('rate = "8Mbit"', 'rate = "8Mbit"\nparent = "1"', "htb default b", "makes a circle, 1 below 1"),
    ('qdisc = "dualpi2"', "", "htb default b", "class.a has neither a qdisc nor classes below it"),
    ('rate = "8Mbit"', 'rate = "8Mbit"\nqdisc = "pfifo"', "htb default b", "stands in a class with class a below it"),
    ('rate = "8Mbit"', "", "htb default b", "class.1 has no rate"),
    ('ceil = "8Mbit"', 'ceil = "1Mbit"', "htb default b", "is below rate"),
    ("", "", "htb default 1", "is a class with others below it"),
    ("", "", "htb default c", "is no class: what no filter takes needs a queue"),
    ("", "", "htb", "default is missing"),
    ("", "", "pfifo", "stands beside qdisc = \"pfifo\", which holds no classes"),
    ("", "", "drr", "htb and prio are modelled"),
    ("", "", "mq", "the several queues of a network card, and a link here is a shaper with one"),
    ('dscp = "ef"\nhost = "b"\nclass = "a"', 'dscp = "ef"\nclass = "1"', "htb default b", "has others below it"),
    ('dscp = "ef"\nhost = "b"\nclass = "a"', 'host = "z"\nclass = "a"', "htb default b", "neither a host nor a flow"),
    ('dscp = "ef"\nhost = "b"\nclass = "a"', 'class = "a"', "htb default b", "takes every packet"),
    ("class.b]", "class.0]", "htb default b", "is no number of a class"),
    ('qdisc = "dualpi2"', 'qdisc = "prio"', "htb default b", "holds classes; write them with parent"),
    ('qdisc = "dualpi2"', 'qdisc = "dualpi3"', "htb default b", "there is no qdisc"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "qdisc", "said"), MISTAKES)
def test_a_mistake_is_one_sentence(tmp_path: Path, old: str, new: str, qdisc: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        described(tmp_path, HTB.replace(old, new, 1), qdisc)
    assert said in str(error.value)
    assert "x.toml" in str(error.value)


@pytest.mark.parametrize(
    ("classes", "qdisc", "said"),
    [
        (PRIO, "prio", "has no class 3"),
        (PRIO, "prio bands 2", "write a priomap"),
        (PRIO + 'rate = "1Mbit"\n', f"prio bands 2 {TWO}", "is of htb"),
        (PRIO + '[link.one.class.3]\nqdisc = "pfifo"\n', f"prio bands 2 {TWO}", "is no band"),
    ],
)
def test_bands_that_do_not_fit_are_refused(tmp_path: Path, classes: str, qdisc: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        described(tmp_path, classes, qdisc)


def test_the_qdisc_of_a_tree_does_not_change_while_it_runs(tmp_path: Path) -> None:
    change = HTB + '[[at]]\ntime = "1s"\n"link.one.qdisc" = "pfifo"\n'
    with pytest.raises(InputError, match="has classes"):
        described(tmp_path, change)
