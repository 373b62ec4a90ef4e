"""`python -m l4slab`."""

from l4slab.cli import entry

entry()
