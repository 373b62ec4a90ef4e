"""What the core's allocator asks the system for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from l4slab import _core

if sys.platform != "linux":
    pytest.skip("elsewhere it is the system's allocator", allow_module_level=True)

# The core alone: the package's libraries have allocators of their own.
ALONE = """
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(name + ":"))

before = status("VmData")
loader = ExtensionFileLoader("_core", sys.argv[1])
core = module_from_spec(spec_from_file_location("_core", sys.argv[1], loader=loader))
loader.exec_module(core)
print(status("VmData") - before, sum("hg" in line.split() for line in open("/proc/self/smaps") if "VmFlags" in line))
"""


@pytest.fixture(scope="module")
def taken() -> tuple[int, int]:
    """MiB of writable memory after the core was loaded, and mappings that may have huge pages."""
    done = subprocess.run([sys.executable, "-c", ALONE, _core.__file__], check=True, capture_output=True, text=True)
    mebibytes, mappings = map(int, done.stdout.split())
    return mebibytes, mappings


def test_it_reserves_little(taken: tuple[int, int]) -> None:
    # By default it reserves 1 GiB, which counts against the bounds of custom code and of the live page's sessions.
    assert 0 < taken[0] < 128


def test_it_asks_for_huge_pages(taken: tuple[int, int]) -> None:
    if not Path("/sys/kernel/mm/transparent_hugepage/enabled").is_file():
        pytest.skip("this kernel has no transparent huge pages")
    assert taken[1] > 0
