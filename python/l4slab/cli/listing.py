"""`l4slab list`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from l4slab import _core
from l4slab.base.code import is_code
from l4slab.base.errors import InputError, suggest
from l4slab.base.packaged import about, comparisons, studies
from l4slab.cli import options, parameters, schema, terminal

Entry = Mapping[str, Any]


@click.command("list")
@click.argument(
    "what", required=False, metavar=f"[{'|'.join(options.LISTED)}|NAME]", shell_complete=options.listed_names
)
@click.option("--markdown", is_flag=True, help="Queues and controllers with all parameters, as Markdown.")
@options.as_json
def list_(what: str | None, markdown: bool, as_json: bool) -> int:
    """List queues, congestion controls, kinds of traffic, packaged stacks, studies and comparisons.

    With a NAME, show its parameters with defaults and ranges, and the columns that it adds to the results. NAME may be
    a file with custom code (mine.py, mine.py:Mine, ./libmine.so).
    """
    if markdown:
        if what is not None or as_json:
            raise click.UsageError("--markdown excludes NAME and --json; leave them out")
        click.echo(parameters.markdown(), nl=False)
        return 0
    own = what is not None and is_code(what)
    everything = _of_file(str(what)) if own else _everything(what)
    kinds = {kind: entries for kind, entries in everything.items() if what in (None, kind) or (own and entries)}
    if not kinds:
        named = {kind: [one for one in entries if one["name"] == what] for kind, entries in everything.items()}
        kinds = {kind: entries for kind, entries in named.items() if entries}
        if not kinds:
            names = [*options.LISTED, *(entry["name"] for entries in everything.values() for entry in entries)]
            raise click.UsageError(f"cannot list {what}; {_known(str(what), names)}")
    if as_json:
        terminal.as_json(kinds)
        return 0
    for number, (kind, entries) in enumerate(kinds.items()):
        if number:
            terminal.say("")
        _show(
            kind,
            entries,
            in_full=what not in (None, "studies", "comparisons"),
            alone=what not in (None, *options.LISTED),
        )
    return 0


def _of_file(what: str) -> Mapping[str, Sequence[Entry]]:
    from l4slab.own import files

    try:
        return files.listed(Path(what))
    except ValueError as error:
        raise InputError(str(error), file=what) from None


def _known(what: str, names: list[str]) -> str:
    remedy = suggest(what, names)
    return remedy if remedy.startswith("did") else f'"l4slab list" shows the names, or give {", ".join(options.LISTED)}'


def _everything(what: str | None) -> Mapping[str, Sequence[Entry]]:
    return {
        "qdiscs": [*_core.qdiscs(), *_core.trees()],
        "policers": [_core.policer()],
        "controllers": _core.controllers(),
        "transport": [_core.transport()],
        "media-controllers": _core.media_controllers(),
        "media": _core.media(),
        "traffic": _traffic(what),
        "stacks": _stacks(),
        "studies": [
            {"name": name, "files": {file.stem: str(file) for file in files}} for name, files in studies().items()
        ],
        "comparisons": [{"name": name, "file": str(file)} for name, file in comparisons().items()],
    }


def _traffic(what: str | None) -> Sequence[Entry]:
    """The kinds of a [[flow]]; with the keys of each where traffic is what is asked for."""
    # From the schema, because the models of `l4slab.experimentfile.traffic` take long to import.
    kinds = json.loads(schema.text())["properties"]["flow"]["items"]["anyOf"]
    summaries = {kind["properties"]["kind"]["const"]: kind["title"] for kind in kinds}
    if what not in ("traffic", *summaries):
        return [{"name": name, "summary": summary} for name, summary in summaries.items()]
    from l4slab.experimentfile.traffic import KINDS

    return [
        {
            "name": name,
            "summary": summary,
            "keys": {
                key: f"required, such as {field.examples[0]}"
                if field.is_required() and field.examples
                else _default(field.default)
                for key, field in KINDS[name].model_fields.items()
                if key not in ("name", "kind")
            },
        }
        for name, summary in summaries.items()
    ]


def _stacks() -> Sequence[Entry]:
    """The packaged stacks, as their recipes have them."""
    from l4slab import stacks

    found = [stacks.find(name) for name in stacks.names()]
    return [{"name": one.name, **asdict(one.recipe), "build": one.id, "is_built": one.is_built} for one in found]


def _default(value: object) -> str:
    return "optional" if value is None else f"default {json.dumps(value)}"


def _show(kind: str, entries: Sequence[Entry], in_full: bool, alone: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    title = None if alone else f"[bold]{kind}[/]"
    if title:
        terminal.out().print(title)
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, max_width=44, overflow="fold")
    table.add_column(overflow="fold")
    for entry in entries:
        table.add_row(f"[bold]{entry['name']}[/]", escape(_summary(kind, entry, alone)))
        for left, right in _details(kind, entry) if in_full else ():
            table.add_row(f"  {escape(left)}", escape(right))
    terminal.out().print(table)


def _summary(kind: str, entry: Entry, alone: bool) -> str:
    if kind == "studies":
        return (
            about(entry["files"]["study"]).title
            if not alone
            else f"study; run it with: l4slab reproduce {entry['name']}"
        )
    if kind == "traffic":
        return str(entry["summary"])
    if kind == "stacks":
        remedy = "built" if entry["is_built"] else f"not built: l4slab stacks build {entry['name']}"
        return f"{entry['summary']} ({entry['language']}; {remedy})"
    if kind == "comparisons":
        return about(entry["file"]).title
    return str(entry["summary"]) + (
        "" if entry["in_linux"] or kind in ("media-controllers", "media") or not alone else " (no Linux kernel has it)"
    )


def _details(kind: str, entry: Entry) -> Iterator[tuple[str, str]]:
    if kind == "studies":
        for name, file in entry["files"].items():
            found = about(file)
            yield name, found.title
            yield from (("", text) for text in (found.about, found.stated) if text)
    elif kind == "traffic":
        yield from entry["keys"].items()
    elif kind == "comparisons":
        yield "file", entry["file"]
    elif kind == "stacks":
        for key in ("version", "controllers", "ecn", "sender", "note"):
            if text := ", ".join(entry[key]) if key == "controllers" else entry[key]:
                yield key, text
        yield from (("needs", f"{program}: {where}") for program, where in entry["needs"].items())
    else:
        if entry["required"]:
            yield "required", f"for example {entry['required']}"
        for parameter in entry["parameters"]:
            yield parameters.described(parameter)
        for preset in entry["presets"]:
            sets = ", ".join(f"{name} {value}" for name, value in preset["sets"])
            yield f"{preset['keyword']} {preset['value']}", f"makes the defaults {sets}"
        for gauge in entry["gauges"]:
            yield gauge["name"], f"column of series: {gauge['help']}"
        for name, why in entry["not_modelled"]:
            yield name, f"not modelled: {why}"
