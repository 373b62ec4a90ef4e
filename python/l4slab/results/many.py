"""What is shown of many flows, or of a link's many classes: how their values spread, and the worst of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from l4slab.base.numbers import counted
from l4slab.experimentfile import Experiment

# From so many on, a person wants the distribution and the worst ones.
MANY = 21
WORST = 10
_SPREAD = (("least", 0.0), ("10 %", 0.1), ("median", 0.5), ("90 %", 0.9), ("most", 1.0))
_COLUMNS = ("rate_mbps", "sojourn_ms_mean", "sojourn_ms_p99", "ce_pct", "drop_pct")
NOTE = "Means over the trials. Least to most: of each quantity by itself. Below: the longest queueing delays (P99)."


@dataclass(frozen=True)
class Many:
    """Flows of a case, or classes of a link in it: the spread of their values, and those with the longest delay."""

    title: str
    columns: Sequence[str]
    spread: Sequence[tuple[str, Sequence[float | None]]]
    worst: Sequence[tuple[str, Sequence[float | None]]]

    @property
    def rows(self) -> list[tuple[str, Sequence[float | None]]]:
        """The spread, and below it the worst."""
        return [*self.spread, *self.worst]


def has_many(flows: pl.DataFrame) -> bool:
    """Whether the flows of a case are too many to show each."""
    return flows["flow"].drop_nulls().n_unique() >= MANY


def of_flows(flows: pl.DataFrame) -> Many | None:
    """The flows of a case; None if they are few."""
    if not has_many(flows):
        return None
    means = _means(flows, "flow")
    return _many(f"{len(means)} flows", means, {})


def of_classes(links: pl.DataFrame, experiment: Experiment) -> Iterator[Many]:
    """The classes of each link of a case that has many of them, with the hosts that its filters name."""
    for link, rows in _inside(links):
        means = _means(rows, "queue")
        busy = means.filter(pl.col("arrived_packets") > 0)
        title = f"{counted(len(means), 'class', 'classes')} of link {link}"
        idle = f", {len(means) - len(busy)} without packets" if len(busy) < len(means) else ""
        if len(busy):
            yield _many(title + idle, busy, _hosts(experiment, link))


def worst_flows(flows: pl.DataFrame) -> list[str] | None:
    """The flows that stand for many; None if they are few."""
    return _first(_means(flows, "flow"))["name"].to_list() if has_many(flows) else None


def shown_queues(links: pl.DataFrame) -> pl.DataFrame:
    """The rows of these but for queues inside a link that others stand for."""
    for link, rows in _inside(links):
        worst = _first(_means(rows, "queue"))["name"].to_list()
        links = links.filter((pl.col("link") != link) | pl.col("queue").is_in(["all", *worst]))
    return links


def _inside(links: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    parts = links.filter(pl.col("queue") != "all").partition_by("link", as_dict=True, maintain_order=True)
    yield from ((str(link), rows) for (link,), rows in parts.items() if rows["queue"].n_unique() >= MANY)


def _means(rows: pl.DataFrame, own: str) -> pl.DataFrame:
    columns = [name for name in (*_COLUMNS, "arrived_packets") if name in rows.columns]
    return rows.drop_nulls(own).group_by(pl.col(own).alias("name"), maintain_order=True).agg(pl.col(columns).mean())


def _first(means: pl.DataFrame) -> pl.DataFrame:
    order = ["sojourn_ms_p99", "drop_pct"]
    return means.sort(order, descending=True, nulls_last=True, maintain_order=True).head(WORST)


def _many(title: str, means: pl.DataFrame, hosts: Mapping[str, str]) -> Many:
    columns = [name for name in _COLUMNS if means[name].count()]
    spread = [(name, [means[column].quantile(part, "linear") for column in columns]) for name, part in _SPREAD]
    worst = [
        (", ".join(filter(None, [name, hosts.get(name)])), values)
        for name, *values in _first(means).select("name", *columns).iter_rows()
    ]
    return Many(title, columns, spread if len(means) >= MANY else [], worst)


def _hosts(experiment: Experiment, link: str) -> dict[str, str]:
    """The host of each class that a filter of the file leads to by a host."""
    raw = experiment.document["link"].get(link)
    filters = raw.get("filter") if isinstance(raw, dict) else None
    tables = [table for table in (filters if isinstance(filters, list) else []) if isinstance(table, dict)]
    return {str(table["class"]): str(table["host"]) for table in tables if "host" in table}
