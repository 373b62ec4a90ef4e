"""Data by picoquic for as long as it is let: `server CERTIFICATE KEY CC`, `client ADDRESS CC`; qlog into QLOGDIR."""

import asyncio
import os
import ssl
import sys

from aiopquic.asyncio.client import connect
from aiopquic.asyncio.protocol import QuicConnectionProtocol
from aiopquic.asyncio.server import serve
from aiopquic.quic.configuration import QuicConfiguration

PORT = 4433


def settings(is_client, controller, **more):
    return QuicConfiguration(
        is_client=is_client, alpn_protocols=["transfer"], congestion_control_algorithm=controller, **more
    )


async def server(certificate, key, controller):
    conf = settings(False, controller, certificate_file=certificate, private_key_file=key)
    await serve("0.0.0.0", PORT, configuration=conf, create_protocol=QuicConnectionProtocol)
    await asyncio.Event().wait()


async def client(address, controller):
    qlog = os.environ.get("QLOGDIR")
    conf = settings(True, controller, verify_mode=ssl.CERT_NONE, server_name="l4slab", qlog_dir=qlog)
    async with connect(address, PORT, configuration=conf, create_protocol=QuicConnectionProtocol) as protocol:
        connection = protocol._quic
        stream = connection.get_next_available_stream_id()
        zeros = bytes(1 << 16)
        while True:
            try:
                connection.send_stream_data(stream, zeros)
            except BufferError:
                drained = connection.get_tx_data_drain_event(stream)
                drained.clear()
                connection.set_tx_data_drain_pending(stream)
                try:
                    await asyncio.wait_for(drained.wait(), 0.05)
                except TimeoutError:
                    pass
            else:
                await asyncio.sleep(0)


match sys.argv[1:]:
    case ["server", certificate, key, controller]:
        asyncio.run(server(certificate, key, controller))
    case ["client", address, controller]:
        asyncio.run(client(address, controller))
    case _:
        sys.exit(f"usage: {sys.argv[0]} server CERTIFICATE KEY CC | client ADDRESS CC")
