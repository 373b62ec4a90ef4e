"""What the command line imports before it answers: the libraries of tables and figures take a second or more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = ("duckdb", "matplotlib", "numpy", "polars", "pyarrow", "pydantic")
PROGRAM = """
import sys
import l4slab.cli
status = l4slab.cli.main({arguments})
assert status == 0, status
print("imported", *(name for name in {heavy} if name in sys.modules))
"""


def imported(arguments: list[str], **environment: str) -> list[str]:
    program = PROGRAM.format(arguments=arguments, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["list"]])
def test_what_only_tells_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported(arguments) == []


def test_the_package_fetches_a_name_when_it_is_asked_for() -> None:
    program = "import sys, l4slab; assert 'polars' not in sys.modules; l4slab.run; assert 'polars' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
