"""The law of NAME: the queueing delay at rest. Run it with: python3 test_NAME.py"""

from pathlib import Path

import l4slab

RATE_BPS, MAX_BPS = 20e6, 30e6


def at_rest(reference_ms: float, rate_bps: float) -> float:
    """The signal at which this rate neither grows nor falls: `reference_ms` at the highest rate, more below it."""
    return reference_ms * MAX_BPS / rate_bps


def test_law() -> None:
    """Within 10 %."""
    for reference in (10.0, 20.0):
        text = f"""
            duration = "60s"
            warmup = "40s"
            [link.bottleneck]
            rate = "{RATE_BPS / 1e6:g}Mbit"
            qdisc = "pfifo limit 1000"
            [[flow]]
            name = "NAME"
            kind = "media"
            cc = "REFERENCE"
            rtt = "40ms"
            rate_max = "{MAX_BPS / 1e6:g}Mbit"
            options = {{ reference = {reference} }}
        """
        file = Path(__file__).with_name("law.toml")
        file.write_text(text)
        flow = l4slab.run(file).flows.row(0, named=True)
        file.unlink()
        queue, law = flow["sojourn_ms_mean"], at_rest(reference, flow["media_mbps"] * 1e6)
        print(f"reference {reference:g} ms: queueing delay {queue:.1f} ms, by the law {law:.1f} ms")
        assert abs(queue / law - 1) < 0.1


if __name__ == "__main__":
    test_law()
