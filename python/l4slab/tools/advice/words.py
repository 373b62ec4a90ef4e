"""What an advice says, in sentences: on the terminal and at the top of its report."""

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
        f"Prague's share of the goodput: {found.share:.2f}, in a laboratory {low:.2f} to {high:.2f} with 80 % and "
        f"{lowest:.2f} to {highest:.2f} with 90 % probability; equal rates would be {case.fair_share:.2f}.",
        *(_of_camp(camp, found) for camp in (found.rival, found.prague)),
        _runs(found),
        *([_around(found)] if found.around else []),
        *(f"The interval is wider for what has no table: {regime.says}." for regime in found.regimes),
    ]
    if case.duration is None and case.duration_s < 60:
        told.append(
            f"Runs are of {case.duration_s:g} s, not of a minute, as there are many packets; --duration says otherwise."
        )
    return told


def _of_camp(camp: Camp, found: Advice) -> str:
    who, instead = f"The rival, {camp.cc}", "with CUBIC in Prague's place"
    if camp is found.prague:
        who, instead = "Prague", "CUBIC would get here"
    parts = [f"{percent(camp.hurt)} chance of at least 20 % less goodput than {instead}"]
    if camp.without_rate_mbps > 0:
        change = round(100 * (camp.rate_mbps / camp.without_rate_mbps - 1))
        parts.append(
            f"simulated: {abs(change)} % {'less' if change < 0 else 'more'}" if change else "simulated: the same"
        )
    if camp.starved >= _WORTH_TELLING:
        parts.append(f"{percent(camp.starved)} chance of less than a tenth of an equal rate")
    if camp.delay_ms_p99 > max(2 * camp.without_delay_ms_p99, camp.without_delay_ms_p99 + 5):
        parts.append(
            f"its packets wait longer, {camp.delay_ms_p99:.4g} ms instead of {camp.without_delay_ms_p99:.4g} ms "
            "(99th percentile, as simulated)"
        )
    return f"{who}: {camp.verdict}; {'; '.join(parts)}."


def _runs(found: Advice) -> str:
    shares = found.trials
    low = min(found.neighbours, key=lambda name: found.neighbours[name])
    high = max(found.neighbours, key=lambda name: found.neighbours[name])
    return (
        f"Trials: {min(shares):.2f} to {max(shares):.2f}. Neighbours: {found.neighbours[low]:.2f} ({low}) to "
        f"{found.neighbours[high]:.2f} ({high}). Laboratories have published {found.published} shares of such queues "
        f"({found.campaigns} campaigns)."
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
    return f"On the map ({first.aqm}, {flows}): {places}{hurt}."


def percent(probability: float) -> str:
    """A probability, not more exactly than it is known."""
    if probability < 0.05:
        return "less than 5 %"
    if probability > 0.95:
        return "more than 95 %"
    return f"{round(100 * probability / 5) * 5} %"
