"""From a resolved run to a laboratory: namespaces, veth pairs, netem, HTB and the queue under test.

A flow's packets go from namespace to namespace: sender `cN`, its delay `dN` (netem), for each link of its path the
impairments before it (`iM`), the link `kL` (HTB and the qdisc on its only way out) and the far end `xL`, then the
receiver `sN`. ACKs go from `sN` (the other half of the delay, netem) over the links of `reverse_path` or straight to
`cN`. The routes are by destination, which is unique per flow and direction. Delays stand in namespaces of their own,
because packets that wait in a qdisc of the sending host count for its TCP small queues. A link that is to be in the
sending host (`on_host`) has that host in `kL`, for all its flows, and their delays come behind it. Nobody sees what a
host gives to its own queue, so that a filter before the queue copies it to a device that goes nowhere (`COPIES`).

Flows that share a host keep namespaces, settings and addresses of their own, but in the queue of a link their packets
have the address of the host, from before they come to it until they have left it. Meanwhile the source address of the
frame says whose they are (`_put_on_hosts`).
"""

from __future__ import annotations

import json
import shlex
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby, pairwise
from typing import TypeVar

from l4slab import _core
from l4slab.base import system
from l4slab.base.run import Change, Class, Filter, Impair, Link, Rewrite, Run
from l4slab.base.run import Flow as Spec
from l4slab.base.units import TIME
from l4slab.engines.contract import LackingError
from l4slab.engines.linux import carried, programs, tunnels
from l4slab.engines.linux.flows import CODEPOINTS, Flow, controller, ipv6, is_known
from l4slab.engines.linux.rng import Stream
from l4slab.experimentfile import traces
from l4slab.experimentfile.classes import holder
from l4slab.experimentfile.queues import IN_ORDER

# What has a queue.
Queued = TypeVar("Queued", Link, Change, Class)

GATEWAY, GATEWAY6 = "169.254.0.1", "fe80::1"  # every neighbour is called so; the link address is set by hand
MTU_FRAME = 1514
TCP_IP_HEADERS = 52  # with time stamps
ACCECN_OPTION = 12
MAX_FLOWS = 4000
MAX_COUNT = 50_000
FIRST_PORT = 10_000
SERVER_PORT = 5001
NETEM_LIMIT = 1_000_000
COPIES = "copies"
HANDLE = 2  # of the queue under test; one of another kind has the next one
NEVER = 2**64 - 1

_HOST = [
    "echo 1 >/proc/sys/net/ipv4/ip_forward",
    # A timeout gives TCP's packets another hash, which here they would keep in routers, where headers are hashed.
    "echo 0 >/proc/sys/net/core/txrehash",
    "for f in /proc/sys/net/ipv4/conf/*/rp_filter /proc/sys/net/ipv4/conf/*/send_redirects; do echo 0 >\\$f; done",
]
# The receive window follows the rate as on any host, but may grow until it never limits.
_TCP = [
    "echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save",
    "echo 4096 131072 268435456 >/proc/sys/net/ipv4/tcp_rmem",
    "echo 4096 16777216 268435456 >/proc/sys/net/ipv4/tcp_wmem",
]


@cache
def queue(name: str) -> _core.Qdisc | None:
    """The core's entry of a queue; None for one that only a kernel has."""
    return next((entry for entry in _core.qdiscs() if entry["name"] == name), None)


def _with_its_defaults(run: Run) -> Run:
    def short(table: Queued) -> Queued:
        found = table.copy()
        if (qdisc := found.get("qdisc")) is not None:
            found["qdisc"] = _without_defaults(qdisc)
        return found

    links, at = [short(link) for link in run["links"]], [short(change) for change in run["at"]]
    for table in (*links, *at):
        if "classes" in table:
            table["classes"] = [short(one) for one in table["classes"]]
    return {**run, "links": links, "at": at}


@cache
def _without_defaults(qdisc: str) -> str:
    entry = queue(qdisc.split()[0])
    if entry is None:
        return qdisc
    bare = f"{entry['name']} {entry['required']}".strip()
    parameters, usual = _core.qdisc_facts(qdisc)["parameters"], _core.qdisc_facts(bare)["parameters"]
    needed = entry["required"].split()
    kept = [f"{key} {value}".strip() for key, value in parameters.items() if usual.get(key) != value or key in needed]
    found = " ".join([entry["name"], *kept])
    return found if _core.canonical_qdisc(found) == qdisc else qdisc


@dataclass
class _Edge:
    """A veth pair; `here` and `there` are its ends' namespaces, `device` and `far` their devices."""

    here: str
    there: str
    number: int
    root: list[str] = field(default_factory=list)  # tc commands for the near end
    cuts: bool = False  # whether packets of several segments leave as segments
    filters: list[str] = field(default_factory=list)
    at_far: list[str] = field(default_factory=list)  # the far end's filters

    @property
    def device(self) -> str:
        return "out" if self.here.startswith("k") else f"to_{self.there}"

    @property
    def far(self) -> str:
        return f"from_{self.here}"

    def mac(self, near: bool) -> str:
        return f"02:00:00:{'00' if near else '01'}:{self.number >> 8:02x}:{self.number & 255:02x}"


@dataclass
class Lab:
    """The set-up of a run: commands per namespace, and the plan of later events."""

    run: Run
    flows: list[Flow] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    edges: dict[tuple[str, str], _Edge] = field(default_factory=dict)
    routes: dict[str, dict[str, str]] = field(default_factory=dict)
    plan: list[str] = field(default_factory=list)
    ipv6: set[str] = field(default_factory=set)  # addresses of hosts that have one of IPv6, too
    varied: set[str] = field(default_factory=set)  # flows whose RTT may change
    handles: dict[str, int] = field(default_factory=dict)  # by link, of its newest queue
    kinds: dict[tuple[str, str], str] = field(default_factory=dict)  # of queue, by link and parent
    own_defaults: bool = False  # whether the kernel may have others than the core says

    @property
    def has_programs(self) -> bool:
        """Whether it needs the file system of the user's machine."""
        return any(flow.is_program for flow in self.flows)

    @property
    def impair_namespaces(self) -> list[str]:
        """Those of impairments, of data and of ACKs, that something passes."""
        return [name for name in self.namespaces if name[0] in "ij"]

    def impair_of(self, namespace: str) -> Impair:
        """The run's description of the impairment in this namespace."""
        return self.run["impairs"][int(namespace[1:]) - 1]

    def link_namespace(self, link: int) -> str:
        """Where the queue of the link with this index is; its device is called `out`."""
        return f"k{link + 1}"


def build(
    run: Run, pcap: bool = False, live: bool = False, own_defaults: bool = False, out: str = programs.OUT_FOLDER
) -> Lab:
    """The laboratory of `run`, a resolved description. `live`: while it runs it is told what comes next, and the end.

    `out`: the folder that programs write to. `own_defaults`: for a kernel of one's own. What is at its default is left
    out, as that kernel may have another one.
    """
    if own_defaults:
        run = _with_its_defaults(run)
    lab = Lab(run, own_defaults=own_defaults)
    lab.varied = {spec["name"] for spec in run["flows"] if live} | {
        str(change.get("flow")) for change in run["at"] if change.get("rtt_ns") is not None
    }
    links = [link["name"] for link in run["links"]]
    local = {link["name"]: lab.link_namespace(number) for number, link in enumerate(run["links"]) if is_local(link)}
    impairs = list(run.get("impairs", ()))
    for number, spec in enumerate(run["flows"], start=1):
        members = 1 if spec["kind"] == "program" else len(lives(run, spec))
        flow = Flow(number, spec, members, _hosts(number, spec), at=local.get(spec["path"][0], ""))
        lab.flows.append(flow)
        if flow.has_ipv6:
            lab.ipv6.update(flow.ends)
        _lay(lab, forward(lab, flow), flow.destination)
        if flow.is_tcp or flow.is_program:
            _lay(lab, _reverse(lab, flow, links, impairs), flow.source)
        for _, edge, command in _delays(lab, flow, spec["rtt_ns"]):
            edge.root = [f"qdisc replace {command}"]
        for number, *_ in tunnels.around(run, spec["name"], spec["path"]):
            if tunnels.address(f"t{number}") not in lab.routes[f"u{number}"]:
                # WireGuard's handshake needs a way back where no ACKs have one.
                _lay(lab, [f"u{number}", f"t{number}"], flow.source)
        _offload(lab, flow)
        _rewrites(lab, flow)
        _put_on_hosts(lab, flow)
    for number, link in enumerate(run["links"]):
        shaped = lab.edges.get((f"k{number + 1}", f"x{number + 1}"))
        if shaped is not None:
            shaped.root = [*_shaper(link), *_tree(link, lab.flows), *tunnels.divided(run, link, HANDLE)]
            if (policer := link.get("policer")) is not None:
                shaped.filters.append(f"filter add {_policed(policer)}")
            if is_local(link):
                shaped.filters.append(
                    f"filter add dev {shaped.device} egress matchall action mirred egress mirror dev {COPIES}"
                )
    for number, impair in enumerate(impairs, start=1):
        for (here, _), edge in lab.edges.items():
            if here in (f"i{number}", f"j{number}"):
                edge.root = [f"qdisc replace dev {edge.device} root netem {impair['netem']}"]
    for edge in lab.edges.values():
        _clear_outside(run, edge)
    _make_plan(lab, pcap, live, out)
    return lab


def _clear_outside(run: Run, edge: _Edge) -> None:
    """Makes what enters or leaves a tunnel Not-ECT on the outside, where its mode wants that."""
    clear = "action pedit ex munge ip tos set 0x0 retain 0x3 pipe action csum ip"
    here, there = edge.here, edge.there
    if tunnels.is_end(here) and tunnels.cleared(tunnels.of(run, here), is_entry=True):
        match = f"protocol ip flower src_ip {tunnels.address(here)}"
        edge.filters.append(f"filter add dev {edge.device} egress {match} {clear}")
    if tunnels.is_end(there) and tunnels.cleared(tunnels.of(run, there), is_entry=False):
        match = f"protocol ip flower dst_ip {tunnels.address(there)}"
        edge.at_far.append(f"filter add dev {edge.far} ingress {match} {clear}")


def unrolled(run: Run) -> Run:
    """A run whose traces are changes by [[at]]."""
    links = [link.copy() for link in run["links"]]
    flows = [flow.copy() for flow in run["flows"]]
    changes: list[Change] = []
    for link in links:
        if (rates := link.get("rate_trace")) is not None:
            steps = list(traces.rounds(rates, run["duration_ns"]))
            del link["rate_trace"]
            link["rate_bps"] = steps[0][1]
            changes += [
                {"time_ns": at, "link": link["name"], "rate_bps": rate, "qdisc": None} for at, rate in steps[1:]
            ]
    changed = list(run["at"])
    for flow in flows:
        if (delays := flow.get("delay_trace")) is not None:
            mine = [change for change in changed if change.get("flow") == flow["name"] and "rtt_ns" in change]
            changed = [change for change in changed if change not in mine]
            bases = [(0, flow["rtt_ns"]), *((change["time_ns"], change["rtt_ns"] or 0) for change in mine)]
            others = [change.copy() for change in mine]
            for change in others:
                del change["rtt_ns"]
            changes += [change for change in others if change.keys() - {"time_ns", "flow"}]
            steps = list(traces.rounds(delays, run["duration_ns"]))
            times = sorted({at for at, _ in (*steps, *bases)})
            rtts = [(at, _latest(bases, at) + _latest(steps, at)) for at in times]
            del flow["delay_trace"]
            flow["rtt_ns"] = rtts[0][1]
            changes += [
                {"time_ns": at, "flow": flow["name"], "rtt_ns": rtt}
                for (_, before), (at, rtt) in pairwise(rtts)
                if rtt != before
            ]
    at = sorted([*changed, *changes], key=lambda change: change["time_ns"])
    return {**run, "links": links, "flows": flows, "at": at}


def _latest(steps: list[tuple[int, int]], time_ns: int) -> int:
    return steps[bisect_right(steps, time_ns, key=lambda step: step[0]) - 1][1]


def forward(lab: Lab, flow: Flow) -> list[str]:
    """The namespaces on a flow's way from its sender to its receiver."""
    links = [link["name"] for link in lab.run["links"]]
    impairs = list(lab.run.get("impairs", ()))
    delay = [f"d{flow.number}"] if flow.spec["rtt_ns"] // 2 or flow.spec["name"] in lab.varied else []
    nodes = [] if flow.at else [flow.client, *delay]
    on_way = []
    for link in flow.spec["path"]:
        before = [
            f"i{number}"
            for number, impair in enumerate(impairs, start=1)
            if impair["before"] == link and impair["direction"] in ("forward", "both")
        ]
        number = links.index(link) + 1
        on_way.append([*before, f"k{number}", f"x{number}", *(delay if flow.at == f"k{number}" else [])])
    nodes += tunnels.through(lab.run, flow.spec["name"], flow.spec["path"], on_way, is_back=False)
    return [*nodes, *([flow.coalescing] if flow.gro_ns else []), flow.server]


def _offload(lab: Lab, flow: Flow) -> None:
    """Cuts packets of several segments before a queue that does so itself, where the capture would see only one of
    them, and before the receiver, as a wire does. Packets come to an interrupt together.
    """
    if flow.has_gso or flow.gro_ns is not None:
        for here, there in pairwise(forward(lab, flow)):
            if there == flow.server or (there[0] == "k" and cuts(lab.run["links"][int(there[1:]) - 1])):
                lab.edges[here, there].cuts = True
    if flow.gro_ns:
        edge = lab.edges[flow.coalescing, flow.server]
        edge.root = [
            f"qdisc replace dev {edge.device} root netem slot {flow.gro_ns}ns {flow.gro_ns}ns limit {NETEM_LIMIT}"
        ]


def is_local(link: Link) -> bool:
    """Whether it is in the host that sends."""
    return bool(link.get("on_host"))


def cuts(link: Link) -> bool:
    """Whether a queue of the link makes segments of a packet with several."""
    qdiscs = [link["qdisc"], *(qdisc for one in link.get("classes", ()) if (qdisc := one.get("qdisc")))]
    return any(_core.qdisc_facts(qdisc)["splits"] for qdisc in qdiscs if queue(qdisc.split()[0]) is not None)


def _reverse(lab: Lab, flow: Flow, links: list[str], impairs: list[Impair]) -> list[str]:
    nodes: list[str] = []
    for number, impair in enumerate(impairs, start=1):
        crosses = impair["before"] in flow.spec["path"] or impair["before"] in flow.reverse_path
        if crosses and impair["direction"] in ("reverse", "both"):
            nodes += [f"j{number}", f"y{number}"]
    if not flow.reverse_path:
        return [flow.server, *nodes, flow.client]
    on_way = [[f"k{links.index(link) + 1}", f"x{links.index(link) + 1}"] for link in flow.reverse_path]
    on_way[0] = nodes + on_way[0]
    nodes = tunnels.through(lab.run, flow.spec["name"], flow.reverse_path, on_way, is_back=True)
    return [flow.server, *nodes, flow.client]


def _lay(lab: Lab, nodes: list[str], destination: str) -> None:
    for node in nodes:
        if node not in lab.routes:
            lab.namespaces.append(node)
            lab.routes[node] = {}
    outside = None  # the other end of the tunnel that it is in
    for here, there in pairwise(nodes):
        edge = lab.edges.setdefault((here, there), _Edge(here, there, len(lab.edges)))
        if here == outside:
            outside = None
        elif tunnels.is_end(here):
            outside = tunnels.far(here)
            lab.routes[here][destination] = tunnels.DEVICE
        to = destination if outside is None else tunnels.address(outside)
        lab.routes[here][to] = edge.device


def _delays(lab: Lab, flow: Flow, rtt_ns: int) -> Iterable[tuple[str, _Edge, str]]:
    """Where a flow's packets and its ACKs are delayed: the namespace, the edge out of it, what `tc qdisc` is told."""
    half = rtt_ns // 2
    varied = flow.spec["name"] in lab.varied
    for (here, _), edge in lab.edges.items():
        delay = {f"d{flow.number}": half, flow.server: rtt_ns - half}.get(here)
        if delay or (delay is not None and varied):
            order = f" {IN_ORDER}" if varied else ""
            yield here, edge, f"dev {edge.device} root netem delay {delay}ns{order} limit {NETEM_LIMIT}"


def _shaper(link: Link) -> list[str]:
    # A size table is of the root, in Linux; what is below has the lengths that it gave.
    stab = f"stab {table} " if (table := link.get("stab")) else ""
    return [
        f"qdisc replace dev out root handle 1: {stab}htb default 1",
        f"class replace dev out parent 1: classid 1:1 {_htb(link['rate_bps'], link['burst_bytes'])}",
        f"qdisc replace dev out parent 1:1 handle {HANDLE}: {link['qdisc']}",
    ]


def _policed(policer: str) -> str:
    """The arguments of `tc filter` for a link's policer, before all other filters: what passes goes on to those."""
    return f"dev out egress pref 1 protocol all handle 1 matchall action police {policer.replace('pass', 'continue')}"


def _tree(link: Link, flows: Sequence[Flow]) -> Iterable[str]:
    """Classes below the queue under test, those above first, their queues, and the filters in their order. What is
    inside the queue of a class comes after this queue.
    """
    classes = {one["id"]: one for one in link.get("classes", ())}
    handles = handles_of(link)

    def depth(one: Class) -> int:
        return 1 + depth(classes[parent]) if (parent := one.get("parent")) is not None else 0

    for _, inside in groupby(sorted(classes.values(), key=_nesting), _nesting):
        level = list(inside)
        for one in sorted(level, key=depth):
            if one.keys() & _OF_CLASS:
                # prio and ets make their classes themselves.
                yield f"class replace {_class(handles, one, one)}"
        for one in level:
            if "qdisc" in one:
                yield (
                    f"qdisc replace dev out parent {classid(handles, one['id'])} handle {handles[one['id']]}: "
                    f"{one['qdisc']}"
                )
    preference = 0
    for number, rule in enumerate(link.get("filters", ()), 1):
        # The filters of a rule share its policer, which the first of them brings.
        policer = f" action police {words} index {number}" if (words := rule.get("policer")) is not None else ""
        for protocol, match in _matches(rule, flows):
            preference += 1
            yield (
                f"filter add dev out parent {handles[holder(rule['class'])]}: protocol {protocol} pref {preference} "
                f"flower {match} classid {classid(handles, rule['class'])}{policer}"
            )
            policer = policer and f" action police index {number}"


# What a class that `tc class` makes has one of.
_OF_CLASS = {"quantum_bytes", "curves"}


def _nesting(one: Class) -> int:
    """How many queues of classes a class is in."""
    return one["id"].count(":")


def handles_of(link: Link) -> dict[str, str]:
    """The handle of the queue of each class, and of the link's own."""
    own = {one["id"]: f"f{number:03x}" for number, one in enumerate(link.get("classes", ())) if "qdisc" in one}
    return {"": str(HANDLE), **own}


def classid(handles: Mapping[str, str], number: str) -> str:
    """A class as tc has it, by its number in the experiment file."""
    return f"{handles[holder(number)]}:{number.rpartition(':')[2]}"


def _class(handles: Mapping[str, str], of: Class, one: Class) -> str:
    """The arguments of `tc class` for a class `of` an htb, hfsc or drr with the numbers of `one`."""
    parent = classid(handles, above) if (above := of.get("parent")) is not None else f"{handles[holder(of['id'])]}:"
    place = f"dev out parent {parent} classid {classid(handles, one['id'])}"
    if (curves := one.get("curves")) is not None:
        return f"{place} hfsc {curves}"
    if "rate_bps" not in one:
        return f"{place} drr quantum {one['quantum_bytes']}"
    return (
        f"{place} htb rate {one['rate_bps']}bit ceil {one['ceil_bps']}bit burst {one['burst_bytes']}b "
        f"cburst {one['cburst_bytes']}b prio {one['prio']} quantum {one['quantum_bytes']}"
    )


# What tc calls a protocol, what pedit calls it and its ECN, and an address in it.
_Family = tuple[str, str, str, Callable[[str], str]]
_IPV4: _Family = ("ip", "ip", "tos", str)
_IPV6: _Family = ("ipv6", "ip6", "traffic_class", ipv6)


def _families(flows: Iterable[Flow]) -> list[_Family]:
    return [_IPV4, _IPV6] if any(flow.has_ipv6 for flow in flows) else [_IPV4]


def _matches(one: Filter, flows: Sequence[Flow]) -> Iterable[tuple[str, str]]:
    """The protocol and the arguments of flower for a filter; for a host, one as sender and one as receiver."""
    value = (one.get("dscp") or 0) << 2 | CODEPOINTS[one.get("ecn") or "not-ect"]
    mask = ("dscp" in one) * 0xFC | ("ecn" in one) * 0x3
    fields = f"ip_tos 0x{value:x}/0x{mask:x}" if mask else ""
    for protocol, _, _, address in _families(flows):
        if (number := one.get("host")) is None:
            yield protocol, fields
            continue
        host = address(_address_of(number, flows))
        yield protocol, f"src_ip {host} {fields}".strip()
        yield protocol, f"dst_ip {host} {fields}".strip()


def _hosts(number: int, spec: Spec) -> tuple[str, str]:
    sender, receiver = Flow(number, spec).ends
    if (host := spec.get("host")) is not None:
        sender = _named_host(host)
    if (host := spec.get("peer_host")) is not None:
        receiver = _named_host(host)
    return sender, receiver


def _named_host(number: int) -> str:
    """The address of a host with a name."""
    return f"10.240.{number >> 8}.{number & 255}"


def _address_of(host: int, flows: Sequence[Flow]) -> str:
    """The address of the host with this number in a run's description."""
    return flows[host].hosts[0] if host < len(flows) else _named_host(host)


def is_of_host(host: int, flows: Sequence[Flow]) -> list[bool]:
    """Of each flow, whether the host with this number sends or receives it."""
    address = _address_of(host, flows)
    return [address in flow.hosts for flow in flows]


def _put_on_hosts(lab: Lab, flow: Flow) -> None:
    """Gives a flow's packets the addresses of its hosts in the queues of links."""
    if flow.hosts == flow.ends:
        return
    links = [link["name"] for link in lab.run["links"]]
    both = ((0, flow.spec["path"]), (1, flow.reverse_path))
    for backwards, number in ((way, links.index(link) + 1) for way, path in both for link in path):
        edge = lab.edges[f"k{number}", f"x{number}"]
        # As lab.c reads it.
        mark = f"06:00:00:{backwards:02x}:{flow.number >> 8:02x}:{flow.number & 255:02x}"
        for family in _families([flow]):
            protocol, _, _, address = family
            pairs = [[address(end) for end in pair] for pair in (flow.ends, flow.hosts)]
            ends, hosts = (pair[::-1] if backwards else pair for pair in pairs)
            edge.filters.append(
                f"filter add dev {edge.device} egress protocol {protocol} flower src_ip {ends[0]} dst_ip {ends[1]} "
                f"action pedit ex munge eth src set {mark} "
                f"{_munged(flow, family, backwards, hosts, SERVER_PORT - 1 + flow.number)}"
            )
            # The checksums are right again, and nobody has looked at them meanwhile.
            edge.at_far.append(
                f"filter add dev {edge.far} ingress protocol {protocol} flower src_mac {mark} action pedit ex "
                f"{_munged(flow, family, backwards, ends, SERVER_PORT)}"
            )


def _munged(flow: Flow, family: _Family, backwards: int, addresses: Iterable[str], port: int) -> str:
    """Addresses for pedit, and the receiver's port, as groups between the same hosts have the same ones at the ends."""
    source, destination = addresses
    found = f"munge {family[1]} src set {source} munge {family[1]} dst set {destination}"
    if flow.is_program:
        return found
    return f"{found} munge {'tcp' if flow.is_tcp else 'udp'} {'sport' if backwards else 'dport'} set {port}"


def _htb(rate_bps: int, burst_bytes: int) -> str:
    return (
        f"htb rate {rate_bps}bit ceil {rate_bps}bit burst {burst_bytes}b cburst {burst_bytes}b quantum {2 * MTU_FRAME}"
    )


def composed_rewrites(flow: str, rewrites: Iterable[Rewrite], places: list[tuple[str, str]]) -> dict[str, str]:
    """The new value of each codepoint at successive places (side, link). The first matching rule of a place counts."""
    changed = {}
    rules = [rule for rule in rewrites if rule["flow"] == flow]
    for codepoint in CODEPOINTS:
        now = codepoint
        for side, link in places:
            for rule in rules:
                if (rule["where"], rule["link"], rule["from"]) == (side, link, now):
                    now = rule["to"]
                    break
        if now != codepoint:
            changed[codepoint] = now
    return changed


def _rewrites(lab: Lab, flow: Flow) -> None:
    links = [link["name"] for link in lab.run["links"]]
    nodes = forward(lab, flow)
    for here, there in pairwise(nodes):
        places = []
        if here.startswith("x"):
            places.append(("after", links[int(here[1:]) - 1]))
        if there.startswith("k"):
            places.append(("before", links[int(there[1:]) - 1]))
        edge = lab.edges[here, there]
        for old, new in composed_rewrites(flow.spec["name"], lab.run["rewrites"], places).items():
            for protocol, header, tos, address in _families([flow]):
                action = "action drop"
                if new != "drop":
                    action = f"action pedit ex munge {header} {tos} set 0x{CODEPOINTS[new]:x} retain 0x3"
                    action += " pipe action csum ip" if protocol == "ip" else ""
                to = address(flow.destination)
                edge.filters.append(
                    f"filter add dev {edge.device} egress protocol {protocol} flower dst_ip {to} "
                    f"ip_tos 0x{CODEPOINTS[old]:x}/0x3 {action}"
                )


def _make_plan(lab: Lab, pcap: bool, live: bool, out: str) -> None:
    run = lab.run
    duration = NEVER // 2 if live else run["duration_ns"]
    plan = [f"time {duration} {run['warmup_ns']} {run['sample_ns']}"]
    words = (("pcap", pcap), ("live", live), ("checksums", damages(run)))
    plan += [word for word, wanted in words if wanted]
    plan += [f"ns {name}" for name in lab.namespaces]
    for number in range(len(run["links"])):
        if lab.link_namespace(number) in lab.routes:
            copies = f" {COPIES}" if is_local(run["links"][number]) else ""
            plan.append(f"link {number} {lab.link_namespace(number)} out{copies}")
    # The end that shakes hands comes last, so that somebody answers.
    for node in sorted(filter(tunnels.is_end, lab.namespaces), reverse=True):
        plan.append(f"tunnel {node[1:]} {int(node[0] == 'u')} {node}")
    if not live:
        plan += [f"impair {number} {name}" for number, name in enumerate(lab.impair_namespaces)]
    if pcap:
        plan += [f"host {flow.client} {flow.number}" for flow in lab.flows if not (flow.is_program or flow.at)]
    if lab.has_programs:
        plan += programs.host()
    for flow in lab.flows:
        spans = lives(run, flow.spec)
        plan += ends(flow, spans) if flow.program is None else programs.plan(flow, flow.program, spans, out)
    for change in run["at"]:
        plan += orders(lab, change)
    lab.plan = plan


def damages(run: Run) -> bool:
    """Whether packets are corrupted: then the captures look at their checksums."""
    netems = [*(one["netem"] for one in run.get("impairs", ())), *(str(one.get("netem")) for one in run["at"])]
    return any("corrupt" in netem.split() for netem in netems)


def lives(run: Run, spec: Spec) -> list[tuple[int, int]]:
    """When each connection of a group begins and ends, in ns, with the same jitter as in the simulator: those that it
    has from the start, and those that come when its count is raised. When it is lowered, the last that came end.
    """
    jitter = run["start_jitter_ns"]
    stop = NEVER if spec["stop_ns"] is None else spec["stop_ns"]
    starts = (spec["start_ns"] + Stream(run["seed"], spec["name"], i).below(jitter) for i in range(spec["count"]))
    found = [(start, stop) for start in starts]
    if spec.get("events") is not None:
        found += _core.lives(json.dumps(spec), run["seed"], run["duration_ns"])
    active = list(range(len(found)))
    for change in run["at"]:
        count = change.get("count")
        if change.get("flow") != spec["name"] or count is None:
            continue
        while len(active) > count:
            last = active.pop()
            found[last] = (found[last][0], min(found[last][1], change["time_ns"]))
        while len(active) < count:
            active.append(len(found))
            found.append((change["time_ns"], NEVER))
    return found


def ends(flow: Flow, spans: Iterable[tuple[int, int]], first: int = 0) -> Iterable[str]:
    """The plan's lines for connections of a flow that begin and end so; `first`: the number of the first one."""
    spec = flow.spec
    for index, (start, stop) in enumerate(spans, first):
        words = (
            f"{flow.number} {index} {FIRST_PORT + index} {flow.client} {flow.source} {flow.server} {flow.destination} "
            f"{start} {stop}"
        )
        if spec["kind"] == "cbr":
            yield f"udp {words} {spec['rate_bps']} {flow.tos} {spec['packet_bytes']} {spec['batch']}"
        if spec["kind"] != "tcp":
            continue
        # The kernel paces payload; rates in the file are of frames.
        mtu = spec.get("mtu_bytes") or MTU_FRAME - 14
        headers = TCP_IP_HEADERS + (ACCECN_OPTION if flow.ecn == flow.peer_ecn == "accecn" else 0)
        pace = (spec["pace_bps"] or 0) * (mtu - headers) // (mtu + 14) // 8
        size = NEVER if spec["bytes"] is None else spec["bytes"]
        # A receiver without AccECN cannot use a congestion control that insists on it.
        own = flow.peer_ecn == flow.ecn
        server_cc = spec["cc"] if own else "cubic"
        writes = f"{spec.get('rate_bps') or 0} {spec.get('block_bytes') or 0}"
        yield f"tcp {words} {pace} {size} {flow.tos} {spec['cc']} {server_cc} {writes}"


def orders(lab: Lab, change: Change) -> Iterable[str]:
    """The plan's lines for a change during the run, except the number of flows (`lives`)."""
    when = f"at {change['time_ns']}"
    rate = change.get("rate_bps")
    if change.get("flow") is not None:
        flow = next(flow for flow in lab.flows if flow.spec["name"] == change.get("flow"))
        if (rtt_ns := change.get("rtt_ns")) is not None:
            for ns, _, command in _delays(lab, flow, rtt_ns):
                yield f"{when} do {ns} tc qdisc change {command}"
        if rate is not None:
            yield f"{when} rate {flow.number} {rate}"
        if (pauses := change.get("pause")) is not None:
            yield f"{when} pause {flow.number} {int(pauses)}"
        return
    if change.get("impair") is not None:
        number = next(n for n, one in enumerate(lab.run["impairs"], 1) if one["name"] == change.get("impair"))
        for (here, _), edge in lab.edges.items():
            if here in (f"i{number}", f"j{number}"):
                yield f"{when} do {here} tc qdisc change dev {edge.device} root netem {change.get('netem')}"
        return
    names = [link["name"] for link in lab.run["links"]]
    number = names.index(str(change.get("link")))
    ns = lab.link_namespace(number)
    if ns not in lab.routes:
        return
    if rate is not None:
        shaper = _htb(rate, lab.run["links"][number]["burst_bytes"])
        yield f"{when} do {ns} tc class change dev out parent 1: classid 1:1 {shaper}"
    if (policer := change.get("policer")) is not None:
        yield f"{when} do {ns} tc filter replace {_policed(policer)}"
    classes = {one["id"]: one for one in lab.run["links"][number].get("classes", ())}
    handles = handles_of(lab.run["links"][number])
    queues = [("1:1", qdisc)] if (qdisc := change.get("qdisc")) is not None else []
    first = {"1:1": lab.run["links"][number]["qdisc"]}
    first |= {classid(handles, one["id"]): one.get("qdisc") or "" for one in classes.values()}
    for one in change.get("classes", ()):
        if one.keys() & _OF_CLASS:
            yield f"{when} do {ns} tc class change {_class(handles, classes[one['id']], one)}"
        if (qdisc := one.get("qdisc")) is not None:
            queues.append((classid(handles, one["id"]), qdisc))
    for parent, qdisc in queues:
        before, kind = lab.kinds.get((ns, parent), first[parent].split()[0]), qdisc.split()[0]
        lab.kinds[ns, parent] = kind
        if kind == before:
            # Some kernels refuse a change that names nothing. To these tc always tells all.
            if qdisc != kind or kind in ("netem", "sfb"):
                yield f"{when} do {ns} tc qdisc change dev out parent {parent} {qdisc}"
            continue
        lab.handles[ns] = lab.handles.get(ns, HANDLE) + 1
        yield f"{when} do {ns} tc qdisc replace dev out parent {parent} handle {lab.handles[ns]:x}: {qdisc}"


def module_parameters(run: Run, own_defaults: bool = False) -> dict[str, str]:
    """Options of congestion controls as parameters of the kernel's modules: `module/parameter` and value.

    Raises ValueError for options that the kernel does not have, and where flows want different ones.
    """
    wanted: dict[str, str] = {}
    seen: dict[str, tuple[str, dict[str, str]]] = {}
    for flow in run["flows"]:
        spec = carried.of(flow) or flow
        if spec["kind"] != "tcp" and spec["kind"] != "responsiveness":
            continue
        if spec["receive_window_bytes"] is not None:
            raise ValueError(
                f'flow "{spec["name"]}": receive_window is of the sim engine; leave it out, or use that engine'
            )
        if "transport" in spec:
            raise ValueError(f'flow "{spec["name"]}": transport is of the sim engine; leave it out, or use that engine')
        cc, options = spec["cc"], dict(spec["options"])
        other, others = seen.setdefault(cc, (spec["name"], options))
        if others != options:
            raise ValueError(
                f'flows "{other}" and "{spec["name"]}" give {cc} different options; '
                "a kernel has one set of options per congestion control, so use the sim engine"
            )
        if not is_known(cc):
            wanted |= {f"tcp_{cc}/{option}": value for option, value in options.items()}
            continue
        for known in controller(cc)["parameters"]:
            option, module = known["keyword"], known["module"]
            value = options[option]
            numbers = dict(module["values"]) if module else {}
            if module and not (numbers and value not in numbers):
                if (cc in _SET_ALWAYS and not own_defaults) or value != known["default"]:
                    wanted[f"tcp_{cc}/{module['parameter']}"] = numbers.get(value) or _microseconds(value)
            elif value != known["default"]:
                raise ValueError(
                    f'flow "{spec["name"]}": the kernel\'s {cc} has no option {option} (= "{value}"); '
                    "leave it out, or use the sim engine"
                )
    return wanted


# The project's own module: its defaults need not be known.
_SET_ALWAYS = {entry["name"] for entry in _core.controllers() if entry["out_of_tree"]}


def _microseconds(value: str) -> str:
    """A time in microseconds, as modules take it; a plain number stays."""
    return value if value.isdigit() else str(TIME.parse(value) // 1000)


def script(lab: Lab) -> str:
    """Shell commands that set the laboratory up, on any Linux host, as root."""
    lines = [
        "#!/bin/sh",
        "# The laboratory of one l4slab run: sh setup.sh && cc -O2 -o lab lab.c && ./lab plan . (as root)",
        "set -e",
    ]
    lines += [f"ip netns add {name}" for name in lab.namespaces]
    lines += [
        "echo 1000000 >/proc/sys/net/core/netdev_max_backlog",
        "cat /proc/sys/net/ipv4/tcp_available_congestion_control >/proc/sys/net/ipv4/tcp_allowed_congestion_control",
    ]
    lines += [
        f"echo {shlex.quote(value)} >/sys/module/{name.replace('/', '/parameters/', 1)}"
        for name, value in module_parameters(lab.run, lab.own_defaults).items()
    ]
    lines.append("ip -batch - <<EOF")
    for edge in lab.edges.values():
        lines.append(
            f"link add {edge.device} address {edge.mac(True)} netns {edge.here} type veth "
            f"peer name {edge.far} address {edge.mac(False)} netns {edge.there}"
        )
    lines.append("EOF")
    hosts: dict[str, list[Flow]] = {}
    for flow in lab.flows:
        for name in (flow.client, flow.server):
            hosts.setdefault(name, []).append(flow)
    for name in lab.namespaces:
        lines += [f"ip netns exec {name} sh -e <<EOF", *_namespace(lab, name, hosts.get(name, [])), "EOF"]
    return "\n".join(lines) + "\n"


def _namespace(lab: Lab, name: str, flows: Sequence[Flow]) -> list[str]:
    out = [edge for edge in lab.edges.values() if edge.here == name]
    into = [edge for edge in lab.edges.values() if edge.there == name]
    devices = [*(edge.device for edge in out), *(edge.far for edge in into)]
    has_ipv6 = not lab.ipv6.isdisjoint(lab.routes[name])
    ip = ["link set lo up"]
    lines = [*_HOST, *(programs.ipv6_settings(devices) if has_ipv6 else ())]
    # Several flows are at a link in their host, which has the same settings for all.
    flow = flows[0] if flows else None
    for one in flows:
        own = one.source if name == one.client else one.destination
        ip += [f"addr add {own}/32 dev lo", *([f"addr add {ipv6(own)} dev lo"] if one.has_ipv6 else [])]
    if flow is not None:
        lines += settings(flow, name)
    ip += [f"link set {device} up" for device in devices]
    if tunnels.is_end(name):
        ip += tunnels.commands(lab.run, name)
    for edge in out:
        ip += [
            f"neigh replace {gateway} lladdr {edge.mac(False)} dev {edge.device} nud permanent"
            for gateway in (GATEWAY, *([GATEWAY6] if has_ipv6 else []))
        ]
    for destination, device in lab.routes[name].items():
        sizes = [one.spec["mtu_bytes"] for one in flows if destination in one.ends and "mtu_bytes" in one.spec]
        mtu = f" mtu {sizes[0]}" if sizes else ""
        if device == tunnels.DEVICE:
            ip.append(f"route add {destination}/32 dev {device}")
            continue
        source = f" src {tunnels.address(name)}" if tunnels.is_end(name) else ""
        ip.append(f"route add {destination}/32 via {GATEWAY} dev {device} onlink{mtu}{source}")
        if destination in lab.ipv6:
            ip.append(f"route add {ipv6(destination)} via {GATEWAY6} dev {device} onlink")
    if flow is not None:
        outward = [edge.device for edge in out]
        # What a device does not sum up itself, it does not segment.
        off = "gro off" if flow.has_gso and name == flow.client else "tso off gso off gro off tx off"
        lines += [f"ethtool -K {device} {off}" for device in outward]
        if flow.gro_ns is not None and name == flow.server:
            lines += [f"ethtool -K {edge.far} gro on" for edge in into]
        if flow.is_program:
            lines += [f"ethtool -K {device} tx-udp-segmentation off" for device in outward]
        if flow.at == name:
            lines += [f"ip link add {COPIES} type dummy", f"ip link set {COPIES} up"]
            if cuts(lab.run["links"][int(name[1:]) - 1]):
                # The queue cuts packets itself, and so each segment leaves apart.
                lines.append(f"ethtool -K {COPIES} tso off gso off")
    lines += [f"ethtool -K {edge.device} tso off gso off" for edge in out if edge.cuts]
    after = [f"ethtool -K {tunnels.DEVICE} gro off gso off tso off"] if tunnels.is_end(name) else []
    tc = []
    if flow is not None and flow.is_program:
        ways = {destination: next(e for e in out if e.device == to) for destination, to in lab.routes[name].items()}
        for edge in into:
            for destination, way in ways.items():
                one_ip, one_tc = programs.answering(edge.far, destination, way.device, way.mac(False), GATEWAY)
                ip += one_ip
                tc += one_tc
                if destination in lab.ipv6:
                    to = ipv6(destination)
                    ip += programs.answering(edge.far, to, way.device, way.mac(False), GATEWAY6)[0]
    lines += ["ip -batch - <<X", *ip, "X", *after]
    for edge in out:
        tc += edge.root
        if edge.filters:
            tc += [f"qdisc add dev {edge.device} clsact", *edge.filters]
    for edge in into:
        if edge.at_far:
            tc += [f"qdisc add dev {edge.far} clsact", *edge.at_far]
    if tc:
        lines += ["tc -batch - <<X", *tc, "X"]
    return lines


def settings(flow: Flow, name: str) -> list[str]:
    """Shell commands for the namespace of this name, one of the flow's hosts."""
    ecn = flow.ecn if name == flow.client else flow.peer_ecn
    lines = [*_TCP, f"echo {system.TCP_ECN[ecn]} >/proc/sys/net/ipv4/tcp_ecn"] if flow.is_tcp else []
    lines += programs.settings(flow.program, system.TCP_ECN.get(ecn)) if flow.program is not None else []
    rto_ns = flow.tcp.get("rto_min_ns") if flow.tcp is not None else None
    if name == flow.client and rto_ns is not None:
        lines.append(f"echo {rto_ns // 1000} >/proc/sys/net/ipv4/tcp_rto_min_us")
    return lines


def teardown(lab: Lab) -> str:
    """Shell commands that print every queue's configuration and counters."""
    lines = ["#!/bin/sh"]
    for name in lab.namespaces:
        if any(edge.here == name and edge.root for edge in lab.edges.values()):
            lines += [f"echo '# {name}'", f"ip netns exec {name} tc -s -d qdisc show"]
        if name.startswith("k"):
            lines.append(f"ip netns exec {name} tc -s -d class show dev out")
    return "\n".join(lines) + "\n"


def refuse_waiting(run: Run, engine: str) -> None:
    """Raises ValueError with a change that waits for a state, where a run goes on without another one behind it."""
    for change in run["at"]:
        if (awaited := change.get("state")) is not None:
            raise LackingError(
                f'a change waits for state = "{awaited["name"]}" of flow "{awaited["flow"]}", and the {engine} engine '
                "sees no states while it runs; write its time, or use the sim engine"
            )
