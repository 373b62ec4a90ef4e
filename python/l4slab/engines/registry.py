"""Every engine by its name. A new engine is a package and its line here."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import cast

from l4slab.base.errors import InputError, suggest
from l4slab.engines.contract import Engine

# Modules with their classes, imported when they are needed: an engine's libraries take long to import.
ENGINES = {
    "sim": "l4slab.engines.sim:SimEngine",
    "linux": "l4slab.engines.linux.engine:LinuxEngine",
    "real": "l4slab.engines.real.engine:RealEngine",
}
# The default engine, which also gives estimates.
DEFAULT = "sim"
# The engine that the default is compared with.
KERNEL = "linux"


def engine_class(name: str) -> type[Engine]:
    """The class of an engine of `ENGINES`."""
    module, _, found = ENGINES[name].partition(":")
    return cast(type[Engine], getattr(import_module(module), found))


def engines() -> list[str]:
    """Every engine's name, and those of the variants, such as `linux:NAME` of a kernel in the cache."""
    return [*ENGINES, *(f"{name}:{variant}" for name in ENGINES for variant in engine_class(name).variants())]


def get_engine(name: str) -> Engine:
    """The engine of this name. Raises InputError."""
    first, _, variant = name.partition(":")
    if first not in ENGINES or name.endswith(":"):
        raise InputError(f"--engine {name} is not an engine; {suggest(name, engines())}")
    return engine_class(first)(variant)


def folder_name(stem: str, engine: str) -> str:
    """The name of the folder where results go by default."""
    return stem if engine == DEFAULT else f"{stem}-{engine.replace(':', '-')}"


def option(engine: str) -> str:
    """The option of a command that selects this engine."""
    return "" if engine == DEFAULT else f" --engine {engine}"


def stop() -> None:
    """End at once the processes that runs have started."""
    for name, place in ENGINES.items():
        if place.partition(":")[0] in sys.modules:
            engine_class(name).stop()
