"""The law of NAME: whom it marks when more comes than the link can send. Run it with: python3 test_NAME.py"""

from pathlib import Path

import l4slab

LINK_MBIT, LOAD_MBIT, THRESHOLD_S, DURATION_S = 10.0, 11.0, 0.5, 10.0


def marked() -> float:
    """The share of the packets sent that is marked.

    The queue grows steadily: who leaves at t came at t LINK / LOAD and has waited for the difference, which is more
    than the threshold from some t on.
    """
    served = LINK_MBIT / LOAD_MBIT
    return served * (1 - THRESHOLD_S / (1 - served) / DURATION_S)


def test_law() -> None:
    """Within 3 %; a Not-ECT packet is never marked."""
    text = f"""
        duration = "{DURATION_S:g}s"
        start_jitter = "0s"
        [link.bottleneck]
        rate = "{LINK_MBIT:g}Mbit"
        qdisc = "REFERENCE limit 10000 threshold {THRESHOLD_S * 1e3:g}ms"
        [[flow]]
        name = "udp"
        kind = "cbr"
        rate = "{LOAD_MBIT:g}Mbit"
        rtt = "0s"
        ecn = "CODEPOINT"
    """
    file = Path(__file__).with_name("law.toml")
    for ecn, law in (("ect1", marked()), ("not-ect", 0.0)):
        file.write_text(text.replace("CODEPOINT", ecn))
        flow = l4slab.run(file).flows.row(0, named=True)
        file.unlink()
        found = flow["ce_pct"] / 100
        print(f"{ecn}: {found:.3f} of the packets are marked, by the law {law:.3f}")
        assert abs(found - law) <= 0.03 * law


if __name__ == "__main__":
    test_law()
