"""From the segments at a sender's host to the events of qlog, one connection at a time.

Events are those of draft-ietf-quic-qlog-quic-events in the version that says "0.3", which qvis reads; records are JSON
text sequences (RFC 7464).
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from l4slab.base.values import Keys
from l4slab.results.qlog.feedback import Feedback
from l4slab.results.qlog.frames import ACK, CWR, FIN, SYN, Segment
from l4slab.results.qlog.options import read_options
from l4slab.results.qlog.transmissions import Transmissions, ranges

RECORD = "\x1e"
VERSION = "0.3"

_ECN = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")
_BUFFERED = 20_000
_WRAP = 1 << 32


class Sample(NamedTuple):
    """The sender's own values at a step of the time series."""

    time_ns: int
    cwnd_packets: float
    srtt_ms: float


class Connection:
    """A connection and the file that tells of it."""

    def __init__(self, path: Path, header: Keys, samples: Iterable[Sample], syn: Segment) -> None:
        self._path = path
        self._lines = [RECORD + json.dumps(header, ensure_ascii=False, separators=(",", ":"))]
        self._samples = iter(samples)
        self._sample = next(self._samples, None)
        self._client = syn.source, syn.source_port
        self._first = syn.seq
        self._sent = Transmissions()
        self._feedback = Feedback()
        self._received = 0
        self._mss = 0
        # The state of TCP as far as the wire shows it, and the byte whose ACK ends it.
        self._state, self._until = "open", 0
        # What has changed at an instant is told when that is over.
        self._now = syn.time_ns
        self._told_in_flight = 0
        self._rtt_ns: int | None = None
        self._told_min_rtt_ns: int | None = None
        path.write_text("")
        self._event(
            "connectivity:connection_started",
            f'"ip_version":"v4","src_ip":"{ipaddress.ip_address(syn.source)}",'
            f'"dst_ip":"{ipaddress.ip_address(syn.destination)}","src_port":{syn.source_port},'
            f'"dst_port":{syn.destination_port}',
        )

    def see(self, segment: Segment) -> None:
        """A segment leaves or arrives."""
        if segment.time_ns > self._now:
            self._end_instant(segment.time_ns)
        if (segment.source, segment.source_port) == self._client:
            self._leaves(segment)
        else:
            self._arrives(segment)

    def close(self) -> Path:
        """Nothing comes any more; the file is complete."""
        self._end_instant(None)
        self._write()
        return self._path

    def _leaves(self, segment: Segment) -> None:
        length = segment.payload + bool(segment.flags & SYN) + bool(segment.flags & FIN)
        if not length:
            return
        is_syn = bool(segment.flags & SYN)
        if is_syn:
            self._feedback.offer(segment)
        self._mss = max(self._mss, segment.payload)
        start = self._unwrapped(segment.seq, self._sent.next)
        number, lost = self._sent.send(segment.time_ns, start, start + length, read_options(segment.options).stamp)
        kind = "initial" if is_syn else "1RTT"
        for one in lost:
            self._event("recovery:packet_lost", f'"header":{{"packet_type":"{kind}","packet_number":{one}}}')
        if lost and self._state != "recovery":
            self._become("recovery")
        elif self._feedback.mode == "classic" and segment.flags & CWR and self._state == "open":
            self._become("cwr", ',"trigger":"ecn"')
        frame = ""
        if not is_syn:
            end = ',"fin":true' if segment.flags & FIN else ""
            # The SYN is the byte before the data.
            frame = f'{{"frame_type":"stream","stream_id":0,"offset":{start - 1},"length":{segment.payload}{end}}}'
        self._event(
            "transport:packet_sent",
            f'"header":{{"packet_type":"{kind}","packet_number":{number}}},"ecn":"{_ECN[segment.ecn]}",'
            f'"raw":{{"length":{segment.length},"payload_length":{segment.payload}}},"frames":[{frame}]',
        )

    def _arrives(self, segment: Segment) -> None:
        number, self._received = self._received, self._received + 1
        kind = "1RTT"
        if segment.flags & SYN:
            kind = "initial"
            self._feedback.agree(segment)
        frame = ""
        if segment.flags & ACK:
            frame = self._ack_frame(segment)
        self._event(
            "transport:packet_received",
            f'"header":{{"packet_type":"{kind}","packet_number":{number}}},"ecn":"{_ECN[segment.ecn]}",'
            f'"raw":{{"length":{segment.length},"payload_length":{segment.payload}}},"frames":[{frame}]',
        )
        if self._state != "open" and self._sent.una >= self._until:
            self._become("open")

    def _ack_frame(self, segment: Segment) -> str:
        una = self._sent.una
        cumulative = self._unwrapped(segment.ack, una)
        options = read_options(segment.options)
        told = self._sent.ack(
            segment.time_ns,
            cumulative,
            [(self._unwrapped(left, cumulative), self._unwrapped(right, cumulative)) for left, right in options.blocks],
            options.echo,
        )
        if told.rtt_ns is not None:
            self._rtt_ns = told.rtt_ns
        text = '{"frame_type":"ack"'
        if told.numbers:
            text += ',"acked_ranges":[' + ",".join(f"[{low},{high}]" for low, high in ranges(told.numbers)) + "]"
        # One that was overtaken on its way tells of counts that were.
        if cumulative >= una:
            counts = self._feedback.hear(segment, options.counters, len(told.numbers), self._mss)
            text += "".join(f',"{name}":{count}' for name, count in counts.items())
        return text + "}"

    def _become(self, state: str, trigger: str = "") -> None:
        self._event("recovery:congestion_state_updated", f'"old":"{self._state}","new":"{state}"{trigger}')
        self._state, self._until = state, self._sent.next

    def _end_instant(self, next_ns: int | None) -> None:
        """Writes the changes of this instant, and the samples before the next one."""
        news = []
        if self._sent.in_flight != self._told_in_flight:
            self._told_in_flight = self._sent.in_flight
            news.append(f'"bytes_in_flight":{self._told_in_flight}')
        if self._rtt_ns is not None:
            news.append(f'"latest_rtt":{_ms(self._rtt_ns)}')
            self._rtt_ns = None
        if self._sent.min_rtt_ns is not None and self._sent.min_rtt_ns != self._told_min_rtt_ns:
            self._told_min_rtt_ns = self._sent.min_rtt_ns
            news.append(f'"min_rtt":{_ms(self._told_min_rtt_ns)}')
        if news:
            self._event("recovery:metrics_updated", ",".join(news))
        while self._sample is not None and (next_ns is None or self._sample.time_ns <= next_ns):
            if self._mss and self._sample.time_ns >= self._now:
                self._now = self._sample.time_ns
                self._event(
                    "recovery:metrics_updated",
                    f'"congestion_window":{round(self._sample.cwnd_packets * self._mss)},'
                    f'"smoothed_rtt":{self._sample.srtt_ms:.6f}',
                )
            self._sample = next(self._samples, None)
        if next_ns is not None:
            self._now = next_ns
        if len(self._lines) > _BUFFERED:
            self._write()

    def _event(self, name: str, data: str) -> None:
        self._lines.append(f'{RECORD}{{"time":{_ms(self._now)},"name":"{name}","data":{{{data}}}}}')

    def _write(self) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write("\n".join(self._lines) + "\n")
        self._lines = []

    def _unwrapped(self, number: int, near: int) -> int:
        """The byte of the stream with this sequence number that is nearest to another one."""
        return near + (number - self._first - near + _WRAP // 2) % _WRAP - _WRAP // 2


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.6f}"
