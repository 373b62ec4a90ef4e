"""From one complete document to the plain description of a run: ns, bit/s and bytes, every default filled in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from l4slab import _core, stacks
from l4slab.base import run
from l4slab.base.code import Kind, is_code
from l4slab.base.errors import InputError, suggest
from l4slab.base.paths import name_mistake
from l4slab.base.units import RATE, TIME
from l4slab.base.values import Keys
from l4slab.experimentfile import bounds, classes, local, media, traces
from l4slab.experimentfile.file import Document
from l4slab.experimentfile.outside import Outside
from l4slab.experimentfile.tables import (
    AT_FLOW_KEYS,
    AT_IMPAIR_KEYS,
    AT_KEYS,
    TOP_FACTORS,
    At,
    FlowChange,
    Impair,
    Link,
    Rewrite,
    Top,
)
from l4slab.experimentfile.tc import remedy, unitless
from l4slab.experimentfile.traffic import KINDS, flow_model
from l4slab.experimentfile.wording import Place, Problem, check, check_written, numbered, show, told

# In netem: more than any flow, so that nothing waits for the one before it; but with a rate nothing overtakes.
IN_ORDER = "rate 20tbit"

Made = TypeVar("Made")


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
                self.unknown[name] = InputError(problem.sentence(origin), file=self.file)
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
        leaf = partial(_qdisc, outside=self.outside)
        stab, qdisc = _stab(link.qdisc, place, "qdisc")
        tree = classes.resolve(place, qdisc, raw, rate_bps, hosts, leaf)
        described: run.Link = {
            "name": name,
            "rate_bps": rate_bps,
            "burst_bytes": numbers["burst_bytes"],
            "qdisc": _qdisc(qdisc, place, "qdisc", self.outside) if tree is None else tree.qdisc,
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
        return media.sides(name, raw, partial(_qdisc, outside=self.outside))

    def _resolve(self, document: Document, raw_top: Keys) -> run.Run:
        top, per_flow, precision = self._once("top", "", raw_top, partial(_top, raw_top))
        duration_ns = top["duration_ns"]
        named = _named_hosts(document["flow"])
        if idle := _hosts_of_filters(document, {*document["flow"], *named}):
            shown = ", ".join(idle[:3]) + (f" and {len(idle) - 3} more" if len(idle) > 3 else "")
            self.remarks[f"filters name hosts that no flow has: {shown}"] = None
            named += idle
        hosts = {name: number for number, name in enumerate([*document["flow"], *named])}
        sides = {
            name: self._once(
                "link",
                name,
                [raw, raw.get("filter") and list(hosts)],
                partial(self._sides, name, raw, hosts, duration_ns),
            )
            for name, raw in document["link"].items()
        }
        links = {link["name"]: link for both in sides.values() for link in both}
        names = list(links)
        flows = {
            name: self._once("flow", name, [raw, names], partial(_flow, name, raw, links, self.outside))
            for name, raw in document["flow"].items()
        }
        for name, raw in document["flow"].items():
            flow = flows[name] = flows[name].copy()
            if "host" in raw:
                flow["host"] = hosts[str(raw["host"])]
            if "peer_host" in raw:
                flow["peer_host"] = hosts[str(raw["peer_host"])]
        end = f"is not before the end of the run, duration = {show(raw_top['duration'])}"
        for name, flow in flows.items():
            if flow["start_ns"] >= duration_ns:
                start = show(document["flow"][name]["start"])
                raise Problem(("flow", name), "start", f"= {start} {end}; start it earlier")
            if flow["kind"] != "cbr" and flow["rtt_ns"] >= duration_ns:
                text = f"= {show(document['flow'][name]['rtt'])} is not shorter than the run"
                raise Problem(("flow", name), "rtt", f"{text}; lengthen the duration = {show(raw_top['duration'])}")
            if flow["stop_ns"] is not None and flow["stop_ns"] >= duration_ns:
                # A program is ended then, a flow is as if it went on.
                flow["stop_ns"] = duration_ns if flow["kind"] == "program" else None
        for name, link in links.items():
            for station in link.get("stations", {}):
                if (unknown := _no_station(station, flows)) is not None:
                    raise Problem(("link", name), f"station.{station}", unknown)
        impairs = {name: _impair(name, raw, names) for name, raw in document["impair"].items()}
        timed = []
        for number, raw in enumerate(document["at"], start=1):
            place = numbered("at", number)
            at = check(At, {key: value for key, value in raw.items() if "." not in key}, place)
            time = TIME.parse(at.time or "0s")
            if time >= duration_ns:
                raise Problem(place, "time", f"= {show(raw['time'])} {end}; choose an earlier time")
            timed.append((time, place, raw, _awaited(at, place, flows)))
        queues = _Queues(self.outside, links.values(), impairs.values())
        trees = {
            name: classes.Changing(
                name,
                {**raw, "qdisc": _stab(str(raw["qdisc"]), ("link", name), "qdisc")[1]},
                links[name]["rate_bps"],
                hosts,
                partial(_qdisc, outside=self.outside),
                queues.change,
            )
            for name, raw in document["link"].items()
            if "classes" in links[name]
        }
        changes: list[run.Change] = []
        # A change of a class starts from its state after earlier changes.
        for time, place, raw, awaited in sorted(timed, key=lambda one: one[0]):
            found, told = _changes(time, raw, place, links, flows, document["impair"], queues, trees, duration_ns)
            if awaited is not None:
                found = [{**change, "state": awaited} for change in found]
            changes += found
            self.remarks |= dict.fromkeys(told)
        for name, raw in document["flow"].items():
            if raw.get("on") is not None:
                changes += _on_and_off(name, raw, flows[name], duration_ns, changes)
        _check_later(changes, document["flow"])
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
            "at": sorted(changes, key=lambda change: change["time_ns"]),
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
        if precision is not None and (reason := _unsteady(description)) is not None:
            raise Problem((), "precision", f"= {show(raw_top['precision'])} {reason}, or leave precision out")
        return description


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


def _stab(text: str, place: Place, key: str) -> tuple[str | None, str]:
    """The size table before a link's qdisc, every parameter written out, and the words of the qdisc. Raises Problem."""
    try:
        stab, qdisc = _core.split_stab(text)
    except ValueError as error:
        raise Problem(place, key, f"= {show(text)}: {error}") from None
    if stab is not None and not qdisc:
        raise Problem(
            place, key, f'= {show(text)} has no qdisc after stab; add one, such as "{text.strip()} htb default 10"'
        )
    return stab, qdisc


def _qdisc(text: str, place: Place, key: str, outside: Outside) -> str:
    words = text if is_code(text) else _core.qdisc_as_read(text)
    try:
        if (queue := outside.find("queue", words, place, key)) is None:
            queue = _core.canonical_qdisc(words)
            if wrong := unitless(words):
                raise Problem(place, key, f"= {show(text)}{wrong}")
        return queue
    except ValueError as error:
        meant = remedy(words)
        problem = Problem(place, key, f"= {show(text)}{meant or f': {error}'}")
        if meant or words.split(maxsplit=1)[:1] in ([], *([entry["name"]] for entry in _core.qdiscs())):
            raise problem from None
        if not outside.note("queue", words.strip(), problem):
            raise problem from None
        return words.strip()


class _Queues:
    """The queues of a run while it runs, by their keys in [[at]]; None: the core alone does not know it."""

    def __init__(self, outside: Outside, links: Iterable[run.Link], impairs: Iterable[run.Impair]):
        self._outside = outside
        self._in_force: dict[str, _core.ChangingQdisc | None] = {}
        self._media: dict[str, str] = {}
        self._stations: dict[tuple[str, str], str] = {}  # that have words of their own
        for link in links:
            self._begin(f"link.{link['name']}.qdisc", link["qdisc"])
            if (words := link.get("medium")) is not None:
                self._media[link["name"]] = words
                for station, differs in link.get("stations", {}).items():
                    self._stations[link["name"], station] = _core.check_station(words, differs)
            for one in link.get("classes", ()):
                self._begin(f"link.{link['name']}.class.{one['id']}.qdisc", one.get("qdisc") or "")
        for impair in impairs:
            self._begin(f"impair.{impair['name']}.netem", f"netem {impair['netem']}")

    def _begin(self, key: str, text: str) -> None:
        try:
            self._in_force[key] = _core.ChangingQdisc(text)
        except ValueError:
            self._in_force[key] = None

    def change_medium(self, link: str, station: str | None, text: object, place: Place) -> str:
        """Checks the words of the [[at]] at `place` for a medium, or for one of its stations. Raises Problem."""
        key = f"link.{link}.medium" if station is None else f"link.{link}.station.{station}.medium"
        if not isinstance(text, str):
            raise Problem(place, key, f'= {show(text)} is not text; write what changes, such as "mcs 2"')
        before = self._media[link] if station is None else self._stations.get((link, station), self._media[link])
        try:
            after = _core.change_medium(before, text, station is not None)
            wrong = unitless(text, lambda words: _core.change_medium(before, words, station is not None))
        except ValueError as error:
            raise Problem(place, key, f"= {show(text)}: {error}") from None
        if wrong:
            raise Problem(place, key, f"= {show(text)}{wrong}")
        if station is None:
            self._media[link] = after
        else:
            self._stations[link, station] = after
        return text

    def change(self, key: str, text: str, place: Place) -> str:
        """The queue in a run's description for the [[at]] at `place`: only the named parameters if the kind of queue
        stays. Raises Problem.
        """
        alone = _qdisc(text, place, key, self._outside)
        queue = self._in_force[key]
        if queue is None or is_code(text) or ("queue", alone) in self._outside.names:
            self._begin(key, alone)
            return alone
        try:
            return queue.change(text)
        except ValueError as error:
            raise Problem(place, key, f"= {show(text)}: {error}") from None


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


def _awaited(at: At, place: Place, flows: Mapping[str, run.Flow]) -> run.AwaitedState | None:
    """The state that a change waits for. Raises Problem."""
    if at.state is None or at.flow is None:
        return None
    if at.flow not in flows:
        raise Problem(place, "flow", f"= {show(at.flow)} names no flow; {suggest(at.flow, flows)}")
    stack = flow.get("stack") if (flow := flows[at.flow])["kind"] == "program" else None
    cc, states, having = _states(flow)
    # The engine says that a stack is not built.
    if at.state not in states and (stack is None or stacks.is_built(stack["build"])):
        remedy = suggest(at.state, states) if states else f"{cc} has none; {having}"
        raise Problem(place, "state", f"= {show(at.state)} is no state of flow {show(at.flow)}; {remedy}")
    return {"flow": at.flow, "name": at.state, "after_ns": TIME.parse(at.after or "0s")}


def _states(flow: run.Flow) -> tuple[str, list[str], str]:
    """The controller of a flow, its states, and who has some."""
    if flow["kind"] == "program" and (stack := flow.get("stack")) is not None:
        found = [name for name in stacks.names() if stacks.find(name).recipe.qlog.get("states")]
        having = f"stacks whose recipe has them are {', '.join(found)}"
        return f"{stack['name']} {stack['cc']}", stacks.states_of(stack["build"], stack["cc"]), having
    cc = str(flow.get("cc"))
    having = f"those that have are {', '.join(one['name'] for one in _core.controllers() if one['states'])}"
    return cc, next((list(one["states"]) for one in _core.controllers() if one["name"] == cc), []), having


def _no_station(station: str, flows: Mapping[str, run.Flow]) -> str | None:
    """The mistake in a name of a station that no flow has, or None."""
    known = sorted({of for flow in flows.values() if (of := flow.get("station")) is not None})
    if station in known:
        return None
    fix = suggest(station, known) if known else f"give one station = {show(station)}"
    return f"names no station {show(station)} that a flow has; {fix}"


def _changes(
    time_ns: int,
    raw: Keys,
    place: Place,
    links: Mapping[str, run.Link],
    flows: Mapping[str, run.Flow],
    impairs: Mapping[str, Keys],
    queues: _Queues,
    trees: Mapping[str, classes.Changing],
    duration_ns: int,
) -> tuple[list[run.Change], list[str]]:
    """The changes of one [[at]], one for each link, flow and impairment, and remarks."""
    settings: dict[tuple[str, str], Keys] = {}
    of_classes: dict[str, dict[str, Keys]] = {}
    of_stations: dict[str, dict[str, object]] = {}
    for key, value in raw.items():
        match key.split("."):
            case ["time" | "flow" | "state" | "after"]:
                continue
            case ["link", name, "qdisc_up"] if f"{name}.up" in links:
                if isinstance(value, str) and classes.holds_classes(value):
                    text = f"= {show(value)} holds classes, which no medium serves; use a qdisc without"
                    raise Problem(place, key, text)
                settings.setdefault(("link", f"{name}.up"), {})["qdisc"] = value
            case ["link", name, "medium"] if name in links and "medium" in links[name]:
                settings.setdefault(("link", name), {})["medium"] = value
            case ["link", name, "station", station, "medium"] if name in links and "medium" in links[name]:
                if (unknown := _no_station(station, flows)) is not None:
                    raise Problem(place, key, f"= {show(value)} {unknown}")
                settings.setdefault(("link", name), {})
                of_stations.setdefault(name, {})[station] = value
            case ["link" | "flow" as kind, name, setting] if name in (links if kind == "link" else flows):
                valid = AT_KEYS if kind == "link" else _changeable(flows[name])
                if kind == "link" and setting == "rate" and media.is_side(links[name]):
                    text = f"= {show(value)} cannot change: link {show(name)} has a medium"
                    raise Problem(place, key, f'{text}; "link.{name}.qdisc" can')
                if kind == "link" and setting == "rate" and "rate_trace" in links[name]:
                    text = f"= {show(value)} cannot change: link {show(name)} has a rate_trace; write it there"
                    raise Problem(place, key, text)
                if kind == "link" and setting == "policer" and "policer" not in links[name]:
                    text = f"= {show(value)} cannot come while it runs; let the link begin with a policer"
                    raise Problem(place, key, f'{text}, such as policer = "rate 10gbit burst 10mb"')
                if kind == "link" and name in trees and setting not in ("rate", "policer"):
                    text = f"= {show(value)} cannot change while it runs: link {show(name)} has classes"
                    raise Problem(place, key, f"{text}; {_of_a_tree(name, links[name])}")
                if setting not in valid:
                    text = f"= {show(value)} cannot change while it runs; {suggest(setting, valid)}"
                    raise Problem(place, key, text)
                if setting == "qdisc" and isinstance(value, str) and classes.holds_classes(value):
                    text = f"= {show(value)} holds classes, which cannot come while it runs; let the link begin with it"
                    raise Problem(place, key, text)
                if setting == "qdisc" and isinstance(value, str):
                    value = _same_stab(value, place, key, links[name])
                settings.setdefault((kind, name), {})[setting] = value
            case ["link", name, "class", number, setting] if name in links:
                _check_class_key(place, key, value, links[name])
                settings.setdefault(("link", name), {})
                of_classes.setdefault(name, {}).setdefault(number, {})[setting] = value
            case ["impair", name, setting] if name in impairs:
                if setting not in AT_IMPAIR_KEYS:
                    text = f"= {show(value)} cannot change while it runs; {suggest(setting, AT_IMPAIR_KEYS)}"
                    raise Problem(place, key, text)
                settings.setdefault(("impair", name), {})[setting] = value
            case ["impair", name, _]:
                raise Problem(place, key, f"= {show(value)} names no impair {show(name)}; {suggest(name, impairs)}")
            case ["link", name, _] | ["link", name, "class", _, _]:
                raise Problem(place, key, f"= {show(value)} names no link {show(name)}; {suggest(name, links)}")
            case ["flow", name, _]:
                raise Problem(place, key, f"= {show(value)} names no flow {show(name)}; {suggest(name, flows)}")
            case _:
                keys = [*At.model_fields, *(key for link in links.values() for key in _of_link(link))]
                keys += [f"flow.{name}.{setting}" for name, flow in flows.items() for setting in _changeable(flow)]
                keys += [f"impair.{name}.{setting}" for name in impairs for setting in AT_IMPAIR_KEYS]
                raise Problem(place, key, f"= {show(value)} is not a key here; {suggest(key, keys)}")
    if not settings:
        raise Problem(place, "", f'changes nothing; add a key such as "link.{next(iter(links))}.rate" = "5Mbit"')
    found: list[run.Change] = []
    told: list[str] = []
    for (section, name), changed in settings.items():
        if section == "impair":
            key = f"impair.{name}.netem"
            _netem(changed["netem"], place, key, in_order=bool(impairs[name].get("in_order")))
            words = queues.change(key, f"netem {changed['netem']}", place)
            found.append({"time_ns": time_ns, "impair": name, "netem": words.removeprefix("netem").strip()})
        elif section == "link":
            change = _link_change(time_ns, name, changed, place, queues)
            if name in of_stations:
                change["stations"] = {
                    station: queues.change_medium(name, station, words, place)
                    for station, words in of_stations[name].items()
                }
            if name in trees:
                changed_classes, remarks = trees[name].change(place, of_classes.get(name, {}), change.get("rate_bps"))
                if changed_classes:
                    change["classes"] = changed_classes
                told += remarks
            found.append(change)
        else:
            found.append(_flow_change(time_ns, flows[name], changed, place, duration_ns))
    return found, told


def _of_link(link: run.Link) -> list[str]:
    """The keys that may change of a link."""
    name = f"link.{link['name']}"
    if (down := link.get("up_of")) is not None:
        return [f"link.{down}.qdisc_up"]
    if "medium" in link:
        return [f"{name}.qdisc", f"{name}.medium"]
    policer = [f"{name}.policer"] if "policer" in link else []
    if "classes" not in link:
        return [f"{name}.rate", f"{name}.qdisc", *policer]
    of_classes = classes.changeable(link).items()
    return [
        f"{name}.rate",
        *policer,
        *(f"{name}.class.{number}.{setting}" for number, valid in of_classes for setting in valid),
    ]


def _of_a_tree(name: str, link: run.Link) -> str:
    """The values that can change of a link with classes."""
    number, settings = max(classes.changeable(link).items(), key=lambda one: len(one[1]))
    *most, last = settings
    what = f"{', '.join(most)} and {last}" if most else last
    return f'its rate can, and of its classes {what}, such as "link.{name}.class.{number}.{last}"'


def _same_stab(text: str, place: Place, key: str, link: run.Link) -> str:
    """The words of a qdisc that comes while it runs, behind the size table of its link. Raises Problem."""
    stab, qdisc = _stab(text, place, key)
    if stab == link.get("stab"):
        return qdisc
    if stab is None:
        # As of a kernel, where a change without a size table takes it away.
        text = f'= {show(text)} would take the size table away; write "stab {link.get("stab")} {qdisc}"'
    else:
        text = f"= {show(text)} has another size table than the link, and none can change while it runs; write the same"
    raise Problem(place, key, text)


def _check_class_key(place: Place, key: str, value: object, link: run.Link) -> None:
    """Whether this may change of a class of a link."""
    _, name, _, number, setting = key.split(".")
    if "classes" not in link:
        text = f"= {show(value)} names a class, and {link['qdisc'].partition(' ')[0]} of link {show(name)} holds none"
        raise Problem(place, key, f'{text}; write "link.{name}.rate" or "link.{name}.qdisc"')
    valid = classes.changeable(link)
    if number not in {one["id"] for one in link["classes"]}:
        text = f"= {show(value)} names no class {show(number)} of link {show(name)}, and none comes while it runs"
        raise Problem(place, key, f"{text}; {suggest(number, valid)}")
    if setting == classes.QUEUE and setting not in valid[number]:
        leaves = [other for other, settings in valid.items() if setting in settings]
        what = "others below it and no queue"
        if qdisc := next(one.get("qdisc") for one in link["classes"] if one["id"] == number):
            what = f"a {qdisc.partition(' ')[0]}, which holds classes and stays while it runs"
        text = f"= {show(value)} cannot come: class {number} has {what}"
        raise Problem(place, key, f"{text}; {suggest(number, leaves)}")
    if setting not in valid[number]:
        raise Problem(place, key, f"= {show(value)} cannot change while it runs; {suggest(setting, valid[number])}")
    if setting == classes.QUEUE and isinstance(value, str) and classes.holds_classes(value):
        text = f"= {show(value)} holds classes, which cannot come while it runs; write a qdisc without"
        raise Problem(place, key, text)


def _changeable(flow: run.Flow) -> list[str]:
    """The values that may change of a flow: the rate only of an unresponsive one, the number not of programs."""
    if flow["kind"] == "program":
        return ["rtt"]
    if flow["kind"] == "media":
        return ["rate_max" if key == "rate" else key for key in AT_FLOW_KEYS] + ["pause"]
    if flow["kind"] == "tcp" and flow.get("rate_bps") is not None:
        return ["app_rate" if key == "rate" else key for key in AT_FLOW_KEYS] + ["pause"]
    return [key for key in AT_FLOW_KEYS if key != "rate" or flow["kind"] == "cbr"]


def _link_change(time_ns: int, link: str, settings: Keys, place: Place, queues: _Queues) -> run.Change:
    change: run.Change = {"time_ns": time_ns, "link": link, "rate_bps": None, "qdisc": None}
    if "rate" in settings:
        checked = check(Link, {"rate": settings["rate"], "qdisc": ""}, (f"{place[0]}: link", link))
        change["rate_bps"] = RATE.parse(checked.rate)
    if "qdisc" in settings:
        key = f"link.{link}.qdisc"
        qdisc = settings["qdisc"]
        if not isinstance(qdisc, str):
            raise Problem(place, key, f'= {show(qdisc)} is not text; write it such as "pie"')
        change["qdisc"] = queues.change(key, qdisc, place)
    if "policer" in settings:
        change["policer"] = classes.policer(settings["policer"], place, f"link.{link}.policer")
    if "medium" in settings:
        change["medium"] = queues.change_medium(link, None, settings["medium"], place)
    return change


def _check_later(changes: Iterable[run.Change], raw: Mapping[str, Keys]) -> None:
    """Whether not too many flows come while it runs. Raises Problem."""
    total = 0
    for change in changes:
        total += change.get("count") or 0
        if total > bounds.LATER:
            name = change.get("flow") or ""
            key = "on" if raw[name].get("on") is not None else "count"
            text = f"brings more than {bounds.LATER} flows while it runs; lower its count, or let it change less often"
            raise Problem(("flow", name), key, text)


# Of one flow; each is an entry of `at`.
_MOST_TURNS = 10_000


def _on_and_off(
    name: str, raw: Keys, flow: run.Flow, duration_ns: int, others: list[run.Change]
) -> Iterator[run.Change]:
    """Changes of the number of flows: none while it is off."""
    if any(change.get("flow") == name and "count" in change for change in others):
        text = f"= {show(raw['on'])} stands beside a [[at]] with flow.{name}.count; remove one of them"
        raise Problem(("flow", name), "on", text)
    on, off = TIME.parse(raw["on"]), TIME.parse(raw["off"])
    time, end = flow["start_ns"] + on, min(flow["stop_ns"] or duration_ns, duration_ns)
    if (end - flow["start_ns"]) / (on + off) > _MOST_TURNS:
        text = f"= {show(raw['on'])} and off = {show(raw['off'])} come more than {_MOST_TURNS} times; make them longer"
        raise Problem(("flow", name), "on", text)
    count = 0
    while time < end:
        yield {"time_ns": time, "flow": name, "count": count}
        time += on if count else off
        count = flow["count"] - count


def _flow_change(time_ns: int, flow: run.Flow, settings: Keys, place: Place, duration_ns: int) -> run.Change:
    where = (f"{place[0]}: flow", flow["name"])
    check_written(KINDS[flow["kind"]], {key: value for key, value in settings.items() if key != "pause"}, where)
    checked = check(FlowChange, settings, where)
    numbers = checked.model_dump(by_alias=True)
    change: run.Change = {"time_ns": time_ns, "flow": flow["name"]}
    if checked.rtt is not None:
        if flow["kind"] != "cbr" and numbers["rtt_ns"] >= duration_ns:
            text = f"= {show(settings['rtt'])} is not shorter than the run; lengthen the duration"
            raise Problem(where, "rtt", text)
        change["rtt_ns"] = numbers["rtt_ns"]
    if checked.count is not None:
        change["count"] = checked.count
    if checked.rate is not None:
        change["rate_bps"] = numbers["rate_bps"]
    if checked.app_rate is not None:
        change["rate_bps"] = RATE.parse(checked.app_rate)
    if checked.rate_max is not None:
        change["rate_bps"] = most = numbers["rate_max_bps"]
        least = flow["rate_min_bps"] if flow["kind"] == "media" else None
        if least is not None and most < least:
            text = f"= {show(settings['rate_max'])} is below the flow's rate_min = {show(RATE.text(least))}"
            raise Problem(where, "rate_max", f"{text}; make it larger, or rate_min smaller")
    if checked.pause is not None:
        change["pause"] = checked.pause
    return change


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
    netem = _netem(impair.netem, ("impair", name), "netem", in_order=impair.in_order)
    if impair.in_order and "rate" not in netem.split():
        netem = _netem(f"{impair.netem} {IN_ORDER}", ("impair", name), "netem", in_order=True)
    described: run.Impair = {"name": name, "before": impair.before, "direction": impair.direction, "netem": netem}
    if impair.ack_thinning is not None:
        described["ack_thinning"] = impair.ack_thinning
        described["ack_wait_ns"] = impair.model_dump(by_alias=True, include={"ack_wait"})["ack_wait_ns"]
    return described


def _netem(text: object, place: Place, key: str, *, in_order: bool) -> str:
    if not isinstance(text, str):
        raise Problem(place, key, f'= {show(text)} is not text; write it such as "delay 2ms"')
    if place[0] != "impair" and not text.strip():
        raise Problem(place, key, f'= {show(text)} changes nothing; write it such as "delay 2ms"')
    if text.split()[:1] == ["netem"]:
        problem = f'= {show(text)} needs no word netem; write "{text.split(maxsplit=1)[-1]}"'
        raise Problem(place, key, problem)
    try:
        words = _core.canonical_qdisc(f"netem {text}").split()[1:]
        if in_order and "reorder" in words:
            raise Problem(place, key, f"= {show(text)} reorders, and in_order = true; remove one of them")
        if wrong := unitless(f"netem {text}"):
            raise Problem(place, key, f"= {show(text)}{wrong}")
    except ValueError as error:
        raise Problem(place, key, f"= {show(text)}: {error}") from None
    return " ".join(words)
