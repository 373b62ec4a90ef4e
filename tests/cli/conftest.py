"""What the tests of the commands share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def output_is_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose width nobody has said."""
    monkeypatch.delenv("COLUMNS", raising=False)
