"""A card that was saved earlier, and what has changed since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from l4slab.base.errors import InputError

if TYPE_CHECKING:
    from l4slab.tools.check import Card
    from l4slab.tools.check.card import Item


@dataclass(frozen=True)
class Baseline:
    """The verdicts of a saved card, by requirement."""

    file: Path
    engine: str
    verdicts: Mapping[str, str]

    def changed(self, card: Card) -> list[Item]:
        """The requirements whose verdict is another one. Those that only one card asks about are left out."""
        return [item for item in card.items if self.verdicts.get(item.id, item.verdict) != item.verdict]

    def worse(self, card: Card) -> list[Item]:
        """Those that passed and do not pass any more. What this check was not asked to measure is not worse."""
        return [
            item
            for item in self.changed(card)
            if self.verdicts[item.id] == "pass"
            and not (item.verdict == "not measured" and item.experiment in card.lacking)
        ]


def read(file: Path | str, engine: str) -> Baseline:
    """A card as `l4slab check` writes it to card.json and prints it with --json. Raises InputError."""
    try:
        document = json.loads(Path(file).read_text(encoding="utf-8"))
        verdicts = {str(item["id"]): str(item["verdict"]) for item in document["items"]}
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
    return Baseline(Path(file), of_engine, verdicts)
