"""ns-3 as an oracle for `medium = "wifi …"`: the same cells in both, throughput and delay cell by cell.

    python3 -m venv NS3 && NS3/bin/pip install ns3==3.44.post0
    python benches/ns3_wifi.py NS3/bin/python

A cell is an access point with UDP to its stations. ns-3 (GPL) runs in a process of its own: the function `oracle`
below uses its package's interface. Without the package this says so and ends with exit status 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

SECONDS = 2
# ns-3 needs two seconds to associate 20 stations and asks for an address again after one.
WARMUP = 4
# ns-3's defaults: A-MPDUs of 65 535 B, stations in turn, the TXOP limits of 802.11-2020, and no QoS in 802.11b.
LIKE_NS3 = "ampdu-bytes 65535 noairtime txop-vi 4096us txop-vo 2080us"
LIKE_NS3_B = "aifsn-be 2"
# CS0, CS5 and CS6, whose access categories are the same in both.
DSCP = {"BE": 0, "VI": 40, "VO": 48}
# Relative to ns-3, and the absolute difference of delays that is close enough, ms.
THROUGHPUT, DELAY, DELAY_MS = 0.05, 0.15, 0.5


class Cell(NamedTuple):
    """UDP with so many bytes of payload to each of the stations."""

    standard: str
    mcs: int
    stations: int
    payload: int
    load: float
    category: str = "BE"
    amsdu: int = 0

    @property
    def medium(self) -> str:
        like = LIKE_NS3_B if self.standard == "b" else LIKE_NS3
        return f"wifi {self.standard} mcs {self.mcs} amsdu {self.amsdu} {like}"

    @property
    def name(self) -> str:
        """What the table calls it."""
        what = f" {self.category}" * (self.category != "BE") + f" amsdu {self.amsdu}" * (self.amsdu > 0)
        return f"{self.standard} mcs {self.mcs}{what}"

    @property
    def mbps(self) -> float:
        """Payload that is offered: in packets, `load` of what one saturated sender of full packets gets."""
        _, hint, _ = _core.canonical_medium(self.medium)
        return self.load * hint * self.payload / 1514e6


CELLS = [
    *(
        Cell(s, m, 1, 1472, 1.5)
        for s, m in [("n20", 0), ("n20", 7), ("ac20", 3), ("ac80", 4), ("ax20", 5), ("ax80", 3)]
    ),
    *(Cell("ac20", 5, stations, 1472, 1.5) for stations in (2, 5, 10, 20)),
    *(Cell("ax20", 5, 1, payload, 0.9) for payload in (100, 500)),
    *(Cell("ac20", 5, 1, 1472, load) for load in (0.2, 0.5, 0.8)),
    *(Cell("ac20", 5, stations, 1472, 0.5) for stations in (2, 5, 10)),
    *(Cell("ax80", 3, stations, 1472, 0.5) for stations in (5, 10)),
    *(Cell("ac20", 5, 1, 1472, load, category) for category in ("VI", "VO") for load in (1.5, 0.3)),
    *(Cell("ac20", 5, 1, 200, 0.05, category) for category in ("VI", "VO")),
    *(
        Cell(s, m, 1, 1472, 1.5, "BE", amsdu)
        for s, m, amsdu in [("n20", 7, 3839), ("ac80", 4, 7935), ("ax80", 3, 11398)]
    ),
    *(Cell("b", mcs, 1, 1472, 1.5) for mcs in range(4)),
    *(Cell("b", 3, stations, 1472, 0.5) for stations in (1, 5)),
]


def oracle(cells: list[list[Any]], seconds: int, warmup: int) -> None:
    """In ns-3's interpreter: prints for each cell Mbit/s of payload and the mean one-way delay in ms."""
    import json

    from ns import ns

    ns.Config.SetDefault("ns3::HeConfiguration::GuardInterval", ns.TimeValue(ns.NanoSeconds(800)))
    # All stations share this queue; with its 500 packets aggregates of many stations are short.
    ns.Config.SetDefault("ns3::WifiMacQueue::MaxSize", ns.QueueSizeValue(ns.QueueSize("20000p")))
    phy = {"n": ("80211n", "HtMcs"), "ac": ("80211ac", "VhtMcs"), "ax": ("80211ax", "HeMcs"), "b": ("80211b", "Dsss")}
    dsss = ["DsssRate1Mbps", "DsssRate2Mbps", "DsssRate5_5Mbps", "DsssRate11Mbps"]
    for standard, mcs, stations, payload, mbps, dscp, amsdu in cells:
        name, width = standard.rstrip("0123456789"), int(standard.lstrip("nacx").strip("b") or 22)
        ap, sta = ns.NodeContainer(), ns.NodeContainer()
        ap.Create(1)
        sta.Create(stations)
        helper = ns.YansWifiPhyHelper()
        helper.SetChannel(ns.YansWifiChannelHelper.Default().Create())
        helper.Set("ChannelSettings", ns.StringValue(f"{{0, {width}, BAND_{'2_4' if width == 22 else '5'}GHZ, 0}}"))
        wifi, mac = ns.WifiHelper(), ns.WifiMacHelper()
        amendment, mode = phy[name]
        wifi.SetStandard(getattr(ns, f"WIFI_STANDARD_{amendment}"))
        rate = ns.StringValue(dsss[mcs] if name == "b" else f"{mode}{mcs}")
        control = ns.StringValue(dsss[0] if name == "b" else f"OfdmRate{24 if mcs > 2 else 12 if mcs else 6}Mbps")
        wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", rate, "ControlMode", control)
        ssid = ns.SsidValue(ns.Ssid("cell"))
        mac.SetType("ns3::StaWifiMac", "Ssid", ssid)
        ns.Config.SetDefault("ns3::WifiMac::BE_MaxAmsduSize", ns.UintegerValue(amsdu))
        of_sta = wifi.Install(helper, mac, sta)
        mac.SetType("ns3::ApWifiMac", "Ssid", ssid)
        of_ap = wifi.Install(helper, mac, ap)
        mobility = ns.MobilityHelper()
        mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel")
        mobility.Install(ap)
        mobility.Install(sta)
        stack = ns.InternetStackHelper()
        stack.Install(ap)
        stack.Install(sta)
        addresses = ns.Ipv4AddressHelper()
        addresses.SetBase(ns.Ipv4Address("10.1.0.0"), ns.Ipv4Mask("255.255.0.0"))
        to = addresses.Assign(of_sta)
        addresses.Assign(of_ap)
        for i in range(stations):
            anyone = ns.InetSocketAddress(ns.Ipv4Address.GetAny(), 9).ConvertTo()
            sink = ns.PacketSinkHelper("ns3::UdpSocketFactory", anyone)
            sink.Install(sta.Get(i)).Start(ns.Seconds(0))
            client = ns.UdpClientHelper(ns.InetSocketAddress(to.GetAddress(i), 9).ConvertTo())
            client.SetAttribute("MaxPackets", ns.UintegerValue(4_000_000_000))
            gap = payload * 8 / (mbps / stations)
            client.SetAttribute("Interval", ns.TimeValue(ns.NanoSeconds(int(gap * 1000))))
            client.SetAttribute("PacketSize", ns.UintegerValue(payload))
            client.SetAttribute("Tos", ns.UintegerValue(dscp << 2))
            client.Install(ap.Get(0)).Start(ns.MicroSeconds(int(5e5 * warmup + gap * i / stations)))
        monitor = ns.FlowMonitorHelper()
        seen = monitor.InstallAll()
        # What is received after the warm-up: addresses and block acknowledgement are agreed on before.
        totals = []
        for span in (warmup, seconds):
            ns.Simulator.Stop(ns.Seconds(span))
            ns.Simulator.Run()
            flows = [flow.second for flow in seen.GetFlowStats()]
            totals.append((sum(f.rxPackets for f in flows), sum(f.delaySum.GetSeconds() for f in flows)))
        packets, delay = (after - before for before, after in zip(*totals, strict=True))
        print(json.dumps([packets * payload * 8e-6 / seconds, 1e3 * delay / max(packets, 1)]), flush=True)
        ns.Simulator.Destroy()


def ours(cell: Cell) -> tuple[float, float]:
    """The same of l4slab."""
    gap_s = cell.payload * 8e-6 / (cell.mbps / cell.stations)
    frame = cell.payload + 28 + 14
    flows = [
        f"""
[[flow]]
name = "f{i}"
kind = "cbr"
rate = "{8 * frame / gap_s:.0f}bit"
packet = "{frame}B"
rtt = "0ms"
dscp = {DSCP[cell.category]}
start = "{1e6 * gap_s * i / cell.stations:.0f}us"
path = ["cell"]
"""
        for i in range(cell.stations)
    ]
    text = f"""
duration = "{SECONDS + WARMUP}s"
warmup = "{WARMUP}s"
start_jitter = "0s"
[link.cell]
medium = "{cell.medium}"
qdisc = "pfifo limit 500"
{"".join(flows)}"""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cell.toml"
        file.write_text(text, encoding="utf-8")
        found = l4slab.run(file, out=Path(folder) / "out", workers=1)
        rows = found.series.filter(link="cell", queue="all").filter(pl.col("time_s") > WARMUP)
        parts = ("sojourn_ms", "access_ms", "air_ms", "reorder_ms")
        delay = sum(float(rows[part].drop_nulls().mean()) for part in parts)
        return float(found.flows["goodput_mbps"].sum()), delay


def main(python: str) -> None:
    """Print the table, a row for each cell."""
    asked = json.dumps([[[*cell[:4], cell.mbps, DSCP[cell.category], *cell[6:]] for cell in CELLS], SECONDS, WARMUP])
    done = subprocess.run(  # noqa: S603 (the interpreter that was named)
        [python, __file__, "--oracle", asked], capture_output=True, text=True, check=False
    )
    theirs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[") and "Cling" not in line]
    if len(theirs) < len(CELLS):
        print(f"skipped: {python} has no ns-3 that runs ({done.stderr.strip().splitlines()[-1:]})")
        return
    print("| cell | stations | load | Mbit/s: ns-3, l4slab | delay, ms | within |\n" + "|---" * 6 + "|")
    for cell, (mbps, ms) in zip(CELLS, theirs, strict=True):
        our_mbps, our_ms = ours(cell)
        # A full queue's delay is the queue's, which differs: ns-3 has FQ-CoDel before its own.
        is_full = cell.load > 1
        fits = abs(our_mbps / mbps - 1) <= THROUGHPUT
        fits &= is_full or abs(our_ms - ms) <= max(DELAY * ms, DELAY_MS)
        delays = "" if is_full else f"{ms:.2f}, {our_ms:.2f} "
        name = cell.name if cell.payload == 1472 else f"{cell.name}, {cell.payload} B"
        about = f"| {name} | {cell.stations} | {cell.load:g} "
        print(f"{about}| {mbps:.2f}, {our_mbps:.2f} | {delays}| {'yes' if fits else 'no'} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--oracle"]:
        oracle(*json.loads(sys.argv[2]))
    else:
        import l4slab
        import polars as pl
        from l4slab import _core

        main(sys.argv[1])
