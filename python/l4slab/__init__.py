"""What L4S does to a network, and a network to L4S: one file describes the experiment, one call runs it.

results = l4slab.run("experiment.toml")
results.flows            # a polars DataFrame, a row per run and flow group; see l4slab.metrics
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from l4slab import _core
from l4slab.errors import InputError, L4slabError, StoreError

if TYPE_CHECKING:
    from l4slab.campaign import Results, run

__version__ = _core.version()
__all__ = ["InputError", "L4slabError", "Results", "StoreError", "__version__", "run"]

# Modules that import the libraries of tables and figures, which take a second: a name is fetched when it is asked for.
_LAZY = {"Results": "l4slab.campaign", "run": "l4slab.campaign"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
