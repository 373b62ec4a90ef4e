"""The process that forwards packets in real time, and what it is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from l4slab import _core
from l4slab.base import system, units
from l4slab.base.errors import InputError, L4slabError
from l4slab.base.run import CbrFlow, Run

# A packet that is due waits so long for another one to leave with.
_HOLD_NS = 50_000
# Parameters of queues that are delays at which they act.
_THRESHOLDS = ("target", "step_thresh", "ce_threshold")
_running: set[subprocess.Popen[bytes]] = set()


class BottleneckError(L4slabError):
    """The machine refuses something, or the run says nothing."""


def stand_in(name: str, rtt_ns: int, path: list[str]) -> CbrFlow:
    """A flow that has nothing but its path: real packets take the place of its own."""
    return {
        "name": name, "kind": "cbr", "count": 1, "rtt_ns": rtt_ns, "dscp": 0, "start_ns": 0, "stop_ns": None,
        "path": path, "rate_bps": 1, "ecn": "not-ect", "packet_bytes": 1514, "batch": 1,
    }  # fmt: skip


def refuse_media_that_change(run: Run) -> None:
    """Raises ValueError with what the forwarder cannot do."""
    for change in run["at"]:
        if change.get("medium") is not None:
            raise ValueError(
                f'the medium of link "{change.get("link")}" changes, and in real time its words stay; leave '
                "the change out, or use the sim engine"
            )


def delays(run: Run) -> Iterator[tuple[int, str]]:
    """Delays that a late packet must not disturb, in ns, and what they are."""
    used = set()
    for flow in run["flows"]:
        yield flow["rtt_ns"], "RTT"
        used |= {*flow["path"], *(flow.get("reverse_path") or [])}
    links = [link for link in run["links"] if link["name"] in used]
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


def options(run: Run, command: Sequence[str], late_ns: int) -> dict[str, object]:
    """What the process needs to know at least (`Options` of `crates/bottleneck`)."""
    return {
        "run": json.dumps(run),
        "build": _core.source_hash(),
        "command": list(command),
        "server": None,
        "log": None,
        "access_bps": None,
        "hold_ns": min(_HOLD_NS, late_ns // 3),
        "realtime": True,
        "reverse": False,
        "sysctls": [],
        "wishes": [],
        "parent": os.getpid(),
    }


def latest_ms(summary: Mapping[str, Any]) -> float:
    """99 % of the packets left, or were read, earlier than so late."""
    return max(one[what]["p99"] or 0.0 for one in summary["directions"] for what in ("late_ms", "wait_ms"))


def run(wanted: Mapping[str, object], stdout: int | None = None, stderr: int | None = None) -> dict[str, Any]:
    """Run the forwarder and its programs in a process of their own; what was measured. The streams are descriptors.

    Raises InputError and BottleneckError.
    """
    if not system.is_linux():
        raise BottleneckError("l4slab bottleneck needs Linux; replay reads its logs on any system")
    source, answer = os.memfd_create("options"), os.memfd_create("answer")
    with os.fdopen(source, "wb") as to, os.fdopen(answer, "rb") as back:
        to.write(json.dumps(dict(wanted)).encode())
        to.flush()
        command = [sys.executable, "-m", "l4slab.engines.real.process", str(source), str(answer)]
        control = wanted.get("control")
        kept = (source, answer, *([control] if isinstance(control, int) else []))
        with _interrupts_ignored(is_wanted=stdout is None):
            process = subprocess.Popen(command, pass_fds=kept, stdout=stdout, stderr=stderr)  # noqa: S603
            _running.add(process)
            try:
                status = process.wait()
            except BaseException:
                process.kill()
                process.wait()
                raise
            finally:
                _running.discard(process)
        back.seek(0)
        text = back.read()
    if not text:
        raise BottleneckError(f"the process of the bottleneck has ended with status {status}")
    summary: dict[str, Any] = told(text.decode())
    return summary


@cache
def examine() -> tuple[bool, str]:
    """Whether this machine can do it: makes the namespaces and devices, and runs nothing that matters in them."""
    flow = stand_in("f", 1_000_000, ["l"])
    qdisc = _core.canonical_qdisc("pfifo limit 100")
    path: Run = {
        "duration_ns": 1, "warmup_ns": 0, "seed": 1, "sample_ns": 1, "start_jitter_ns": 0, "flows": [flow], "at": [],
        "links": [{"name": "l", "rate_bps": 10**9, "qdisc": qdisc, "burst_bytes": 1600}], "rewrites": [],
    }  # fmt: skip
    try:
        summary = run(options(path, [sys.executable, "-c", ""], 1_000_000))
    except L4slabError as error:
        return False, str(error)
    priority = "with real-time priority" if summary["realtime"] else "without real-time priority, so expect lateness"
    return True, f"TUN devices and namespaces, {priority}"


def told(text: str, file: Path | None = None) -> Any:
    """What the core has answered. Raises InputError and BottleneckError."""
    found = json.loads(text)
    if "refused" in found:
        if found["is_input"]:
            raise InputError(found["refused"], file=file)
        raise BottleneckError(found["refused"])
    return found["done"]


def stop() -> None:
    """End at once what is running."""
    for process in list(_running):
        process.kill()


@contextmanager
def _interrupts_ignored(is_wanted: bool) -> Iterator[None]:
    """Ctrl-C is the command's."""
    if not is_wanted or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
