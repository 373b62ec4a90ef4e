"""What the tests of searches share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def reports_are_not_drawn(module_undrawn: None) -> None:
    """`undrawn`, for all of them."""
