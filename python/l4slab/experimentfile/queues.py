"""The words of a queue as a file has them, checked and with every parameter written out."""

from __future__ import annotations

from l4slab import _core
from l4slab.base.code import is_code
from l4slab.experimentfile.outside import Outside
from l4slab.experimentfile.tc import remedy, unitless
from l4slab.experimentfile.wording import Place, Problem, show

# In netem: more than any flow, so that nothing waits for the one before it; but with a rate nothing overtakes.
IN_ORDER = "rate 20tbit"


def split_stab(text: str, place: Place, key: str) -> tuple[str | None, str]:
    """The size table before a link's qdisc, every parameter written out, and the words of the qdisc. Raises Problem."""
    try:
        stab, qdisc = _core.split_stab(text)
    except ValueError as error:
        raise Problem(place, key, f"= {show(text)}: {error}") from None
    if stab is not None and not qdisc:
        raise Problem(
            place, key, f'= {show(text)} has no qdisc after stab; add one, such as "{text.strip()} htb default 10"'
        )
    return stab, qdisc


def qdisc_of(text: str, place: Place, key: str, outside: Outside) -> str:
    """The words of a qdisc, or of one that only a kernel or the user's own code knows. Raises Problem."""
    words = text if is_code(text) else _core.qdisc_as_read(text)
    try:
        if (queue := outside.find("queue", words, place, key)) is None:
            queue = _core.canonical_qdisc(words)
            if wrong := unitless(words):
                raise Problem(place, key, f"= {show(text)}{wrong}")
        return queue
    except ValueError as error:
        meant = remedy(words)
        problem = Problem(place, key, f"= {show(text)}{meant or f': {error}'}")
        if meant or words.split(maxsplit=1)[:1] in ([], *([entry["name"]] for entry in _core.qdiscs())):
            raise problem from None
        if not outside.note("queue", words.strip(), problem):
            raise problem from None
        return words.strip()


def netem_of(text: object, place: Place, key: str, *, in_order: bool) -> str:
    """The words of an impairment. Raises Problem."""
    if not isinstance(text, str):
        raise Problem(place, key, f'= {show(text)} is not text; write it such as "delay 2ms"')
    if place[0] != "impair" and not text.strip():
        raise Problem(place, key, f'= {show(text)} changes nothing; write it such as "delay 2ms"')
    if text.split()[:1] == ["netem"]:
        problem = f'= {show(text)} needs no word netem; write "{text.split(maxsplit=1)[-1]}"'
        raise Problem(place, key, problem)
    try:
        words = _core.canonical_qdisc(f"netem {text}").split()[1:]
        if in_order and "reorder" in words:
            raise Problem(place, key, f"= {show(text)} reorders, and in_order = true; remove one of them")
        if wrong := unitless(f"netem {text}"):
            raise Problem(place, key, f"= {show(text)}{wrong}")
    except ValueError as error:
        raise Problem(place, key, f"= {show(text)}: {error}") from None
    return " ".join(words)
