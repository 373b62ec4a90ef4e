"""Results as TAP, as kselftest writes it: a line per test, and behind a failure its details as comments."""

from __future__ import annotations

from collections.abc import Sequence

from l4slab.tools.kerneltests import Result


def heading(count: int) -> str:
    """The first lines: how many tests there are."""
    return f"TAP version 13\n1..{count}"


def lines(number: int, result: Result) -> str:
    """One test; its number counts from 1."""
    word = "not ok" if result.status == "fail" else "ok"
    # A directive begins with this sign.
    name = f"{result.test.group} {result.test.name}".replace("#", "")
    more = f" # SKIP {result.why}" if result.status == "skip" else ""
    return "\n".join([f"{word} {number} - {name}{more}", *(f"# {line}" for line in result.details())])


def count(results: Sequence[Result]) -> str:
    """How many passed, failed and were skipped."""
    number = {word: sum(one.status == word for one in results) for word in ("pass", "fail", "skip")}
    return f"{number['pass']} passed, {number['fail']} failed, {number['skip']} skipped"
