"""Corrections of qdisc options that `tc` reads differently or that l4slab lacks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache

from l4slab import _core

_COMMAND = re.compile(
    r"(?:(?:sudo\s+)?tc\s+)?(?:qdisc\s+(?:add|replace|change|link)\s+)?"
    r"(?:(?:root|(?:dev|parent|handle)\s+\S+)\s+)+(?P<qdisc>.+)"
)
_APART = re.compile(r"\b(\d+(?:\.\d+)?)\s+(ns|us|ms|s|%|[kmgKMG]?bit|[kKmMgG]i?[bB])(?!\S)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e\d+)?", re.IGNORECASE)
_TAKEN_AS = re.compile(r"\d\S*?(?:ns|us|ms|s|bit|%)")
_WITH_UNIT = ("TIME", "RATE", "PERCENT", "MODEL")
# Queues of Linux that are not modelled, and what comes close: shapers with classes, those of network cards, others.
_SHAPERS = ("hfsc", "cbq", "drr", "ets", "qfq", "taprio", "cbs")
_OF_CARDS = ("mq", "mqprio", "multiq")
_OTHERS = {
    "noqueue": 'a link here always has a queue; "pfifo limit 1" is the smallest',
    "choke": 'use "red" with its thresholds, or "sfq" with redflowlimit for RED on each flow',
    "gred": 'use htb or prio with "red" in each class',
    "sfb": 'use "sfq", "fq_codel" or "cake", which tell flows apart as well',
    "hhf": 'use "fq_codel" or "sfq", which tell flows apart as well',
    "skbprio": 'use "prio" with filters by dscp',
    "etf": "packets have no departure times here; use the pace of a flow",
    "plug": "a rate_trace stops a link for a while",
    "ingress": "write the queue that the packets go to",
    "clsact": "write the queue that the packets go to",
    "stab": "the queue of a class has the size table of its link, whose qdisc begins with it",
}


def remedy(text: str) -> str | None:
    """The correction of a qdisc that cannot be read, or None if the core's message says it. It continues
    `key = value`.
    """
    words = text.split()
    command = _COMMAND.fullmatch(" ".join(words))
    if command is not None:
        if (wrong := _wrong(command["qdisc"])) is not None:
            return f" is a command, and its qdisc is wrong{wrong}"
        return f' is a command; write "{command["qdisc"]}"'
    if words and words[0] in _OF_CARDS:
        return (
            f" cannot be: {words[0]} hands packets to the several queues of a network card, and a link here is a "
            "shaper with one; classes of htb with the same rate, ceil, prio and quantum take turns as such queues do"
        )
    if words and words[0] in _SHAPERS:
        return (
            f" cannot be: of the qdiscs that hold classes, htb and prio are modelled, and not {words[0]}; classes of "
            "htb with the same prio and quantum take turns as those of drr do"
        )
    if words and words[0] == "stab":
        return f" cannot be: {_OTHERS['stab']}"
    if words and words[0] in _OTHERS:
        return f" cannot be: {words[0]} of Linux is not modelled; {_OTHERS[words[0]]}"
    if (apart := _APART.search(text)) is not None:
        return f' has a space before a unit; write "{apart[1]}{apart[2]}"'
    return None


def _wrong(qdisc: str) -> str | None:
    """Why these words cannot be read, as `remedy` has it; None where they can."""
    try:
        _, qdisc = _core.split_stab(qdisc)
        holds_classes = qdisc.split()[:1] in [[entry["name"]] for entry in _core.trees()]
        (_core.canonical_tree if holds_classes else _core.canonical_qdisc)(qdisc)
    except ValueError as error:
        return remedy(qdisc) or f": {error}"
    return None


@cache
def _keywords_with_unit() -> dict[str, set[str]]:
    return {
        entry["name"]: {one["keyword"] for one in entry["parameters"] if one["value"].startswith(_WITH_UNIT)}
        for entry in _core.qdiscs()
    }


def without_units(text: str, canonical: str) -> Iterator[str]:
    """How tc takes each time, rate and percentage of a valid qdisc that has no unit: "target 5us"."""
    words, taken = text.split(), canonical.split()
    keywords = _keywords_with_unit().get(words[0], set())
    for keyword, value in itertools.pairwise(words):
        if keyword in keywords and _NUMBER.fullmatch(value) and float(value) > 0 and keyword in taken[:-1]:
            behind = taken[taken.index(keyword) + 1 :]
            meant = behind[1] if behind[0] == "random" else behind[0]  # of netem's loss
            if _TAKEN_AS.fullmatch(meant):
                yield f"{keyword} {meant}"
