"""From the verdicts of claims to the items of a card."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from l4slab.base import metrics
from l4slab.base.errors import one_line
from l4slab.base.values import Keys, Value
from l4slab.results.claims import HINT, REASONS, Claim, ClaimRow

if TYPE_CHECKING:
    import polars as pl

    from l4slab.tools.check.suite import Suite

Verdict = Literal["pass", "fail", "not applicable", "not measured"]
# How strongly the document asks, in its capitals; "" where it has none.
LEVELS = ("MUST", "SHOULD", "")
# The documents, in the order of the card.
PARTS = {
    "RFC 9331": "RFC 9331, section 4: requirements on an L4S sender",
    "RFC 9743": "RFC 9743: criteria for a new congestion control",
    "draft-ietf-ccwg-bbr-06": "draft-ietf-ccwg-bbr-06, appendix A: test cases of BBR",
    "RFC 8867": "RFC 8867: test cases for congestion control of media",
    "RFC 8869": "RFC 8869: test cases over Wi-Fi and cellular networks",
    "RFC 7567": "RFC 7567: recommendations on active queue management",
    "RFC 7928": "RFC 7928: characterisation of a queue, against CoDel and PIE",
    "RFC 9332": "RFC 9332: requirements on a dual queue",
    "RFC 3819": "RFC 3819: advice on order",
}
_BOUNDS = {"at_least": "≥", "at_most": "≤", "more_than": ">", "wanted": "="}
_WITHIN: dict[str, Callable[[Any, Any], bool]] = {
    "≥": operator.ge,
    "≤": operator.le,
    ">": operator.gt,
    "=": operator.eq,
}
_BOUND = "; bound: "
# Columns of the evidence that begin so are further conditions, true or false, all of which a requirement needs.
CONDITION = "and_"


@dataclass(frozen=True)
class Item:
    """A requirement and its verdict.

    `level` is MUST or SHOULD if the document says so, else "". `quantity` is the measured quantity with its unit at the
    end, `relation` and `bound` its limit. `why` says why there is no verdict, `worst_at` is the place of the number,
    and `run` the id of the run behind it.
    """

    id: str
    part: str
    section: str
    level: str
    says: str
    source: str
    bound_source: str
    experiment: str
    verdict: Verdict
    quantity: str = ""
    measured: Value = None
    relation: str = ""
    bound: Value = None
    worst_at: str = ""
    why: str = ""
    run: str | None = None
    evidence: Keys = field(default_factory=dict)

    @property
    def unmet(self) -> list[str]:
        """The further conditions that do not hold, in words."""
        names = [name for name, value in self.evidence.items() if name.startswith(CONDITION) and value is not True]
        return [name.removeprefix(CONDITION).replace("_", " ") for name in names]

    @property
    def is_met(self) -> bool:
        """Whether the measured value is within its bound, and every further condition holds."""
        if self.measured is None:
            return False
        within = _WITHIN[self.relation](self.measured, self.bound)
        return bool(within) and not self.unmet

    def beyond(self, measured: float, limit: float) -> float:
        """By how much a measured number is worse than a limit. A better number is negative."""
        above = measured - limit
        return {"≤": above, "≥": -above, ">": -above}.get(self.relation, abs(above))


def items(asked: Suite, verdicts: pl.DataFrame, failed: Mapping[str, str]) -> list[Item]:
    """An item per requirement of the suite, by document and section.

    `verdicts` is as `metrics.CLAIMS`; `failed` says of which experiments a run failed, and why.
    """
    found = {(row["experiment"], row["id"]): row for row in metrics.rows_of(verdicts, ClaimRow)}
    made = [
        _item(experiment, claim, found.get((experiment, claim.id)), failed.get(experiment), asked)
        for experiment, claim in asked.claims
    ]
    parts = list(PARTS)
    return sorted(made, key=lambda item: (parts.index(item.part), _natural(item.section)))


def _item(experiment: str, claim: Claim, row: ClaimRow | None, failed: str | None, asked: Suite) -> Item:
    part, _, rest = claim.source.partition(", ")
    source, _, bound_source = rest.partition(_BOUND)
    named = re.match(r"(?:section|appendix) ([\w.]+)", source)
    level = re.search(r"\b(MUST|SHOULD)\b", source)
    about: dict[str, Any] = {
        "id": claim.id, "part": part, "section": named[1] if named else "", "level": level[0] if level else "",
        "says": one_line(claim.says), "source": claim.source.partition(_BOUND)[0], "bound_source": bound_source,
        "experiment": experiment,
    }  # fmt: skip
    evidence = {} if row is None else json.loads(row["evidence"])
    verdict: Verdict = "not measured"
    why = next((str(evidence[key]) for key in (*REASONS, "error") if evidence.get(key) is not None), "")
    if failed is not None:
        return Item(**about, verdict=verdict, why=failed)
    if experiment in asked.apart:
        return Item(**about, verdict="not applicable", why=asked.apart[experiment])
    if row is None or (row["verdict"] not in ("holds", "fails") and not why):
        return Item(**about, verdict=verdict, why=asked.lacking.get(experiment, "the runs do not tell"))
    if row["verdict"] in ("holds", "fails"):
        verdict, why = ("pass" if row["verdict"] == "holds" else "fail"), ""
    elif evidence.get("not_applicable") is not None:
        verdict = "not applicable"
    apart = (*_BOUNDS, *REASONS, "run", "worst_at", HINT)
    quantity = next((name for name in evidence if name not in apart), "")
    bounds = [name for name in _BOUNDS if evidence.get(name) is not None]
    item = Item(
        **about,
        verdict=verdict,
        quantity=quantity,
        measured=evidence.get(quantity),
        relation=_BOUNDS[bounds[0]] if bounds else "",
        bound=evidence[bounds[0]] if bounds else None,
        worst_at=evidence.get("worst_at") or "",
        why=why,
        run=evidence.get("run"),
        evidence={name: value for name, value in evidence.items() if name not in ("run", *REASONS)},
    )
    # What the row shows decides, so that nobody has to ask why.
    return replace(item, verdict="pass" if item.is_met else "fail") if verdict in ("pass", "fail") else item


def _natural(section: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in section.split(".")]
