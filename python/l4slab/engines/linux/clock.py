"""The clock of a machine that only goes on when it is told to: `time-travel=ext` of User Mode Linux.

The machine runs in virtual time, as with `inf-cpu`; but before it goes on to its next event it asks this end of a
socket, and waits in the meantime without any of its time going by. The kernel's include/uapi/linux/um_timetravel.h
describes the messages.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

_MESSAGE = struct.Struct("=IIQ")  # operation, number, time in ns
_ACK, _REQUEST, _WAIT, _GET, _UPDATE, _RUN, _FREE_UNTIL, _TIME_OF_DAY = 0, 2, 3, 4, 5, 6, 7, 8


class ClockError(Exception):
    """The machine does not answer any more."""


class Clock:
    """Listens at a socket in the file system; one machine connects."""

    def __init__(self, path: Path):
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(1)
        self._machine: socket.socket | None = None
        self._number = 0
        self._now = 0  # of its own, from booting
        self.wanted_ns = 0  # when it wants to run next
        self._waits = False

    def connect(self, is_alive: Callable[[], bool], limit_s: float) -> None:
        """Wait for the machine, until it has nothing to do at its time 0. Raises ClockError."""
        end = time.monotonic() + limit_s
        self._listening.settimeout(0.1)
        while self._machine is None:
            try:
                self._machine, _ = self._listening.accept()
            except TimeoutError:
                if not is_alive() or time.monotonic() > end:
                    raise ClockError from None
        self._machine.settimeout(limit_s)
        self._listen()

    def step(self, ahead_ns: int) -> None:
        """The machine does what it wants to do next, and all that comes less than `ahead_ns` later.

        Raises ClockError.
        """
        self._now = self.wanted_ns
        if ahead_ns > 0:
            self._tell(_FREE_UNTIL, self._now + ahead_ns)
        self._tell(_RUN, self._now)
        self._listen()

    def close(self) -> None:
        for one in (self._listening, self._machine):
            if one is not None:
                one.close()

    def _listen(self) -> None:
        """Until the machine waits."""
        while not self._waits:
            self._answer(*self._receive())
        self._waits = False

    def _tell(self, operation: int, when: int) -> None:
        self._number += 1
        self._send(operation, self._number, when)
        while (message := self._receive())[0] != _ACK:
            self._answer(*message)

    def _answer(self, operation: int, number: int, when: int) -> None:
        answer = 0
        if operation == _REQUEST:
            self.wanted_ns = when
        elif operation == _WAIT:
            self._waits = True
        elif operation == _GET:
            answer = self._now
        elif operation == _UPDATE:
            self._now = when
        elif operation == _TIME_OF_DAY:
            answer = time.time_ns()
        self._send(_ACK, number, answer)

    def _send(self, operation: int, number: int, when: int) -> None:
        try:
            self._connected().sendall(_MESSAGE.pack(operation, number, when))
        except OSError:
            raise ClockError from None

    def _receive(self) -> tuple[int, int, int]:
        try:
            message = self._connected().recv(_MESSAGE.size, socket.MSG_WAITALL)
        except OSError:
            raise ClockError from None
        if len(message) < _MESSAGE.size:
            raise ClockError
        operation, number, when = _MESSAGE.unpack(message)
        return operation, number, when

    def _connected(self) -> socket.socket:
        if self._machine is None:
            raise ClockError
        return self._machine
