"""Flow groups as the laboratory has them: namespaces, addresses, ECN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from l4slab import _core

CODEPOINTS = {"not-ect": 0, "ect1": 1, "ect0": 2, "ce": 3}


@dataclass(frozen=True)
class Flow:
    """A flow group and where its ends are."""

    number: int
    spec: Mapping[str, Any]
    members: int = 0  # how many flows it has in the whole run
    hosts: tuple[str, str] = ("", "")  # addresses of its hosts, the sending one first, in the queues of links
    only: int | None = None  # one of them, from 0; None: all

    def singles(self) -> list[Flow]:
        """Each of its flows."""
        return [replace(self, only=one) for one in range(self.members)] if self.only is None else [self]

    @property
    def client(self) -> str:
        """The sender's namespace."""
        return f"c{self.number}"

    @property
    def server(self) -> str:
        """The receiver's namespace."""
        return f"s{self.number}"

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
    def is_tcp(self) -> bool:
        """Whether it has ACKs."""
        return bool(self.spec["kind"] == "tcp")

    @property
    def is_program(self) -> bool:
        """Whether its ends are the user's own programs."""
        return bool(self.spec["kind"] == "program")

    @property
    def tos(self) -> int:
        """The byte with DSCP and, of a CBR source, the ECN field; TCP sets that itself."""
        ecn = 0 if self.is_tcp else CODEPOINTS[self.ecn]
        return int(self.spec["dscp"]) << 2 | ecn

    @property
    def ecn(self) -> str:
        """What the sender asks for, or the codepoint of a CBR source; empty: what the kernel's default is."""
        if self.is_program:
            cc = self.spec["cc"]
            return str(self.spec["ecn"] or (default_ecn(cc) if cc else ""))
        return str(self.spec["ecn"] or (default_ecn(self.spec["cc"]) if self.is_tcp else "not-ect"))

    @property
    def peer_ecn(self) -> str:
        """What the receiver supports."""
        return str(self.spec.get("peer_ecn") or self.ecn)

    @property
    def reverse_path(self) -> list[str]:
        """The links that the ACKs, or what a program answers, cross."""
        return self.spec["reverse_path"] if self.is_tcp or self.is_program else []


def default_ecn(cc: str) -> str:
    """What a congestion control wants when nothing is said."""
    return str(controller(cc)["ecn"])


@cache
def controller(name: str) -> dict[str, Any]:
    """What the core says of a congestion control; one that only a kernel has is like Reno there."""
    known = {entry["name"]: entry for entry in _core.controllers()}
    return known.get(name) or {"name": name, "in_linux": True, "ecn": known["reno"]["ecn"], "parameters": None}


def expected_ecn_mode(cc: str, ecn: str, peer_ecn: str) -> str:
    """How a negotiation ends: AccECN where both have it, classic where both have that at least. An ordinary host takes
    DCTCP's SYN, which is ECT, for a fault and does without, unless it asks for AccECN (`tcp_ecn_create_request`).
    """
    if "off" in (ecn, peer_ecn) or (cc == "dctcp" and ecn == "classic" and peer_ecn != ecn):
        return "off"
    return "accecn" if ecn == peer_ecn == "accecn" else "classic"
