"""Flows of `kind = "program"`: what the plan says of them, and the settings of their hosts.

The programs are those of this machine, whose file system the kernel has as `/run/host`, read only (`data/init.sh`).
`data/programs.h` starts and stops them.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from l4slab import stacks
from l4slab.base.errors import one_line
from l4slab.base.run import ProgramFlow, Run, Sending
from l4slab.engines.contract import MissingError
from l4slab.engines.linux.flows import Flow, ipv6
from l4slab.engines.linux.machine import Machine
from l4slab.experimentfile.traffic import CLIENT, CLIENT6, NUMBER, OUT, SERVER, SERVER6

FOLDER = "programs"  # of the run's folder: what they say and write
OUT_FOLDER = "/dev/out"
NEVER = 2**64 - 1
# What they get of the environment; HOME is read only, and so is everything but these two.
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
TEMPORARY = "/dev/shm"  # noqa: S108
# Receive windows follow the rate as on any host, but may grow until they never limit, and so may what waits to be sent.
_SETTINGS = (
    "echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save",
    "echo 4096 131072 268435456 >/proc/sys/net/ipv4/tcp_rmem",
    "echo 4096 16384 268435456 >/proc/sys/net/ipv4/tcp_wmem",
)
# Processor time in which programs may let no time go by: starting an interpreter takes a few seconds, sending a second
# of a gigabit some hundred.
_STANDS_S = 120.0
_STANDS_S_PER_GBIT = 400.0


def require(run: Run) -> None:
    """Raises MissingError with one sentence where a stack or a program of the flows is not on this machine."""
    for spec in run["flows"]:
        if spec["kind"] == "program":
            _require(spec, f'flow "{spec["name"]}"')


def _require(spec: ProgramFlow, name: str) -> None:
    if (stack := spec.get("stack")) is not None and not stacks.is_built(stack["build"]):
        which = stack["name"] if stack["name"] in stacks.names() else "FOLDER, the folder that the file names"
        raise MissingError(
            f'{name}: stack = "{stack["name"]}" is not built (there is no {stacks.cache() / stack["build"]}); build it '
            f"with: l4slab stacks build {which}"
        )
    for role, command in (("server", spec["server"]), ("client", spec["client"])):
        first = _built(spec, shlex.split(command)[0])
        if shutil.which(first) is not None:
            continue
        if Path(first).is_file():
            raise MissingError(f'{name}: {role} = "{command}": {first} is no program; make it executable')
        where = "there is no such file" if "/" in first else "no program of this name is in PATH"
        raise MissingError(f'{name}: {role} = "{command}": {where}; install {first}, or give its path')


def logging_flow(run: Run) -> str | None:
    """The flow whose stack writes its qlog into the folder that is kept. Of several, none: whose file is whose?"""
    found = [
        flow["name"]
        for flow in run["flows"]
        if flow["kind"] == "program"
        and flow.get("stack") is not None
        and OUT in flow.get("env", {}).get(stacks.LOG, "")
    ]
    return found[0] if len(found) == 1 else None


def settings(spec: ProgramFlow, tcp_ecn: int | None) -> Iterator[str]:
    """Shell commands for the namespaces of its hosts; `tcp_ecn`: what TCP asks for, None: as the kernel has it."""
    yield from _SETTINGS
    if spec["cc"] is not None:
        yield f"echo {spec['cc']} >/proc/sys/net/ipv4/tcp_congestion_control"
    if tcp_ecn is not None:
        yield f"echo {tcp_ecn} >/proc/sys/net/ipv4/tcp_ecn"


def answering(came: str, destination: str, device: str, mac: str, gateway: str) -> tuple[list[str], list[str]]:
    """For `ip` and `tc` at a host: what a program sends to `destination` through the device at which packets come (some
    QUIC stacks answer so, by IP_PKTINFO) takes the way out, which is another `device`; `mac` is its far end's.
    """
    ip = [
        f"neigh replace {gateway} lladdr {mac} dev {came} nud permanent",
        # The way out is preferred; a route of IPv6 has a metric of 1024 by default.
        f"route add {destination} via {gateway} dev {came} onlink metric 2000",
    ]
    tc = [
        f"qdisc add dev {came} clsact",
        f"filter add dev {came} egress matchall action mirred egress redirect dev {device}",
    ]
    return ip, tc


def ipv6_settings(devices: Iterable[str]) -> Iterator[str]:
    """Shell commands for a namespace that forwards IPv6 through these devices, which are down. None of them gets an
    address, and none reports that it is in a multicast group, so only the programs' packets reach the links.
    """
    devices = list(devices)
    yield from (f"ip link set {device} multicast off" for device in devices)
    yield "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding"
    for device in ("lo", *devices):
        yield f"echo 1 >/proc/sys/net/ipv6/conf/{device}/addr_gen_mode"
        yield f"echo 0 >/proc/sys/net/ipv6/conf/{device}/disable_ipv6"


def host() -> Iterator[str]:
    """The plan's lines for all programs."""
    found = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    for name, value in {"PATH": os.defpath, **found, "TMPDIR": TEMPORARY}.items():
        yield f"environment {_word(f'{name}={value}')}"
    yield f"directory {_word(str(Path.cwd()))}"


def plan(flow: Flow, spec: ProgramFlow, spans: Iterable[tuple[int, int]], out: str = OUT_FOLDER) -> Iterator[str]:
    """The plan's lines for a flow with the description `spec`; `programs.h` reads them. `out`: where programs write."""
    at_server, at_client = (flow.server, flow.client) if spec["sender"] == "client" else (flow.client, flow.server)
    at = flow.ends if spec["sender"] == "client" else flow.ends[::-1]
    yield f"host {at_client}"
    yield _line(flow, spec, "server", 1, at_server, 0, NEVER, at, out)
    yield from _settings(spec, 1, at, out)
    for number, (start, stop) in enumerate(spans, start=1):
        yield _line(flow, spec, "client", number, at_client, start, stop, at, out)
        yield from _settings(spec, number, at, out)


def _settings(spec: ProgramFlow, number: int, at: tuple[str, str], out: str) -> Iterator[str]:
    """Of its environment, what the file says."""
    for name, value in spec.get("env", {}).items():
        yield f"setting {_word(f'{name}={_filled(_built(spec, value), number, at, out)}')}"


def _line(
    flow: Flow,
    spec: ProgramFlow,
    role: Sending,
    number: int,
    namespace: str,
    start: int,
    stop: int,
    at: tuple[str, str],
    out: str,
) -> str:
    words = [_built(spec, word) for word in shlex.split(spec[role])]
    # Links stay: a program may ask by which name it was called.
    words[0] = str(Path.cwd() / (shutil.which(words[0]) or words[0]))
    sends = int(spec["sender"] == role)
    filled = (_word(_filled(word, number, at, out)) for word in words)
    head = f"program {flow.number} {_word(spec['name'])} {role} {number} {sends} {namespace} {start} {stop}"
    return f"{head} {' '.join(filled)}"


def _built(spec: ProgramFlow, word: str) -> str:
    """With the folder of its stack's build, where it is one."""
    stack = spec.get("stack")
    return word if stack is None else word.replace(stacks.STACK, str(stacks.cache() / stack["build"]))


def _filled(word: str, number: int, at: tuple[str, str], out: str) -> str:
    """With the addresses of client and server, the client's number, and the folder that is kept."""
    client, server = at
    addresses = {CLIENT: client, CLIENT6: ipv6(client), SERVER: server, SERVER6: ipv6(server)}
    for placeholder, value in {**addresses, NUMBER: str(number), OUT: out}.items():
        word = word.replace(placeholder, value)
    return word


def _word(text: str) -> str:
    """As `unescaped` of programs.h reads it: a word ends at a blank, a text at a zero."""
    return quote(text, safe="/:=,.+@{}[]()") or "%00"


def last_words(folder: Path, sentence: str) -> str:
    """The last line that a server wrote to its standard error, for the end of a sentence that is about one."""
    if not sentence.startswith("the server of flow"):
        return ""
    for file in sorted((folder / FOLDER).glob("*.server.1.err")):
        if lines := file.read_text(errors="replace").split("\n")[-2:-1]:
            return f'; its last words: "{one_line(lines[0])[:200]}"'
    return ""


def watch(run: Run, flows: Iterable[Flow], booted: Machine) -> Callable[[], str | None]:
    """For `Machine.boot`: why to stop, where the programs compute and no time goes by."""
    gbit = sum(link["rate_bps"] for link in run["links"]) * 1e-9
    allowed_s = _STANDS_S + _STANDS_S_PER_GBIT * gbit * run["sample_ns"] * 1e-9
    names = " or ".join(f'"{flow.spec["name"]}"' for flow in flows if flow.is_program)
    seen, since_s = -1, 0.0

    def look() -> str | None:
        nonlocal seen, since_s
        try:
            ticks = (booted.run / "ticks.tsv").read_bytes().count(b"\n")
        except OSError:
            ticks = 0
        now_s = booted.processor_s()
        if ticks != seen:
            seen, since_s = ticks, now_s
        if now_s - since_s < allowed_s:
            return None
        at = ticks * run["sample_ns"] * 1e-9
        return (
            f"a program of flow {names} computes or reads the clock without end: after {at:g} s no time has gone by "
            f"for {allowed_s:.0f} s of the processor; let it sleep or wait for its socket"
        )

    return look
