"""Reads the captures that the engines write: frames of Ethernet, IPv4 and TCP, whose payload need not be there.

pcapng with one interface (the simulator) or pcap (the kernel), little endian, in nanoseconds, gzipped or not. Our own
reader, because the libraries (scapy, dpkt) take 20 to 100 us a packet, and a capture may have millions.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple, Protocol

FIN, SYN, ACK = 0x001, 0x002, 0x010
ECE, CWR, AE = 0x040, 0x080, 0x100

_PIECE = 1 << 20
_SECTION = b"\x0a\x0d\x0d\x0a"
_PCAP = b"\x4d\x3c\xb2\xa1"
_PCAP_HEADER = 24
_ENHANCED_PACKET = 6
# Of a block: its type and length; of a packet in it, the time in two halves and how much of it was captured.
_BLOCK = struct.Struct("<II")
_IN_BLOCK = struct.Struct("<12xIII4x")
_RECORD = struct.Struct("<III4x")
# Ethernet: no field. IP without options: ECN and length, protocol, addresses. TCP: ports, numbers, flags.
_HEADERS = struct.Struct("!14xxBH5xB2x4s4sHHIIH")
_PROTOCOL = 23
_IP, _TCP, _OPTIONS = 14, 34, 54
_PROTOCOL_TCP = 6


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Segment(NamedTuple):
    """A TCP segment that passed a host."""

    time_ns: int  # since the start of the run
    source: bytes  # IPv4 addresses
    destination: bytes
    source_port: int
    destination_port: int
    seq: int
    ack: int
    flags: int  # with AE
    ecn: int  # the codepoint of its IP header
    length: int  # of the IP packet, bytes
    payload: int  # bytes
    options: bytes


def segments(path: Path) -> Iterator[Segment]:
    """The TCP segments of a capture, in its order. Raises OSError, and ValueError where it is none of these formats."""
    with path.open("rb") as packed, gzip.open(packed) if path.suffix == ".gz" else nullcontext(packed) as file:
        start = file.read(4)
        if start not in (_SECTION, _PCAP):
            raise ValueError("it is no capture of an engine")
        for time_ns, data in _blocks(file, start) if start == _SECTION else _records(file):
            if len(data) < _OPTIONS or data[_PROTOCOL] != _PROTOCOL_TCP:
                continue
            tos, length, _, source, destination, from_port, to_port, seq, ack, flags = _HEADERS.unpack_from(data)
            header = (flags >> 12) * 4
            yield Segment(
                time_ns,
                source,
                destination,
                from_port,
                to_port,
                seq,
                ack,
                flags & 0x1FF,
                tos & 3,
                length,
                length - (_TCP - _IP) - header,
                data[_OPTIONS : _TCP + header],
            )


def _blocks(file: _Readable, start: bytes) -> Iterator[tuple[int, bytes]]:
    """Times and frames of a pcapng file."""
    held, at = start, 0
    while piece := file.read(_PIECE):
        held, at = held[at:] + piece, 0
        while len(held) - at >= _BLOCK.size:
            kind, length = _BLOCK.unpack_from(held, at)
            if len(held) - at < length:
                break
            if kind == _ENHANCED_PACKET:
                high, low, captured = _IN_BLOCK.unpack_from(held, at)
                data = at + _IN_BLOCK.size
                yield high << 32 | low, held[data : data + captured]
            at += length


def _records(file: _Readable) -> Iterator[tuple[int, bytes]]:
    """Times and frames of a pcap file, whose first word has been read."""
    file.read(_PCAP_HEADER - 4)
    held, at = b"", 0
    while piece := file.read(_PIECE):
        held, at = held[at:] + piece, 0
        while len(held) - at >= _RECORD.size:
            seconds, ns, captured = _RECORD.unpack_from(held, at)
            data = at + _RECORD.size
            if len(held) - data < captured:
                break
            yield seconds * 1_000_000_000 + ns, held[data : data + captured]
            at = data + captured
