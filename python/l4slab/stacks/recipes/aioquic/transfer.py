"""A transfer over QUIC with aioquic: `server CERTIFICATE KEY`, `client ADDRESS BYTES reno|cubic`; qlog into QLOGDIR."""

import asyncio
import json
import os
import ssl
import sys
import time

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.logger import QuicLogger, QuicLoggerTrace

PORT = 4433
PIECE = 1 << 16
WINDOW = 1 << 40  # that never limits


class Trace(QuicLoggerTrace):
    """Writes each event at once, as JSON-SEQ: aioquic's own logger writes when the connection has ended."""

    def __init__(self, file, **about):
        super().__init__(**about)
        self.file = file

    def log_event(self, *, category, event, data):
        row = {"time": self.encode_time(time.time()), "name": f"{category}:{event}", "data": data}
        self.file.write(json.dumps(row) + "\n")


class Log(QuicLogger):
    def __init__(self, folder):
        super().__init__()
        self.file = open(os.path.join(folder, "client.sqlog"), "w", 1 << 13)
        self.file.write(json.dumps({"qlog_version": "0.3", "qlog_format": "JSON-SEQ"}) + "\n")

    def start_trace(self, is_client, odcid):
        trace = Trace(self.file, is_client=is_client, odcid=odcid)
        self._traces.append(trace)
        return trace


def configuration(is_client, controller="cubic"):
    folder = os.environ.get("QLOGDIR")
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=["transfer"],
        congestion_control_algorithm=controller,
        max_data=WINDOW,
        max_stream_data=WINDOW,
        verify_mode=ssl.CERT_NONE,
        quic_logger=Log(folder) if folder and is_client else None,
    )


async def server(certificate, key):
    """Take what comes on each stream and answer how much it was."""
    settings = configuration(is_client=False)
    settings.load_cert_chain(certificate, key)
    tasks = []

    async def count(reader, writer):
        came = 0
        while data := await reader.read(1 << 20):
            came += len(data)
        writer.write(came.to_bytes(8, "big"))
        writer.write_eof()
        print(came, "bytes came", flush=True)

    def answer(reader, writer):
        tasks.append(asyncio.ensure_future(count(reader, writer)))

    await serve("0.0.0.0", PORT, configuration=settings, stream_handler=answer)
    await asyncio.Event().wait()


async def client(address, size, controller):
    """Send so many bytes, and wait until the other end has them."""
    begun = time.monotonic()
    settings = configuration(True, controller)
    async with connect(address, PORT, configuration=settings) as connection:
        ready = time.monotonic()
        reader, writer = await connection.create_stream()
        # aioquic's writer has no bound on what waits: one is kept here, above any window and below what memory has.
        writer.write(bytes(1))
        stream = connection._quic._streams[0].sender
        zeros, left = bytes(PIECE), size - 1
        while left > 0:
            while stream._buffer_stop - stream._buffer_start > 64 * PIECE:
                await asyncio.sleep(0.002)
            writer.write(zeros[:left])
            left -= min(left, PIECE)
        writer.write_eof()
        answer = await reader.read()
        ended = time.monotonic()
        if int.from_bytes(answer, "big") != size:
            sys.exit("not everything came")
        print(json.dumps({"handshake_s": ready - begun, "transfer_s": ended - begun, "bytes": size}), flush=True)
        connection.close()
        if settings.quic_logger is not None:
            settings.quic_logger.file.flush()
        # Until aioquic calls the connection closed, three timeouts pass, and the time of the transfer would have them.
        os._exit(0)


match sys.argv[1:]:
    case ["server", certificate, key]:
        asyncio.run(server(certificate, key))
    case ["client", address, size, controller]:
        asyncio.run(client(address, int(size), controller))
    case _:
        sys.exit(f"usage: {sys.argv[0]} server CERTIFICATE KEY | client ADDRESS BYTES reno|cubic")
