"""The switches: what may be set otherwise in a model of a flow, its hosts and its queues, each with its law.

Options of controllers, rules of TCP (`transport`) and parameters of queues are those that the core declares, so a new
one is a switch at once. The keys of flows and links are listed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from l4slab import _core
from l4slab.base.values import Keys, Value
from l4slab.tools.search.documents import tables

# A number and what stands behind it.
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?)([a-zA-Z%/]*)")
_WORDS = re.compile(r"[\w.-]+(?:, [\w.-]+)* or [\w.-]+")
_FACTORS = (0.25, 0.35, 0.5, 0.7, 0.85, 1.2, 1.4, 2.0, 2.8, 4.0)
_FRACTIONS = tuple(tenth / 10 for tenth in range(1, 10))


@dataclass(frozen=True)
class Setting:
    """A value at a dotted place of a document, such as "flow.a.options.beta"; None removes the key.

    `word`: the parameter of a qdisc that the value is of, or the link before which something is impaired.
    """

    place: str
    value: Value
    word: str = ""


@dataclass(frozen=True)
class Switch:
    """What may be set otherwise: its name, the law that it breaks, and the levels to try, each a setting.

    `is_number`: levels between these make sense, too.
    """

    name: str
    law: str
    usual: str  # its present value
    levels: tuple[Setting, ...]
    is_number: bool = False

    def at(self, value: Value) -> Setting:
        """The setting of another value."""
        return replace(self.levels[0], value=value)


def applied(document: Keys, settings: Sequence[Setting]) -> Keys:
    """The document with these settings."""
    for one in settings:
        section, name, *keys = one.place.split(".")
        if section == "flow":
            flows = [
                _put(flow, keys, one) if flow.get("name") == name else flow
                for flow in tables(document, "flow").values()
            ]
            document = {**document, "flow": list(flows)}
        elif not keys:
            impair: Keys = {"netem": f"{name} {one.value}", "before": one.word, "direction": "forward"}
            document = {**document, section: {**tables(document, section), name: impair}}
        else:
            found = tables(document, section)
            document = {**document, section: {**found, name: _put(found[name], keys, one)}}
    return document


def _put(table: Keys, keys: Sequence[str], one: Setting) -> Keys:
    first, *inner = keys
    if inner:
        within = table.get(first)
        return {**table, first: _put(within if isinstance(within, dict) else {}, inner, one)}
    if one.word:
        return {**table, first: _with_word(str(table[first]), one.word, str(one.value))}
    if one.value is None:
        return {key: value for key, value in table.items() if key != first}
    return {**table, first: one.value}


def _with_word(words: str, word: str, value: str) -> str:
    """A qdisc's words with a parameter set, or a flag added or taken away."""
    kind, *parts = words.split()
    at = parts.index(word) if word in parts else None
    if value == "no":
        return " ".join([kind, *(part for part in parts if part != word)])
    if value == "yes":
        return " ".join([kind, *parts, word])
    if at is not None:
        return " ".join([kind, *parts[: at + 1], value, *parts[at + 2 :]])
    return " ".join([kind, *parts, word, value])


def switches(document: Keys) -> list[Switch]:
    """All of a document. A flow's name is in its switches' names where there are several."""
    flows, links = tables(document, "flow"), tables(document, "link")
    found: list[Switch] = []
    for name, flow in flows.items():
        of = f" of {name}" if len(flows) > 1 else ""
        if flow.get("kind", "tcp") in ("tcp", "web", "video", "page", "responsiveness"):
            found += _of_controller(f"flow.{name}", flow, of)
            found += _of_transport(f"flow.{name}", flow, of)
            found += _of_hosts(f"flow.{name}", flow, of)
        if isinstance(flow.get("rtt"), str):
            found.append(_number(f"flow.{name}.rtt", f"rtt{of}", "base round trip time", str(flow["rtt"])))
    for name, link in links.items():
        found += _of_link(name, link, f" of {name}" if len(links) > 1 else "")
    return [one for one in found if one.levels]


# -- what the core declares -------------------------------------------------------------------------------------------


def _of_controller(place: str, flow: Keys, of: str) -> Iterator[Switch]:
    known = {one["name"]: one for one in _core.controllers()}
    cc = str(flow.get("cc"))
    others = tuple(Setting(f"{place}.cc", name) for name, one in known.items() if name != cc and one["ecn"] != "sce")
    if not flow.get("options"):
        yield Switch(f"cc{of}", "the congestion control", cc, others)
    if cc not in known:
        return
    given = flow.get("options")
    for parameter in known[cc]["parameters"]:
        if parameter["keyword"] == "beta_ecn" and flow.get("ecn", known[cc]["ecn"]) == "off":
            continue
        yield _declared(f"{place}.options", parameter, given if isinstance(given, dict) else {}, f"{cc} ", of)


def _of_transport(place: str, flow: Keys, of: str) -> Iterator[Switch]:
    given = flow.get("transport")
    for parameter in _core.transport()["parameters"]:
        yield _declared(f"{place}.transport", parameter, given if isinstance(given, dict) else {}, "", of)


def _declared(place: str, parameter: _core.Parameter, given: Keys, owner: str, of: str) -> Switch:
    keyword, takes = parameter["keyword"], parameter["takes"]
    present = str(given.get(keyword, parameter["default"]))
    name = f"{owner}{keyword}{of}"
    law = parameter["help"] or parameter["value"].lower()
    law += f" ({parameter['source']})" if parameter["source"] and "(" not in law else ""
    place = f"{place}.{keyword}"
    if _WORDS.fullmatch(takes):
        words = re.split(r", | or ", takes)
        return Switch(name, law, present, tuple(Setting(place, word) for word in words if word != present))
    return _number(place, name, law, present, takes, usual=parameter["default"])


def _of_qdisc(link: str, words: str, of: str) -> Iterator[Switch]:
    kind, *parts = words.split()
    place = f"link.{link}.qdisc"
    known = {one["name"]: one for one in _core.qdiscs()}
    if kind not in known:
        return
    for parameter in known[kind]["parameters"]:
        keyword = parameter["keyword"]
        name, law = f"{kind} {keyword}{of}", parameter["help"]
        if parameter["value"]:
            present = parts[parts.index(keyword) + 1] if keyword in parts[:-1] else parameter["default"]
            one = _number(place, name, law, present, parameter["takes"], usual=parameter["default"])
            yield replace(
                one, levels=tuple(replace(level, word=keyword, value=str(level.value)) for level in one.levels)
            )
        elif "without effect" not in law:
            is_set = keyword in parts
            if is_set or parameter["default"] != "yes":
                yield Switch(
                    name, law, "yes" if is_set else "no", (Setting(place, "no" if is_set else "yes", keyword),)
                )


# -- the keys of flows and links --------------------------------------------------------------------------------------

_GSO = "segments leave the host as one packet per burst"
_GRO = "the receiver's host joins segments at its interrupts"


def _of_hosts(place: str, flow: Keys, of: str) -> Iterator[Switch]:
    def choice(key: str, law: str, usual: str, *values: Value) -> Switch:
        levels = tuple(Setting(f"{place}.{key}", value) for value in values if value != flow.get(key))
        return Switch(f"{key}{of}", law, str(flow.get(key, usual)), levels)

    if flow.get("kind", "tcp") == "tcp":
        yield choice("gso", _GSO, "off", True, None)
        yield choice("gro", _GRO, "off", "50us", "200us", "1ms", None)
        if "app_rate" in flow:
            yield choice("app_block", "the application writes blocks", "1 ms of data", "16kB", "64kB", "128KiB", None)
    yield choice("ecn", "what the sender's host asks for", "the controller's", "off", "classic", "accecn", None)
    yield choice("peer_ecn", "what the receiver's host supports", "as ecn", "off", "classic", None)
    for key, law, usual in (
        ("mtu", "largest IP packet", "1500B"),
        ("rto_min", "least margin of the timeout over the RTT", "200ms"),
        ("receive_window", "most data that the receiver lets be outstanding", ""),
        ("start", "when the flow begins", "0s"),
    ):
        found = _number(f"{place}.{key}", f"{key}{of}", law, str(flow.get(key, usual)), usual=usual)
        few = {"receive_window": ("32kB", "64kB", "128kB", "256kB", "1MB"), "start": ("20ms", "50ms", "200ms", "1s")}
        if key in few and key not in flow:
            levels = tuple(Setting(f"{place}.{key}", value) for value in few[key])
            found = Switch(found.name, law, usual or "no limit", levels, is_number=True)
        yield found


def _of_link(name: str, link: Keys, of: str) -> Iterator[Switch]:
    if isinstance(link.get("rate"), str):
        yield _number(f"link.{name}.rate", f"rate{of}", "the link's rate", str(link["rate"]))
        burst = str(link.get("burst", "1600B"))
        law = "what the shaper lets leave at once after a pause"
        one = _number(f"link.{name}.burst", f"burst{of}", law, burst, usual="1600B")
        larger = tuple(Setting(f"link.{name}.burst", value) for value in ("3kB", "6kB", "15kB", "64kB"))
        yield one if "burst" in link else replace(one, levels=larger)
        yield _impaired(name, "loss", "the path loses packets at random", of, ("0.01%", "0.1%", "1%"))
        yield _impaired(name, "duplicate", "the path repeats packets", of, ("0.1%", "1%"))
    if isinstance(link.get("qdisc"), str):
        yield from _of_qdisc(name, str(link["qdisc"]), of)


def _impaired(link: str, word: str, law: str, of: str, values: Sequence[str]) -> Switch:
    levels = tuple(Setting(f"impair.{word}", value, link) for value in values)
    return Switch(f"{word}{of}", law, "none", levels, is_number=True)


def _number(place: str, name: str, law: str, present: str, takes: str = "", usual: str = "") -> Switch:
    """A switch whose levels are multiples of the present value, and its default."""
    match = _NUMBER.fullmatch(present)
    if match is None:
        return Switch(name, law, present, ())
    number, unit = float(match[1]), match[2]
    texts: list[str] = [usual] if usual not in ("", present) else []
    if "between 0 and 1" in takes:
        texts += [f"{value:g}" for value in _FRACTIONS]
    elif number:
        texts += [text(number * factor, unit, "whole" in takes or unit == "B") for factor in _FACTORS]
    else:
        texts += [f"{value}{unit}" for value in (1, 2, 4, 10)]
    levels = tuple(Setting(place, one) for one in dict.fromkeys(texts) if one != present)
    return Switch(name, law, present, levels, is_number=True)


def text(number: float, unit: str, is_whole: bool = False) -> str:
    """A number as a person writes it; below ten of its unit with three digits."""
    return f"{round(number)}{unit}" if is_whole else f"{number:.4g}{unit}"


def number_of(value: Value) -> tuple[float, str] | None:
    """The number and the unit of a level."""
    match = _NUMBER.fullmatch(str(value))
    return None if match is None else (float(match[1]), match[2])
