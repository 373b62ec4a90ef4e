"""The report's tables: what the template shows, already as text."""

from __future__ import annotations

import json
import math
from typing import TypedDict

import polars as pl

from l4slab.base import metrics
from l4slab.base.numbers import number, plain, written
from l4slab.base.values import Value
from l4slab.report.results import Folder
from l4slab.results.claims import REASONS, Claim, ClaimRow, Kind, as_expected, as_recorded, shown_verdict, tally
from l4slab.results.published import Published, PublishedRow

# Sign and colour of a verdict as it is shown. A refuted objection is a success, but not that of a claim that holds.
_VERDICT_LOOKS = {
    "holds": ("✓", "holds"), "refuted": ("⊘", "refuted"), "not refuted": ("✗", "fails"), "fails": ("✗", "fails"),
    "undecided": ("?", "undecided"), "error": ("!", "error"),
}  # fmt: skip
# The spread of trials leaves two digits of a ratio.
_RATIO = {"ratio", "factor", "times"}
# Words of columns as people say them. The rate counts frames on the wire, and goodput new payload.
_PLAIN_NAMES = {"mbps": "", "ms": "", "pct": "", "s": "", "rate": "rate on the wire", "sojourn": "queue delay"}


def given(value: float | None) -> str:
    """A number as a person wrote it."""
    return "" if value is None else plain(value)


def shown(value: float | str | None, column: str = "") -> str:
    """A value of a result table's column as text, "" for None."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return number(value, metrics.unit_of(column))
    return str(value)


def heading(column: str) -> str:
    """A column's name as people write it: "rtt_ms_p99" is "rtt p99 (ms)"."""
    unit = metrics.unit_of(column)
    words = [word for part in column.split("_") if (word := _PLAIN_NAMES.get(part, part))]
    name = " ".join(words) or column
    return f"{name} ({unit})" if unit and unit not in words else name


class ExpectedRow(ClaimRow):
    """A claim's row, with whether its verdict is the expected one of its list, and the one that the file records."""

    as_expected: bool
    as_recorded: bool


class Verdict(ExpectedRow):
    """A claim as the page shows it: evidence as text, the verdict's word (`shown`), sign and colour, and findings."""

    told: list[tuple[str, str]]
    shown: str
    mark: str
    look: str
    sql: str
    findings: list[Verdict]


class Counted(TypedDict):
    """A list of claims with its count in words, and what is not as expected."""

    kind: Kind
    name: str
    but: str
    figure: str
    count: str
    claims: list[Verdict]
    unexpected: list[Verdict]
    by_source: list[tuple[str, int, int]]


class Compared(TypedDict):
    """A published figure as text; `at`: the distance on a scale, in percent of it."""

    experiment: str
    quantity: str
    published: str
    measured: str
    spread: str
    distance: str
    tolerance: str
    within: bool | None
    at: float | None
    source: str


class OfUnit(TypedDict):
    """How many figures have a unit, and the median of their distances."""

    unit: str
    count: int
    median: str


class Reference(TypedDict):
    """The figures of a reference file, with the distances summed up."""

    quantity: str
    source: str
    reference: str
    rows: list[Compared]
    compared: int
    judged: int
    within: int
    by_unit: list[OfUnit]


def verdicts(folder: Folder) -> list[Verdict]:
    """A row per claim: its list, verdict, whether that is the one of its list, evidence, query, findings beside it."""
    sql = {(e.name, claim.id): claim.sql.strip() for e in folder.files for claim in e.tables(Claim)}
    study = folder.study.name if folder.study else ""
    # The study's file first: it compares, the others go into detail. Requirements without a verdict have their reasons.
    without_verdict = (pl.col("kind") == "requirement") & (pl.col("verdict") == "undecided")
    ordered = folder.claims.with_columns(as_expected=as_expected(), as_recorded=as_recorded()).sort(
        without_verdict, pl.col("experiment") != study, maintain_order=True
    )
    rows: list[Verdict] = []
    for claim in metrics.rows_of(ordered, ExpectedRow):
        evidence = json.loads(claim["evidence"] or "{}")
        reasons = {name: evidence.pop(name) for name in REASONS if name in evidence}
        reason = next((name for name, value in reasons.items() if value is not None), None)
        if reason is not None:
            evidence = {"because": reasons[reason]}
        verdict = shown_verdict(claim["kind"], claim["verdict"])
        mark, look = _VERDICT_LOOKS.get(verdict) or _VERDICT_LOOKS.get(claim["verdict"], ("", "undecided"))
        rows.append(
            {
                **claim,
                "findings": [],
                "told": [_evidence(name, value) for name, value in evidence.items()],
                "shown": verdict if reason is None else reason.replace("_", " "),
                "mark": mark,
                "look": look,
                "sql": sql.get((claim["experiment"], claim["id"]), ""),
            }
        )
    for row in rows:
        place = (row["experiment"], row["id"])
        row["findings"] = [other for other in rows if (other["experiment"], other["beside"]) == place]
    return rows


def _evidence(name: str, value: Value) -> tuple[str, str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return name.replace("_", " "), "none" if value is None else str(value)
    unit = metrics.unit_of(name)
    words = [part for part in name.split("_") if part not in metrics.UNITS]
    text = number(value, unit, digits=2 if _RATIO & {*words} and abs(value) < 100 else 3)
    return " ".join(words) or name, f"{text} {unit}".strip()


# The name of each list, and the heading of its claims with an unexpected verdict.
_LISTS: dict[Kind, tuple[str, str]] = {
    "requirement": ("Requirements", "Not met or not measured"),
    "statement": ("What the study says", "Said by the study, and not reproduced"),
    "disputed": ("What the study disputes", "Disputed by the study, and not refuted here"),
    "found": ("Our own findings", "Own findings that do not hold in these results"),
    "claim": ("Claims", "Claims that do not hold"),
}


def lists(folder: Folder, rows: list[Verdict]) -> list[Counted]:
    """The lists of claims, of the rows of `verdicts`: each with its count in words, and what is not as expected."""
    found: list[Counted] = []
    for counted in tally(folder.claims):
        claims = [row for row in rows if row["kind"] == counted.kind]
        name, but = _LISTS[counted.kind]
        *figure, words = counted.text.split(" ", 3)  # "36 of 43 statements ..."
        found.append(
            {
                "kind": counted.kind,
                "name": name,
                "but": but,
                "figure": " ".join(figure),
                "count": words,
                "claims": claims,
                "unexpected": [row for row in claims if not row["as_expected"] and row["shown"] != "not applicable"],
                "by_source": _by_source(claims),
            }
        )
    return found


def _by_source(claims: list[Verdict]) -> list[tuple[str, int, int]]:
    """Each source with how many of its claims came out as expected, and how many there are."""
    sources = sorted({row["source"] for row in claims})
    return [
        (source, sum(row["as_expected"] for row in of_source), len(of_source))
        for source in sources
        if (of_source := [row for row in claims if row["source"] == source])
    ]


def agreement(folder: Folder) -> list[Compared]:
    """A row per published figure that stands in an experiment file."""
    rows = folder.published.filter(pl.col("reference").is_null())
    return [_agreement(row) for row in metrics.rows_of(rows, PublishedRow)]


def references(folder: Folder) -> list[Reference]:
    """A table per reference file query, with the distances summed up."""
    found: list[Reference] = []
    rows = folder.published.filter(pl.col("reference").is_not_null())
    for (experiment, name), group in rows.group_by("experiment", "id", maintain_order=True):
        figure = next((f for f in folder.file(str(experiment)).tables(Published) if f.id == name), None)
        compared = group.drop_nulls("distance")
        judged = compared.drop_nulls("within")
        found.append(
            {
                "quantity": (figure.quantity if figure else "") or name,
                "source": group["source"][0],
                "reference": group["reference"][0],
                "rows": [_agreement(row) for row in metrics.rows_of(group, PublishedRow)],
                "compared": len(compared),
                "judged": len(judged),
                "within": int(judged["within"].sum()) if len(judged) else 0,
                "by_unit": [
                    {"unit": unit, "count": len(part), "median": number(part["distance"].abs().median())}  # type: ignore[arg-type]
                    for (unit,), part in compared.group_by("unit", maintain_order=True)
                ],
            }
        )
    return found


def _agreement(row: PublishedRow) -> Compared:
    """One figure as text; `at` is the distance in tolerances, for the small scale beside it."""
    low, high = row["measured_min"], row["measured_max"]
    distance, tolerance = row["distance"], row["tolerance"]

    def fine(value: float | None) -> str:
        return _to_the_tolerance(value, tolerance)

    at = None
    if distance is not None and tolerance:
        at = max(-1.5, min(1.5, distance / tolerance))
    spread = "" if low is None or high is None or fine(low) == fine(high) else f"{fine(low)}\u2013{fine(high)}"
    return {
        "experiment": row["experiment"],
        "quantity": f"{row['quantity']} ({row['unit']})" if row["unit"] else row["quantity"],
        "published": given(row["published"]),
        "measured": fine(row["measured"]) or "not measured",
        "spread": spread,
        "distance": ("+" if distance and distance > 0 and fine(distance) != "0" else "") + fine(distance),
        "tolerance": given(tolerance),
        "within": row["within"],
        "at": None if at is None else round(50 + at / 1.5 * 50, 1),
        "source": row["source"],
    }


def _to_the_tolerance(value: float | None, tolerance: float | None) -> str:
    """A number to a hundredth of its tolerance: more digits mean nothing beside it."""
    if value is None or not tolerance:
        return number(value)
    text = f"{value:.{max(0, 2 - math.floor(math.log10(tolerance)))}f}"
    return "0" if not text.strip("-0.") else written(text)
