"""Corrections of qdisc options that `tc` reads differently or that l4slab lacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

from l4slab import _core

_COMMAND = re.compile(
    r"(?:.*?\btc\s+(?:-\S+\s+)*)?(?:qdisc\s+(?:add|replace|change|link)\s+)?"
    r"(?:(?:root|(?:dev|parent|handle)\s+\S+)\s+)+(?P<qdisc>.+)"
)
_OTHER_COMMAND = re.compile(r"(?:.*?\btc\s+(?:-\S+\s+)*)?(?P<object>qdisc|class|filter)\b.*|.*\btc\s.*")
_APART = re.compile(r"\b(\d+(?:\.\d+)?)\s+(ns|us|ms|s|%|[kmgKMG]?bit|[kKmMgG]i?[bB])(?!\S)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e\d+)?", re.IGNORECASE)
_WITH_UNIT = ("TIME", "RATE", "PERCENT", "MODEL", "DELAY", "JITTER")
# What tc assumes.
_UNITS = ("us", "ns", "bit", "%")
# Queues of Linux that are not modelled, and what comes close: shapers with classes, those of network cards, others.
_SHAPERS = ("cbq", "qfq", "taprio", "cbs")
_POLICER = "rate 100mbit burst 64kb"
_OF_CARDS = ("mq", "mqprio", "multiq")
_OTHERS = {
    "noqueue": 'a link here always has a queue; "pfifo limit 1" is the smallest',
    "gred": 'use htb or prio with "red" in each class',
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
    if text.lstrip()[:1] in ("[", "{"):
        return " is JSON of tc -j; write the line of tc qdisc show without -j"
    command = _COMMAND.fullmatch(" ".join(words))
    if command is not None:
        if (wrong := _wrong(command["qdisc"])) is not None:
            return f" is a command, and its qdisc is wrong{wrong}"
        return f' is a command; write "{command["qdisc"]}"'
    if "qdisc" in words[1:] and "tc" not in words:
        return " are several queues; write the first as qdisc, and the others in [link.NAME.class.ID]"
    if (other := _OTHER_COMMAND.fullmatch(" ".join(words))) is not None:
        table = {"class": "[link.NAME.class.ID]", "filter": "[[link.NAME.filter]]"}.get(other["object"] or "")
        what = f"write it as a table {table}" if table else 'write what follows root, such as "fq_codel"'
        return f" is a command without a queue; {what}"
    if words and words[0] in ("police", "policer"):
        return f' is a policer, which has no queue; write policer = "{" ".join(words[1:]) or _POLICER}" beside a qdisc'
    if words and words[0] in _OF_CARDS:
        return (
            f" cannot be: {words[0]} hands packets to the several queues of a network card, and a link here is a "
            "shaper with one; classes of htb with the same rate, ceil, prio and quantum take turns as such queues do"
        )
    if words and words[0] in _SHAPERS:
        holders = ", ".join(entry["name"] for entry in _core.trees())
        return f" cannot be: the qdiscs that hold classes are {holders} here, and {words[0]} is not modelled"
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
        if holds_classes:
            _core.canonical_tree(qdisc)
            return None
        wrong = unitless(qdisc)
        return None if wrong is None else f": it{wrong}"
    except ValueError as error:
        return remedy(qdisc) or f": {error}"


@cache
def _keywords_without_unit(name: str) -> set[str]:
    """The keywords of a queue or medium whose values are plain numbers."""
    entries = [entry for entry in (*_core.qdiscs(), *_core.media(), _core.policer()) if entry["name"] == name]
    parameters = [one for entry in entries for one in entry["parameters"]]
    return {one["keyword"] for one in parameters if not any(unit in one["value"] for unit in _WITH_UNIT)}


def unitless(text: str, read: Callable[[str], str] = _core.canonical_qdisc) -> str | None:
    """Which times, rates and percentages have no unit in words that `read` takes, and what to write; None if all have.

    tc takes "target 5" as 5 us. It continues `key = value`.
    """
    found = list(_without_units(text, read))
    if not found:
        return None
    written = " and ".join(f'"{keyword} {number}"' for keyword, number, _ in found)
    taken = " and ".join(f'"{keyword} {number}{unit}"' for keyword, number, unit in found)
    usual = {"us": "ms", "ns": "ms", "bit": "mbit"}
    larger = [f'"{keyword} {number}{usual[unit]}"' for keyword, number, unit in found if unit in usual]
    other = f", or {' and '.join(larger)}" if larger else ""
    return f" has no unit in {written}, which tc reads as {taken}; write that{other}"


def policer(text: str) -> str:
    """The words of a policer, every parameter written out. Raises ValueError with what continues `key = value`."""
    try:
        words = _core.canonical_policer(text)
    except ValueError as error:
        raise ValueError(f": {error}") from None
    if wrong := unitless(f"police {text.strip().removeprefix('police ')}", _core.canonical_policer):
        raise ValueError(wrong)
    return words


def _without_units(text: str, read: Callable[[str], str]) -> Iterator[tuple[str, str, str]]:
    """Keyword, number and the unit that `read` assumes: the words with this unit mean the same."""
    words, meaning = text.split(), read(text)
    keyword = ""
    for place, word in enumerate(words):
        if not word[0].isdigit():
            keyword = word
        if not _NUMBER.fullmatch(word) or not word.strip("0.") or keyword in _keywords_without_unit(words[0]):
            continue
        for unit in _UNITS:
            with suppress(ValueError):
                if read(" ".join([*words[:place], word + unit, *words[place + 1 :]])) == meaning:
                    yield keyword, word, unit
                    break
