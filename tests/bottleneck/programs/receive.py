"""Servers for the tests of the bottleneck: receive.py tcp|udp [ADDRESS]. What they have seen goes to the client."""

import hashlib
import json
import socket
import sys
from pathlib import Path


def counters():
    """What the kernel of this namespace has counted."""
    found = {}
    for file in ("snmp", "netstat"):
        lines = Path(f"/proc/thread-self/net/{file}").read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            prefix = names.split(":")[0]
            for name, value in zip(names.split()[1:], values.split()[1:], strict=True):
                found[f"{prefix}.{name}"] = int(value)
    six = Path("/proc/thread-self/net/snmp6")
    if six.exists():
        found |= {name: int(value) for name, value in map(str.split, six.read_text().splitlines())}
    names = (
        "Tcp.InCsumErrors", "IpExt.InCEPkts", "Ip6InCEPkts", "Ip.InHdrErrors", "Udp.InCsumErrors", "Udp.RcvbufErrors",
        "Udp6InCsumErrors", "Udp6RcvbufErrors",
    )  # fmt: skip
    return {name: found.get(name, 0) for name in names}


def tcp(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.create_server((address, 5001), family=family)
    connection, _ = server.accept()
    digest = hashlib.sha256()
    while data := connection.recv(1 << 20):
        digest.update(data)
    connection.sendall(json.dumps({"digest": digest.hexdigest(), "counters": counters()}).encode())
    connection.close()


def udp(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
    else:
        server.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    server.bind((address, 5001))
    server.settimeout(20)
    numbers, marked, right = [], 0, True
    while True:
        data, more, _, sender = server.recvmsg(65536, 256)
        if data == b"end":
            break
        number = int.from_bytes(data[:4], "big")
        numbers.append(number)
        right = right and data[4:] == bytes([number % 251]) * (len(data) - 4)
        marked += any(value and value[0] & 3 == 3 for _, _, value in more)
    told = {"count": len(numbers), "ordered": numbers == sorted(numbers), "right": right, "marked": marked}
    server.sendto(json.dumps(told | {"counters": counters()}).encode(), sender)


if __name__ == "__main__":
    {"tcp": tcp, "udp": udp}[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "0.0.0.0")
