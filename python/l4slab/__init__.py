"""How L4S and today's traffic share a bottleneck: one file describes the experiment, one call runs it.

results = l4slab.run("experiment.toml")
results.flows            # a polars DataFrame, a row per run and flow group; see l4slab.base.metrics

An experiment may also be made here, `l4slab.Experiment(...)`: docs/python.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from l4slab import _core
from l4slab.base.errors import InputError, L4slabError, StoreError

if TYPE_CHECKING:
    from l4slab.api.campaign import run
    from l4slab.api.experiment import Experiment
    from l4slab.api.lab import Lab
    from l4slab.api.results import Results, open  # noqa: A004
    from l4slab.experimentfile.tables import Impair, Link, Rewrite, Skip
    from l4slab.experimentfile.traffic import (
        CbrFlow,
        EndpointFlow,
        Flow,
        MediaFlow,
        PageFlow,
        ProgramFlow,
        ResponsivenessFlow,
        UdpPragueFlow,
        VideoFlow,
        WebFlow,
    )
    from l4slab.experimentfile.tunnels import Tunnel
    from l4slab.results.bars import Cause
    from l4slab.results.claims import Claim
    from l4slab.results.figures import Figure, RunTable
    from l4slab.results.published import Published
    from l4slab.results.qoo import Requirement, qoo
    from l4slab.tools.advice import advise

__version__ = _core.version()
__all__ = [
    "Cause", "CbrFlow", "Claim", "EndpointFlow", "Experiment", "Figure", "Flow", "Impair", "InputError",
    "L4slabError", "Lab", "Link", "MediaFlow", "PageFlow", "ProgramFlow", "Published", "Requirement",
    "ResponsivenessFlow", "Results", "Rewrite", "RunTable", "Skip", "StoreError", "Tunnel", "UdpPragueFlow",
    "VideoFlow", "WebFlow", "__version__", "advise", "open", "qoo", "run",
]  # fmt: skip

# Modules that import the libraries of tables and figures, which take a second: a name is fetched when it is asked for.
_MODULES = {
    "tools.advice": ["advise"],
    "results.bars": ["Cause"],
    "api.campaign": ["run"],
    "results.claims": ["Claim"],
    "api.experiment": ["Experiment"],
    "api.lab": ["Lab"],
    "results.figures": ["Figure", "RunTable"],
    "results.published": ["Published"],
    "results.qoo": ["Requirement", "qoo"],
    "api.results": ["Results", "open"],
    "experimentfile.tables": ["Impair", "Link", "Rewrite", "Skip"],
    "experimentfile.traffic": [
        "CbrFlow", "EndpointFlow", "Flow", "MediaFlow", "PageFlow", "ProgramFlow", "ResponsivenessFlow",
        "UdpPragueFlow", "VideoFlow", "WebFlow",
    ],
    "experimentfile.tunnels": ["Tunnel"],
}  # fmt: skip
_LAZY = {name: f"l4slab.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
