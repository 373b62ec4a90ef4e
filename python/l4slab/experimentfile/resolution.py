"""From one complete document to the plain description of a run: ns, bit/s and bytes, every default filled in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from l4slab.base import run
from l4slab.base.code import Kind
from l4slab.base.errors import InputError, suggest
from l4slab.base.paths import name_mistake
from l4slab.base.units import TIME
from l4slab.base.values import Keys
from l4slab.experimentfile import classes, local, media, traces, tunnels
from l4slab.experimentfile.file import Document
from l4slab.experimentfile.outside import Outside
from l4slab.experimentfile.queues import IN_ORDER, netem_of, qdisc_of, split_stab
from l4slab.experimentfile.tables import TOP_FACTORS, Impair, Link, Rewrite, Top
from l4slab.experimentfile.timed import Changes, no_station
from l4slab.experimentfile.traffic import flow_model
from l4slab.experimentfile.wording import Mistakes, Place, Problem, check, input_error, numbered, show, told

Made = TypeVar("Made")
_AFTER_END = "is not before the end of the run, "


@dataclass
class Resolver:
    """Turns complete documents of one file into run descriptions; equal tables are checked only once.

    What a description is depends on the file and the files that it names, and on nothing else of this machine. Code of
    the user's own and names that only a kernel may know are collected, for who can judge them (`l4slab.sweep`).
    """

    file: Path
    remarks: dict[str, None] = field(default_factory=dict)  # of what is valid and perhaps not meant, a sentence each
    unknown: dict[tuple[Kind, str], InputError] = field(
        default_factory=dict
    )  # unless an engine has what they are about
    _seen: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.outside = Outside(self.file.parent)

    def resolve(self, document: Document, top: Keys, origin: Mapping[Place, str]) -> run.Run:
        """The description of the run that `document` describes, with the experiment's own seed.

        `origin` tells which part of a sweep has set a key, (section, name, key) -> text, for messages.
        Raises InputError.
        """
        with told(self.file, origin):
            description = self._resolve(document, top)
        for name, problem in self.outside.names.items():
            if name not in self.unknown:
                self.unknown[name] = input_error(problem, self.file, origin)
        return description

    def _once(self, kind: str, name: str, raw: object, make: Callable[[], Made]) -> Made:
        key = (kind, name, json.dumps(raw, default=str))
        if key not in self._seen:
            self._seen[key] = make()
        made: Made = self._seen[key]
        return made

    def _link(self, name: str, raw: Keys, hosts: Mapping[str, int], duration_ns: int) -> run.Link:
        place, folder = ("link", name), self.file.parent
        link = check(Link, raw, place)
        numbers = link.model_dump(by_alias=True, include={"rate", "burst"})
        trace = None
        if link.rate_trace is not None:
            read = partial(traces.rate_trace, link.rate_trace, folder, repeat=link.trace_repeat)
            trace = _trace(read, place, "rate_trace", link.rate_trace)
        rate_bps: int = numbers["rate_bps"] if trace is None else traces.mean_bps(trace, duration_ns)
        leaf = partial(qdisc_of, outside=self.outside)
        stab, qdisc = split_stab(link.qdisc, place, "qdisc")
        tree = classes.resolve(place, qdisc, raw, rate_bps, hosts, leaf)
        described: run.Link = {
            "name": name,
            "rate_bps": rate_bps,
            "burst_bytes": numbers["burst_bytes"],
            "qdisc": qdisc_of(qdisc, place, "qdisc", self.outside) if tree is None else tree.qdisc,
        }
        if link.on_host:
            described["on_host"] = True
        if stab is not None:
            described["stab"] = stab
        if link.policer is not None:
            described["policer"] = classes.policer(link.policer, place, "policer")
        if trace is not None:
            described["rate_trace"] = trace
        if tree is not None:
            described["classes"], described["filters"] = tree.classes, tree.filters
            self.remarks |= dict.fromkeys(tree.remarks)
        return described

    def _sides(self, name: str, raw: Keys, hosts: Mapping[str, int], duration_ns: int) -> list[run.Link]:
        """A link, or the two sides of a medium."""
        if raw.get("medium") is None:
            return [self._link(name, raw, hosts, duration_ns)]
        return media.sides(name, raw, partial(qdisc_of, outside=self.outside))

    def _resolve(self, document: Document, raw_top: Keys) -> run.Run:
        top, per_flow, precision = self._once("top", "", raw_top, partial(_top, raw_top))
        duration_ns = top["duration_ns"]
        named = self._hosts(document)
        hosts = {name: number for number, name in enumerate([*document["flow"], *named])}
        mistakes = Mistakes()
        links = self._links(document, hosts, duration_ns, mistakes)
        flows = self._flows(document, links, hosts, raw_top, duration_ns, mistakes)
        mistakes.tell()
        for name, link in links.items():
            for station in link.get("stations", {}):
                if (unknown := no_station(station, flows)) is not None:
                    raise Problem(("link", name), f"station.{station}", unknown)
        impairs = {name: _impair(name, raw, list(links)) for name, raw in document["impair"].items()}
        every = [tunnels.resolve(name, raw, flows, links) for name, raw in document["tunnel"].items()]
        around = [tunnel for tunnel in every if tunnel is not None]
        tunnels.refuse_overlaps(around, flows)
        changing = Changes(document, links, flows, impairs.values(), hosts, self.outside, duration_ns)
        changes = changing.all(f"{_AFTER_END}duration = {show(raw_top['duration'])}")
        self.remarks |= dict.fromkeys(changing.remarks)
        rewrites = [_rewrite(numbered("rewrite", n), raw, flows) for n, raw in enumerate(document["rewrite"], 1)]
        local.put_on_hosts(links, flows, impairs.values(), rewrites)
        description: run.Run = {
            "duration_ns": duration_ns,
            "warmup_ns": top["warmup_ns"],
            "sample_ns": top["sample_ns"],
            "seed": top["seed"],
            "start_jitter_ns": top["start_jitter_ns"],
            "links": list(links.values()),
            "flows": list(flows.values()),
            "at": changes,
            "rewrites": rewrites,
        }
        if per_flow:
            description["per_flow"] = True
        if precision is not None:
            description["precision"] = precision
        if named:
            description["hosts"] = named
        if impairs:
            description["impairs"] = list(impairs.values())
        if around:
            description["tunnels"] = around
        if precision is not None and (reason := _unsteady(description)) is not None:
            raise Problem((), "precision", f"= {show(raw_top['precision'])} {reason}, or leave precision out")
        return description

    def _hosts(self, document: Document) -> list[str]:
        """The names of hosts beside those of flows; last, those that only filters have."""
        named = _named_hosts(document["flow"])
        idle = _hosts_of_filters(document, {*document["flow"], *named})
        if idle:
            shown = ", ".join(idle[:3]) + (f" and {len(idle) - 3} more" if len(idle) > 3 else "")
            self.remarks[f"filters name hosts that no flow has: {shown}"] = None
        return named + idle

    def _links(
        self, document: Document, hosts: Mapping[str, int], duration_ns: int, mistakes: Mistakes
    ) -> dict[str, run.Link]:
        """The links by name. A wrong one is only a name, by which flows can be checked; a wrong medium ends it."""
        links: dict[str, run.Link] = {}
        for name, raw in document["link"].items():
            make = partial(self._sides, name, raw, hosts, duration_ns)
            sides = [run.Link(name=name, rate_bps=0, burst_bytes=0, qdisc="")]
            with mistakes.collected():
                sides = self._once("link", name, [raw, raw.get("filter") and list(hosts)], make)
            if raw.get("medium") is not None:
                mistakes.tell()
            links |= {link["name"]: link for link in sides}
        return links

    def _flows(
        self,
        document: Document,
        links: Mapping[str, run.Link],
        hosts: Mapping[str, int],
        raw_top: Keys,
        duration_ns: int,
        mistakes: Mistakes,
    ) -> dict[str, run.Flow]:
        names, flows = list(links), {}
        for name, raw in document["flow"].items():
            with mistakes.collected():
                checked = self._once("flow", name, [raw, names], partial(_flow, name, raw, links, self.outside))
                flows[name] = _placed(checked.copy(), raw, hosts, raw_top, duration_ns)
        return flows


def _placed(flow: run.Flow, raw: Keys, hosts: Mapping[str, int], raw_top: Keys, duration_ns: int) -> run.Flow:
    """The flow with its hosts, within the run."""
    place, duration = ("flow", flow["name"]), f"duration = {show(raw_top['duration'])}"
    if "host" in raw:
        flow["host"] = hosts[str(raw["host"])]
    if "peer_host" in raw:
        flow["peer_host"] = hosts[str(raw["peer_host"])]
    if flow["start_ns"] >= duration_ns:
        raise Problem(place, "start", f"= {show(raw['start'])} {_AFTER_END}{duration}; start it earlier")
    if flow["kind"] != "cbr" and flow["rtt_ns"] >= duration_ns:
        text = f"= {show(raw['rtt'])} is not shorter than the run; lengthen the {duration}"
        raise Problem(place, "rtt", text)
    if flow["stop_ns"] is not None and flow["stop_ns"] >= duration_ns:
        # A program is ended then, a flow is as if it went on.
        flow["stop_ns"] = duration_ns if flow["kind"] == "program" else None
    return flow


def _top(raw: Keys) -> tuple[dict[str, int], bool, run.Precision | None]:
    """The numbers of a run, whether each flow of a group is counted, and how precise the results are to be."""
    top = check(Top, raw, ())
    precision = top.model_dump(include={"precision"})["precision"]
    return top.model_dump(by_alias=True, include=set(TOP_FACTORS)), top.per_flow, precision


# The simulator judges from so many batches on, and the shortest ones last a second (`sim/precision.rs`).
_LEAST_MEASURED_S = 32


def _unsteady(description: run.Run) -> str | None:
    """Why a run has no steady state to be recognised, and what to write."""
    warmup_ns = description["warmup_ns"]
    if description["duration_ns"] < warmup_ns + _LEAST_MEASURED_S * 10**9:
        return f"is judged {_LEAST_MEASURED_S} s after the warm-up at the earliest; write a longer duration"
    traced = [f"link {show(one['name'])} has a rate_trace" for one in description["links"] if "rate_trace" in one]
    late = [f"flow {show(one['name'])} has a delay_trace" for one in description["flows"] if "delay_trace" in one]
    if traced or late:
        return f"is about a set-up that stays as it is, and {[*traced, *late][0]}; write a value instead"
    times = [("something changes", change["time_ns"], "state" in change) for change in description["at"]]
    for flow in description["flows"]:
        name = f"flow {show(flow['name'])}"
        times += [(f"{name} starts", flow["start_ns"], False), (f"{name} stops", flow["stop_ns"] or 0, False)]
    for what, time_ns, awaits in times:
        if awaits or time_ns > warmup_ns:
            when = "when a state comes" if awaits else f"at {TIME.text(time_ns)}"
            return f"is about a set-up that stays as it is after the warm-up, and {what} {when}; write a longer warmup"
    return None


def _trace(read: Callable[[], Made], place: Place, key: str, name: str) -> Made:
    try:
        return read()
    except ValueError as error:
        raise Problem(place, key, f"= {show(name)} {error}") from None


def _flow(name: str, raw: Keys, described: Mapping[str, run.Link], outside: Outside) -> run.Flow:
    place = ("flow", name)
    checked = check(flow_model(raw, name), raw, place)
    flow = checked.described(outside)
    if checked.delay_trace is not None:
        read = partial(traces.delay_trace, checked.delay_trace, outside.folder, repeat=checked.trace_repeat)
        flow["delay_trace"] = _trace(read, place, "delay_trace", checked.delay_trace)
    links = list(described)
    if checked.path is None:
        flow["path"] = [link for link in links if "up_of" not in described[link]]
    if not flow["path"]:
        raise Problem(place, "path", f"= [] names no link; name at least one of {', '.join(links)}")
    for key, names in (("path", flow["path"]), ("reverse_path", flow.get("reverse_path", []))):
        for position, link in enumerate(names):
            if link not in links:
                raise Problem(place, key, f"= {show(names)} names no link {show(link)}; {suggest(link, links)}")
            if link in names[:position]:
                raise Problem(place, key, f"= {show(names)} crosses link {show(link)} twice; name it once")
    if "reverse_path" in flow and "reverse_path" not in raw:
        flow["reverse_path"] = media.way_back(flow["path"], described)
    if checked.station is not None and not any(media.is_side(described[link]) for link in flow["path"]):
        text = f"= {show(checked.station)} is of a medium, and path = {show(flow['path'])} crosses none; remove it"
        raise Problem(place, "station", text)
    return flow


_HOST_KEYS = ("host", "peer_host")


def _named_hosts(flows: Mapping[str, Keys]) -> list[str]:
    """The names of hosts, in the order of the file."""
    found: dict[str, None] = {}
    for name, raw in flows.items():
        for key in _HOST_KEYS:
            host = raw.get(key)
            if isinstance(host, str) and host in flows:
                # In a filter, a flow's name stands for the host that sends it.
                raise Problem(("flow", name), key, f"= {show(host)} is the name of a flow; give the host another one")
            if isinstance(host, str):
                if wrong := name_mistake(host, "/"):
                    raise Problem(("flow", name), key, f"= {show(host)} is a name {wrong}")
                found[host] = None
    return list(found)


def _hosts_of_filters(document: Document, known: set[str]) -> list[str]:
    """Hosts that only filters name, and no flow has."""
    found: dict[str, None] = {}
    for raw in document["link"].values():
        filters = raw.get("filter")
        for one in filters if isinstance(filters, list) else ():
            host = one.get("host") if isinstance(one, dict) else None
            if isinstance(host, str) and host not in known and not name_mistake(host, "/"):
                found[host] = None
    return list(found)


_SIDES: dict[str, run.Side] = {"before": "before", "after": "after"}


def _rewrite(place: Place, raw: Keys, flows: Mapping[str, run.Flow]) -> run.Rewrite:
    rewrite = check(Rewrite, raw, place)
    if rewrite.flow not in flows:
        raise Problem(place, "flow", f"= {show(rewrite.flow)} is not a flow; {suggest(rewrite.flow, flows)}")
    path = flows[rewrite.flow]["path"]
    where, colon, link = rewrite.where.partition(":")
    side = _SIDES.get(where)
    if not colon or side is None:
        text = f'= {show(rewrite.where)} is not a place; write "before:{path[0]}" or "after:{path[0]}"'
        raise Problem(place, "where", text)
    if link not in path:
        text = f'= {show(rewrite.where)} is not on the path of flow "{rewrite.flow}"; {suggest(link, path)}'
        raise Problem(place, "where", text)
    if rewrite.from_ == rewrite.to:
        raise Problem(place, "to", f"= {show(rewrite.to)} is the same as from; give another codepoint")
    return {"flow": rewrite.flow, "where": side, "link": link, "from": rewrite.from_, "to": rewrite.to}


def _impair(name: str, raw: Keys, links: list[str]) -> run.Impair:
    impair = check(Impair, raw, ("impair", name))
    if impair.before not in links:
        text = f"= {show(impair.before)} is not a link; {suggest(impair.before, links)}"
        raise Problem(("impair", name), "before", text)
    netem = netem_of(impair.netem, ("impair", name), "netem", in_order=impair.in_order)
    if impair.in_order and "rate" not in netem.split():
        netem = netem_of(f"{impair.netem} {IN_ORDER}", ("impair", name), "netem", in_order=True)
    described: run.Impair = {"name": name, "before": impair.before, "direction": impair.direction, "netem": netem}
    if impair.ack_thinning is not None:
        described["ack_thinning"] = impair.ack_thinning
        described["ack_wait_ns"] = impair.model_dump(by_alias=True, include={"ack_wait"})["ack_wait_ns"]
    return described
