"""The results of a campaign as tables and sentences: on the terminal, and where Python prints them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from l4slab.base import metrics, tabular
from l4slab.base.tabular import Column
from l4slab.base.values import Keys
from l4slab.experimentfile import Experiment
from l4slab.experimentfile.capacity import is_shared
from l4slab.results import many
from l4slab.results.apart import FACTOR, apart
from l4slab.results.claims import HINT, JudgedRow, as_expected, as_recorded, changed, shown_verdict, tally
from l4slab.sweep import describe

if TYPE_CHECKING:
    from rich.console import Console

# Columns of `flows`, how they are headed, and their weight where the terminal is narrow.
_SUMMARY = {
    "goodput_mbps": ("goodput\nMb/s", 4),
    "share": ("share\n", 5),
    "rtt_ms_mean": ("RTT\nms", 3),
    "sojourn_ms_mean": ("queue\nms", 4),
    "ce_pct": ("CE\n%", 3),
    "drop_pct": ("drop\n%", 4),
}
# Behind the goodput, where flows end by themselves.
_ACTIVE = {"active_mbps": ("active\nMb/s", 4)}
# Of many flows or classes.
_MANY_HEADINGS = {
    "rate_mbps": "rate\nMb/s",
    "sojourn_ms_mean": "queue\nms",
    "sojourn_ms_p99": "queue p99\nms",
    "ce_pct": "CE\n%",
    "drop_pct": "drop\n%",
}
# In place of its heading, where a flow crosses a medium.
_WITH_MEDIA = ("wait\nms", 4)
_WAIT_LEGEND = (
    "Wait: in the queues of all links, and in media behind these until the arrival (queue_ms_mean and others)."
)
# Beside these, where there are transfers.
_TRANSFERS = {
    "completion_ms_p50": ("done p50\nms", 8),
    "completion_ms_p99": ("done p99\nms", 8),
    "unfinished": ("unfin-\nished", 6),
}
# And of media.
_FRAMES = {
    "frame_ms_p50": ("frame p50\nms", 8),
    "frame_ms_p99": ("frame p99\nms", 9),
    "late_pct": ("late\n%", 8),
    "lost_frames_pct": ("frames\nlost %", 6),
    "freezes": ("freezes\n", 9),
}
# Of the cases with many flows or classes.
_MANY_SHOWN = 4
# Of the quantities whose trials lie apart.
_APART_SHOWN = 5
_NO_SHARE = "No share, for not all flows cross one link in the same direction."
_FRAMES_LEGEND = (
    "Frame: from its capture until all of it has arrived. Late: beyond the flow's deadline (default 100 ms). "
    "Freezes: number per run."
)
# And of tests of responsiveness.
_RESPONSIVENESS = {
    "rpm_foreign": ("RPM\nforeign", 8),
    "rpm_self": ("RPM\nself", 8),
    "idle_ms_p50": ("idle\nms", 6),
    "loaded_ms_p50": ("loaded\nms", 8),
}


class Tables(Protocol):
    """What is printed of results."""

    @property
    def flows(self) -> pl.DataFrame: ...

    @property
    def links(self) -> pl.DataFrame: ...

    @property
    def claims(self) -> pl.DataFrame: ...

    @property
    def published(self) -> pl.DataFrame: ...

    @property
    def experiments(self) -> Sequence[Experiment]: ...

    def precision(self) -> list[str]: ...

    def overflows(self) -> list[str]: ...


def show(console: Console, results: Tables) -> None:
    """The flows as means over trials, what their reader has to know, the claims, and the published numbers."""
    _show_flows(console, results)
    _show_many(console, results)
    for sentence in (*_apart_in_words(results.flows), *results.precision(), *results.overflows()):
        tabular.say(console, sentence)
    if len(results.claims):
        _show_claims(console, results.claims)
    if len(results.published):
        _show_published(console, results.published)


def text(results: Tables) -> str:
    """What `show` prints, in the width of the terminal, with the tallies of the claims behind it."""
    from rich.console import Console

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else tabular.WIDTH
    file = StringIO()
    console = Console(file=file, width=width, highlight=False)
    show(console, results)
    for line in tallied(results.claims):
        tabular.say(console, line)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _apart_in_words(flows: pl.DataFrame) -> list[str]:
    """Sentences on the quantities whose mean describes no trial."""
    found = apart(flows)
    if not found:
        return []
    lines = [
        f"  {', '.join(filter(None, [one.case, one.flow]))}: "
        f"{named(one.quantity)} {tabular.cell(one.least)} to {tabular.cell(one.most)} "
        f"{unit(one.quantity)}, median {tabular.cell(one.median)}"
        for one in found[:_APART_SHOWN]
    ]
    more = [f"  ... and {len(found) - _APART_SHOWN} more"] if len(found) > _APART_SHOWN else []
    return [
        f"Trials lie apart (the largest is more than {FACTOR:g} times the least), so a mean misleads:",
        *lines,
        *more,
    ]


def named(column: str) -> str:
    """What a column of `flows` is called."""
    return _SUMMARY[column][0].split("\n")[0]


def unit(column: str) -> str:
    """Its unit; empty where it has none."""
    return _SUMMARY[column][0].split("\n")[1]


def tallied(claims: pl.DataFrame) -> list[str]:
    """A sentence per list of claims, and how the verdicts compare with the recorded ones."""
    return [*(one.text for one in tally(claims)), *_against_the_record(claims)]


def _against_the_record(claims: pl.DataFrame) -> list[str]:
    """How the verdicts of a file that records verdicts compare with them; nothing for other files."""
    if claims["recorded"].is_null().all():
        return []
    differ = changed(claims).to_dicts()
    if not differ:
        return ["every verdict is the recorded one"]
    named = [f"{row['id']} ({shown_verdict(row['kind'], row['verdict'])})" for row in differ]
    more = f" and {len(named) - 5} more" if len(named) > 5 else ""
    return [f"{len(named)} of {len(claims)} verdicts differ from the recorded ones: {', '.join(named[:5])}{more}"]


def means_of(results: Tables) -> tuple[pl.DataFrame, list[str]]:
    """`flows` as means over trials, and the factors among the columns; a share only where flows share a link."""
    flows = results.flows
    factors = _factors(flows)
    means = flows.group_by(["experiment", *factors, "flow", "cc"], maintain_order=True).agg(
        pl.col("trial").n_unique().alias("trials"), *(pl.col(name).mean() for name in columns_of(flows))
    )
    if "unfinished" in means.columns:  # of flows that have transfers
        means = means.with_columns(
            unfinished=pl.when((pl.col("unfinished") > 0) | pl.col("completion_ms_p50").is_not_null()).then(
                "unfinished"
            )
        )
    shared = _shared(results, means.select("experiment", *factors))
    return means.with_columns(share=pl.when(pl.Series(shared, dtype=pl.Boolean)).then("share")), factors


def _factors(flows: pl.DataFrame) -> list[str]:
    return flows.columns[flows.columns.index("trial") + 1 : flows.columns.index("flow")]


def columns_of(flows: pl.DataFrame) -> dict[str, tuple[str, int]]:
    """The columns to show of flows. Those of transfers and of frames only if there are any."""
    told = [name for name in ("transfers", "unfinished") if name in flows.columns and flows[name].sum()]
    has_ends = "active_mbps" in flows.columns and flows["active_mbps"].count() > 0
    columns = {"goodput_mbps": _SUMMARY["goodput_mbps"]} | (_ACTIVE if has_ends else {}) | _SUMMARY
    columns |= {name: how for name, how in _TRANSFERS.items() if name in flows.columns} if told else {}
    if _crosses_media(flows):
        columns["sojourn_ms_mean"] = _WITH_MEDIA
    for group, key in ((_FRAMES, "frames"), (_RESPONSIVENESS, "rpm_foreign")):
        columns |= group if key in flows.columns and flows[key].count() else {}
    return columns


def _crosses_media(flows: pl.DataFrame) -> bool:
    return "queue_ms_mean" in flows.columns and flows["queue_ms_mean"].count() > 0


def _shared(results: Tables, cases: pl.DataFrame) -> list[bool]:
    """For each row, whether the flows of its case share a link in the same direction."""
    files = {experiment.name: experiment for experiment in results.experiments}
    known: dict[tuple[Any, ...], bool] = {}
    found = []
    for row in cases.iter_rows(named=True):
        file = files[row["experiment"]]
        # Resolving thousands of cases takes long, and few files sweep a path.
        key = tuple(row.values()) if "path" in str(file.document["sweep"]) else (file.name,)
        if key not in known:
            known[key] = is_shared(describe(file, row))
        found.append(known[key])
    return found


def _show_flows(console: Console, results: Tables) -> None:
    means, factors = means_of(results)
    means = means.filter(pl.len().over("experiment", *factors) < many.MANY)
    if means.is_empty():
        return
    shown = means.head(tabular.ROWS_SHOWN)

    def column(name: str, heading: str, weight: int) -> Column:
        cells = [tabular.cell(value) for value in shown[name]]
        return Column(heading, cells, means[name].dtype.is_numeric(), weight)

    columns = [
        column("experiment", "experiment", 6),
        *(column(name, heading, 7) for name, heading in zip(factors, tabular.short(factors), strict=True)),
        column("flow", "flow", 8),
        column("cc", "cc", 2),
        column("trials", "trials", 1),
        *(column(name, *how) for name, how in columns_of(results.flows).items() if means[name].count()),
    ]
    tabular.show(console, "Flows, mean over trials", columns, more="; flows.parquet has all")
    if len(means) > tabular.ROWS_SHOWN:
        tabular.say(console, f"... {len(means) - tabular.ROWS_SHOWN} more rows in flows.parquet")
    case = ["experiment", *factors]
    if means.select((pl.col("share").is_null().all() & (pl.len() > 1)).over(case).any()).item():
        tabular.say(console, _NO_SHARE)
    if _crosses_media(results.flows):
        tabular.say(console, _WAIT_LEGEND)
    if "frame_ms_p99" in means.columns and means["frame_ms_p99"].count():
        tabular.say(console, _FRAMES_LEGEND)


def _show_many(console: Console, results: Tables) -> None:
    """Flows and classes of cases that have many."""
    found = [*_many(results)]
    for case, one in found[:_MANY_SHOWN]:
        names, values = zip(*one.rows, strict=True) if one.rows else ((), ())
        cells = [[tabular.cell(value) for value in column] for column in zip(*values, strict=True)]
        columns = [
            Column("", names, weight=9, stays=True),
            *(Column(_MANY_HEADINGS[name], column, True) for name, column in zip(one.columns, cells, strict=False)),
        ]
        tabular.show(console, ", ".join(filter(None, [one.title, case])), columns)
    if len(found) > _MANY_SHOWN:
        tabular.say(console, f"... {len(found) - _MANY_SHOWN} more cases and links with many flows or classes")
    if found:
        tabular.say(console, f"{many.NOTE} flows.parquet and links.parquet have all.")


def _many(results: Tables) -> Iterator[tuple[str, many.Many]]:
    """With the case in words, where there are several."""
    flows, links = results.flows, results.links
    case = ["experiment", *_factors(flows)]
    files = {experiment.name: experiment for experiment in results.experiments}
    of_links = links.partition_by(case, as_dict=True)
    parts = flows.partition_by(case, as_dict=True, maintain_order=True)
    for levels, rows in parts.items():
        words = ", ".join(f"{name} {level}" for name, level in zip(case, levels, strict=True)) if len(parts) > 1 else ""
        of_flows = many.of_flows(rows)
        classes = many.of_classes(of_links.get(levels, links.clear()), files[str(levels[0])])
        yield from ((words, one) for one in (*([of_flows] if of_flows else []), *classes))


def _show_claims(console: Console, claims: pl.DataFrame) -> None:
    judged = claims.with_columns(expected=as_expected(), as_recorded=as_recorded())
    rows = metrics.rows_of(judged, JudgedRow)
    kinds = [row["kind"] for row in rows]
    columns = [
        Column("verdict", [shown_verdict(row["kind"], row["verdict"]) for row in rows], weight=9, stays=True),
        *([Column("kind", kinds, weight=1)] if len(set(kinds)) > 1 else []),
        Column("experiment", [row["experiment"] for row in rows]),
        Column("id", [row["id"] for row in rows], weight=5),
        Column("says", [_says(row) for row in rows], weight=4, folds=True),
    ]
    styles = ["" if row["as_recorded"] else "red" for row in rows]
    tabular.say(console, "")
    tabular.show(console, "Claims", columns, styles)


def evidence(columns: Keys) -> list[str]:
    """What a claim's query gives beside the verdict."""
    return [f"{name} {'NULL' if value is None else tabular.cell(value)}" for name, value in columns.items()]


def _says(claim: JudgedRow) -> str:
    """The statement. If its verdict is not as expected, also the evidence and a hint about its query."""
    found = {} if claim["expected"] else json.loads(claim["evidence"])
    reasons = [str(found.pop(key)) for key in ("error", HINT) if key in found] + evidence(found)
    return str(claim["says"] or claim["id"]) + (f" [{'; '.join(reasons)}]" if reasons else "")


def _show_published(console: Console, published: pl.DataFrame) -> None:
    found = published.filter(pl.col("reference").is_null())
    rows = found.to_dicts()
    if not rows:
        return
    numbers = ("published", "measured", "distance", "tolerance")
    columns = [
        Column("experiment", [row["experiment"] for row in rows]),
        Column("quantity", [row["quantity"] for row in rows], weight=9, folds=True),
        Column("unit", [row["unit"] or "" for row in rows], weight=5),
        *(
            Column(name, [tabular.cell(row[name]) for row in rows], True, 1 if name == "tolerance" else 6)
            for name in numbers
        ),
    ]
    tabular.say(console, "")
    tabular.show(
        console, "Measured against published", columns, ["red" if row["within"] is False else "" for row in rows]
    )
