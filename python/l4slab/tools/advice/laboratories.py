"""Published shares of Prague against a rival, as cases, from the tables that ship with the studies.

A case contains what a user of `advise` gives: rate, RTT, queue, rival, and whether the fallback was on. Other
conditions of a laboratory (the version of its Prague, windows of its sockets, a second queue for ACKs, which flow
started first) are part of the distance that is measured here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from l4slab.tools.advice.case import Case

_SHARES = "deployment/deployment_prague_share.csv"
_BARS = "deployment/deployment_barplots_fallback_on.csv"
_ECT1 = "ect1/ect1_flows.csv"
# Of `s2-l4s.toml`, by the laboratory's name; PIE's tupdate stays at its default, as someone would leave it.
_ECT1_QUEUES = {
    "dualpi2": "dualpi2",
    "pfifo_1000_": "pfifo limit 1000",
    "pfifo_50_": "pfifo limit 50",
    "codel1q": "fq_codel flows 1 ecn",
    "codel1q_40ms_": "fq_codel flows 1 target 3ms interval 40ms ecn",
    "codel1q_20ms_": "fq_codel flows 1 target 1ms interval 20ms ecn",
    "red_150000_": "red limit 150000 avpkt 1000 adaptive bandwidth 50Mbit ecn",
    "red_400000_": "red limit 400000 avpkt 1000 adaptive bandwidth 50Mbit ecn",
    "pie": "pie ecn",
    "pie_noecn_": "pie noecn",
    "pie_100p_5ms_": "pie limit 100 target 5ms alpha 2 beta 20 ecn",
    "pie_100p_20ms_": "pie limit 100 target 20ms alpha 2 beta 20 ecn",
    "pie_1000p_20ms_": "pie limit 1000 target 20ms alpha 2 beta 20 ecn",
}


@dataclass(frozen=True)
class Measured:
    """A published share of Prague, 0 to 1, of the goodput of all flows; `study` tells the campaign."""

    study: str
    case: Case
    share: float


def measured() -> list[Measured]:
    """Every published share of Prague beside a rival, study by study."""
    return [*_deployment("deployment", _SHARES), *_deployment("deployment-bars", _BARS), *_ect1()]


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = (files("l4slab") / "studies" / name).read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return iter(csv.DictReader(io.StringIO("\n".join(lines))))


def _deployment(study: str, name: str) -> Iterator[Measured]:
    for row in _rows(name):
        rate, rtt = float(row["rate_mbps"]) * 1e6, float(row["base_rtt_ms"]) / 1e3
        qdisc = _deployment_queue(row["aqm"], float(row["n_bdp"]), rate, rtt, row["ecn_threshold_ms"])
        fallback = {"fallback": "correct"} if row["ecn_fallback"] == "1" else {}
        case = Case(rate, rtt, qdisc, "cubic", rival_ecn="classic", options=fallback)
        yield Measured(study, case, float(row["prague_share"]))


def _deployment_queue(aqm: str, n_bdp: float, rate: float, rtt: float, threshold_ms: str) -> str:
    """As in `single.toml`."""
    size = n_bdp * rate * rtt / 8
    packets, target = int(size // 1500) + 1, f"{round(n_bdp * rtt * 1e6)}us"
    queues = {
        "fifo": f"bfifo limit {round(size)}",
        "single_queue_fq": f"fq limit {packets} flow_limit {packets} orphan_mask 0 ce_threshold {threshold_ms}ms",
        "fq": f"fq limit {packets} flow_limit {packets} ce_threshold {threshold_ms}ms",
        "codel": f"codel limit {packets} target {target} interval 100ms ecn ce_threshold {threshold_ms}ms",
        "fq_codel": f"fq_codel limit {packets} target {target} interval 100ms ecn ce_threshold {threshold_ms}ms",
        "dualpi2": f"dualpi2 target {threshold_ms}ms",
    }
    return queues[aqm.lower()]


def _ect1() -> Iterator[Measured]:
    tests: dict[str, dict[str, dict[str, str]]] = {}
    for row in _rows(_ECT1):
        if row["scenario"] == "s2" and row["window"].startswith("both_active"):
            tests.setdefault(row["test"], {})[row["cc"]] = row
    for name, flows in tests.items():
        queue = name.split("-vs-prague-")[-1].rpartition("-")[0]
        if set(flows) == {"cubic", "prague"} and queue in _ECT1_QUEUES:
            goodput = {cc: float(row["goodput_mbps"]) for cc, row in flows.items()}
            rtt = float(flows["prague"]["rtt"].removesuffix("ms")) / 1e3
            case = Case(
                50e6, rtt, _ECT1_QUEUES[queue], "cubic", rival_ecn="accecn", options={"fallback": "correct"}
            )  # fmt: skip
            yield Measured("ect1", case, goodput["prague"] / sum(goodput.values()))
