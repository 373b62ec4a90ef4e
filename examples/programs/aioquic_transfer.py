"""A transfer over QUIC with aioquic: `server CERTIFICATE KEY`, `client ADDRESS BYTES [reno|cubic]`."""

from __future__ import annotations

import asyncio
import ssl
import sys
import time

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration

PORT = 4433
PROTOCOL = ["transfer"]
WINDOW = 1 << 30  # that never limits


def configuration(is_client: bool, controller: str = "reno") -> QuicConfiguration:
    """Of either end, with windows that never limit and without checks of the certificate."""
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=PROTOCOL,
        congestion_control_algorithm=controller,
        max_data=WINDOW,
        max_stream_data=WINDOW,
        verify_mode=ssl.CERT_NONE,
    )


async def server(certificate: str, key: str) -> None:
    """Take what comes on each stream and answer how much it was."""
    settings = configuration(is_client=False)
    settings.load_cert_chain(certificate, key)

    def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.ensure_future(count(reader, writer)))

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came = 0
        while data := await reader.read(1 << 20):
            came += len(data)
        writer.write(came.to_bytes(8, "big"))
        writer.write_eof()
        print(came, "bytes came", flush=True)

    tasks: list[asyncio.Task[None]] = []
    await serve("0.0.0.0", PORT, configuration=settings, stream_handler=answer)  # noqa: S104
    await asyncio.Event().wait()


async def client(address: str, size: int, controller: str) -> None:
    """Send so many bytes, and wait until the other end has them."""
    begun = time.monotonic()
    async with connect(address, PORT, configuration=configuration(is_client=True, controller=controller)) as connection:
        ready = time.monotonic()
        reader, writer = await connection.create_stream()
        writer.write(bytes(size))
        writer.write_eof()
        answer = await reader.read()
        ended = time.monotonic()
    if int.from_bytes(answer, "big") != size:
        sys.exit("not everything came")
    print(f"handshake {ready - begun:.3f} s, transfer {ended - begun:.3f} s")


match sys.argv[1:]:
    case ["server", certificate, key]:
        asyncio.run(server(certificate, key))
    case ["client", address, size, *controller]:
        asyncio.run(client(address, int(size), *(controller or ["reno"])))
    case _:
        sys.exit(f"usage: {sys.argv[0]} server CERTIFICATE KEY | client ADDRESS BYTES [reno|cubic]")
