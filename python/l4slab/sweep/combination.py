"""One combination of levels: where each dotted key leads, its levels set, `{names}` filled in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import BaseModel

from l4slab.base.errors import InputError, suggest
from l4slab.base.values import Keys, Value
from l4slab.experimentfile import Document, Experiment, Level, keys_of, show
from l4slab.experimentfile.tables import TOP_FACTORS, Impair, Link
from l4slab.experimentfile.traffic import COMMAND_KEYS, COMMAND_NAMES, AnyFlow, flow_model
from l4slab.experimentfile.tunnels import Tunnel
from l4slab.experimentfile.wording import PLACEHOLDER, told

# Sections whose keys may be swept, and their models. A flow's model depends on its kind.
Section = Literal["link", "flow", "impair", "tunnel"]
_SETTABLE: dict[Section, type[BaseModel]] = {"link": Link, "flow": AnyFlow, "impair": Impair, "tunnel": Tunnel}

Origin = dict[tuple[str, ...], str]


@dataclass
class Combination:
    """The document and the top-level keys with these levels set, and which key of the sweep has set each."""

    levels: dict[str, Level]
    document: Document
    top: Keys
    origin: Origin
    values: dict[str, object] = field(default_factory=dict)
    chosen: set[int] = field(default_factory=set)  # trials


def levels_of(experiment: Experiment) -> dict[str, list[Level]]:
    """Every factor of the sweep with its levels, as written, in file order."""
    order = list(experiment.document["sweep"])
    bundles = {name: [bundle.level for bundle in levels] for name, levels in experiment.bundles.items()}
    both = experiment.factors | bundles
    return dict(sorted(both.items(), key=lambda item: order.index(item[0]) if item[0] in order else -1))


def typed(level: Level) -> tuple[str, Level]:
    """A key that distinguishes levels; to Python, 1 and true are equal."""
    return type(level).__name__, level


@dataclass(frozen=True)
class Target:
    """One place that a dotted key names: a table of a section, None for the top level, and the keys below it."""

    section: Section | None
    name: str
    path: tuple[str, ...]


def targets_of(experiment: Experiment) -> dict[str, list[Target]]:
    """Where each dotted key of the sweep leads; free factors are absent."""
    targets: dict[str, list[Target]] = {}
    for name in experiment.factors:
        if "." in name or name in TOP_FACTORS:
            targets[name] = _find(experiment, name, f'sweep."{name}"', {})
        elif not _is_used(experiment, name):
            keys = _settable(experiment)
            same = [key for key in keys if key.endswith(f".*.{name}")]
            remedy = (
                f'did you mean "{same[0]}"?' if same else f"use it as {{{name}}} or in [let] or [[skip]], or remove it"
            )
            raise InputError(f"is a factor that changes nothing; {remedy}", file=experiment.file, key=f"sweep.{name}")
    for factor, bundles in experiment.bundles.items():
        for bundle in bundles:
            for key in bundle.settings:
                if key not in targets:
                    place = f'sweep.{factor} level {show(bundle.level)}: "{key}"'
                    targets[key] = _find(experiment, key, place, bundle.settings)
    return targets


def _is_used(experiment: Experiment, name: str) -> bool:
    expressions = [*experiment.let.values(), *(skip.when for skip in experiment.skips)]
    if any(mentions(expression, name) for expression in expressions):
        return True
    document = experiment.document
    tables = [document[one] for one in ("link", "flow", "at", "impair", "rewrite", "tunnel")]
    written = json.dumps([*tables, document["sweep"], experiment.top], default=str)
    return f"{{{name}}}" in written


def mentions(expression: str, name: str) -> bool:
    """Whether SQL may be about this name: outside of its texts."""
    expression = re.sub(r"'(?:[^']|'')*'", "", expression)
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", expression, re.IGNORECASE) is not None


def _settable(experiment: Experiment) -> list[str]:
    """The dotted keys a sweep may set."""
    keys = list(TOP_FACTORS)
    for section in _SETTABLE:
        tables = {name: sweepable(section, name, table) for name, table in experiment.document[section].items()}
        keys += [f"{section}.*.{key}" for key in dict.fromkeys(key for names in tables.values() for key in names)]
        keys += [f"{section}.{name}.{key}" for name, names in tables.items() for key in names]
    return keys


def model_of(section: Section, name: str, table: Keys) -> type[BaseModel]:
    """The model of a table of the file."""
    return flow_model(table, name) if section == "flow" else _SETTABLE[section]


def sweepable(section: Section, name: str, table: Keys) -> list[str]:
    """The keys that a table may have, except its name."""
    return [key for key in keys_of(model_of(section, name, table)) if key != "name"]


def _find(experiment: Experiment, key: str, place: str, beside: Keys) -> list[Target]:
    """`beside`: the settings of the bundle with the key. They may set the kind of a flow and its keys."""
    document = experiment.document
    if key in TOP_FACTORS:
        return [Target(None, "", (key,))]
    first, _, rest = key.partition(".")
    section = next((one for one in _SETTABLE if one == first), None)
    name, _, setting = rest.partition(".")
    path = tuple(setting.split("."))
    if section is None or not setting or (len(path) > 1 and path[0] not in ("options", "env", "class")):
        remedy = suggest(key, _settable(experiment))
        raise InputError(f"is not a key that can be swept; {remedy}", file=experiment.file, key=place)
    tables = document[section]
    named = {one: table for one, table in tables.items() if one == name or ("*" in name and fnmatchcase(one, name))}
    if name != "*" and not named:
        remedy = suggest(name, tables) if tables else f"the file has no [{section}.NAME]"
        raise InputError(f"names no {section} {show(name)}; {remedy}", file=experiment.file, key=place)
    found = []
    for one, table in named.items():
        kinds = [beside[kind] for kind in (f"{section}.*.kind", f"{section}.{one}.kind") if kind in beside]
        if path[0] in sweepable(section, one, {**table, "kind": kinds[-1]} if kinds else table):
            found.append(Target(section, one, path))
    if not found:
        valid = [k.rpartition(".")[2] for k in _settable(experiment) if k.startswith(f"{section}.{name}.")]
        raise InputError(
            f"sets an unknown key {show(path[0])}; {suggest(path[0], valid)}", file=experiment.file, key=place
        )
    return found


def set_levels(experiment: Experiment, levels: dict[str, Level], targets: dict[str, list[Target]]) -> Combination:
    """The document with the levels of one combination set; `experiment.document` is not changed."""
    combination = Combination(levels, experiment.document.copy(), dict(experiment.top), {})
    # A key for all flows comes before one for a single flow, wherever they stand in the file.
    for name in sorted(experiment.factors, key=lambda name: "*" not in name):
        for target in targets.get(name, []):
            _set(combination, target, levels[name], f'sweep."{name}"')
    for factor, bundles in experiment.bundles.items():
        chosen = next(bundle for bundle in bundles if typed(bundle.level) == typed(levels[factor]))
        for key, value in chosen.settings.items():
            for target in targets[key]:
                _set(combination, target, value, f"sweep.{factor} level {show(chosen.level)}")
    with told(experiment.file, combination.origin):
        for name, flow in combination.document["flow"].items():
            flow_model(flow, name)
    return combination


def _set(combination: Combination, target: Target, value: Value, origin: str) -> None:
    section, name = target.section, target.name
    if section is None:
        combination.top[target.path[0]] = value
        combination.origin[target.path] = origin
        return
    tables = dict(combination.document[section])
    table = tables[name] = dict(tables[name])
    for part in target.path[:-1]:
        inner = table.get(part)
        table[part] = below = dict(inner) if isinstance(inner, dict) else {}
        table = below
    table[target.path[-1]] = value
    combination.document[section] = tables
    combination.origin[(section, name, target.path[0])] = origin


def fill_in(experiment: Experiment, combination: Combination) -> None:
    """Put levels and [let] values into the {names} of the document's strings."""
    document = combination.document
    for section in _SETTABLE:
        document[section] = {
            name: _filled_table(experiment, combination, table, f"{section}.{name}")
            for name, table in document[section].items()
        }
    document["at"] = [_filled_table(experiment, combination, table, "at") for table in document["at"]]
    document["rewrite"] = [_filled_table(experiment, combination, table, "rewrite") for table in document["rewrite"]]
    combination.top = {
        key: value if key == "title" else _filled(experiment, combination, value, key)
        for key, value in combination.top.items()
    }


def _filled_table(experiment: Experiment, combination: Combination, table: Keys, place: str) -> Keys:
    return {key: _filled(experiment, combination, inner, f"{place}.{key}") for key, inner in table.items()}


def _filled(experiment: Experiment, combination: Combination, value: Value, place: str) -> Value:
    if isinstance(value, dict):
        return _filled_table(experiment, combination, value, place)
    if isinstance(value, list):
        return [_filled(experiment, combination, inner, place) for inner in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    names = {**combination.levels, **combination.values}

    def text_of(match: re.Match[str]) -> str:
        name = match[1].strip()
        of_program = place.startswith("flow.") and (place.endswith(COMMAND_KEYS) or ".env." in place)
        if match[0] in COMMAND_NAMES and of_program:
            return match[0]
        if name not in names:
            if name.startswith('"'):  # JSON, of which the key's reader knows what it is
                return match[0]
            remedy = suggest(name, names) if names else "no factor or [let] value exists"
            raise InputError(
                f"= {show(value)} has {{{name}}}, which is neither a factor nor in [let]; {remedy}",
                file=experiment.file,
                key=place,
            )
        if names[name] is None:
            levels = ", ".join(f"{factor} = {level}" for factor, level in combination.levels.items())
            raise InputError(
                f"= {show(experiment.let[name])} is NULL where it is needed ({levels}); correct the expression",
                file=experiment.file,
                key=f"let.{name}",
            )
        return _plain_text(names[name])

    return PLACEHOLDER.sub(text_of, value)


def _plain_text(value: object) -> str:
    """A value as it would be typed: no exponent, no trailing ".0"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    if not isinstance(value, float | Decimal):
        return str(value)
    number = float(value)
    return str(int(number)) if number.is_integer() else format(Decimal(repr(number)), "f")
