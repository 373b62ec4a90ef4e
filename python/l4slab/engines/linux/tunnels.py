"""WireGuard between the kernel's namespaces: tunnel N is the device `wg` in `tN`, where data go in, and in `uN`.

`lab.c` gives both their keys, and knows by the numbers on the outside what is inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from l4slab.base.run import Flow, Link, Run, Tunnel
from l4slab.engines.contract import LackingError
from l4slab.experimentfile.tunnels import span

DEVICE = "wg"
# Of a link of 1500 B, less IPv4, UDP, header and tag.
_MOST_MTU = 1440
# What the kernel's WireGuard does and nobody can change.
_FIXED: Mapping[str, object] = {
    "overhead_bytes": 60,
    "padding_bytes": 16,
    "copies_dscp": False,
    "replay_window": 8129,
}
_KEYS = {"overhead_bytes": "overhead", "padding_bytes": "padding", "copies_dscp": "dscp"}


def around(run: Run, name: str, path: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """The tunnels on a flow's path: their numbers from 1 on, and the places of their first and their last link."""
    for number, tunnel in enumerate(run.get("tunnels", ()), 1):
        inside = span(path, tunnel["links"])
        if inside and name in tunnel["flows"]:
            yield number, inside[0], inside[-1]


def through(run: Run, name: str, path: Sequence[str], nodes: Sequence[Sequence[str]], is_back: bool) -> list[str]:
    """The namespaces on a path with those of its tunnels; `nodes`: those of each link."""
    ends = "ut" if is_back else "tu"
    found = [list(of_link) for of_link in nodes]
    for number, first, last in around(run, name, path):
        found[first].insert(0, f"{ends[0]}{number}")
        found[last].append(f"{ends[1]}{number}")
    return [node for of_link in found for node in of_link]


def is_end(node: str) -> bool:
    """Whether this namespace is an end of a tunnel."""
    return node[0] in "tu"


def address(node: str) -> str:
    """The outer address of an end, as lab.c knows it."""
    return f"10.200.{node[1:]}.{1 + (node[0] == 'u')}"


def far(node: str) -> str:
    """The other end."""
    return ("u" if node[0] == "t" else "t") + node[1:]


def of(run: Run, node: str) -> Tunnel:
    """The tunnel of an end."""
    return run["tunnels"][int(node[1:]) - 1]


def commands(run: Run, node: str) -> list[str]:
    """What `ip -batch` is told in an end's namespace."""
    return [
        f"addr add {address(node)}/32 dev lo",
        f"link add {DEVICE} mtu {of(run, node)['mtu_bytes']} type wireguard",
        f"link set {DEVICE} up",
    ]


# Queues that divide packets by the hash of their flow, and the parameter that says into how many.
_FAIR = {"fq_codel": ("flows", 1024), "sfq": ("divisor", 1024)}
# Those of them that take no filters.
_CLOSED = {"fq", "fq_pie"}


def divided(run: Run, link: Link, handle: int) -> Iterator[str]:
    """The filters of a link's queue that divide packets by their headers. A packet keeps the hash of its socket through
    WireGuard (`wg_reset_packet`), so a queue in the same kernel sees the flows inside. One in a router does not.
    """
    numbers = [n for n, tunnel in enumerate(run.get("tunnels", ()), 1) if link["name"] in _crossed(run, tunnel)]
    kind, *words = link["qdisc"].split()
    for number in numbers if kind == "cake" else ():
        for side, node in enumerate((f"t{number}", f"u{number}")):
            match = f"protocol ip pref {2 * number + side} flower src_ip {address(node)}"
            yield f"filter add dev out parent {handle}: {match} classid {handle}:{number}"
    if numbers and kind in _FAIR:
        key, usual = _FAIR[kind]
        count = words[words.index(key) + 1] if key in words else usual
        keys = "src,dst,proto,proto-src,proto-dst"
        yield f"filter add dev out parent {handle}: protocol all handle 1 flow hash keys {keys} divisor {count}"


def _crossed(run: Run, tunnel: Tunnel) -> set[str]:
    """The links that packets cross in a tunnel."""
    flows = [flow for flow in run["flows"] if flow["name"] in tunnel["flows"]]
    return {link for flow in flows for path in _inside(flow, tunnel) for link in path}


def cleared(tunnel: Tunnel, is_entry: bool) -> bool:
    """Whether tc has to make outer packets Not-ECT, before they leave the entry or before the exit looks at them: the
    kernel's WireGuard does what RFC 6040 calls the normal mode.
    """
    return tunnel["ecn"] in (("compatibility", "bleached") if is_entry else ("bleached", "copied"))


def refuse(run: Run) -> None:
    """Raises LackingError with what the kernel cannot do with tunnels here."""
    for tunnel in run.get("tunnels", ()):
        name = f'tunnel "{tunnel["name"]}"'
        if tunnel.get("kind") != "wireguard":
            raise LackingError(f'{name}: the linux engine has kind = "wireguard" only; use the sim engine')
        for key, value in _FIXED.items():
            if tunnel[key] != value:  # type: ignore[literal-required]
                raise LackingError(f"{name}: the kernel's WireGuard has its own {_KEYS.get(key, key)}; leave it out")
        if tunnel["mtu_bytes"] > _MOST_MTU:
            raise LackingError(f'{name}: the linux engine has links of 1500 B; write mtu = "{_MOST_MTU}B"')
        paths = [_inside(flow, tunnel) for flow in run["flows"] if flow["name"] in tunnel["flows"]]
        if any(one != paths[0] for one in paths):
            raise LackingError(f"{name}: here all its flows cross the same links inside; use a tunnel for each path")
        if any("corrupt" in impair["netem"].split() for impair in run.get("impairs", ())):
            raise LackingError(f"{name}: the linux engine does not follow corrupt packets into a tunnel; leave one out")
        for flow in run["flows"]:
            if flow["name"] in tunnel["flows"] and flow["kind"] not in ("tcp", "cbr"):
                raise LackingError(f'{name}: the linux engine carries TCP and CBR, not kind = "{flow["kind"]}"')
        for link in run["links"]:
            if link["name"] in _crossed(run, tunnel):
                _refuse_queues(run, link, name)
        for rewrite in run["rewrites"]:
            if rewrite["flow"] in tunnel["flows"]:
                raise LackingError(f'{name}: the linux engine rewrites no ECN field of its flow "{rewrite["flow"]}"')


def _refuse_queues(run: Run, link: Link, name: str) -> None:
    """Raises LackingError for a queue that would see the flows in a tunnel (`divided`)."""
    text = f'{name}: in link "{link["name"]}" the kernel would sort packets by the flows inside'
    changes = [change for change in run["at"] if change.get("link") == link["name"]]
    queues = [link["qdisc"], *(queue for change in changes if (queue := change.get("qdisc")))]
    kinds = {queue.split()[0] for queue in queues}
    if kinds & _CLOSED or "classes" in link:
        raise LackingError(f"{text}; use fq_codel, sfq, cake or a queue without flows and classes, or the sim engine")
    if len(kinds) > 1 and kinds & {"cake", *_FAIR}:
        raise LackingError(f"{text} after a change of the kind of its queue; use the sim engine")


def _inside(flow: Flow, tunnel: Tunnel) -> list[Sequence[str]]:
    """The links that a flow crosses in a tunnel, there and back."""
    paths = (flow["path"], flow.get("reverse_path", []))
    return [[path[place] for place in span(path, tunnel["links"])] for path in paths]
