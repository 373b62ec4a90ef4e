"""`l4slab advise`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from l4slab.base import tabular
from l4slab.base.tabular import Column
from l4slab.cli import options, terminal

if TYPE_CHECKING:
    from l4slab.tools.advice import Advice

# The case, the share and the two camps.
_BEFORE_THE_TABLE = 4


@click.command()
@click.option("--rate", required=True, metavar="RATE", help="Rate of the bottleneck, such as 20Mbit.")
@click.option("--rtt", required=True, metavar="TIME", help="Round-trip time without queues, such as 30ms.")
@click.option(
    "--qdisc",
    required=True,
    metavar="TC",
    shell_complete=options.qdisc_names,
    help='Queue of the bottleneck, as for tc: "codel ecn".',
)
@click.option(
    "--rival",
    default="cubic",
    show_default=True,
    metavar="CC",
    shell_complete=options.controller_names,
    help="Controller of the rival.",
)
@click.option("--flows", default="1", show_default=True, metavar="N|P+R", help="Flows of each, or Prague+rivals.")
@click.option("--buffer", type=float, metavar="BDP", help="The queue's limit in bandwidth-delay products.")
@click.option(
    "--rival-ecn", type=click.Choice(["off", "classic", "accecn"]), help="ECN of the rival; default: its own choice."
)
@click.option("--option", "given", multiple=True, metavar="NAME=VALUE", help="An option of Prague.")
@click.option("--duration", metavar="TIME", help="Time of a run; default: a minute, less above 3 Gbit/s.")
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
    """Predict who gets less with Prague at a bottleneck, and how certain that is.

    Simulates Prague against a rival, slight variations of this, and the same with CUBIC in Prague's place. Harm is a
    result, not an error.
    """
    from l4slab.tools import advice

    options.refuse_empty(out=out)
    settings = dict(options.setting(text) for text in given)
    case = advice.case(rate, rtt, qdisc, rival, flows, buffer, rival_ecn, settings, duration)
    folder = out or options.results_folder(f"advise-{_as_name(case)}")
    found = advice.judge(case, folder, workers, terminal.progress())
    if as_json:
        terminal.as_json(advice.document(found) | {"exit_status": 0})
    else:
        _show(found)
    return 0


def _as_name(case: object) -> str:
    return re.sub(r"[^\w.=+]+", "-", str(case)).strip("-.")


def _show(found: Advice) -> None:
    from l4slab.tools.advice import words

    told = words.sentences(found)
    for sentence in told[:_BEFORE_THE_TABLE]:
        terminal.say(sentence)
    terminal.say("")
    _table(found)
    terminal.say("")
    for sentence in told[_BEFORE_THE_TABLE:]:
        terminal.say(sentence)
    if found.report is not None:
        terminal.say(f"Report with every run: {found.report}")


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
        cells = [tabular.cell(getattr(camp, name)) for camp in camps]
        columns.append(Column(heading, cells, right=True, stays=True, weight=weight))
    terminal.show("Simulated, means over trials; delay: queueing delay", columns, more="; --json has all")
