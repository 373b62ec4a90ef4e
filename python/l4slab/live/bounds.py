"""Bounds of requests. A request beyond a bound is refused with one sentence that names it.

The address has a token, so nobody but the person at the page asks: the bounds are there so that a slip of a slider or
of a hand-written address does not take the machine. What they cannot foresee (a queue that takes every packet, round
trips of nanoseconds) ends at the memory and the time that a session has.
"""

from __future__ import annotations

from l4slab.base.values import Keys

MESSAGE_BYTES = 1 << 20
ANSWER_BYTES = 64 << 20
ANSWER_S = 120.0  # wall clock for one request
MEMORY_BYTES = 2 << 30  # of an engine that runs in its own process
SESSIONS = 8
WAITING = 64  # requests of a page that wait for an answer
FLOWS = 10_000
LINKS = 100
RATE_BPS = 100_000_000_000
BATCH_S = 1000
ADVANCE_S = 100
SAMPLES = 100_000  # of one answer
_LARGEST = 1e300


class Bounds:
    """The bounds of one session. The length of an advance depends on the current time of the run."""

    def __init__(self) -> None:
        self._now_ns = 0.0
        self._sample_ns = 0.0

    def refusal(self, request: Keys) -> str | None:
        """Why the request (see `l4slab.live`) is refused; None if it is not. The engine explains what is wrong with a
        malformed request.
        """
        run, watch, change = (_table(request.get(key)) for key in ("run", "watch", "change"))
        sentence = _run(run) or _change(change)
        if sentence is not None:
            return sentence
        sample_ns = _number(watch.get("sample_ns")) or _number(run.get("sample_ns"))
        match request.get("do"):
            case "start":
                self._now_ns, self._sample_ns = 0, sample_ns
            case "watch":
                self._sample_ns = sample_ns or self._sample_ns
            case "batch":
                duration_ns = _number(run.get("duration_ns"))
                return _too_long(duration_ns, BATCH_S, "a run") or _too_many_samples(duration_ns, sample_ns)
            case "advance":
                until_ns = _number(request.get("until_ns"))
                ahead_ns = until_ns - self._now_ns
                sentence = _too_long(ahead_ns, ADVANCE_S, "a step") or _too_many_samples(ahead_ns, self._sample_ns)
                if sentence is None:
                    self._now_ns = max(self._now_ns, until_ns)
                return sentence
        return None


def _run(run: Keys) -> str | None:
    links, flows = _tables(run.get("links")), _tables(run.get("flows"))
    changes = _tables(run.get("at"))
    if len(links) > LINKS:
        return f"the run has {len(links)} links, and here it may have at most {LINKS}"
    count = sum(_number(flow.get("count", 1)) for flow in flows)
    if max(count, len(flows)) > FLOWS:
        return f"the run has {max(count, len(flows))} flows, and here it may have at most {FLOWS}"
    for table in (*links, *flows, *changes):
        if (sentence := _change(table)) is not None:
            return sentence
    return None


def _change(table: Keys) -> str | None:
    """Checks a change with a rate or a count."""
    for key in ("rate_bps", "pace_bps"):
        if (rate_bps := _number(table.get(key))) > RATE_BPS:
            asked, most = rate_bps / 1e9, RATE_BPS / 1e9
            return f"a rate of {asked:g} Gbit/s is asked for, and here it may be at most {most:g} Gbit/s"
    if (count := _number(table.get("count"))) > FLOWS:
        return f"{count:.0f} flows are asked for, and here there may be at most {FLOWS}"
    return None


def _too_long(span_ns: float, most_s: int, what: str) -> str | None:
    if span_ns <= most_s * 1e9:
        return None
    return f"{what} of {span_ns / 1e9:g} s is asked for, and here it may be at most {most_s} s long"


def _too_many_samples(span_ns: float, sample_ns: float) -> str | None:
    if not sample_ns or span_ns / sample_ns <= SAMPLES:
        return None
    return (
        f"{span_ns / sample_ns:.0f} samples are asked for at once, and here it may be at most {SAMPLES}; "
        "sample less often, or ask for a shorter time"
    )


def _table(value: object) -> Keys:
    return value if isinstance(value, dict) else {}


def _tables(value: object) -> list[Keys]:
    return [_table(one) for one in value] if isinstance(value, list) else []


def _number(value: object) -> float:
    """Within what a float can be: JSON has whole numbers of any length."""
    return min(value, _LARGEST) if isinstance(value, int | float) and not isinstance(value, bool) else 0
