"""Keys that people look for in a table that has not got them, and where the matter is described instead."""

from __future__ import annotations

_DELAY = "the delay is the rtt of each flow, or netem in an [impair.NAME]"
_LOSS = 'loss is an [impair.NAME] such as netem = "loss 1%", before = "bottleneck"'
_LIMIT = 'its limit stands in qdisc, such as "pfifo limit 100"'
_LINK = "a [link.NAME] has it"
_FLOW = "a [[flow]] has it"
_RATE = 'a TCP flow takes what it gets; pace = "5Mbit" caps it, and kind = "cbr" sends at a rate'
_CC = 'write it as cc = "cubic"'

# By the section, which is the first part of a table's place.
_INSTEAD = {
    "link": {
        **dict.fromkeys(("delay", "rtt", "latency", "propagation"), _DELAY),
        **dict.fromkeys(("loss", "plr", "jitter"), _LOSS),
        **dict.fromkeys(("buffer", "limit", "queue_size", "size"), _LIMIT),
        **dict.fromkeys(("cc", "ecn"), _FLOW),
        **dict.fromkeys(("bandwidth", "bw", "speed", "capacity"), 'write it as rate = "100Mbit"'),
        **dict.fromkeys(("aqm", "queue", "scheduler"), 'write it as qdisc = "dualpi2"'),
    },
    "flow": {
        **dict.fromkeys(("rate", "bandwidth"), _RATE),
        **dict.fromkeys(("qdisc", "aqm", "burst"), _LINK),
        **dict.fromkeys(("delay", "latency", "owd"), 'write the round trip as rtt = "10ms"'),
        **dict.fromkeys(("loss", "jitter"), _LOSS),
        **dict.fromkeys(("congestion", "algorithm", "congestion_control", "tcp"), _CC),
        **dict.fromkeys(("size", "volume", "amount"), 'write it as bytes = "1MB"'),
        **dict.fromkeys(("duration", "end"), 'write the end as stop = "30s"'),
        **dict.fromkeys(("n", "number", "flows"), "write the number of such flows as count = 2"),
    },
    "claim": {
        **dict.fromkeys(("expr", "when", "condition", "query"), "write the query as sql"),
    },
}


def instead(section: str, key: str) -> str | None:
    """Where a person finds what `key` is about, or None."""
    return _INSTEAD.get(section, {}).get(key.lower())
