"""l4slab bottleneck beside Rattan, on the same machine in one run: rate, processor time and lateness.

    cargo install rattan --version 0.1.1
    python benches/rattan.py [SECONDS]

Both forward between network namespaces over 10 ms and a drop-tail queue. It needs root, which Rattan requires, and
iperf3. Each row has one TCP flow of iperf3 with the kernel's default congestion control, and then 1000 datagrams per
second alone on the link: lateness is what their one-way delay exceeds that of the path (5 ms and the time on the
link). Both ends read the same clock. For l4slab the rows are with and without real-time priority.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

FRAME, PAYLOAD, DATAGRAM = 1514, 1448, 1000
HEADERS = 42  # Ethernet, IPv4, UDP
RATES = (100, 500, 1000, 2000)
# Run in one process each: the receiver writes one-way delays in ns when the sender says that it has ended.
RECEIVE = """
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 7000))
delays = []
while True:
    data = s.recv(2000)
    delays.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - struct.unpack("q", data[:8])[0])
    if data[8]:
        break
open(sys.argv[1], "w").write("\\n".join(map(str, delays)))
"""
SEND = f"""
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def send(end):
    stamp = struct.pack("q", time.clock_gettime_ns(time.CLOCK_MONOTONIC)) + end
    s.sendto(stamp.ljust({DATAGRAM}, b"\\0"), (sys.argv[1], 7000))
at, end = time.monotonic(), time.monotonic() + float(sys.argv[2])
while (now := time.monotonic()) < end:
    send(b"\\0")
    at += 0.001
    time.sleep(max(0.0, at - time.monotonic()))
for _ in range(3):
    send(b"\\1")
time.sleep(0.5)  # the receiver ends with this
"""


def experiment(folder: Path, mbps: int, limit: int) -> Path:
    """The file of the path."""
    file = folder / "path.toml"
    file.write_text(
        f'duration = "60s"\n[link.one]\nrate = "{mbps}Mbit"\nqdisc = "pfifo limit {limit}"\n'
        '[[flow]]\nname = "a"\ncc = "cubic"\nrtt = "10ms"\n'
    )
    return file


def ours(folder: Path, mbps: int, limit: int, server: str, client: str, realtime: bool) -> float:
    """Runs both commands; processor time of the forwarder, s."""
    words = [
        sys.executable,
        "-m",
        "l4slab",
        "bottleneck",
        str(experiment(folder, mbps, limit)),
        "--json",
        "--late",
        "10s",
    ]
    words += ["--realtime" if realtime else "--no-realtime", "--server", server]
    words += ["--", "sh", "-c", client.format(server="10.0.0.2")]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)  # noqa: S603
    summary = json.loads(done.stdout)
    return float(summary["user_s"] + summary["system_s"])


def theirs(folder: Path, mbps: int, limit: int, server: str, client: str) -> float:
    """The same with Rattan, in a network namespace of its own. Its command's parent is Rattan."""
    spent = folder / "stat"
    words = ["rattan", "link", "--uplink-delay", "5ms", "--downlink-delay", "5ms", "--uplink-bandwidth", f"{mbps}Mbps"]
    words += ["--uplink-queue", "droptail", "--uplink-queue-args", json.dumps({"packet_limit": limit})]
    text = client.format(server="$RATTAN_BASE") + f"; cat /proc/$PPID/stat >{spent}"
    script = f'ip link set lo up; {server} & sleep 0.5; exec "$@"'
    start = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    subprocess.run([*start, "sh", "-c", script, "sh", *words, "--", "sh", "-c", text], capture_output=True, check=True)  # noqa: S603
    user, system = spent.read_text().rpartition(") ")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def row(name: str, mbps: int, seconds: int, folder: Path) -> str:
    """What one forwarder does at one rate."""
    limit = max(50, mbps * 20_000 // (8 * FRAME))  # 20 ms

    def run(server: str, client: str) -> float:
        if name == "Rattan":
            return theirs(folder, mbps, limit, server, client)
        return ours(folder, mbps, limit, server, client, realtime="real-time" in name)

    told, delays = folder / "iperf.json", folder / "delays"
    cpu_s = run("iperf3 -s -1 >/dev/null", f"iperf3 -c {{server}} -t {seconds} -J >{told}")
    received = json.loads(told.read_text())["end"]["sum_received"]
    for text, file in ((RECEIVE, "receive.py"), (SEND, "send.py")):
        (folder / file).write_text(text)
    delays.unlink(missing_ok=True)
    run(f"{sys.executable} {folder}/receive.py {delays}", f"{sys.executable} {folder}/send.py {{server}} {seconds}")
    path_ns = 5_000_000 + (DATAGRAM + HEADERS) * 8000 / mbps
    late = sorted(int(line) - path_ns for line in delays.read_text().splitlines())
    p50, p99, most = (late[int(q * (len(late) - 1))] / 1e6 for q in (0.5, 0.99, 1))
    delivered, core = received["bits_per_second"] / 1e6, cpu_s / received["seconds"]
    frames = received["bytes"] / PAYLOAD / cpu_s
    return f"| {mbps} | {name} | {delivered:.0f} | {core:.0%} | {frames:,.0f} | {p50:.2f}, {p99:.2f}, {most:.2f} |"


def table(seconds: int) -> Iterator[str]:
    """Its lines."""
    yield "| Mbit/s | forwarder | delivered | its core | packets per processor second | late ms p50, p99, max |"
    yield "|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as name:
        for mbps in RATES:
            for forwarder in ("l4slab, real-time priority", "l4slab", "Rattan"):
                yield row(forwarder, mbps, seconds, Path(name))


if __name__ == "__main__":
    missing = [name for name in ("rattan", "iperf3", "unshare") if shutil.which(name) is None]
    missing += [] if os.geteuid() == 0 else ["root"]
    if missing:
        sys.exit(f"missing: {', '.join(missing)}; see the head of this file")
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 4):
        print(line, flush=True)
