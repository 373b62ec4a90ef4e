"""What the tests of several layers share."""

from __future__ import annotations

import importlib.util
import io
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from l4slab import plot
from l4slab.report import drawings
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

# Where a shell started the tests with `&`, they ignore SIGINT, and so would the commands that they interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def docs_script() -> Callable[[str], ModuleType]:
    """`docs_script(name)`: what writes a part of the documentation, docs/NAME.py."""

    def loaded(name: str) -> ModuleType:
        file = Path(__file__).parents[1] / "docs" / f"{name}.py"
        found = importlib.util.spec_from_file_location(f"docs_{name}", file)
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return module

    return loaded


def _leave_drawings_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(canvas: FigureCanvasSVG, file: Any, **options: Any) -> None:
        assert isinstance(file, io.StringIO), "only drawings of a report are left out"
        file.write('<svg width="1pt" height="1pt"></svg>')

    monkeypatch.setattr(FigureCanvasSVG, "print_svg", printed)
    # Most of the rest is to put the figures together.
    empty = dict.fromkeys(("overview", "time_series", "delays", "inside"), lambda *_, **__: Figure())
    empty["to_page"] = lambda _: '<svg width="1pt" height="1pt"></svg>'
    monkeypatch.setattr(drawings, "plot", SimpleNamespace(**vars(plot) | empty))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without drawings, which are most of a small campaign's cost and what `tests/report` is about."""
    _leave_drawings_out(monkeypatch)


@pytest.fixture(scope="module")
def module_undrawn() -> Iterator[None]:
    """`undrawn`, also for what the tests of a module share."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        _leave_drawings_out(monkeypatch)
        yield
