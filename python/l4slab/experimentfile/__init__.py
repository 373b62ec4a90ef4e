"""The experiment file: read, check, and resolve to what an engine runs.

`file` reads a file into an `Experiment`, whose tables are still as written, because a sweep may set or complete any
of them. `resolution` turns one complete document into the plain description of a run. What a table may hold is a
model: `tables` has those of a run, `traffic` one for each kind of flow; statements about results stand beside the
code that evaluates them (`claims`, `published`, `figures`, `bars`) and get their tables by `Experiment.tables`.
`wording` makes one sentence of what is wrong.
"""

from l4slab.experimentfile.file import SECTIONS, Bundle, Document, Experiment, Level, load, parse
from l4slab.experimentfile.resolution import Resolver
from l4slab.experimentfile.wording import Table, keys_of, show

__all__ = [
    "SECTIONS",
    "Bundle",
    "Document",
    "Experiment",
    "Level",
    "Resolver",
    "Table",
    "keys_of",
    "load",
    "parse",
    "show",
]
