"""Experiments from Python: the same runs as their files, the same text again, and mistakes as sentences."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import l4slab
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l4slab import experimentfile, sweep
from l4slab.api import campaign, experiment
from l4slab.base.packaged import atlas, comparisons, queue_requirements, requirements, studies
from l4slab.experimentfile.traffic import KINDS

SHIPPED = (
    [file for files in studies().values() for file in files]
    + list(comparisons().values())
    + requirements()
    + requirements(media=True)
    + queue_requirements()
    + atlas()
)

FILE = """
title    = "Prague beside CUBIC"
duration = "2s"
trials   = 2

[link.bottleneck]
rate  = "20Mbit"
qdisc = "dualpi2 limit {packets}"

[[flow]]
name = "l4s"
cc   = "prague"
rtt  = "10ms"
options = { fallback = "off" }

[[flow]]
name = "voice"
kind = "cbr"
rate = "100kbit"
rtt  = "10ms"
dscp = "ef"

[[at]]
time = "1s"
"link.bottleneck.rate" = "10Mbit"

[[rewrite]]
flow  = "voice"
where = "before:bottleneck"
from  = "not-ect"
to    = "ect1"

[[sweep.shaping]]
level = "none"
[[sweep.shaping]]
level = "htb"
"link.bottleneck.burst" = "10kB"

[sweep]
"flow.l4s.rtt" = ["5ms", "10ms"]

[let]
packets = 'floor("link.bottleneck.rate" / 1e4)'

[[skip]]
when = "shaping = 'htb' and \\"flow.l4s.rtt\\" > 0.007"
why  = "not asked for"

[[claim]]
id  = "all of it"
sql = "select min(share) > 0.9 from flows where flow = 'l4s'"
"""


def built() -> l4slab.Experiment:
    """What `FILE` describes."""
    return l4slab.Experiment(
        title="Prague beside CUBIC",
        duration="2s",
        trials=2,
        links={"bottleneck": l4slab.Link(rate="20Mbit", qdisc="dualpi2 limit {packets}")},
        flows=[
            l4slab.Flow(name="l4s", cc="prague", rtt="10ms", options={"fallback": "off"}),
            l4slab.CbrFlow(name="voice", rate="100kbit", rtt="10ms", dscp="ef"),
        ],
        at=[{"time": "1s", "link.bottleneck.rate": "10Mbit"}],
        rewrites=[l4slab.Rewrite(flow="voice", where="before:bottleneck", from_="not-ect", to="ect1")],
        sweep={
            "shaping": [{"level": "none"}, {"level": "htb", "link.bottleneck.burst": "10kB"}],
            "flow.l4s.rtt": ["5ms", "10ms"],
        },
        let={"packets": 'floor("link.bottleneck.rate" / 1e4)'},
        skips=[l4slab.Skip(when="shaping = 'htb' and \"flow.l4s.rtt\" > 0.007", why="not asked for")],
        claims=[l4slab.Claim(id="all of it", sql="select min(share) > 0.9 from flows where flow = 'l4s'")],
    )


def ids(described: object) -> list[str]:
    (plan,) = campaign.plan([described])  # type: ignore[list-item]
    return [run.id for run in plan.runs]


def test_every_kind_of_traffic_can_be_made_in_python() -> None:
    for model in KINDS.values():
        assert model.__name__ in l4slab.__all__
        assert getattr(l4slab, model.__name__) is model


def test_an_experiment_is_the_same_runs_as_its_file_and_as_its_document(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(FILE)
    assert len(ids(file)) == 6
    assert ids(file) == ids(built()) == ids(tomllib.loads(FILE))
    file.write_text(built().to_toml())
    assert ids(file) == ids(built())


def test_the_text_describes_the_experiment_that_wrote_it() -> None:
    assert l4slab.Experiment.from_toml(built().to_toml()) == built() == l4slab.Experiment.from_toml(FILE)
    assert l4slab.Experiment.from_toml(FILE.replace('"5ms", "10ms"', '"5ms"')) != built()


def test_tuples_and_defaults_are_what_a_file_has() -> None:
    few = l4slab.Experiment(
        duration="1s",
        links={"l": l4slab.Link(rate="1Mbit", qdisc="pfifo")},
        flows=(l4slab.Flow(name="a", cc="reno", rtt="1ms", ecn=None),),
    )
    assert tomllib.loads(few.to_toml()) == {
        "duration": "1s",
        "link": {"l": {"rate": "1Mbit", "qdisc": "pfifo"}},
        "flow": [{"name": "a", "cc": "reno", "rtt": "1ms"}],
    }


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_shipped_file_comes_through(file: Path) -> None:
    read = l4slab.Experiment.from_toml(file.read_text("utf-8"), file.stem)
    text = read.to_toml()
    assert l4slab.Experiment.from_toml(text, file.stem) == read
    before, after = experimentfile.load(file), experimentfile.parse(text.encode(), file)
    assert sweep.levels_of(after) == sweep.levels_of(before)
    assert list(sweep.levels_of(after)) == list(sweep.levels_of(before))
    assert (after.factors, after.bundles) == (before.factors, before.bundles)
    sections = [section for section in before.document if section != "sweep"]
    assert {section: after.document[section] for section in sections} == {
        section: before.document[section] for section in sections
    }


WORD = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
VALUE = st.recursive(
    WORD | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORD, inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None)  # the first example is slow on a busy machine
@given(st.dictionaries(WORD, VALUE, max_size=5))
def test_any_document_is_read_as_it_was_written(document: dict[str, object]) -> None:
    assert tomllib.loads(experiment.to_toml(document)) == document


LINK = {"rate": "1Mbit", "qdisc": "pfifo"}
A = {"name": "a", "cc": "reno", "rtt": "1ms"}
MISTAKES = {
    "a number without unit": (lambda: l4slab.Link(rate=100, qdisc="pfifo"), ["Link.rate = 100", '"100Mbit"']),
    "a misspelt key": (lambda: l4slab.Link(rat="1Mbit", qdisc="pfifo"), ["Link.rat", "not a key", '"rate"']),
    "a missing key": (lambda: l4slab.Flow(name="a", cc="reno"), ["Flow has no rtt", '"10ms"']),
    "out of range": (lambda: l4slab.CbrFlow(name="u", rate="1Mbit", rtt="1ms", packet="9B"), ['"9B"', "at least 64B"]),
    "a table as dict": (
        lambda: l4slab.Experiment(duration="1s", links={"l": LINK}),
        ["Experiment.links.l", "not a Link", "l4slab.Link(...)"],
    ),
    "a flow as dict": (
        lambda: l4slab.Experiment(duration="1s", flows=[A]),
        ["Experiment.flows", "not a Flow", "l4slab.Flow(...)"],
    ),
    "flows by name": (lambda: l4slab.Experiment(duration="1s", flows={"a": 1}), ["Experiment.flows", "not a list"]),
    "a name that is no file's": (lambda: l4slab.Experiment(duration="1s", name="a/b"), ['"a/b"', '"prague"']),
    "an empty dict": (lambda: l4slab.run({}), ["is empty", "duration"]),
    "a dict with a mistake": (
        lambda: l4slab.run({"duration": "1s", "link": {"l": LINK}, "flow": [A | {"cc": "renno"}]}),
        ['flow "a": cc', '"reno"'],
    ),
    "a value that TOML lacks": (lambda: l4slab.run({"duration": None}), ["duration = None", "NoneType"]),
    "a number": (lambda: l4slab.run(5), ["5 is of the type int", "l4slab.Experiment"]),
    "a list of numbers": (lambda: l4slab.run([5]), ["5 is of the type int", "l4slab.Experiment"]),
    "a factor without effect": (
        lambda: l4slab.run(built().model_copy(update={"name": "mine", "sweep": {"x": [1]}})),
        ["mine: sweep.x", "changes nothing"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(name: str) -> None:
    make, words = MISTAKES[name]
    with pytest.raises(l4slab.InputError) as caught:
        make()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_the_signature_names_the_keys() -> None:
    link = {"rate", "rate_trace", "trace_repeat", "medium", "qdisc", "qdisc_up", "station"}
    link |= {"burst", "classes", "filter", "on_host", "policer"}
    assert link == set(inspect.signature(l4slab.Link).parameters) - {"unnamed"}
    assert {"title", "duration", "links", "flows", "sweep", "claims"} <= set(
        inspect.signature(l4slab.Experiment).parameters
    )


@pytest.mark.slow
def test_the_type_checker_knows_the_signatures(tmp_path: Path) -> None:
    good = inspect.getsource(built)
    bad = (
        'l4slab.Link(rate=100, qdisc="pfifo")\nl4slab.Flow(name="a", cc="reno", rtt="1ms", ecn="ect1")\nl4slab.Link()\n'
    )
    file = tmp_path / "typed.py"
    file.write_text(f"import l4slab\n\n{good}\n\n{bad}")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(file)], capture_output=True, text=True, cwd=tmp_path
    )
    wrong = [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line]
    first = len(f"import l4slab\n\n{good}\n\n".splitlines()) + 1
    assert list(map(int, dict.fromkeys(wrong))) == [first, first + 1, first + 2], done.stdout
