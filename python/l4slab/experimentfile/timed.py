"""What changes while a run goes on: [[at]], and flows that are on and off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from l4slab import _core, stacks
from l4slab.base import run
from l4slab.base.code import is_code
from l4slab.base.errors import suggest
from l4slab.base.units import RATE, TIME
from l4slab.base.values import Keys, Value
from l4slab.experimentfile import bounds, classes, media
from l4slab.experimentfile.file import Document
from l4slab.experimentfile.outside import Outside
from l4slab.experimentfile.queues import netem_of, qdisc_of, split_stab
from l4slab.experimentfile.tables import AT_FLOW_KEYS, AT_IMPAIR_KEYS, AT_KEYS, At, FlowChange, Link
from l4slab.experimentfile.tc import unitless
from l4slab.experimentfile.traffic import KINDS
from l4slab.experimentfile.wording import Place, Problem, check, check_written, numbered, show


@dataclass
class _Settings:
    """What one [[at]] sets, by section and name; of links also by class and by station."""

    of: dict[tuple[str, str], Keys] = field(default_factory=dict)
    classes: dict[str, dict[str, Keys]] = field(default_factory=dict)
    stations: dict[str, dict[str, object]] = field(default_factory=dict)

    def put(self, section: str, name: str, setting: str, value: Value) -> None:
        self.of.setdefault((section, name), {})[setting] = value

    def put_in_class(self, link: str, number: str, setting: str, value: Value) -> None:
        self.of.setdefault(("link", link), {})
        self.classes.setdefault(link, {}).setdefault(number, {})[setting] = value

    def put_in_station(self, link: str, station: str, value: object) -> None:
        self.of.setdefault(("link", link), {})
        self.stations.setdefault(link, {})[station] = value


class Changes:
    """The changes of a run by [[at]], and by on and off of its flows. `links`, `flows`: as they are described."""

    def __init__(
        self,
        document: Document,
        links: Mapping[str, run.Link],
        flows: Mapping[str, run.Flow],
        impairs: Iterable[run.Impair],
        hosts: Mapping[str, int],
        outside: Outside,
        duration_ns: int,
    ):
        self._document, self._links, self._flows = document, links, flows
        self._impairs: Mapping[str, Keys] = document["impair"]
        self._duration_ns = duration_ns
        self._in_force = _InForce(outside, links.values(), impairs)
        self._trees = {
            name: classes.Changing(
                name,
                {**raw, "qdisc": split_stab(str(raw["qdisc"]), ("link", name), "qdisc")[1]},
                links[name]["rate_bps"],
                hosts,
                partial(qdisc_of, outside=outside),
                self._in_force.change,
            )
            for name, raw in document["link"].items()
            if "classes" in links[name]
        }
        self.remarks: list[str] = []

    def all(self, end: str) -> list[run.Change]:
        """All changes, by time. `end` says in a message when the run ends. Raises Problem."""
        timed = []
        for number, raw in enumerate(self._document["at"], start=1):
            place = numbered("at", number)
            at = check(At, {key: value for key, value in raw.items() if "." not in key}, place)
            time = TIME.parse(at.time or "0s")
            if time >= self._duration_ns:
                raise Problem(place, "time", f"= {show(raw['time'])} {end}; choose an earlier time")
            timed.append((time, place, raw, _awaited(at, place, self._flows)))
        changes: list[run.Change] = []
        # A change of a class starts from its state after earlier changes.
        for time, place, raw, awaited in sorted(timed, key=lambda one: one[0]):
            found = self._of_one(time, raw, place)
            changes += found if awaited is None else [{**change, "state": awaited} for change in found]
        for name, raw in self._document["flow"].items():
            if raw.get("on") is not None:
                changes += _on_and_off(name, raw, self._flows[name], self._duration_ns, changes)
        _check_later(changes, self._document["flow"])
        return sorted(changes, key=lambda change: change["time_ns"])

    def _of_one(self, time_ns: int, raw: Keys, place: Place) -> list[run.Change]:
        """The changes of one [[at]], one for each link, flow and impairment."""
        settings = _Settings()
        for key, value in raw.items():
            if key not in ("time", "flow", "state", "after"):
                self._collect(settings, place, key, value)
        if not settings.of:
            text = f'changes nothing; add a key such as "link.{next(iter(self._links))}.rate" = "5Mbit"'
            raise Problem(place, "", text)
        found: list[run.Change] = []
        for (section, name), changed in settings.of.items():
            if section == "impair":
                key = f"impair.{name}.netem"
                netem_of(changed["netem"], place, key, in_order=bool(self._impairs[name].get("in_order")))
                words = self._in_force.change(key, f"netem {changed['netem']}", place)
                found.append({"time_ns": time_ns, "impair": name, "netem": words.removeprefix("netem").strip()})
            elif section == "link":
                found.append(self._of_link(time_ns, name, changed, settings, place))
            else:
                found.append(_flow_change(time_ns, self._flows[name], changed, place, self._duration_ns))
        return found

    def _of_link(self, time_ns: int, name: str, changed: Keys, settings: _Settings, place: Place) -> run.Change:
        change = _link_change(time_ns, name, changed, place, self._in_force)
        if name in settings.stations:
            change["stations"] = {
                station: self._in_force.change_medium(name, station, words, place)
                for station, words in settings.stations[name].items()
            }
        if name in self._trees:
            of_classes = settings.classes.get(name, {})
            changed_classes, remarks = self._trees[name].change(place, of_classes, change.get("rate_bps"))
            if changed_classes:
                change["classes"] = changed_classes
            self.remarks += remarks
        return change

    def _collect(self, settings: _Settings, place: Place, key: str, value: Value) -> None:
        """One key of an [[at]]. Raises Problem where nothing has it, or where it cannot change."""
        links, flows = self._links, self._flows
        match key.split("."):
            case ["link", name, "qdisc_up"] if f"{name}.up" in links:
                if isinstance(value, str) and classes.holds_classes(value):
                    text = f"= {show(value)} holds classes, which no medium serves; use a qdisc without"
                    raise Problem(place, key, text)
                settings.put("link", f"{name}.up", "qdisc", value)
            case ["link", name, "medium"] if name in links and "medium" in links[name]:
                settings.put("link", name, "medium", value)
            case ["link", name, "station", station, "medium"] if name in links and "medium" in links[name]:
                if (unknown := no_station(station, flows)) is not None:
                    raise Problem(place, key, f"= {show(value)} {unknown}")
                settings.put_in_station(name, station, value)
            case ["link", name, setting] if name in links:
                settings.put("link", name, setting, self._link_value(place, key, value))
            case ["flow", name, setting] if name in flows:
                if setting not in (valid := _changeable(flows[name])):
                    raise Problem(place, key, f"= {show(value)} cannot change while it runs; {suggest(setting, valid)}")
                settings.put("flow", name, setting, value)
            case ["link", name, "class", number, setting] if name in links:
                _check_class_key(place, key, value, links[name])
                settings.put_in_class(name, number, setting, value)
            case ["impair", name, setting] if name in self._impairs:
                if setting not in AT_IMPAIR_KEYS:
                    text = f"= {show(value)} cannot change while it runs; {suggest(setting, AT_IMPAIR_KEYS)}"
                    raise Problem(place, key, text)
                settings.put("impair", name, setting, value)
            case ["impair", name, _]:
                known = suggest(name, self._impairs)
                raise Problem(place, key, f"= {show(value)} names no impair {show(name)}; {known}")
            case ["link", name, _] | ["link", name, "class", _, _]:
                raise Problem(place, key, f"= {show(value)} names no link {show(name)}; {suggest(name, links)}")
            case ["flow", name, _]:
                raise Problem(place, key, f"= {show(value)} names no flow {show(name)}; {suggest(name, flows)}")
            case _:
                raise Problem(place, key, f"= {show(value)} is not a key here; {suggest(key, self._keys())}")

    def _link_value(self, place: Place, key: str, value: Value) -> Value:
        """A new value of a link. Raises Problem where this link's cannot change."""
        _, name, setting = key.split(".")
        link = self._links[name]
        if setting == "rate" and media.is_side(link):
            text = f"= {show(value)} cannot change: link {show(name)} has a medium"
            raise Problem(place, key, f'{text}; "link.{name}.qdisc" can')
        if setting == "rate" and "rate_trace" in link:
            text = f"= {show(value)} cannot change: link {show(name)} has a rate_trace; write it there"
            raise Problem(place, key, text)
        if setting == "policer" and "policer" not in link:
            text = f"= {show(value)} cannot come while it runs; let the link begin with a policer"
            raise Problem(place, key, f'{text}, such as policer = "rate 10gbit burst 10mb"')
        if name in self._trees and setting not in ("rate", "policer"):
            text = f"= {show(value)} cannot change while it runs: link {show(name)} has classes"
            raise Problem(place, key, f"{text}; {_of_a_tree(name, link)}")
        if setting not in AT_KEYS:
            raise Problem(place, key, f"= {show(value)} cannot change while it runs; {suggest(setting, AT_KEYS)}")
        if setting != "qdisc" or not isinstance(value, str):
            return value
        if classes.holds_classes(value):
            text = f"= {show(value)} holds classes, which cannot come while it runs; let the link begin with it"
            raise Problem(place, key, text)
        return _same_stab(value, place, key, link)

    def _keys(self) -> list[str]:
        keys = [*At.model_fields, *(key for link in self._links.values() for key in _keys_of_link(link))]
        keys += [f"flow.{name}.{setting}" for name, flow in self._flows.items() for setting in _changeable(flow)]
        return keys + [f"impair.{name}.{setting}" for name in self._impairs for setting in AT_IMPAIR_KEYS]


class _InForce:
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
        alone = qdisc_of(text, place, key, self._outside)
        queue = self._in_force[key]
        if queue is None or is_code(text) or ("queue", alone) in self._outside.names:
            self._begin(key, alone)
            return alone
        try:
            return queue.change(text)
        except ValueError as error:
            raise Problem(place, key, f"= {show(text)}: {error}") from None


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


def no_station(station: str, flows: Mapping[str, run.Flow]) -> str | None:
    """The mistake in a name of a station that no flow has, or None."""
    known = sorted({of for flow in flows.values() if (of := flow.get("station")) is not None})
    if station in known:
        return None
    fix = suggest(station, known) if known else f"give one station = {show(station)}"
    return f"names no station {show(station)} that a flow has; {fix}"


def _keys_of_link(link: run.Link) -> list[str]:
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
    stab, qdisc = split_stab(text, place, key)
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
    """The values that may change of a flow: the rate only of an unresponsive one, the number not of what is outside."""
    if flow["kind"] in ("program", "endpoint"):
        return ["rtt"]
    if flow["kind"] == "media":
        return ["rate_max" if key == "rate" else key for key in AT_FLOW_KEYS] + ["pause"]
    # Events begin flows without a [[at]].
    keys = [key for key in AT_FLOW_KEYS if key != "count" or flow.get("events") is None]
    if flow["kind"] == "tcp" and flow.get("rate_bps") is not None:
        return ["app_rate" if key == "rate" else key for key in keys] + ["pause"]
    return [key for key in keys if key != "rate" or flow["kind"] == "cbr"]


def _link_change(time_ns: int, link: str, settings: Keys, place: Place, in_force: _InForce) -> run.Change:
    change: run.Change = {"time_ns": time_ns, "link": link, "rate_bps": None, "qdisc": None}
    if "rate" in settings:
        checked = check(Link, {"rate": settings["rate"], "qdisc": ""}, (f"{place[0]}: link", link))
        change["rate_bps"] = RATE.parse(checked.rate)
    if "qdisc" in settings:
        key = f"link.{link}.qdisc"
        qdisc = settings["qdisc"]
        if not isinstance(qdisc, str):
            raise Problem(place, key, f'= {show(qdisc)} is not text; write it such as "pie"')
        change["qdisc"] = in_force.change(key, qdisc, place)
    if "policer" in settings:
        change["policer"] = classes.policer(settings["policer"], place, f"link.{link}.policer")
    if "medium" in settings:
        change["medium"] = in_force.change_medium(link, None, settings["medium"], place)
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
