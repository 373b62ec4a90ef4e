"""The engine: the forwarder with the run's links, this machine's kernel and programs at their ends."""

from __future__ import annotations

import json
import platform
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from l4slab import _core
from l4slab.base import metrics, system
from l4slab.base.code import HASH
from l4slab.base.errors import InputError
from l4slab.base.run import CbrFlow, Change, Flow, Run
from l4slab.base.run import Run as Description
from l4slab.engines.contract import (
    Captures,
    Engine,
    EngineError,
    Finding,
    LackingError,
    Live,
    Recording,
    Work,
    digest,
    refuse_endpoints,
    refuse_precision,
)
from l4slab.engines.linux import carried, lab, programs, tools
from l4slab.engines.linux.compiling import DATA
from l4slab.engines.linux.machine import run_folder
from l4slab.engines.real import forwarder, hosts
from l4slab.engines.real.live import lacking as no_bottleneck

_LOG = "real.log"
_KEPT = ("plan", "events.tsv", "counters.txt", "output.txt", "summary.json")
_START_S = hosts.LEAD_NS * 1e-9 + 1.0
# All programs and the forwarder share this machine.
_MOST_FLOWS = 64
_LEAST_RTT_NS = 1_000_000
_ETHERNET = 14
# Of both ends and the forwarder, for each packet on each link.
_PACKET_S = 15e-6
# Of the table `flows`: how late the forwarder wrote packets of the senders, and how long these had waited to be read.
_TIMES = [f"{what}_ms_{quantile}" for what in ("late", "wait") for quantile in ("p50", "p99", "p999", "max")]
COLUMNS: metrics.Schema = {name: pl.Float64() for name in _TIMES}
# The clock of the wall is one, and a second run would disturb the first.
_ALONE = threading.Lock()


class RealEngine(Engine):
    """Runs in real time, one run after another: the core's links between hosts of this machine's kernel."""

    name = "real"
    title = "this machine"
    virtual_time = False
    keeps_files = True
    quick_s = 900
    live = ("real", Live("l4slab.engines.real.live:RealLive", "a running bottleneck", False, 0, no_bottleneck))

    @classmethod
    def stop(cls) -> None:
        forwarder.stop()

    def lacking(self) -> str | None:
        if not system.is_linux():
            return "--engine real: runs on Linux only; use the simulator (--engine sim, the default)"
        try:
            import numpy  # noqa: F401
        except ModuleNotFoundError:
            return '--engine real: needs numpy; install it with: pip install "l4slab[linux]"'
        try:
            hosts.build()
        except (tools.BuildError, OSError) as error:
            return f"--engine real: {error}"
        can, text = forwarder.examine()
        return None if can else f"--engine real: {text}"

    def estimate(self, work: Work) -> float:
        # The clock is the wall's, however little the processor has to do.
        return max(_START_S * work.runs + work.run_s, _PACKET_S * work.packets)

    def version(self) -> str:
        if self.lacking() is not None:
            return ""
        from l4slab.engines.linux import recording

        own = (Path(module.__file__ or "") for module in (carried, hosts, forwarder, lab, programs, metrics))
        kernel = platform.release()
        return digest(
            *(_core.source_hash(), kernel, hosts.source(), DATA / "programs.h", Path(__file__)),
            *(*own, *carried.sources(), *recording.SOURCES),
        )

    def check(self, description: Description) -> None:
        refuse(description, hosts.controls(), hosts.free())

    def columns(self, description: Description) -> dict[str, pl.Schema]:
        from l4slab.engines.linux import recording

        found = recording.columns(carried.carried(description))
        return found | {"flows": pl.Schema({**found["flows"], **COLUMNS})}

    def execute(self, run_json: str, keep: Path | None = None, captures: Captures | None = None) -> Recording:
        """Run it; with `keep`, the plan, the log and what the programs said are kept there."""
        run = json.loads(run_json)
        refuse(run, hosts.controls(), hosts.free())
        run = carried.carried(run)
        with run_folder() as folder, _ALONE:
            made = lab.build(lab.unrolled(run), out=str(folder / programs.FOLDER))
            try:
                return self._execute(run, made, folder, captures)
            except OSError as error:
                raise EngineError(
                    f"the run's files cannot be written: {error}; free some space or set TMPDIR"
                ) from None
            finally:
                if keep is not None:
                    _keep(folder, keep)

    def _execute(self, run: Description, made: lab.Lab, folder: Path, captures: Captures | None) -> Recording:
        from l4slab.engines.linux import recording

        (folder / "plan").write_text("\n".join(hosts.plan(made)) + "\n")
        (folder / programs.FOLDER).mkdir()
        path = path_of(run)
        late_ns, what = min(forwarder.delays(path))
        wanted = forwarder.options(path, [str(hosts.build()), str(folder / "plan"), str(folder), "ZERO"], late_ns // 10)
        wanted |= {
            "log": str(folder / _LOG),
            "hosts": hosts.pairs(made),
            "lead_ns": hosts.LEAD_NS,
            "steps": True,
            "headers": captures is not None,
        }
        try:
            with (folder / "output.txt").open("wb") as output:
                summary = forwarder.run(wanted, output.fileno(), output.fileno())
        except (InputError, forwarder.BottleneckError) as error:
            raise EngineError(str(error)) from None
        (folder / "summary.json").write_text(json.dumps(summary))
        if summary["command_status"]:
            raise EngineError(_said(folder / "output.txt", summary["command_status"]))
        groups = [
            {"is_program": flow.is_program, "client_sends": flow.program is None or flow.program["sender"] == "client"}
            for flow in made.flows
        ]
        told_of = {
            "groups": groups,
            "impairments": [(int(name[1:]) - 1, int(name[0] == "j")) for name in made.impair_namespaces],
            "captures": None if captures is None else (str(captures.folder.absolute()), captures.title),
        }
        connections = forwarder.told(_core.packets_of_log(folder / _LOG, json.dumps(told_of), folder))
        with (folder / "events.tsv").open("a") as events:
            events.writelines(f"{line}\n" for line in connections)
        try:
            observed = recording.read(made, folder, has_tc=False)
            recording.check(observed)
            recording.keep(observed, folder / programs.FOLDER)
            found = recording.tables(observed)
        except recording.CheckError as error:
            raise EngineError(str(error)) from None
        _check_lateness(summary, late_ns, what)
        return _with_lateness(found, summary)

    def examine(self) -> Iterator[Finding]:
        sentence = text = self.lacking()
        if text is None:
            text = f"build {self.version()}, with {', '.join(hosts.controls())} of Linux {platform.release()}"
        yield Finding(self.name, True, text, absent=sentence is not None)


def refuse(run: Description, controls: tuple[str, ...], free: tuple[str, ...] | None = None) -> None:
    """Raises ValueError with what the engine cannot do, by name. `free` are the controllers that the kernel lets a
    namespace have as its default, which is what programs get.
    """
    if HASH in json.dumps(run):
        raise LackingError("code of your own runs in the simulator only; use the sim engine")
    lab.refuse_waiting(run, "real")
    refuse_precision(run, "real")
    refuse_endpoints(run, "real")
    if len(run["flows"]) > _MOST_FLOWS:
        raise ValueError(f"the real engine has at most {_MOST_FLOWS} flow groups; use count, or the sim engine")
    carried.refuse(run)
    for spec in run["flows"]:
        if "sce" in (spec.get("ecn"), spec.get("peer_ecn")):
            raise ValueError(
                f'flow "{spec["name"]}": no Linux kernel has SCE; write "classic" instead of "sce", or use the sim '
                "engine"
            )
    run = carried.carried(run)
    for spec in run["flows"]:
        name = f'flow "{spec["name"]}"'
        if spec["kind"] not in ("tcp", "cbr", "program"):
            raise ValueError(f'{name}: the real engine has no kind = "{spec["kind"]}"; use the sim engine')
        if not spec["path"]:
            raise ValueError(f"{name} crosses no link; give it a path, or use the sim engine")
        if spec["rtt_ns"] < _LEAST_RTT_NS:
            raise LackingError(
                f'{name}: rtt = "{spec["rtt_ns"] / 1e6:g}ms" is shorter than a scheduler keeps; write at least '
                f'"{_LEAST_RTT_NS / 1e6:g}ms", or use the linux engine'
            )
        mtu = spec.get("mtu_bytes") if spec["kind"] == "tcp" else None
        largest = spec["packet_bytes"] if spec["kind"] == "cbr" else (mtu or 0) + _ETHERNET
        if largest > lab.MTU_FRAME:
            raise ValueError(f"{name}: the real engine has no frames above {lab.MTU_FRAME} B; choose a smaller size")
        if any(link.get("on_host") and link["name"] in spec["path"] for link in run["links"]):
            raise ValueError(f"{name}: the real engine has no link in the sender's host; remove its on_host")
        if spec["kind"] == "tcp" and (spec.get("gso") or spec.get("gro_ns") is not None):
            raise ValueError(f"{name}: the real engine has no gso and no gro; leave them out, or use the linux engine")
        wanted = spec.get("cc") if spec["kind"] in ("tcp", "program") else None
        if wanted is not None and wanted not in controls:
            raise LackingError(
                f'{name}: the kernel of this machine has no congestion control "{wanted}" (it has '
                f"{', '.join(controls)}); load it with: {hosts.allowing(wanted, controls, ())}, or give --engine linux"
            )
        if spec["kind"] == "program" and wanted is not None and free is not None and wanted not in free:
            raise LackingError(
                f'{name}: the kernel of this machine lets programs have {", ".join(free)} and not "{wanted}"; allow it '
                f"with: {hosts.allowing(wanted, controls, free)}, or choose another cc"
            )
    forwarder.refuse_media_that_change(run)
    for parameter in lab.module_parameters(run):
        raise LackingError(
            f"the real engine leaves the modules of this machine's kernel as they are, and {parameter} would change; "
            "leave that option out, or use another engine"
        )
    programs.require(run)


def path_of(run: Description) -> Run:
    """The run's links, with the paths of its flows and what changes on them; real packets take the place of its own."""
    names = {flow["name"] for flow in run["flows"]}
    changes: list[Change] = []
    for change in run["at"]:
        if (flow := change.get("flow")) is None:
            changes.append(change)
        elif flow in names and (rtt_ns := change.get("rtt_ns")) is not None:
            changes.append({"time_ns": change["time_ns"], "flow": flow, "rtt_ns": rtt_ns})
    found: Run = {
        **run,
        "flows": [_stand_in(flow) for flow in run["flows"]],
        "at": changes,
        "warmup_ns": 0,
        "start_jitter_ns": 0,
    }
    found.pop("per_flow", None)
    return found


def _stand_in(flow: Flow) -> CbrFlow:
    found = forwarder.stand_in(flow["name"], flow["rtt_ns"], flow["path"])
    found["reverse_path"] = flow.get("reverse_path") or []
    for key in ("delay_trace", "host", "peer_host", "station"):
        if flow.get(key) is not None:
            found[key] = flow[key]
    return found


def _said(output: Path, status: int) -> str:
    lines = [line.strip() for line in output.read_text(errors="replace").splitlines() if line.strip()]
    lines = [line for line in lines if line not in ("begin", "end")]
    return (
        lines[-1].removeprefix("FAILED: ").removeprefix("lab: ") if lines else f"the hosts ended with status {status}"
    )


def _check_lateness(summary: Mapping[str, Any], shortest_ns: int, what: str) -> None:
    latest, bound = forwarder.latest_ms(summary), shortest_ns // 10 / 1e6
    if latest > bound:
        remedy = "" if summary["realtime"] else " and give it real-time priority (as root, or with RLIMIT_RTPRIO)"
        raise EngineError(
            f"1 % of the packets were late by {latest:.2g} ms or more, and {bound:.2g} ms is a tenth of the {what} of "
            f"{shortest_ns / 1e6:g} ms; free the machine{remedy}"
        )


def _with_lateness(found: Recording, summary: Mapping[str, Any]) -> Recording:
    there = summary["directions"][0]
    split = {name: name.rsplit("_", 1) for name in _TIMES}
    literals = [pl.lit(there[key][quantile], pl.Float64).alias(name) for name, (key, quantile) in split.items()]
    return Recording(**{**vars(found), "flows": found.flows.with_columns(literals)})


def _keep(folder: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    for name in (*_KEPT, _LOG):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, keep / name)
    if (folder / programs.FOLDER).is_dir():
        shutil.rmtree(keep / programs.FOLDER, ignore_errors=True)
        shutil.copytree(folder / programs.FOLDER, keep / programs.FOLDER, symlinks=True)
