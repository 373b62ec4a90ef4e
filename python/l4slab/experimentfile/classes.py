"""Classes of a link's queue, each with a queue of its own, and the filters that sort packets into them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Final, cast

from pydantic import Field

from l4slab import _core
from l4slab.base import run
from l4slab.base.errors import suggest
from l4slab.base.paths import name_mistake
from l4slab.base.units import RATE
from l4slab.base.values import Keys, Value
from l4slab.experimentfile import tc
from l4slab.experimentfile.tables import Burst, Codepoint, Rate
from l4slab.experimentfile.traffic import Dscp
from l4slab.experimentfile.wording import Place, Problem, Table, check, numbered, show

DEFAULT_BURST = "1600B"
# As in the kernel: the default quantum of an htb class is its rate in bytes per second, divided by `r2q`, within these
# bounds.
_R2Q, _QUANTUM = 10, (1000, 200_000)
_MOST_LEVELS = 8
# A queue that has a class where the file gives it one.
MAY_HOLD: Final = "tbf"
_ID = re.compile(r"[1-9a-f][0-9a-f]{0,3}(?::[1-9a-f][0-9a-f]{0,3})*")
# The keys of a class that may change during a run: the queue of a leaf, and all others of htb, drr and hfsc.
QUEUE: Final = "qdisc"
_NUMBERS, _TURNS = ("rate", "ceil", "burst", "cburst"), ("prio", "quantum")
# The quantum of a class of drr is a full frame, unless the file says another one.
_FRAME = 1514
# Queues whose classes are bands, all of which have to be there.
_BANDS: Final = ("prio", "ets")


class Class(Table):
    """One class; all but `qdisc` is of htb, `quantum` of drr, too, and `curves` of hfsc, which has no other numbers."""

    section = "class"
    parent: str | None = Field(default=None, examples=['"1"'])
    qdisc: str | None = Field(default=None, examples=['"fq_codel"'])
    rate: Rate | None = Field(default=None, examples=['"5Mbit"'], serialization_alias="rate_bps")
    ceil: Rate | None = Field(default=None, examples=['"20Mbit"'], serialization_alias="ceil_bps")
    burst: Burst = Field(default=DEFAULT_BURST, serialization_alias="burst_bytes")
    cburst: Burst = Field(default=DEFAULT_BURST, serialization_alias="cburst_bytes")
    prio: int = Field(default=0, ge=0, le=7, examples=["1"])
    quantum: Burst | None = Field(default=None, examples=['"3028B"'], serialization_alias="quantum_bytes")
    curves: str | None = Field(default=None, examples=['"sc rate 5mbit ul rate 10mbit"'])


class Filter(Table):
    """A packet that has all that is said goes into the class, unless an earlier one takes it; in drr it may be any."""

    section = "filter"
    class_: str = Field(validation_alias="class", examples=['"10"'])
    dscp: Dscp | None = Field(default=None, examples=['"ef"'])
    ecn: Codepoint | None = Field(default=None, examples=['"ect1"'])
    host: str | None = Field(default=None, examples=['"l4s"'])
    policer: str | None = Field(default=None, examples=['"rate 1mbit burst 10kb"'])


def qdiscs_of(table: run.Link | run.Change) -> Iterator[str]:
    """Every qdisc that a link, or a change of one, has in a run's description: its own and those of its classes."""
    qdiscs = [table.get("qdisc"), *(one.get("qdisc") for one in table.get("classes", ()))]
    yield from (qdisc for qdisc in qdiscs if qdisc is not None)


def holds_classes(qdisc: str) -> bool:
    """Whether these words are of a queue that always holds classes."""
    return qdisc.partition(" ")[0] in _holders()


@cache
def _holders() -> set[str]:
    return {entry["name"] for entry in _core.trees()}


def holds(outer: str, qdisc: str, numbers: Iterable[str]) -> bool:
    """Whether the queue of class `outer` ("": the link's) holds one of these classes: tbf may have one."""
    may = qdisc.partition(" ")[0] == MAY_HOLD and any(number and holder(number) == outer for number in numbers)
    return may or holds_classes(qdisc)


def holder(number: str) -> str:
    """The class whose queue holds this one; "" for the link's queue."""
    return number.rpartition(":")[0]


def ordered(number: str) -> list[int]:
    """The key that sorts numbers of classes."""
    return [int(part, 16) for part in number.split(":")]


def policer(text: object, place: Place, key: str) -> str:
    """The words of a policer as a run's description has them. Raises Problem."""
    if not isinstance(text, str):
        raise Problem(place, key, f'= {show(text)} is not text; write it such as "rate 100mbit burst 64kb"')
    try:
        return tc.policer(text)
    except ValueError as error:
        raise Problem(place, key, f"= {show(text)}{error}") from None


@dataclass
class Tree:
    """A link's classes for the description of a run, with remarks on valid settings that are perhaps not intended."""

    qdisc: str
    classes: list[run.Class]
    filters: list[run.Filter]
    remarks: list[str] = field(default_factory=list)


@dataclass
class Changing:
    """The classes of a link during a run, after all changes so far."""

    link: str
    raw: Keys  # the link's table, with what has changed
    rate_bps: int
    hosts: Mapping[str, int]
    leaf: Callable[[str, Place, str], str]
    follow: Callable[[str, str, Place], str]  # what a change has of a queue: of its key in [[at]], words and the [[at]]

    def change(
        self, place: Place, settings: Mapping[str, Keys], rate_bps: int | None
    ) -> tuple[list[run.Class], list[str]]:
        """The classes that change by the [[at]] at `place`, as described, and remarks. `settings`: keys and values by
        number; `rate_bps`: the link's, where it changes. Raises Problem.
        """

        def leaf(text: str, where: Place, key: str) -> str:
            return self.leaf(text, place, ".".join([*where, key]))

        told = self._resolved(self.leaf).remarks
        tables: Keys = {number: {**table, **settings.get(number, {})} for number, table in tables_of(self.raw).items()}
        self.raw = {**self.raw, "class": tables}
        self.rate_bps = rate_bps or self.rate_bps
        try:
            tree = self._resolved(leaf)
        except Problem as problem:
            if problem.place == place:
                raise
            raise Problem(place, ".".join([*problem.place, problem.key]), problem.message) from None
        changed: list[run.Class] = []
        for one in tree.classes:
            keys = settings.get(one["id"], {}).keys()
            # `tc class change` is told all numbers of a class.
            numbers = one.keys() - {"id", "parent", QUEUE} if keys - {QUEUE} else set()
            if keys:
                wanted = {"id", *numbers, *(keys & {QUEUE})}
                # A part of a class that has its id is a class.
                changed.append(cast(run.Class, {key: value for key, value in one.items() if key in wanted}))
            if QUEUE in keys:
                key = f"link.{self.link}.class.{one['id']}.{QUEUE}"
                changed[-1][QUEUE] = self.follow(key, str(settings[one["id"]][QUEUE]), place)
        return changed, [f"{place[0]}: {remark}" for remark in tree.remarks if remark not in told]

    def _resolved(self, leaf: Callable[[str, Place, str], str]) -> Tree:
        return _tree(("link", self.link), str(self.raw["qdisc"]), self.raw, self.rate_bps, self.hosts, leaf)


def changeable(link: run.Link) -> dict[str, tuple[str, ...]]:
    """The values that may change of a link's classes in a run's description, by number."""
    qdiscs = {"": link["qdisc"]} | {one["id"]: one.get(QUEUE) or "" for one in link["classes"]}
    valid: dict[str, tuple[str, ...]] = {}
    for number, qdisc in qdiscs.items():
        if number:
            kind = qdiscs[holder(number)].partition(" ")[0]
            of_htb = (*_NUMBERS, *(_TURNS if qdisc else ()))
            numbers: tuple[str, ...] = {"htb": of_htb, "drr": ("quantum",), "hfsc": ("curves",)}.get(kind, ())
            valid[number] = (*numbers, QUEUE) if qdisc and not holds(number, qdisc, qdiscs) else numbers
    return valid


@dataclass
class _Building:
    """A queue that holds classes: the link's, or that of the class `outer`."""

    place: Place
    outer: str
    qdisc: str
    words: list[str]
    classes: dict[str, Class]  # its own, by their whole numbers

    @property
    def kind(self) -> str:
        return self.words[0]

    @property
    def r2q(self) -> int:
        """A zero counts as one (`htb_init`)."""
        return max(1, int(self.words[self.words.index("r2q") + 1])) if "r2q" in self.words else _R2Q

    def of(self, number: str) -> Place:
        return (*self.place, "class", number)

    @property
    def queue(self) -> Place:
        """The table that has the words of the queue."""
        return self.of(self.outer) if self.outer else self.place

    def number(self, minor: str) -> str:
        """The whole number of one of its classes."""
        return f"{self.outer}:{minor}" if self.outer else minor

    def header(self, minor: str) -> str:
        """The table of one of its classes, as TOML has it."""
        number = f'"{self.number(minor)}"' if self.outer else minor
        return f"[{'.'.join(self.place)}.class.{number}]"

    @property
    def bands(self) -> int:
        """How many prio or ets has."""
        return int(self.words[2])

    @property
    def default(self) -> str:
        """The class of unmatched packets in htb or hfsc."""
        return self.number(self.words[2])

    @cached_property
    def children(self) -> dict[str | None, list[str]]:
        """The classes below each; of None, those below the queue."""
        found: dict[str | None, list[str]] = {}
        for number, one in self.classes.items():
            found.setdefault(one.parent, []).append(number)
        return found


def resolve(
    place: Place,
    qdisc: str,
    raw: Keys,
    rate_bps: int,
    hosts: Mapping[str, int],
    leaf: Callable[[str, Place, str], str],
) -> Tree | None:
    """The tree of the link at `place`; None where its qdisc holds no classes. `hosts`: their numbers by name; `leaf`
    reads the words of a qdisc. Raises Problem.
    """
    tables, filters = raw.get("class", {}), raw.get("filter", [])
    if not holds("", qdisc, tables_of(raw)):
        for key, written in (("class", tables), ("filter", filters)):
            if written:
                leaf(qdisc, place, "qdisc")
                text = f"stands beside qdisc = {show(qdisc)}, which holds no classes"
                raise Problem(place, key, f'{text}; write one such as qdisc = "htb default 10"')
        return None
    return _tree(place, qdisc, raw, rate_bps, hosts, leaf)


def _tree(
    place: Place,
    qdisc: str,
    raw: Keys,
    rate_bps: int,
    hosts: Mapping[str, int],
    leaf: Callable[[str, Place, str], str],
) -> Tree:
    tables, filters = raw.get("class", {}), raw.get("filter", [])
    if not isinstance(tables, dict):
        raise Problem(place, "class", f"is not a table; write [{'.'.join(place)}.class.1]")
    for number in tables:
        if not _ID.fullmatch(number):
            remedy = "write it as tc prints it, 1 to ffff in small hexadecimal digits"
            raise Problem((*place, "class"), number, f"is no number of a class; {remedy}")
    checked = {
        number: check(Class, tables[number], (*place, "class", number)) for number in sorted(tables, key=ordered)
    }
    qdiscs: dict[str, str | None] = {"": qdisc, **{number: one.qdisc for number, one in checked.items()}}
    for number in checked:
        _check_holder(place, number, qdiscs)
    built = {
        outer: _building(place, outer, words, checked)
        for outer, words in qdiscs.items()
        if words is not None and holds(outer, words, checked)
    }
    for build in built.values():
        _CHECKS[build.kind](build, tables_of(raw))
    # Thousands of classes have queues of the same words.
    words: dict[str, str] = {}

    def read(text: str, where: Place, key: str) -> str:
        if text not in words:
            words[text] = leaf(text, where, key)
        return words[text]

    leaves = dict.fromkeys(number for number, one in checked.items() if one.qdisc is not None)
    return Tree(
        " ".join(built[""].words),
        [_described(built, number, read) for number in checked],
        [_filter(built, leaves, number, table, hosts) for number, table in enumerate(_list(place, filters), 1)],
        [remark for build in built.values() for remark in _remarks(built, build, rate_bps)],
    )


def tables_of(raw: Keys) -> dict[str, Keys]:
    """The classes of a link's table, by number."""
    tables = raw.get("class")
    named = tables if isinstance(tables, dict) else {}
    return {number: table for number, table in named.items() if isinstance(table, dict)}


def _check_holder(place: Place, number: str, qdiscs: Mapping[str, str | None]) -> None:
    """Whether there is a queue that can hold this class."""
    outer = holder(number)
    words = qdiscs.get(outer)
    if words is not None and holds(outer, words, qdiscs):
        return
    told = (*place, "class")
    if outer not in qdiscs:
        text = f"is a class of the queue in class {outer}, which is no class of this link"
        raise Problem(told, number, f"{text}; {suggest(outer, [one for one in qdiscs if one])}")
    what = "has no qdisc" if words is None else f"has qdisc = {show(words)}, which holds no classes"
    text = f'is a class of the queue in class {outer}, and that {what}; give class {outer} one such as qdisc = "prio"'
    raise Problem(told, number, text)


def _building(place: Place, outer: str, qdisc: str, checked: Mapping[str, Class]) -> _Building:
    own = {number: one for number, one in checked.items() if holder(number) == outer}
    build = _Building(place, outer, qdisc, [], own)
    try:
        build.words = _core.canonical_tree(qdisc).split()
    except ValueError as error:
        raise Problem(build.queue, "qdisc", f"= {show(qdisc)}: {error}") from None
    if not own:
        text = f"= {show(qdisc)} has no classes; add {build.header('1')} with a qdisc"
        raise Problem(build.queue, "qdisc", text)
    return build


def _list(place: Place, filters: Value) -> list[Value]:
    if not isinstance(filters, list):
        raise Problem(place, "filter", f"is not a list of tables; write [[{'.'.join(place)}.filter]]")
    return filters


def _check_htb(build: _Building, tables: Mapping[str, Keys]) -> None:
    for number, one in build.classes.items():
        place = build.of(number)
        if one.rate is None:
            raise Problem(place, "", 'has no rate; add it, such as rate = "5Mbit"')
        if one.ceil is not None and RATE.parse(one.ceil) < RATE.parse(one.rate):
            raise Problem(place, "ceil", f"= {show(one.ceil)} is below rate = {show(one.rate)}; raise it")
        if one.curves is not None:
            raise Problem(place, "curves", f"= {show(one.curves)} is of hfsc; a class of htb has rate and ceil")
    _check_nesting(build, tables)


def _check_hfsc(build: _Building, tables: Mapping[str, Keys]) -> None:
    for number, one in build.classes.items():
        place = build.of(number)
        for key in tables[number]:
            if key not in ("parent", "qdisc", "curves"):
                raise Problem(place, key, f"= {show(tables[number][key])} is of htb; a class of hfsc has curves")
        if one.curves is None:
            raise Problem(place, "", 'has no curves; add them, such as curves = "sc rate 5mbit"')
        _curves(build, number)
    _check_nesting(build, tables)


def _curves(build: _Building, number: str) -> str:
    text = build.classes[number].curves or ""
    try:
        return _core.canonical_curves(text)
    except ValueError as error:
        raise Problem(build.of(number), "curves", f"= {show(text)}: {error}") from None


def _check_nesting(build: _Building, tables: Mapping[str, Keys]) -> None:
    """Whether the classes of htb or hfsc form a tree, whose leaves have queues."""
    classes = build.classes
    for number, one in classes.items():
        place = build.of(number)
        if one.parent is not None and one.parent not in classes:
            others = [other for other in classes if other != number]
            remedy = suggest(one.parent, others) if others else "remove it, or add that class"
            if one.parent == build.outer:
                remedy = f"remove it, since {number} is a class of the queue in {one.parent} already"
            raise Problem(place, "parent", f"= {show(one.parent)} is no class of this link; {remedy}")
        _check_above(build, number)
        below = build.children.get(number)
        if one.qdisc is None and not below:
            raise Problem(place, "", 'has neither a qdisc nor classes below it; add one such as qdisc = "fq_codel"')
        if one.qdisc is not None and below:
            text = f"= {show(one.qdisc)} stands in a class with class {below[0]} below it; move it there, or remove it"
            raise Problem(place, "qdisc", text)
        if below and "quantum" in tables[number]:
            text = f"= {show(tables[number]['quantum'])} is of classes with a qdisc; remove it"
            raise Problem(place, "quantum", text)
    default = build.default
    if default not in classes or classes[default].qdisc is None:
        leaves = [number for number, one in classes.items() if one.qdisc is not None]
        what = "is no class" if default not in classes else "is a class with others below it"
        text = f"= {show(build.qdisc)} {what}: what no filter takes needs a queue; {suggest(default, leaves)}"
        raise Problem(build.queue, "qdisc", text)


def _check_above(build: _Building, number: str) -> None:
    seen, above = [number], build.classes[number].parent
    while above is not None and above in build.classes:
        if above in seen:
            circle = " below ".join([*seen[seen.index(above) :], above])
            parent = build.classes[number].parent
            raise Problem(build.of(number), "parent", f"= {show(parent)} makes a circle, {circle}; remove one parent")
        seen.append(above)
        above = build.classes[above].parent
    if len(seen) > _MOST_LEVELS:
        text = (
            f"= {show(build.classes[number].parent)} is the {len(seen)}th class in a row; {_MOST_LEVELS} are possible"
        )
        raise Problem(build.of(number), "parent", text)


def _check_bands(build: _Building, tables: Mapping[str, Keys]) -> None:
    bands = [build.number(f"{band:x}") for band in range(1, build.bands + 1)]
    for number in build.classes:
        table = tables[number]
        if number not in bands:
            text = f"is no band of qdisc = {show(build.qdisc)}; its classes are {bands[0]} to {bands[-1]}"
            raise Problem((*build.place, "class"), number, f"= {show(table)} {text}")
        _check_queue_only(build, number, table, f"a band of {build.kind}", "fq_codel")
    missing = [band for band in bands if band not in build.classes]
    if missing:
        minor = missing[0].rpartition(":")[2]
        text = f"= {show(build.qdisc)} has no class {missing[0]}; add {build.header(minor)} with its qdisc"
        raise Problem(build.queue, "qdisc", text)


def _check_queue_only(build: _Building, number: str, table: Keys, what: str, example: str) -> None:
    for key in table:
        if key != "qdisc":
            of = "hfsc" if key == "curves" else "htb"
            raise Problem(build.of(number), key, f"= {show(table[key])} is of {of}; {what} has a qdisc only")
    if build.classes[number].qdisc is None:
        raise Problem(build.of(number), "", f'has no qdisc; add it, such as qdisc = "{example}"')


def _check_drr(build: _Building, tables: Mapping[str, Keys]) -> None:
    for number in build.classes:
        others = {key: value for key, value in tables[number].items() if key != "quantum"}
        _check_queue_only(build, number, others, "a class of drr has a quantum, and", "fq_codel")


def _check_tbf(build: _Building, tables: Mapping[str, Keys]) -> None:
    own = build.number("1")
    for number in build.classes:
        if number != own:
            text = f"is no class of qdisc = {show(build.qdisc)}, which has class {own} only"
            raise Problem((*build.place, "class"), number, f"= {show(tables[number])} {text}")
        _check_queue_only(build, number, tables[number], "the class of tbf", "pie")


_CHECKS = {
    "htb": _check_htb,
    "hfsc": _check_hfsc,
    "tbf": _check_tbf,
    "drr": _check_drr,
    **dict.fromkeys(_BANDS, _check_bands),
}


def _described(built: Mapping[str, _Building], number: str, leaf: Callable[[str, Place, str], str]) -> run.Class:
    build = built[holder(number)]
    one = build.classes[number]
    found: run.Class = {"id": number}
    if number in built:
        found["qdisc"] = " ".join(built[number].words)
    elif one.qdisc is not None:
        found["qdisc"] = leaf(one.qdisc, build.of(number), "qdisc")
    if one.parent is not None:
        found["parent"] = one.parent
    if build.kind == "hfsc":
        found["curves"] = _curves(build, number)
    elif build.kind == "htb":
        numbers = one.model_dump(by_alias=True)
        rate, (least, most) = numbers["rate_bps"], _QUANTUM
        found["rate_bps"], found["ceil_bps"] = rate, numbers["ceil_bps"] or rate
        found["burst_bytes"], found["cburst_bytes"] = numbers["burst_bytes"], numbers["cburst_bytes"]
        found["prio"] = one.prio
        found["quantum_bytes"] = numbers["quantum_bytes"] or min(max(rate // 8 // build.r2q, least), most)
    elif build.kind == "drr":
        found["quantum_bytes"] = one.model_dump(by_alias=True)["quantum_bytes"] or _FRAME
    return found


def _filter(
    built: Mapping[str, _Building], leaves: Collection[str], number: int, table: Value, hosts: Mapping[str, int]
) -> run.Filter:
    place = numbered(f"{'.'.join(built[''].place)}.filter", number)
    one = check(Filter, table, place)
    if one.class_ not in leaves:
        is_class = any(one.class_ in build.classes for build in built.values())
        what = "has others below it and no queue" if is_class else "is no class of this link"
        raise Problem(place, "class", f"= {show(one.class_)} {what}; {suggest(one.class_, leaves)}")
    if (of := built[holder(one.class_)]).kind == MAY_HOLD:
        text = f"= {show(one.class_)} is the class of a tbf, which has no filters"
        remedy = f"write the class of tbf itself, {show(of.outer)}" if of.outer else "tbf takes every packet; remove it"
        raise Problem(place, "class", f"{text}; {remedy}")
    takes_all = one.dscp is None and one.ecn is None and one.host is None and one.policer is None
    if takes_all and of.kind != "drr":
        raise Problem(place, "", 'takes every packet, which default says; add dscp, ecn or host, such as ecn = "ect1"')
    found: run.Filter = {"class": one.class_}
    if one.dscp is not None:
        found["dscp"] = one.model_dump(include={"dscp"})["dscp"]
    if one.ecn is not None:
        found["ecn"] = one.ecn
    if one.host is not None:
        if one.host not in hosts:
            raise Problem(place, "host", f"= {show(one.host)} is a name {name_mistake(one.host, '/')}")
        found["host"] = hosts[one.host]
    if one.policer is not None:
        found["policer"] = policer(one.policer, place, "policer")
    return found


def _remarks(built: Mapping[str, _Building], build: _Building, rate_bps: int) -> Iterator[str]:
    """Where the rates below a class, or a link, are more than it has."""
    if build.kind != "htb":
        return
    name = ".".join(build.place)
    most, what = _most(built, build.outer, rate_bps), f"{name}.class.{build.outer}" if build.outer else name
    limits: Iterable[tuple[str | None, int, str]] = [(None, most, what)]
    limits = [*limits, *((n, RATE.parse(c.rate), f"{name}.class.{n}") for n, c in build.classes.items())]
    for number, limit, what in limits:
        total = sum(RATE.parse(build.classes[below].rate) for below in build.children.get(number, ()))
        if total > limit:
            yield (
                f"{what} has a rate of {limit / 1e6:g} Mbit/s and the classes below it have {total / 1e6:g} Mbit/s "
                "together, "
                + ("so that not all get theirs" if number is None else "which htb gives them whatever stands above")
            )


def _most(built: Mapping[str, _Building], number: str, rate_bps: int) -> int:
    """The highest rate of a class; of "", the link's rate."""
    if not number:
        return rate_bps
    above = _most(built, holder(number), rate_bps)
    one = built[holder(number)].classes[number]
    ceil = one.ceil or one.rate
    return above if ceil is None else min(above, RATE.parse(ceil))
