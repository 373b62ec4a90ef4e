"""A run as the core alone can read it, for estimates: without custom code, programs and a kernel."""

from __future__ import annotations

from typing import Any

from l4slab import _core
from l4slab.base.run import Flow
from l4slab.base.run import Run as Description

# In place of a queue that the core does not know.
_QUEUE = "pfifo limit 100000"


def readable(description: Description) -> Description:
    """The same run with controllers, programs and queues that the core knows, without changes of its queues."""
    dropped = ("qdisc", "classes", "state")
    links: Any = [_with_known_queues({**link}) for link in description["links"]]
    at: Any = [{key: value for key, value in change.items() if key not in dropped} for change in description["at"]]
    return {**description, "links": links, "flows": [known(flow) for flow in description["flows"]], "at": at}


def _with_known_queues(table: dict[str, Any]) -> dict[str, Any]:
    """A link or a class."""
    found = dict(table)
    if "classes" in table:
        return found | {"classes": [_with_known_queues(one) for one in table["classes"]]}
    try:
        _core.canonical_qdisc(str(table.get("qdisc") or _QUEUE))
    except ValueError:
        found["qdisc"] = _QUEUE
    return found


def known(flow: Flow) -> Flow:
    """A copy. Flows that the simulator does not know, of a program or a kernel's controller, become CUBIC; media with
    a controller of its own become SCReAM.
    """
    known = {None, *(one["name"] for one in _core.controllers())}
    if flow["kind"] == "media":
        found = flow.copy()
        if flow["cc"] not in {one["name"] for one in _core.media_controllers()}:
            found["cc"], found["options"] = "scream", {}
        return found
    if flow["kind"] != "program" and flow.get("cc") in known:
        return flow.copy()
    return {
        "kind": "tcp",
        "name": flow["name"],
        "count": flow["count"],
        "rtt_ns": flow["rtt_ns"],
        "path": flow["path"],
        "reverse_path": flow.get("reverse_path", []),
        "dscp": flow["dscp"],
        "cc": "cubic",
        "options": _core.canonical_controller("cubic", {}),
        "start_ns": flow["start_ns"],
        "stop_ns": flow["stop_ns"],
        "bytes": None,
        "ecn": None,
        "peer_ecn": None,
        "pace_bps": None,
        "receive_window_bytes": None,
    }
