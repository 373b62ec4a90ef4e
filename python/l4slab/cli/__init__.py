"""The command line. Exit status: 0 done, 1 a run or claim failed, 2 the input is wrong, 130 interrupted.

The modules of the commands import what takes long (polars, duckdb, pydantic, matplotlib, rich) where they use
it: `--help`, `list` and the shell's completion answer at once.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings

import click

from l4slab import _core
from l4slab.base import system
from l4slab.base.errors import L4slabError, nearest, one_line
from l4slab.base.paths import require_folder
from l4slab.cli import (
    advising,
    agreeing,
    bottleneck,
    checking,
    folders,
    importing,
    listing,
    live,
    machine,
    matrix,
    new,
    options,
    outcomes,
    running,
    schema,
    scripts,
    searching,
    stacks,
    start,
    terminal,
    verifying,
)
from l4slab.cli.conform import conform
from l4slab.cli.why import why
from l4slab.engines import registry

_GROUPS = {
    "Begin": (start.init, importing.import_, listing.list_, schema.schema, start.trace, new.new),
    "Run": (running.run, running.reproduce, live.live, bottleneck.bottleneck, bottleneck.replay),
    "Results": (folders.status, folders.report, outcomes.compare, outcomes.export, verifying.verify),
    "Questions": (
        *(advising.advise, checking.check, conform, searching.search, agreeing.agree),
        *(why, matrix.matrix),
    ),
    "Machine": (machine.doctor, machine.linux, scripts.packetdrill, machine.bisect, stacks.stacks),
}
_WITH_PROGRESS = (
    running.run,
    running.reproduce,
    folders.report,
    advising.advise,
    checking.check,
    searching.search,
    agreeing.agree,
    why,
    conform,
    matrix.matrix,
    verifying.verify,
)
# The first sentence of a command's help, however long.
_WHOLE = 1000


class _Grouped(click.Group):
    """Lists its commands in groups, each with its first sentence."""

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups."""
        width = max(len(name) for name in self.commands)
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                rows = [((one.name or "").ljust(width), one.get_short_help_str(_WHOLE)) for one in commands]
                formatter.write_dl(rows)


@click.group(cls=_Grouped, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(_core.version(), "-V", "--version", prog_name="l4slab", message="%(prog)s %(version)s")
def cli() -> None:
    """Show how L4S and today's traffic share a bottleneck, before anyone deploys it.

    An experiment is a TOML file: write one with init, run it with run.
    """
    require_folder()


for _command in (one for _commands in _GROUPS.values() for one in _commands):
    cli.add_command(_command)
for _command in _WITH_PROGRESS:
    options.quiet(_command)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    try:
        status = cli.main(args=arguments, prog_name="l4slab", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        print(f"l4slab: {_sentence(error)}", file=sys.stderr)
        return 2
    except L4slabError as error:
        for one in (error, *error.others):
            print(f"l4slab: {one}", file=sys.stderr)
        return error.status
    except (KeyboardInterrupt, click.Abort):
        # A campaign says itself what is kept (Interrupted); a build or a command on the kernel has nothing to say.
        print("l4slab: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1


def _sentence(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        # click compares with the dashes, by which any short option is near.
        names = [name for one in error.ctx.command.params for name in one.opts if name.startswith("--")]
        near = nearest(error.option_name.lstrip("-"), [name.lstrip("-") for name in names])
        error = click.NoSuchOption(error.option_name, possibilities=[f"--{near}"] if near else None, ctx=error.ctx)
    text = one_line(error.format_message()).rstrip(".").replace(". Did you mean", "; did you mean")
    if isinstance(error, click.UsageError) and ";" not in text:
        command = error.ctx.command_path if error.ctx else "l4slab"
        text += f'; see "{command} --help"'
    return text


def entry() -> None:
    """The `l4slab` script."""
    # What a batch system or a lost terminal sends ends a campaign as Ctrl-C does; nohup's SIG_IGN stays.
    for name in system.ENDING_SIGNALS:
        if signal.getsignal(name) == signal.SIG_DFL:
            signal.signal(name, signal.default_int_handler)
    # A library's warning is for us, not for users; -W and PYTHONWARNINGS bring them back.
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    terminal.guard()
    status = main()
    registry.stop()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except L4slabError as error:
        print(f"l4slab: {error}", file=sys.stderr)
        status = error.status
    sys.stderr.flush()
    # Not sys.exit: after an error or Ctrl-C it would wait for simulations that nobody wants any more.
    os._exit(status)
