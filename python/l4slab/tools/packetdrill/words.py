"""Arguments of system calls: numbers, names, lists and structures."""

from __future__ import annotations

import re
from typing import TypeAlias

Word: TypeAlias = "int | str | list[Word] | dict[str, Word]"
"""A number; a name or an expression of names as written; [..]; or {name = value, ..}."""

_PAIRS = {"(": ")", "[": "]", "{": "}"}


def split(text: str, start: int) -> tuple[list[str], int] | None:
    """What stands between commas from `start` to the closing bracket that matches, and the place after it."""
    parts: list[str] = []
    depth, begin, at = [")"], start, start
    while at < len(text):
        sign = text[at]
        if sign == '"':
            at = text.find('"', at + 1)
            if at < 0:
                return None
        elif sign in _PAIRS:
            depth.append(_PAIRS[sign])
        elif sign == depth[-1]:
            depth.pop()
            if not depth:
                if text[begin:at].strip() or parts:
                    parts.append(text[begin:at].strip())
                return parts, at + 1
        elif sign == "," and len(depth) == 1:
            parts.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    return None


def words(text: str) -> Word:
    """One argument."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S).strip()
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)", text):
        return int(text, 0) if not re.fullmatch(r"-?0\d+", text) else int(text, 8)
    if text[:1] in ("[", "{"):
        inside = split(text[1:-1] + ")", 0)
        parts = inside[0] if inside else []
        if text[0] == "{" and all("=" in one for one in parts):
            return {one.partition("=")[0].strip(): words(one.partition("=")[2]) for one in parts}
        return [words(one) for one in parts]
    return text


def names(word: Word) -> set[str]:
    """The names of an expression such as `MSG_MORE | MSG_DONTWAIT`."""
    return {one.strip() for one in word.split("|")} - {"", "..."} if isinstance(word, str) else set()
