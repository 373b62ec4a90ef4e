"""Changes of an experiment file's document, as `tomllib` reads it, that keep it whole. None changes its argument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from l4slab.base.units import FREQUENCY, RATE, SIZE, TIME, Dimension

# What a person writes, the largest first.
UNITS: dict[Dimension, tuple[str, ...]] = {
    RATE: ("Gbit", "Mbit", "kbit", "bit"),
    TIME: ("s", "ms", "us", "ns"),
    SIZE: ("MB", "kB", "B"),
    FREQUENCY: ("/s", "/min"),
}


def without(document: Mapping[str, Any], section: str, name: str) -> dict[str, Any]:
    """The document without one of its flows, links or impairments, and without what refers to it."""
    found = dict(document)
    if section == "flow":
        found["flow"] = [flow for flow in document["flow"] if flow["name"] != name]
        found["rewrite"] = [one for one in document.get("rewrite", []) if one.get("flow") != name]
    else:
        found[section] = {key: table for key, table in document[section].items() if key != name}
    if section == "link":
        found["impair"] = {
            key: table for key, table in document.get("impair", {}).items() if table.get("before") != name
        }
        found["flow"] = [_off_path(flow, name) for flow in document["flow"]]
    changes = [
        {key: value for key, value in change.items() if not key.startswith(f"{section}.{name}.")}
        for change in document.get("at", [])
    ]
    found["at"] = [change for change in changes if set(change) != {"time"}]
    return {key: value for key, value in found.items() if value not in ([], {})}


def _off_path(flow: Mapping[str, Any], link: str) -> dict[str, Any]:
    paths = {key: [one for one in flow[key] if one != link] for key in ("path", "reverse_path") if key in flow}
    return {key: value for key, value in {**flow, **paths}.items() if value != []}


def quantity(number: float, dimension: Dimension) -> str:
    """A number in the base unit as a person writes it, such as "12.5Mbit"."""
    for unit in UNITS[dimension]:
        value = number / dimension.units[unit]
        if value >= 1 or unit == UNITS[dimension][-1]:
            break
    text = f"{value:.12g}"
    return f"{text if 'e' not in text else f'{value:.0f}'}{unit}"
