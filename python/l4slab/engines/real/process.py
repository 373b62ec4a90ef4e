"""The process that becomes a bottleneck: `python -m l4slab.engines.real.process OPTIONS ANSWER`.

Both are descriptors of files in memory. The process has no other thread when it makes its namespaces, so it imports
nothing but the core.
"""

from __future__ import annotations

import os
import sys

from l4slab import _core


def main() -> None:
    """Read the options, run, write the answer."""
    options, answer = map(int, sys.argv[1:])
    for descriptor in (options, answer):
        os.set_inheritable(descriptor, False)
    with os.fdopen(options, "rb") as source:
        source.seek(0)
        text = source.read().decode()
    told = _core.run_bottleneck(text)
    with os.fdopen(answer, "wb") as target:
        target.write(told.encode())


if __name__ == "__main__":
    main()
