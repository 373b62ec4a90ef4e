"""The system calls of a script, as far as they matter to TCP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from l4slab.base.errors import one_line
from l4slab.tools.packetdrill.connection import Connection, NotApplicable, Sysctls
from l4slab.tools.packetdrill.script import Call, Script, Segment
from l4slab.tools.packetdrill.words import names


class Run(Protocol):
    """What sockets know of the run: the script and the place in it, the time in us and as the core has it."""

    script: Script
    place: int
    now: float
    tolerance: float
    sysctls: Sysctls

    @property
    def ns(self) -> int: ...


class Failed(Exception):
    """The host does not do what the script says."""


@dataclass
class _Socket:
    blocks: bool = True
    listens: bool = False
    connection: Connection | None = None
    read: int = 0
    closed: bool = False
    shut: bool = False
    deaf: bool = False


@dataclass
class _Blocked:
    call: Call
    socket: _Socket
    ends: float


_FLAGS = {
    "MSG_DONTWAIT", "MSG_NOSIGNAL", "0",
}  # fmt: skip
_IGNORED_OPTIONS = {
    "SO_REUSEADDR", "SO_SNDBUF", "SO_RCVBUF", "TCP_NODELAY", "SO_ERROR", "SO_PRIORITY", "SO_KEEPALIVE", "IP_FREEBIND",
    "SO_MARK", "TCP_SYNCNT", "IP_TOS", "IP_MTU_DISCOVER",
}  # fmt: skip


class Sockets:
    """The host's sockets. One connection at a time is open."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.sockets: dict[int, _Socket] = {}
        self.connection: Connection | None = None
        self.waiting: list[_Blocked] = []
        self.is_accepted = True
        self.owner: _Socket | None = None
        self.was_reset = False

    # --- packets -------------------------------------------------------------------------------

    def arrive(self, segment: Segment) -> None:
        options = segment.options
        if options is not None and options.other:
            raise NotApplicable(f"the TCP option {options.other[0]}")
        is_new = segment.has("S") and not segment.has(".") and (self.connection is None or self._is_over())
        if is_new:
            if segment.length:
                raise NotApplicable("data in the SYN (fast open)")
            if not any(one.listens for one in self.sockets.values()):
                raise NotApplicable("a SYN that nobody waits for")
            self._connect(segment, is_client=False)
            self.is_accepted = False
        if self.connection is None:
            raise NotApplicable("a packet without a connection")
        if segment.has("R"):
            self.was_reset = True
        self.connection.arrive(self.run.ns, segment)

    def _is_over(self) -> bool:
        return self.was_reset or (self.owner is not None and self.owner.closed)

    def _connect(self, peer: Segment | None, *, is_client: bool) -> None:
        """What the peer will send is in the rest of the script."""
        data = []
        for event in self.run.script.events[self.run.place + 1 :]:
            one = event.what
            if isinstance(one, Segment) and one.inbound and not one.has("S"):
                data.append(one)
            elif isinstance(one, Segment) and one.inbound and one.has("S") and not one.has(".") and data:
                break
        self.was_reset, self.owner = False, None
        try:
            self.connection = Connection(self.run.sysctls, self.run.ns, peer, data, is_client=is_client)
        except ValueError as error:
            # A controller that is not there, or a setting that is no number.
            raise NotApplicable(one_line(str(error))) from None

    def state(self) -> int:
        """`tcpi_state`."""
        c = self.connection
        if c is None or self.was_reset:
            return 7
        if not c.end.is_established():
            return 2 if c.is_client else 3
        shut = self.owner is not None and (self.owner.closed or self.owner.shut)
        acked = c.end.info(self.run.ns)["unacked"] == 0
        if c.has_ended():
            return (7 if acked else 9) if shut else 8
        return (5 if acked else 4) if shut else 1

    # --- calls ---------------------------------------------------------------------------------

    def call(self, call: Call, begin: float) -> None:
        if call.ends is not None:
            self._block(call, begin)
            return
        if call.error in ("EFAULT", "EINVAL"):
            raise NotApplicable(f"{call.name}() with arguments that the host refuses")
        method = getattr(self, f"_do_{call.name}", None)
        if method is None:
            raise NotApplicable(f"the call {call.name}()")
        try:
            got, error = method(call)
        except IndexError:
            raise NotApplicable(f"{call.name}() with fewer arguments than it has") from None
        self._compare(call, got, error)

    @staticmethod
    def _compare(call: Call, got: int | None, error: str = "") -> None:
        if got is None or call.result == "...":
            return
        if got != call.result or (error and call.error and error != call.error):
            said = f"{got} {error}".strip()
            raise Failed(f"{call.name}() returned {said} instead of {call.result} {call.error}".rstrip())

    def _block(self, call: Call, begin: float) -> None:
        ends = begin + (call.ends or 0)
        if call.name not in ("connect", "accept", "read", "recv"):
            raise NotApplicable(f"a {call.name}() that blocks")
        socket = self._socket(call)
        if call.name == "connect":
            self._open(socket)
        self.waiting.append(_Blocked(call, socket, ends))

    def look(self) -> None:
        """Calls that block may return now."""
        for one in list(self.waiting):
            got = self._outcome(one)
            if got is not None:
                self.waiting.remove(one)
                self._compare(one.call, got)
                if abs(self.run.now - one.ends) > max(self.run.tolerance, 0.125 * one.ends):
                    raise Failed(f"{one.call.name}() returned at {self.run.now / 1e6:.6f} s")

    def _outcome(self, one: _Blocked) -> int | None:
        c = self.connection if one.call.name == "accept" else one.socket.connection
        if c is None or not c.end.is_established():
            return None
        if one.call.name == "connect":
            return 0
        if one.call.name == "accept":
            return self._accept(one.call)
        ready = c.received() - one.socket.read
        return self._take(one.socket, one.call) if ready or c.has_ended() else None

    def finish(self) -> None:
        if self.waiting:
            raise Failed(f"{self.waiting[0].call.name}() has not returned")

    def _socket(self, call: Call) -> _Socket:
        number = call.arguments[0]
        if not isinstance(number, int) or number not in self.sockets:
            raise NotApplicable(f"{call.name}() of what is no socket of TCP")
        return self.sockets[number]

    def _do_socket(self, call: Call) -> tuple[int | None, str]:
        if "SOCK_STREAM" not in names(call.arguments[1]):
            raise NotApplicable("a socket that is not TCP's")
        if isinstance(call.result, int):
            self.sockets[call.result] = _Socket(blocks="SOCK_NONBLOCK" not in names(call.arguments[1]))
        return None, ""

    def _do_bind(self, _: Call) -> tuple[int | None, str]:
        return 0, ""

    def _do_listen(self, call: Call) -> tuple[int | None, str]:
        self._socket(call).listens = True
        return 0, ""

    def _do_setsockopt(self, call: Call) -> tuple[int | None, str]:
        name = call.arguments[2]
        if name not in _IGNORED_OPTIONS:
            raise NotApplicable(f"the socket option {name}")
        return None, ""

    def _do_getsockopt(self, call: Call) -> tuple[int | None, str]:
        if call.arguments[2] != "SO_ERROR":
            raise NotApplicable(f"the socket option {call.arguments[2]}")
        return None, ""

    def _do_fcntl(self, call: Call) -> tuple[int | None, str]:
        if call.arguments[1] == "F_SETFL":
            self._socket(call).blocks = "O_NONBLOCK" not in names(call.arguments[2])
        return None, ""

    def _open(self, socket: _Socket) -> None:
        answers = (
            e.what
            for e in self.run.script.events[self.run.place :]
            if isinstance(e.what, Segment) and e.what.inbound and e.what.has("S")
        )
        self._connect(next(answers, None), is_client=True)
        socket.connection = self.connection
        self.owner = socket

    def _do_connect(self, call: Call) -> tuple[int | None, str]:
        socket = self._socket(call)
        if socket.connection is not None:
            return None, ""
        self._open(socket)
        return (None, "") if call.result == 0 else (-1, "EINPROGRESS")

    def _accept(self, call: Call) -> int:
        if isinstance(call.result, int) and call.result >= 0:
            self.sockets[call.result] = self.owner = _Socket(connection=self.connection)
            self.is_accepted = True
            return call.result
        return 0

    def _do_accept(self, call: Call) -> tuple[int | None, str]:
        c = self.connection
        if c is None or self.is_accepted or not c.end.is_established():
            return -1, "EAGAIN"
        return self._accept(call), ""

    _do_accept4 = _do_accept

    def _of(self, socket: _Socket) -> Connection:
        if socket.connection is None:
            raise NotApplicable("a call without a connection")
        return socket.connection

    def _do_write(self, call: Call) -> tuple[int | None, str]:
        socket = self._socket(call)
        if len(call.arguments) > 3 and (more := names(call.arguments[3]) - _FLAGS):
            raise NotApplicable(f"the flag {sorted(more)[0]}")
        if socket.shut or self.was_reset:
            return -1, "EPIPE"
        size = call.arguments[2]
        if not isinstance(size, int):
            raise NotApplicable("a size that is no number")
        if isinstance(call.result, int) and 0 <= call.result < size:
            raise NotApplicable("a send buffer that is full")
        self._of(socket).end.write(self.run.ns, size)
        return size, ""

    _do_send = _do_sendto = _do_write

    def _do_read(self, call: Call) -> tuple[int | None, str]:
        socket = self._socket(call)
        if len(call.arguments) > 3 and (more := names(call.arguments[3]) - _FLAGS):
            raise NotApplicable(f"the flag {sorted(more)[0]}")
        c = self._of(socket)
        if socket.deaf:
            return 0, ""
        if c.received() == socket.read and not c.has_ended():
            return -1, ("ECONNRESET" if self.was_reset else "EAGAIN")
        return self._take(socket, call), ""

    _do_recv = _do_recvfrom = _do_read

    def _take(self, socket: _Socket, call: Call) -> int:
        size = call.arguments[2]
        if not isinstance(size, int):
            raise NotApplicable("a size that is no number")
        got = min(size, self._of(socket).received() - socket.read)
        socket.read += got
        return got

    def _do_close(self, call: Call) -> tuple[int | None, str]:
        socket = self._socket(call)
        if (c := socket.connection) is not None and not socket.closed:
            if c.received() > socket.read:
                raise NotApplicable("closing with unread data, which resets")
            c.end.finish(self.run.ns)
        socket.closed, socket.listens = True, False
        return 0, ""

    def _do_shutdown(self, call: Call) -> tuple[int | None, str]:
        socket = self._socket(call)
        if call.arguments[1] not in ("SHUT_WR", "SHUT_RDWR"):
            raise NotApplicable(f"shutdown({call.arguments[1]})")
        socket.shut, socket.deaf = True, call.arguments[1] == "SHUT_RDWR"
        self._of(socket).end.finish(self.run.ns)
        return 0, ""
