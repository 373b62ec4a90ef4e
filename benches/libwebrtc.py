"""libwebrtc as an oracle for `kind = "media"`: a call with GCC and with SCReAM v2, as a program and as the model.

    python3 -m venv WRTC && WRTC/bin/pip install wrtc==0.1.0 numpy
    python benches/libwebrtc.py WRTC/bin/python [CELL ...]

A cell is a rate, a round trip, a queue and a rival. The program is `libwebrtc_call.py` on the kernel in virtual time,
and the model is the engine `sim`. Both send at most 4 Mb/s. It prints the table of docs/model.md. Without the package
this says so and ends with exit status 0.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import l4slab

SECONDS, WARMUP, MAX_MBPS = 30, 10, 4
# Runs of the model in each cell, whose mean counts.
TRIALS = 5
# Relative to the program; of delays, also the absolute difference that is close enough, ms.
RATE, DELAY, DELAY_MS = 0.2, 0.3, 3.0


class Cell(NamedTuple):
    """A call in a link, alone or next to a TCP download."""

    cc: str
    mbps: float
    rtt_ms: int
    qdisc: str
    rival: str = ""

    @property
    def name(self) -> str:
        beside = f" + {self.rival}" if self.rival else ""
        return f"{self.cc}, {self.mbps:g} Mb/s, {self.rtt_ms} ms, {self.qdisc}{beside}"


# The last six ran after SCReAM was as it is, and `BLIND` was chosen before GCC became libwebrtc's.
SETUPS: list[tuple[float, int, str, str]] = [
    (2, 25, "pfifo limit 50", ""),
    (2, 25, "fq_codel", ""),
    (2, 25, "dualpi2", ""),
    (3, 50, "fq_codel", ""),
    (3, 50, "dualpi2", ""),
    (4, 25, "fq_codel", "cubic"),
    (4, 25, "dualpi2", "cubic"),
    (1.5, 40, "pfifo limit 100", ""),
    (2.5, 20, "dualpi2", ""),
    (1, 60, "pfifo limit 30", ""),
    (5, 40, "dualpi2", "prague"),
    (2.5, 20, "fq_codel", ""),
    (3.5, 80, "dualpi2", ""),
    (3.5, 10, "codel", ""),
    (6, 30, "fq_codel", "cubic"),
    (6, 30, "dualpi2", "cubic"),
    (8, 20, "pfifo limit 100", "cubic"),
    (2.5, 30, "pfifo limit 60", ""),
    (1.2, 15, "fq_codel", ""),
    (3, 100, "dualpi2", ""),
    (5, 60, "dualpi2", "cubic"),
    (4, 40, "fq_codel", "prague"),
    (3.5, 50, "pfifo limit 200", ""),
]
BLIND: list[tuple[float, int, str, str]] = [
    (1.8, 70, "fq_codel", ""),
    (2.2, 35, "codel", ""),
    (3.2, 15, "pfifo limit 80", ""),
    (1.3, 50, "dualpi2", ""),
    (4.5, 30, "fq_codel", "cubic"),
    (4.5, 40, "dualpi2", "cubic"),
    (3, 30, "fq_codel", "reno"),
    (7, 50, "pie", "cubic"),
    (1, 20, "codel", ""),
    (6, 20, "dualpi2", "prague"),
    (2.8, 120, "pfifo limit 40", ""),
    (10, 40, "pfifo limit 60", "cubic"),
]
CELLS = [Cell("gcc", *setup) for setup in SETUPS + BLIND] + [Cell("scream", *setup) for setup in SETUPS]
# What libwebrtc has, where the model's defaults differ. Its longest frame on the wire has 1188 B, and its encoder
# follows a new target at once.
OPTIONS = {"gcc": "{}", "scream": '{ variant = "libwebrtc" }'}


def experiment(cell: Cell, python: str | None) -> str:
    """The cell with the program, or without `python` with the model."""
    if python is None:
        call = (
            f'kind = "media"\ncc = "{cell.cc}"\nrate_max = "{MAX_MBPS}Mbit"\nrate_min = "30kbit"\n'
            f'rate_start = "300kbit"\n'
            f'reaction = "0ms"\npacket = "1188B"\noptions = {OPTIONS[cell.cc]}\nstop = "{SECONDS}s"'
        )
    else:
        program = f"{python} {Path(__file__).with_name('libwebrtc_call.py')}"
        call = (
            f'kind = "program"\nserver = "{program} server 5055"\n'
            f'client = "{program} client {{server}} 5055 {SECONDS} {cell.cc} {MAX_MBPS}"'
        )
    rival = f'[[flow]]\nname = "rival"\ncc = "{cell.rival}"\nrtt = "{cell.rtt_ms}ms"\n' if cell.rival else ""
    return f"""
duration = "{SECONDS + 2}s"
warmup = "{WARMUP}s"
trials = {1 if python else TRIALS}
[link.b]
rate = "{cell.mbps}Mbit"
qdisc = "{cell.qdisc}"
[[flow]]
name = "call"
{call}
rtt = "{cell.rtt_ms}ms"
{rival}"""


def measured(cell: Cell, python: str | None, folder: Path) -> dict[str, Any]:
    """Rate, median queueing delay and codepoint of the call."""
    file = folder / "cell.toml"
    file.write_text(experiment(cell, python))
    results = l4slab.run(file, engine="sim" if python is None else "linux", workers=1)
    rows = results.flows.filter(flow="call")
    row = rows.row(0, named=True)
    if python is None:
        (listed,) = [one for one in l4slab._core.media_controllers() if one["name"] == cell.cc]
        is_ect1 = listed["ecn"] == "ect1"
    else:
        # STUN, DTLS and the signalling are Not-ECT.
        is_ect1 = row["ect1_packets"] > 10 * row["not_ect_packets"]
    means = {name: rows[column].mean() for name, column in (("mbps", "rate_mbps"), ("queue_ms", "sojourn_ms_p50"))}
    return {**means, "ect1": is_ect1}


def main() -> None:
    """The table, cell by cell; `within` says which bar a cell misses."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    python = sys.argv[1]
    if subprocess.run([python, "-c", "import wrtc, numpy"], capture_output=True, check=False).returncode:  # noqa: S603
        print(f"{python} has no wrtc; see the head of this file")
        return
    chosen = [CELLS[int(number)] for number in sys.argv[2:]] or CELLS
    print("| cell | Mb/s, libwebrtc | model | queue ms, libwebrtc | model | ECT(1) | within |\n" + "|---" * 7 + "|")
    with tempfile.TemporaryDirectory() as folder:
        for cell in chosen:
            real, model = (measured(cell, one, Path(folder)) for one in (python, None))
            missed = []
            if abs(model["mbps"] / real["mbps"] - 1) > RATE:
                missed.append("rate")
            off = abs(model["queue_ms"] - real["queue_ms"])
            if off > max(DELAY * real["queue_ms"], DELAY_MS):
                missed.append("queue")
            if real["ect1"] != model["ect1"]:
                missed.append("codepoint")
            ect1 = " / ".join("yes" if one["ect1"] else "no" for one in (real, model))
            print(
                f"| {cell.name} | {real['mbps']:.2f} | {model['mbps']:.2f} | {real['queue_ms']:.1f} | "
                f"{model['queue_ms']:.1f} | {ect1} | {'not ' + ', '.join(missed) if missed else 'yes'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
