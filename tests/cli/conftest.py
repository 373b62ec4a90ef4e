"""What the tests of the commands share."""

from __future__ import annotations

import pytest
from l4slab import plot


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without drawings, which are most of a small campaign's cost and what `tests/report` is about."""
    monkeypatch.setattr(plot, "to_svg", lambda figure: '<svg width="1pt" height="1pt"></svg>')
