"""A case of `l4slab agree --queues`: a link's queue, changes of it, and the packets that come to it.

    [link.q]
    rate = "10Mbit"
    qdisc = "fq_codel limit 20"

    [[at]]
    time = "30ms"
    "link.q.qdisc" = "fq_codel limit 5"

    packets = ["100 at 1ms every 200us size 1514B flow 1 ecn ect1"]

`[link.q]` and `[[at]]` are those of an experiment file. Each text of `packets` is a train: the number of packets, then
what differs from the default (`_DEFAULTS`). `segment` is the payload of each segment of a packet that has several.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from l4slab import experimentfile, sweep
from l4slab.api.experiment import to_toml
from l4slab.base.errors import InputError
from l4slab.base.units import SIZE, TIME
from l4slab.base.values import Keys, Value
from l4slab.engines.linux import lab
from l4slab.engines.linux.flows import CODEPOINTS
from l4slab.engines.registry import DEFAULT

LINK = "q"
# Half of it is the way to the link, in the simulator.
RTT_NS = 200_000
_DEFAULTS = {
    "at": "1ms", "every": "0us", "size": "1514B", "segment": "0B",
    "flow": "0", "ecn": "not-ect", "dscp": "0", "ip": "4",
}  # fmt: skip
MOST_FLOWS, MOST_PACKETS = 64, 20_000
ETHERNET, UDP = 14, 8
_IP = {"4": 20, "6": 40}
# The generator writes the packet's number into each segment.
_LEAST_PAYLOAD = 8
_MTU = 1500


class Packet(NamedTuple):
    """A packet that comes to the link at `at_ns`; `length` is that of its one frame, with all of its payload."""

    at_ns: int
    flow: int
    length: int
    ecn: int
    dscp: int
    ip: str
    segment: int

    @property
    def headers(self) -> int:
        return ETHERNET + _IP[self.ip] + UDP

    @property
    def counted(self) -> int:
        """Bytes as a qdisc counts them: the headers of each segment."""
        payload = self.length - self.headers
        return self.length + self.headers * (-(-payload // self.segment) - 1 if self.segment else 0)


@dataclass(frozen=True)
class Case:
    """A document as a run's description and packets in the order of their times. Another `salt` gives the flows other
    hashes: a kernel hashes by a secret that it draws once.
    """

    document: Keys
    run: Mapping[str, Any]
    packets: Sequence[Packet]
    salt: int = 0

    @property
    def end_ns(self) -> int:
        return int(self.run["duration_ns"])

    @cached_property
    def setup(self) -> list[str]:
        """What `tc` is told before."""
        edge = self._lab.edges["k1", "x1"]
        return [*edge.root, *(["qdisc add dev out clsact"] if edge.filters else []), *edge.filters]

    @cached_property
    def changes(self) -> list[tuple[int, str]]:
        """What it is told at which time, in ns."""
        found = []
        for line in self._lab.plan:
            words = line.split(maxsplit=5)
            if words[0] == "at" and words[2:5] == ["do", "k1", "tc"]:
                found.append((int(words[1]), words[5]))
        return found

    @cached_property
    def _lab(self) -> lab.Lab:
        return lab.build(dict(self.run))  # type: ignore[arg-type]

    def late(self, seed: int, late_ns: int) -> Case:
        """The same with packets that come up to so much later, by chance; those that come together stay together. Its
        hashes are others.
        """
        rng, packets, at, came = random.Random(f"late/{seed}"), [], 0, -1  # noqa: S311
        for one in self.packets:
            if one.at_ns != came:
                came, at = one.at_ns, max(at + 1, one.at_ns + rng.randint(0, late_ns))
            packets.append(one._replace(at_ns=at))
        return replace(self, packets=packets, salt=seed % 256)


def text_of(document: Keys) -> str:
    """The text of a case's file, with a line for each train."""
    trains = json.dumps(document["packets"], indent=1)
    first = {key: value for key, value in document.items() if not isinstance(value, dict | list)}
    rest = {key: value for key, value in document.items() if key not in first and key != "packets"}
    return f"{to_toml(first)}packets = {trains}\n\n{to_toml(rest)}"


def read(document: Keys, file: str = "case.toml") -> Case:
    """The case of a document. Raises InputError."""
    trains = document.get("packets")
    if not isinstance(trains, list) or not trains:
        raise InputError('has no packets; write packets = ["100 at 1ms every 200us"]', file=Path(file))
    # The simulator's order of those that come together.
    packets = sorted((one for train in trains for one in _train(train, file)), key=lambda one: (one.at_ns, one.flow))
    if len(packets) > MOST_PACKETS:
        raise InputError(f"has {len(packets)} packets; {MOST_PACKETS} are possible", file=Path(file))
    if len({(one.flow, one.ip) for one in packets}) > len({one.flow for one in packets}):
        raise InputError("has a flow of IPv4 and IPv6, which are two; give it two numbers", file=Path(file))
    flows: list[Value] = [
        {"name": f"f{n}", "kind": "cbr", "rate": "1Mbit", "rtt": f"{RTT_NS}ns", "ecn": "not-ect"}
        for n in range(max(one.flow for one in packets) + 1)
    ]
    whole: Keys = {key: value for key, value in document.items() if key != "packets"} | {"flow": flows}
    found = experimentfile.parse(to_toml(whole).encode(), Path(file), 1)
    run = sweep.expand(found, DEFAULT).runs[0].description
    if packets[-1].at_ns >= run["duration_ns"]:
        raise InputError("has packets after its end; give it a longer duration", file=Path(file))
    return Case(document, {**run, "start_jitter_ns": 0}, packets)


def _train(text: Value, file: str) -> list[Packet]:
    count, *words = str(text).split() or [""]
    given = dict(zip(words[::2], words[1::2], strict=False))
    wrong = [key for key in given if key not in _DEFAULTS]
    if wrong or len(words) % 2 or not count.isdigit():
        keys = ", ".join(_DEFAULTS)
        raise InputError(
            f'packets: "{text}" is no train; write a number of packets and then pairs of {keys}', file=Path(file)
        )
    values = _DEFAULTS | given
    try:
        at, every = int(TIME.parse(values["at"])), int(TIME.parse(values["every"]))
        size, segment = int(SIZE.parse(values["size"])), int(SIZE.parse(values["segment"]))
        flow, dscp, ecn = int(values["flow"]), int(values["dscp"]), CODEPOINTS[values["ecn"]]
        headers = ETHERNET + _IP[values["ip"]] + UDP
    except (ValueError, KeyError) as error:
        raise InputError(f'packets: "{text}": {error}', file=Path(file)) from None
    frame = headers + segment if segment else size
    if not (at >= RTT_NS and flow < MOST_FLOWS and 0 <= dscp < 64 and size >= headers + _LEAST_PAYLOAD):
        raise InputError(
            f'packets: "{text}" is not possible; packets come from {RTT_NS} ns on, in flows 0 to {MOST_FLOWS - 1}, '
            f"with a DSCP up to 63 and at least {headers + _LEAST_PAYLOAD} B",
            file=Path(file),
        )
    last = (size - headers) % segment or segment if segment else _LEAST_PAYLOAD
    is_cut = segment < size - headers and min(segment, last) >= _LEAST_PAYLOAD
    if frame > _MTU + ETHERNET or (segment and not is_cut) or size > 60_000:
        raise InputError(
            f'packets: "{text}" does not fit into frames of {_MTU + ETHERNET} B; add the payload of its segments, such '
            'as "segment 1400B"',
            file=Path(file),
        )
    return [Packet(at + n * every, flow, size, ecn, dscp, values["ip"], segment) for n in range(int(count))]
