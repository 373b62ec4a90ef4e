"""Flows of `kind = "media"`: the programs of the packaged stack whose model their controller is.

The programs write a line per frame: the number of the call, the RTP timestamp, ns of the realtime clock, and bytes. The
client does when a frame is captured, and the server when all of it is there. The client's first line has its own start
in place of a timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from l4slab import _core, stacks
from l4slab.base.run import Flow, MediaFlow, ProgramFlow, Run

# What is the encoder's and the transport's own affair there. Of each, what a file that says nothing about it has.
_OWN = {"audio_bps": None, "dscp": 0, "ecn": None, "keyframe_interval_ns": None, "repair": None}
_KEYS = {"audio_bps": "audio", "keyframe_interval_ns": "keyframe_interval"}


# In the description of its programs, what the file says of a call.
_CALL = "media"


def of(spec: Flow) -> MediaFlow | None:
    """What a file says of a call that is carried by programs."""
    return cast(MediaFlow | None, cast(Mapping[str, object], spec).get(_CALL))


def _media_stacks() -> list[stacks.Stack]:
    return [stack for stack in map(stacks.find, stacks.names()) if stack.recipe.media]


def _carrier(spec: MediaFlow) -> stacks.Stack | None:
    """The stack whose controller is what that of the flow is the model of."""
    for stack in _media_stacks():
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


def refuse(run: Run, spec: MediaFlow, name: str) -> None:
    """Raises ValueError with what no packaged stack can do."""
    stack = _carrier(spec)
    if stack is None:
        known = [
            f'cc = "{cc}"' + (f" with options = {_written(_options(words))}" if words else "")
            for one in _media_stacks()
            for cc, words in one.recipe.media.items()
        ]
        raise ValueError(
            f'{name}: no packaged stack has what cc = "{spec["cc"]}" with its options is the model of; write '
            f"{' or '.join(known)}, or use the sim engine"
        )
    for key, usual in _OWN.items():
        if spec.get(key) != usual:
            raise ValueError(
                f"{name}: {stack.name} decides about {_KEYS.get(key, key)} itself; leave it out, or use the sim engine"
            )
    own = _core.usual_encoder(spec["cc"], spec["options"])
    if spec.get("encoder") not in (None, own):
        raise ValueError(
            f'{name}: the encoder of {stack.name} is "{own}", not "{spec["encoder"]}"; leave encoder out, or use the '
            "sim engine"
        )
    if any(change.get("flow") == spec["name"] for change in run["at"]):
        raise ValueError(f"{name}: a change in [[at]] cannot be told to {stack.name}; use the sim engine")


def sources() -> list[Path]:
    """The recipes that decide what a call is."""
    return [path for stack in _media_stacks() for path in stacks.sources(stack.folder)]


def carried(run: Run) -> Run:
    """With programs in place of each call that `refuse` does not refuse."""
    if not any(flow["kind"] == "media" for flow in run["flows"]):
        return run
    flows: list[Flow] = [
        _carried(run, flow, stack) if flow["kind"] == "media" and (stack := _carrier(flow)) is not None else flow
        for flow in run["flows"]
    ]
    return {**run, "flows": flows}


def _carried(run: Run, spec: MediaFlow, stack: stacks.Stack) -> ProgramFlow:
    rates = (spec["rate_min_bps"], spec["rate_start_bps"], spec["rate_bps"])
    words = dict(zip(stacks.RATES, map(str, rates), strict=True))
    words |= {stacks.CC: spec["cc"], stacks.FPS: f"{1e9 / spec['interval_ns']:g}"}
    shared = {
        key: spec.get(key)
        for key in (
            "name",
            "count",
            "dscp",
            "start_ns",
            "rtt_ns",
            "path",
            "reverse_path",
            "host",
            "peer_host",
            "delay_trace",
        )
        if key in spec
    }
    told = {
        "kind": "program",
        "cc": None,
        "ecn": None,
        "sender": stack.recipe.sender,
        "server": stacks.filled(stack.recipe.server, words),
        "client": stacks.filled(stack.recipe.client, words),
        "stack": {"name": stack.name, "build": stack.id, "cc": spec["cc"]},
        "env": dict(stack.recipe.env),
        "files": {},
        "stop_ns": spec["stop_ns"] or run["duration_ns"],
        _CALL: spec,
    }
    return cast(ProgramFlow, shared | told)
