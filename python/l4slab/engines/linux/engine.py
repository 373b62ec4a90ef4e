"""The engine: a run's description in, a `Recording` out, with a kernel booted in between."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import polars as pl

from l4slab import _core
from l4slab.base import metrics
from l4slab.base.code import Kind
from l4slab.base.errors import InputError
from l4slab.base.run import Flow, Link, ResponsivenessFlow, TcpFlow
from l4slab.base.run import Run as Description
from l4slab.engines.contract import (
    Captures,
    Engine,
    EngineError,
    Finding,
    LackingError,
    Live,
    MissingError,
    Recording,
    Work,
    digest,
    file_name,
    refuse_endpoints,
    refuse_precision,
)
from l4slab.engines.linux import build, carried, flows, kernels, lab, machine, passes, programs, rng, tools, tunnels
from l4slab.engines.linux.compiling import DATA
from l4slab.engines.linux.machine import Machine, MachineError, run_folder
from l4slab.experimentfile.classes import holder, holds_classes, qdiscs_of
from l4slab.own import files

_KEPT = ("setup.sh", "plan", "teardown.txt", "console.log", "counters.txt", "events.tsv")
_SOURCES = ("lab.c", "programs.h")
_BUILD = "l4slab linux build"
# A run takes less wall clock than simulated time at up to a few hundred Mbit/s; more is a machine that hangs.
_LEAST_LIMIT_S = 300.0
_LIMIT_PER_GBIT_S = 100.0
_BYTES_PER_PACKET = 40
_CAPTURED_BYTES_PER_PACKET = 400
# In virtual time, beside other work: to boot, set up and read (a run of 1 s takes 0.5 s), for each packet on each link,
# and for one of a program besides: that of quinn; it was 1.3 ms for aioquic before programs shared the kernel's clock.
_START_S = 0.8
_PACKET_S = 28e-6
_PROGRAM_PACKET_S = 0.1e-3
# Each second of a call, whose encoder works: 0.4 to 0.5 s for libwebrtc, 0.08 s for pion.
_CALL_S = 0.45


def _no_kernel() -> str | None:
    sentence = _lacking()
    return sentence and f"on the machine of this page's server, {sentence}"


class LinuxEngine(Engine):
    """Runs on a real kernel in virtual time. Two runs of one description differ, like two trials, in the kernel's
    own random numbers. Thread-safe: each run is a machine of its own.

    A variant is the name of a kernel in the cache.
    """

    name = "linux"
    title = "kernel"
    is_reference = True
    keeps_files = True
    captured_bytes = _CAPTURED_BYTES_PER_PACKET
    # Two cores take less than ten minutes for it.
    quick_s = 900
    # The memory of a kernel is what it is booted with.
    live = (
        "linux",
        Live("l4slab.engines.linux.live:LinuxLive", "a real Linux kernel on this machine", False, 0, _no_kernel),
    )

    def __init__(self, variant: str = "") -> None:
        self._kernel = kernels.DEFAULT
        if variant not in ("", kernels.DEFAULT):
            self._kernel = kernels.named_kernel(variant).name
            self.name = f"linux:{variant}"

    @classmethod
    def variants(cls) -> list[str]:
        return [kernel.name for kernel in kernels.named()]

    @classmethod
    def stop(cls) -> None:
        machine.stop_all()

    def lacking(self) -> str | None:
        sentence = _lacking(self._kernel)
        return sentence and f"--engine {self.name}: {sentence}"

    def estimate(self, work: Work) -> float:
        programs_s = _PROGRAM_PACKET_S * work.program_packets + _CALL_S * work.calls_s
        return _START_S * work.runs + _PACKET_S * work.packets + programs_s

    def version(self) -> str:
        kernel = kernels.installed(self._kernel)
        if kernel is None or self.lacking() is not None:
            return ""
        # It needs numpy, which is not part of the core install.
        from l4slab.engines.linux import recording

        modules = (carried, lab, machine, passes, programs, rng, tunnels, metrics)
        files_of = [Path(__file__), *(Path(str(module.__file__)) for module in modules), *carried.sources()]
        try:
            return digest(build.contents(kernel), *files_of, *recording.SOURCES)
        except OSError:
            # What cannot be read is told where it is to be booted.
            return ""

    def check(self, description: Description) -> None:
        refuse(description, kernels.installed(self._kernel))

    def knows(self, kind: Kind, name: str) -> bool:
        if kind == "controller":
            return name in kernels.controllers()
        first, *words = name.split()
        if words and first in kernels.qdiscs():
            raise ValueError(
                f'"{name}": tc does not know the options of {first}, a queue of your own kernel; write "{first}"'
            )
        return name in kernels.qdiscs()

    def columns(self, description: Description) -> dict[str, pl.Schema]:
        from l4slab.engines.linux import recording

        return recording.columns(carried.carried(description))

    def execute(self, run_json: str, keep: Path | None = None, captures: Captures | None = None) -> Recording:
        """Run it; with `keep`, commands and logs are kept there."""
        run = json.loads(run_json)
        found = kernel(self._kernel)
        refuse(run, found)
        again = passes.Passes(lab.unrolled(carried.carried(run)))
        try:
            while True:
                made = lab.build(again.run, pcap=captures is not None, own_defaults=found.name != kernels.DEFAULT)
                with _folder(run, captures is not None) as folder:
                    recorded = _execute(made, found, folder, keep, again.agrees)
                    if recorded is None:
                        continue
                    if captures is not None:
                        _keep_captures(made, folder, captures.folder)
                    return recorded
        except OSError as error:
            raise EngineError(disk_sentence(error)) from None

    def examine(self) -> Iterator[Finding]:
        kernel, packaged = kernels.installed(self._kernel), kernels.package()
        if kernel is None:
            sentence = tools.missing(tools.TOOLS | tools.RUN_TOOLS)
            first = f"{sentence}; then" if sentence else "build it with:"
            text = "not there, only --engine linux and l4slab agree need it; "
            text += f"install the package {kernels.PACKAGE}, or {first} {_BUILD}"
            yield Finding(self.name, True, text, absent=True)
            return
        if (sentence := tools.missing(tools.RUN_TOOLS) or _lacking(self._kernel)) is not None:
            yield Finding(self.name, False, sentence)
            return
        where = f"of the package {kernels.PACKAGE} {kernel.package}" if kernel.package else f"in {kernel.path.parent}"
        if packaged is not None and not kernel.package:
            where += f" (and not that of the package {kernels.PACKAGE} {packaged.package})"
        controls = f", with {', '.join(kernel.controls)}" if kernel.controls else ""
        old = "" if kernel.is_current else f"; its sources have changed since, renew it with: {_BUILD}"
        name = kernel.version or kernel.path.name
        yield Finding(self.name, True, f"{name}, build {self.version()}, {where}{controls}{old}")


def _lacking(name: str = kernels.DEFAULT) -> str | None:
    if platform.system() != "Linux":
        return "runs on Linux only; use the simulator (--engine sim, the default)"
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError:
        return 'needs numpy; install it with: pip install "l4slab[linux]"'
    try:
        kernels.ready(name)
    except InputError as error:
        return str(error)
    return None


def kernel(name: str = kernels.DEFAULT) -> kernels.Kernel:
    """The kernel of this name, with its user land. Raises EngineError where they are not there."""
    try:
        found = kernels.ready(name)
        if not found.package:
            build.make_laboratory(found.root, lambda *_: None)
    except (InputError, tools.BuildError) as error:
        raise EngineError(str(error)) from None
    return found


def write(made: lab.Lab, folder: Path) -> None:
    """The files that the machine finds in its folder."""
    (folder / "setup.sh").write_text(lab.script(made))
    (folder / "teardown.sh").write_text(lab.teardown(made))
    (folder / "plan").write_text("\n".join(made.plan) + "\n")
    if made.has_programs:
        (folder / programs.FOLDER).mkdir()


def _execute(
    made: lab.Lab,
    kernel: kernels.Kernel,
    folder: Path,
    keep: Path | None,
    agrees: Callable[[Callable[[str], passes.States]], bool],
) -> Recording | None:
    """One run. None: by its states it is not the run that was asked for."""
    from l4slab.engines.linux import recording

    write(made, folder)
    try:
        booted = Machine(kernel.path, kernel.root, kernels.laboratory(), folder, _limit_s(made.run))
        booted.boot(programs.watch(made.run, made.flows, booted) if made.has_programs else None)
        observed = recording.read(made, folder)
        recording.check(observed)
        if not agrees(partial(recording.states, observed)):
            return None
        recording.keep(observed, folder / programs.FOLDER)
        return recording.tables(observed)
    except (MachineError, recording.CheckError) as error:
        kept = f"; what it said is kept in {keep / programs.FOLDER}" if made.has_programs and keep is not None else ""
        said = programs.last_words(folder, str(error)) if isinstance(error, MachineError) else ""
        raise EngineError(f"{error}{said}{kept}") from None
    finally:
        if keep is not None:
            _keep(folder, keep)


@contextmanager
def _folder(run: Description, captured: bool) -> Iterator[Path]:
    """A run folder with room for the run."""
    # Every packet of every link is written down; what it may need is checked before.
    bits = sum(link["rate_bps"] for link in run["links"]) * run["duration_ns"] * 1e-9
    needed = bits / 8 / 1500 * (_BYTES_PER_PACKET + captured * _CAPTURED_BYTES_PER_PACKET) + 50e6
    with run_folder() as folder:
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise EngineError(
                f"{tempfile.gettempdir()} has {free / 1e9:.1f} GB free and this run may write {needed / 1e9:.1f} GB; "
                "free some, or set TMPDIR to a folder with more"
            )
        yield folder


def _limit_s(run: Description) -> float:
    if (given := os.environ.get("L4SLAB_LINUX_TIMEOUT")) is not None:
        return float(given)
    gbit: float = sum(link["rate_bps"] for link in run["links"]) * 1e-9
    seconds = float(run["duration_ns"]) * 1e-9
    return _LEAST_LIMIT_S + seconds * (10 + _LIMIT_PER_GBIT_S * gbit)


def _keep(folder: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    for name in _KEPT:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, keep / name)
    for name in _SOURCES:
        shutil.copyfile(DATA / name, keep / name)
    if (folder / programs.FOLDER).is_dir():
        shutil.rmtree(keep / programs.FOLDER, ignore_errors=True)
        shutil.copytree(folder / programs.FOLDER, keep / programs.FOLDER, symlinks=True)


def _keep_captures(made: lab.Lab, folder: Path, keep: Path) -> None:
    """The captures of all links and senders at once, so that a folder that is there is complete."""
    temporary = keep.with_name(f".{keep.name}.{os.getpid()}.tmp")
    for leftover in (temporary, keep):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary.mkdir(parents=True)
    names = {f"host{flow.number}": f"{file_name(flow.spec['name'])}-client" for flow in made.flows}
    for path in folder.glob("*.pcap"):
        shutil.copyfile(path, temporary / f"{names.get(path.stem, path.stem)}.pcap")
    temporary.rename(keep)


def disk_sentence(error: OSError) -> str:
    """The message about files that cannot be written."""
    where = f" ({error.filename})" if error.filename else ""
    return f"the run's files cannot be written{where}: {error.strerror or error}; free some space or set TMPDIR"


def refuse(run: Description, kernel: kernels.Kernel | None) -> None:
    """Raises ValueError with what the laboratory cannot do, by name, and then MissingError with what is not there."""
    if (own := files.refused(run)) is not None:
        raise LackingError(f"{own} is code for the simulator, which no kernel can run; use the sim engine")
    passes.refuse(run)
    refuse_precision(run, "linux")
    refuse_endpoints(run, "linux")
    qdiscs = kernel.qdiscs if kernel is not None else ()
    if len(run["flows"]) > lab.MAX_FLOWS:
        raise ValueError(f"the linux engine has at most {lab.MAX_FLOWS} flow groups; use count, or the sim engine")
    tunnels.refuse(run)
    carried.refuse(run)
    for spec in run["flows"]:
        if spec["kind"] == "responsiveness":
            _refuse_tcp(spec, f'flow "{spec["name"]}"')
    run = carried.carried(run)
    for spec in run["flows"]:
        name = f'flow "{spec["name"]}"'
        if spec["kind"] not in ("tcp", "cbr", "program"):
            raise ValueError(f'{name}: the linux engine has no kind = "{spec["kind"]}" yet; use the sim engine')
        if spec["count"] > lab.MAX_COUNT:
            raise ValueError(f"{name}: the linux engine has at most count = {lab.MAX_COUNT}; use the sim engine")
        if spec["kind"] == "cbr" and spec["packet_bytes"] > lab.MTU_FRAME:
            raise ValueError(f'{name}: the linux engine has no packets above {lab.MTU_FRAME}B; write packet = "1514B"')
        if spec["kind"] == "tcp":
            _refuse_tcp(spec, name)
            if (spec.get("mtu_bytes") or _LEAST_MTU) < _LEAST_MTU:
                raise ValueError(
                    f'{name}: the kernel\'s TCP has segments of at least 36 B; write mtu = "{_LEAST_MTU}B", or use the '
                    "sim engine"
                )
            if (spec.get("mtu_bytes") or 0) > lab.MTU_FRAME - 14:
                raise ValueError(
                    f'{name}: the linux engine has links of 1500 B; write mtu = "1500B", or use the sim engine'
                )
    for link in run["links"]:
        _refuse_medium(link)
        _refuse_trace(link)
        _refuse_stab(link, run)
        _refuse_policers(link)
        if any("dscp" in one for one in link.get("filters", ())) or any(
            qdisc.split()[0] in _BY_DSCP for qdisc in qdiscs_of(link)
        ):
            _refuse_sorting(link, run["flows"])
        _refuse_host(link, run["flows"])
    _refuse_thinning(run)
    queues = [(link["name"], qdisc) for link in run["links"] for qdisc in qdiscs_of(link) if not holds_classes(qdisc)]
    queues += [(str(change.get("link")), qdisc) for change in run["at"] for qdisc in qdiscs_of(change)]
    for name, qdisc in queues:
        words = qdisc.split()
        if words[0] in qdiscs:
            continue
        entry = lab.queue(words[0])
        if entry is None:
            raise LackingError(f"this kernel has no queue {words[0]}")
        if not entry["in_linux"]:
            raise LackingError(f"no Linux kernel has {words[0]}")
        for parameter in entry["parameters"]:
            if not parameter["in_linux"] and parameter["keyword"] in words:
                raise LackingError(f"no Linux kernel has {words[0]} {parameter['keyword']}")
        for word in ("duplicate", "corrupt"):
            if words[0] == "netem" and word in words:
                raise ValueError(
                    f'link "{name}": captures before and behind a queue that has {word} do not agree; '
                    "write it as [impair] before the link, or use the sim engine"
                )
    lab.module_parameters(run)
    _require(run, kernel.controls if kernel is not None else None)


def _require(run: Description, controls: tuple[str, ...] | None) -> None:
    """Raises MissingError with what the kernel or the machine lacks for this run."""
    for spec in run["flows"]:
        cc = spec.get("cc")
        if controls is not None and cc is not None and cc not in controls:
            raise MissingError(
                f'flow "{spec["name"]}": this kernel has no congestion control "{cc}" (it has {", ".join(controls)}); '
                f'use one of them, build again with "{_BUILD}", or use the sim engine'
            )
    programs.require(run)


# Queues that sort packets by DSCP, and the IP packet of TCP's least segment (`TCP_MIN_SND_MSS` with time stamps).
_BY_DSCP, _LEAST_MTU = ("prio", "ets", "pfifo_fast"), 88


def _refuse_host(link: Link, specs: Iterable[Flow]) -> None:
    if not lab.is_local(link):
        return
    of = [flows.Flow(0, spec) for spec in specs if link["name"] in spec["path"]]
    rtos = [flow.tcp.get("rto_min_ns") for flow in of if flow.tcp is not None]
    for key, setting, values in (("ecn", "tcp_ecn", [flow.ecn for flow in of]), ("rto_min", "tcp_rto_min_us", rtos)):
        for flow, value in zip(of, values, strict=True):
            if value != values[0]:
                names = f'"{of[0].spec["name"]}" and "{flow.spec["name"]}"'
                raise ValueError(
                    f'flows {names} share the host of link "{link["name"]}", and a kernel has one {setting} per host; '
                    f"give them the same {key}, or use the sim engine"
                )


def _refuse_sorting(link: Link, flows: Iterable[Flow]) -> None:
    for flow in flows:
        if flow["kind"] == "program" and link["name"] in (*flow["path"], *flow.get("reverse_path", ())):
            raise ValueError(
                f'link "{link["name"]}" sorts packets by DSCP, and which one the program of flow "{flow["name"]}" sets '
                "is not known before; use htb with filters by ecn and host"
            )


def _refuse_thinning(run: Description) -> None:
    for impair in run.get("impairs", ()):
        if "ack_thinning" in impair:
            raise ValueError(f'impair "{impair["name"]}": no part of the kernel thins ACKs; use the sim engine')


def _refuse_medium(link: Link) -> None:
    if (medium := link.get("medium")) is not None:
        name = medium.partition(" ")[0]
        raise ValueError(
            f'link "{link["name"]}": no kernel has the medium {name} in virtual time; use the sim engine, or a rate'
        )


def _refuse_stab(link: Link, run: Description) -> None:
    """A kernel takes a size table at the root only, and here the root is the shaper that is the link."""
    if "stab" not in link:
        return
    changes = [change for change in run["at"] if change.get("link") == link["name"]]
    slowest = min(link["rate_bps"], *(rate for change in changes if (rate := change.get("rate_bps"))), 2**63)
    for qdisc in (link["qdisc"], *(qdisc for change in changes if (qdisc := change.get("qdisc")))):
        shaped = _shaped_bps(qdisc, link)
        if shaped is None or shaped > slowest or "rate_trace" in link:
            raise ValueError(
                f'link "{link["name"]}": in the kernel stab would count for the link\'s rate, too, and '
                f"{qdisc.split()[0]} does not shape to less; use htb, tbf, cake or netem with at most the rate of the "
                "link, or the sim engine"
            )


def _refuse_policers(link: Link) -> None:
    for one in link.get("filters", ()):
        if (policer := one.get("policer")) is not None and "continue" in policer:
            raise ValueError(
                f'link "{link["name"]}": of packets that policer = "{policer}" leaves to the next filter, captures do '
                "not tell the class; write drop or pass, or use the sim engine"
            )


def _shaped_bps(qdisc: str, link: Link) -> int | None:
    """A queue's own limit of the rate, or None."""
    kind, *words = qdisc.split()
    if holds_classes(qdisc):
        of_tree = [one for one in link.get("classes", ()) if not holder(one["id"])]
        tops = [one["ceil_bps"] for one in of_tree if "parent" not in one and "ceil_bps" in one]
        return sum(tops) if tops else None
    said = {"tbf": "rate", "netem": "rate", "cake": "bandwidth"}.get(kind)
    if said not in words or "autorate-ingress" in words:
        return None
    return _tc_rate(words[words.index(said) + 1])


_TC_RATE = re.compile(r"(\d+(?:\.\d+)?)(k|m|g|t|)bit")


def _tc_rate(word: str) -> int | None:
    """bit/s of a rate in its canonical form."""
    found = _TC_RATE.fullmatch(word)
    return (
        None if found is None else round(float(found[1]) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[found[2]])
    )


def _refuse_trace(link: Link) -> None:
    name, trace = f'link "{link["name"]}"', link.get("rate_trace")
    if trace is None:
        return
    if "opportunities" in trace:
        raise ValueError(
            f"{name}: rate_trace = {trace['file']} has opportunities, and HTB has rates; write it as CSV with "
            "time_s,rate_mbps, or use the sim engine"
        )
    ends = [at for at, _ in trace["steps"][1:]]
    for (at, rate), end in zip(trace["steps"], ends, strict=False):
        if rate == 0 or lab.MTU_FRAME * 8 * 10**9 / rate > end - at:
            raise ValueError(
                f"{name}: rate_trace = {trace['file']} has {rate} bit/s at {at / 1e9:g} s, and HTB charges a packet at "
                "the rate that it meets, which is longer than this step; raise the rate, or use the sim engine"
            )


_ALWAYS_ECN = {entry["name"]: entry["ecn"] for entry in _core.controllers() if entry["needs_ecn"]}


def _refuse_tcp(spec: TcpFlow | ResponsivenessFlow, name: str) -> None:
    cc = spec["cc"]
    if not flows.controller(cc)["in_linux"]:
        raise LackingError(f"no Linux kernel has {cc}")
    if "sce" in (spec["ecn"], spec["peer_ecn"]):
        raise ValueError(f'{name}: no Linux kernel has SCE; write "classic" instead of "sce", or use the sim engine')
    if cc in _ALWAYS_ECN and spec["ecn"] == "off":
        raise ValueError(f'{name}: the kernel\'s {cc} always asks for ECN; write ecn = "{_ALWAYS_ECN[cc]}"')
