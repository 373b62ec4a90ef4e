"""Flow groups as the laboratory has them: namespaces, addresses, ECN."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from ipaddress import IPv6Address

from l4slab import _core
from l4slab.base.run import Flow as Spec
from l4slab.base.run import MediaFlow, ProgramFlow, TcpFlow
from l4slab.engines.linux import carried
from l4slab.experimentfile.traffic import CLIENT6, SERVER6

CODEPOINTS = {"not-ect": 0, "ect1": 1, "ect0": 2, "ce": 3}


@dataclass(frozen=True)
class Flow:
    """A flow group and where its ends are."""

    number: int
    spec: Spec
    members: int = 0  # how many flows it has in the whole run
    hosts: tuple[str, str] = ("", "")  # addresses of its hosts, the sending one first, in the queues of links
    only: int | None = None  # one of them, from 0; None: all
    at: str = ""  # the namespace of the link that is in its sender's host, if there is one

    def singles(self) -> list[Flow]:
        """Each of its flows."""
        return [replace(self, only=one) for one in range(self.members)] if self.only is None else [self]

    @property
    def client(self) -> str:
        """The sender's namespace."""
        return self.at or f"c{self.number}"

    @property
    def server(self) -> str:
        """The receiver's namespace."""
        return f"s{self.number}"

    @property
    def coalescing(self) -> str:
        """The namespace where its packets wait for the receiver's interrupt."""
        return f"g{self.number}"

    @property
    def source(self) -> str:
        """The sender's address; the capture reads the flow's number from it."""
        return f"10.208.{self.number >> 8}.{self.number & 255}"

    @property
    def destination(self) -> str:
        """The receiver's address."""
        return f"10.224.{self.number >> 8}.{self.number & 255}"

    @property
    def ends(self) -> tuple[str, str]:
        """The addresses of sender and receiver outside the queues of links."""
        return self.source, self.destination

    @property
    def tcp(self) -> TcpFlow | None:
        """The run's description of TCP connections."""
        return self.spec if self.spec["kind"] == "tcp" else None

    @property
    def program(self) -> ProgramFlow | None:
        """The run's description of programs."""
        return self.spec if self.spec["kind"] == "program" else None

    @property
    def has_ipv6(self) -> bool:
        """Whether a command or a variable of its programs asks for an IPv6 address."""
        spec = self.program
        if spec is None:
            return False
        words = " ".join([spec["server"], spec["client"], *spec.get("env", {}).values()])
        return SERVER6 in words or CLIENT6 in words

    @property
    def media(self) -> MediaFlow | None:
        """What the run says of a call whose ends are programs."""
        spec = carried.of(self.spec)
        return spec if spec is not None and spec["kind"] == "media" else None

    @property
    def is_test(self) -> bool:
        """Whether its programs test responsiveness."""
        spec = carried.of(self.spec)
        return spec is not None and spec["kind"] == "responsiveness"

    def output(self, role: str, number: int) -> str:
        """The file, but for its end, with what one of its programs says (`data/programs.h`)."""
        return f"{self.spec['name'].replace('/', '_')}.{role}.{number}"

    @property
    def is_tcp(self) -> bool:
        """Whether it has ACKs."""
        return self.tcp is not None

    @property
    def is_program(self) -> bool:
        """Whether its ends are the user's own programs."""
        return self.program is not None

    @property
    def tos(self) -> int:
        """The byte with DSCP and, of a CBR source, the ECN field; TCP sets that itself."""
        ecn = 0 if self.is_tcp else CODEPOINTS[self.ecn]
        return int(self.spec["dscp"]) << 2 | ecn

    @property
    def ecn(self) -> str:
        """The sender's kind of ECN, or the codepoint of a CBR source; empty: the kernel's default."""
        ecn = str(self.spec.get("ecn") or "")
        if (program := self.program) is not None:
            return ecn or (default_ecn(program["cc"]) if program["cc"] else "")
        return ecn or (default_ecn(self.tcp["cc"]) if self.tcp is not None else "not-ect")

    @property
    def peer_ecn(self) -> str:
        """The receiver's kind of ECN."""
        return (self.tcp["peer_ecn"] if self.tcp is not None else None) or self.ecn

    @property
    def has_gso(self) -> bool:
        """Whether its sender's bursts cross the network as one packet each."""
        return self.tcp is not None and bool(self.tcp.get("gso"))

    @property
    def gro_ns(self) -> int | None:
        """The interrupt coalescing of the receiver that joins segments."""
        return self.tcp.get("gro_ns") if self.tcp is not None else None

    @property
    def reverse_path(self) -> list[str]:
        """The links that the ACKs, or what a program answers, cross."""
        return self.spec.get("reverse_path", []) if self.is_tcp or self.is_program else []


def ipv6(address: str) -> str:
    """The IPv6 address of the host with this IPv4 address, which are its last four bytes."""
    return str(IPv6Address(f"fd00::{address}"))


def default_ecn(cc: str) -> str:
    """The kind of ECN that a congestion control asks for by default."""
    return str(controller(cc)["ecn"])


@cache
def controller(name: str) -> _core.Controller:
    """The core's entry of a congestion control; one that only a kernel has gets Reno's."""
    known = {entry["name"]: entry for entry in _core.controllers()}
    return known.get(name) or {**known["reno"], "name": name, "in_linux": True, "parameters": []}


@cache
def is_known(name: str) -> bool:
    """Whether the core has this congestion control."""
    return any(entry["name"] == name for entry in _core.controllers())


def expected_ecn_mode(cc: str, ecn: str, peer_ecn: str) -> str:
    """How a negotiation ends: AccECN where both have it, classic where both have that at least. An ordinary host takes
    DCTCP's SYN, which is ECT, for a fault and does without, unless it asks for AccECN (`tcp_ecn_create_request`).
    """
    if "off" in (ecn, peer_ecn) or (cc == "dctcp" and ecn == "classic" and peer_ecn != ecn):
        return "off"
    return "accecn" if ecn == peer_ecn == "accecn" else "classic"
