"""A bottleneck in real time: the path of an experiment file between two network namespaces of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from l4slab import _core
from l4slab.api import campaign
from l4slab.base import system, units
from l4slab.base.code import HASH
from l4slab.base.errors import InputError, L4slabError, suggest
from l4slab.base.run import CbrFlow, Change, Flow, Run
from l4slab.engines.registry import KERNEL

CLIENT, SERVER = "10.0.0.1", "10.0.0.2"
# A packet that is due waits so long for another one to leave with.
_HOLD_NS = 50_000
# Parameters of queues that are delays at which they act.
_THRESHOLDS = ("target", "step_thresh", "ce_threshold")
_BUFFERS = {"net.ipv4.tcp_rmem": "4096 131072 67108864", "net.ipv4.tcp_wmem": "4096 65536 67108864"}


class BottleneckError(L4slabError):
    """The machine refuses something, or the run says nothing."""


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


@dataclass(frozen=True)
class PathOf:
    """The path of a flow group: a run that has nothing else."""

    flow: Flow
    run: Run
    shortest_ns: int  # of all thresholds and RTTs
    shortest: str  # what that is
    wishes: list[tuple[str, str, str]] = field(default_factory=list)

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
    filters = (one for link in description["links"] for one in link.get("filters") or ())
    if any(one.get("host") is not None for one in filters):
        raise InputError("has classes by host, and here are two hosts; choose classes by dscp or ecn", file=file)
    stand_in = _stand_in(chosen["name"], chosen["rtt_ns"], chosen["path"])
    stand_in["reverse_path"] = chosen.get("reverse_path") or []
    if chosen.get("delay_trace"):
        stand_in["delay_trace"] = chosen["delay_trace"]
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
    shortest_ns, shortest = min(_delays(run))
    return PathOf(chosen, run, shortest_ns, shortest, list(_wishes(chosen)))


def _stand_in(name: str, rtt_ns: int, path: list[str]) -> CbrFlow:
    """A flow that has nothing but its path: real packets take the place of its own."""
    return {
        "name": name, "kind": "cbr", "count": 1, "rtt_ns": rtt_ns, "dscp": 0, "start_ns": 0, "stop_ns": None,
        "path": path, "rate_bps": 1, "ecn": "not-ect", "packet_bytes": 1514, "batch": 1,
    }  # fmt: skip


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


def _delays(run: Run) -> Iterator[tuple[int, str]]:
    """Delays that a late packet must not disturb, in ns, and what they are."""
    flow = run["flows"][0]
    yield flow["rtt_ns"], "RTT"
    links = [link for link in run["links"] if link["name"] in (*flow["path"], *(flow.get("reverse_path") or []))]
    texts = [link["qdisc"] for link in links]
    texts += [qdisc for link in links for one in link.get("classes") or () if (qdisc := one.get("qdisc"))]
    for change in run["at"]:
        if rtt_ns := change.get("rtt_ns"):
            yield rtt_ns, "RTT"
    for text in texts:
        try:
            facts: Mapping[str, Any] = _core.qdisc_facts(text)
        except ValueError:  # what holds classes
            continue
        for name in _THRESHOLDS:
            try:
                delay = units.TIME.parse(facts["parameters"].get(name, ""))
            except ValueError:
                continue
            if delay > 0:
                yield delay, f"{name} of {facts['name']}"


def _wishes(flow: Flow) -> Iterator[tuple[str, str, str]]:
    """Settings of the namespaces' kernels, and what to say where there is no such thing."""
    for name, value in _BUFFERS.items():
        yield name.replace(".", "/"), value, ""
    control = flow.get("cc") if flow["kind"] in ("tcp", "program") else None
    if isinstance(control, str):
        yield (
            "net/ipv4/tcp_congestion_control",
            control,
            f"this kernel refuses {control} as the congestion control of a namespace; programs get its default one",
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
    if not system.is_linux():
        raise BottleneckError("l4slab bottleneck needs Linux; replay reads its logs on any system")
    late_ns = wanted.late_ns if wanted.late_ns is not None else path.late_ns
    options = {
        "run": json.dumps(path.run),
        "build": _core.source_hash(),
        "command": list(wanted.command),
        "server": wanted.server,
        "log": None if wanted.log is None else str(wanted.log),
        "access_bps": wanted.access_bps,
        "hold_ns": min(_HOLD_NS, late_ns // 3),
        "realtime": wanted.realtime,
        "reverse": wanted.reverse,
        "sysctls": [[name.replace(".", "/"), value] for name, value in wanted.sysctls],
        "wishes": path.wishes,
        "parent": os.getpid(),
    }
    told = _in_a_process(json.dumps(options), wanted.quiet)
    summary: dict[str, Any] = told
    bound_ms = late_ns / 1e6
    summary["late_bound_ms"] = bound_ms
    summary["shortest"] = {"name": path.shortest, "ms": path.shortest_ns / 1e6}
    late = [one[what]["p99"] or 0.0 for one in summary["directions"] for what in ("late_ms", "wait_ms")]
    summary["is_late"] = max(late) > bound_ms
    return summary


def examine() -> tuple[bool, str]:
    """Whether this machine can do it: makes the namespaces and devices, and runs nothing that matters in them."""
    flow = _stand_in("f", 1_000_000, ["l"])
    qdisc = _core.canonical_qdisc("pfifo limit 100")
    path: Run = {
        "duration_ns": 1, "warmup_ns": 0, "seed": 1, "sample_ns": 1, "start_jitter_ns": 0, "flows": [flow], "at": [],
        "links": [{"name": "l", "rate_bps": 10**9, "qdisc": qdisc, "burst_bytes": 1600}], "rewrites": [],
    }  # fmt: skip
    try:
        summary = run(PathOf(flow, path, 1_000_000, "RTT"), Wanted([sys.executable, "-c", ""]))
    except L4slabError as error:
        return False, str(error)
    priority = "with real-time priority" if summary["realtime"] else "without real-time priority, so expect lateness"
    return True, f"TUN devices and namespaces, {priority}"


def _in_a_process(options: str, quiet: bool) -> dict[str, Any]:
    source, answer = os.memfd_create("options"), os.memfd_create("answer")
    with os.fdopen(source, "wb") as to, os.fdopen(answer, "rb") as back:
        to.write(options.encode())
        to.flush()
        command = [sys.executable, "-m", "l4slab.tools.bottleneck_process", str(source), str(answer)]
        # Ctrl-C is the command's.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process = subprocess.Popen(command, pass_fds=(source, answer), stdout=2 if quiet else None)  # noqa: S603
            try:
                status = process.wait()
            except BaseException:
                process.kill()
                process.wait()
                raise
        finally:
            signal.signal(signal.SIGINT, before)
        back.seek(0)
        text = back.read()
    if not text:
        raise BottleneckError(f"the process of the bottleneck has ended with status {status}")
    return _told(text.decode())


def _told(text: str, file: Path | None = None) -> dict[str, Any]:
    told = json.loads(text)
    if "refused" in told:
        if told["is_input"]:
            raise InputError(told["refused"], file=file)
        raise BottleneckError(told["refused"])
    return cast(dict[str, Any], told["done"])


def replay(log: Path) -> dict[str, Any]:
    """Compare a log with the simulator; `difference` is None if both decided the same.

    Raises InputError.
    """
    return _told(_core.replay_log(log), log)
