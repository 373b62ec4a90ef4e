"""What the tests of several layers share."""

from __future__ import annotations

import io
from typing import Any

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without drawings, which are most of a small campaign's cost and what `tests/report` is about."""

    def saved(figure: Figure, file: Any, **options: Any) -> None:
        assert isinstance(file, io.StringIO), "only drawings of a report are left out"
        file.write('<svg width="1pt" height="1pt"></svg>')

    monkeypatch.setattr(Figure, "savefig", saved)
