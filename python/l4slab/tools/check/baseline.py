"""A card that was saved earlier, and what has changed since."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from l4slab.base.errors import InputError

if TYPE_CHECKING:
    from l4slab.tools.check import Card
    from l4slab.tools.check.card import Item


@dataclass(frozen=True)
class Baseline:
    """The verdicts and the measured numbers of a saved card, by requirement, and the cells of these numbers.

    `limit` is how much worse a number may become, as a part of the saved one; None allows anything.
    """

    file: Path
    engine: str
    verdicts: Mapping[str, str]
    numbers: Mapping[str, float] = field(default_factory=dict)
    limit: float | None = None
    places: Mapping[str, str] = field(default_factory=dict)

    def changed(self, card: Card) -> list[Item]:
        """The requirements whose verdict is another one. Those that only one card asks about are left out."""
        return [item for item in card.items if self.verdicts.get(item.id, item.verdict) != item.verdict]

    def worse(self, card: Card) -> list[Item]:
        """Those that passed and do not pass any more, and those whose number is worse by more than the limit.

        What this check was not asked to measure is not worse.
        """
        return [item for item in card.items if self.fails_now(item, card) or self._is_beyond(item)]

    def fails_now(self, item: Item, card: Card) -> bool:
        """It passed and does not pass any more."""
        was_asked = item.verdict != "not measured" or item.experiment not in card.lacking
        return self.verdicts.get(item.id) == "pass" != item.verdict and was_asked

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
        of_engine = str(document["engine"])
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
    return Baseline(Path(file), of_engine, verdicts, numbers, limit, places)
