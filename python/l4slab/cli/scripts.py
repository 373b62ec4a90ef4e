"""`l4slab packetdrill`."""

from __future__ import annotations

import click

from l4slab.cli import verdicts
from l4slab.engines.linux import kernels


@click.command()
@click.argument("names", metavar="SCRIPT...", nargs=-1, required=True)
@verdicts.with_outputs
def packetdrill(names: tuple[str, ...], outputs: verdicts.Outputs) -> int:
    """Run packetdrill's scripts on the simulator's TCP.

    SCRIPT is a file or folder, here or among the tests of the kernel's source (net/packetdrill). The output is TAP: a
    script that asks for what the simulator does not mean is skipped, with the line that says so. The exit status is 1
    if a script fails. A script's code in %{ }% runs as Python.
    """
    from l4slab.tools import packetdrill as tool

    scripts = tool.collect(names, kernels.DEFAULT)
    return verdicts.tell_tests("packetdrill", len(scripts), tool.run(scripts), outputs)
