"""Draws docs/_static/picture.svg of README.md, and with `packets` docs/_static/packets.png of docs/stacks.md, which
needs the engine `linux` and quic-go: `.venv/bin/python docs/picture.py [packets]`.
"""

import re
import sys
from pathlib import Path

import l4slab
from l4slab import plot

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Draw one of the two."""
    static = ROOT / "docs" / "_static"
    if sys.argv[1:] == ["packets"]:
        # A point per packet: as pixels it is smaller.
        drawn(packets()).savefig(static / "packets.png", dpi=160)
    else:
        # A curve on one line, not a point on each.
        svg = re.sub(r"\n(?=[LMCQz])", " ", plot.to_svg(drawn(over_time())))
        (static / "picture.svg").write_text(svg, encoding="utf-8")


def drawn(figure: plot.style.Figure | None) -> plot.style.Figure:
    """A figure of results that have flows."""
    assert figure is not None  # noqa: S101
    return figure


def over_time() -> plot.style.Figure | None:
    """Rate and round-trip time of the flows of examples/picture.toml."""
    figure = l4slab.run(ROOT / "examples" / "picture.toml").plot.time_series()
    if figure is not None:
        for axis in figure.axes:
            axis.axvline(20, color="#555555", linewidth=0.8, linestyle=":")
        figure.axes[0].set_title("FIFO of 200 packets until 20 s, then DualPI2; 50 Mbit/s, 20 ms")
    return figure


def packets() -> plot.style.Figure | None:
    """The packets and the log of quic-go alone."""
    flow = l4slab.ProgramFlow(name="quic-go", stack="quic-go", rtt="20ms", env={"QLOGDIR": "{out}"})
    link = l4slab.Link(rate="20Mbit", qdisc="dualpi2")
    experiment = l4slab.Experiment(name="packets", duration="6s", warmup="1s", links={"bottleneck": link}, flows=[flow])
    return l4slab.run(experiment, engine="linux", out="results/packets").plot.packets()


if __name__ == "__main__":
    main()
