"""The JSON Schema of the experiment file: keys, units and defaults from the models, what a key means from
docs/experiment-file.md. `./dev.sh generate` writes it into the package, and `l4slab schema` prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from l4slab import _core
from l4slab.experimentfile import SECTIONS, tables
from l4slab.experimentfile.classes import Class, Filter
from l4slab.experimentfile.traffic import KINDS
from l4slab.experimentfile.tunnels import Tunnel
from l4slab.experimentfile.wording import Table
from l4slab.results.bars import Agree, Bar, Cause
from l4slab.results.claims import Claim
from l4slab.results.figures import Figure, RunTable
from l4slab.results.published import Published
from l4slab.tools.search.objective import Objective

PAGE = Path(__file__).with_name("experiment-file.md")
# What a sweep fills in, in place of any value.
FILLED_IN = {"type": "string", "pattern": r"\{[^{}]+\}"}
SCALAR = {"type": ["string", "number", "boolean"]}
CLASSFUL = ("htb", "prio")
OWN = r"^\S+\.(py:\w+|so|dylib|dll)"
# In the page, the heading of the tables of each section, and words in the line above a table of some kinds of flows.
HEADINGS = {
    "": "Top level", "link": "`[link.NAME]`", "flow": "`[[flow]]`", "class": "Classes", "filter": "Classes",
    "rewrite": "`[[rewrite]]`", "impair": "`[impair.NAME]`", "claim": "`[[claim]]`", "published": "`[[published]]`",
    "figure": "`[[figure]]`", "table": "`[[table]]`", "agree": "`[agree]`", "at": "`[[at]]`", "skip": "`[sweep]`",
    "tunnel": "`[tunnel.NAME]`", "cause": "`[agree]`", "search": "`[search]`",
}  # fmt: skip
KIND_TABLES = {
    "tcp": ("are TCP", '"tcp" send'), "web": ("are TCP", "Web"), "video": ("are TCP", "Video"), "cbr": ("CBR",),
    "media": ("Media",), "udp-prague": ("UDP Prague",), "program": ("Programs",), "endpoint": ("Endpoints",),
    "page": ("are TCP", "Page"), "responsiveness": ("are TCP", "Tests of responsiveness"),
}  # fmt: skip

Schema = dict[str, Any]


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Of every table of the page: the heading, the line above the table, a key and what it means."""
    heading = above = ""
    in_table = False
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            heading, above = line.removeprefix("## "), ""
        if not line.startswith("|"):
            above = line or above
            in_table = False
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if in_table:
            for key in re.findall(r"`([^`]+)`", cells[0]):
                yield heading, above, key, cells[-1]
        elif not line.startswith("|-"):
            above = f"{above} {cells[0]}"
        in_table = in_table or line.startswith("|-")


ROWS = list(rows())


def meaning(section: str, key: str, kind: str = "") -> str:
    """The page's description of a key, without links."""
    of_kind = KIND_TABLES.get(kind, ())
    fitting = [
        (any(words in above for words in of_kind), text)
        for heading, above, name, text in ROWS
        if name == key and heading.startswith(HEADINGS[section])
    ]
    text = max(fitting, default=(False, ""), key=lambda one: one[0])[1]
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return text[:1].upper() + text[1:]


def simplified(one: Schema) -> Schema:
    """A property as a person would write the schema: no null, which TOML cannot have, and no generated titles."""
    choices = [choice for choice in one.get("anyOf", ()) if choice != {"type": "null"}]
    found = {key: value for key, value in one.items() if key not in ("anyOf", "title", "examples")}
    if found.get("default", 0) in (None, "", [], {}):
        del found["default"]
    if choices:
        found |= choices[0] if len(choices) == 1 else {"anyOf": choices}
    if texts := one.get("examples"):
        found["examples"] = [example for text in texts if (example := read(text)) is not None]
    return {key: value for key, value in found.items() if value != []}


def read(text: str) -> Any:
    """A value as it is written in the file, where it is one of JSON as well."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def table(model: type[Table], section: str, kind: str = "") -> Schema:
    """The schema of a table."""
    raw = model.model_json_schema(by_alias=True)
    found: Schema = {"type": "object", "additionalProperties": False, "properties": {}}
    # Anything else of these may be set by a sweep.
    required = {"link": [], "impair": [], "class": [], "flow": ["name"]}.get(section, raw.get("required"))
    if required:
        found["required"] = required
    for key, value in raw["properties"].items():
        one = simplified(value)
        about = {name: one.pop(name) for name in ("default", "examples", "description") if name in one}
        if key == "qdisc":
            names = [*(qdisc["name"] for qdisc in _core.qdiscs()), *CLASSFUL]
            one = {"anyOf": [{"enum": names}, {"pattern": rf"^({'|'.join(names)})\s"}, {"pattern": OWN}]}
        if key == "cc":
            listed = _core.media_controllers() if kind == "media" else _core.controllers()
            names = [controller["name"] for controller in listed]
            one = {"anyOf": [{"enum": names}, {"type": "string"}]}
        if "pattern" in one:
            one["pattern"] += f"|{FILLED_IN['pattern']}"
        elif key != "kind" and (one.get("type") != "string" or "enum" in one):
            one = {"anyOf": [*one.get("anyOf", [one]), FILLED_IN]}
        if text := meaning(section, key, kind):
            about["description"] = text
        found["properties"][key] = about | one
    return found


def tcp_unless_said(kind: str, one: Schema) -> Schema:
    """A kind of flow: which it is has to be written, unless it is TCP."""
    one = {"title": KINDS[kind].summary} | one
    if kind != "tcp":
        one["required"] = [*one["required"], "kind"]
    return one


def a_list_of(one: Schema) -> Schema:
    """A `[[section]]`."""
    return {"type": "array", "items": one}


def by_name(one: Schema, text: str) -> Schema:
    """A `[section.NAME]`."""
    return {"type": "object", "description": text, "additionalProperties": one}


def schema() -> Schema:
    """The whole."""
    link, change = table(tables.Link, "link"), table(tables.At, "at")
    link["properties"]["class"] = by_name(table(Class, "class"), meaning("link", "class"))
    link["properties"]["filter"] = a_list_of(table(Filter, "filter"))
    change["patternProperties"] = {r"^(link|flow|impair)\b": {}}
    bars = table(Bar, "agree")
    agree = table(Agree, "agree")
    del agree["properties"]["bars"]
    levels = {"type": "array", "minItems": 1, "items": {"anyOf": [SCALAR, {"type": "object", "required": ["level"]}]}}
    range_ = {
        "type": "object",
        "properties": {
            "from": SCALAR | {"description": "The lower bound"},
            "to": SCALAR | {"description": "The upper bound"},
            "log": {"type": "boolean", "description": "Each ratio is as likely as another of its size"},
        },
        "required": ["from", "to"],
    }
    kinds = [tcp_unless_said(kind, table(model, "flow", kind)) for kind, model in KINDS.items()]
    properties = table(tables.Top, "")["properties"] | {
        "link": by_name(link, "The links, in the order of the path"),
        "flow": a_list_of({"anyOf": kinds}),
        "at": a_list_of(change),
        "impair": by_name(table(tables.Impair, "impair"), "netem before a link"),
        "tunnel": by_name(table(Tunnel, "tunnel"), "A tunnel around flows"),
        "rewrite": a_list_of(table(tables.Rewrite, "rewrite")),
        "sweep": by_name(levels, "Every combination of these levels is a run"),
        "view": by_name({"type": "string"}, "SQL queries that claims, figures and other views name as a table"),
        "let": by_name(SCALAR, "Values that follow from the factors: SQL expressions"),
        "skip": a_list_of(table(tables.Skip, "skip")),
        "search": by_name({"anyOf": [range_, levels]}, "A space of scenarios, for l4slab search")
        | {"properties": {"objective": table(Objective, "search")}},
        "agree": agree | {"additionalProperties": bars},
        "claim": a_list_of(table(Claim, "claim")),
        "published": a_list_of(table(Published, "published")),
        "figure": a_list_of(table(Figure, "figure")),
        "table": a_list_of(table(RunTable, "table")),
        "cause": a_list_of(table(Cause, "cause")),
    }
    if missing := set(SECTIONS) - properties.keys():
        raise ValueError(f"docs/schema.py has no {', '.join(sorted(missing))}")
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Experiment of l4slab",
        "description": "An experiment or a study (docs/experiment-file.md)",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
