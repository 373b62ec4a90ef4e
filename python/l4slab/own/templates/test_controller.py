"""The law of NAME: how much of a link with a small buffer it uses. Run it with: python3 test_NAME.py"""

from pathlib import Path

import l4slab

RATE_BPS, RTT_S, BUFFER = 50e6, 0.04, 20


def used(increase: float, beta: float) -> float:
    """The share of the link that a sawtooth from beta W to W uses, where W fills path and buffer.

    Below the path's own capacity of `fits` segments a round trip lasts RTT_S and delivers a window; above, the link is
    full. `increase` segments are added per round trip.
    """
    per_s = RATE_BPS / 8 / 1514
    fits = per_s * RTT_S
    top = fits + BUFFER
    low = min(beta * top, fits)
    below = (fits - low) / increase * RTT_S
    above = (top**2 - fits**2) / 2 / increase / per_s
    sent = (fits**2 - low**2) / 2 / increase + above * per_s
    return sent / (per_s * (below + above))


def test_law() -> None:
    """Within 3 %."""
    for increase, beta in ((1.0, 0.5), (2.0, 0.7)):
        text = f"""
            duration = "70s"
            warmup = "10s"
            [link.bottleneck]
            rate = "{RATE_BPS / 1e6:g}Mbit"
            qdisc = "pfifo limit {BUFFER}"
            [[flow]]
            name = "NAME"
            cc = "REFERENCE"
            rtt = "{RTT_S * 1e3:g}ms"
            ecn = "off"
            options = {{ increase = {increase}, beta = {beta} }}
        """
        file = Path(__file__).with_name("law.toml")
        file.write_text(text)
        flow = l4slab.run(file).flows.row(0, named=True)
        file.unlink()
        found = flow["goodput_mbps"] * 1e6 / RATE_BPS * 1514 / 1448
        print(f"increase {increase}, beta {beta}: uses {found:.3f} of the link, by the law {used(increase, beta):.3f}")
        assert abs(found / used(increase, beta) - 1) < 0.03


if __name__ == "__main__":
    test_law()
