"""Draws the picture of README.md, docs/_static/picture.svg: `.venv/bin/python docs/picture.py`."""

from pathlib import Path

import l4slab
from l4slab import plot

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Run examples/picture.toml and draw rate and round-trip time of its flows."""
    results = l4slab.run(ROOT / "examples" / "picture.toml")
    figure = results.plot.time_series()
    assert figure is not None  # noqa: S101  (it has two flows)
    for axis in figure.axes:
        axis.axvline(20, color="#555555", linewidth=0.8, linestyle=":")
    figure.axes[0].set_title("FIFO of 200 packets until 20 s, then DualPI2; 50 Mbit/s, 20 ms")
    (ROOT / "docs" / "_static" / "picture.svg").write_text(plot.to_svg(figure), encoding="utf-8")


if __name__ == "__main__":
    main()
