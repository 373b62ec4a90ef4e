"""An experiment file under construction: tables, and comments that say what was taken, what was left out and why."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from l4slab import _core
from l4slab.base.errors import InputError, one_line
from l4slab.experimentfile.tc import remedy, unitless

CARD = "1Gbit"  # of a device whose qdisc shapes to less
PLAIN = "pfifo limit 1000"  # of a device and of a class without a qdisc: txqueuelen
_MOST_FLOWS = 4
_RTT = "20ms"

Value = str | int | bool | list[str]
Keys = dict[str, Value]


@dataclass
class Link:
    """A link with its classes and filters; `comments` stand above it."""

    keys: Keys
    comments: list[str] = field(default_factory=list)
    classes: dict[str, Keys] = field(default_factory=dict)
    filters: list[Keys] = field(default_factory=list)


@dataclass
class Draft:
    """What an importer has found. `files`: what stands beside the experiment file, by name."""

    source: str
    links: dict[str, Link] = field(default_factory=dict)
    impairs: dict[str, Keys] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    rtt: str = _RTT
    reverse: dict[str, str] = field(default_factory=dict)  # by link, the one that its ACKs cross
    files: dict[str, str] = field(default_factory=dict)

    def link(self, name: str, **keys: Value) -> Link:
        """A new link, whose name is made of one that may have other characters."""
        plain = base = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_") or "link"
        number = 2
        while plain in self.links:
            plain, number = f"{base}_{number}", number + 1
        self.links[plain] = Link(dict(keys))
        return self.links[plain]

    def name_of(self, link: Link) -> str:
        """The name of a link."""
        return next(name for name, one in self.links.items() if one is link)

    def leave(self, what: str, why: str) -> None:
        """Note what is left out, a line each."""
        note = f"{one_line(what)}: {one_line(why)}"
        if note not in self.left:
            self.left.append(note)

    def queue(self, words: str, what: str) -> str:
        """The words of a qdisc as a file has them. What is not modelled is left out, and a FIFO takes its place."""
        stab = ""
        try:
            table, plain = _core.split_stab(words)
            stab = f"stab {table} " if table is not None else ""
            plain = _core.qdisc_as_read(plain)
            if plain.split()[:1] in [[entry["name"]] for entry in _core.trees()]:
                return stab + _core.canonical_tree(plain)
            canonical = _core.canonical_qdisc(plain)
        except ValueError as error:
            why = (remedy(words) or f": {error}").lstrip(" :")
            self.leave(what, f"{words!r} {why}; {PLAIN} stands in its place")
            return PLAIN
        return stab + (canonical if unitless(plain) else plain)

    def text(self) -> str:
        """The file. Raises InputError where nothing was found."""
        if not self.links:
            why = f" Left out: {'; '.join(self.left)}." if self.left else ""
            raise InputError(f"has nothing that an experiment could take.{why}", file=self.source)
        lines = [f"# Written by l4slab import from {self.source}.", "#"]
        for title, notes in (("Taken:", self.taken), ("Left out:", self.left)):
            if notes:
                lines += [f"# {title}", *(f"#   {one_line(note)}" for note in notes), "#"]
        lines += [f"# The flows are not from {self.source}: replace them by your traffic.", ""]
        lines += [f"title    = {_value(f'Imported from {self.source}')}", 'duration = "20s"']
        for name, link in self.links.items():
            lines += ["", *(f"# {one_line(comment)}" for comment in link.comments)]
            lines += _table(f"[link.{name}]", link.keys)
            for number, keys in link.classes.items():
                lines += ["", *_table(f"[link.{name}.class.{_key(number)}]", keys)]
            for one in link.filters:
                lines += ["", *_table(f"[[link.{name}.filter]]", one)]
        for name, keys in self.impairs.items():
            lines += ["", *_table(f"[impair.{name}]", keys)]
        for keys in self._flows():
            lines += ["", *_table("[[flow]]", keys)]
        return "\n".join(lines) + "\n"

    def _flows(self) -> list[Keys]:
        """A flow of Prague and one of CUBIC through a link, or one for some of the hosts that filters name."""
        found: list[Keys] = []
        back = set(self.reverse.values())
        for name, link in [(name, link) for name, link in self.links.items() if name not in back]:
            hosts = list(dict.fromkeys(str(one["host"]) for one in link.filters if "host" in one))
            for number, cc in enumerate(("prague", "cubic")):
                keys: Keys = {"name": f"{cc}-{name}", "cc": cc, "rtt": self.rtt, "path": [name]}
                if name in self.reverse:
                    keys["reverse_path"] = [self.reverse[name]]
                if hosts:
                    keys["peer_host"] = hosts[number % len(hosts)]
                found.append(keys)
        return found[:_MOST_FLOWS]


def _table(header: str, keys: Mapping[str, Value]) -> list[str]:
    return [header, *(f"{_key(key)} = {_value(value)}" for key, value in keys.items())]


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _value(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)
