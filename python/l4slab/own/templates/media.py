"""NAME: the rate of the encoder follows queueing delay and losses, as in NADA's gradual mode (RFC 8698)."""

from l4slab.own import MediaController, Rates, Report, gauge, number


class CLASS(MediaController):
    """The rate follows queueing delay and losses."""

    # Time between feedback reports.
    report_interval_ns = 100_000_000
    # Parameters: `options = { reference = 20 }` of a flow. An object finds their values.
    reference = number(10.0, "queueing delay at the encoder's highest rate, ms", least=1, most=100)
    penalty = number(10.0, "delay that 1 % of losses count as, ms", least=0, most=1000)
    # A column of the time series.
    signal_ms = gauge("queueing delay, and what losses add", "ms")

    def __init__(self) -> None:
        self.base = float("inf")
        self.losses = self.before = 0.0
        self.last_ns = 0

    def on_report(self, report: Report, rates: Rates) -> None:
        """Growth by 5 % while the signal is small, then towards the rate that the signal asks for."""
        arrived = [packet.arrived_ns - packet.sent_ns for packet in report.packets if packet.arrived_ns is not None]
        if not arrived:
            return
        delay = min(arrived) * 1e-6
        self.base = min(self.base, delay)
        lost = 1 - len(arrived) / len(report.packets)
        self.losses += 0.1 * (lost - self.losses)
        percent = self.losses * 100
        signal = delay - self.base + self.penalty * percent * percent
        elapsed = (report.now_ns - self.last_ns) * 1e-6 if self.last_ns else 100.0
        rate = rates.target_bps
        if signal < self.reference:
            rate *= 1.05
        else:
            offset = signal - self.reference * rates.max_bps / rate
            rate *= 1 - 0.5 * (elapsed / 500) * (offset / 500) - (signal - self.before) / 500
        rates.target_bps = min(max(rate, rates.min_bps), rates.max_bps)
        # A frame has left before the next one.
        rates.pacing_bps = 1.1 * rates.target_bps
        self.signal_ms = self.before = signal
        self.last_ns = report.now_ns
