"""Result tables as a campaign writes them, with values that a test chooses."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest
from l4slab import experimentfile, sweep
from l4slab.base import metrics
from l4slab.base.packaged import study
from l4slab.campaign.store import Store
from l4slab.results import claims, published

# What the page shows over 20-60 s: rates and RTTs of both flows, and the coupled p_L, from which p_C follows.
PAGE: dict[str, dict[str, float]] = {
    "A": {"cubic": 43.6, "tweaked": 6.1, "cubic_rtt": 32.5, "tweaked_rtt": 21.4, "p_l": 0.013},
    "B": {"cubic": 9.7, "tweaked": 40.0, "cubic_rtt": 35.0, "tweaked_rtt": 20.6, "p_l": 0.061},
    "C": {"cubic": 9.7, "tweaked": 40.0, "cubic_rtt": 35.5, "tweaked_rtt": 35.0, "p_l": 0.061},
    "D": {"cubic": 26.0, "tweaked": 23.8, "cubic_rtt": 34.8, "tweaked_rtt": 34.7, "p_l": 0.03},
}


def fast_lane(changes: Mapping[str, Mapping[str, float]] | None = None, trials: int = 3) -> dict[str, pl.DataFrame]:
    """Tables of the four experiments as on the page; `changes` are other values of some experiments."""
    flows, links, series = [], [], []
    for experiment, page in PAGE.items():
        value = {"native": 0.0, "jitter": 0.02, **page, **(changes or {}).get(experiment, {})}
        low = value.get("l_packets", 90_000 if experiment in "AB" else 0)
        for trial in range(1, trials + 1):
            chance = random.Random(f"{experiment}/{trial}")
            label = {"experiment": experiment, "run": f"{experiment}{trial:015d}", "trial": trial}
            total = value["cubic"] + value["tweaked"]
            for flow in ("cubic", "tweaked"):
                rate = value[flow] + (trial - (trials + 1) / 2) * value["jitter"]
                ce = 100 * value["p_l"] if flow == "tweaked" and experiment in "AB" else 25 * value["p_l"] ** 2
                flows.append(
                    label
                    | {"flow": flow, "cc": "cubic", "count": 1, "ecn_mode": "classic"}
                    | {"goodput_mbps": 0.956 * rate, "rate_mbps": rate, "share": rate / total}
                    | {"rtt_ms_mean": value[f"{flow}_rtt"], "ce_pct": value.get("ce_pct", ce), "drop_pct": 0.0}
                    | {"sojourn_ms_mean": value[f"{flow}_rtt"] - 20, "sent_packets": 100_000, "retransmits": 0}
                )
            for queue, packets in (("all", 200_000), ("L", low), ("C", 200_000 - low)):
                links.append(
                    label
                    | {"link": "bottleneck", "queue": queue, "rate_mbps": total, "utilisation": total / 50}
                    | {"sojourn_ms_mean": 12.0, "sent_packets": packets, "ce_pct": 0.1, "drop_pct": 0.0}
                )
            for tick in range(600):
                time = (tick + 1) / 10
                series += _sample(label | {"time_s": time}, value, chance)
    made = {"flows": flows, "links": links, "series": series}
    return {name: _table(name, made.get(name, [])) for name in metrics.TABLES}


def _sample(label: dict[str, Any], value: Mapping[str, float], chance: random.Random) -> list[dict[str, Any]]:
    time = label["time_s"]
    joined = time >= 10
    saw = (time + label["trial"] / 3) % 2.5 / 2.5 - 0.5
    p_l = value["p_l"] * (1 + 1.2 * saw)
    p_c = value.get("p_c", (p_l / 2) ** 2)
    rows: list[dict[str, Any]] = []
    for flow in ("cubic", "tweaked"):
        if flow == "tweaked" and not joined:
            continue
        wobble = value["jitter"] * chance.uniform(-1, 1) + (0.2 * saw * value[flow] if value[flow] < 38 else 0)
        rate = value[flow] + wobble if joined else 49.7
        rtt = value[f"{flow}_rtt"]
        rows.append(
            label | {"flow": flow, "rate_mbps": rate, "srtt_ms": rtt + 3 * saw, "cwnd_packets": rate * rtt / 12}
        )
    link = {"link": "bottleneck", "queue": "all", "sojourn_ms": 12 + 4 * math.sin(time), "backlog_packets": 50.0}
    native = value["native"] if joined else 0.0
    rows.append(label | link | {"p_c": p_c, "p_l_coupled": p_l, "p_l_native": native, "p_l": max(p_l, native)})
    return rows


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=metrics.LABELS | metrics.TABLES[name], strict=False)


def folder(out: Path, files: Sequence[Path], tables: Mapping[str, pl.DataFrame]) -> Path:
    """A results folder with these tables, and claims and figures as a campaign would have evaluated them."""
    experiments = [experimentfile.load(file) for file in files]
    ids = {(r.experiment, r.trial): r.id for e in experiments for r in sweep.expand(e, "sim").runs}
    tables = {name: table.with_columns(_run_ids(table, ids)) for name, table in tables.items()}
    arrow = {name: tables[name] for name in metrics.TABLES}
    with Store(out) as store:
        for experiment in experiments:
            store.keep_experiment(experiment)
        for name in metrics.TABLES:
            store.write(name, tables[name])
        store.write("claims", claims.evaluate(experiments, arrow))
        store.write("published", published.evaluate(experiments, arrow))
    return out


def _run_ids(table: pl.DataFrame, ids: Mapping[tuple[str, int], str]) -> pl.Series:
    rows = zip(table["experiment"], table["trial"], table["run"], strict=True)
    return pl.Series("run", [ids.get((experiment, trial), run) for experiment, trial, run in rows], dtype=pl.String)


@pytest.fixture(scope="session")
def readme(docs_script: Callable[[str], ModuleType]) -> ModuleType:
    """What writes README's table of studies."""
    return docs_script("studies")


@pytest.fixture(scope="session")
def in_readme(readme: ModuleType) -> Any:
    """`in_readme(study)`: of each list of its claims, how many README says to be as expected, of how many."""
    return lambda name: json.loads(readme.SUMMARY.read_text())[name]["counts"]


@pytest.fixture(scope="session")
def page() -> dict[str, pl.DataFrame]:
    """Tables in which everything is as on the page."""
    return fast_lane()


@pytest.fixture
def make_tables() -> Any:
    """`fast_lane`, for tests that change a value."""
    return fast_lane


@pytest.fixture
def make_folder(tmp_path: Path) -> Any:
    """`make_folder(tables, files=...)` writes a results folder; by default of the fast-lane study."""

    def make(tables: Mapping[str, pl.DataFrame], files: Sequence[Path] | None = None) -> Path:
        return folder(tmp_path / "results", study("fast-lane") if files is None else files, tables)

    return make
