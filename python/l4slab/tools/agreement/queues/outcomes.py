"""What becomes of a case's packets: in the simulator, and on a kernel in virtual time, many cases in a boot."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from l4slab import _core
from l4slab.engines.contract import EngineError
from l4slab.engines.linux import kernels, lab, programs
from l4slab.engines.linux.compiling import DATA
from l4slab.engines.linux.tools import BuildError, compile_static
from l4slab.tools.agreement.queues.cases import RTT_NS, Case
from l4slab.tools.kerneltests import Ended, KernelTest, boots

# So long before the case begins both make the queue: buckets are full, and periods are counted from the same time. The
# kernel makes PIE earlier by what its first update takes; in the simulator that is over. All are multiples of ALIGN of
# packets.c, on which the kernel's timers fire.
_BEFORE_NS, _PIE_NS = 1_472_000_000, 512_000_000
# Longer than the tolerance of the judge, so that both say of a packet that it left at the end.
_LONGER_NS = 10_000
_WALL_S = 300.0
_DEVICES = ("g0", "g1", "out", "in")


class Left(NamedTuple):
    """A packet, or a segment of one, that has left the link; `number`: its place among all that came."""

    at_ns: int
    number: int
    ecn: int
    dscp: int = 0
    length: int = 0


@dataclass(frozen=True)
class Outcome:
    """`left` in the order of times. On a kernel: what tc refused, and the counters of `tc -s -j qdisc` at the end."""

    left: Sequence[Left]
    refused: Sequence[str] = ()
    counters: Sequence[Mapping[str, Any]] = field(default=(), compare=False)
    stopped: str = ""  # why the kernel did


def simulated(case: Case, seed: int) -> Outcome:
    """In the simulator. Raises ValueError."""
    lead = _BEFORE_NS - RTT_NS // 2
    changes = [{**one, "time_ns": one["time_ns"] + _BEFORE_NS} for one in case.run["at"]]
    run = {**case.run, "seed": seed, "at": changes, "duration_ns": case.end_ns + _BEFORE_NS}
    rows = [
        (one.at_ns + lead, one.flow, one.counted, one.length - one.headers, one.ecn, one.dscp, one.segment)
        for one in case.packets
    ]
    left, _ = _core.pass_packets(json.dumps(run), rows, _BEFORE_NS + case.end_ns + _LONGER_NS)
    return Outcome([Left(at - _BEFORE_NS, *one) for at, *one in left])


def on_kernel(cases: Sequence[Case], name: str = kernels.DEFAULT) -> list[Outcome]:
    """On a kernel, all in one boot. A case that stops the kernel is found by halving. Raises EngineError."""
    plan = "".join(line + "\n" for number, case in enumerate(cases) for line in _plan(number, case))
    script = "\n".join([*_set_up(), f"cat >/tmp/plan <<'X'\n{plan}X", f"{_program()} /tmp/plan >$OUT/result"])
    test = KernelTest("queues", "queues", script + "\n", 60.0 * (1 + len(cases)))
    (result,) = boots.run([test], name, 1, 1, _WALL_S)
    ended = result.ended[0]
    if ended is not None and ended.status == 0:
        return [_outcome(lines) for lines in _parts(ended.files["result"])]
    why = result.why if ended is None or not ended.said else _last(ended)
    if len(cases) == 1:
        return [Outcome([], stopped=why)]
    half = len(cases) // 2
    return on_kernel(cases[:half], name) + on_kernel(cases[half:], name)


def _last(ended: Ended) -> str:
    return (ended.said.strip().splitlines() or ["it said nothing"])[-1]


def _program() -> Path:
    """The generator, compiled where this version's is not there. Raises EngineError."""
    source = DATA / "packets.c"
    there = kernels.cache() / "packets" / hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    if there.is_file():
        return there
    there.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=there.parent) as temporary:
        made = Path(temporary) / "packets"
        try:
            compile_static(source, made)
        except BuildError as error:
            raise EngineError(f"the packet generator cannot be compiled: {error}") from None
        made.rename(there)
    return there


def _set_up() -> Iterator[str]:
    """Shell commands: a router between the generator and the queue, so that packets belong to no socket of the host."""
    yield "ip link add g0 type veth peer name g1"
    yield "ip link add out type veth peer name in"
    yield from programs.ipv6_settings(_DEVICES)
    yield "echo 1 >/proc/sys/net/ipv4/ip_forward"
    yield "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done"
    yield "ip link set g1 address 02:00:00:00:00:01"
    yield from (f"ip link set {device} up" for device in _DEVICES)
    for gateway, network in ((lab.GATEWAY, "10.2.0.0/16"), (lab.GATEWAY6, "fd00::/8")):
        yield f"ip neigh replace {gateway} lladdr 02:00:00:00:00:02 dev out nud permanent"
        yield f"ip route add {network} via {gateway} dev out onlink"


def _plan(number: int, case: Case) -> Iterator[str]:
    yield f"case {number} {case.salt}"
    before = _BEFORE_NS + _PIE_NS * any({"pie", "fq_pie"} & {*words.split()} for words in case.setup)
    yield from (f"tc {-before} {words}" for words in case.setup)
    # What is told and what comes at the same time: the packet is later, as in the simulator.
    events = [(at, 0, f"tc {at} {words}") for at, words in case.changes]
    for n, one in enumerate(case.packets):
        tos = one.dscp << 2 | one.ecn
        ip6 = int(one.ip == "6")
        events.append((one.at_ns, 1, f"packet {one.at_ns} {n} {one.flow} {one.length} {tos} {ip6} {one.segment}"))
    yield from (line for *_, line in sorted(events, key=lambda one: one[:2]))
    yield f"end {case.end_ns + _LONGER_NS}"


def _parts(text: str) -> Iterator[list[str]]:
    lines: list[str] = []
    for line in text.splitlines():
        if line == "end":
            yield lines
        elif line.startswith("case "):
            lines = []
        else:
            lines.append(line)


def _outcome(lines: Sequence[str]) -> Outcome:
    left, refused, counters = [], [], []
    for line in lines:
        what, _, rest = line.partition(" ")
        if what == "left":
            at, number, length, tos = map(int, rest.split())
            left.append(Left(at, number, tos & 3, tos >> 2, length))
        elif what == "refused":
            refused.append(rest.strip())
        elif what == "counters":
            with suppress(ValueError):
                counters += json.loads(rest)
    return Outcome(left, refused, counters)
