"""How fast the engine `linux` goes on while somebody watches, compared with the wall clock.

    python benches/linux_live.py [SECONDS]

Two flows (Prague and CUBIC, 10 ms) through DualPI2, samples every 20 ms with packets and histograms, one request for
each: seconds of virtual time per second of wall clock, and from the start until the first sample.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from l4slab import Experiment, Flow, Link, sweep
from l4slab.api.experiment import load
from l4slab.engines.linux.live import LinuxLive

STEP_NS = 20_000_000
WATCH = {"sample_ns": STEP_NS, "members": True, "histograms": True, "packets": True}


def ask(live: LinuxLive, **request: Any) -> dict[str, Any]:
    """What is answered."""
    answer = json.loads(live.ask(json.dumps(request)))
    if "refused" in answer:
        raise SystemExit(answer["refused"])
    return dict(answer["ok"])


def main() -> None:
    """Measure, a row for each rate."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    print("rate       first sample  virtual/wall")
    for mbps in (10, 50, 100, 400):
        flows = [Flow(name="l4s", cc="prague", rtt="10ms"), Flow(name="classic", cc="cubic", rtt="10ms")]
        links = {"bottleneck": Link(rate=f"{mbps}Mbit", qdisc="dualpi2")}
        experiment = Experiment(duration=f"{seconds:g}s", links=links, flows=flows)
        run = dict(sweep.expand(load(experiment, {}), "linux").runs[0].description)
        live = LinuxLive()
        began = time.monotonic()
        ask(live, do="start", run=run, watch=WATCH)
        ask(live, do="advance", until_ns=STEP_NS)
        first = time.monotonic()
        now = STEP_NS
        while now < seconds * 1e9:
            now += STEP_NS
            ask(live, do="advance", until_ns=now)
        speed = (now - STEP_NS) * 1e-9 / (time.monotonic() - first)
        live.close()
        print(f"{mbps:4d} Mb/s  {first - began:10.2f} s  {speed:12.2f}", flush=True)


if __name__ == "__main__":
    main()
