"""The input of a controller that decides at equal steps of time. It is the same in the environment of `l4slab.gym`, for
learning, and in a custom class (docs/own.md), which then runs anywhere.
"""

from __future__ import annotations

import math
from typing import NamedTuple

FEATURES = ("queue", "slope", "marked", "lost", "rate", "flight", "window")
# No feature is outside of these.
LOW = (0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
HIGH = (10.0, 1.0, 1.0, 1.0, 4.0, 4.0, 1.0)
# The most is 1 Gbit/s at 23 ms: a policy that knows nothing yet floods no simulation.
LEAST_WINDOW, MOST_WINDOW = 2.0, 2000.0


class State(NamedTuple):
    """A connection's counts up to an instant: segments delivered, marked and lost, smoothed and minimum RTT in us,
    segments in flight.
    """

    delivered: int = 0
    marked: int = 0
    lost: int = 0
    srtt_us: int = 0
    min_rtt_us: int = 0
    in_flight: int = 0


def seen(before: State, now: State, cwnd: float, step_s: float) -> tuple[float, ...]:
    """FEATURES of a step, numbers without unit: queueing delay in base RTTs (srtt / min_rtt - 1) and its change, the
    marked share of the delivered segments and the lost share of all segments, windows delivered per base RTT, windows
    in flight, and log2 of the window in 11ths.
    """
    delivered, lost = now.delivered - before.delivered, now.lost - before.lost
    base = now.min_rtt_us or 1
    queue = now.srtt_us / base - 1 if now.min_rtt_us else 0.0
    slope = (now.srtt_us - before.srtt_us) / base if before.srtt_us else 0.0
    return (
        min(max(queue, 0.0), 10.0),
        min(max(slope, -1.0), 1.0),
        min((now.marked - before.marked) / delivered, 1.0) if delivered > 0 else 0.0,
        lost / (delivered + lost) if lost > 0 else 0.0,
        min(delivered * base * 1e-6 / step_s / cwnd, 4.0),
        min(now.in_flight / cwnd, 4.0),
        math.log2(cwnd) / 11,
    )


def moved(cwnd: float, action: float) -> float:
    """The window after an action between -1 (halve it) and 1 (double it)."""
    return min(max(cwnd * 2 ** min(max(action, -1.0), 1.0), LEAST_WINDOW), MOST_WINDOW)
