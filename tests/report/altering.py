"""Alterations of a results folder, as somebody would make them: each changes one thing, and says where it is."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from l4slab.api import campaign
from l4slab.base import metrics
from l4slab.campaign.store import Store
from l4slab.report import provenance

# What a finding has to name: the file, and words of its place.
Where = tuple[str, tuple[str, ...]]
Alter = Callable[[Path, random.Random], Where]

EXPERIMENT = """
title = "Two flows and requests"
duration = "1s"
sample = "50ms"
trials = 2
per_flow = true
captures = "first trial"
[link.bottleneck]
rate = "10Mbit"
qdisc = "dualpi2 limit 30"
[[flow]]
name = "l4s"
cc = "prague"
rtt = "10ms"
[[flow]]
name = "classic"
cc = "cubic"
rtt = "10ms"
[[flow]]
name = "web"
kind = "web"
cc = "cubic"
rtt = "10ms"
requests = "10/s"
size_min = "10kB"
size_max = "20kB"
[sweep]
"link.bottleneck.rate" = ["5Mbit", "10Mbit"]
[[claim]]
id = "waits"
says = "Prague waits less than CUBIC"
source = "a page"
sql = '''select avg(sojourn_ms_p99) filter (where flow = 'l4s') < avg(sojourn_ms_p99) filter (where flow = 'classic'),
avg(sojourn_ms_p99) as p99_ms from flows'''
[[claim]]
id = "shares"
says = "the shares add up"
sql = "select abs(sum(share) - count(distinct run)) < 1e-6, count(distinct run) as runs from flows"
[[published]]
id = "rate"
quantity = "rate of CUBIC"
unit = "Mb/s"
source = "a table"
value = 4.0
tolerance = 5.0
sql = "select rate_mbps from flows where flow = 'classic'"
"""


# -- the page ---------------------------------------------------------------------------------------------------------


def page(change: Callable[[str, random.Random], tuple[str, tuple[str, ...]]]) -> Alter:
    """A change of report.html, and what its finding names."""

    def alter(folder: Path, chance: random.Random) -> Where:
        path = folder / "report.html"
        before = path.read_text("utf-8")
        after, place = change(before, chance)
        assert after != before
        path.write_text(after, "utf-8")
        return "report.html", place

    return alter


def replaced(pattern: str, put: Callable[[re.Match[str], random.Random], str], *place: str) -> Alter:
    """Put another text in the place of a match, by chance one of those outside of the page's scripts."""

    def change(text: str, chance: random.Random) -> tuple[str, tuple[str, ...]]:
        body = text.index("<main>"), text.index("</main>")
        found = chance.choice([one for one in re.finditer(pattern, text, re.DOTALL) if body[0] < one.start() < body[1]])
        return text[: found.start()] + put(found, chance) + text[found.end() :], place

    return page(change)


def data(element: str, change: Callable[[Any, random.Random], tuple[str, ...]]) -> Alter:
    """A change of the JSON in a script element."""

    def alter(text: str, chance: random.Random) -> tuple[str, tuple[str, ...]]:
        found = re.search(rf'(id="{element}">)(.*?)(</script>)', text, re.DOTALL)
        assert found is not None
        value = json.loads(found[2])
        place = change(value, chance)
        written = json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
        return text[: found.start(2)] + written + text[found.end(2) :], place

    return page(alter)


def _other_digit(text: str, chance: random.Random) -> str:
    """A number with another digit."""
    places = [number for number, one in enumerate(text) if one.isdigit()]
    at = chance.choice(places)
    return text[:at] + chance.choice([one for one in "123456789" if one != text[at]]) + text[at + 1 :]


def _of_a_run(change: Callable[[Any, random.Random], tuple[str, ...]]) -> Alter:
    def alter(index: Any, chance: random.Random) -> tuple[str, ...]:
        run = chance.choice(sorted(index["runs"]))
        value = json.loads(provenance.unpacked(index["runs"][run]))
        place = change(value, chance)
        index["runs"][run] = provenance.packed(json.dumps(value).encode())
        return (run, *place)

    return data("index", alter)


def _panel(run: Any, chance: random.Random) -> tuple[str, ...]:
    panel = chance.choice(run["panels"])
    line = chance.choice(panel["lines"])
    at = chance.choice([number for number, value in enumerate(line["y"]) if value is not None])
    line["y"][at] += 1
    return panel["title"], line["name"], str(at + 1)


def _number_of_a_run(run: Any, chance: random.Random) -> tuple[str, ...]:
    row = chance.choice([row for one in run["measured"] for row in one["rows"] if any(map(str.isdigit, row[1]))])
    row[1] = _other_digit(row[1], chance)
    return (row[0],)


def _seed_of_a_run(run: Any, _chance: random.Random) -> tuple[str, ...]:
    description = json.loads(run["description"])
    description["seed"] += 1
    run["description"] = json.dumps(description, sort_keys=True, separators=(",", ":"))
    return ("description",)


def _grid_cell(table: Any, chance: random.Random) -> tuple[str, ...]:
    column = chance.choice([one for one in table["columns"] if not one["key"] and "values" in one])
    at = chance.choice([number for number, value in enumerate(column["values"]) if value is not None])
    column["values"][at] += 0.5
    return (column["id"],)


def _grid_row(table: Any, chance: random.Random) -> tuple[str, ...]:
    at = chance.randrange(table["rows"])
    table["rows"] -= 1
    for column in table["columns"]:
        del column["values" if "values" in column else "codes"][at]
    return ("rows",)


def _drawn(index: Any, chance: random.Random) -> tuple[str, ...]:
    case = chance.choice(index["cases"])
    numbers: list[tuple[list[Any], int]] = []

    def look(value: Any) -> None:
        if isinstance(value, list):
            numbers.extend((value, at) for at, one in enumerate(value) if isinstance(one, float))
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            look(one)

    look(case)
    of, at = chance.choice(numbers)
    of[at] += 1
    return ("data of the figures", "cases")


def _digest(value: Any, chance: random.Random) -> tuple[str, ...]:
    part = chance.choice(["runs", "tables"])
    name = chance.choice(sorted(value[part]))
    value[part][name] = value[part][name][::-1]
    return (name,)


def _held_file(value: Any, _chance: random.Random) -> tuple[str, ...]:
    text = provenance.unpacked(value["files"]["x.toml"]).replace(b"10ms", b"11ms")
    value["files"]["x.toml"] = provenance.packed(text)
    return ("experiments/x.toml",)


# -- tables and other files -------------------------------------------------------------------------------------------


def _changed(column: pl.Series, at: int) -> pl.Series:
    value = column[at]
    new = f"{value}x" if isinstance(value, str) else not value if isinstance(value, bool) else value + 1
    return (
        column.scatter(at, new)
        if column.dtype != pl.Boolean
        else column.set(pl.arange(len(column), eager=True) == at, new)
    )


def cell(name: str, *columns: str) -> Alter:
    """Another value in a cell of a table, of these columns or any."""

    def alter(folder: Path, chance: random.Random) -> Where:
        path = folder / f"{name}.parquet"
        table = pl.read_parquet(path)
        found = [
            one for one in columns or table.columns if one != "experiment" and table[one].null_count() < len(table)
        ]
        column = chance.choice(found)
        at = chance.choice(table[column].is_not_null().arg_true().to_list())
        table.with_columns(_changed(table[column], at).alias(column)).write_parquet(path)
        return path.name, (column,)

    return alter


def no_row(name: str) -> Alter:
    """A table without one of its rows."""

    def alter(folder: Path, chance: random.Random) -> Where:
        path = folder / f"{name}.parquet"
        table = pl.read_parquet(path)
        at = chance.randrange(len(table))
        table.filter(pl.arange(len(table), eager=True) != at).write_parquet(path)
        return path.name, (f"{len(table) - 1} rows",)

    return alter


def column(name: str) -> Alter:
    """A table without one of its columns."""

    def alter(folder: Path, chance: random.Random) -> Where:
        path = folder / f"{name}.parquet"
        table = pl.read_parquet(path)
        gone = chance.choice(list(metrics.TABLES[name]))
        table.drop(gone).write_parquet(path)
        return path.name, (gone,)

    return alter


def text(name: str, old: str, new: str, *place: str) -> Alter:
    """Another text in a file."""

    def alter(folder: Path, _chance: random.Random) -> Where:
        path = folder / name
        before = path.read_text("utf-8")
        assert old in before
        path.write_text(before.replace(old, new, 1), "utf-8")
        return name, place

    return alter


def gone(name: str) -> Alter:
    """A missing file."""

    def alter(folder: Path, _chance: random.Random) -> Where:
        (folder / name).unlink()
        return name, ("no such file",)

    return alter


def cut(pattern: str) -> Alter:
    """A file that is cut in half."""

    def alter(folder: Path, chance: random.Random) -> Where:
        path = chance.choice(sorted(folder.glob(pattern)))
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        return path.relative_to(folder).as_posix(), ()

    return alter


def bit(pattern: str) -> Alter:
    """A file with another bit in its middle."""

    def alter(folder: Path, chance: random.Random) -> Where:
        path = chance.choice(sorted(folder.glob(pattern)))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        return path.relative_to(folder).as_posix(), ("byte",)

    return alter


def forged(folder: Path, chance: random.Random) -> Where:
    """A stored run with another number, and everything else written anew from it, as the command does."""
    with Store(folder) as store:
        run = chance.choice(sorted(store.finished()))
        ((_, part, recording),) = list(store.recordings([run]))
        (store.folder / "parts" / part).read_bytes()
        table = chance.choice(["flows", "links", "series", "histograms"])
        frame = getattr(recording, table)
        name = chance.choice([one for one in frame.columns if frame[one].dtype == pl.Float64 and frame[one].sum()])
        at = chance.choice(frame[name].is_not_null().arg_true().to_list())
        changed = frame.with_columns(_changed(frame[name], at).alias(name))
        store.add(run, type(recording)(**{**vars(recording), table: changed}))
        store.flush()
        (new,) = {one for _, one, _ in store.recordings([run])}
    campaign.report(folder)
    return f"parts/{new}", (table, run, name)


ALTERATIONS: dict[str, Alter] = {
    "a number of a text": replaced(
        r"got [\d.]+ Mb/s", lambda found, chance: _other_digit(found[0], chance), "what-happened"
    ),
    "a number of the overview": replaced(
        r'(?<=data-head="queue delay )[^"]*">[\d.]+',
        lambda found, chance: _other_digit(found[0], chance),
        "queue delay",
    ),
    "a mark of the overview": replaced(
        r"(?<=left:)[\d.]+(?=%)", lambda found, chance: _other_digit(found[0], chance), "what-happened"
    ),
    "a verdict of the page": replaced(
        r'badge holds"><span aria-hidden="true">✓</span> holds', lambda *_: 'badge fails"><span>✗</span> fails'
    ),
    "a word of the verdict": replaced(r"</span> holds</span>", lambda *_: "</span> fails</span>"),
    "a claim": replaced(r"Prague waits less", lambda *_: "Prague waits more"),
    "evidence": replaced(r"(?<=<dd>)[\d.]+", lambda found, chance: _other_digit(found[0], chance)),
    "a measured value": replaced(
        r'(?<=<td class="n">4</td><td class="n">)[\d.]+',
        lambda found, chance: _other_digit(found[0], chance),
        "published",
    ),
    "the experiment in the page": replaced(r"limit 30", lambda *_: "limit 90", "reproduce"),
    "a row of a table of the page": replaced(r"<tr><th scope=\"row\">.*?</tr>", lambda *_: "", "what-happened"),
    "a section of the page": replaced(r"<section id=\"published\">.*?</section>", lambda *_: ""),
    "a cell of the page's flows": data("table-of-flows", _grid_cell),
    "a cell of the page's links": data("table-of-links", _grid_cell),
    "a row of the page's flows": data("table-of-flows", _grid_row),
    "a figure": data("index", _drawn),
    "a curve of a run": _of_a_run(_panel),
    "a number of a run": _of_a_run(_number_of_a_run),
    "the seed of a run": _of_a_run(_seed_of_a_run),
    "a digest of the page": data("provenance", _digest),
    "a file of the page": data("provenance", _held_file),
    "the page's script": page(lambda text, _: (text.replace('"use strict"', '"use  strict"'), ())),
    **{f"a cell of {name}": cell(name) for name in ("flows", "links", "series", "members", "transfers", "histograms")},
    "a verdict of claims": cell("claims", "verdict"),
    "a value of published": cell("published", "measured", "within"),
    "a row of series": no_row("series"),
    "a row of flows": no_row("flows"),
    "a column of links": column("links"),
    "the seed of the file": text("experiments/x.toml", "trials = 2", "trials = 2\nseed = 7", "line"),
    "a claim of the file": text("experiments/x.toml", "< 1e-6", "< 1e-3", "line"),
    "a key of the file": text("experiments/x.toml", "limit 30", "limit 31", "line"),
    "the ids of the file": text("experiments/x.runs", '"sim"', '"sym"'),
    "a digest": text("digests.json", '"runs": {\n  "', '"runs": {\n  "0', "digest"),
    "the version of the page": data("provenance", lambda value, _: (value.update(l4slab="9.9"), ("l4slab",))[1]),
    "the build of the digests": text("digests.json", '"build": "', '"build": "0', "build"),
    "what the page's runs are": data("index", lambda value, _: (value.update(runs=[1]), ("index",))[1]),
    "a cut page": cut("report.html"),
    "a missing table": gone("losses.parquet"),
    "a cut table": cut("histograms.parquet"),
    "a cut part": cut("parts/*.parquet"),
    "a capture": bit("captures/*/*.pcapng.gz"),
    "a forged run": forged,
}
