"""Tunnels around flows: `[tunnel.NAME]`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from l4slab.base import run
from l4slab.base.errors import suggest
from l4slab.base.units import SIZE
from l4slab.base.values import Keys
from l4slab.experimentfile.tables import Quantity
from l4slab.experimentfile.wording import Place, Problem, Table, check, show

_ETHERNET = 14
_IP_MTU = 1500
_LEAST_MTU = 68
_MOST_WINDOW = 1 << 20


@dataclass(frozen=True)
class _Kind:
    """The defaults of a protocol, bytes."""

    overhead: int
    ecn: run.TunnelEcn
    mtu: int
    padding: int = 1
    trailer: int = 0
    copies_dscp: bool = False
    replay_window: int = 0


# All over IPv4, whose header is 20 bytes.
_KINDS: dict[run.TunnelKind, _Kind] = {
    # UDP 8, header 16, tag 16 (WireGuard's paper, 5.4.6), padded to 16 but not beyond the MTU. Linux: the MTU leaves
    # room for IPv6, DSCP 0, ECN by RFC 6040 (drivers/net/wireguard/send.c, receive.c); the counter may be
    # COUNTER_WINDOW_SIZE = 8128 below the newest (messages.h).
    "wireguard": _Kind(60, "normal", 1420, padding=16, replay_window=8129),
    # ESP in tunnel mode with AES-GCM: header 8, IV 8, trailer 2, tag 16 (RFC 4303, 2; RFC 4106). RFC 4301, 5.1.2.1
    # copies the DSCP, RFC 4303, 3.4.3 prefers a window of 64.
    "ipsec": _Kind(54, "normal", 1446, padding=4, trailer=2, copies_dscp=True, replay_window=64),
    # GRE header 4 (RFC 2784). Linux: tos 0, ECN by RFC 6040 (net/ipv4/ip_tunnel.c), as for ipip (RFC 2003).
    "gre": _Kind(24, "normal", _IP_MTU - 24),
    "ipip": _Kind(20, "normal", _IP_MTU - 20),
    # QUIC datagrams of connect-ip (RFC 9484): UDP 8, short header 1 + 8 + 2, frame type 1, stream and context 2, tag
    # 16. Not-ECT, as packets that QUIC does not control have to be.
    "masque": _Kind(58, "compatibility", _IP_MTU - 58),
}


class Tunnel(Table):
    """A tunnel around flows, in both directions."""

    kind: run.TunnelKind | None = Field(default=None, examples=['"wireguard"'])
    flows: list[str] | None = Field(default=None, examples=['["l4s"]'])
    links: list[str] | None = Field(default=None, examples=['["bottleneck"]'])
    overhead: Annotated[str, Quantity(SIZE, least=0, most=1000)] | None = Field(default=None, examples=['"60B"'])
    padding: Annotated[str, Quantity(SIZE, most=1000)] | None = Field(default=None, examples=['"16B"'])
    mtu: Annotated[str, Quantity(SIZE, least=_LEAST_MTU, most=9000)] | None = Field(default=None, examples=['"1420B"'])
    ecn: run.TunnelEcn | None = Field(default=None, examples=['"normal"'])
    dscp: Literal["copied", "zero"] | None = Field(default=None, examples=['"copied"'])
    replay_window: int | None = Field(default=None, ge=0, le=_MOST_WINDOW, examples=["64"])

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        if self.kind is None and "overhead" not in raw:
            return "", 'has no kind; add it, such as kind = "wireguard", or overhead such as "60B"'
        return None


def resolve(name: str, raw: Keys, flows: Mapping[str, run.Flow], links: Mapping[str, run.Link]) -> run.Tunnel | None:
    """The tunnel of a run, None if no flow uses it. Its flows of TCP get segments that fit into it. Raises Problem."""
    place: Place = ("tunnel", name)
    tunnel = check(Tunnel, raw, place)
    if tunnel.flows == []:
        return None
    inside = _named(place, "links", tunnel.links, links)
    carried = _named(place, "flows", tunnel.flows, flows)
    for one in inside:
        if links[one].get("on_host"):
            text = f'= {show(inside)} has link "{one}", which is in the host that sends'
            raise Problem(place, "links", f"{text}; name the links behind it")
    for one in carried if tunnel.flows is not None else ():
        if not any(link in inside for link in flows[one]["path"]):
            path = flows[one]["path"]
            text = f"= {show(carried)} has {show(one)}, whose path = {show(path)} has no link of the tunnel"
            raise Problem(place, "flows", f"{text}; leave it out, or add one of these to links")
    carried = [one for one in carried if any(link in inside for link in flows[one]["path"])]
    if not carried:
        raise Problem(place, "links", f"= {show(inside)} is on no flow's path; name a link that a flow crosses")
    usual = _KINDS[tunnel.kind] if tunnel.kind is not None else None
    overhead = _bytes(tunnel.overhead, usual.overhead if usual else 0)
    mtu = _bytes(tunnel.mtu, usual.mtu if usual and tunnel.overhead is None else _IP_MTU - overhead)
    for one in carried:
        _fit(place, one, flows[one], mtu)
    found: run.Tunnel = {
        "name": name,
        "flows": carried,
        "links": inside,
        "overhead_bytes": overhead,
        "padding_bytes": _bytes(tunnel.padding, usual.padding if usual else 1),
        "trailer_bytes": min(usual.trailer, overhead) if usual else 0,
        "mtu_bytes": mtu,
        "ecn": tunnel.ecn or (usual.ecn if usual else "normal"),
        "copies_dscp": tunnel.dscp == "copied" if tunnel.dscp else bool(usual and usual.copies_dscp),
        "replay_window": tunnel.replay_window
        if tunnel.replay_window is not None
        else (usual.replay_window if usual else 0),
    }
    if tunnel.kind is not None:
        found["kind"] = tunnel.kind
    return found


def refuse_overlaps(tunnels: Sequence[run.Tunnel], flows: Mapping[str, run.Flow]) -> None:
    """Raises Problem where a flow would be in two tunnels at once."""
    for number, tunnel in enumerate(tunnels):
        for other in tunnels[:number]:
            for name in (one for one in tunnel["flows"] if one in other["flows"]):
                for path in (flows[name]["path"], flows[name].get("reverse_path", [])):
                    first, second = span(path, tunnel["links"]), span(path, other["links"])
                    if set(first) & set(second):
                        text = (
                            f'= {show(tunnel["links"])} overlaps tunnel "{other["name"]}" on the path of {show(name)}'
                        )
                        raise Problem(("tunnel", tunnel["name"]), "links", f"{text}; put one behind the other")


def span(path: Sequence[str], links: Collection[str]) -> range:
    """The places of a path from the first to the last link of a tunnel."""
    places = [place for place, link in enumerate(path) if link in links]
    return range(places[0], places[-1] + 1) if places else range(0)


def _bytes(written: str | None, usual: int) -> int:
    return usual if written is None else SIZE.parse(written)


def _named(place: Place, key: str, written: list[str] | None, known: Mapping[str, object]) -> list[str]:
    """The names that are written, or all."""
    for position, name in enumerate(written or ()):
        if name not in known:
            raise Problem(place, key, f"= {show(written)} has no {key[:-1]} {show(name)}; {suggest(name, known)}")
        if name in (written or ())[:position]:
            raise Problem(place, key, f"= {show(written)} names {show(name)} twice; name it once")
    if written == []:
        raise Problem(place, key, f"= [] names none; name one, or leave {key} out")
    return list(known) if written is None else list(written)


def _fit(place: Place, name: str, flow: run.Flow, mtu: int) -> None:
    """Gives a TCP flow the tunnel's MTU. Raises Problem where the packets of another one are larger."""
    if flow["kind"] == "cbr" or flow["kind"] == "media" or flow["kind"] == "udp-prague":
        frame = flow["packet_bytes"]
        if frame > mtu + _ETHERNET:
            text = f'has room for packets of {mtu} B, and flow "{name}" has packet = "{frame}B" with 14 B of Ethernet'
            raise Problem(place, "", f'{text}; write packet = "{mtu + _ETHERNET}B", or a larger mtu here')
    elif flow["kind"] != "program":
        flow["mtu_bytes"] = min(flow.get("mtu_bytes") or _IP_MTU, mtu)
