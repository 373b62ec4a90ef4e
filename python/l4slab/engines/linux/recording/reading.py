"""From the files of a laboratory to `Observed`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from l4slab.engines.linux.lab import MTU_FRAME, Lab
from l4slab.engines.linux.programs import FOLDER
from l4slab.engines.linux.recording import calls, qlogs
from l4slab.engines.linux.recording.observed import (
    FORMAT,
    NEVER,
    PACKET,
    SAMPLE,
    Array,
    CheckError,
    Impairment,
    Link,
    Observed,
    Output,
    check_head,
)

_LAST_BYTES = 4096
ETHERNET = 14


def read(lab: Lab, folder: Path, is_over: bool = True, has_tc: bool = True) -> Observed:
    """Read what the laboratory left, or has left so far: then there are no counters yet. Raises CheckError where
    something is missing.

    Without `has_tc`, the queues are not the kernel's: only the packets tell of them.
    """
    run = lab.run
    ticks = [int(line) for line in _lines(folder / "ticks.tsv")]
    links = []
    for number, spec in enumerate(run["links"]):
        used = lab.link_namespace(number) in lab.routes
        packets = _packets(folder, number) if used else np.empty(0, PACKET)
        within = packets["in_ns"] <= run["duration_ns"]
        packets, behind = packets[within], _behind(folder, number, within)
        _match_again(packets, lab)
        _count_headers(packets, lab)
        outputs = parse_tc(_text(folder / f"tc.{number}.json")) if used and has_tc else []
        if used and has_tc and len(outputs) != len(ticks):
            raise CheckError(f"tc gave {len(outputs)} of {len(ticks)} samples of link {spec['name']}")
        changes = [change for change in run["at"] if change.get("link") == spec["name"]]
        tc = list(zip(ticks, outputs, strict=False))
        end = run["duration_ns"]
        links.append(Link(spec["name"], packets, tc, spec, changes, end, lab.flows, behind, not has_tc))
    events = [line.split("\t") for line in _lines(folder / "events.tsv")]
    teardown = _text(folder / "teardown.txt") if is_over and has_tc else ""
    return Observed(
        lab,
        links,
        _array(folder / "tcp.bin", SAMPLE),
        ticks,
        events,
        parse_counters(_text(folder / "counters.txt")) if is_over else {},
        teardown,
        _impairments(lab, folder, teardown, not has_tc) if is_over else {},
        {path.name: _last_line(path) for path in sorted((folder / FOLDER).glob("*")) if path.is_file()},
        qlogs.read(run, folder / FOLDER) if is_over else None,
        calls.read(lab, folder / FOLDER, events) if is_over else {},
    )


def _impairments(lab: Lab, folder: Path, teardown: str, tells_drops: bool) -> dict[str, Impairment]:
    found = {}
    for number, namespace in enumerate(lab.impair_namespaces):
        spec, end = lab.impair_of(namespace), lab.run["duration_ns"]
        packets = _array(folder / f"impaired.{number}.bin", PACKET)
        changes = [change for change in lab.run["at"] if change.get("impair") == spec["name"]]
        words = [(0, spec["netem"]), *((change["time_ns"], change["netem"]) for change in changes)]
        section = teardown.partition(f"# {namespace}\n")[2].partition("\n# ")[0]
        waiting = re.search(r"qdisc netem .*?backlog \S+ (\d+)p", section, re.DOTALL)
        found[namespace] = Impairment(
            spec["name"],
            packets[packets["in_ns"] <= end],
            [(since, str(netem).split()) for since, netem in words],
            int(waiting[1]) if waiting else 0,
            end,
            tells_drops,
        )
    return found


def _last_line(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LAST_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _packets(folder: Path, link: int) -> Array:
    """The packets of a link. While it runs, those that have not left are only among the arrivals."""
    packets = _array(folder / f"packets.{link}.bin", PACKET)
    arrivals = folder / f"arrivals.{link}.bin"
    if not arrivals.is_file():
        return packets
    came = _array(arrivals, PACKET)
    return np.concatenate([packets, came[~np.isin(came["number"], packets["number"])]])


def _behind(folder: Path, link: int, within: Array) -> Array | None:
    """How long packets of a link were in its medium, ns; None of a wire."""
    path = folder / f"behind.{link}.bin"
    return np.fromfile(path, np.uint64)[within].astype(np.int64) if path.is_file() else None


# The fields that are known of a packet when it leaves.
_LEAVING = ["out_ns", "ecn_out", "fresh", "damaged"]


def _match_again(packets: Array, lab: Lab) -> None:
    """A packet of several segments takes as many IP identifications, which come round after fewer packets than the
    capture supposes: then what leaves may have been taken for a packet of the round before that was dropped.
    """
    numbers = [flow.number for flow in lab.flows if flow.has_gso]
    of_flows = np.flatnonzero(np.isin(packets["flow"], numbers))
    keys = [packets[name][of_flows] for name in ("in_ns", "id", "conn", "flow")]
    order = of_flows[np.lexsort([keys[0], packets["kind"][of_flows] >> 1, *keys[1:]])]
    mine = packets[order]
    same = np.ones(max(len(mine) - 1, 0), bool)
    for name in ("id", "conn", "flow"):
        same &= mine[name][1:] == mine[name][:-1]
    same &= mine["kind"][1:] >> 1 == mine["kind"][:-1] >> 1
    groups = np.concatenate([[0], np.cumsum(~same)]) if len(mine) else np.empty(0, np.int64)
    wrong = np.unique(groups[:-1][same & (mine["out_ns"][:-1] >= mine["in_ns"][1:])])
    for group in wrong:
        members = order[groups == group]
        left = packets[members][_LEAVING]
        left = left[left["out_ns"] != NEVER]
        for name in _LEAVING:
            packets[name][members] = 0
        came = packets["in_ns"][members]
        for one in left[np.argsort(left["out_ns"])]:
            last = members[np.searchsorted(came, one["out_ns"], side="right") - 1]
            for name in _LEAVING:
                packets[name][last] = one[name]


def _count_headers(packets: Array, lab: Lab) -> None:
    """Makes a packet of several segments as long as they are, as queues do (`qdisc_pkt_len`)."""
    for flow in lab.flows:
        if flow.has_gso and flow.tcp is not None:
            frame = (flow.tcp.get("mtu_bytes") or MTU_FRAME - ETHERNET) + ETHERNET
            which = np.flatnonzero((packets["flow"] == flow.number) & (packets["len"] > frame))
            length, headers = packets["len"][which].astype(np.int64), packets["headers"][which].astype(np.int64)
            more = (length - headers - 1) // (frame - headers)
            packets["len"][which] = np.minimum(length + more * headers, np.iinfo(np.uint16).max)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        raise CheckError(f"the laboratory left no {path.name}") from None


def _lines(path: Path) -> list[str]:
    return _text(path).splitlines()


def _array(path: Path, dtype: np.dtype[Any]) -> Array:
    if not path.is_file():
        raise CheckError(f"the laboratory left no {path.name}")
    with path.open("rb") as file:
        check_head(path.name, file.read(FORMAT.itemsize), dtype)
        return np.fromfile(file, dtype)


def parse_tc(text: str) -> list[Output]:
    """The arrays that `tc -j -batch` has written one after the other."""
    decoder = json.JSONDecoder()
    found, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


def parse_counters(text: str) -> dict[str, dict[str, int]]:
    """Per namespace, the kernel's counters: `TcpExt.ListenDrops`, `dev.NAME.rx_drop`, `softnet.dropped`."""
    found: dict[str, dict[str, int]] = {}
    namespace: dict[str, int] = {}
    file, names = "", [""]
    for line in text.splitlines():
        if line.startswith("# "):
            _, name, file = line.split()
            namespace = found.setdefault(name, {})
        elif file in ("net/netstat", "net/snmp"):
            kind, _, rest = line.partition(":")
            words = rest.split()
            if words and not words[0].lstrip("-").isdigit():
                names = words
            else:
                namespace |= {f"{kind}.{name}": int(value) for name, value in zip(names, words, strict=False)}
        elif file == "net/dev" and ":" in line:
            device, _, rest = line.partition(":")
            words = rest.split()
            namespace |= {
                f"dev.{device.strip()}.rx_drop": int(words[3]),
                f"dev.{device.strip()}.tx_drop": int(words[11]),
            }
        elif file == "net/softnet_stat" and line.strip():
            namespace["softnet.dropped"] = namespace.get("softnet.dropped", 0) + int(line.split()[1], 16)
    return found
