"""Classes of a link and the filters that sort packets into them: what is described, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from l4slab.base.errors import InputError
from l4slab.experimentfile import load
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


def test_a_quantum_is_the_rate_by_r2q(tmp_path: Path) -> None:
    link = described(tmp_path, qdisc="htb default b r2q 100 direct_qlen 5")["links"][0]
    assert link["qdisc"] == "htb default b r2q 100 direct_qlen 5"
    assert [one["quantum_bytes"] for one in link["classes"]] == [10_000, 2500, 3750]


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
    ("", "", "qfq", "the qdiscs that hold classes are htb, hfsc, prio, drr, ets here, and qfq is not modelled"),
    ("", "", "hfsc", "default is missing"),
    ("", "", "hfsc default b", "is of htb; a class of hfsc has curves"),
    ('rate = "8Mbit"', 'rate = "8Mbit"\ncurves = "sc rate 1mbit"', "htb default b", "is of hfsc; a class of htb"),
    ("", "", "mq", "the several queues of a network card, and a link here is a shaper with one"),
    ('dscp = "ef"\nhost = "b"\nclass = "a"', 'dscp = "ef"\nclass = "1"', "htb default b", "has others below it"),
    ('dscp = "ef"\nhost = "b"\nclass = "a"', 'class = "a"', "htb default b", "takes every packet"),
    ("class.b]", "class.0]", "htb default b", "is no number of a class"),
    ('qdisc = "dualpi2"', 'qdisc = "prio"', "htb default b", 'has no classes; add [link.one.class."a:1"] with a qdisc'),
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
        (PRIO, "ets bands 3", "has no class 3"),
        (PRIO, "ets strict 1 quanta 3000 1514", "has no class 3"),
        (PRIO + 'quantum = "3000B"\n', "ets bands 2", "a band of ets has a qdisc only"),
        (PRIO + 'rate = "1Mbit"\n', "drr", "a class of drr has a quantum, and has a qdisc only"),
        ('[link.one.class.1]\nquantum = "3000B"\n', "drr", "has no qdisc"),
    ],
)
def test_bands_that_do_not_fit_are_refused(tmp_path: Path, classes: str, qdisc: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        described(tmp_path, classes, qdisc)


def test_classes_of_drr_have_quanta_and_filters_that_take_all(tmp_path: Path) -> None:
    file = PRIO + 'quantum = "6000B"\n[[link.one.filter]]\nclass = "2"\n'
    link = described(tmp_path, file + at("1s", '"link.one.class.1.quantum" = "700B"'), "drr")["links"][0]
    assert link["qdisc"] == "drr"
    assert [one["quantum_bytes"] for one in link["classes"]] == [1514, 6000]
    assert link["filters"] == [{"class": "2"}]
    ets = described(tmp_path, PRIO, "ets strict 1 quanta 3k")["links"][0]
    assert ets["qdisc"] == f"ets bands 2 strict 1 quanta 3072 priomap {' '.join('1' * 16)}"
    assert [one.keys() for one in ets["classes"]] == [{"id", "qdisc"}] * 2


HFSC = re.sub(r"(rate|ceil) = .*\n", "", HTB).replace("]\n", ']\ncurves = "sc rate 2mbit"\n', 3)


def test_classes_of_hfsc_have_curves(tmp_path: Path) -> None:
    change = at("1s", '"link.one.class.a.curves" = "ls rate 5mbit"')
    run = described(tmp_path, HFSC + change, "hfsc default b")
    link = run["links"][0]
    assert link["qdisc"] == "hfsc default b"
    curves = "rt m2 2000000bit ls m2 2000000bit"
    assert [one | {"qdisc": ""} for one in link["classes"][:2]] == [
        {"id": "1", "curves": curves, "qdisc": ""},
        {"id": "a", "parent": "1", "curves": curves, "qdisc": ""},
    ]
    assert run["at"][0]["classes"] == [{"id": "a", "curves": "ls m2 5000000bit"}]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('curves = "sc rate 2mbit"', "", "class.1 has no curves; add them"),
        ('"sc rate 2mbit"', '"sc rate 0bit"', r"class.1.curves = .* one of the slopes has to be above zero"),
        ('"sc rate 2mbit"', '"rt rate 1mbit ul rate 2mbit"', "ls is missing"),
        ('qdisc = "dualpi2"', "", "class.a has neither a qdisc nor classes below it"),
    ],
)
def test_curves_that_do_not_fit_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        described(tmp_path, HFSC.replace(old, new, 1), "hfsc default b")


TBF = PRIO.replace('"fq_codel"', '"tbf rate 2mbit burst 10kb limit 1mb"') + '[link.one.class."2:1"]\nqdisc = "pie"\n'


def test_a_tbf_holds_one_class_where_the_file_has_one(tmp_path: Path) -> None:
    with_class = described(tmp_path, TBF, f"prio bands 2 {TWO}")["links"][0]
    without = described(tmp_path, TBF[: TBF.index('[link.one.class."2:1"]')], f"prio bands 2 {TWO}")["links"][0]
    assert [one["id"] for one in with_class["classes"]] == ["1", "2", "2:1"]
    assert with_class["classes"][:2] == without["classes"]
    (pie,) = [one for one in with_class["classes"] if one["id"] == "2:1"]
    assert pie["qdisc"].startswith("pie ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"2:1"]', '"2:2"]', "is no class of qdisc .* which has class 2:1 only"),
        ('qdisc = "pie"', 'rate = "1Mbit"\nqdisc = "pie"', "is of htb; the class of tbf has a qdisc only"),
        ('qdisc = "pie"', "", "has no qdisc; add it"),
        (
            'qdisc = "pie"',
            'qdisc = "pie"\n[[link.one.filter]]\necn = "ect1"\nclass = "2:1"',
            'write .* tbf itself, "2"',
        ),
    ],
)
def test_a_class_that_a_tbf_cannot_have_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        described(tmp_path, TBF.replace(old, new, 1), f"prio bands 2 {TWO}")


INNER = (
    HTB.replace('qdisc = "dualpi2"', 'qdisc = "htb default 2"')
    + """
[link.one.class."a:1"]
rate = "1Mbit"
qdisc = "prio bands 2 priomap 0 1 1 1 0 1 0 0 1 1 1 1 1 1 1 1"
[link.one.class."a:1:1"]
qdisc = "pfifo"
[link.one.class."a:1:2"]
qdisc = "fq_codel"
[link.one.class."a:2"]
rate = "6Mbit"
ceil = "8Mbit"
qdisc = "dualpi2"
[[link.one.filter]]
ecn = "ect1"
class = "a:1"
"""
)


def test_classes_in_a_class_have_numbers_that_begin_with_its_own(tmp_path: Path) -> None:
    link = described(tmp_path, INNER)["links"][0]
    told = {one["id"]: one.get("qdisc", "").split(" ")[0] for one in link["classes"]}
    assert told == {
        "1": "", "a": "htb", "a:1": "prio", "a:1:1": "pfifo", "a:1:2": "fq_codel", "a:2": "dualpi2", "b": "pfifo",
    }  # fmt: skip
    assert [one["class"] for one in link["filters"]] == ["a", "a", "a:1"]


def test_rates_in_a_class_beyond_its_ceil_are_told(tmp_path: Path) -> None:
    (remark,) = described(tmp_path, INNER.replace('"6Mbit"', '"7500kbit"'))["remarks"]
    assert remark.startswith("link.one.class.a has a rate of 8 Mbit/s and the classes below it have 8.5 Mbit/s")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"a:2"]', '"a:3"]', "is no class: what no filter takes needs a queue"),
        ('"a:1:2"]', '"a:1:3"]', "is no band of qdisc"),
        ('qdisc = "htb default 2"', 'qdisc = "pfifo"', 'has qdisc = "pfifo", which holds no classes'),
        ('rate = "6Mbit"', 'rate = "6Mbit"\nparent = "a"', "is a class of the queue in a already"),
        ('"a:2"]', '"c:2"]', "is a class of the queue in class c, which is no class of this link"),
        ('"a:2"]', '"1:2"]', "is a class of the queue in class 1, and that has no qdisc"),
        ('class = "a:1"', 'class = "a:5"', "is no class of this link"),
    ],
)
def test_a_mistake_in_an_inner_class_is_one_sentence(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        described(tmp_path, INNER.replace(old, new, 1))
    assert said in str(error.value)


def test_an_inner_class_changes_as_any_other(tmp_path: Path) -> None:
    change = at("1s", '"link.one.class.a:2.rate" = "5Mbit"', '"link.one.class.a:1:2.qdisc" = "pie"')
    changed = described(tmp_path, INNER + change)["at"][0]["classes"]
    assert {one["id"]: "qdisc" in one for one in changed} == {"a:1:2": True, "a:2": False}
    with pytest.raises(InputError, match="which holds classes and stays"):
        described(tmp_path, INNER + at("1s", '"link.one.class.a:1.qdisc" = "pie"'))


def at(time: str, *lines: str) -> str:
    return "\n".join([f'[[at]]\ntime = "{time}"', *lines, ""])


def test_a_class_changes_with_all_its_numbers(tmp_path: Path) -> None:
    later = at("3s", '"link.one.class.a.rate" = "3Mbit"', '"link.one.class.a.qdisc" = "pie"')
    # What is said first counts first, and what the file does not say follows from what it says by then.
    earlier = at("2s", '"link.one.class.b.rate" = "4Mbit"', '"link.one.class.a.quantum" = "3028B"')
    last = at("3500ms", '"link.one.class.b.qdisc" = "pfifo limit 20"', '"link.one.rate" = "9Mbit"')
    first, second, third = described(tmp_path, HTB + later + earlier + last)["at"]
    numbers = {"burst_bytes": 1600, "cburst_bytes": 1600, "prio": 0, "quantum_bytes": 3028}
    a = {"id": "a", "rate_bps": 2_000_000, "ceil_bps": 8_000_000, **numbers}
    b = {"id": "b", "rate_bps": 4_000_000, "ceil_bps": 4_000_000, **numbers, "quantum_bytes": 50_000}
    assert first == {"time_ns": 2 * 10**9, "link": "one", "rate_bps": None, "qdisc": None, "classes": [a, b]}
    (changed,) = second["classes"]
    assert changed.pop("qdisc").startswith("pie limit 1000 ")
    assert changed == a | {"rate_bps": 3_000_000}
    assert third["rate_bps"] == 9_000_000
    assert third["classes"] == [{"id": "b", "qdisc": "pfifo limit 20"}]


def test_a_link_that_changes_alone_has_no_classes_in_the_change(tmp_path: Path) -> None:
    change = described(tmp_path, HTB + at("1s", '"link.one.rate" = "9Mbit"'))["at"][0]
    assert change == {"time_ns": 10**9, "link": "one", "rate_bps": 9_000_000, "qdisc": None}


def test_a_change_of_a_class_may_be_swept(tmp_path: Path) -> None:
    change = at("1s", '"link.one.class.a.rate" = "{rate}"') + '[sweep]\nrate = ["3Mbit", "4Mbit"]\n'
    file = tmp_path / "x.toml"
    file.write_text(HEAD.format(qdisc="htb default b", classes=HTB) + change)
    runs = expand(load(file), "sim").runs
    assert [run.description["at"][0]["classes"][0]["rate_bps"] for run in runs] == [3_000_000, 4_000_000]


def test_rates_that_become_more_than_there_is_are_told(tmp_path: Path) -> None:
    fits = at("1s", '"link.one.class.b.rate" = "6Mbit"')
    assert not described(tmp_path, HTB + fits)["remarks"]
    remarks = described(tmp_path, HTB + fits + at("2s", '"link.one.class.1.rate" = "7Mbit"'))["remarks"]
    (remark,) = remarks
    assert remark.startswith("[[at]] no. 2: link.one.class.1 has a rate of 7 Mbit/s and the classes below it have 8")
    (remark,) = described(tmp_path, HTB + at("1s", '"link.one.rate" = "5Mbit"'))["remarks"]
    assert remark.startswith("[[at]] no. 1: link.one has a rate of 5 Mbit/s and the classes below it have 8")


CHANGES = [
    ('"link.one.class.c.rate" = "1Mbit"', 'names no class "c" of link "one", and none comes while it runs; valid are'),
    ('"link.one.class.10.rate" = "1Mbit"', 'none comes while it runs; did you mean "1"?'),
    ('"link.one.class.1.qdisc" = "pfifo"', "cannot come: class 1 has others below it and no queue; valid are a, b"),
    ('"link.one.class.1.prio" = 1', "cannot change while it runs; valid are rate, ceil, burst, cburst"),
    ('"link.one.class.a.parent" = "b"', "valid are rate, ceil, burst, cburst, prio, quantum, qdisc"),
    ('"link.one.class.a.rat" = "1Mbit"', 'did you mean "rate"?'),
    ('"link.one.class.a.rate" = "9Mbit"', 'link.one.class.a.ceil = "8Mbit" is below rate = "9Mbit"; raise it'),
    ('"link.one.class.a.rate" = 5', "link.one.class.a.rate = 5 has no unit"),
    ('"link.one.class.a.prio" = 8', "link.one.class.a.prio = 8 must be at most 7"),
    ('"link.one.class.a.qdisc" = "prio"', "holds classes, which cannot come while it runs"),
    ('"link.one.class.a.qdisc" = "dualpi3"', 'did you mean "dualpi2"?'),
    ('"link.one.class.a.qdisc" = "pie target 20"', 'link.one.class.a.qdisc = "pie target 20" has no unit in "target'),
    ('"link.one.class.a.qdisc" = 5', "link.one.class.a.qdisc = 5 is not text"),
    ('"link.one.qdisc" = "pfifo"', 'link "one" has classes; its rate can, and of its classes rate, ceil, burst'),
    ('"link.one.filter" = []', 'such as "link.one.class.a.qdisc"'),
    ('"link.one.class.a" = 1', 'did you mean "link.one.class.'),
    ('"link.two.class.a.rate" = "1Mbit"', 'names no link "two"'),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), CHANGES)
def test_what_cannot_change_of_classes_is_one_sentence(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        described(tmp_path, HTB + at("1s", line))
    assert f": [[at]] no. 1: {line.split()[0].strip(chr(34)).rpartition('.')[0]}" in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("classes", "qdisc", "line", "said"),
    [
        (PRIO, f"prio bands 2 {TWO}", '"link.one.class.1.rate" = "1Mbit"', 'the only valid one is "qdisc"'),
        (PRIO, f"prio bands 2 {TWO}", '"link.one.qdisc" = "pie"', 'of its classes qdisc, such as "link.one.class.1.q'),
        ("", "pie", '"link.one.class.1.qdisc" = "pie"', 'names a class, and pie of link "one" holds none; write'),
        ("", "pie", '"link.one.qdisc" = "htb default 1"', "let the link begin with it"),
    ],
)
def test_what_bands_and_plain_queues_cannot_is_told(
    tmp_path: Path, classes: str, qdisc: str, line: str, said: str
) -> None:
    with pytest.raises(InputError) as error:
        described(tmp_path, classes + at("1s", line), qdisc)
    assert said in str(error.value)
