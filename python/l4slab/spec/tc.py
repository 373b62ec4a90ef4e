"""What a person may have meant by the words of a qdisc that `tc` takes otherwise, or that are not here."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from l4slab import _core

_COMMAND = re.compile(r"(?:(?:sudo\s+)?tc\s+)?(?:qdisc\s+(?:add|replace|change)\s+)?(?:dev\s+\S+\s+)?root\s+(\S.*)")
_APART = re.compile(r"\b(\d+(?:\.\d+)?)\s+(ns|us|ms|s|%|[kmgKMG]?bit|[kKmMgG]i?[bB])(?!\S)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e\d+)?", re.IGNORECASE)
_TAKEN_AS = re.compile(r"\d\S*?(?:ns|us|ms|s|bit|%)")
_WITH_UNIT = ("TIME", "RATE", "PERCENT", "MODEL")
# Of Linux: classes in which others stand, and queues that are not modelled.
_SHAPERS = ("hfsc", "cbq", "drr", "ets", "qfq", "taprio", "cbs")
_OF_CARDS = ("mq", "mqprio", "multiq")
_OTHERS = ("pfifo_fast", "noqueue", "sfq", "sfb", "choke", "gred", "hhf", "etf", "plug", "skbprio", "ingress", "clsact")


def remedy(text: str) -> str | None:
    """What to write instead of a qdisc that cannot be read; None where the core's own words say it. It continues
    `key = value`.
    """
    words = text.split()
    if (command := _COMMAND.fullmatch(" ".join(words))) is not None:
        return f' is a command; write what stands behind root: "{command[1]}"'
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
    if words and words[0] in _OTHERS:
        return (
            f"cannot be: {words[0]} is a qdisc of Linux that is not modelled; l4slab list qdiscs shows those that are"
        )
    if (apart := _APART.search(text)) is not None:
        return f' has a space before a unit; write "{apart[1]}{apart[2]}"'
    return None


def without_units(text: str, canonical: str) -> Iterator[str]:
    """How tc takes each time, rate and percentage of a valid qdisc that has no unit: "target 5us"."""
    words, taken = text.split(), canonical.split()
    kind = next((entry for entry in _core.qdiscs() if entry["name"] == words[0]), None)
    parameters = kind["parameters"] if kind else ()
    keywords = {one["keyword"] for one in parameters if one["value"].startswith(_WITH_UNIT)}
    for keyword, value in itertools.pairwise(words):
        if keyword in keywords and _NUMBER.fullmatch(value) and float(value) > 0 and keyword in taken[:-1]:
            behind = taken[taken.index(keyword) + 1 :]
            meant = behind[1] if behind[0] == "random" else behind[0]  # of netem's loss
            if _TAKEN_AS.fullmatch(meant):
                yield f"{keyword} {meant}"
