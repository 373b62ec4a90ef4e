from l4slab.own import Ack, Congestion, Controller, Window, number


class Mine(Controller):
    """CUBIC of RFC 9438 with the slope of Linux."""

    beta = number(0.7, "factor on a loss", least=0.1, most=0.9)

    def __init__(self) -> None:
        self.w_max = self.start = self.k = self.origin = 0.0
        self.reno = self.credit = 0.0
        self.begun, self.last = False, 0

    def on_ack(self, ack: Ack, window: Window) -> None:
        rest, self.last = ack.now_ns - self.last, ack.now_ns
        if rest > 1e9:
            self.start += rest * 1e-9
        if not ack.may_grow or not ack.cwnd_limited:
            return
        acked = window.slow_start(ack.acked) if window.in_slow_start else ack.acked
        if not acked:
            return
        now, cwnd = ack.now_ns * 1e-9, window.cwnd
        if not self.begun:
            self.begun, self.start, self.reno = True, now, float(cwnd)
            self.k = (max(self.w_max - cwnd, 0.0) / 0.4) ** (1 / 3)
            self.origin = max(self.w_max, cwnd)
        self.reno += 3 * (1 - self.beta) / (1 + self.beta) * acked / cwnd
        ahead = now + ack.min_rtt_us * 1e-6 - self.start
        target = max(self.origin + 0.4 * (ahead - self.k) ** 3, self.reno)
        step = (target - cwnd) / cwnd if target > cwnd else 0.01 / cwnd
        self.credit += acked * min(step, 0.5)
        window.cwnd += int(self.credit)
        self.credit %= 1

    def on_congestion(self, why: Congestion, now_ns: int, window: Window) -> None:
        cwnd = window.cwnd
        self.w_max = cwnd * (1 + self.beta) / 2 if cwnd < self.w_max else float(cwnd)
        self.begun = False
        window.ssthresh = max(int(cwnd * self.beta), 2)
