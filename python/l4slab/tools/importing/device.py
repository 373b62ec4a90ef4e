"""The qdiscs, classes and filters of a device, as tc names them, as a link with its classes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from l4slab import _core
from l4slab.base.units import RATE
from l4slab.experimentfile.traffic import DSCP
from l4slab.tools.importing.draft import CARD, PLAIN, Draft, Keys, Link

_SHARED = ("mq", "mqprio", "multiq")
_CODEPOINTS = ("not-ect", "ect1", "ect0", "ce")
_ALL_ECN, _ALL_DSCP = 0x3, 0xFC
# Of a class of hfsc without one.
_PLAIN_CURVE = "ls rate 1mbit"


@dataclass
class Device:
    """What was said of a device: qdiscs by parent ("root" or a class), each with its handle; classes by number with
    their parent; filters with the handle of their qdisc. `where` of each is for notes.
    """

    name: str
    qdiscs: dict[str, tuple[str, str]] = field(default_factory=dict)
    classes: dict[str, tuple[str, list[str], str]] = field(default_factory=dict)
    filters: list[tuple[str, list[str], str]] = field(default_factory=list)

    def has(self, number: str) -> bool:
        """Whether a class of this number can be of one of its qdiscs."""
        return number.partition(":")[0] in {handle.rstrip(":") for handle, _ in self.qdiscs.values()}

    def add_to(self, draft: Draft, rate: str) -> None:
        """The device as a link of the draft. `rate`: where nothing here says it."""
        self._police_arrivals(draft)
        if "root" not in self.qdiscs:
            self._adopt(draft)
        if "root" not in self.qdiscs:
            return
        handle, words = self.qdiscs["root"]
        if words.split()[0] == "noqueue":
            draft.leave(self.name, "a device without a queue")
            return
        below = self._below(handle)
        if (kind := words.split()[0]) in _SHARED:
            # A card's queues have parents without a handle where the kernel made them.
            below = below or [of for parent, (_, of) in self.qdiscs.items() if parent.startswith(":")]
            words = below[0] if below else "pfifo_fast"
            draft.leave(f"{self.name}: {kind}", "a link has no queues of a network card; one of its qdiscs is here")
            below = []
        link = draft.link(self.name)
        link.comments.append(f"{self.name}: {words}")
        if words.startswith("netem"):
            self._impair(draft, link, words)
            link.comments.append(
                "netem comes before its child, so it is the [impair] below" if below else "netem is the [impair] below"
            )
            words = below[0] if below else PLAIN
            handle = next((one for one, of in self.qdiscs.values() if of == words), handle)
            below = self._below(handle) if below else []
        limit, words = self._limit(link, words, below, rate)
        link.keys = {"rate": limit, **link.keys}
        if words.split()[0] in [entry["name"] for entry in _core.trees()]:
            self._tree(draft, link, words)
        else:
            link.keys["qdisc"] = draft.queue(words, self.name)
        draft.taken.append(f"{self.name} as link {draft.name_of(link)}")

    def _limit(self, link: Link, words: str, below: list[str], rate: str) -> tuple[str, str]:
        """The rate of the link, and the words of its queue, which is the child of a tbf that has one."""
        kind = words.split()[0]
        if kind == "tbf" and below:
            told = _values(words.split()[1:])
            if "burst" in told:
                link.keys["burst"] = f"{_size(told['burst'])}B"
            link.comments.append("tbf has a child: its rate and burst are the link's, and the child is the queue")
            return RATE.text(_core.tc_rate(told.get("rate", rate))), below[0]
        if kind in ("htb", "tbf") or (kind == "cake" and "bandwidth" in words.split()):
            link.comments.append(f"{kind} shapes; the rate is that of its network card")
            return CARD, words
        link.comments.append("tc does not say the device's rate; write the one of yours")
        return rate, words

    def _impair(self, draft: Draft, link: Link, words: str) -> None:
        netem = draft.queue(words, self.name)
        netem = netem.removeprefix("netem").strip() if netem.startswith("netem") else "limit 1000"
        draft.impairs[draft.name_of(link)] = {"netem": netem, "before": draft.name_of(link)}

    def _adopt(self, draft: Draft) -> None:
        """A qdisc whose parent nobody has described, as scripts that change a part of a tree have it."""
        for parent, (handle, words) in list(self.qdiscs.items()):
            if parent.partition(":")[0] not in {one.rstrip(":") for one, _ in self.qdiscs.values()}:
                draft.leave(f"{self.name}: parent {parent}", "it is not described here; its qdisc stands as the root")
                del self.qdiscs[parent]
                self.qdiscs["root"] = handle, words
                return

    def _below(self, handle: str) -> list[str]:
        """The qdiscs of the classes of a qdisc."""
        major = handle.rstrip(":")
        return [words for parent, (_, words) in self.qdiscs.items() if parent.partition(":")[0] == major]

    def _tree(self, draft: Draft, link: Link, words: str) -> None:
        stab, root = _core.split_stab(words)
        prefixes = {self.qdiscs["root"][0].rstrip(":") or "1": ""}
        # A class can hold a qdisc that holds classes; each pass goes one further down.
        for _ in range(8):
            for parent, (handle, of) in self.qdiscs.items():
                major, _, minor = parent.partition(":")
                holds = of.split()[0] in [entry["name"] for entry in _core.trees()]
                if holds and major in prefixes and handle.rstrip(":"):
                    prefixes.setdefault(handle.rstrip(":"), f"{prefixes[major]}{minor}:")
        for major, prefix in prefixes.items():
            of = root if not prefix else self._words_of(major)
            self._level(draft, link, of, major, prefix)
        link.keys["qdisc"] = (f"stab {stab} " if stab else "") + str(link.keys.pop("qdisc", root))
        known = set(link.classes)
        for parent, matches, where in self.filters:
            self._filter(draft, link, parent, matches, where, prefixes, known)

    def _words_of(self, major: str) -> str:
        return next(words for handle, words in self.qdiscs.values() if handle.rstrip(":") == major)

    def _level(self, draft: Draft, link: Link, words: str, major: str, prefix: str) -> None:
        """The classes of one qdisc, whose numbers begin with `prefix`."""
        kind, options = words.split()[0], _core.qdisc_as_read(words).split()[1:]
        own = {number: told for number, told in self.classes.items() if number.partition(":")[0] == major}
        if kind == "drr":
            for number, (_, told, _) in own.items():
                values = _values(told)
                quantum = {"quantum": f"{_size(values['quantum'])}B"} if "quantum" in values else {}
                link.classes[prefix + _plain(number)] = {**quantum, "qdisc": self._leaf(draft, number)}
            self._set(link, prefix, kind)
            return
        if kind == "ets":
            words = draft.queue(words, self.name)
            for band in range(1, int(_core.canonical_tree(words).split()[2]) + 1):
                link.classes[f"{prefix}{band:x}"] = {"qdisc": self._leaf(draft, f"{major}:{band:x}")}
            self._set(link, prefix, words)
            return
        if kind == "prio":
            bands = int(_values(options).get("bands", "3"))
            for band in range(1, bands + 1):
                link.classes[f"{prefix}{band:x}"] = {"qdisc": self._leaf(draft, f"{major}:{band:x}")}
            self._set(link, prefix, draft.queue(" ".join(["prio", *_kept(options, ("bands", "priomap"))]), self.name))
            return
        parents = {parent for parent, _, _ in own.values()}
        for number, (parent, told, where) in own.items():
            keys = self._curves(draft, told, where) if kind == "hfsc" else self._numbers(draft, told, where)
            if parent in own:
                keys = {"parent": prefix + _plain(parent), **keys}
            if number not in parents:
                keys["qdisc"] = self._leaf(draft, number)
            else:
                keys.pop("quantum", None)
            link.classes[prefix + _plain(number)] = keys
        default = _plain(f":{_values(options).get('default', '0')}")
        leaves = [number for number in own if number not in parents]
        if default not in {_plain(number) for number in leaves}:
            draft.leave(
                f"{self.name}: {kind} without a class for what no filter takes", "class fffe is added for such packets"
            )
            default = "fffe"
            numbers = {"curves": _PLAIN_CURVE} if kind == "hfsc" else {"rate": CARD}
            link.classes[f"{prefix}{default}"] = {**numbers, "qdisc": PLAIN}
        rest = [word for key, value in _values(options).items() if key == "r2q" for word in (key, value)]
        self._set(link, prefix, " ".join([kind, "default", default, *rest]))

    @staticmethod
    def _set(link: Link, prefix: str, words: str) -> None:
        holder = link.classes[prefix.rstrip(":")] if prefix else link.keys
        holder["qdisc"] = words

    def _leaf(self, draft: Draft, number: str) -> str:
        told = self.qdiscs.get(number) or next(
            (one for parent, one in self.qdiscs.items() if _same(parent, number)), ("", PLAIN)
        )
        return draft.queue(told[1], f"{self.name}: class {number}")

    def _numbers(self, draft: Draft, told: list[str], where: str) -> Keys:
        values = _values(told)
        keys: Keys = {}
        try:
            rate = _core.tc_rate(values["rate"])
            keys["rate"] = RATE.text(rate)
            if "ceil" in values:
                keys["ceil"] = RATE.text(max(_core.tc_rate(values["ceil"]), rate))
            keys |= {one: f"{max(_size(values[one]), 1)}B" for one in ("burst", "cburst", "quantum") if one in values}
            if "prio" in values:
                keys["prio"] = min(int(values["prio"]), 7)
        except (KeyError, ValueError) as error:
            draft.leave(where, f"the class has no rate that can be read ({error}); it has 1 Mbit/s")
            keys["rate"] = "1Mbit"
        return keys

    @staticmethod
    def _curves(draft: Draft, told: list[str], where: str) -> Keys:
        begin = next((n for n, word in enumerate(told) if word in ("sc", "rt", "ls", "ul")), len(told))
        curves = " ".join(told[begin:])
        try:
            _core.canonical_curves(curves)
        except ValueError as error:
            draft.leave(where, f"the class has no curves that can be read ({error}); it shares 1 Mbit/s")
            curves = _PLAIN_CURVE
        return {"curves": curves}

    def _filter(
        self,
        draft: Draft,
        link: Link,
        parent: str,
        words: list[str],
        where: str,
        prefixes: dict[str, str],
        known: set[str],
    ) -> None:
        target = next((words[i + 1] for i, word in enumerate(words[:-1]) if word in ("flowid", "classid")), "")
        major, _, minor = target.partition(":")
        number = f"{prefixes.get(major or parent.rstrip(':'), '')}{_plain(f':{minor}')}"
        if number not in known or "qdisc" not in link.classes[number]:
            draft.leave(where, f"its class {target or '(none)'} is not a class with a queue here")
            return
        keys: Keys = {"class": number}
        try:
            keys |= matched(words)
        except ValueError as error:
            draft.leave(where, str(error))
            return
        if len(keys) == 1:
            draft.leave(where, "it takes every packet, as the default class does")
            return
        if keys not in link.filters:
            link.filters.append(keys)

    def _police_arrivals(self, draft: Draft) -> None:
        """A policer at the ingress of the device is one of a link of its own."""
        for parent in [parent for parent in self.qdiscs if parent.startswith(("ffff", "ingress", "clsact"))]:
            del self.qdiscs[parent]
        for of, words, where in list(self.filters):
            if not of.startswith("ffff") and of != "ingress":
                continue
            self.filters.remove((of, words, where))
            policer = police_of(words)
            if policer is None:
                to = words[words.index("dev") + 1] if "dev" in words[:-1] else "another device"
                draft.leave(where, f"it sends what arrives at {self.name} to {to}, which is a link of its own")
                continue
            link = draft.link(f"{self.name}_in", rate=CARD, qdisc=PLAIN, policer=policer)
            link.comments.append(f"what arrives at {self.name} is policed")
            draft.taken.append(f"the policer at the ingress of {self.name} as link {draft.name_of(link)}")


def _size(text: str) -> int:
    """Bytes, of a burst with its cell ("15k/8"), too."""
    return _core.tc_size(text.partition("/")[0])


def police_of(words: Sequence[str]) -> str | None:
    """The words of a policer among those of a filter, as a file has them. Raises ValueError."""
    if "police" not in words:
        return None
    rest = list(words[words.index("police") + 1 :])
    taken: list[str] = []
    while rest and rest[0] not in ("flowid", "classid", "action"):
        word = rest.pop(0)
        if word in ("index", "rate", "burst", "buffer", "maxburst", "mtu", "minburst", "peakrate", "mpu", "overhead",
                    "linklayer", "conform-exceed", "avrate"):  # fmt: skip
            value = rest.pop(0) if rest else ""
            taken += [] if word in ("index", "avrate") else [word, value]
        elif word in ("drop", "pass", "ok", "continue"):
            taken.append(word)
    _core.canonical_policer(" ".join(taken))
    return " ".join(taken)


def matched(words: Sequence[str]) -> Keys:
    """What a filter of tc looks at, as keys. Raises ValueError with why that is not modelled."""
    keys: Keys = {}
    if (policer := police_of(words)) is not None:
        keys["policer"] = policer
    if "fw" in words or "handle" in words:
        raise ValueError("no packet has a mark of a firewall here")
    for key, value in _matches(words):
        if key in ("src", "dst", "src_ip", "dst_ip"):
            address = ipaddress.ip_interface(value)
            if address.network.num_addresses > 1 and address.network.prefixlen:
                raise ValueError(f"filters here take one host, and {value} has several")
            if address.network.prefixlen:
                keys["host"] = str(address.ip)
        elif key in ("tos", "dsfield", "ip_tos", "priority"):
            number, _, mask = value.partition("/")
            wanted, bits_of = int(number, 16), int(mask or "0xff", 16)
            if bits_of & _ALL_DSCP == _ALL_DSCP:
                code = (wanted & _ALL_DSCP) >> 2
                keys["dscp"] = next((name for name, one in DSCP.items() if one == code), code)
            elif bits_of & _ALL_DSCP:
                raise ValueError(f"it looks at a part of the DSCP ({value})")
            if bits_of & _ALL_ECN == _ALL_ECN and bits_of == _ALL_ECN:
                keys["ecn"] = _CODEPOINTS[wanted & _ALL_ECN]
        elif not (key == "u32" and value in ("0", "0 0")):
            raise ValueError(f"no filter here looks at {key}")
    return keys


def _matches(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "match" and len(rest) >= 3:
            family, key = rest.pop(0), rest.pop(0)
            if family == "u32":
                yield "u32", f"{key}"
                rest = rest[1:]
                continue
            value = rest.pop(0)
            if key in ("tos", "dsfield", "priority") and rest and rest[0].startswith("0x"):
                value = f"{value}/{rest.pop(0)}"
            elif key in ("protocol", "sport", "dport"):
                rest = rest[1:]
            yield key, value
        elif word in ("ip_tos", "src_ip", "dst_ip", "ip_proto", "dst_port", "src_port") and rest:
            yield word, rest.pop(0)
        elif word == "police":
            return


def _values(words: Sequence[str]) -> dict[str, str]:
    """The word after each word: of key and value pairs those that matter are found by their keys."""
    return dict(zip(reversed(words[:-1]), reversed(words[1:]), strict=True))


def _kept(words: Sequence[str], keys: Sequence[str]) -> list[str]:
    """The keys with the values behind them."""
    found: list[str] = []
    keep = False
    for word in words:
        if not word[0].isdigit():
            keep = word in keys
        if keep:
            found.append(word)
    return found


def _plain(number: str) -> str:
    """The part of a class behind the colon, as a file has it."""
    text = number.rpartition(":")[2].removeprefix("0x").lstrip("0").lower()
    return text or "0"


def _same(one: str, other: str) -> bool:
    return [part.lstrip("0") for part in one.split(":")] == [part.lstrip("0") for part in other.split(":")]
