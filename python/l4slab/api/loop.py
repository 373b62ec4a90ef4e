"""An event loop of asyncio whose clock and datagrams are those of a lab.

Each end of an endpoint is a host with an address: "10.0.0.1" is the near end of the first endpoint and "10.0.0.2" its
far end, "10.0.1.1" and "10.0.1.2" those of the next. Names are those of `Lab.run`. What a socket sends to an address
leaves from the other end of its flow.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Coroutine
from ipaddress import IPv6Address, ip_address
from itertools import cycle
from math import ceil
from typing import Any, TypeVar, get_args

from l4slab import _core
from l4slab.base.errors import InputError
from l4slab.base.run import Ecn

T = TypeVar("T")
_NS = 10**9
_NEVER_NS = 2**63
# What a socket of the machine gets if it does not ask for a port (Linux ip_local_port_range), and one of the lab (RFC
# 6335, 6).
_OF_THE_MACHINE = range(32768, 65536)
_EPHEMERAL = range(49152, 65536)
_ANY = (None, "", "::", "0.0.0.0")  # noqa: S104  (hosts of the lab)
# What follows the end of the run, so that tasks can clean up.
_GRACE_NS = 3600 * _NS

Address = tuple[Any, ...]


def run(lab: _core.Lab, duration_ns: int, main: Coroutine[Any, Any, T]) -> T:
    """See `Lab.run`."""
    with asyncio.Runner(loop_factory=lambda: LabLoop(lab, duration_ns)) as runner:
        return runner.run(main)


class LabLoop(asyncio.BaseEventLoop):
    """The loop. It has datagrams and timers, and neither files, processes, threads nor TCP."""

    def __init__(self, lab: _core.Lab, duration_ns: int) -> None:
        super().__init__()
        self._core = lab
        self._end_ns = duration_ns
        self._late_ns = 0  # since the end of the run
        self._is_over = False
        # A base of loops asks this attribute for what happens next.
        self._selector = self
        self._clock_resolution = 1 / _NS
        self._transports: list[LabTransport] = []
        self._ephemeral = cycle(_EPHEMERAL)
        self._hosts: dict[str, int] = {}
        for i, name in enumerate(lab.endpoints()):
            self._hosts |= {name: 2 * i + 1, f"{name}.near": 2 * i, f"{name}.far": 2 * i + 1}
            self._hosts |= {address_of(2 * i): 2 * i, address_of(2 * i + 1): 2 * i + 1}

    def time(self) -> float:
        """Seconds of the run."""
        return (self._core.now_ns() + self._late_ns) / _NS

    def select(self, timeout: float | None) -> list[int]:
        """Goes on to the next arrival, but not beyond `timeout`: the end that has it."""
        # Up, so that time goes on: a timer that is due within the rounding of a float, and set again, would never end.
        now, wait = self._core.now_ns(), None if timeout is None else ceil(timeout * _NS)
        found = self._core.step(_NEVER_NS if wait is None else now + wait)
        if found is not None:
            is_arrival, which = found
            return [which] if is_arrival else []
        if self._core.now_ns() >= self._end_ns and wait != 0:
            self._pass_over(wait)
        return []

    def _pass_over(self, wait: int | None) -> None:
        """The run is over: timers go on for a while, and packets do not."""
        is_first, self._is_over = not self._is_over, True
        if is_first or wait is None or self._late_ns > _GRACE_NS:
            seconds = self._end_ns / _NS
            raise TimeoutError(
                f"the lab is over after its {seconds:g} s, and a task still waits; lengthen the duration"
            )
        self._late_ns += wait

    def _process_events(self, event_list: list[int]) -> None:
        for end in event_list:
            if (arrived := self._core.receive(end)) is None:
                continue
            data, ecn, _, (source, destination) = arrived
            for transport in self._transports:
                if transport.takes(end, source, destination):
                    transport.deliver(data, ecn, end ^ 1, source)
                    break

    def _write_to_self(self) -> None:
        """Nobody has to be woken: there are no other threads."""

    async def getaddrinfo(self, host: Any, port: Any, **_: int) -> list[tuple[Any, ...]]:
        """The address of a host of the lab."""
        address = (address_of(self.end_of(host)), int(port or 0))
        return [(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_UDP, "", address)]

    def run_in_executor(self, *_: Any) -> Any:  # type: ignore[override]
        """A thread would take time of the machine."""
        raise RuntimeError("a lab has no threads: they would run on the clock of the machine; call the function itself")

    async def create_datagram_endpoint(
        self,
        protocol_factory: Callable[[], Any],
        local_addr: Any = None,
        remote_addr: Any = None,
        *,
        sock: socket.socket | None = None,
        **options: Any,
    ) -> tuple[Any, Any]:
        """A socket of the lab. Of `sock` the port and the options count, such as IP_TOS."""
        host, port = local_addr or (None, 0)
        if sock is not None:
            is_v6, bound = sock.family == socket.AF_INET6, sock.getsockname()[1]
            port = 0 if bound in _OF_THE_MACHINE else bound
        else:
            is_v6 = options.get("family") == socket.AF_INET6 or ":" in str(host or "")
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end = None if host in _ANY else self.end_of(host)
        taken = [(other.end, other.port) for other in self._transports]
        port = int(port) or next(p for p in self._ephemeral if p not in {port for _, port in taken})
        if any(port == other and (end is None or at in (None, end)) for at, other in taken):
            sock.close()
            raise OSError(errno.EADDRINUSE, f"port {port} of the lab is taken")
        remote = None if remote_addr is None else (self.end_of(remote_addr[0]), int(remote_addr[1]))
        protocol = protocol_factory()
        transport = LabTransport(self, protocol, sock, end, port, remote, is_v6)
        self._transports.append(transport)
        self.call_soon(protocol.connection_made, transport)
        await asyncio.sleep(0)
        return transport, protocol

    def end_of(self, host: Any) -> int:
        """The end that a name or an address means. Raises OSError for another host."""
        text = str(host)
        if text not in self._hosts:
            try:
                address = ip_address(text)
                text = str(address.ipv4_mapped or address) if isinstance(address, IPv6Address) else text
            except ValueError:
                pass
        if text not in self._hosts:
            known = ", ".join(name for name in self._hosts if not name[0].isdigit())
            raise OSError(errno.ENETUNREACH, f"{text} is no host of the lab; there are {known}")
        return self._hosts[text]

    def forget(self, transport: LabTransport) -> None:
        """It is closed."""
        if transport in self._transports:
            self._transports.remove(transport)

    def send(self, to: int, data: bytes, ports: tuple[int, int], tos: int) -> None:
        """Sends from the other end of `to`. Raises OSError for what is too long."""
        if self._is_over:
            return
        if len(data) > self._core.most_bytes(to):
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        self._core.send(to ^ 1, data, tos & 3, tos >> 2 or None, ports)


class LabTransport(asyncio.DatagramTransport):
    """A socket in the lab. `get_extra_info("ecn")` has the codepoint of the newest datagram, as `l4slab.Packet` has."""

    def __init__(
        self,
        loop: LabLoop,
        protocol: Any,
        sock: socket.socket,
        end: int | None,
        port: int,
        remote: tuple[int, int] | None,
        is_v6: bool,
    ) -> None:
        super().__init__()
        self._loop, self._protocol, self._sock = loop, protocol, sock
        self.end, self.port, self._remote, self._is_v6 = end, port, remote, is_v6
        self._ecn = 0
        self._is_closing = False

    def takes(self, end: int, source: int, destination: int) -> bool:
        """Whether a datagram that has arrived at an end is for it."""
        is_mine = destination == self.port and self.end in (None, end)
        return is_mine and self._remote in (None, (end ^ 1, source))

    def deliver(self, data: bytes, ecn: int, source: int, port: int) -> None:
        """A datagram has come."""
        self._ecn = ecn
        self._protocol.datagram_received(data, self._named(source, port))

    def _named(self, end: int, port: int) -> Address:
        address = address_of(end)
        return (f"::ffff:{address}", port, 0, 0) if self._is_v6 else (address, port)

    def sendto(self, data: Any, addr: Any = None) -> None:
        """Send at once; what cannot be sent is told to the protocol, as sockets do."""
        if self._is_closing:
            return
        try:
            to, port = self._remote if addr is None and self._remote else (self._loop.end_of(addr[0]), addr[1])
            if self.end not in (None, to ^ 1):
                raise OSError(errno.ENETUNREACH, f"{address_of(self.end or 0)} has no way to {address_of(to)}")
            tos = self._sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS)
            self._loop.send(to, bytes(data), (self.port, port), tos)
        except OSError as error:
            self._protocol.error_received(error)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of asyncio, "socket", "sockname" and "peername"."""
        found = {"socket": self._sock, "ecn": get_args(Ecn)[self._ecn]}
        if name == "sockname":
            any_of = _ANY[2] if self._is_v6 else _ANY[3]
            return (any_of, self.port) if self.end is None else self._named(self.end, self.port)
        if name == "peername" and self._remote is not None:
            return self._named(*self._remote)
        return found.get(name, default)

    def is_closing(self) -> bool:
        """Whether it has been closed."""
        return self._is_closing

    def close(self) -> None:
        """Close it; the protocol learns of it soon."""
        if self._is_closing:
            return
        self._is_closing = True
        self._loop.forget(self)
        self._sock.close()
        self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        """The same."""
        self.close()


def address_of(end: int) -> str:
    """The IPv4 address of an end."""
    flow, side = divmod(end, 2)
    if flow >= 1 << 16:
        raise InputError("a lab has addresses for 65536 endpoints")
    return f"10.{flow >> 8}.{flow & 255}.{1 + side}"
