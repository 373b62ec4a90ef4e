"""Changes of an experiment file's document, as `tomllib` reads it, that keep it whole. None changes its argument."""

from __future__ import annotations

from l4slab.base.units import FREQUENCY, RATE, SIZE, TIME, Dimension
from l4slab.base.values import Keys, Value

# What a person writes, the largest first.
UNITS: dict[Dimension, tuple[str, ...]] = {
    RATE: ("Gbit", "Mbit", "kbit", "bit"),
    TIME: ("s", "ms", "us", "ns"),
    SIZE: ("MB", "kB", "B"),
    FREQUENCY: ("/s", "/min"),
}

_PATHS = ("path", "reverse_path")


def tables(document: Keys, section: str) -> dict[str, Keys]:
    """The tables of a section, by name."""
    named = document.get(section, {})
    if isinstance(named, list):
        return {str(one.get("name")): one for one in _tables(named)}
    return {name: one for name, one in named.items() if isinstance(one, dict)} if isinstance(named, dict) else {}


def _tables(value: Value) -> list[Keys]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def without(document: Keys, section: str, name: str) -> Keys:
    """The document without one of its flows, links, impairments or tunnels, and without what refers to it."""
    found = dict(document)
    left = {key: table for key, table in tables(document, section).items() if key != name}
    found[section] = list(left.values()) if section == "flow" else dict(left)
    if section == "flow":
        found["rewrite"] = [one for one in _tables(document.get("rewrite")) if one.get("flow") != name]
    if section == "link":
        impairs = tables(document, "impair").items()
        found["impair"] = {key: table for key, table in impairs if table.get("before") != name}
        found["flow"] = [_off_path(flow, name) for flow in tables(document, "flow").values()]
    if section in ("flow", "link") and "tunnel" in document:
        found["tunnel"] = {key: _outside(one, f"{section}s", name) for key, one in tables(document, "tunnel").items()}
    changes = [
        {key: value for key, value in change.items() if not key.startswith(f"{section}.{name}.")}
        for change in _tables(document.get("at"))
    ]
    found["at"] = [change for change in changes if set(change) != {"time"}]
    return {key: value for key, value in found.items() if value not in ([], {})}


def _off_path(flow: Keys, link: str) -> Keys:
    found: Keys = {}
    for key, value in flow.items():
        left = [one for one in value if one != link] if isinstance(value, list) and key in _PATHS else value
        if left != []:
            found[key] = left
    return found


def _outside(tunnel: Keys, key: str, name: str) -> Keys:
    """A tunnel without one of its flows or links."""
    names = tunnel.get(key)
    left = [one for one in names if one != name] if isinstance(names, list) else None
    return {**tunnel, key: left} if left else {one: value for one, value in tunnel.items() if one != key}


def quantity(number: float, dimension: Dimension) -> str:
    """A number in the base unit as a person writes it, such as "12.5Mbit"."""
    for unit in UNITS[dimension]:
        value = number / dimension.units[unit]
        if value >= 1 or unit == UNITS[dimension][-1]:
            break
    text = f"{value:.12g}"
    return f"{text if 'e' not in text else f'{value:.0f}'}{unit}"
