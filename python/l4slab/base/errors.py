"""Errors, each with a message of one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class L4slabError(Exception):
    """Something the user should read; `str(error)` is one sentence, `status` the exit status."""

    status = 1
    others: tuple[L4slabError, ...] = ()


class InputError(L4slabError):
    """The input is wrong: the sentence names the file, the key, the value and the remedy.

    `at` is the line and column of the mistake, from 1. `others` are further mistakes of the same input.
    """

    status = 2

    def __init__(
        self,
        message: str,
        *,
        file: Path | str | None = None,
        key: str | None = None,
        at: tuple[int, int] | None = None,
        others: Iterable[InputError] = (),
    ):
        self.message, self.file, self.key, self.at, self.others = message, file, key, at, tuple(others)
        about = f"{key} {message}" if key else message
        place = ":".join(map(str, [file, *(at or ())]))
        super().__init__(one_line(f"{place}: {about}" if file else about))
        for one in self.others:
            self.add_note(str(one))


class StoreError(L4slabError):
    """The results folder cannot be read or written."""


def one_line(text: str) -> str:
    """`text` with every run of white space made one space, and what a terminal would obey as an escape."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in " ".join(text.split()))


# The least part of a name that says which one is meant, and how many names a sentence holds, or else shows.
_PART, _MANY, _FIRST = 1 / 3, 30, 12


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """The valid name that `word` most likely stands for, or None: one that it begins, or a similar one."""
    by_lower = {name.lower(): name for name in valid}
    begun = [
        name for lower, name in by_lower.items() if lower.startswith(word.lower()) and len(word) >= _PART * len(name)
    ]
    if len(begun) == 1:
        return begun[0]
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def suggest(word: str, valid: Iterable[str]) -> str:
    """The remedy for a misspelt name: the nearest valid one, or all of them, of very many the first."""
    names = list(valid)
    if (name := nearest(word, names)) is not None:
        return f'did you mean "{name}"?'
    if len(names) == 1:
        return f'the only valid one is "{names[0]}"'
    more = f" and {len(names) - _FIRST} more" if len(names) > _MANY else ""
    return f"valid are {', '.join(names[:_FIRST] if more else names)}{more}" if names else "none is allowed here"
