"""Media in the place of wires: the keys `medium`, `qdisc_up` and `station` of a [link.NAME].

A medium becomes two links of the run's description: NAME towards the users, and NAME.up from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from l4slab import _core
from l4slab.base import run
from l4slab.base.errors import suggest
from l4slab.base.values import Keys
from l4slab.experimentfile import classes
from l4slab.experimentfile.tables import Link
from l4slab.experimentfile.tc import unitless
from l4slab.experimentfile.wording import Place, Problem, check, show

_BURST_BYTES = 1600  # of no effect


def sides(name: str, raw: Keys, leaf: Callable[[str, Place, str], str]) -> list[run.Link]:
    """Both directions of a link with a medium. `leaf` reads a qdisc. Raises Problem."""
    place = ("link", name)
    link = check(Link, raw, place)
    text = link.medium or ""
    try:
        words, down_bps, up_bps = _core.canonical_medium(text)
        wrong = unitless(text, lambda words: _core.canonical_medium(words)[0])
    except ValueError as error:
        raise Problem(place, "medium", f"= {show(text)}: {error}") from None
    if wrong:
        raise Problem(place, "medium", f"= {show(text)}{wrong}")
    stations = {str(station): _station(name, station, one, text) for station, one in link.stations.items()}
    for key, qdisc in (("qdisc", link.qdisc), ("qdisc_up", link.qdisc_up)):
        if qdisc is not None and classes.holds_classes(qdisc):
            raise Problem(place, key, f"= {show(qdisc)} holds classes, which no medium serves; use a qdisc without")
    down: run.Link = {
        "name": name,
        "rate_bps": down_bps,
        "burst_bytes": _BURST_BYTES,
        "qdisc": leaf(link.qdisc, place, "qdisc"),
        "medium": words,
    }
    if stations:
        down["stations"] = stations
    up: run.Link = {
        "name": f"{name}.up",
        "rate_bps": up_bps,
        "burst_bytes": _BURST_BYTES,
        "qdisc": down["qdisc"] if link.qdisc_up is None else leaf(link.qdisc_up, place, "qdisc_up"),
        "up_of": name,
    }
    return [down, up]


def _station(link: str, station: str, table: object, medium: str) -> str:
    """The words in which a station differs."""
    place = ("link", link)
    key = f"station.{station}"
    if not isinstance(table, dict) or set(table) != {"medium"} or not isinstance(table["medium"], str):
        wrong = [key for key in table if key != "medium"] if isinstance(table, dict) else []
        what = f"has {show(wrong[0])}; {suggest(wrong[0], ['medium'])}" if wrong else "has no medium"
        raise Problem(place, key, f'{what}; write it such as medium = "mcs 2"')
    words: str = table["medium"]
    try:
        _core.check_station(medium, words)
        bare = unitless(words, partial(_core.check_station, medium))
    except ValueError as error:
        raise Problem(place, f"{key}.medium", f"= {show(words)}: {error}") from None
    if bare:
        raise Problem(place, f"{key}.medium", f"= {show(words)}{bare}")
    return words


def is_side(link: run.Link) -> bool:
    """Whether a medium serves it."""
    return "medium" in link or "up_of" in link


def way_back(path: Sequence[str], links: Mapping[str, run.Link]) -> list[str]:
    """The links of ACKs where a flow does not say: the other side of each medium on its path."""
    other = {name: up_of for name, link in links.items() if (up_of := link.get("up_of")) is not None}
    other |= {down: up for up, down in other.items()}
    return [other[name] for name in reversed(path) if name in other]
