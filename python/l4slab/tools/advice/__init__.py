"""`l4slab advise`: who gets less with Prague at the user's bottleneck, and how certain that is.

It simulates the case several times, its neighbours (`case.Case.neighbours`), and the case with CUBIC in Prague's
place. The share's interval follows from the neighbours' spread and from laboratories' distances (`distance`). Rates and
delays are as simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import polars as pl
from rich.console import Console

from l4slab.base.arguments import checked
from l4slab.base.paths import usable
from l4slab.base.values import Keys
from l4slab.tools.advice import atlas, regimes, runs, words
from l4slab.tools.advice.atlas import HURT, STARVED
from l4slab.tools.advice.case import KINDS, Case, case
from l4slab.tools.advice.distance import LEVELS, Forecast, distances, forecast
from l4slab.tools.advice.outcome import Advice, Camp

__all__ = ["KINDS", "VERDICTS", "Advice", "Camp", "Case", "advise", "case", "judge", "verdict"]

# Minimum probabilities for a verdict that a side is hurt, or that it is not.
_SURE, _PROBABLE = 0.9, 0.75
VERDICTS = ("hurt", "probably hurt", "undecided", "probably not hurt", "not hurt")


@checked(
    "rate", "rtt", "qdisc", "rival", "flows", "buffer", "rival_ecn", "options", "duration", "out", "workers", "console"
)
def advise(
    rate: str,
    rtt: str,
    qdisc: str,
    rival: str = "cubic",
    flows: str | int = 1,
    buffer: float | None = None,
    rival_ecn: str | None = None,
    options: Mapping[str, str] | None = None,
    duration: str | None = None,
    out: Path | str | None = None,
    workers: int | None = None,
    console: Console | None = None,
) -> Advice:
    """Whom Prague hurts at a link of this rate ("20Mbit"), base RTT ("30ms") and queue ("fq_codel", as for tc).

    `flows` are "2" of each or "1+10", Prague first; `buffer` is the queue's limit in bandwidth-delay products,
    `rival_ecn` as the key `ecn` of a flow, `options` of Prague as in an experiment file. With `out`, runs and report
    are kept in that folder. Raises InputError.
    """
    asked = case(rate, rtt, qdisc, rival, flows, buffer, rival_ecn, options, duration)
    return judge(asked, out, workers, console)


def judge(
    asked: Case, out: Path | str | None = None, workers: int | None = None, console: Console | None = None
) -> Advice:
    """Simulate a case and advise on it. Raises L4slabError if a run fails."""
    flows, report = runs.simulate(asked, out, workers=workers, console=console)
    found = runs.simulated(flows, asked.fair_share)
    known = regimes.widened(asked)
    expected = forecast(asked.kind, found.centre, found.spread, regimes=known)
    similar = [one for one in distances() if one.kind == asked.kind]
    advice = Advice(
        asked,
        runs.share_of(expected.centre, asked.fair_share),
        [
            (level, *(runs.share_of(end, asked.fair_share) for end in expected.interval(level)))  # type: ignore[misc]
            for level in LEVELS
        ],
        _camp(asked, flows, expected, prague=True),
        _camp(asked, flows, expected, prague=False),
        [runs.share_of(one, asked.fair_share) for one in found.trials],
        {name: runs.share_of(one, asked.fair_share) for name, one in found.neighbours.items()},
        len(similar),
        len({one.study for one in similar}),
        known,
        atlas.around(asked),
        None if out is None else usable(out),
        report,
    )
    advice.sentences.extend(words.sentences(advice))
    if out is not None:
        runs.report_again(asked, out, " ".join(advice.sentences), workers)
    return advice


def verdict(hurt: float, other: float, rate: float, without: float) -> str:
    """The verdict on a side: whether it gets less than four fifths of its goodput with CUBIC in Prague's place.

    `hurt` is this probability, and `other` the same for the other side. If `other` is 0.1 or more, the 80 % interval
    reaches both sides and is too wide for a verdict. `rate` and `without` are as simulated, and a verdict does not
    contradict them.
    """
    if hurt >= _PROBABLE and other < 1 - _SURE and rate < without:
        return "hurt" if hurt >= _SURE else "probably hurt"
    if hurt <= 1 - _PROBABLE and rate >= HURT * without:
        return "not hurt" if hurt <= 1 - _SURE else "probably not hurt"
    return "undecided"


def _camp(asked: Case, flows: pl.DataFrame, expected: Forecast, *, prague: bool) -> Camp:
    name, count = ("prague", asked.prague) if prague else ("rival", asked.rivals)
    beside = _means(flows, runs.AS_GIVEN, name)
    without = _means(flows, runs.WITHOUT, "cubic" if prague else "rival")
    hurt = _below(asked, expected, HURT * without["share"], prague=prague)
    other = _below(asked, expected, HURT * (1 - without["share"]), prague=not prague)
    return Camp(
        "prague" if prague else asked.rival, count,
        beside["goodput_mbps"] / count, beside["sojourn_ms_mean"], beside["sojourn_ms_p99"], beside["drop_pct"],
        beside["ce_pct"], without["goodput_mbps"] / count, without["sojourn_ms_mean"], without["sojourn_ms_p99"],
        without["drop_pct"], hurt,
        _below(asked, expected, STARVED * (asked.fair_share if prague else 1 - asked.fair_share), prague=prague),
        verdict(hurt, other, beside["goodput_mbps"], without["goodput_mbps"]),
    )  # fmt: skip


def _means(flows: pl.DataFrame, experiment: str, flow: str) -> dict[str, float]:
    rows = flows.filter((pl.col("experiment") == experiment) & (pl.col("flow") == flow))
    names = ("goodput_mbps", "share", "sojourn_ms_mean", "sojourn_ms_p99", "drop_pct", "ce_pct")
    return {name: fmean(rows[name].fill_null(0.0).fill_nan(0.0)) for name in names}


def _below(asked: Case, expected: Forecast, share: float, *, prague: bool) -> float:
    """The probability that a camp's share is less than this; never surer than some hundred published shares allow."""
    if prague:
        probability = 1 - expected.probability_above(runs.advantage(share, asked.fair_share))
    else:
        probability = expected.probability_above(runs.advantage(1 - share, asked.fair_share))
    return min(max(probability, 0.01), 0.99)


def document(advice: Advice) -> Keys:
    """For scripts."""
    asked = advice.case
    return {
        "case": str(asked),
        "rate_bps": asked.rate,
        "rtt_s": asked.rtt,
        "qdisc": asked.queue,
        "kind": asked.kind,
        "rival": asked.rival,
        "flows": [asked.prague, asked.rivals],
        "options": dict(asked.options),
        "duration_s": asked.duration_s,
        "fair_share": asked.fair_share,
        "share": advice.share,
        "says": [*words.sentences(advice)],
        "intervals": [{"level": level, "low": low, "high": high} for level, low, high in advice.intervals],
        "camps": [vars(camp) for camp in (advice.prague, advice.rival)],
        "trials": [*advice.trials],
        "neighbours": dict(advice.neighbours),
        "published": {"shares": advice.published, "campaigns": advice.campaigns},
        "regimes": [regime.says for regime in advice.regimes],
        "around": [vars(cell) for cell in advice.around],
        "folder": None if advice.folder is None else str(advice.folder),
        "report": advice.report,
    }
