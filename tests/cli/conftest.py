"""What the tests of the commands share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def reports_are_not_drawn(module_undrawn: None) -> None:
    """`undrawn`, for all of them."""


@pytest.fixture(autouse=True)
def output_is_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose width nobody has said."""
    monkeypatch.delenv("COLUMNS", raising=False)
