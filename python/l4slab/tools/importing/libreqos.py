"""LibreQoS: `ShapedDevices.csv`, and `network.json` beside it or given with it, as trees of classes."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from l4slab.base.errors import InputError
from l4slab.tools.importing.draft import CARD, Draft, Keys

_WAYS = (("download", "down"), ("upload", "up"))
_QUEUE = "cake diffserv4"  # what LibreQoS gives a circuit, below its HTB class
_MOST_LEVELS = 7  # htb of Linux has eight
_FIRST_LINE = "circuit id"


@dataclass
class _Node:
    """A site or access point: its rates in Mbit/s by direction, and its place in the tree."""

    rates: dict[str, float]
    parent: str | None
    depth: int
    number: dict[str, str] = field(default_factory=dict)


def is_shaped(text: str) -> bool:
    """Whether it is the table of circuits."""
    return next((line for line in text.splitlines() if not line.startswith("#")), "").lower().startswith(_FIRST_LINE)


def read_shaped(text: str, draft: Draft, _rate: str, _given: Mapping[str, str]) -> None:
    """A link per direction with a class for each node and each circuit. Raises InputError with all mistakes."""
    rows = list(csv.reader(line for line in text.splitlines() if line.strip() and not line.startswith("#")))
    heads = [head.strip().lower() for head in rows[0]]
    wanted = [f"{way} {most} mbps" for way, _ in _WAYS for most in ("min", "max")]
    if missing := [name for name in wanted if name not in heads]:
        raise InputError(
            f"has no column {', '.join(map(repr, missing))}; LibreQoS's first line has them", file=draft.source
        )
    nodes = _nodes(draft)
    links = {way: draft.link(name, rate=CARD, qdisc="htb default fffe") for way, name in _WAYS}
    numbers = iter(f"{number:x}" for number in range(1, 0xFFFE))
    for name, node in nodes.items():
        number = next(numbers)
        for way, _ in _WAYS:
            parent: Keys = {"parent": nodes[node.parent].number[way]} if node.parent else {}
            node.number[way] = number
            links[way].classes[number] = {**parent, "rate": f"{node.rates[way]:g}Mbit"}
            links[way].comments.append(f"class {number}: {name}")
    seen: dict[str, str] = {}
    mistakes: list[str] = []
    used: set[str] = set()
    for line, row in enumerate(rows[1:], 2):
        told = dict(zip(heads, (cell.strip() for cell in row), strict=False))
        circuit = told.get("circuit id") or told.get("circuit name") or f"row {line}"
        if circuit in seen:
            draft.taken.append(f"device {told.get('device name', line)} shares circuit {circuit}")
            continue
        try:
            rates = {name: float(told.get(name) or "x") for name in wanted}
        except ValueError:
            shown = ", ".join(f"{name} = {told.get(name)!r}" for name in wanted)
            mistakes.append(f"row {line} ({circuit}) has a rate that is no number: {shown}")
            continue
        above = told.get("parent node", "")
        if above and above not in nodes and nodes:
            draft.leave(f"circuit {circuit}: parent node {above}", "network.json has no such node; it is at the top")
        seen[circuit] = number = next(numbers)
        host = f"circuit-{circuit}".replace("/", "_")
        for way, _ in _WAYS:
            most = rates[f"{way} max mbps"]
            least = min(rates[f"{way} min mbps"], most)
            keys: Keys = {"parent": nodes[above].number[way]} if above in nodes else {}
            links[way].classes[number] = {**keys, "rate": f"{least:g}Mbit", "ceil": f"{most:g}Mbit", "qdisc": _QUEUE}
            links[way].filters.append({"host": host, "class": number})
        used.update(_above(nodes, above))
    if mistakes:
        raise InputError(f"has {len(mistakes)} rows that cannot be read: {'; '.join(mistakes[:10])}", file=draft.source)
    for name in [name for name in nodes if name not in used]:
        draft.leave(f"node {name}", "no circuit is below it")
        for way, _ in _WAYS:
            del links[way].classes[nodes[name].number[way]]
    for way, _ in _WAYS:
        links[way].classes["fffe"] = {"rate": CARD, "qdisc": _QUEUE}
        links[way].comments.append("class fffe: what belongs to no circuit")
    draft.reverse["down"] = "up"
    draft.taken.append(f"{len(seen)} circuits, each a class with {_QUEUE!r}, found by the name of its host")
    draft.leave("addresses", "a filter here takes the name of a host: give flows host or peer_host")


def _nodes(draft: Draft) -> dict[str, _Node]:
    """The nodes of network.json, those above first."""
    file = Path(draft.source).parent / "network.json"
    if not file.is_file():
        draft.leave("network.json", "there is none beside the table; all circuits are at the top")
        return {}
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"is not JSON ({error})", file=file) from None
    found: dict[str, _Node] = {}

    def add(children: Mapping[str, Any], parent: str | None, depth: int) -> None:
        for name, told in children.items():
            if not isinstance(told, dict):
                continue
            own = told if "downloadBandwidthMbps" in told else None
            if own is None:
                # A virtual or a wholly unlimited node passes its children on.
                add(told.get("children") or {}, parent, depth)
                continue
            rates = {way: float(own.get(f"{way}BandwidthMbps") or 1000) for way, _ in _WAYS}
            above = parent if depth < _MOST_LEVELS else found[parent].parent if parent else None
            found[name] = _Node(rates, above, min(depth, _MOST_LEVELS))
            add(told.get("children") or {}, name, depth + 1)

    add(tree, None, 0)
    draft.taken.append(f"network.json, {len(found)} nodes")
    return found


def _above(nodes: Mapping[str, _Node], name: str | None) -> list[str]:
    found: list[str] = []
    while name in nodes:
        found.append(str(name))
        name = nodes[str(name)].parent
    return found
