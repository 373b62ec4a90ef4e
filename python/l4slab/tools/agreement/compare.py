"""Two engines' results of the same cells: differences, and whether they are within the bars.

A cell is an experiment at one level of each factor. Each of its quantities has a value per trial and engine; compared
are the means over the trials. What says nothing does not count in a bar, so that it cannot pass for agreement: the
share of a flow that is alone, marks and drops where both engines have none, and delays, marks and drops of a flow or
queue that hardly a packet went through. A quantity that only one engine has counts as beyond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import duckdb
import polars as pl

from l4slab.base import frames, metrics
from l4slab.base.errors import InputError
from l4slab.base.values import Row
from l4slab.campaign.store import label_frame
from l4slab.experimentfile import Experiment, show
from l4slab.results.bars import Bar, Cause, agree_of
from l4slab.results.claims import connect, quoted
from l4slab.sweep import Plan, Run, sql_reason

# Fewer packets than this on both engines (mean over the trials) make no mean and no fraction.
LEAST_PACKETS = 100
_PLACE = ("flow", "link", "queue")
_ENGINES = ("kernel", "simulator")
_WEIGHT = {"flows": "sent_packets", "links": "arrived_packets"}
_KEYS = {"flows": ("flow",), "links": ("link", "queue")}
# These are of a whole flow or link and exist without packets too.
_WHOLE = ("share", "goodput_mbps", "utilisation")
_COUNTS = ("ce_pct", "drop_pct")
# The table whose rows a bar is about, for quantities that both have. A flow's delay is that of its queue.
_BAR_ON = {"ce_pct": "flow", "drop_pct": "flow", "sojourn_ms_mean": "link", "sojourn_ms_p50": "link"} | {
    "sojourn_ms_p99": "link"
}


class AgreementRow(TypedDict):
    """A row of `agreement.parquet`, but for the levels of the factors."""

    experiment: str
    flow: str | None
    link: str | None
    queue: str | None
    quantity: str
    kernel: float | None
    kernel_min: float | None
    kernel_max: float | None
    simulator: float | None
    simulator_min: float | None
    simulator_max: float | None
    difference: float | None
    apart: bool
    within: bool | None
    cause: str | None


class BarRow(TypedDict):
    """A row of `bars.parquet`."""

    set: str
    quantity: str
    bar: str
    wanted: float
    measured: float | None
    by_chance: float | None
    cells: int
    met: bool | None


@dataclass(frozen=True)
class Agreement:
    """The result of `agree`; the tables as in `metrics.AGREEMENT` and `metrics.BARS`."""

    folder: Path
    rows: pl.DataFrame
    bars: pl.DataFrame
    missing: pl.DataFrame
    failures: list[tuple[Run, str]]
    notes: list[str]

    @property
    def met(self) -> bool:
        """Whether there is a bar, every bar is met, and every cell has run on both engines."""
        judged = self.bars["met"].drop_nulls()
        return len(judged) > 0 and bool(judged.all()) and self.missing.is_empty() and not self.failures


@dataclass(frozen=True)
class Side:
    """One engine's finished runs: their labels and its tables. `flows` has `rtt_samples`, what RTTs are means of."""

    labels: pl.DataFrame
    flows: pl.DataFrame
    links: pl.DataFrame


def read(plans: Sequence[Plan], folder: Path) -> Side:
    """The runs of `plans` in a results folder."""
    tables = {}
    for name, quantities in metrics.COMPARED.items():
        columns = ["run", *_KEYS[name], _WEIGHT[name], *quantities]
        # A run that two experiments share stands in the table twice.
        tables[name] = pl.read_parquet(folder / f"{name}.parquet", columns=columns).unique(
            ["run", *_KEYS[name]], maintain_order=True
        )
    rtts = pl.scan_parquet(folder / "histograms.parquet").filter(quantity="rtt_ms").unique(["run", "flow", "low_ms"])
    samples = rtts.group_by("run", "flow").agg(rtt_samples=pl.col("count").sum()).collect()
    tables["flows"] = tables["flows"].join(samples, on=["run", "flow"], how="left", maintain_order="left")
    return Side(label_frame(plans), **tables)


def factors_of(side: Side) -> list[str]:
    """The label columns that are factors."""
    return [name for name in side.labels.columns if name not in metrics.LABELS]


def missing(kernel: Side, simulator: Side, names: Sequence[str] = _ENGINES) -> pl.DataFrame:
    """The cells that an engine has no finished run of: its labels and `engine`, by these names."""
    found = []
    for name, side in zip(names, (kernel, simulator), strict=True):
        cell = ["experiment", *factors_of(side)]
        finished = side.labels["run"].is_in(side.flows["run"].implode())
        cells = side.labels.with_columns(finished.alias("finished")).group_by(cell, maintain_order=True)
        none = cells.agg(pl.col("finished").any()).filter(~pl.col("finished")).drop("finished")
        found.append(none.with_columns(engine=pl.lit(name)))
    return pl.concat(found)


def compare(kernel: Side, simulator: Side, bars: Mapping[str, Mapping[str, Bar]]) -> pl.DataFrame:
    """A row per cell, place and quantity (see `metrics.AGREEMENT`), without causes.

    `bars` are those of each experiment, by quantity.
    """
    factors = factors_of(kernel)
    keys = ["experiment", *factors, *_PLACE, "quantity"]
    sides = [_means(side, name, keys) for name, side in zip(_ENGINES, (kernel, simulator), strict=True)]
    # Cells without a finished run on one engine are told by `missing`.
    cell = ["experiment", *factors]
    sides = [a.join(b.select(cell).unique(), on=cell, how="semi", nulls_equal=True) for a, b in (sides, sides[::-1])]
    rows = sides[0].join(sides[1], on=keys, how="full", coalesce=True, nulls_equal=True)
    rows = rows.filter(pl.col("kernel").is_not_null() | pl.col("simulator").is_not_null()).with_columns(
        pl.col("kernel_trials").fill_null(0),
        pl.col("simulator_trials").fill_null(0),
        difference=pl.col("simulator") - pl.col("kernel"),
        apart=(pl.col("kernel_min") > pl.col("simulator_max")) | (pl.col("simulator_min") > pl.col("kernel_max")),
        packets=pl.max_horizontal("kernel_packets", "simulator_packets"),
    )
    rows = _judged(rows, cell, bars)
    order = kernel.labels.select(cell).unique(maintain_order=True).with_row_index("cell_order")
    rows = rows.join(order, on=cell, nulls_equal=True).sort("cell_order", *_PLACE, "position", nulls_last=False)
    names = [name for name in metrics.AGREEMENT if name not in ("experiment", "cause")]
    return rows.select(*cell, *names, pl.lit(None, dtype=pl.String).alias("cause"))


def values(side: Side, keys: list[str]) -> pl.DataFrame:
    """A row per trial, place and quantity: `value`, how many `packets` it is of, of an RTT how many `samples`, and its
    `position` in the order.
    """
    found = []
    for table, quantities in metrics.COMPARED.items():
        # Means are sums, whose last digit depends on the order.
        rows = side.labels.join(getattr(side, table), on="run", maintain_order="left_right")
        places = [pl.lit(None, dtype=pl.String).alias(name) for name in _PLACE if name not in _KEYS[table]]
        samples = pl.col("rtt_samples").fill_null(0) if table == "flows" else pl.lit(0)
        long = rows.with_columns(places, packets=pl.col(_WEIGHT[table]), samples=samples.cast(pl.Int64)).unpivot(
            list(quantities), index=[*keys[:-1], "packets", "samples"], variable_name="quantity", value_name="value"
        )
        of_rtts = pl.when(pl.col("quantity").str.starts_with("rtt_")).then("samples")
        positions = pl.col("quantity").replace_strict(_positions(quantities))
        found.append(long.with_columns(samples=of_rtts, position=positions))
    return pl.concat(found)


def _means(side: Side, engine: str, keys: list[str]) -> pl.DataFrame:
    """Mean and range over the trials of every quantity."""
    value = pl.col("value")
    return (
        values(side, keys)
        .group_by([*keys, "position"], maintain_order=True)
        .agg(
            value.mean().alias(engine),
            value.min().alias(f"{engine}_min"),
            value.max().alias(f"{engine}_max"),
            value.count().cast(pl.Int64).alias(f"{engine}_trials"),
            pl.col("packets").mean().alias(f"{engine}_packets"),
        )
    )


def _positions(quantities: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(quantities)}


def _judged(rows: pl.DataFrame, cell: list[str], bars: Mapping[str, Mapping[str, Bar]]) -> pl.DataFrame:
    """`within` of every row that counts in a bar."""
    allowed = pl.lit(None, dtype=pl.Float64)
    for experiment, of_quantity in bars.items():
        for name, bar in of_quantity.items():
            here = (pl.col("experiment") == experiment) & (pl.col("quantity") == name)
            if (place := _BAR_ON.get(name)) is not None:
                here &= pl.col(place).is_not_null()
            allowed = pl.when(here).then(_allowed(bar)).otherwise(allowed)
    quantity = pl.col("quantity")
    alone = (quantity == "share") & (pl.col("flow").n_unique().over([*cell, "quantity"]) < 2)
    neither = (pl.col("kernel_max").fill_null(0) == 0) & (pl.col("simulator_max").fill_null(0) == 0)
    few = ~quantity.is_in(_WHOLE) & (pl.col("packets").fill_null(0) < LEAST_PACKETS)
    # Of a link's queues, the share of one is no utilisation.
    part = (quantity == "utilisation") & (pl.col("queue") != "all")
    # The laboratory sees what enters and leaves, not CAKE's tins.
    inside = (pl.col("queue") != "all") & pl.col("kernel_packets").is_null()
    silent = alone | part | inside.fill_null(value=False) | (quantity.is_in(_COUNTS) & neither) | few
    within = (pl.col("difference").abs() <= pl.col("allowed")).fill_null(value=False)
    return rows.with_columns(allowed=allowed).with_columns(
        within=pl.when(pl.col("allowed").is_null() | silent).then(None).otherwise(within)
    )


def _allowed(bar: Bar) -> pl.Expr:
    """The largest difference that is not beyond: the tolerance, or where there is none the 90th percentile's bar."""
    if bar.cells is None:
        largest = bar.p90 if bar.p90 is not None else bar.median
        return pl.lit(largest, dtype=pl.Float64)
    relative = (bar.relative or 0) * pl.col("kernel").abs()
    return pl.max_horizontal(pl.lit(bar.absolute or 0.0), relative.fill_null(0))


def halves(simulator: Side, trials: Mapping[str, int]) -> tuple[Side, Side]:
    """The simulator's first trials, as many as the kernel's, and as many further ones: two sides that differ by chance
    only. Experiments with fewer simulator trials are left out.
    """
    first, second = [], []
    for experiment, count in trials.items():
        labels = simulator.labels.filter(pl.col("experiment") == experiment)
        if (labels["trial"].n_unique()) >= 2 * count:
            first.append(labels.filter(pl.col("trial") <= count))
            second.append(labels.filter(pl.col("trial").is_between(count + 1, 2 * count)))
    none = simulator.labels.clear()
    return tuple(  # type: ignore[return-value]
        Side(pl.concat([none, *labels]), simulator.flows, simulator.links) for labels in (first, second)
    )


def judge(rows: pl.DataFrame, chance: pl.DataFrame, experiments: Sequence[Experiment]) -> pl.DataFrame:
    """A row per bar (see `metrics.BARS`): the wanted and the measured value over the cells of each set.

    `chance` is the comparison of the simulator with itself, of the same experiments.
    """
    sets: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        sets.setdefault(agree_of(experiment).set or experiment.name, []).append(experiment)
    found = []
    for name, members in sets.items():
        named = pl.col("experiment").is_in([member.name for member in members])
        for quantity, bar in agree_of(members[0]).bars.items():
            measured = _one_bar(rows.filter(named), quantity, bar)
            by_chance = _one_bar(chance.filter(named), quantity, bar)
            for row, other in zip(measured, by_chance, strict=True):
                found.append({"set": name, "quantity": quantity, **row, "by_chance": other["measured"]})
    return pl.DataFrame(found, schema=metrics.BARS)


def _one_bar(rows: pl.DataFrame, quantity: str, bar: Bar) -> list[Row]:
    cells = by_cell(rows.filter(pl.col("quantity") == quantity))
    count = len(cells)
    off = cells["largest"]
    enough = count >= bar.at_least

    def row(words: str, wanted: float, measured: object, met: bool) -> Row:
        value = float(measured) if isinstance(measured, int | float) else None
        text = words if enough or not count else f"{words}, over at least {bar.at_least} cells"
        return {
            "bar": text,
            "wanted": wanted,
            "measured": value,
            "cells": count,
            "met": None if not count else enough and value is not None and met,
        }

    found = []
    for words, wanted, part in (("median", bar.median, 0.5), ("90th percentile", bar.p90, 0.9)):
        if wanted is not None:
            value = off.quantile(part, "linear")
            found.append(row(f"{words} of |difference| at most", wanted, value, value is not None and value <= wanted))
    if bar.cells is not None:
        inside = cells["within"].mean()
        met = isinstance(inside, float) and inside >= bar.cells
        found.append(row(f"part of the cells within {tolerance(quantity, bar)}, at least", bar.cells, inside, met))
    return found


def tolerance(quantity: str, bar: Bar) -> str:
    """A bar's tolerance in words: "10 % or 0.3 ms"."""
    unit = {"pct": "points", "ms": "ms", "mbps": "Mb/s"}.get(quantity.split("_")[1] if "_" in quantity else "", "")
    parts = [f"{bar.relative * 100:g} %"] if bar.relative is not None else []
    parts += [f"{bar.absolute:g} {unit}".rstrip()] if bar.absolute is not None else []
    return " or ".join(parts)


def by_cell(rows: pl.DataFrame) -> pl.DataFrame:
    """The cells with a row that counts: the largest |difference|, and whether all rows are within.

    Where one engine has no value, the difference is infinite.
    """
    cell = _cell_columns(rows)
    counted = rows.filter(pl.col("within").is_not_null())
    off = pl.col("difference").abs().fill_null(float("inf"))
    return counted.group_by(cell, maintain_order=True).agg(largest=off.max(), within=pl.col("within").all())


def _cell_columns(rows: pl.DataFrame) -> list[str]:
    return [name for name in rows.columns if name == "experiment" or name not in metrics.AGREEMENT]


def beyond(rows: pl.DataFrame) -> pl.DataFrame:
    """The worst row of each cell and quantity that is beyond."""
    off = (pl.col("difference").abs() / pl.max_horizontal(pl.col("kernel").abs(), 1e-9)).fill_null(float("inf"))
    worst = rows.filter(~pl.col("within")).with_columns(off=off).sort("off", descending=True, maintain_order=True)
    cell = [*_cell_columns(rows), "quantity"]
    first = worst.unique(cell, keep="first", maintain_order=True).drop("off")
    order = rows.select(cell).unique(maintain_order=True)
    return order.join(first, on=cell, nulls_equal=True, maintain_order="left").select(rows.columns)


# -- causes -----------------------------------------------------------------------------------------------------------


def check_causes(plans: Sequence[Plan]) -> None:
    """Prepare the condition of every cause. Raises InputError for the first that cannot be evaluated."""
    factors = {n: t for n, t in label_frame(plans).schema.items() if n not in metrics.LABELS}
    schema = {"experiment": pl.String()} | factors | metrics.AGREEMENT
    with connect() as connection:
        frames.register(connection, "cells", pl.DataFrame(schema=schema))
        for plan in plans:
            for number, cause in enumerate(plan.experiment.tables(Cause), start=1):
                _condition(connection, plan.experiment, number, cause)


def _condition(connection: duckdb.DuckDBPyConnection, experiment: Experiment, number: int, cause: Cause) -> None:
    place = f"[[cause]] no. {number}: when"
    try:
        kind = str(connection.sql(f"select ({cause.when}) from cells").types[0])
    except duckdb.Error as error:
        raise InputError(
            f"= {show(cause.when)} is not a condition over the cells: {sql_reason(error)}",
            file=experiment.file,
            key=place,
        ) from None
    if kind != "BOOLEAN":
        raise InputError(
            f"= {show(cause.when)} gives {kind}; make it a comparison, which is true or false",
            file=experiment.file,
            key=place,
        )


def explain(rows: pl.DataFrame, experiments: Sequence[Experiment]) -> tuple[pl.DataFrame, list[str]]:
    """The rows with the cause of those beyond (the first of its file whose condition holds), and notes on causes that
    explain nothing.
    """
    numbered = rows.with_row_index("row")
    why: dict[int, str] = {}
    notes = []
    with connect() as connection:
        frames.register(connection, "rows", numbered)
        for experiment in experiments:
            name = quoted(experiment.name)
            for number, cause in enumerate(experiment.tables(Cause), start=1):
                holds = f"(select row, ({cause.when}) as holds from rows where experiment = {name} and not within)"
                query = f"select row from {holds} where holds"
                found = [int(row[0]) for row in connection.execute(query).fetchall()]
                if not found:
                    notes.append(f"{experiment.name}: [[cause]] no. {number} explains no cell ({show(cause.when)}).")
                for index in found:
                    why.setdefault(index, " ".join(cause.why.split()))
    causes = pl.Series("cause", [why.get(index) for index in range(len(rows))], dtype=pl.String)
    return rows.with_columns(causes), notes
