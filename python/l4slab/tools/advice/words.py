"""Advice in sentences: on the terminal and at the top of its report."""

from __future__ import annotations

from l4slab.tools.advice import runs
from l4slab.tools.advice.case import KINDS
from l4slab.tools.advice.outcome import Advice, Camp

_WORTH_TELLING = 0.05


def sentences(found: Advice) -> list[str]:
    """The advice, the most important first."""
    case = found.case
    low, high = found.interval(0.8)
    lowest, highest = found.interval(0.9)
    told = [
        f"{case}: {KINDS[case.kind]}.",
        f"Prague's share of the goodput: {found.share:.2f}; equal rates would be {case.fair_share:.2f}. "
        f"A laboratory would measure {low:.2f} to {high:.2f} with 80 % probability, and {lowest:.2f} to {highest:.2f} "
        "with 90 %.",
        *(_of_camp(camp, found) for camp in (found.rival, found.prague)),
        _runs(found),
        *([_around(found)] if found.around else []),
        *(f"The interval is wider, as no published table covers this: {regime.says}." for regime in found.regimes),
    ]
    if case.duration is None and case.duration_s < 60:
        told.append(
            f"Runs take {case.duration_s:g} s instead of a minute, because of the many packets; --duration changes it."
        )
    return told


def _of_camp(camp: Camp, found: Advice) -> str:
    who, instead = f"The rival, {camp.cc}", "with CUBIC in Prague's place"
    if camp is found.prague:
        who, instead = "Prague", "CUBIC would get here"
    chances = [f"{percent(camp.hurt)} chance of at least 20 % less goodput than {instead}"]
    if camp.starved >= _WORTH_TELLING:
        chances.append(f"{percent(camp.starved)} chance of less than a tenth of an equal rate")
    simulated = []
    if camp.without_rate_mbps > 0:
        change = round(100 * (camp.rate_mbps / camp.without_rate_mbps - 1))
        simulated.append(f"{abs(change)} % {'less' if change < 0 else 'more'} goodput" if change else "equal goodput")
    if camp.delay_ms_p99 > max(2 * camp.without_delay_ms_p99, camp.without_delay_ms_p99 + 5):
        simulated.append(
            f"a 99th percentile of queueing delay of {camp.delay_ms_p99:.4g} ms instead of "
            f"{camp.without_delay_ms_p99:.4g} ms"
        )
    text = f"{who}: {camp.verdict}; {', '.join(chances)}."
    return f"{text} Simulated: {', '.join(simulated)}." if simulated else text


def _runs(found: Advice) -> str:
    shares = found.trials
    low = min(found.neighbours, key=lambda name: found.neighbours[name])
    high = max(found.neighbours, key=lambda name: found.neighbours[name])
    return (
        f"Simulated shares: {min(shares):.2f} to {max(shares):.2f} over the trials, and {found.neighbours[low]:.2f} "
        f"({low}) to {found.neighbours[high]:.2f} ({high}) with small changes. The intervals rest on {found.published} "
        f"published shares of such queues ({found.campaigns} campaigns)."
    )


def _around(found: Advice) -> str:
    case, first = found.case, found.around[0]
    flows = "one flow each"
    if case.prague + case.rivals > 2:
        here = runs.share_of(runs.advantage(found.share, case.fair_share), 0.5)
        flows = f"{first.flows} flows; Prague's share per flow, here {here:.2f}"
    places = ", ".join(
        f"{cell.capacity_mbps:g} Mb/s {cell.base_rtt_ms:g} ms: {cell.share:.2f}" for cell in found.around
    )
    counts = {
        "the rival": sum(cell.rival_hurt for cell in found.around),
        "Prague": sum(cell.prague_hurt for cell in found.around),
    }
    hurt = "".join(f"; {who} is hurt in {count} of {len(found.around)}" for who, count in counts.items() if count)
    return f"On the map ({first.aqm}, {flows}), at the rates and RTTs around it: {places}{hurt}."


def percent(probability: float) -> str:
    """A probability, not more exactly than it is known."""
    if probability < 0.05:
        return "less than 5 %"
    if probability > 0.95:
        return "more than 95 %"
    return f"{round(100 * probability / 5) * 5} %"
