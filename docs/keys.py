"""The keys of an experiment file as the page of `l4slab live` reads them: name in a run's description, type, range and
default, from the models; and the engines of its server. `./dev.sh generate` writes them to web/src/generated/keys.json.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from l4slab.experimentfile import tables
from l4slab.experimentfile.tables import Quantity
from l4slab.experimentfile.traffic import DSCP, KINDS, Dscp
from l4slab.experimentfile.wording import Table
from l4slab.live.sessions import engines
from pydantic.fields import FieldInfo

# The page runs no programs, no tests, no page loads and no speed tests.
LEFT_OUT = ("program", "endpoint", "page", "responsiveness")
# What describes a run; the page has the seed of a trial.
TOP = {*tables.TOP_FACTORS, "per_flow", "precision"} - {"seed"}

Json = dict[str, Any]


def keys() -> Json:
    """Each table, with a list of its keys in the order of the file."""
    flows = {kind: list(keys_of(model)) for kind, model in KINDS.items() if kind not in LEFT_OUT}
    return {
        "tables": {
            "top": [key for key in keys_of(tables.Top) if key["key"] in TOP],
            "link": list(keys_of(tables.Link)),
            "impair": list(keys_of(tables.Impair)),
            "rewrite": list(keys_of(tables.Rewrite)),
            "at": list(keys_of(tables.At)),
            "at_link": [key for key in keys_of(tables.Link) if key["key"] in tables.AT_KEYS],
            "at_flow": [key for key in keys_of(tables.FlowChange) if key["key"] in tables.AT_FLOW_KEYS],
            "at_impair": [key for key in keys_of(tables.Impair) if key["key"] in tables.AT_IMPAIR_KEYS],
        },
        "flows": flows,
        "dscp": DSCP,
        # Those that a page has from its server.
        "engines": {name: {"title": live.title, "adds_flows": live.adds_flows} for name, live in engines().items()},
    }


def keys_of(model: type[Table]) -> Iterator[Json]:
    """The keys of a table."""
    for name, info in model.model_fields.items():
        key = str(info.validation_alias or name)
        if name == "name":  # it is the name of the table
            continue
        about = {"key": key, "field": str(info.serialization_alias or key)} | type_of(info)
        if not info.is_required():
            about["default"] = info.default
        if name == "kind":
            about |= {"values": [kind for kind in KINDS if kind not in LEFT_OUT], "default": "tcp", "example": "web"}
        texts = info.examples or ()
        yield about | ({"example": value_of(texts[0])} if texts else {})


def type_of(info: FieldInfo) -> Json:
    """The type of a key's values."""
    inner, marks = info.annotation, list(info.metadata)
    if get_origin(inner) in (Union, types.UnionType):
        inner = next(one for one in get_args(inner) if one is not type(None))
    if get_origin(inner) is Annotated:
        inner, *more = get_args(inner)
        marks += more
    if quantity := next((mark for mark in marks if isinstance(mark, Quantity)), None):
        most = quantity.most or tables.MOST[quantity.dimension]
        return {"type": quantity.dimension.name, "least": quantity.least, "most": most}
    if any(mark in get_args(Dscp) for mark in marks):
        return {"type": "dscp"}
    if get_origin(inner) is Literal:
        return {"type": "choice", "values": list(get_args(inner))}
    names = {str: "text", bool: "bool", int: "int", float: "float"}
    if inner in names:
        bounds = {"gt": "above", "ge": "least", "le": "most"}
        said = {name: getattr(mark, bound) for mark in marks for bound, name in bounds.items() if hasattr(mark, bound)}
        return {"type": names[inner]} | said
    return {"type": "names" if get_args(inner) == (str,) else "table"}


def value_of(text: str) -> Any:
    """An example as JSON, or as it is written in the file."""
    try:
        return json.loads(text)
    except ValueError:
        return text
