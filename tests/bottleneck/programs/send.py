"""Clients: send.py tcp ADDRESS BYTES, or send.py udp ADDRESS COUNT RATE_BPS. Prints what the server has seen."""

import hashlib
import json
import random
import socket
import sys
import time

UDP_SEGMENT = 103
SIZE, AT_ONCE = 1200, 10


def connected(address):
    """The command starts when the first of several servers listens; this one may be a moment later."""
    for _ in range(100):
        try:
            return socket.create_connection((address, 5001))
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise ConnectionRefusedError(address)


def tcp(address, amount):
    data = random.Random(1).randbytes(int(amount))
    connection = connected(address)
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
    told = b""
    while part := connection.recv(65536):
        told += part
    seen = json.loads(told)
    seen["equal"] = seen.pop("digest") == hashlib.sha256(data).hexdigest()
    return seen


def udp(address, count, rate):
    """ECT(1) datagrams, ten of them in each call."""
    is_v6 = ":" in address
    sender = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_DGRAM)
    field = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if is_v6 else (socket.IPPROTO_IP, socket.IP_TOS)
    sender.setsockopt(*field, 1)
    sender.setsockopt(socket.SOL_UDP if hasattr(socket, "SOL_UDP") else 17, UDP_SEGMENT, SIZE)
    sender.connect((address, 5001))
    begun = time.monotonic()
    for first in range(0, int(count), AT_ONCE):
        numbers = range(first, first + AT_ONCE)
        sender.send(b"".join(n.to_bytes(4, "big") + bytes([n % 251]) * (SIZE - 4) for n in numbers))
        time.sleep(max(0, begun + (first + AT_ONCE) * SIZE * 8 / float(rate) - time.monotonic()))
    sender.setsockopt(*field, 0)
    time.sleep(0.2)
    for _ in range(3):
        sender.send(b"end")
    sender.settimeout(10)
    return json.loads(sender.recv(65536))


if __name__ == "__main__":
    seen = {"tcp": tcp, "udp": udp}[sys.argv[1]](*sys.argv[2:])
    print("SEEN", json.dumps(seen), flush=True)
