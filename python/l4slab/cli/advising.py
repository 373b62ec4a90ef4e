"""`l4slab advise`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from l4slab import _core
from l4slab.cli import options, terminal
from l4slab.cli.terminal import Column

if TYPE_CHECKING:
    from l4slab.advice import Advice, Camp

_WORTH_TELLING = 0.05


def _rivals(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    found = [CompletionItem(one["name"], help=one["summary"]) for one in _core.controllers()]
    return [item for item in found if item.value.startswith(incomplete)]


@click.command()
@click.option("--rate", required=True, metavar="RATE", help="Of the bottleneck, such as 20Mbit.")
@click.option("--rtt", required=True, metavar="TIME", help="Round trip without queues, such as 30ms.")
@click.option("--qdisc", required=True, metavar="TC", help='Its queue, as you would give it to tc: "codel ecn".')
@click.option(
    "--rival", default="cubic", show_default=True, metavar="CC", shell_complete=_rivals, help="Beside Prague."
)
@click.option("--flows", default="1", show_default=True, metavar="N|P+R", help="So many of each, or Prague + rivals.")
@click.option("--buffer", type=float, metavar="BDP", help="The queue's limit in bandwidth-delay products.")
@click.option(
    "--rival-ecn", type=click.Choice(["off", "classic", "accecn"]), help="ECN of the rival; default: what it asks for."
)
@click.option("--option", "given", multiple=True, metavar="NAME=VALUE", help="An option of Prague.")
@click.option("--duration", metavar="TIME", help="Of a run; default: a minute, less above 3 Gbit/s.")
@click.option("--out", metavar="DIR", help="Folder for runs and report; default: results/advise-CASE.")
@options.workers
@options.as_json
def advise(
    rate: str,
    rtt: str,
    qdisc: str,
    rival: str,
    flows: str,
    buffer: float | None,
    rival_ecn: str | None,
    given: tuple[str, ...],
    duration: str | None,
    out: str | None,
    workers: int | None,
    as_json: bool,
) -> int:
    """Whom Prague hurts at a bottleneck of yours, and how sure that is.

    Simulates Prague beside a rival there, the same a little otherwise, and the same with CUBIC in Prague's place.
    Harm is a result, not an error.
    """
    from l4slab import advice

    options.refuse_empty(out=out)
    settings = dict(options.setting(text) for text in given)
    case = advice.case(rate, rtt, qdisc, rival, flows, buffer, rival_ecn, settings, duration)
    folder = out or options.results_folder(f"advise-{_as_name(case)}", "sim")
    found = advice.judge(case, folder, workers, terminal.err())
    if as_json:
        terminal.as_json(advice.document(found) | {"exit_status": 0})
    else:
        _show(found)
    return 0


def _as_name(case: object) -> str:
    return re.sub(r"[^\w.=+]+", "-", str(case)).strip("-.")


def _show(found: Advice) -> None:
    from l4slab import advice

    case = found.case
    low, high = found.interval(0.8)
    lowest, highest = found.interval(0.9)
    terminal.say(f"{case}: {advice.KINDS[case.kind]}")
    terminal.say(
        f"Prague's share of the goodput: {found.share:.2f}, in a laboratory {low:.2f} to {high:.2f} with 80 % and "
        f"{lowest:.2f} to {highest:.2f} with 90 % probability; equal rates would be {case.fair_share:.2f}."
    )
    for camp in (found.rival, found.prague):
        terminal.say(_sentence(camp, found))
    terminal.say("")
    _table(found)
    terminal.say("")
    terminal.say(_why(found))
    if found.around:
        terminal.say(_around(found))
    for regime in found.regimes:
        terminal.say(f"The interval is wider for what has no table: {regime.says}.")
    if case.duration is None and case.duration_s < 60:
        terminal.say(
            f"Runs are of {case.duration_s:g} s, not of a minute, as there are many packets; --duration says otherwise."
        )
    if found.report is not None:
        terminal.say(f"Report with every run: {found.report}")


def _sentence(camp: Camp, found: Advice) -> str:
    who, it = ("Prague", "Prague") if camp is found.prague else (f"The rival, {camp.cc},", "it")
    parts = [f"{percent(camp.hurt)} that {it} has more than a fifth less than with CUBIC in Prague's place"]
    if camp is found.prague:
        parts = [f"{percent(camp.hurt)} that it has more than a fifth less than CUBIC would in its place"]
    if camp.starved >= _WORTH_TELLING:
        parts.append(f"{percent(camp.starved)} that it has less than a tenth of an equal rate")
    if camp.delay_ms_p99 > max(2 * camp.without_delay_ms_p99, camp.without_delay_ms_p99 + 5):
        delays = f"{terminal.cell(camp.delay_ms_p99)} ms instead of {terminal.cell(camp.without_delay_ms_p99)} ms"
        parts.append(f"its packets wait longer, {delays} (99th percentile, as simulated)")
    return f"{who} is {camp.verdict}: {'; '.join(parts)}."


def _table(found: Advice) -> None:
    camps = (found.prague, found.rival)
    quantities = {
        "rate of one\nMb/s": ("rate_mbps", 9),
        "with CUBIC\ninstead": ("without_rate_mbps", 8),
        "delay p99\nms": ("delay_ms_p99", 7),
        "with CUBIC\ninstead ": ("without_delay_ms_p99", 6),
        "dropped\n%": ("lost_pct", 5),
        "with CUBIC\ninstead  ": ("without_lost_pct", 4),
        "marked\n%": ("marked_pct", 3),
    }
    columns = [Column("flows", [f"{camp.count} {camp.cc}" for camp in camps], stays=True, weight=9)]
    for heading, (name, weight) in quantities.items():
        cells = [terminal.cell(getattr(camp, name)) for camp in camps]
        columns.append(Column(heading, cells, right=True, stays=True, weight=weight))
    terminal.show("Simulated, means over trials; delay: time in the queue", columns, more="; --json has all")


def _why(found: Advice) -> str:
    shares = found.trials
    low = min(found.neighbours, key=lambda name: found.neighbours[name])
    high = max(found.neighbours, key=lambda name: found.neighbours[name])
    return (
        f"Trials: {min(shares):.2f} to {max(shares):.2f}. Neighbours: {found.neighbours[low]:.2f} ({low}) to "
        f"{found.neighbours[high]:.2f} ({high}). Laboratories have published {found.published} shares of such queues "
        f"({found.campaigns} campaigns)."
    )


def _around(found: Advice) -> str:
    from l4slab.advice import runs

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
