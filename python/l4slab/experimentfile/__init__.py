"""The experiment file: reads and checks it, and resolves it to runs for an engine.

`file` reads a file into an `Experiment`, whose tables are still as written, because a sweep may set or complete any
of them. `resolution` turns one complete document into the plain description of a run. Models define the content of
tables: `tables` has those of a run, `traffic` one for each kind of flow. The models of statements about results are in
the modules that evaluate them (`claims`, `published`, `figures`, `bars`), which read `Experiment.tables`. `wording`
makes one sentence of each mistake.
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
