"""The hosts of a run: the sampler, senders and receivers of the engine `linux` (`lab.c`), on the clock of this machine.

There its machine stands still while programs compute, and its clock is the laboratory's own. Here neither holds, so two
places of the source become others before it is compiled.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from l4slab.base import system
from l4slab.engines.contract import digest
from l4slab.engines.linux import lab, tools
from l4slab.engines.linux.compiling import DATA
from l4slab.engines.linux.flows import Flow, ipv6
from l4slab.engines.linux.kernels import cache

# What stands once in lab.c, and what takes its place.
EDITS = (
    # The forwarder says when the time of the run is zero: that is its own clock's.
    ("\tif (argc != 3)\n", "\tif (argc != 4)\n"),
    (
        "\tzero_mono = (now_of(CLOCK_MONOTONIC) / 1000000 + SETTLE_MS) * 1000000;\n",
        "\tzero_mono = strtoull(argv[3], NULL, 10);\n",
    ),
    # Kernels before 7 have something else where these have the mode.
    (
        ".ecn_mode = size >= sizeof info ? info.ecn & 3 : !!(info.options & 8)",
        ".ecn_mode = size >= sizeof info && info.ecn & 3 ? info.ecn & 3 : !!(info.options & 8)",
    ),
    # Programs may compute, and read the clock as often as they like.
    ("\tif (n_programs)\n\t\tschedule(LOOK_NS, LOOK, NULL);\n", ""),
)
# So long the servers have to get ready, as in lab.c.
LEAD_NS = 2_000_000_000
_COMPILER = {"gcc": tools.TOOLS["gcc"]}
# Lines of a plan that are of the network, and of changes there.
_OF_NETWORK = re.compile(r"(link|impair|host|ns [^cs]\S*|at \d+ do) ?")
_SETTING = re.compile(r"echo (.*) >/proc/sys/(\S+)")


def source() -> str:
    """The source of the hosts' program."""
    text = (DATA / "lab.c").read_text()
    for stands, becomes in EDITS:
        if text.count(stands) != 1:
            raise tools.BuildError(f"lab.c is not as it was known to be: {stands.strip()}")
        text = text.replace(stands, becomes)
    return text


def build() -> Path:
    """The program, compiled where it is not there yet. Raises BuildError and OSError."""
    text = source()
    there = cache().parent / "real" / digest(text, DATA / "programs.h") / "hosts"
    if there.is_file():
        return there
    if (sentence := tools.missing(_COMPILER)) is not None:
        raise tools.BuildError(sentence)
    there.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=there.parent) as temporary:
        file, new = Path(temporary) / "hosts.c", Path(temporary) / "hosts"
        file.write_text(text)
        tools.do(["gcc", "-O2", "-Wno-unused-function", "-I", str(DATA), "-o", str(new), str(file)])
        # Another process may have been quicker.
        with suppress(FileExistsError):
            os.link(new, there)
    return there


def plan(made: lab.Lab) -> list[str]:
    """What the hosts do: the laboratory's plan without its network."""
    return [line for line in made.plan if _OF_NETWORK.match(line) is None]


def settings(flow: Flow, name: str) -> list[tuple[str, str, str]]:
    """Of one of a flow's namespaces: a setting of its kernel, the value, and what to say where it is refused."""
    found = []
    for line in lab.settings(flow, name):
        match = _SETTING.fullmatch(line)
        if match is not None:
            value, setting = match.groups()
            found.append((setting, value, _refusal(flow, setting, value)))
    return found


def _refusal(flow: Flow, setting: str, value: str) -> str:
    name = f'flow "{flow.spec["name"]}"'
    if setting.endswith("tcp_ecn"):
        kind = next((kind for kind, number in system.TCP_ECN.items() if str(number) == value), value)
        return (
            f'{name}: the kernel of this machine has no ECN of the kind "{kind}" (net.ipv4.tcp_ecn = {value}); write '
            'ecn = "classic", or give --engine linux'
        )
    return f"{name}: the kernel of this machine refuses {setting.replace('/', '.')} = {value}; give --engine linux"


def controls() -> tuple[str, ...]:
    """The congestion controls of this machine's kernel."""
    return _controls("available")


def free() -> tuple[str, ...]:
    """Those that the kernel lets be the default of a namespace."""
    return _controls("allowed")


def allowing(control: str, controls: tuple[str, ...], free: tuple[str, ...]) -> str:
    """The command after which a kernel with these lets programs have a congestion control besides the free ones."""
    if control not in controls:
        return f"sudo modprobe tcp_{control}"
    return f"sudo sysctl net.ipv4.tcp_allowed_congestion_control='{' '.join((*free, control))}'"


def _controls(which: str) -> tuple[str, ...]:
    try:
        return tuple(Path(f"/proc/sys/net/ipv4/tcp_{which}_congestion_control").read_text().split())
    except OSError:
        return ()


def pairs(made: lab.Lab) -> list[list[dict[str, object]]]:
    """The hosts of each flow group, as `HostOptions` of `crates/bottleneck`: the sender's, then the receiver's."""
    found = []
    for flow in made.flows:
        mtu = flow.spec.get("mtu_bytes") or lab.MTU_FRAME - 14
        ends = ((flow.client, flow.source), (flow.server, flow.destination))
        found.append(
            [
                {
                    "name": name,
                    "ipv4": list(IPv4Address(address).packed),
                    **({"ipv6": list(IPv6Address(ipv6(address)).packed)} if flow.has_ipv6 else {}),
                    "mtu": mtu,
                    "settings": settings(flow, name),
                }
                for name, address in ends
            ]
        )
    return found
