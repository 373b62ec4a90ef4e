"""Reduces an experiment file to the smallest one that still has a property.

Delta debugging in spirit (Zeller and Hildebrandt, 2002), on the tables, keys, words and numbers of the file instead of
its lines: removed keys take their defaults, and each remaining number becomes as small or as round as possible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from l4slab.base.errors import InputError
from l4slab.base.units import FREQUENCY, RATE, SIZE, TIME
from l4slab.base.values import Keys, Value
from l4slab.sweep import canonical_json
from l4slab.tools.search.documents import quantity, tables, without

# Keys and places in lists, from the document down to a value.
Path = tuple[str | int, ...]

# Predicates that are evaluated; documents that no run can be made of do not count.
AT_MOST = 300
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# Texts of several words, each of which may go.
_WORDS = ("qdisc", "netem", "packets")


class _SpentError(Exception):
    """No predicate may be evaluated any more."""


def reduce(
    document: Keys,
    still: Callable[[Keys], bool],
    at_most: int = AT_MOST,
    keep: Iterable[str] = (),
) -> Keys:
    """The smallest document found of which it is `still` so; `document` itself is taken to be one.

    `still` may raise InputError for a document that is no experiment. At most `at_most` documents are judged. `keep`
    are top-level keys that stay as they are.
    """
    best = {key: value for key, value in document.items() if value not in ([], {})}
    kept = {key: best[key] for key in keep if key in best}
    judged: set[str] = set()
    count = 0

    def holds(candidate: Keys) -> bool:
        nonlocal count
        if any(candidate.get(key) != value for key, value in kept.items()):
            return False
        if (text := canonical_json(candidate)) in judged:
            return False
        judged.add(text)
        if count >= at_most:
            raise _SpentError
        try:
            found = still(candidate)
        except InputError:
            return False
        count += 1
        return found

    judged.add(canonical_json(best))
    before = None
    try:
        while before != best:
            before = best
            for places, smaller in _STEPS:
                for place in places(best):
                    for candidate in smaller(best, place):
                        if holds(candidate):
                            best = candidate
                            break
    except _SpentError:
        pass
    return best


# -- tables -----------------------------------------------------------------------------------------------------------


def _sections(document: Keys) -> list[Path]:
    return [(key,) for key in ("agree", "impair", "tunnel", "rewrite", "at") if key in document]


def _without_section(document: Keys, place: Path) -> Iterator[Keys]:
    yield {key: value for key, value in document.items() if key != place[0]}


def _tables(document: Keys) -> list[Path]:
    return [(section, name) for section in ("flow", "impair", "tunnel", "link") for name in tables(document, section)]


def _without_table(document: Keys, place: Path) -> Iterator[Keys]:
    if place in _tables(document):
        yield without(document, str(place[0]), str(place[1]))


# -- keys -------------------------------------------------------------------------------------------------------------


def _keys(document: Keys) -> list[Path]:
    """Every key and every place in a list, the outer before the inner, the last of a list first."""
    return [path for path, _ in _walk(document)]


def _walk(value: Value, path: Path = ()) -> Iterator[tuple[Path, Value]]:
    inner: Iterable[tuple[str | int, Value]] = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inner = reversed(list(enumerate(value)))
    for key, one in inner:
        yield (*path, key), one
        yield from _walk(one, (*path, key))


def _without_key(document: Keys, place: Path) -> Iterator[Keys]:
    if _at(document, place) is not None:
        yield _changed(document, place, None)


def _at(value: Value, place: Path) -> Value:
    """The value there, or None."""
    for part in place:
        if isinstance(value, dict) and part in value:
            value = value[str(part)]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def _changed(document: Keys, place: Path, new: Value) -> Keys:
    """The document with another value at a place, or None for nothing there; a table that is left empty goes, too."""
    key, *inner = place
    found = _replaced(document[str(key)], tuple(inner), new)
    return {name: found if name == key else one for name, one in document.items() if name != key or not _is_gone(found)}


def _replaced(value: Value, place: Path, new: Value) -> Value:
    if not place:
        return new
    if isinstance(value, dict):
        return _changed(value, place, new)
    key, *inner = place
    items = [
        _replaced(one, tuple(inner), new) if number == key else one
        for number, one in enumerate(value if isinstance(value, list) else ())
    ]
    return [one for number, one in enumerate(items) if number != key or not _is_gone(one)]


def _is_gone(value: Value) -> bool:
    return value is None or value in ({}, [])


# -- words ------------------------------------------------------------------------------------------------------------


def _texts(document: Keys) -> list[Path]:
    return [path for path, value in _walk(document) if isinstance(value, str) and _has_words(path)]


def _has_words(path: Path) -> bool:
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    return key.rpartition(".")[2] in _WORDS


def _fewer_words(document: Keys, place: Path) -> Iterator[Keys]:
    words = str(_at(document, place) or "").split()
    shorter = [words[:1]]
    for length in (2, 1, 3):  # a keyword with its value, a keyword alone, one with two values
        shorter += [words[:at] + words[at + length :] for at in range(1, len(words) - length + 1)]
    for kept in shorter:
        if 0 < len(kept) < len(words):
            yield _changed(document, place, " ".join(kept))


# -- numbers ----------------------------------------------------------------------------------------------------------


def _durations(document: Keys) -> list[Path]:
    return [("duration",)] if "duration" in document else []


def _shorter(document: Keys, place: Path) -> Iterator[Keys]:
    """A shorter run, with as large a part of it left out of the figures, or with the same time left out."""
    whole = TIME.parse(_at(document, place))
    warmup = TIME.parse(document.get("warmup", "0s"))
    for part in (8, 4, 2):
        shorter = _one_two_five(whole / part)
        found = document | {"duration": quantity(shorter, TIME)}
        if warmup:
            yield found | {"warmup": quantity(_one_two_five(warmup * shorter / whole), TIME)}
        if warmup < shorter:
            yield found


def _counts(document: Keys) -> list[Path]:
    return [path for path, value in _walk(document) if _is_count(path, value)]


def _is_count(path: Path, value: Value) -> bool:
    return str(path[-1]).rpartition(".")[2] == "count" and isinstance(value, int) and value > 1


def _fewer(document: Keys, place: Path) -> Iterator[Keys]:
    count = _at(document, place)
    if not isinstance(count, int):
        return
    for fewer in dict.fromkeys((1, 2, count // 4, count // 2, count * 3 // 4)):
        if 1 <= fewer < count:
            yield _changed(document, place, fewer)


def _numbers(document: Keys) -> list[Path]:
    return [path for path, value in _walk(document) if isinstance(value, str | int | float) and value is not True]


def _rounder(document: Keys, place: Path) -> Iterator[Keys]:
    """With a rounder number there, at first wherever the same stands, as in several flows."""
    value = _at(document, place)
    alike = [path for path, other in _walk(document) if path[-1] == place[-1] and other == value]
    for rounder in _rounder_value(value, place):
        if len(alike) > 1:
            changed = document
            for path in alike:
                changed = _changed(changed, path, rounder)
            yield changed
        yield _changed(document, place, rounder)


def _rounder_value(value: Value, place: Path) -> Iterator[Value]:
    if isinstance(value, bool) or value is None or place[-1] in ("name", "title", "about", "seed", "trials"):
        return
    if isinstance(value, int | float):
        yield from (int(number) if isinstance(value, int) else number for number in _rounded(float(value)))
        return
    words = str(value).split() if _has_words(place) else [str(value)]
    for at, word in enumerate(words):
        yield from (" ".join([*words[:at], rounder, *words[at + 1 :]]) for rounder in _rounder_word(word))


def _rounder_word(word: str) -> Iterator[str]:
    if _NUMBER.fullmatch(word):
        for number in _rounded(float(word)):
            yield f"{number:.12g}"
        return
    for dimension in (TIME, RATE, SIZE, FREQUENCY):
        try:
            number = dimension.parse(word)
        except ValueError:
            continue
        for rounder in _rounded(number):
            text = quantity(rounder, dimension)
            if len(text) <= len(word):
                yield text
        return


def _rounded(number: float) -> list[float]:
    """Rounder numbers in its place, the roundest first."""
    if number <= 0:
        return []
    size = 10.0 ** (len(f"{int(number)}") - 1) if number >= 1 else 10.0 ** -len(f"{1 / number:.0f}")
    tens = size if number / size < 3.2 else 10 * size
    found = [tens, _one_two_five(number), float(f"{number:.1g}"), float(f"{number:.2g}")]
    return [one for one in dict.fromkeys(found) if _roughness(one) < _roughness(number)]


def _one_two_five(number: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten, by ratio."""
    exponent = int(f"{number:e}".partition("e")[2])
    all_near = [float(f"{digit}e{exponent + more}") for more in (0, 1) for digit in (1, 2, 5)]
    return min(all_near, key=lambda one: max(one / number, number / one))


def _roughness(number: float) -> int:
    """How far it is from a round number: 0 for a power of ten, 1 for 2 and 5 times one, then its digits."""
    digits = f"{number:.12g}".replace(".", "").strip("0").partition("e")[0].strip("0")
    return {"1": 0, "2": 1, "5": 1}.get(digits, len(digits) + 1)


# The ones that make the others cheaper come first.
_STEPS: tuple[tuple[Callable[[Keys], list[Path]], Callable[[Keys, Path], Iterator[Keys]]], ...] = (
    (_sections, _without_section),
    (_tables, _without_table),
    (_counts, _fewer),
    (_durations, _shorter),
    (_keys, _without_key),
    (_texts, _fewer_words),
    (_numbers, _rounder),
)
