"""CableLabs' docsis-ns3 as an oracle for `medium = "docsis …"`: the same cells in both, goodput and delay cell by cell.

    git clone https://github.com/cablelabs/docsis-ns3
    python3 -m venv NS3 && NS3/bin/pip install ns3==3.44.post0
    python benches/docsis_ns3.py docsis-ns3 NS3/bin/python              # 20 cells
    python benches/docsis_ns3.py docsis-ns3 NS3/bin/python switches     # what decides how much classic traffic gets

It builds the models (GPL, in a temporary folder) with g++ and `docsis_ns3.cc`, in a minute or two. Without them it says
so and ends with exit status 0. The oracle is built as published and changed in one place each (`CHANGES`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Relative to the oracle; the absolute difference of delays that is close enough, ms.
GOODPUT, DELAY, DELAY_MS = 0.10, 0.15, 0.03
TRIALS, SECONDS, WARMUP = 4, 40, 20
# Of ns-3; those that the wheel lacks are left out.
MODULES = (
    *("core", "network", "internet", "applications", "bridge", "traffic-control", "stats", "mobility", "antenna"),
    *("propagation", "flow-monitor", "point-to-point", "fd-net-device", "config-store"),
)
# In which file of the models, what, and by what it is replaced.
REQUESTS = [
    ("cm-net-device", r"(grantPipeline = m_.GrantPipeline)\.Peek\(\)\.first", r"\1.GetTotal()"),
    (
        "cm-net-device",
        r"(queuedData = Get(.)Dev[^;]*);",
        lambda m: f"{m[1]} - m_{m[2].lower()}TransmitPipeline.GetTotal();",
    ),
]
AVERAGED = "[](double x) { static double mean = 0; return mean += (x - mean) / 16; }"
CHANGES = {
    "published": [],
    # What is granted or prepared for sending is not asked for again.
    "corrected": REQUESTS,
    # The rate of L, from which the delay of C is estimated, is averaged over 16 of its intervals.
    "smoothed": [
        *REQUESTS,
        (
            "dual-queue-coupled-aqm",
            r"\(1000\.0 \* m_intervalBitsL\) / m_interval\.GetMilliSeconds\(\)",
            lambda m: f"({AVERAGED})({m[0]})",
        ),
    ],
    # The probability of C falls by .02 at most in each update, as it rises.
    "bounded": [*REQUESTS, ("dual-queue-coupled-aqm", r"dropProb \+= p;", "dropProb += p < -0.02 ? -0.02 : p;")],
}


@dataclass(frozen=True)
class Cell:
    """Flows in C and L: TCP, or UDP with so many Mbit/s of payload in packets of 1000 B."""

    name: str
    c: int = 0
    low: int = 0
    udp_c: float = 0
    udp_l: float = 0
    up: int = 20
    down: int = 200
    is_up: bool = True
    rtt: int = 18
    ggr: int = 0
    ggi: int = 0
    weight: int = 230
    protect: bool = True
    # Of l4slab: the sender in L, and further words of the queue. Of the oracle: pacing.
    cc: str = "dctcp"
    words: str = ""
    paced: bool = False
    # Why a difference remains.
    cause: str = ""

    @property
    def is_udp(self) -> bool:
        return self.udp_c + self.udp_l > 0

    def oracle(self) -> list[str]:
        """The oracle's arguments."""
        times = (12, 2) if self.is_udp else (SECONDS, WARMUP)
        of_queue = "--ns3::docsis::DualQueueCoupledAqm::SchedulingWeight"
        of_grants = "--ns3::docsis::CmtsUpstreamScheduler::SchedulingWeight"
        return [
            f"--classic={self.c}",
            f"--low={self.low}",
            f"--udp_c={self.udp_c}",
            f"--udp_l={self.udp_l}",
            f"--up={self.up}Mbps",
            f"--down={self.down}Mbps",
            f"--is_up={str(self.is_up).lower()}",
            f"--side={0 if self.is_udp else self.rtt / 4}",
            f"--ggr={self.ggr}Mbps",
            f"--ggi={self.ggi}",
            f"--seconds={times[0]}",
            f"--warmup={times[1]}",
            f"{of_queue}={self.weight}",
            f"{of_grants}={self.weight}",
            f"--ns3::docsis::QueueProtection::QProtectOn={str(self.protect).lower()}",
            f"--ns3::TcpSocketState::EnablePacing={str(self.paced).lower()}",
        ]

    def text(self) -> str:
        """The same as an experiment file."""
        grants = (f" ggr {self.ggr}mbit" if self.ggr else "") + (f" ggi {self.ggi}us" if self.ggi else "")
        protect = "" if self.protect else " noqprotect"
        queue = f"docsis_ll weight {self.weight}{protect} {self.words}"
        there, back = ("m.up", "m") if self.is_up else ("m", "m.up")
        path = f'path = ["{there}"]\nreverse_path = ["{back}"]'
        frame = 1000 + 28 + 14
        flows = ""
        for name, count, udp, ecn in (("c", self.c, self.udp_c, "not-ect"), ("l", self.low, self.udp_l, "ect1")):
            cc = "cubic" if name == "c" else self.cc
            if udp and count:
                kind = f'kind = "cbr"\nrate = "{udp * 1e3 * frame:.0f}bit"\npacket = "{frame}B"'
                flows += f'[[flow]]\nname = "{name}"\n{kind}\nrtt = "0ms"\necn = "{ecn}"\npath = ["{there}"]\n'
            elif count:
                flows += f'[[flow]]\nname = "{name}"\ncc = "{cc}"\ncount = {count}\nrtt = "{self.rtt}ms"\n{path}\n'
                if cc == "dctcp":
                    flows += f'[[rewrite]]\nflow = "l"\nwhere = "before:{there}"\nfrom = "ect0"\nto = "ect1"\n'
        times = ("12s", "2s", 1) if self.is_udp else (f"{SECONDS}s", f"{WARMUP}s", TRIALS)
        medium = f"docsis up {self.up}mbit down {self.down}mbit weight {self.weight}{grants}"
        return f"""
duration = "{times[0]}"
warmup = "{times[1]}"
trials = {times[2]}
[link.m]
medium = "{medium}"
qdisc = "{queue}"
qdisc_up = "{queue}"
{flows}"""


HOLDS = "its CMTS holds the last packet until the next one comes"
BURSTS = "ns-3's DCTCP sends bursts; paced: {}"
CELLS = [
    Cell("UDP in L, 1 of 20", low=1, udp_l=1),
    Cell("UDP in L, 10 of 20", low=1, udp_l=10),
    Cell("UDP in L, 19 of 20", low=1, udp_l=19),
    Cell("UDP in L, 47 of 50", low=1, udp_l=47, up=50),
    Cell("UDP in C, 10 of 20", c=1, udp_c=10),
    Cell("UDP in C, 19 of 20", c=1, udp_c=19),
    Cell("UDP in both, 9 + 9 of 20", c=1, low=1, udp_c=9, udp_l=9),
    Cell("UDP in both, 25 + 25 of 20, no protection", c=1, low=1, udp_c=25, udp_l=25, protect=False),
    Cell("UDP in L, 4 of 20, ggr 5mbit", low=1, udp_l=4, ggr=5),
    Cell("UDP in L, 5 of 20, ggr 10mbit ggi 135us", low=1, udp_l=5, ggr=10, ggi=135),
    Cell("UDP in L, 47 of 50, ggr 20mbit ggi 135us", low=1, udp_l=47, up=50, ggr=20, ggi=135),
    Cell("UDP down in L, 50 of 200", low=1, udp_l=50, is_up=False, cause=HOLDS),
    Cell("UDP down in C, 190 of 200", c=1, udp_c=190, is_up=False, cause=HOLDS),
    Cell("1 CUBIC", c=1),
    Cell("4 CUBIC", c=4),
    Cell("4 CUBIC, 50 Mbit/s", c=4, up=50),
    Cell("4 CUBIC, RTT 50 ms", c=4, rtt=50),
    Cell("1 CUBIC + 1 DCTCP, no protection", c=1, low=1, protect=False, cause=BURSTS.format("C 3.1, L 16.9")),
    Cell("4 + 4, no protection", c=4, low=4, protect=False, cause=BURSTS.format("C 3.9, L 16.1")),
    Cell("4 + 4, weight 128", c=4, low=4, weight=128, cause=BURSTS.format("C 11.2, L 8.9 without protection")),
    Cell("4 + 4", c=4, low=4, cause="the same; protection sends every sixth packet of its L to C"),
]
FOUR = {"c": 4, "low": 4}
# Which oracle, or None for l4slab.
SWITCHES: list[tuple[str | None, Cell]] = [
    ("published", Cell("docsis-ns3 as published", **FOUR)),
    ("corrected", Cell("docsis-ns3 with its requests corrected", **FOUR)),
    ("corrected", Cell("corrected, no queue protection", **FOUR, protect=False)),
    ("corrected", Cell("corrected, paced", **FOUR, paced=True)),
    ("corrected", Cell("corrected, paced, no protection", **FOUR, protect=False, paced=True)),
    ("corrected", Cell("corrected, paced, no protection, weight 180", **FOUR, protect=False, paced=True, weight=180)),
    ("corrected", Cell("corrected, paced, no protection, weight 128", **FOUR, protect=False, paced=True, weight=128)),
    (
        "smoothed",
        Cell("corrected, paced, no protection, rate of L averaged over 256 ms", **FOUR, protect=False, paced=True),
    ),
    (
        "bounded",
        Cell(
            "corrected, paced, no protection, falls of the probability bounded as its rises",
            **FOUR,
            protect=False,
            paced=True,
        ),
    ),
    (None, Cell("l4slab", **FOUR)),
    (None, Cell("l4slab, no protection", **FOUR, protect=False)),
    (None, Cell("l4slab, no protection, weight 180", **FOUR, protect=False, weight=180)),
    (None, Cell("l4slab, no protection, weight 128", **FOUR, protect=False, weight=128)),
    (
        None,
        Cell(
            "l4slab, no protection, bytes of L in place of its virtual queue",
            **FOUR,
            protect=False,
            words="ll_estimator queue",
        ),
    ),
    (None, Cell("l4slab, Prague in L", **FOUR, cc="prague")),
    (None, Cell("l4slab, 1 CUBIC + 1 Prague", c=1, low=1, cc="prague")),
    (None, Cell("l4slab, 1 CUBIC + 1 Prague, weight 128", c=1, low=1, cc="prague", weight=128)),
    (None, Cell("l4slab, 10 CUBIC + 10 Prague", c=10, low=10, cc="prague")),
    (None, Cell("l4slab, 10 CUBIC + 10 Prague, weight 128", c=10, low=10, cc="prague", weight=128)),
]


def compiled(of: str, model: Path, ns3: Path, folder: Path) -> Path:
    """Builds the oracle with these changes; what does not change is built once."""
    include = folder / "include" / "ns3"
    include.mkdir(parents=True, exist_ok=True)
    for header in [*(model / "model").glob("*.h"), *(model / "helper").glob("*.h")]:
        # The helper's sessions of games and files need patched applications of ns-3; the links do not.
        text = re.sub(r".*(file-transfer|game-client).*\n", "", header.read_text(encoding="utf-8"))
        (include / header.name).write_text(
            re.sub(r"Ptr<(GameClient|FileTransferApplication)>", "void*", text), encoding="utf-8"
        )
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (model / "model").glob("*.cc")}
    helper = (model / "helper" / "docsis-helper.cc").read_text(encoding="utf-8").split("Ptr<GameClient>\n")[0]
    sources["docsis-helper"] = re.sub(r".*(file-transfer|game-client).*\n", "", helper) + "} }\n"
    sources["scenario"] = Path(__file__).with_suffix(".cc").read_text(encoding="utf-8")
    for file, what, by in CHANGES[of]:
        sources[file], found = re.subn(what, by, sources[file])
        if not found:
            raise SystemExit(f"{file}.cc has nothing like {what}; these changes are for docsis-ns3 1.2")

    def build(name: str) -> str:
        text = sources[name]
        target = folder / f"{name}-{abs(hash(text))}.o"
        if not target.exists():
            target.with_suffix(".cc").write_text(text, encoding="utf-8")
            options = ["-std=c++20", "-O2", "-w", "-I", include.parent, "-I", include, "-I", ns3 / "include"]
            subprocess.run(["g++", *options, "-c", target.with_suffix(".cc"), "-o", target], check=True)  # noqa: S603, S607
        return str(target)

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(build, sources))
    lib = ns3 / "lib64"
    libs = [f"-l{found.name[3:-3]}" for m in MODULES for found in lib.glob(f"libns3*-{m}.so")]
    program = folder / of
    link = ["-L", lib, f"-Wl,-rpath,{lib}", "-Wl,--allow-shlib-undefined"]
    subprocess.run(["g++", *objects, "-o", program, *link, *libs], check=True)  # noqa: S603, S607
    return program


def theirs(program: Path, cell: Cell) -> list[float]:
    """Mbit/s and ms of C, and of L."""
    done = subprocess.run([program, *cell.oracle()], check=True, capture_output=True)  # noqa: S603
    return json.loads(done.stdout)[:4]


@cache
def ours(cell: Cell) -> list[float]:
    """The same of l4slab. The delay of UDP is one way, of TCP in the queue, as there."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cell.toml"
        file.write_text(cell.text(), encoding="utf-8")
        flows = l4slab.run(file, out=Path(folder) / "out", workers=1).flows
    values = []
    for name in ("c", "l"):
        rows = flows.filter(flows["flow"] == name)
        delay = rows["sojourn_ms_mean" if cell.is_udp else "queue_ms_mean"].mean()
        values += (
            [rows["goodput_mbps"].sum() / max(len(set(rows["trial"])), 1), delay or 0.0] if len(rows) else [0.0, 0.0]
        )
    return values


def fits(cell: Cell, a: list[float], b: list[float]) -> bool:
    """Whether goodput and delay of each queue in use are close enough."""
    near = lambda x, y, part, least: abs(x - y) <= max(part * x, least)  # noqa: E731
    used = [i for i, count in enumerate((cell.c, cell.low)) if count]
    return all(near(a[2 * i], b[2 * i], GOODPUT, 0) and near(a[2 * i + 1], b[2 * i + 1], DELAY, DELAY_MS) for i in used)


def shown(cell: Cell, values: list[float]) -> str:
    """As "C: 12.3, 10.0 ms; L: …"."""
    parts = zip("CL", (cell.c, cell.low), values[::2], values[1::2], strict=True)
    return "; ".join(f"{q} {mbps:.1f}, {ms:.{2 if ms < 10 else 0}f} ms" for q, count, mbps, ms in parts if count)


def main(model: Path, python: str, table: str) -> None:
    """Print a table."""
    where = [python, "-c", "import ns3; print(ns3.__path__[0])"]
    found = subprocess.run(where, capture_output=True, text=True, check=False)  # noqa: S603
    ns3 = Path(found.stdout.strip() or "none")
    if not (model / "model" / "dual-queue-coupled-aqm.cc").exists() or not ns3.is_dir():
        print(f"skipped: {model} is no docsis-ns3, or {python} has no ns3")
        return
    with tempfile.TemporaryDirectory() as folder:
        build = cache(lambda of: compiled(of, model, ns3, Path(folder)))
        if table == "switches":
            print("| 4 CUBIC + 4 DCTCP, 20 Mbit/s up, RTT 18 ms | C: Mbit/s, ms | L: Mbit/s, ms |\n|---|---|---|")
            for of, cell in SWITCHES:
                values = theirs(build(of), cell) if of else ours(cell)
                c, low = shown(cell, values).split("; ")
                print(f"| {cell.name} | {c[2:].removesuffix(' ms')} | {low[2:].removesuffix(' ms')} |", flush=True)
            return
        print("| cell | docsis-ns3 | its requests corrected | l4slab | within |\n|---|---|---|---|---|")
        for cell in CELLS:
            rows = [theirs(build("published"), cell), theirs(build("corrected"), cell), ours(cell)]
            close = fits(cell, *rows[1:])
            verdict = "yes" if close else f"no: {cell.cause or '?'}"
            cells = " | ".join(shown(cell, values).replace(" ms", "") for values in rows)
            print(f"| {cell.name} | {cells} | {verdict} |", flush=True)


if __name__ == "__main__":
    import l4slab

    if len(sys.argv) < 3:
        print((__doc__ or "").strip())
    else:
        main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "cells")
