"""A running bottleneck on the page of `l4slab live`: the requests of docs/live.md.

The forwarder goes on by itself, on the clock of the wall. Here somebody asks it for samples, and to change its links.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from l4slab import _core
from l4slab.base.errors import one_line
from l4slab.engines.contract import LIVE_MEMBERS, LIVE_TRANSFERS

# Names the socket on which the forwarder listens.
SOCKET = "L4SLAB_BOTTLENECK"
_LONGEST_ANSWER = 1 << 22
_ANSWER_S = 10.0
_LEAST_SAMPLE_NS, _SAMPLE_NS = 10_000_000, 100_000_000
_LONGEST_ADVANCE_NS = 100_000_000_000
_OVER = "the bottleneck has ended; start it again with l4slab bottleneck FILE --live"
# By the columns of `links`, what the forwarder calls it.
_COUNTS = {
    "arrived_packets": "arrived", "sent_packets": "sent", "dropped_packets": "dropped",
    "dropped_overflow_packets": "overflowed", "step_marked_packets": "step_marked",
    "backlog_packets_max": "backlog_max",
}  # fmt: skip


def lacking() -> str | None:
    """Why there is none to be watched."""
    return None if SOCKET in os.environ else "no bottleneck runs; start one with l4slab bottleneck FILE --live"


class RealLive:
    """Answers requests, one at a time."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._begun_ns = 0  # of the forwarder's time, when the page's is zero
        self._ahead_ns = 0  # of the forwarder's clock over the one here
        self._reached_ns = 0
        self._sample_ns = _SAMPLE_NS
        self._wants_histograms = False
        self._links: dict[str, dict[str, Any]] = {}

    def ask(self, text: str) -> str:
        """The response to a request, both JSON."""
        try:
            answer: dict[str, object] = {"ok": self._answer(json.loads(text))}
        except KeyError as error:
            answer = {"refused": f"the request has no {error}"}
        except (ValueError, TypeError) as error:
            answer = {"refused": one_line(str(error))}
        except OSError:
            answer = {"refused": _OVER}
        return json.dumps(answer, ensure_ascii=False, allow_nan=False)

    def close(self) -> None:
        """Leave the bottleneck alone."""
        if self._socket is not None:
            self._socket.close()

    def _answer(self, request: Mapping[str, Any]) -> Mapping[str, object]:
        match request["do"]:
            case "start":
                return self._start(request["run"], request.get("watch", {}))
            case "check":
                _core.gauges(json.dumps(request["run"]))
                return {}
            case "batch":
                raise ValueError("a bottleneck goes on in real time; instant mode is of the simulators")
            case "vocabulary":
                return {"qdiscs": _core.qdiscs(), "controllers": _core.controllers(), "version": _core.version()}
            case "watch":
                self._watch(request["watch"])
                return {}
            case "change":
                return {"time_ns": self._change(request["change"]) - self._begun_ns}
            case "advance":
                return self._advance(request["until_ns"])
            case "report":
                return self._report()
        raise ValueError(f"there is no request {json.dumps(request['do'])}")

    def _start(self, run: Mapping[str, Any], watch: Mapping[str, Any]) -> Mapping[str, object]:
        """Of another run the bottleneck takes over rates and queues."""
        gauges = _core.gauges(json.dumps(run))
        for link in run["links"]:
            known = self._links.setdefault(link["name"], {"rate_bps": link["rate_bps"], "qdisc": link["qdisc"]})
            for key in ("rate_bps", "qdisc"):
                if known[key] != link[key]:
                    self._change({"link": link["name"], key: link[key]})
        self._watch(watch)
        self._begun_ns = self._asked({"do": "sample"})["now_ns"]
        self._ahead_ns = self._begun_ns - time.monotonic_ns()
        self._reached_ns = 0
        return {"now_ns": 0, "gauges": gauges}

    def _watch(self, watch: Mapping[str, Any]) -> None:
        self._wants_histograms = bool(watch.get("histograms"))
        self._sample_ns = max(int(watch.get("sample_ns") or _SAMPLE_NS), _LEAST_SAMPLE_NS)

    def _change(self, change: Mapping[str, Any]) -> int:
        wanted = {key: value for key, value in change.items() if value is not None and key != "time_ns"}
        if not wanted.keys() <= {"link", "rate_bps", "qdisc"} or "link" not in wanted:
            raise ValueError(
                "what sends is real here, and base RTTs stay as they are; change the rate or the queue of a link"
            )
        time_ns: int = self._asked({"do": "change", "change": wanted})["time_ns"]
        self._links.setdefault(wanted["link"], {}).update(wanted)
        return time_ns

    def _advance(self, until_ns: int) -> Mapping[str, object]:
        if until_ns - self._reached_ns > _LONGEST_ADVANCE_NS:
            raise ValueError(f"at most {_LONGEST_ADVANCE_NS * 1e-9:g} s at once can be run")
        columns: dict[str, list[object]] = {}
        rows = 0
        while self._reached_ns + self._sample_ns <= until_ns:
            self._reached_ns += self._sample_ns
            self._wait_until(self._reached_ns)
            late_ns = self._now_ns() - self._reached_ns
            if late_ns > self._sample_ns // 2:
                # The page's clock stands still while it does not ask: samples close together would say little each.
                self._begun_ns += late_ns
            series = self._asked({"do": "sample"})["series"]
            more = len(series["time_s"])
            # The network is ahead of the clock by half a round trip: on the page it is now.
            series["time_s"] = [self._reached_ns * 1e-9] * more
            for name in (*columns, *series):
                column = columns.setdefault(name, [None] * rows)
                column += series.get(name, [None] * more) if len(column) == rows else []
            rows += more
        self._wait_until(until_ns)
        return {
            "now_ns": until_ns,
            "series": columns or {name: [] for name in ("time_s", "flow", "link", "queue")},
            "members": {name: [] for name in LIVE_MEMBERS},
            "transfers": {name: [] for name in LIVE_TRANSFERS},
            "histograms": self._histograms(),
        }

    def _now_ns(self) -> int:
        """On the page's clock."""
        return time.monotonic_ns() + self._ahead_ns - self._begun_ns

    def _wait_until(self, page_ns: int) -> None:
        left_ns = page_ns - self._now_ns()
        if left_ns > 0:
            time.sleep(left_ns * 1e-9)

    def _histograms(self) -> list[dict[str, object]]:
        rows = self._asked({"do": "histograms"}) if self._wants_histograms else []
        return [{"quantity": "sojourn_ms", "flow": None, **row} for row in rows]

    def _report(self) -> Mapping[str, object]:
        told = self._asked({"do": "report"})
        seconds = told["now_ns"] * 1e-9
        rows = []
        for queue in told["queues"]:
            row = {name: queue[key] for name, key in _COUNTS.items()}
            row |= {"link": queue["link"], "queue": queue["queue"], "rate_mbps": queue["sent_bytes"] * 8e-6 / seconds}
            row |= {f"sojourn_ms_{name}": queue["sojourn_ms"][name] for name in ("p50", "p99", "max")}
            row |= {"sojourn_ms_mean": queue["sojourn_mean_ms"], "marked_packets": queue["marked"]}
            rows.append(row)
        return {"now_ns": told["now_ns"] - self._begun_ns, "flows": [], "links": rows}

    def _asked(self, request: Mapping[str, object]) -> Any:
        if self._socket is None:
            if (sentence := lacking()) is not None:
                raise ValueError(sentence)
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.settimeout(_ANSWER_S)
            self._socket.connect(os.environ[SOCKET])
        self._socket.send(json.dumps(request).encode())
        answer = json.loads(self._socket.recv(_LONGEST_ANSWER) or '{"refused": ""}')
        if "refused" in answer:
            raise ValueError(answer["refused"] or _OVER)
        return answer["ok"]
