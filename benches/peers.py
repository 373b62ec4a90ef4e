"""Delivered packets per second of processor time, of l4slab and of ns-3, for the same workloads in turn.

    python3 -m venv NS3 && NS3/bin/pip install ns3==3.44.post0
    python benches/peers.py NS3/bin/python

Both simulate one hop and a pfifo. ns-3 (GPL) runs in a process of its own: the function `theirs` below uses its
package's interface. ns-3 has neither DualPI2 nor Prague, and htsim has no package. Without ns-3 this says so and prints
l4slab alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROUNDS = 3
# Of a full Ethernet frame without FCS, and its UDP and TCP payload.
FRAME, UDP_PAYLOAD, TCP_PAYLOAD = 1514, 1472, 1448


class Case(NamedTuple):
    """So many CUBIC flows, or one CBR source at 90 % of the rate if there are none."""

    name: str
    cubic: int
    mbps: int
    rtt_ms: int
    limit: int
    seconds: float


CASES = [
    Case("CBR at 90 %, 1 Gbit/s", 0, 1000, 10, 1000, 2),
    Case("1 CUBIC, 1 Gbit/s, 10 ms", 1, 1000, 10, 1000, 2),
    Case("20 CUBIC, 1 Gbit/s, 20 ms", 20, 1000, 20, 1000, 2),
    Case("10 000 CUBIC, 10 Gbit/s, 20 ms", 10_000, 10_000, 20, 100_000, 0.5),
]


def theirs(cubic: int, mbps: int, rtt_ms: int, limit: int, seconds: float) -> None:
    """In ns-3's interpreter: prints delivered packets and what they took, s."""
    from ns import ns

    payload = TCP_PAYLOAD if cubic else UDP_PAYLOAD
    for key, value in {"SegmentSize": TCP_PAYLOAD, "SndBufSize": 1 << 26, "RcvBufSize": 1 << 26}.items():
        ns.Config.SetDefault(f"ns3::TcpSocket::{key}", ns.UintegerValue(value))
    ns.Config.SetDefault("ns3::TcpL4Protocol::SocketType", ns.TypeIdValue(ns.TypeId.LookupByName("ns3::TcpCubic")))
    nodes = ns.NodeContainer()
    nodes.Create(2)
    stack = ns.InternetStackHelper()
    stack.Install(nodes)
    wire = ns.PointToPointHelper()
    wire.SetDeviceAttribute("DataRate", ns.StringValue(f"{mbps}Mbps"))
    wire.SetChannelAttribute("Delay", ns.StringValue(f"{rtt_ms / 2}ms"))
    wire.SetQueue("ns3::DropTailQueue", "MaxSize", ns.StringValue("1p"))
    devices = wire.Install(nodes)
    queue = ns.TrafficControlHelper()
    queue.SetRootQueueDisc("ns3::PfifoFastQueueDisc", "MaxSize", ns.QueueSizeValue(ns.QueueSize(f"{limit}p")))
    queue.Install(devices.Get(0))
    addresses = ns.Ipv4AddressHelper()
    addresses.SetBase(ns.Ipv4Address("10.1.0.0"), ns.Ipv4Mask("255.255.0.0"))
    to = addresses.Assign(devices).GetAddress(1)
    factory = f"ns3::{'Tcp' if cubic else 'Udp'}SocketFactory"
    sink = ns.PacketSinkHelper(factory, ns.InetSocketAddress(ns.Ipv4Address.GetAny(), 9).ConvertTo()).Install(
        nodes.Get(1)
    )
    sink.Start(ns.Seconds(0))
    if cubic:
        source = ns.BulkSendHelper(factory, ns.InetSocketAddress(to, 9).ConvertTo())
        source.SetAttribute("SendSize", ns.UintegerValue(64 * TCP_PAYLOAD))
    else:
        source = ns.UdpClientHelper(ns.InetSocketAddress(to, 9).ConvertTo())
        source.SetAttribute("MaxPackets", ns.UintegerValue(4_000_000_000))
        source.SetAttribute("Interval", ns.TimeValue(ns.NanoSeconds(int(FRAME * 8e3 / (0.9 * mbps)))))
        source.SetAttribute("PacketSize", ns.UintegerValue(UDP_PAYLOAD))
    for i in range(max(cubic, 1)):
        source.Install(nodes.Get(0)).Start(ns.MicroSeconds(int(1e5 * i / max(cubic, 1))))
    ns.Simulator.Stop(ns.Seconds(seconds))
    start = time.process_time()
    ns.Simulator.Run()
    took = time.process_time() - start
    received = ns.Config.LookupMatches("/NodeList/1/ApplicationList/0").Get(0)
    print(json.dumps([received.GetObject[ns.PacketSink]().GetTotalRx() / payload, took]), flush=True)


def ours(case: Case) -> tuple[float, float]:
    """The same of l4slab."""
    flow = f'cc = "cubic"\ncount = {case.cubic}' if case.cubic else f'kind = "cbr"\nrate = "{0.9 * case.mbps}Mbit"'
    with TemporaryDirectory() as folder:
        file = Path(folder) / "case.toml"
        file.write_text(
            f'duration = "{case.seconds}s"\n[link.b]\nrate = "{case.mbps}Mbit"\nqdisc = "pfifo limit {case.limit}"\n'
            f'[[flow]]\nname = "f"\n{flow}\nrtt = "{case.rtt_ms}ms"\n',
            encoding="utf-8",
        )
        run = sweep.expand(experimentfile.load(file), "sim").runs[0]
    start = time.process_time()
    delivered = _core.simulate(run.json)["delivered_packets"]
    return delivered, time.process_time() - start


def peer(python: str, case: Case) -> tuple[float, float] | None:
    """What ns-3 prints for it; nothing if it does not run."""
    done = subprocess.run(  # noqa: S603 (the interpreter that was named)
        [python, __file__, "--theirs", json.dumps(case[1:])], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("[") and "Cling" not in line]
    if done.returncode or not lines:
        print(f"skipped: {python} has no ns-3 that runs ({done.stderr.strip().splitlines()[-1:]})", file=sys.stderr)
        return None
    packets, took = json.loads(lines[-1])
    return packets, took


def main(python: str) -> None:
    """A row per case, each the best of some rounds in turn."""
    print("| workload | l4slab | Mbit/s | ns-3 | Mbit/s | times |\n" + "|---" * 6 + "|")
    for case in CASES:
        runs = [(ours(case), peer(python, case)) for _ in range(ROUNDS)]
        frames = FRAME * 8e-6 / case.seconds
        mine, other = ([run for run in side if run] for side in zip(*runs, strict=True))
        row, speeds = [case.name], []
        for side in (mine, other):
            speeds.append(max((packets / took for packets, took in side), default=0.0))
            row += [f"{speeds[-1]:,.0f}", f"{side[0][0] * frames:.0f}"] if side else ["-", "-"]
        row.append(f"{speeds[0] / speeds[1]:.1f}" if other else "-")
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--theirs"]:
        theirs(*json.loads(sys.argv[2]))
    else:
        from l4slab import _core, experimentfile, sweep

        main(sys.argv[1])
