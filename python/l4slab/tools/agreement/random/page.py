"""DIR/random.html: the scenarios, and those that are not equivalent. It needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from l4slab import _core
from l4slab.base.numbers import number
from l4slab.base.values import Keys
from l4slab.engines.registry import get_engine
from l4slab.report import environment, text_of
from l4slab.report.results import replace
from l4slab.report.tables import heading
from l4slab.tools.agreement.random.judge import Row
from l4slab.tools.agreement.random.scenarios import VERDICTS
from l4slab.tools.search.documents import tables

if TYPE_CHECKING:
    from l4slab.tools.agreement.random.scenarios import Found, Judged


def write(found: Found) -> None:
    """The page."""
    lists = {verdict: found.of(verdict) for verdict in VERDICTS}
    families = sorted({one.scenario.family for one in found.judged})
    page = (
        environment()
        .get_template("random.html.j2")
        .render(
            title="Simulator and kernel in random scenarios",
            version=_core.version(),
            style=text_of("templates/page.css"),
            verdicts=VERDICTS,
            counts={verdict: len(of) for verdict, of in lists.items()},
            families=[
                (family, [sum(one.scenario.family == family for one in of) for of in lists.values()])
                for family in families
            ],
            total=len(found.judged),
            seed=found.seed,
            engine=found.engine,
            against=get_engine(found.engine).title,
            listed=[(verdict, [scenario(one) for one in lists[verdict]]) for verdict in ("different", "undecided")],
            failed=[(one.scenario.name, one.scenario.family, one.failure) for one in lists["failed"]],
        )
    )
    replace(found.folder / "random.html", lambda path: path.write_text(page, encoding="utf-8"))


def scenario(judged: Judged) -> dict[str, object]:
    """A scenario that is not equivalent: what it is, and the quantities that are not."""
    wrong: Sequence[Row] = [row for row in judged.rows if row.verdict != "equivalent"]
    return {
        "name": judged.scenario.name,
        "family": judged.scenario.family,
        "words": words(judged.scenario.document),
        "rows": [quantity(row) for row in wrong],
    }


def words(document: Keys) -> str:
    """Links and flows of an experiment in a line."""
    links = "; ".join(f"{one.get('rate', '')} {one['qdisc']}".strip() for one in tables(document, "link").values())
    flows = ", ".join(
        f"{flow.get('count', 1)} {flow.get('cc', flow.get('kind'))} {flow['rtt']}"
        for flow in tables(document, "flow").values()
    )
    return f"{links}: {flows}"


def quantity(row: Row) -> dict[str, str]:
    """A quantity as text."""
    flow, link, queue, name = row.place
    place = f"flow {flow}" if flow is not None else f"link {link}" if queue == "all" else f"link {link}, queue {queue}"
    return {
        "quantity": heading(name),
        "place": place,
        "kernel": number(row.kernel),
        "simulator": number(row.simulator),
        "sd": number(row.sd),
        "margin": number(row.margin),
        "trials": f"{row.kernel_trials} / {row.simulator_trials}",
        "verdict": row.verdict,
    }
