"""Every engine by its name. A new engine is a package and its line here."""

from __future__ import annotations

from l4slab.base.errors import InputError, suggest
from l4slab.engines.contract import Engine
from l4slab.engines.linux import kernels

ENGINES = ("sim", "linux")
_NAMED = "linux:"  # with the name of a kernel in the cache


def engines() -> list[str]:
    """Every engine's name; those of kernels in the cache are `linux:NAME`."""
    return [*ENGINES, *(f"{_NAMED}{kernel.name}" for kernel in kernels.named())]


def get_engine(name: str) -> Engine:
    """The engine of this name. Raises InputError."""
    if name == "sim":
        from l4slab.engines.sim import SimEngine

        return SimEngine()
    if name == "linux":
        from l4slab.engines.linux.engine import LinuxEngine

        return LinuxEngine()
    if name.startswith(_NAMED):
        from l4slab.engines.linux.engine import LinuxEngine

        return LinuxEngine(kernels.named_kernel(name.removeprefix(_NAMED)).name)
    raise InputError(f"--engine {name} is not an engine; {suggest(name, engines())}")
