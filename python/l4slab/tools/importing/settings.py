"""Settings of routers: OpenWrt's `/etc/config/sqm`, and the configuration of cake-autorate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from l4slab.tools.importing.draft import CARD, Draft

_SECTION = re.compile(r"^\s*config\s+queue\b\s*['\"]?([^'\"\s]*)['\"]?")
_OPTION = re.compile(r"^\s*(?:option|list)\s+(\w+)\s+['\"]?(.*?)['\"]?\s*$")
_UCI = re.compile(r"^\s*(?:uci\s+)?(?:set\s+)?sqm\.(?:@queue\[(\d+)\]|(\w+))\.(\w+)=['\"]?(.*?)['\"]?\s*$")
_TINS: Final = {"piece_of_cake": "besteffort", "layer_cake": "diffserv3"}
_KNOWN = {"enabled", "interface", "download", "upload", "qdisc", "script", "linklayer", "overhead", "tcMPU", "tcMTU",
          "tcTSIZE", "ingress_ecn", "egress_ecn", "iqdisc_opts", "eqdisc_opts", "qdisc_advanced",
          "qdisc_really_really_advanced", "linklayer_advanced", "linklayer_adaptation_mechanism", "debug_logging",
          "verbosity", "squash_dscp", "squash_ingress", "ilimit", "elimit", "itarget", "etarget"}  # fmt: skip


def is_sqm(text: str) -> bool:
    """Whether it is of OpenWrt's sqm-scripts."""
    has_queue = re.search(r"^\s*config\s+queue\b", text, re.MULTILINE) is not None
    return has_queue or re.search(r"^\s*(uci\s+)?(set\s+)?sqm\.\S+\.(download|upload)=", text, re.MULTILINE) is not None


def read_sqm(text: str, draft: Draft, _rate: str, _given: Mapping[str, str]) -> None:
    """A link for each direction of each queue."""
    sections: dict[str, dict[str, str]] = {}
    name = ""
    for line in text.splitlines():
        if (found := _SECTION.match(line)) is not None:
            name = found[1] or f"queue{len(sections)}"
            sections[name] = {}
        elif (found := _UCI.match(line)) is not None:
            sections.setdefault(found[2] or f"queue{found[1]}", {})[found[3]] = found[4]
        elif (found := _OPTION.match(line)) is not None and name:
            sections[name][found[1]] = found[2]
    for section, told in sections.items():
        _queue(draft, section, told)


def _queue(draft: Draft, section: str, told: Mapping[str, str]) -> None:
    device = told.get("interface") or section
    if told.get("enabled") == "0":
        draft.taken.append(f"queue {section}, although it is not enabled")
    for key in sorted(told.keys() - _KNOWN):
        draft.leave(f"{section}: {key} {told[key]}", "no part of an experiment stands for it")
    names: dict[str, str] = {}
    for way, ends in (("download", "i"), ("upload", "e")):
        kbit = told.get(way, "0")
        if not kbit.isdigit() or kbit == "0":
            draft.leave(f"{section}: {way} {kbit}", "sqm does not shape this direction")
            continue
        link = draft.link(f"{device}-{way}", rate=CARD)
        names[way] = draft.name_of(link)
        script, queue = told.get("script", "simple.qos").removesuffix(".qos"), told.get("qdisc", "fq_codel")
        link.comments.append(f"sqm: {script}.qos with {queue}, {way} {kbit} kbit/s; the rate is that of the card")
        if "cake" in script or queue == "cake":
            words = ["cake", f"bandwidth {kbit}kbit", _TINS.get(script, "diffserv3"), *_framing(told, "cake")]
            words += [f"{_advanced(told, f'{ends}qdisc_opts')}", "ingress" if way == "download" else ""]
            plain = dict.fromkeys(" ".join(words).split())
            link.keys["qdisc"] = draft.queue(" ".join(plain), f"{section}, {way}")
        else:
            stab = _framing(told, "stab")
            link.keys["qdisc"] = " ".join([*(["stab", *stab] if stab else []), "htb default 1"])
            ecn = "ecn" if told.get(f"{'ingress' if ends == 'i' else 'egress'}_ecn", "ECN") == "ECN" else "noecn"
            limits = [f"{one} {value}" for one in ("limit", "target") if (value := _advanced(told, f"{ends}{one}"))]
            inner = " ".join([queue, *limits, *([ecn] if queue in ("fq_codel", "codel", "pie") else [])])
            link.classes["1"] = {
                "rate": f"{kbit}kbit",
                "qdisc": draft.queue(f"{inner} {_advanced(told, f'{ends}qdisc_opts')}".strip(), f"{section}, {way}"),
            }
            if script == "simple":
                draft.leave(f"{section}: the tiers of simple.qos", "all packets share one class, as with simplest.qos")
        draft.taken.append(f"{section}, {way}, as link {names[way]}")
    if len(names) == 2:
        draft.reverse[names["download"]] = names["upload"]


def _advanced(told: Mapping[str, str], key: str) -> str:
    value = told.get(key, "")
    return "" if value in ("auto", "default") or told.get("qdisc_advanced", "1") == "0" else value


def _framing(told: Mapping[str, str], what: str) -> list[str]:
    """The words for the bytes that a line adds to packets."""
    layer, overhead, least = told.get("linklayer", "none"), told.get("overhead", "0"), told.get("tcMPU", "0")
    if layer == "none":
        return []
    found = [f"overhead {overhead}"] if overhead != "0" else []
    found += [f"mpu {least}"] if least != "0" else []
    if layer in ("atm", "adsl"):
        return [*found, "atm" if what == "cake" else "linklayer atm"]
    return found


_RATES = re.compile(r"^\s*(base|min|max)_(dl|ul)_shaper_rate_kbps=(\d+)", re.MULTILINE)


def is_autorate(text: str) -> bool:
    """Whether it is a configuration of cake-autorate."""
    return _RATES.search(text) is not None


def read_autorate(text: str, draft: Draft, _rate: str, _given: Mapping[str, str]) -> None:
    """CAKE at the base rate in both directions."""
    told = {(way, what): kbit for what, way, kbit in _RATES.findall(text)}
    names: dict[str, str] = {}
    for way, name in (("dl", "download"), ("ul", "upload")):
        kbit = told.get((way, "base")) or told.get((way, "max"))
        if kbit is None:
            continue
        link = draft.link(name, rate=CARD, qdisc=draft.queue(f"cake bandwidth {kbit}kbit", name))
        names[way] = name
        link.comments.append(f"cake-autorate, {name}: base rate {kbit} kbit/s; the link's rate is that of the card")
        draft.taken.append(f"base_{way}_shaper_rate_kbps as bandwidth of cake in link {name}")
        draft.leave(
            f"{told.get((way, 'min'), '?')} to {told.get((way, 'max'), '?')} kbit/s ({way})",
            "cake-autorate changes the rate by the delay it measures, and nothing here does",
        )
    if len(names) == 2:
        draft.reverse["download"] = "upload"
