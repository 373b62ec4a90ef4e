"""Arguments of a wrong type from Python: an InputError that names the argument, its value and what it is to be."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import l4slab
import pytest

EXPERIMENT = {
    "duration": "200ms",
    "link": {"b": {"rate": "2Mbit", "qdisc": "pfifo"}},
    "flow": [{"name": "a", "cc": "cubic", "rtt": "10ms"}],
}


@cache
def results() -> l4slab.Results:
    return l4slab.run(EXPERIMENT)


CALLS: dict[str, Callable[[Any], object]] = {
    "files": lambda bad: l4slab.run(bad),
    "out": lambda bad: l4slab.run(EXPERIMENT, bad),
    "engine": lambda bad: l4slab.run(EXPERIMENT, engine=bad),
    "workers": lambda bad: l4slab.run(EXPERIMENT, workers=bad),
    "trials": lambda bad: l4slab.run(EXPERIMENT, trials=bad),
    "where": lambda bad: l4slab.run(EXPERIMENT, where=bad),
    "subset": lambda bad: l4slab.run(EXPERIMENT, subset=bad),
    "captures": lambda bad: l4slab.run(EXPERIMENT, captures=bad),
    "console": lambda bad: l4slab.run(EXPERIMENT, console=bad),
    "dask": lambda bad: l4slab.run(EXPERIMENT, dask=bad),
    "place": lambda bad: l4slab.open(bad),
    "query": lambda bad: results().sql(bad),
    "columns": lambda bad: results().sql("select 1", bad),
    "overview's where": lambda bad: results().plot.overview(bad),
    "overview's cases": lambda bad: results().plot.overview(cases=bad),
    "time_series's trial": lambda bad: results().plot.time_series(trial=bad),
    "delays's quantity": lambda bad: results().plot.delays(quantity=bad),
    "figure": lambda bad: results().plot.figure(bad),
    "advise's rate": lambda bad: l4slab.advise(bad, "10ms", "pie"),
    "advise's options": lambda bad: l4slab.advise("1Mbit", "10ms", "pie", options=bad),
    "rate of a Link": lambda bad: l4slab.Link(rate=bad, qdisc="pie"),
}


@pytest.mark.parametrize("bad", [5.5, b"x", object()], ids=["number", "bytes", "object"])
@pytest.mark.parametrize("argument", CALLS)
def test_a_wrong_type_is_a_sentence(argument: str, bad: object) -> None:
    with pytest.raises(l4slab.InputError) as raised:
        CALLS[argument](bad)
    assert "of the type" in str(raised.value) or "Link.rate = " in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("call", [lambda: l4slab.Link("1Mbit"), lambda: l4slab.Flow(5), lambda: l4slab.Experiment({})])
def test_keys_are_given_by_name(call: Callable[[], object]) -> None:
    with pytest.raises(l4slab.InputError, match="takes its keys by name"):
        call()


def test_nothing_to_run_is_a_sentence() -> None:
    with pytest.raises(l4slab.InputError, match="no experiment is given"):
        l4slab.run([])
    with pytest.raises(l4slab.InputError, match="out is empty"):
        l4slab.run(EXPERIMENT, "")
    # True is an int for Python.
    with pytest.raises(l4slab.InputError, match="workers = True is of the type bool; give a whole number"):
        l4slab.run(EXPERIMENT, workers=True)
