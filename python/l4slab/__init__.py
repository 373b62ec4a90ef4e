"""What L4S does to a network, and a network to L4S: one file describes the experiment, one call runs it.

results = l4slab.run("experiment.toml")
results.flows            # a polars DataFrame, a row per run and flow group; see l4slab.metrics
"""

from l4slab import _core
from l4slab.campaign import Results, run
from l4slab.errors import InputError, L4slabError, StoreError

__version__ = _core.version()
__all__ = ["InputError", "L4slabError", "Results", "StoreError", "__version__", "run"]
