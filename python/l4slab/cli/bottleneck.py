"""`l4slab bottleneck` and `l4slab replay`."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from l4slab.base.tabular import Column
from l4slab.cli import options, terminal

if TYPE_CHECKING:
    from l4slab.tools.bottleneck import PathOf

# Until Ctrl-C.
_FOREVER = ("sleep", "infinity")
_INTERRUPTED = (130, 143)


def _quantity(name: str) -> Callable[..., int | None]:
    def parse(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
        from l4slab.base import units

        if text is None:
            return None
        try:
            value = int(getattr(units, name).parse(text))
        except ValueError as error:
            raise click.UsageError(f"{parameter.opts[0]} {text} {error}") from None
        if value <= 0:
            raise click.UsageError(f"{parameter.opts[0]} {text} must be above 0")
        return value

    return parse


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--server", metavar="COMMAND", help="Start this in the other namespace first.")
@click.option("--flow", metavar="NAME", help="Take the path of this flow; default: the first one.")
@options.where
@click.option("--reverse", is_flag=True, help="The server sends the data of the path: for downloads.")
@click.option("--log", metavar="FILE", type=click.Path(path_type=Path), help="Record packets for l4slab replay.")
@click.option(
    "--access", metavar="RATE", callback=_quantity("RATE"), help="Rate of the hosts' access lines; default: 1Gbit."
)
@click.option(
    "--late",
    metavar="TIME",
    callback=_quantity("TIME"),
    help="The run fails if 1 % of the packets are later; default: a tenth of the shortest threshold or RTT.",
)
@click.option("--realtime/--no-realtime", default=True, help="Ask for real-time priority.")
@click.option("--sysctl", "sysctls", metavar="NAME=VALUE", multiple=True, help="Set this in both namespaces.")
@click.option(
    "--between",
    nargs=2,
    metavar="CARD CARD",
    help="Stand between two network cards instead, until COMMAND has ended, or Ctrl-C.",
)
@click.option(
    "--outside",
    type=click.Choice(["pasta", "nat"]),
    help="Let the server's namespace reach the networks of this machine: without root, or with root and ECN.",
)
@click.option("--live", is_flag=True, help="Show it on a page, whose sliders move the rate and the queue.")
@options.as_json
def bottleneck(
    file: Path,
    command: tuple[str, ...],
    server: str | None,
    flow: str | None,
    where: str | None,
    reverse: bool,
    log: Path | None,
    access: int | None,
    late: int | None,
    realtime: bool,
    sysctls: tuple[str, ...],
    between: tuple[str, str] | None,
    outside: str | None,
    live: bool,
    as_json: bool,
) -> int:
    """Run COMMAND behind the path of an experiment file, in real time.

    COMMAND runs in a network namespace of its own as 10.0.0.1 and fd00::1. Its packets reach 10.0.0.2 and fd00::2, the
    namespace of --server, through the links, queues and delays of a flow in the first run of FILE. With --outside, they
    go on from there to the networks of this machine. With --between, all frames from the first network card to the
    second take this way.

    {client}, {server}, {client6} and {server6} in both commands stand for these addresses. The standard output and
    the exit status are those of COMMAND, and the summary goes to the standard error. The status is 1 if COMMAND
    succeeds and packets were late. With --json the summary goes to the standard output instead, and COMMAND writes to
    the standard error.
    """
    if not command and between is None:
        raise click.UsageError("name a COMMAND behind --, or network cards with --between")
    if between is not None and (server is not None or sysctls or outside is not None):
        raise click.UsageError("--server, --sysctl and --outside are of namespaces; leave them out, or --between")
    options.refuse_empty(where=where, server=server, flow=flow)
    given = [options.setting(text, "--sysctl", "net.ipv4.tcp_ecn=1") for text in sysctls]
    from l4slab.tools import bottleneck as tool

    path = tool.path_of(file, flow, where)
    with _watched(path, live) as control:
        wanted = tool.Wanted(
            command or _FOREVER, server, log, access, realtime, reverse, given, late, as_json, between, outside, control
        )
        summary = tool.run(path, wanted)
    if not command and summary["command_status"] in _INTERRUPTED:
        summary["command_status"] = 0
    late_text = _late(summary) if summary["is_late"] else None
    failed = summary["command_status"] != 0
    status = summary["command_status"] or int(late_text is not None)
    if as_json:
        terminal.as_json(summary | {"exit_status": status})
    else:
        _show(summary)
    if failed:
        terminal.err().print(
            f"l4slab: {(command or _FOREVER)[0]} has ended with status {summary['command_status']}", markup=False
        )
    elif late_text:
        terminal.err().print(f"l4slab: {late_text}", markup=False)
    return status


@contextmanager
def _watched(path: PathOf, is_wanted: bool) -> Iterator[int | None]:
    """The socket of those who watch the bottleneck, with the page's server."""
    if not is_wanted:
        yield None
        return
    from l4slab.engines.real import live
    from l4slab.engines.real.engine import RealEngine
    from l4slab.live import page
    from l4slab.live.server import Server, serve

    page.document()  # before anything begins

    def tell(address: str) -> None:
        terminal.err().print(address + page.fragment(path.shown, RealEngine.live[0]), markup=False, soft_wrap=True)

    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
    ):
        place = str(Path(folder) / "bottleneck")
        listener.bind(place)
        listener.listen()
        listener.setblocking(False)
        os.environ[live.SOCKET] = place
        server = Server(dict([RealEngine.live]))
        threading.Thread(target=serve, args=(server, 0, tell), daemon=True).start()
        yield listener.fileno()


def _late(summary: dict[str, Any]) -> str:
    worst = max(
        (one[what]["p99"] or 0.0, name)
        for one in summary["directions"]
        for what, name in (("late_ms", "late"), ("wait_ms", "read late"))
    )
    shortest = summary["shortest"]
    remedy = "" if summary["realtime"] else ", run it with real-time priority (as root, or with RLIMIT_RTPRIO)"
    return (
        f"1 % of the packets were {worst[1]} by {worst[0]:.2g} ms or more, and {summary['late_bound_ms']:.2g} ms is "
        f"allowed ({shortest['name']}: {shortest['ms']:g} ms); these results may be the machine's: free it{remedy}, or "
        f"allow more with --late"
    )


def _show(summary: dict[str, Any]) -> None:
    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.3g}"

    rows = [row for row in summary["queues"] if row["arrived"]]
    columns = [
        Column("link", [row["link"] for row in rows], stays=True, weight=5),
        Column("queue", [row["queue"] for row in rows], stays=True, weight=5),
        Column("packets", [str(row["arrived"]) for row in rows], right=True, stays=True, weight=4),
        Column("dropped", [str(row["dropped"]) for row in rows], right=True, stays=True, weight=4),
        Column("marked", [str(row["marked"] + row["step_marked"]) for row in rows], right=True, stays=True, weight=4),
    ]
    for name, key in (("p50", "p50"), ("p99", "p99"), ("max", "max")):
        cells = [number(row["sojourn_ms"][key]) for row in rows]
        columns.append(Column(f"sojourn\n{name} ms", cells, right=True, stays=True, weight=3))
    if rows:
        terminal.show("Queues", columns, stderr=True)
    sides = list(zip(("client", "server"), summary["directions"], strict=True))
    sides = [(name, one) for name, one in sides if one["packets_in"]]
    columns = [
        Column("from", [name for name, _ in sides], stays=True, weight=5),
        Column("Mbit/s", [number((one["rate_bps"] or 0) / 1e6) for _, one in sides], right=True, stays=True, weight=5),
        Column("packets", [str(one["packets_out"]) for _, one in sides], right=True, stays=True, weight=4),
        Column("CE", [str(one["ce_out"]) for _, one in sides], right=True, stays=True, weight=4),
        Column("lost", [str(one["lost"]) for _, one in sides], right=True, stays=True, weight=4),
        Column("dropped\nby device", [str(one["device_drops"]) for _, one in sides], right=True, stays=True, weight=2),
    ]
    for what, key in (("late", "late_ms"), ("wait", "wait_ms")):
        for name, quantile in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"), ("max", "max")):
            cells = [number(one[key][quantile]) for _, one in sides]
            columns.append(Column(f"{what}\n{name} ms", cells, right=True, stays=True, weight=3))
    if sides:
        terminal.show("Packets that were delivered", columns, stderr=True)
    cpu = summary["user_s"] + summary["system_s"]
    priority = "with" if summary["realtime"] else "without"
    packets = f"{summary['frames_per_cpu_s']:,.0f}".replace(",", " ")
    terminal.say(
        f"{summary['seconds']:.1f} s, {priority} real-time priority; the forwarder took {cpu:.2f} s of a processor: "
        f"{packets} packets per second of it.",
        stderr=True,
    )
    for note in summary["notes"]:
        terminal.say(f"Note: {note}.", stderr=True)


@click.command()
@click.argument("log", metavar="LOG", type=click.Path(path_type=Path))
@options.as_json
def replay(log: Path, as_json: bool) -> int:
    """Compare a log of l4slab bottleneck with the simulator, packet by packet.

    The simulator gets the recorded arrivals. It has to give the same departures, losses and marks.
    """
    from l4slab.tools import bottleneck as tool

    told = tool.replay(log)
    status = 0 if told["difference"] is None else 1
    if as_json:
        terminal.as_json(told | {"exit_status": status})
        return status
    if told["difference"] is None:
        terminal.say(
            f"The simulator decides the same: {told['arrivals']} arrivals, {told['departures']} departures, "
            f"{told['marked']} marks, {told['lost']} losses."
        )
    else:
        terminal.err().print(f"l4slab: {log}: {told['difference']}", markup=False)
    return status
