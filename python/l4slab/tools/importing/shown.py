"""What `tc qdisc show`, `tc class show` and `tc filter show` print, as lines or, with -j, as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from l4slab import _core
from l4slab.base.errors import InputError
from l4slab.tools.importing.device import Device
from l4slab.tools.importing.draft import Draft

_LINE = re.compile(r"^(qdisc|class)\s+(\w+)\s+([0-9a-f]*:[0-9a-f]*)\s+(.*)$")
_CAKE_OFF = {"disabled", "none", "off", "unlimited"}


def is_lines(text: str) -> bool:
    """Whether a line is one of `tc qdisc show`."""
    return re.search(r"^qdisc \w+ [0-9a-f]*:", text, re.MULTILINE) is not None


def read_lines(text: str, draft: Draft, rate: str, _given: Mapping[str, str]) -> None:
    """The links of the devices that the lines name."""
    devices: dict[str, Device] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.match(line.strip())
        if found is None:
            if line.startswith("filter"):
                draft.leave(f"line {number}, {line}", "write the filter as tc takes it: u32 prints numbers only")
            continue
        what, kind, handle, rest = found.groups()
        words = rest.split()
        # `tc class show dev eth0` does not repeat the device.
        owner = next((one.name for one in devices.values() if one.has(handle)), next(reversed(devices), "dev"))
        dev = words[words.index("dev") + 1] if "dev" in words[:-1] else owner
        parent = words[words.index("parent") + 1] if "parent" in words[:-1] else "root"
        device = devices.setdefault(dev, Device(dev))
        options = [
            word
            for place, word in enumerate(words)
            if word not in ("root", "dev", "parent", "refcnt", "leaf", "offloaded")
            and (place == 0 or words[place - 1] not in ("dev", "parent", "refcnt", "leaf"))
        ]
        if what == "qdisc":
            device.qdiscs["ingress" if kind in ("ingress", "clsact") else parent] = (handle, " ".join([kind, *options]))
        else:
            device.classes[handle] = ("" if parent == "root" else parent, options, f"line {number}, {line.strip()}")
    for device in devices.values():
        device.add_to(draft, rate)


def is_json(text: str) -> bool:
    """Whether it is JSON of `tc -j`."""
    return text.lstrip().startswith("[") and '"kind"' in text


def read_json(text: str, draft: Draft, rate: str, _given: Mapping[str, str]) -> None:
    """The same of JSON. Raises InputError where it is none."""
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise InputError(f"is not JSON ({error}); write it with: tc -j qdisc show", file=draft.source) from None
    devices: dict[str, Device] = {}
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict) or "kind" not in entry:
            continue
        dev = str(entry.get("dev", "dev"))
        device = devices.setdefault(dev, Device(dev))
        kind, handle = str(entry["kind"]), str(entry.get("handle", "0:"))
        parent = "root" if entry.get("root") else str(entry.get("parent", "root"))
        options = entry.get("options") or {}
        device.qdiscs["ingress" if kind in ("ingress", "clsact") else parent] = (handle, _words(kind, options, draft))
    for device in devices.values():
        device.add_to(draft, rate)


def _words(kind: str, options: Mapping[str, Any], draft: Draft) -> str:
    """The words of a qdisc. An option that the qdisc does not take is left out."""
    entries = [*_core.qdiscs(), *_core.trees()]
    entry = next((one for one in entries if one["name"] == kind), None)
    if entry is None:
        return kind
    rows = {row["keyword"]: row["value"] for row in entry["parameters"]}
    words: list[str] = []
    for name, value in options.items():
        said = _said(kind, name, value, rows)
        if said and name not in ("direct_packets_stat", "multiqueue"):
            words.append(said)
    if kind in ("tbf", "netem", *(one["name"] for one in _core.trees())):
        return " ".join([kind, *words])
    taken = kind
    for one in words:
        try:
            _core.canonical_qdisc(f"{taken} {one}")
        except ValueError as error:
            draft.leave(f"{kind} {one}", str(error))
        else:
            taken = f"{taken} {one}"
    return taken


def _said(kind: str, name: str, value: Any, rows: Mapping[str, str]) -> str:
    name = name.removesuffix("_us")
    if kind == "cake" and isinstance(value, str):
        return "" if value in _CAKE_OFF else value if name in ("diffserv", "flowmode", "atm") else f"{name} {value}"
    if kind == "netem":
        return _netem(name, value)
    if isinstance(value, bool):
        known = name.replace("_", "-") if name.replace("_", "-") in rows else name
        return known if value and rows.get(known) == "" else ""
    if isinstance(value, list):
        return f"{name} {' '.join(map(str, value))}"
    if isinstance(value, int | float) and name in rows:
        unit = rows[name]
        if "TIME" in unit:
            return f"{name} {value:g}us" if isinstance(value, int) else f"{name} {value * 1e6:.0f}us"
        if "RATE" in unit:
            return f"{name} {int(value) * 8}bit"
        return f"{name} {int(value)}b" if "BYTES" in unit and kind == "tbf" else f"{name} {value}"
    if kind == "cake" and name == "bandwidth":
        return f"bandwidth {int(value) * 8}bit"
    if kind == "tbf" and name == "lat":
        return f"latency {value}us"
    return f"{name} {value}" if name in rows else ""


def _netem(name: str, value: Any) -> str:
    if isinstance(value, int):
        return f"limit {value}" if name == "limit" else ""
    if not isinstance(value, dict):
        return ""
    percent = {one: f"{100 * float(number):g}%" for one, number in value.items() if isinstance(number, int | float)}
    match name:
        case "delay":
            jitter = f" {float(value.get('jitter', 0)) * 1e6:.0f}us" if value.get("jitter") else ""
            return f"delay {float(value['delay']) * 1e6:.0f}us{jitter}"
        case "loss-random":
            return f"loss {percent['loss']}"
        case "duplicate" | "corrupt" | "reorder":
            return f"{name} {percent[name]}" if name in percent else ""
        case "rate":
            return f"rate {int(value['rate']) * 8}bit"
    return ""
