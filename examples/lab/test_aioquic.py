"""aioquic as it is, in a lab: an upload of 10 MB through DualPI2, next to a CUBIC flow.

pip install l4slab aioquic pytest && pytest examples/lab/test_aioquic.py
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import ssl
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aioquic")

import l4slab
from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import NameOID

SIZE = 10_000_000


def certificate() -> tuple[Any, Any]:
    """Of a fixed length, as everything that reaches the network has to be for the same times again."""
    key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mine")])
    begin = datetime.datetime(2026, 1, 1)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(begin).not_valid_after(begin + datetime.timedelta(days=36500))
    return made.sign(key, None), key


async def upload(algorithm: str) -> float:
    """The seconds until the last byte of SIZE is acknowledged by a byte."""
    done = asyncio.get_running_loop().create_future()

    async def consume(reader: asyncio.StreamReader) -> None:
        done.set_result(len(await reader.read()))

    def take(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.ensure_future(consume(reader)))

    tasks: list[asyncio.Future[None]] = []
    server = QuicConfiguration(is_client=False)
    server.certificate, server.private_key = certificate()
    client = QuicConfiguration(verify_mode=ssl.CERT_NONE, congestion_control_algorithm=algorithm)
    listener = await serve("mine", 4433, configuration=server, stream_handler=take)
    async with connect("mine", 4433, configuration=client) as connection:
        _, writer = await connection.create_stream()
        writer.write(bytes(SIZE))
        writer.write_eof()
        assert await done == SIZE
        time_s = asyncio.get_running_loop().time()
    listener.close()
    return time_s


def run(algorithm: str, seed: int = 1) -> tuple[float, Any, str]:
    lab = l4slab.Lab(Path(__file__).parent / "dualpi2.toml", seed=seed)
    time_s = lab.run(upload(algorithm))
    results = lab.finish()
    text = "\n".join(table.write_json() for table in (results.flows, results.links, results.series))
    return time_s, results, hashlib.sha256(text.encode()).hexdigest()


def test_an_upload_gets_its_share_and_is_the_same_again() -> None:
    time_s, results, digest = run("cubic")
    share = dict(results.flows.select("flow", "share").iter_rows())["mine"]
    assert time_s < 15
    assert 0.3 < share < 0.7
    assert run("cubic")[2] == digest
    assert run("cubic", seed=2)[2] != digest
