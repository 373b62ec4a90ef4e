"""NAME: additive increase, multiplicative decrease."""

from l4slab.own import Ack, Congestion, Controller, Window, gauge, number


class CLASS(Controller):
    """Additive increase, multiplicative decrease."""

    # Parameters: `options = { beta = 0.7 }` of a flow. An object finds their values.
    increase = number(1.0, "segments per round trip", least=0.01, most=100)
    beta = number(0.5, "factor on congestion", least=0.1, most=0.9)
    # A column of the time series.
    credit = gauge("part of a segment by which the window is to grow")

    def __init__(self) -> None:
        self.grown = 0.0

    def on_ack(self, ack: Ack, window: Window) -> None:
        """Slow start, then `increase` segments per round trip."""
        if not ack.may_grow:
            return
        acked = window.slow_start(ack.acked) if window.in_slow_start else ack.acked
        self.grown += self.increase * acked / window.cwnd
        window.cwnd += int(self.grown)
        self.credit = self.grown = self.grown % 1

    def on_congestion(self, why: Congestion, now_ns: int, window: Window) -> None:
        """TCP brings the window down to the threshold."""
        del why, now_ns
        window.ssthresh = max(int(window.cwnd * self.beta), 2)
