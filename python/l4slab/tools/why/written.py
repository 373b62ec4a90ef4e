"""The file that shows a cause: an experiment with both settings, and a claim about what they change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from l4slab.base.errors import InputError
from l4slab.base.values import Keys, Value
from l4slab.engines.registry import DEFAULT
from l4slab.tools.search.documents import tables
from l4slab.tools.search.scenario import plan_of
from l4slab.tools.why.explaining import Candidate
from l4slab.tools.why.quantities import Difference, mean
from l4slab.tools.why.runs import set_up
from l4slab.tools.why.switches import Setting, applied

_USUAL, _CHANGED = "as it is", "changed"
_TRIALS = 5


def document(model: Keys, cause: Candidate, differing: Sequence[Difference], title: str, file: Path) -> Keys:
    """The experiment, in place of `file`. Where no factor can set the cause, it has only the changed settings."""
    kept = set_up(model)
    head: Keys = {"title": title, **{key: value for key, value in kept.items() if key != "title"}}
    head["trials"] = _TRIALS
    settings = [part.setting for part in cause.parts]
    with suppress(InputError):
        sweep: Keys = {**_sweep_of(model), "cause": [*_levels(model, settings)]}
        swept: Keys = head | {"sweep": sweep, "claim": [*_claims(differing)]}
        plan_of(swept, file, DEFAULT)
        return swept
    return applied(head, settings)


def _sweep_of(model: Keys) -> Keys:
    """The sweep of the model."""
    found = model.get("sweep")
    return dict(found) if isinstance(found, dict) else {}


def _levels(model: Keys, settings: Sequence[Setting]) -> list[Keys]:
    changed = applied(model, settings)
    usual: Keys = {"level": _USUAL}
    other: Keys = {"level": _CHANGED}
    for one in settings:
        section, name, *keys = one.place.split(".")
        if not keys:
            raise InputError("a factor sets no table")
        before, after = (_at(tables(where, section)[name], keys) for where in (model, changed))
        if after is None:
            raise InputError("a factor removes no key")
        other[one.place] = after
        if before is not None:
            usual[one.place] = before
    return [usual, other]


def _at(table: Keys, keys: Sequence[str]) -> Value:
    found: Value = table
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _claims(differing: Sequence[Difference]) -> list[Keys]:
    """That the surest column of a table changes in this direction."""
    for one in differing:
        (place, column), ratio = one.key, mean(one.b) - mean(one.a)
        table, _, name = place.partition(" ")
        if "," not in column:
            where = f"{table} = '{name}'" + (" and queue = 'all'" if table == "link" else "")
            sides = [f"avg({column}) filter (cause = '{level}')" for level in (_CHANGED, _USUAL)]
            sql = f"select {sides[0]} {'>' if ratio > 0 else '<'} {sides[1]} from {table}s where {where}"
            return [
                {"id": "cause", "says": f"{column} of {place} is {'larger' if ratio > 0 else 'smaller'}", "sql": sql}
            ]
    return []
