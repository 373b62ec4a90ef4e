"""The table of parameters behind every queue and controller, as text, for `l4slab list`."""

from __future__ import annotations

from collections.abc import Iterator

from l4slab import _core


def described(parameter: _core.Parameter) -> tuple[str, str]:
    """A keyword with its value, and their meaning."""
    words = f"{parameter['keyword']} {parameter['value']}".strip()
    takes = f": {parameter['takes']}" if parameter["takes"] else ""
    default = parameter["default"]
    if default:
        default = " (default)" if not parameter["value"] else f" (default {default})"
    return words, f"{parameter['help']}{takes}{default}"


def markdown() -> str:
    """All queues and controllers: parameters, defaults and their source, ranges, gauges, and availability in Linux."""
    lines = [
        "# Queues, controllers and their parameters",
        "",
        "What `l4slab list --markdown` prints.",
        "",
        "The parameters of a queue are those of `tc`; the options of a controller go into `options` of its flow. A",
        "parameter without a value is a flag. Gauges are columns of `series`.",
        "",
        "## Queues",
        *(line for entry in [*_core.qdiscs(), *_core.trees()] for line in _section(entry, "keyword")),
        "",
        "## Policers",
        "",
        "Of a link or a filter, as `policer` ([policers](experiment-file.md#policers)).",
        *_section(_core.policer(), "keyword"),
        "",
        "## Controllers",
        *(line for entry in _core.controllers() for line in _section(entry, "option", kernel=True)),
        "",
        "## Transport",
        "",
        "Of a TCP flow, as `transport`, on the engine `sim`. The defaults are Linux's.",
        *_section(_core.transport(), "option"),
        "",
        "## Media controllers",
        "",
        'Of flows with `kind = "media"`. On the engine `linux`, [libwebrtc](stacks.md#calls) has two of them.',
        *(line for entry in _core.media_controllers() for line in _section(entry | {"in_linux": True}, "option")),
        "",
        "## Media",
        "",
        "In the place of a wire, as `medium` of a link, on the engine `sim` ([access media](access.md)).",
        *(line for entry in _core.media() for line in _section(entry | {"in_linux": True}, "keyword")),
    ]
    return "\n".join(lines) + "\n"


def _section(entry: _core.Described, what: str, kernel: bool = False) -> Iterator[str]:
    yield from ("", f"### `{entry['name']}`", "")
    yield f"{entry['summary']}." + ("" if entry["in_linux"] else " No Linux kernel has it: engine `sim` only.")
    if entry["required"]:
        yield from ("", f"Required, for example: `{entry['required']}`.")
    if (ecn := entry.get("ecn")) is not None:
        yield from ("", f"{'Asks for ECN' if kernel else 'Sends'}: `{ecn}`.")
    if entry["parameters"]:
        yield from ("", f"| {what} | meaning | takes | default | source |" + (" kernel |" if kernel else ""))
        yield "|---|---|---|---|---|" + ("---|" if kernel else "")
        for parameter in entry["parameters"]:
            yield _row(parameter, kernel)
    for preset in entry["presets"]:
        sets = ", ".join(f"`{name}` {value}" for name, value in preset["sets"])
        yield from ("", f"`{preset['keyword']}` {preset['value']} makes the defaults {sets}.")
    if entry["not_modelled"]:
        yield from ("", "Not modelled: " + "; ".join(f"`{name}` ({why})" for name, why in entry["not_modelled"]) + ".")
    if entry["gauges"]:
        yield from ("", "| gauge | unit | meaning |", "|---|---|---|")
        yield from (f"| `{gauge['name']}` | {gauge['unit']} | {gauge['help']} |" for gauge in entry["gauges"])


def _row(parameter: _core.Parameter, kernel: bool) -> str:
    words = f"{parameter['keyword']} {parameter['value']}".strip()
    meaning = parameter["help"] + ("" if parameter["in_linux"] else " (not in Linux)")
    default = parameter["default"]
    cells = [f"`{words}`", meaning, parameter["takes"], f"`{default}`" if default not in ("", "yes") else default]
    cells.append(parameter["source"])
    if kernel:
        module = parameter["module"]
        cells.append(f"`{module['parameter']}`" if module else "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
