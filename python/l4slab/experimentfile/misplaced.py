"""Keys that people look for in a table that has not got them, and where the matter is described instead."""

from __future__ import annotations

_DELAY = "the delay is the rtt of each flow, or netem in an [impair.NAME]"
_LOSS = 'loss is an [impair.NAME] such as netem = "loss 1%", before = "bottleneck"'
_LIMIT = 'its limit stands in qdisc, such as "pfifo limit 100"'
_LINK = "a [link.NAME] has it"
_FLOW = "a [[flow]] has it"
_RATE = 'a TCP flow takes what it gets; pace = "5Mbit" caps it, and kind = "cbr" sends at a rate; media have rate_max'
_WINDOW = "the congestion control sets it; l4slab list CC shows its options"
_CC = "its name here is cc"

# By the section, which is the first part of a table's place.
_INSTEAD = {
    "link": {
        **dict.fromkeys(("delay", "rtt", "base_rtt", "latency", "propagation", "owd", "prop_delay"), _DELAY),
        **dict.fromkeys(("loss", "plr", "jitter"), _LOSS),
        **dict.fromkeys(("buffer", "buffer_size", "limit", "queue_size", "queue_limit", "size", "bdp"), _LIMIT),
        **dict.fromkeys(("cc", "ecn"), _FLOW),
        **dict.fromkeys(
            ("bandwidth", "bw", "speed", "capacity", "datarate", "data_rate", "bitrate", "throughput"),
            'write it as rate = "100Mbit"',
        ),
        **dict.fromkeys(
            ("aqm", "queue", "scheduler", "discipline", "queue_disc", "qdisk"), 'write it as qdisc = "dualpi2"'
        ),
    },
    "flow": {
        **dict.fromkeys(("rate", "bandwidth", "bw", "bitrate", "max_rate"), _RATE),
        **dict.fromkeys(("qdisc", "aqm", "burst"), _LINK),
        **dict.fromkeys(
            ("delay", "latency", "owd", "base_rtt", "min_rtt", "ping"), 'write the round trip as rtt = "10ms"'
        ),
        **dict.fromkeys(("loss", "jitter"), _LOSS),
        **dict.fromkeys(("congestion", "algorithm", "algo", "congestion_control", "cca", "tcp", "controller"), _CC),
        **dict.fromkeys(("cwnd", "init_cwnd", "initcwnd", "initial_window", "iw", "max_cwnd"), _WINDOW),
        **dict.fromkeys(("window", "rwnd", "rcvbuf", "wmem", "rmem"), 'the receiver\'s is receive_window = "3MB"'),
        **dict.fromkeys(("mss", "segment"), 'write the size of its packets as mtu = "1500B"'),
        **dict.fromkeys(("link", "links", "route"), 'write its links as path = ["bottleneck"]'),
        **dict.fromkeys(("stack", "server", "client", "env"), 'it needs kind = "program" in its [[flow]]'),
        **dict.fromkeys(("type", "traffic", "protocol", "proto"), 'write it as kind = "tcp"'),
        **dict.fromkeys(("from", "begin", "delay_start", "start_time"), 'write it as start = "5s"'),
        **dict.fromkeys(("size", "volume", "amount"), 'write it as bytes = "1MB"'),
        **dict.fromkeys(("duration", "end", "until", "stop_time"), 'write the end as stop = "30s"'),
        **dict.fromkeys(
            ("n", "num", "number", "flows", "parallel", "streams", "connections"),
            "write the number of such flows as count = 2",
        ),
    },
    "": {
        **dict.fromkeys(("time", "length", "runtime", "run_time", "stop"), 'write it as duration = "60s"'),
        **dict.fromkeys(("runs", "repetitions", "repeat", "reps", "iterations"), "write it as trials = 5"),
        **dict.fromkeys(("warm_up", "settle"), 'write it as warmup = "10s"'),
        **dict.fromkeys(("interval", "sampling", "step"), 'write it as sample = "100ms"'),
        **dict.fromkeys(("rate", "bandwidth", "qdisc"), _LINK),
        **dict.fromkeys(("rtt", "cc", "ecn"), _FLOW),
        **dict.fromkeys(("name", "description"), "the title is title, and a longer text about"),
    },
    "claim": {
        **dict.fromkeys(("expr", "when", "condition", "query"), "write the query as sql"),
    },
}


def instead(section: str, key: str) -> str | None:
    """The place of the setting that a wrong `key` asks for, or None."""
    return _INSTEAD.get(section, {}).get(key.lower())
