"""Corrections of SQL that cannot run or that matches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from l4slab.base.errors import nearest

_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_SHOWN = 8
# DuckDB's messages about frequent mistakes, and ours instead.
_SAID = {
    r'column "([^"]*)" must appear in the GROUP BY clause': (
        'column "{0}" has a value per row beside an aggregate; take an aggregate of it, such as max("{0}"), or '
        "add it to group by"
    ),
    r'Referenced column "([^"]*)" was not found because the FROM clause is missing': (
        'there is no table to take "{0}" from; add one, such as from flows'
    ),
    r"Table with name (\S+) does not exist\W+Did you mean \"(.*?)\"": 'there is no table "{0}"; did you mean "{1}"?',
    r"Table with name (\S+) does not exist": (
        'there is no table "{0}"; the tables are flows, links, series and transfers'
    ),
    r"(?:Scalar |Aggregate )?Function with name (\S+) does not exist\W+Did you mean \"(.*?)\"": (
        'there is no function "{0}"; did you mean "{1}"?'
    ),
    r"No function matches the given name and argument types '(.*?)'": (
        "{0} does not work; take columns and numbers of matching types"
    ),
    r"WHERE clause cannot contain aggregates": (
        "where looks at single rows, before any aggregate; put the aggregate into having, or into the first column"
    ),
}


def unquoted(sql: str, dotted: Iterable[str]) -> str | None:
    """The remedy where one of the dotted keys stands without quotes, which SQL takes for something else."""
    bare = re.sub(_QUOTED, " ", sql)
    for name in sorted(dotted, key=len, reverse=True):
        if "." in name and re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", bare, re.IGNORECASE):
            return f'a key with dots is one name only in double quotes: write "{name}" with them'
    return None


def in_words(sql: str, reason: str, columns: Iterable[str]) -> str:
    """The reason that a query over tables with these columns cannot run, as one sentence with the remedy."""
    for pattern, say in _SAID.items():
        if (found := re.match(pattern, reason)) is not None:
            return say.format(*found.groups())
    found = re.match(r'Referenced column "([^"]*)" not found', reason)
    if found is None:
        return reason
    if re.search(rf"""[=(,]\s*"{re.escape(found[1])}"(?!\w)""", sql):
        return f"there is no column {found[1]}; if it is a text, write single quotes, '{found[1]}'"
    said = f'there is no column "{found[1]}"'
    if dotted := [name for name in columns if name.endswith(f".{found[1]}")]:
        quoted = " or ".join(f'"{name}"' for name in dotted)
        return f"{said}; the factor's is the whole key in double quotes: {quoted}"
    near = re.search(r'Candidate bindings: "([^"]*)"', reason)
    return said + (f'; did you mean "{near[1]}"?' if near else "")


def unmatched(sql: str, values: Mapping[str, Iterable[str]]) -> str | None:
    """The mistake if `sql` compares a name with a text that it never has: NAME = 'text', or NAME in ('text', ...).

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
