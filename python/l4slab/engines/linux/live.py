"""The engine `linux` while somebody watches and changes what it does: the requests of docs/live.md.

Time in the laboratory goes on only when it is asked for, and as far: between two requests its clock stands still, so
how long anything takes on the host is not in what is measured.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, TypedDict, cast

from l4slab import _core
from l4slab.base.errors import one_line
from l4slab.base.run import Change, Flow, Run
from l4slab.base.values import Keys, Row
from l4slab.engines.contract import EngineError
from l4slab.engines.linux import engine, kernels, lab, recording
from l4slab.engines.linux.clock import Clock, ClockError
from l4slab.engines.linux.machine import Machine, MachineError, run_folder
from l4slab.engines.linux.recording.live import Growing, Recorder, Sampled, Watch

_LONGEST_ADVANCE_NS = 100_000_000_000
# A machine that says nothing for so long, while it has this much to do, hangs.
_ANSWER_S, _SLICE_NS = 60.0, 50_000_000
_ENDING_S = 5.0
# The laboratory (lab.c) begins at least so much later than it is ready.
_SETTLE_NS = 1_999_000_000
# So much later than it is asked to stop the laboratory has put down what it saw; it waits by short sleeps.
_BEYOND_NS = 1_500
_MOST_CAPTURED_BYTES = 2 << 30
_LEAST_FREE_BYTES = 200 << 20


class Answer(TypedDict, total=False):
    """To a request: what it asks for, or why it is refused."""

    ok: Mapping[str, object]
    refused: str


class Report(TypedDict):
    """The rows of the tables `flows` and `links`, as if the run were over."""

    now_ns: int
    flows: list[Row]
    links: list[Row]


class LinuxLive:
    """Answers requests, one at a time. The kernel dies with the thread that asked for it."""

    def __init__(self) -> None:
        self._session: _Session | None = None
        self._one = threading.Lock()

    def ask(self, text: str) -> str:
        """The response to a request, both JSON."""
        answer: Answer
        with self._one:
            try:
                answer = {"ok": self._answer(json.loads(text))}
            except KeyError as error:
                answer = {"refused": f"the request has no {error}"}
            except (ValueError, TypeError, EngineError) as error:
                answer = {"refused": one_line(str(error))}
            except (MachineError, recording.CheckError) as error:
                self._close()
                answer = {"refused": f"the kernel's run has ended: {error}"}
            except OSError as error:
                self._close()
                answer = {"refused": engine.disk_sentence(error)}
        return json.dumps(answer, ensure_ascii=False, allow_nan=False)

    def close(self) -> None:
        """End the kernel, also amidst an answer, and remove its folder."""
        if (session := self._session) is not None:
            session.interrupt()
        with self._one:
            self._close()

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _answer(self, request: Mapping[str, Any]) -> Mapping[str, object]:
        match request["do"]:
            case "start":
                run = described(request["run"])
                self._close()
                self._session = _Session(run, request.get("watch", {}))
                return {"now_ns": 0, "gauges": _core.gauges(json.dumps(run))}
            case "check":
                described(request["run"])
                return {}
            case "batch":
                run = described(request["run"])
                with _Session(run, request.get("watch", {})) as session:
                    return {**session.advance(run["duration_ns"]), **session.report()}
            case "vocabulary":
                return {"qdiscs": _core.qdiscs(), "controllers": _core.controllers(), "version": _core.version()}
        if self._session is None:
            raise ValueError("no run was started")
        match request["do"]:
            case "watch":
                self._session.recorder.set_watch(request["watch"], self._session.now_ns)
                return {}
            case "change":
                return {"time_ns": self._session.change(request["change"])}
            case "advance":
                if request["until_ns"] - self._session.now_ns > _LONGEST_ADVANCE_NS:
                    raise ValueError(f"at most {_LONGEST_ADVANCE_NS * 1e-9:g} s at once can be run")
                return self._session.advance(request["until_ns"])
            case "report":
                return self._session.report()
        raise ValueError(f"there is no request {json.dumps(request['do'])}")


def described(run: Mapping[str, Any]) -> Run:
    """A run's description with what may be left out. Raises ValueError where it cannot be run on the kernel."""
    for spec in run["flows"]:
        if spec.get("kind") == "program":
            raise ValueError(
                f'flow "{spec["name"]}": programs cannot be watched live; run the file with l4slab run --engine linux'
            )
    _core.gauges(json.dumps(run))  # the core reads all of it
    flows = []
    for spec in run["flows"]:
        flow = {**_FLOW, **(_TCP if spec.get("kind", "tcp") == "tcp" else _CBR), **spec}
        if flow["kind"] == "tcp":
            flow["options"] = _core.canonical_controller(flow["cc"], flow["options"] or {})
        flows.append(flow)
    at = [{**_CHANGE, **change} for change in run.get("at", ())]
    for link in run["links"]:
        if "classes" in link:
            raise ValueError(f'"{link["name"]}" has classes, and a live run on the kernel has none; use another engine')
    links = [{**_LINK, **link, "qdisc": _core.canonical_qdisc(link["qdisc"])} for link in run["links"]]
    found = {**_RUN, **run, "links": links, "flows": flows, "at": at}
    for one in (*links, *flows):
        if "rate_trace" in one or "delay_trace" in one:
            raise ValueError(f'"{one["name"]}" has a trace, and a live run on the kernel has none; use another engine')
    # The core has read it, and every key that may be left out is filled in.
    whole = cast(Run, found)
    engine.refuse(whole, kernels.installed())
    lab.refuse_waiting(whole, "linux")
    return whole


_RUN: Keys = {
    "warmup_ns": 0, "sample_ns": 100_000_000, "start_jitter_ns": 0, "per_flow": False, "rewrites": [], "impairs": [],
}  # fmt: skip
_LINK = {"burst_bytes": 1600}
_FLOW: Keys = {
    "kind": "tcp", "count": 1, "dscp": 0, "start_ns": 0, "stop_ns": None, "reverse_path": [], "ecn": None,
}  # fmt: skip
_TCP: Keys = {
    "peer_ecn": None, "bytes": None, "pace_bps": None, "receive_window_bytes": None, "options": {},
}  # fmt: skip
_CBR: Keys = {"packet_bytes": 1514, "batch": 1}
_CHANGE: Keys = {
    "link": None, "flow": None, "rate_bps": None, "qdisc": None, "rtt_ns": None, "count": None,
}  # fmt: skip


def _rate_of(spec: Flow) -> int | None:
    """Of a flow whose source has one, bit/s."""
    if spec["kind"] == "cbr":
        return spec["rate_bps"]
    return spec.get("rate_bps") if spec["kind"] == "tcp" else None


class _Session:
    """A laboratory that goes on, in a kernel of its own. Its methods raise MachineError where that ends by itself."""

    def __init__(self, run: Run, watch: Watch):
        self.now_ns = 0
        self._planned = sorted(run["at"], key=lambda change: change["time_ns"])
        self._run: Run = {**run, "at": []}
        self._queues = {link["name"]: _core.ChangingQdisc(link["qdisc"]) for link in run["links"]}
        self._asked = 0
        self._is_over = False
        self._stack = ExitStack()
        try:
            self._boot()
        except BaseException:
            self.close()
            raise
        self.recorder = Recorder(self._lab, self._folder, watch, _series_columns(self._run))
        self._stack.callback(self.recorder.close)

    def _boot(self) -> None:
        kernel = engine.kernel()
        self._folder = self._stack.enter_context(run_folder())
        self._lab = lab.build(self._run, live=True)
        engine.write(self._lab, self._folder)
        # Of each group the flows that have not been told to stop, in the order in which they began.
        self._active = {flow.spec["name"]: list(range(flow.members)) for flow in self._lab.flows}
        self._rates = {spec["name"]: rate for spec in self._run["flows"] if (rate := _rate_of(spec)) is not None}
        self._resting: set[str] = set()
        self._answers = Growing(self._folder / "answers")
        self._stack.callback(self._answers.close)
        self._clock = Clock(self._folder / "clock")
        self._stack.callback(self._clock.close)
        self._machine = Machine(
            kernel.path, kernel.root, kernels.laboratory(), self._folder, _ANSWER_S, self._folder / "clock"
        )
        self._process = self._stack.enter_context(self._machine.running())
        with self._failing():
            self._clock.connect(lambda: self._process.poll() is None, _ANSWER_S)
            while True:
                began_ns = self._clock.wanted_ns
                self._step(_SLICE_NS)
                if self._answers.rest():
                    break
        # Between the machine's clock, which begins at its boot, and the laboratory's; first a little less than that.
        self._offset_ns = began_ns + _SETTLE_NS
        self._ask([], 0, _SLICE_NS)

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the kernel and remove its folder."""
        self._stack.close()

    def interrupt(self) -> None:
        """From another thread: what goes on ends with MachineError."""
        self._is_over = True

    def advance(self, until_ns: int) -> Sampled:
        """Go on until then, and give what has happened since this was last asked."""
        if self.recorder.bytes > _MOST_CAPTURED_BYTES:
            raise ValueError(
                f"the captures of this run have reached {_MOST_CAPTURED_BYTES >> 30} GB, the most that it keeps; "
                "start it again"
            )
        if (free := shutil.disk_usage(self._folder).free) < _LEAST_FREE_BYTES:
            raise ValueError(f"{self._folder.parent} has only {free >> 20} MB free for captures; free some")
        while self._planned and self._planned[0]["time_ns"] <= until_ns:
            change = self._planned.pop(0)
            self._go_on(change["time_ns"])
            self._apply(change)
        self._go_on(until_ns)
        return self.recorder.take(self.now_ns)

    def change(self, change: Mapping[str, Any]) -> int:
        """Change something now; when that was, ns. Raises ValueError where it cannot be."""
        full = {**_CHANGE, **change, "time_ns": self.now_ns}
        (whole,) = described({**self._run, "at": [full]})["at"]
        self._apply(whole)
        return self.now_ns

    def report(self) -> Report:
        """The rows of the tables `flows` and `links`, as if the run were over."""
        if self.now_ns <= self._run["warmup_ns"]:
            raise ValueError("there is nothing to report before the warm-up is over")
        self._ask([f"sample {self.now_ns}"], self.now_ns, self.recorder.sample_ns)
        run: Run = {**self._run, "duration_ns": self.now_ns}
        observed = recording.read(replace(self._lab, run=run), self._folder, is_over=False)
        flows, links = recording.rows(observed)
        return {"now_ns": self.now_ns, "flows": flows, "links": links}

    def _apply(self, change: Change) -> None:
        link, flow, qdisc = change.get("link"), change.get("flow"), change.get("qdisc")
        if qdisc is not None and link is not None:
            change = {**change, "qdisc": self._queues[link].change(qdisc)}
        orders = [*lab.orders(self._lab, change), *self._counted(change)]
        if "refused" in self._ask(orders, self.now_ns, self.recorder.sample_ns):
            raise ValueError(f"the kernel refused it: {self._machine.last_error()}")
        self._run["at"].append(change)
        if qdisc is not None:
            self.recorder.columns = _series_columns(self._run)
        if flow is not None and (rate_bps := change.get("rate_bps")) is not None:
            self._rates[flow] = rate_bps
        if flow is not None and (pauses := change.get("pause")) is not None:
            self._resting = self._resting | {flow} if pauses else self._resting - {flow}

    def _counted(self, change: Change) -> Iterator[str]:
        """The commands that give a group the number of flows of a change."""
        name, count = change.get("flow"), change.get("count")
        if name is None or count is None:
            return
        place = next(i for i, flow in enumerate(self._lab.flows) if flow.spec["name"] == name)
        flow, active = self._lab.flows[place], self._active[name]
        more = count - len(active)
        if flow.members + more > lab.MAX_COUNT:
            raise ValueError(f'flow "{name}" has begun {flow.members} times; start the run again')
        for _ in range(-more):
            yield f"stop {self.now_ns} {flow.number} {active.pop()}"
        if more > 0:
            active += range(flow.members, flow.members + more)
            spec = flow.spec.copy()
            if name in self._rates and (spec["kind"] == "cbr" or spec["kind"] == "tcp"):
                spec["rate_bps"] = self._rates[name]
            yield from lab.ends(replace(flow, spec=spec), [(self.now_ns, lab.NEVER)] * more, flow.members)
            if name in self._resting:
                yield from lab.orders(self._lab, {"time_ns": self.now_ns, "flow": name, "pause": True})
            self._lab.flows[place] = replace(flow, members=flow.members + more)

    def _go_on(self, until_ns: int) -> None:
        if until_ns > self.now_ns:
            self._ask([], until_ns, self.recorder.sample_ns)
            self.now_ns = until_ns

    def _ask(self, orders: list[str], until_ns: int, sample_ns: int) -> list[str]:
        """Tell the laboratory what happens now and until when it goes on; what it says."""
        self._asked += 1
        number = self._asked
        lines = [*orders, f"until {until_ns} {sample_ns}"]
        (self._folder / "new").write_text("\n".join(lines) + "\n")
        (self._folder / "new").rename(self._folder / f"ask.{number}")
        said: list[str] = []
        with self._failing():
            while f"{number} done" not in said:
                ahead = self._offset_ns + until_ns + _BEYOND_NS - self._clock.wanted_ns
                self._step(min(ahead, _SLICE_NS))
                said += self._answers.rest().decode().splitlines()
        offset_ns = self._clock.wanted_ns - until_ns
        self._offset_ns = offset_ns if self._asked == 1 else min(offset_ns, self._offset_ns)
        (self._folder / f"ask.{number}").unlink()
        return said

    def _step(self, ahead_ns: int) -> None:
        if self._is_over:
            raise MachineError("it was closed")
        self._clock.step(ahead_ns)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except ClockError:
            # Its socket is closed before its process has ended.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDING_S)
            raise self._machine.failure(self._process.poll()) from None


def _series_columns(run: Run) -> list[str]:
    return list(recording.columns(run)["series"])
