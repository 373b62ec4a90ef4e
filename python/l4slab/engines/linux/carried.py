"""Flows of `kind = "media"` and `kind = "responsiveness"`: programs of a packaged stack carry them.

Of a call, this is the stack whose model its controller is. Its programs write a line per frame: the number of the
call, the RTP timestamp, ns of the realtime clock, and bytes. The client does when a frame is captured, and the server
when all of it is there. The client's first line has its own start in place of a timestamp.

The client of a test of responsiveness writes columns of the table `flows` as JSON, after each interval those so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from l4slab import _core, stacks
from l4slab.base.run import Flow, MediaFlow, ProgramFlow, ResponsivenessFlow, Run

Carried = MediaFlow | ResponsivenessFlow

# In the description of programs, what the file says of the flow that they carry.
_CARRIES = "carries"

# What is the affair of a call's encoder and transport, and of a test's hosts. Of each, what a file that says nothing
# about it has.
_NOT_OF_A_CALL = {"audio_bps": None, "dscp": 0, "ecn": None, "keyframe_interval_ns": None, "repair": None}
_NOT_OF_A_TEST = dict.fromkeys(("peer_ecn", "pace_bps", "receive_window_bytes", "rto_min_ns", "mtu_bytes"))
_UNITS = ("_bps", "_bytes", "_ns")
# What a description of programs has of the flow that they carry.
_SHARED = ("name", "count", "dscp", "start_ns", "rtt_ns", "path", "reverse_path", "host", "peer_host", "delay_trace")


def of(spec: Flow) -> Carried | None:
    """What a file says of the flow that these programs carry."""
    return cast(Carried | None, cast(Mapping[str, object], spec).get(_CARRIES))


def _stacks(kind: str) -> list[stacks.Stack]:
    return [stack for stack in map(stacks.find, stacks.names()) if stack.recipe.kind == kind]


def _carrier(spec: Carried) -> stacks.Stack | None:
    """The stack that carries this flow; a call's has the controller of which that of the flow is the model."""
    if spec["kind"] == "responsiveness":
        return _stacks("responsiveness")[0]
    for stack in _stacks("media"):
        words = stack.recipe.media.get(spec["cc"])
        if words is not None and spec["options"] == _core.canonical_media(spec["cc"], _options(words)):
            return stack
    return None


def _options(words: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in words.split())
    return {name: value for name, _, value in pairs}


def _written(options: Mapping[str, str]) -> str:
    """As an experiment file has them."""
    return "{ " + ", ".join(f'{name} = "{value}"' for name, value in options.items()) + " }"


def refuse(run: Run) -> None:
    """Raises ValueError with what no packaged stack can do."""
    for spec in run["flows"]:
        if spec["kind"] == "media":
            _refuse_call(spec)
        elif spec["kind"] == "responsiveness":
            _refuse_keys(spec, _NOT_OF_A_TEST, "the kernel's TCP")
        else:
            continue
        if any(change.get("flow") == spec["name"] for change in run["at"]):
            raise ValueError(
                f'flow "{spec["name"]}": a change in [[at]] cannot be told to its programs; use the sim engine'
            )


def _refuse_call(spec: MediaFlow) -> None:
    name, stack = f'flow "{spec["name"]}"', _carrier(spec)
    if stack is None:
        known = [
            f'cc = "{cc}"' + (f" with options = {_written(_options(words))}" if words else "")
            for one in _stacks("media")
            for cc, words in one.recipe.media.items()
        ]
        raise ValueError(
            f'{name}: no packaged stack has what cc = "{spec["cc"]}" with its options is the model of; write '
            f"{' or '.join(known)}, or use the sim engine"
        )
    has_choice = stacks.ECT in stack.recipe.client and spec["ecn"] in ("ect1", "not-ect")
    _refuse_keys(spec, _NOT_OF_A_CALL | ({"ecn": spec["ecn"]} if has_choice else {}), stack.name)
    own = _core.usual_encoder(spec["cc"], spec["options"])
    if spec.get("encoder") not in (None, own):
        raise ValueError(
            f'{name}: the encoder of {stack.name} is "{own}", not "{spec["encoder"]}"; leave encoder out, or use the '
            "sim engine"
        )


def _refuse_keys(spec: Carried, usual: Mapping[str, object], who: str) -> None:
    for key, value in usual.items():
        if spec.get(key) != value:
            written = next((key.removesuffix(unit) for unit in _UNITS if key.endswith(unit)), key)
            raise ValueError(
                f'flow "{spec["name"]}": {who} decides about {written} itself; leave it out, or use the sim engine'
            )


def sources() -> list[Path]:
    """The recipes that decide what a call or a test is."""
    carriers = (stack for stack in map(stacks.find, stacks.names()) if stack.recipe.kind != "program")
    return [path for stack in carriers for path in stacks.sources(stack.folder)]


def carried(run: Run) -> Run:
    """With programs in place of each flow that they carry and that `refuse` does not refuse."""
    return {**run, "flows": [_carried(run, flow) for flow in run["flows"]]}


def _carried(run: Run, flow: Flow) -> Flow:
    if flow["kind"] != "media" and flow["kind"] != "responsiveness":
        return flow
    stack = _carrier(flow)
    return flow if stack is None else _programs(run, flow, stack)


def _words(spec: Carried) -> dict[str, str]:
    """What stands for the placeholders of a recipe."""
    if spec["kind"] == "media":
        rates = (spec["rate_min_bps"], spec["rate_start_bps"], spec["rate_bps"])
        words = dict(zip(stacks.RATES, map(str, rates), strict=True))
        words |= {stacks.COUNT: str(spec["count"]), stacks.ECT: "-1" if spec["ecn"] == "not-ect" else "1"}
        return words | {stacks.CC: spec["cc"], stacks.FPS: f"{1e9 / spec['interval_ns']:g}"}
    times = {"interval": spec["interval_ns"], "gap": spec["probe_interval_ns"], "idle": spec["idle_ns"]}
    numbers = {"connections": spec["connections"], "notsent": spec["notsent_bytes"]}
    flags = [f"-{name}={time_ns}ns" for name, time_ns in times.items()]
    return {stacks.TEST: " ".join([*flags, *(f"-{name}={number}" for name, number in numbers.items())])}


def _programs(run: Run, spec: Carried, stack: stacks.Stack) -> ProgramFlow:
    words = _words(spec)
    is_test = spec["kind"] == "responsiveness"
    told = {
        "kind": "program",
        "cc": spec["cc"] if is_test else None,
        "ecn": spec["ecn"] if is_test else None,
        "sender": stack.recipe.sender,
        "server": stacks.filled(stack.recipe.server, words),
        "client": stacks.filled(stack.recipe.client, words),
        "stack": {"name": stack.name, "build": stack.id, "cc": spec["cc"]},
        "env": dict(stack.recipe.env),
        "files": {},
        "stop_ns": spec["stop_ns"] or run["duration_ns"],
        _CARRIES: spec,
    }
    return cast(ProgramFlow, {key: spec.get(key) for key in _SHARED if key in spec} | told)
