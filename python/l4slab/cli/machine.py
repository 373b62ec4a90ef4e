"""`l4slab doctor`, and the kernel of `l4slab linux`."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path

import click

from l4slab.base.tabular import Column
from l4slab.cli import options, terminal, verdicts
from l4slab.engines.linux import kernels


@click.group()
def linux() -> None:
    """Build and list the kernels for --engine linux, and run commands on them."""


_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@linux.command()
@click.option("--kernel", metavar="PATH", type=click.Path(path_type=Path), help="Use this kernel (ARCH=um).")
@click.option("--source", metavar="DIR", type=_FOLDER, help="Build another kernel, from this source.")
@click.option(
    "--patch",
    "patches",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Build another kernel, with this patch (of git diff); may be repeated.",
)
@click.option(
    "--module",
    "modules",
    metavar="DIR",
    multiple=True,
    type=_FOLDER,
    help="Build another kernel, with the tcp_*.c and sch_*.c of this folder; may be repeated.",
)
@click.option(
    "--hz", type=click.IntRange(100, 1000), metavar="N", help="Build another kernel, with N timer ticks per second."
)
@click.option("--name", metavar="NAME", help="Name of the other kernel; default: that of its source.")
@click.option("--jobs", type=int, metavar="N", help="Compilations at once; default: one per core.")
def build(
    kernel: Path | None,
    source: Path | None,
    patches: tuple[Path, ...],
    modules: tuple[Path, ...],
    hz: int | None,
    name: str | None,
    jobs: int | None,
) -> int:
    """Fetch sources and build the kernel; finished steps are not repeated.

    With --source, --patch, --module or --hz it builds another kernel, for --engine linux:NAME and
    l4slab agree --kernel NAME.
    """
    from l4slab.base.progress import working
    from l4slab.engines.linux import build as laboratory
    from l4slab.engines.linux import compiling

    given = [path for path in (*patches, *modules, source) if path is not None]
    is_other = bool(given) or hz is not None
    if kernel is not None and is_other:
        raise click.UsageError(
            "--kernel is a kernel that is built already; leave out --source, --patch, --module and --hz"
        )
    if name is not None and not is_other:
        raise click.UsageError("--name is for another kernel; give --source, --patch, --module or --hz too")
    wanted = None
    if is_other:
        called = kernels.checked_name(name or (given[0].absolute().stem if given else f"hz{hz}"))
        wanted = laboratory.Wanted(called, source, patches, modules, hz or compiling.HZ)
    with working(terminal.err()) as progress:
        made = laboratory.build(progress, kernel, jobs, wanted)
    use = "" if wanted is None else f"; use it with --engine linux:{made.name}"
    where = kernels.folder_of(made.name)
    terminal.out().print(f"Linux {made.version} is ready in {where}{use}.", soft_wrap=True, markup=False)
    return 0


@linux.command("list")
@options.as_json
def list_kernels(as_json: bool) -> int:
    """List the kernels that are built, with version, congestion controls and source."""
    found = [kernel for kernel in (kernels.installed(), *kernels.named()) if kernel is not None]
    if as_json:
        terminal.as_json(
            {"kernels": [asdict(kernel) | {"path": str(kernel.path), "root": str(kernel.root)} for kernel in found]}
        )
        return 0
    if not found:
        terminal.out().print("There is no kernel yet; build one with: l4slab linux build")
        return 0
    columns = [
        Column("name", [kernel.name for kernel in found], weight=3, stays=True),
        Column("version", [kernel.version for kernel in found], weight=3),
        Column("congestion controls", [" ".join(kernel.controls or ()) for kernel in found], weight=5, folds=True),
        Column("queues", [" ".join(kernel.qdiscs) for kernel in found], weight=2, folds=True),
        Column("made from", [kernel.made_from for kernel in found], weight=5, folds=True),
    ]
    terminal.show("Kernels", columns)
    return 0


@linux.command("exec")
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--write", "writable", metavar="DIR", multiple=True, type=_FOLDER, help="COMMAND may write here; may be repeated."
)
@click.option("--kernel", "name", metavar="NAME", default=kernels.DEFAULT, help="A kernel of l4slab linux list.")
@click.option("--time", "tells_time", is_flag=True, help="Print at the end how much virtual time went by.")
def execute(command: tuple[str, ...], writable: tuple[Path, ...], name: str, tells_time: bool) -> int:
    """Run COMMAND on the kernel, in virtual time and as root of its network.

    It sees the files of this machine read-only, and no network but its own. Its exit status and output are passed
    through.
    """
    from l4slab.engines.linux import shell

    begun = time.monotonic()
    ended = shell.execute(command, writable, (sys.stdout.buffer, sys.stderr.buffer), name)
    if tells_time:
        took = time.monotonic() - begun
        print(f"l4slab: {ended.virtual_s:.2f} s of virtual time in {took:.2f} s", file=sys.stderr)
    return ended.status


@linux.command("test")
@click.argument("names", metavar="SCRIPT...", nargs=-1, required=True)
@click.option("--kernel", "name", metavar="NAME", default=kernels.DEFAULT, help="A kernel of l4slab linux list.")
@click.option(
    "--packetdrill",
    "source",
    metavar="DIR",
    type=_FOLDER,
    help="Build packetdrill from this source, once; default: that of PATH.",
)
@click.option(
    "--repeat", type=click.IntRange(1), default=1, metavar="N", help="Run each test N times; it must always pass."
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Kernels at once; default: one per core.")
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    default=300,
    metavar="S",
    help="Stop a test after S of the wall clock.  [default: 300]",
)
@verdicts.with_outputs
def test(
    names: tuple[str, ...],
    name: str,
    source: Path | None,
    repeat: int,
    jobs: int | None,
    timeout: float,
    outputs: verdicts.Outputs,
) -> int:
    """Run the kernel's own tests in virtual time: scripts of packetdrill and kselftest, files of tc-testing.

    SCRIPT is a file or folder, here or among the tests of the kernel's source (net/packetdrill). Each test has its own
    network namespace. The output is TAP, and the exit status is 1 if a test fails.
    """
    from l4slab.base import system
    from l4slab.base.progress import working
    from l4slab.tools.kerneltests import boots
    from l4slab.tools.kerneltests.collecting import collect

    kernels.ready(name)
    with working(terminal.err()) as told:
        tests = collect(names, name, source, told)
    results = boots.run(tests, name, repeat, jobs or system.cores(), timeout)
    return verdicts.tell_tests("linux test", len(tests), results, outputs)


@click.command()
@click.argument("good", metavar="GOOD")
@click.argument("bad", metavar="BAD")
@click.argument("names", metavar="FILE...", nargs=-1, required=True)
@click.option("--source", metavar="DIR", type=_FOLDER, required=True, help="Git repository of the kernel.")
@click.option("--fail-on", metavar="LIMITS", help='A commit is bad if GOOD\'s results change so, as "share -5%".')
@click.option("--packetdrill", metavar="DIR", type=_FOLDER, help="Build packetdrill from this source, once.")
@click.option("--name", metavar="NAME", default="bisect", help="Name of the kernel.  [default: bisect]")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="Folder; default: results/bisect-FILE.")
@click.option("--timeout", type=click.FloatRange(1), default=300, metavar="S", help="Stop a test after S.")
@options.workers
@options.as_json
def bisect(
    good: str,
    bad: str,
    names: tuple[str, ...],
    source: Path,
    fail_on: str | None,
    packetdrill: Path | None,
    name: str,
    out: Path | None,
    timeout: float,
    workers: int | None,
    as_json: bool,
) -> int:
    """Find the commit between GOOD and BAD that changes the answer of FILE.

    FILE is an experiment, whose claims hold on GOOD and fail on BAD or whose results change beyond --fail-on, or tests
    as for linux test, which pass on GOOD and fail on BAD. Each commit is built as the kernel NAME. The same command
    resumes after a kill.
    """
    from l4slab.base.progress import working
    from l4slab.tools import bisect as tool

    options.refuse_empty(fail_on=fail_on)
    first = Path(names[0])
    out = (out or Path("results") / f"bisect-{first.stem}").absolute()
    is_experiment = first.suffix == ".toml"
    if is_experiment and len(names) > 1:
        raise click.UsageError("FILE is one experiment; leave the others out")
    if not is_experiment and fail_on is not None:
        raise click.UsageError("--fail-on is for an experiment; leave it out")
    about = " ".join([*map(str, names), *([f"--fail-on {fail_on}"] if fail_on else [])])
    search = tool.Bisection(source, good, bad, out, kernels.checked_name(name), about)
    with working(terminal.err()) as told:
        question = (
            tool.of_experiment(first, fail_on, out / search.good.short, workers)
            if is_experiment
            else tool.of_scripts(names, packetdrill, told, timeout)
        )

        def heard(commit: tool.Commit, answer: tool.Answer) -> None:
            if not as_json:
                why = f" ({answer.why})" if answer.why else ""
                terminal.say(f"{answer.word:4} {commit.short} {commit.subject}{why}")

        found = search.search(question, told, heard)
    if as_json:
        terminal.as_json(tool.as_json(found))
        return 0
    if len(found.commits) > 1:
        terminal.say("One of these is the first bad commit; those between could not be tested:")
    for commit in found.commits:
        is_one = " is the first bad commit:" if len(found.commits) == 1 else ""
        terminal.say(f"{commit.short}{is_one} {commit.subject} ({commit.author}, {commit.date})")
    return 0


@click.command()
@options.as_json
def doctor(as_json: bool) -> int:
    """Show what this machine can run, and what is missing.

    A minus marks what is not there and only some commands need. The exit status is 1 where something is wrong.
    """
    from rich.markup import escape
    from rich.table import Table

    from l4slab.tools.doctor import examine

    findings = list(examine())
    status = 0 if all(finding.ok for finding in findings) else 1
    if as_json:
        terminal.as_json({"findings": [asdict(finding) for finding in findings], "exit_status": status})
        return status
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        sign = "[red]no[/]" if not finding.ok else "-" if finding.absent else "ok"
        table.add_row(sign, finding.what, escape(finding.text))
    terminal.out().print(table)
    return status
