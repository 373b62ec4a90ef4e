"""A transfer over TCP: `transfer.py server`, `transfer.py client ADDRESS BYTES`. The kernel's settings decide the rest."""

import json
import socket
import sys
import threading
import time

PORT = 4433
PIECE = 1 << 17


def count(connection):
    """Take what comes and answer how much it was."""
    came = 0
    while data := connection.recv(1 << 20):
        came += len(data)
    connection.sendall(came.to_bytes(8, "big"))
    connection.close()
    print(came, "bytes came", flush=True)


def server():
    listener = socket.create_server(("0.0.0.0", PORT))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=count, args=(connection,), daemon=True).start()


def client(address, size):
    begun = time.monotonic()
    connection = socket.create_connection((address, PORT))
    ready = time.monotonic()
    # As the engine's own flows: what waits in the socket is at most 128 KiB.
    connection.setsockopt(socket.IPPROTO_TCP, 25, 1 << 17)  # TCP_NOTSENT_LOWAT
    zeros = bytes(PIECE)
    left = size
    while left > 0:
        left -= connection.send(zeros[:left])
    connection.shutdown(socket.SHUT_WR)
    came = int.from_bytes(connection.recv(8), "big")
    if came != size:
        sys.exit(f"{came} of {size} bytes came")
    print(json.dumps({"handshake_s": ready - begun, "transfer_s": time.monotonic() - begun, "bytes": size}))


match sys.argv[1:]:
    case ["server"]:
        server()
    case ["client", address, size]:
        client(address, int(size))
    case _:
        sys.exit(f"usage: {sys.argv[0]} server | client ADDRESS BYTES")
