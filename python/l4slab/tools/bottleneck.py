"""A bottleneck in real time: the path of an experiment file between two network namespaces of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from l4slab import _core
from l4slab.api import campaign
from l4slab.base import system
from l4slab.base.code import HASH
from l4slab.base.errors import InputError, L4slabError, suggest
from l4slab.base.run import Change, Flow, Run
from l4slab.engines.real import forwarder, hosts
from l4slab.engines.registry import KERNEL
from l4slab.experimentfile import traffic

_ADDRESSES = dict(zip(traffic.ADDRESSES, ("10.0.0.2", "fd00::2", "10.0.0.1", "fd00::1"), strict=True))
_BUFFERS = {"net.ipv4.tcp_rmem": "4096 131072 67108864", "net.ipv4.tcp_wmem": "4096 65536 67108864"}


@dataclass(frozen=True)
class Wanted:
    """What is to run in the namespaces, and how."""

    command: Sequence[str]
    server: str | None = None
    log: Path | None = None
    access_bps: int | None = None
    realtime: bool = True
    reverse: bool = False
    sysctls: Sequence[tuple[str, str]] = ()
    late_ns: int | None = None
    quiet: bool = False  # what the command prints goes to the standard error
    between: tuple[str, str] | None = None  # network cards in place of the namespaces
    outside: str | None = None  # the way from the server's namespace to the networks of this machine: "pasta" or "nat"
    control: int | None = None  # the descriptor of a socket for those who watch it


@dataclass(frozen=True)
class PathOf:
    """The path of a flow group: a run that has nothing else."""

    flow: Flow
    run: Run
    shortest_ns: int  # of all thresholds and RTTs
    shortest: str  # what that is
    wishes: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def shown(self) -> Run:
        """The run on the page of `l4slab live`, which has no flows of programs."""
        return self.run if self.flow["kind"] == "program" else {**self.run, "flows": [self.flow]}

    @property
    def late_ns(self) -> int:
        """A packet that is later than this may change what is measured."""
        return self.shortest_ns // 10


def path_of(file: Path, flow: str | None = None, where: str | None = None) -> PathOf:
    """The path of a flow group in the first run of a file, or in the first that `where` chooses.

    Raises InputError.
    """
    description = _first_run(file, where)
    chosen = _flow(description, flow, file)
    if HASH in json.dumps(description["links"]):
        raise InputError("has a custom queue, which runs in the simulator only; take a built-in one", file=file)
    try:
        forwarder.refuse_media_that_change(description)
    except ValueError as error:
        raise InputError(f"cannot be run: {error}", file=file) from None
    filters = (one for link in description["links"] for one in link.get("filters") or ())
    if any(one.get("host") is not None for one in filters):
        raise InputError("has classes by host, and here are two hosts; choose classes by dscp or ecn", file=file)
    stand_in = forwarder.stand_in(chosen["name"], chosen["rtt_ns"], chosen["path"])
    stand_in["reverse_path"] = chosen.get("reverse_path") or []
    for key in ("delay_trace", "station"):
        if chosen.get(key):
            stand_in[key] = chosen[key]
    run: Run = {
        **description,
        "flows": [stand_in],
        "at": list(_changes(description, chosen["name"])),
        "rewrites": [one for one in description["rewrites"] if one["flow"] == chosen["name"]],
        "warmup_ns": 0,
        "start_jitter_ns": 0,
    }
    run.pop("hosts", None)
    run.pop("per_flow", None)
    run.pop("precision", None)
    shortest_ns, shortest = min(forwarder.delays(run))
    return PathOf(chosen, run, shortest_ns, shortest, list(_wishes(chosen)))


def _first_run(file: Path, where: str | None) -> Run:
    try:
        (plan,) = campaign.plan([file], where=where)
    except InputError as error:
        # Programs are no traffic of the simulator; here they do not matter.
        try:
            (plan,) = campaign.plan([file], KERNEL, where=where)
        except L4slabError:
            raise error from None
    if not plan.todo:
        raise InputError("describes no run; give an experiment file", file=file)
    return plan.todo[0].description


def _flow(description: Run, name: str | None, file: Path) -> Flow:
    names = [flow["name"] for flow in description["flows"]]
    if name is None:
        return description["flows"][0]
    if name not in names:
        raise InputError(f'there is no flow "{name}"; {suggest(name, names)}', file=file, key="--flow")
    return description["flows"][names.index(name)]


def _changes(description: Run, flow: str) -> Iterator[Change]:
    """Of the links, the impairments, and the flow's RTT."""
    for change in description["at"]:
        if change.get("flow") is None:
            yield change
        elif change["flow"] == flow and change.get("rtt_ns") is not None:
            yield {"time_ns": change["time_ns"], "flow": flow, "rtt_ns": change["rtt_ns"]}


def _wishes(flow: Flow) -> Iterator[tuple[str, str, str]]:
    """Settings of the namespaces' kernels, and what to say where there is no such thing."""
    for name, value in _BUFFERS.items():
        yield name.replace(".", "/"), value, ""
    control = flow.get("cc") if flow["kind"] in ("tcp", "program") else None
    if isinstance(control, str):
        yield (
            "net/ipv4/tcp_congestion_control",
            control,
            f"this kernel does not let programs have {control}, so they get its default one; allow it with: "
            f"{hosts.allowing(control, hosts.controls(), hosts.free())}",
        )
    if (ecn := flow.get("ecn") if control is not None else None) in system.TCP_ECN:
        yield (
            "net/ipv4/tcp_ecn",
            str(system.TCP_ECN[ecn]),
            f'this kernel has no ECN of the kind "{ecn}"; programs get its default',
        )


def run(path: PathOf, wanted: Wanted) -> dict[str, Any]:
    """Run a command in the client's namespace; what was measured.

    Raises InputError and BottleneckError.
    """
    command, server = list(wanted.command), wanted.server
    if wanted.between is None:
        command = [_addressed(word) for word in command]
        server = None if server is None else _addressed(server)
    late_ns = wanted.late_ns if wanted.late_ns is not None else path.late_ns
    options = forwarder.options(path.run, command, late_ns) | {
        "server": server,
        "log": None if wanted.log is None else str(wanted.log),
        "access_bps": wanted.access_bps,
        "realtime": wanted.realtime,
        "reverse": wanted.reverse,
        "sysctls": [[name.replace(".", "/"), value] for name, value in wanted.sysctls],
        "wishes": path.wishes,
        "between": wanted.between,
        "outside": wanted.outside,
        "control": wanted.control,
    }
    summary = forwarder.run(options, stdout=2 if wanted.quiet else None)
    summary["late_bound_ms"] = late_ns / 1e6
    summary["shortest"] = {"name": path.shortest, "ms": path.shortest_ns / 1e6}
    summary["is_late"] = forwarder.latest_ms(summary) > late_ns / 1e6
    return summary


def _addressed(word: str) -> str:
    """With the addresses of the namespaces."""
    for placeholder, address in _ADDRESSES.items():
        word = word.replace(placeholder, address)
    return word


def replay(log: Path) -> dict[str, Any]:
    """Compare a log with the simulator; `difference` is None if both decided the same.

    Raises InputError.
    """
    if not log.is_file():
        raise InputError("there is no such file; give the one that l4slab bottleneck --log has written", file=log)
    found: dict[str, Any] = forwarder.told(_core.replay_log(log), log)
    return found
