"""What the tests of several layers share."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

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
