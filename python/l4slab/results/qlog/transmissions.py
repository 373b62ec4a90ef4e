"""TCP's sequence numbers as QUIC's packet numbers: each transmission has its own number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Transmission:
    """A segment that left, with data or a SYN or FIN, which count as a byte each."""

    number: int
    time_ns: int
    stamp: int  # its timestamp option (RFC 7323)
    missing: int  # bytes of which no ACK says that they came in this transmission
    in_flight: int  # bytes


@dataclass(slots=True)
class _Span:
    """Consecutive bytes that were always sent together: up to `end`, by `copies` in the order of time."""

    end: int
    copies: list[Transmission]


@dataclass(slots=True)
class Acked:
    """The content of an ACK."""

    numbers: list[int] = field(default_factory=list)  # of transmissions whose bytes have now all arrived, ascending
    rtt_ns: int | None = None  # of the newest of them that was sent once (Karn's rule)


class Transmissions:
    """Those of one connection, as its sender's host sees them.

    A retransmission says that what it repeats was taken for lost. An ACK of repeated bytes is for their latest
    transmission, unless it moves the cumulative ACK and echoes the timestamp of an earlier one (as in Eifel, RFC 3522).
    A D-SACK (RFC 2883) says that another transmission came, too.
    """

    def __init__(self) -> None:
        self.next = 0  # the byte after the last one sent, of the stream that begins with the SYN
        self.una = 0  # the first byte that no cumulative ACK covers
        self.in_flight = 0  # bytes sent and neither acknowledged nor repeated
        self.min_rtt_ns: int | None = None
        self._count = 0
        self._starts: list[int] = []  # of all spans, ascending; those that are settled for good are not in the next one
        self._spans: dict[int, _Span] = {}
        # Disjoint ranges above `una` that SACK has covered.
        self._left: list[int] = []
        self._right: list[int] = []

    def send(self, time_ns: int, start: int, end: int, stamp: int = 0) -> tuple[int, list[int]]:
        """Bytes leave; the transmission's number, and those of the transmissions that count as lost with this."""
        sent = Transmission(self._count, time_ns, stamp, end - start, 0)
        self._count += 1
        lost: list[int] = []
        if start < self.next:
            self._split(start)
            self._split(end)
            for at, span in self._between(start, min(end, self.next)):
                for copy in span.copies:
                    if copy.in_flight:
                        self.in_flight -= copy.in_flight
                        copy.in_flight = 0
                        lost.append(copy.number)
                span.copies.append(sent)
                if not self._is_sacked(at):
                    sent.in_flight += span.end - at
        fresh = max(start, self.next)
        if end > fresh:
            self._starts.append(fresh)
            self._spans[fresh] = _Span(end, [sent])
            sent.in_flight += end - fresh
            self.next = end
        self.in_flight += sent.in_flight
        return sent.number, sorted(lost)

    def ack(self, time_ns: int, cumulative: int, blocks: list[tuple[int, int]], echo: int | None = None) -> Acked:
        """An ACK arrives, with SACK blocks and the timestamp that it echoes."""
        told, newest = Acked(), -1
        first = self.una
        pieces: list[tuple[int, int]] = []
        if cumulative > self.una:
            pieces += self._uncovered(self.una, cumulative)
            self.una = min(cumulative, self.next)
            self._forget_below()
        duplicate = _is_duplicate(cumulative, blocks)
        for left, right in blocks[1:] if duplicate else blocks:
            if self.una < right <= self.next:
                left = max(left, self.una)
                pieces += self._uncovered(left, right)
                self._cover(left, right)
        for left, right in pieces:
            self._split(right)
            for at, span in self._between(left, right):
                newest = max(newest, self._settle(at, span, echo if at == first < self.una else None, told))
        if duplicate:
            self._come_again(*blocks[0], told)
        if newest >= 0:
            told.rtt_ns = time_ns - newest
            if self.min_rtt_ns is None or told.rtt_ns < self.min_rtt_ns:
                self.min_rtt_ns = told.rtt_ns
        told.numbers.sort()
        return told

    def _settle(self, at: int, span: _Span, echo: int | None, told: Acked) -> int:
        """A span's bytes have arrived; when it was sent, if it was sent once."""
        length = span.end - at
        for copy in span.copies:
            taken = min(copy.in_flight, length)
            copy.in_flight -= taken
            self.in_flight -= taken
        copies = reversed(span.copies)
        arrived = next((copy for copy in copies if echo is None or _not_after(copy.stamp, echo)), span.copies[0])
        arrived.missing -= length
        if not arrived.missing:
            told.numbers.append(arrived.number)
        if len(span.copies) == 1:
            del self._spans[at]
            return arrived.time_ns
        # The others may be told of by a D-SACK.
        span.copies.remove(arrived)
        return -1

    def _come_again(self, left: int, right: int, told: Acked) -> None:
        """A D-SACK: these bytes have arrived once more."""
        while left < right and (span := self._spans.get(left)) is not None:
            others = [copy for copy in span.copies if copy.missing]
            if others and not (left >= self.una and not self._is_sacked(left)):
                copy = others[-1]
                copy.missing -= span.end - left
                if not copy.missing:
                    told.numbers.append(copy.number)
                span.copies.remove(copy)
            left = span.end

    def _between(self, left: int, right: int) -> Iterator[tuple[int, _Span]]:
        """The spans that begin in there and are not settled for good."""
        starts = self._starts
        for index in range(bisect_left(starts, left), len(starts)):
            at = starts[index]
            if at >= right:
                return
            if (span := self._spans.get(at)) is not None:
                yield at, span

    def _split(self, at: int) -> None:
        """Makes a boundary here, where a retransmission or an ACK has one and what was sent before has not."""
        if at in self._spans or at >= self.next:
            return
        index = bisect_right(self._starts, at) - 1
        if index < 0 or (span := self._spans.get(self._starts[index])) is None or span.end <= at:
            return
        self._spans[at] = _Span(span.end, list(span.copies))
        self._starts.insert(index + 1, at)
        span.end = at

    def _is_sacked(self, at: int) -> bool:
        index = bisect_right(self._left, at) - 1
        return index >= 0 and self._right[index] > at

    def _uncovered(self, left: int, right: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that SACK has not covered before."""
        index = bisect_right(self._right, left)
        while index < len(self._left) and self._left[index] < right:
            if left < self._left[index]:
                yield left, self._left[index]
            left = self._right[index]
            index += 1
        if left < right:
            yield left, right

    def _cover(self, left: int, right: int) -> None:
        """Adds a range to what SACK has covered; what touches becomes one."""
        first = bisect_left(self._right, left)
        last = bisect_right(self._left, right)
        if first < last:
            left, right = min(left, self._left[first]), max(right, self._right[last - 1])
        self._left[first:last] = [left]
        self._right[first:last] = [right]

    def _forget_below(self) -> None:
        """Remove what the cumulative ACK has passed. Spans with transmissions of unknown fate stay."""
        passed = bisect_right(self._right, self.una)
        del self._left[:passed], self._right[:passed]
        if self._left and self._left[0] < self.una:
            self._left[0] = self.una


def _is_duplicate(cumulative: int, blocks: list[tuple[int, int]]) -> bool:
    """Whether the first block is a D-SACK: below the cumulative ACK, or within the second block."""
    if not blocks:
        return False
    (left, right), rest = blocks[0], blocks[1:]
    return right <= cumulative or bool(rest and rest[0][0] <= left and right <= rest[0][1])


def _not_after(stamp: int, echo: int) -> bool:
    """Whether a timestamp is not later than another; they wrap."""
    return (echo - stamp) % (1 << 32) < 1 << 31


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges, both ends included."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
