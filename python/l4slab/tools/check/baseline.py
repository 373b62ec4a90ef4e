"""A card that was saved earlier, and what has changed since."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from l4slab import _core
from l4slab.base.errors import InputError

if TYPE_CHECKING:
    from l4slab.tools.check import Card
    from l4slab.tools.check.card import Item
    from l4slab.tools.check.suite import Suite

# Rows that a sentence names.
_NAMED = 5


@dataclass(frozen=True)
class Baseline:
    """The verdicts and the measured numbers of a saved card, by requirement, and the cells of these numbers.

    `limit` is how much worse a number may become, as a part of the saved one; None allows anything.
    """

    file: Path
    engine: str
    cc: str
    version: str
    verdicts: Mapping[str, str]
    numbers: Mapping[str, float] = field(default_factory=dict)
    limit: float | None = None
    places: Mapping[str, str] = field(default_factory=dict)

    def changed(self, card: Card) -> list[Item]:
        """The requirements whose verdict is another one. Those that only one card asks about are left out."""
        return [item for item in card.items if self.verdicts.get(item.id, item.verdict) != item.verdict]

    def worse(self, card: Card) -> list[Item]:
        """Those that passed and do not pass any more, and those whose number is worse by more than the limit.

        A row that was measured and now is not cannot be judged, so it is worse.
        """
        return [item for item in card.items if self.fails_now(item) or self._is_beyond(item)]

    def fails_now(self, item: Item) -> bool:
        """It passed and does not pass any more, or it was measured and is not any more."""
        before = self.verdicts.get(item.id)
        return before == "pass" != item.verdict or (before == "fail" and item.verdict == "not measured")

    def require(self, asked: Suite, only: Sequence[str]) -> None:
        """Raises InputError where the card is of another congestion control or version, or where this check leaves out
        what the card has measured; with `only`, the other rows are left out on purpose.
        """
        for what, was, now in ((asked.kind, self.cc, asked.cc), ("version", self.version, _core.version())):
            if was != now:
                text = f"is a card of the {what} {was}, and this check is of {now}; save a card of this one as baseline"
                raise InputError(text, file=self.file)
        experiments = {claim.id: experiment for experiment, claim in asked.claims}
        missing = [
            name
            for name, verdict in self.verdicts.items()
            if verdict in ("pass", "fail")
            and (experiments.get(name) in asked.lacking if name in experiments else not only)
        ]
        if missing:
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            raise InputError(
                f"has {', '.join(missing[:_NAMED])}{more}, which this check does not measure; give the options of the "
                "saved card, or save another one",
                file=self.file,
            )

    def beyond(self, item: Item) -> float | None:
        """How much worse its number is than the saved one, as a part of that; below 0 where it is better."""
        before = self.numbers.get(item.id)
        if before is None or item.why or not _is_number(item.measured):
            return None
        # A number that was 0 is held against its bound.
        scale = abs(before) or (abs(item.bound) if _is_number(item.bound) else 0.0)
        by = item.beyond(item.measured, before)
        return by / scale if scale else math.copysign(math.inf, by) if by else 0.0

    def _is_beyond(self, item: Item) -> bool:
        by = self.beyond(item)
        return self.limit is not None and by is not None and by > self.limit


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read(file: Path | str, engine: str, limit: float | None = None) -> Baseline:
    """A card as `l4slab check` writes it to card.json and prints it with --json. Raises InputError."""
    try:
        document = json.loads(Path(file).read_text(encoding="utf-8"))
        verdicts = {str(item["id"]): str(item["verdict"]) for item in document["items"]}
        numbers = {str(item["id"]): item["measured"] for item in document["items"] if _is_number(item.get("measured"))}
        places = {str(item["id"]): str(item.get("worst_at") or "") for item in document["items"]}
        subject = "cc" if "cc" in document else "queue"
        of_engine, cc, version = (str(document[key]) for key in ("engine", subject, "l4slab"))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error}); give a saved card", file=file) from None
    except (ValueError, LookupError, TypeError):
        raise InputError(
            "is not a card; give the card.json of a check, or what l4slab check --json has printed", file=file
        ) from None
    if of_engine != engine:
        raise InputError(
            f"is a card of the engine {of_engine}, and this check is on {engine}; give --engine {of_engine}, or save a "
            "card of this engine",
            file=file,
        )
    return Baseline(Path(file), of_engine, cc, version, verdicts, numbers, limit, places)
