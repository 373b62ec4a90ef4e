"""What a person probably meant by a piece of SQL that cannot run or that finds nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from l4slab.errors import nearest

_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_SHOWN = 8


def unquoted(sql: str, dotted: Iterable[str]) -> str | None:
    """The remedy where one of the dotted keys stands without quotes, which SQL takes for something else."""
    bare = re.sub(_QUOTED, " ", sql)
    for name in sorted(dotted, key=len, reverse=True):
        if "." in name and re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", bare, re.IGNORECASE):
            return f'a key with dots is one name only in double quotes: write "{name}" with them'
    return None


def as_text(sql: str, reason: str) -> str:
    """The reason that a query cannot run, with the remedy where a text stands in the quotes of names."""
    found = re.match(r'Referenced column "([^"]*)" not found', reason)
    if found is None:
        return reason
    if re.search(rf"""[=(,]\s*"{re.escape(found[1])}"(?!\w)""", sql):
        return f"there is no column {found[1]}; if it is a text, write single quotes, '{found[1]}'"
    near = re.search(r'Candidate bindings: "([^"]*)"', reason)
    return f'there is no column "{found[1]}"' + (f'; did you mean "{near[1]}"?' if near else "")


def unmatched(sql: str, values: Mapping[str, Iterable[str]]) -> str | None:
    """What is wrong where `sql` compares a name with a text that it never has: NAME = 'text', or NAME in ('text', ...).

    `values` are the texts that each name has.
    """
    for name, texts in values.items():
        known = [str(text) for text in texts]
        literal = r"'(?:[^']|'')*'"
        found = rf"""(?<![\w"])(?:"{re.escape(name)}"|{re.escape(name)})\s*(?:==?|in\s*\()\s*((?:{literal}\s*,?\s*)+)"""
        for match in re.finditer(found, sql, re.IGNORECASE):
            for text in re.findall(literal, match[1]):
                word = text[1:-1].replace("''", "'")
                if known and word not in known:
                    return _names(name, word, known)
    return None


def _names(name: str, word: str, known: list[str]) -> str:
    if name in ("flow", "link"):
        said, all_of = f"no {name} is called '{word}'", f"the {name}s are"
    else:
        said, all_of = f"{name} is never '{word}'", "it is one of"
    if len(known) > _SHOWN:
        if (close := nearest(word, known)) is not None:
            return f'{said}; did you mean "{close}"?'
        return f"{said}; {all_of} {', '.join(known[:_SHOWN])} and {len(known) - _SHOWN} more"
    return f"{said}; {all_of} {', '.join(known)}"
