"""`l4slab.Lab` and its event loop: the ends of a run in a test."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import socket
from pathlib import Path
from typing import Any

import l4slab
import pytest
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.engines.contract import MissingError
from l4slab.engines.registry import get_engine

FILE = """
duration = "2s"
seed = 3
[link.b]
rate = "10Mbit"
qdisc = "dualpi2"
[[flow]]
name = "mine"
kind = "endpoint"
rtt = "20ms"
dscp = 10
[[flow]]
name = "other"
kind = "endpoint"
rtt = "8ms"
[[flow]]
name = "prague"
cc = "prague"
rtt = "20ms"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.toml"
    path.write_text(FILE)
    return path


def streamed(lab: l4slab.Lab) -> list[tuple[float, str, int]]:
    """A packet each 2 ms from the near end of "mine": when it was sent, and codepoint and DSCP as it arrives."""
    near, far = lab.ends("mine")
    arrived: list[tuple[float, str, int]] = []
    lab.wake_at(0)
    while (event := lab.next_event()) is not None:
        if event.token is not None:
            near.send(str(round(lab.now * 1e9)).encode().ljust(1200), ecn="ect1")
            lab.wake_at(lab.now + 0.002)
            continue
        assert event.end is far
        packet = far.receive()
        assert packet is not None
        assert far.receive() is None
        assert packet.time_s == lab.now == event.time_s
        assert round(packet.time_s * 1e9) >= int(packet.data) + 10_000_000
        arrived.append((packet.time_s, packet.ecn, packet.dscp))
    return arrived


def test_packets_arrive_with_their_marks_and_are_in_the_tables(file: Path) -> None:
    lab = l4slab.Lab(file)
    arrived = streamed(lab)
    assert lab.now == lab.duration == 2
    assert {dscp for _, _, dscp in arrived} == {10}
    marked = sum(ecn == "ce" for _, ecn, _ in arrived)
    total = lab.ends("mine")[0].sum
    # One each 2 ms, the first at 0 and the last at the end.
    assert total.sent == 1001 == total.arrived + total.lost + total.in_flight
    results = lab.finish()
    row = results.flows.row(0, named=True)
    assert (row["flow"], row["cc"], row["ce_packets"], row["delivered_packets"]) == (
        "mine",
        "endpoint",
        marked,
        len(arrived),
    )
    assert min(marked, results.series.height) > 0
    assert results.links["link"].unique().to_list() == ["b"]
    with pytest.raises(InputError, match="finished"):
        lab.finish()


def test_the_seed_decides(file: Path) -> None:
    first, again, other = (streamed(l4slab.Lab(file, seed=seed)) for seed in (5, 5, 6))
    assert first == again != other


class Echo(asyncio.DatagramProtocol):
    """Sends everything back, in capitals."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.transport.sendto(data.upper() + self.transport.get_extra_info("ecn").encode(), addr)


class Client(asyncio.DatagramProtocol):
    """Keeps what it gets, and when."""

    def __init__(self) -> None:
        self.got: list[tuple[float, bytes, Any]] = []
        self.errors: list[OSError] = []

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.got.append((asyncio.get_running_loop().time(), data, addr))

    def error_received(self, exc: Exception) -> None:
        assert isinstance(exc, OSError)
        self.errors.append(exc)


async def talk() -> tuple[Client, Client, Any]:
    """Two clients ask servers at the far ends."""
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Echo, local_addr=("::", 7))
    transport, mine = await loop.create_datagram_endpoint(Client, remote_addr=("mine", 7))
    transport.get_extra_info("socket").setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0b1)
    free, other = await loop.create_datagram_endpoint(Client, local_addr=("other.near", 0))
    transport.sendto(b"one")
    await asyncio.sleep(0.5)
    transport.sendto(bytes(1473))
    transport.sendto(b"two")
    (address,) = {info[4] for info in await loop.getaddrinfo("other", 7)}
    free.sendto(b"three", address)
    free.sendto(b"nowhere", ("192.0.2.1", 7))
    free.sendto(b"not from here", ("mine", 7))
    await asyncio.wait_for(asyncio.sleep(0.2), 0.3)
    transport.close()
    return mine, other, loop.time()


def test_datagrams_of_asyncio_go_from_end_to_end(file: Path) -> None:
    quiet = {"flow.prague.start": "1900ms"}
    mine, other, time_s = l4slab.Lab(file, quiet).run(talk())
    assert time_s == pytest.approx(0.7, abs=1e-6)
    times, data, addresses = zip(*mine.got, strict=True)
    assert data == (b"ONEect1", b"TWOect1")
    assert set(addresses) == {("10.0.0.2", 7)}
    # Nothing else is in the queue: a round trip, and a frame of 45 B on the link.
    assert [at - sent for at, sent in zip(times, (0, 0.5), strict=True)] == pytest.approx([0.02, 0.02], abs=100e-6)
    assert min(times) >= 0.02
    assert [error.errno for error in mine.errors] == [errno.EMSGSIZE]
    assert [(data, address) for _, data, address in other.got] == [(b"THREEnot-ect", ("10.0.1.2", 7))]
    assert [error.errno for error in other.errors] == [errno.ENETUNREACH] * 2


def test_a_task_that_waits_for_ever_is_told_when_the_run_is_over(file: Path) -> None:
    cleaned = []

    async def wait() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(1)
            cleaned.append(asyncio.get_running_loop().time())

    with pytest.raises(TimeoutError, match="after its 2 s"):
        l4slab.Lab(file).run(wait())
    assert cleaned == [pytest.approx(3)]


async def threads() -> None:
    await asyncio.to_thread(print)


def test_what_would_need_another_clock_is_refused(file: Path) -> None:
    with pytest.raises(RuntimeError, match="no threads"):
        l4slab.Lab(file).run(threads())


async def two_servers() -> None:
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Echo, local_addr=("mine", 7))
    await loop.create_datagram_endpoint(Echo, local_addr=("other", 7))
    await loop.create_datagram_endpoint(Echo, local_addr=("mine", 7))


def test_a_port_of_a_host_is_taken_once(file: Path) -> None:
    with pytest.raises(OSError, match="port 7") as found:
        l4slab.Lab(file).run(two_servers())
    assert found.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize(
    ("engine", "title"), [("sim", "the sim engine"), ("linux", "the linux engine"), ("real", "the real engine")]
)
def test_engines_refuse_endpoints(file: Path, engine: str, title: str) -> None:
    description = l4slab.Lab(file).description
    with pytest.raises(ValueError, match=title) as found:
        get_engine(engine).check(description)
    assert not isinstance(found.value, MissingError)
    assert 'flow "mine"' in str(found.value)
    assert "use l4slab.Lab" in str(found.value)


def test_a_file_with_endpoints_does_not_run(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(file)]) == 2
    assert "use l4slab.Lab" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("dscp = 10", "count = 2", ['flow "mine"', "count = 2", "one flow"]),
        ("dscp = 10", 'stop = "1s"', ['flow "mine"', 'stop = "1s"', "whenever its program does"]),
        ("dscp = 10", 'mtu = "20B"', ['flow "mine"', 'mtu = "20B"', "68"]),
        ("dscp = 10", 'cc = "cubic"', ['flow "mine"', "cc"]),
        ("seed = 3", 'seed = 3\nprecision = "share +- 0.1"', ["precision"]),
        ("seed = 3", 'seed = 3\n[sweep]\n"link.b.rate" = ["1Mbit", "2Mbit"]', ["2 runs", "changes"]),
        ("[[flow]]", '[[at]]\ntime = "1s"\nflow.mine.count = 2\n[[flow]]', ["flow.mine.count"]),
    ],
)
def test_mistakes_are_sentences(file: Path, before: str, after: str, words: list[str]) -> None:
    file.write_text(FILE.replace(before, after, 1))
    with pytest.raises(InputError) as found:
        l4slab.Lab(file)
    assert all(word in str(found.value) for word in words), str(found.value)


def test_what_cannot_be_sent_is_told(file: Path) -> None:
    lab = l4slab.Lab(file, {"flow.mine.mtu": "1000B", "flow.mine.header": "14B"})
    near, _ = lab.ends("mine")
    assert near.most_bytes == 1000
    near.send(bytes(1000))
    with pytest.raises(ValueError, match="1001 bytes are more than the 1000"):
        near.send(bytes(1001))
    with pytest.raises(ValueError, match="ect2"):
        near.send(b"", ecn="ect2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="six bits"):
        near.send(b"", dscp=64)
    with pytest.raises(InputError, match="there are mine, other"):
        lab.ends("yours")


def test_a_timer_within_the_rounding_of_a_float_does_not_stop_time(file: Path) -> None:
    """aioquic's pacer sets a timer again until the time of it has come."""

    async def wait() -> int:
        loop, tries = asyncio.get_running_loop(), 0
        due = loop.time() + 0.034838772
        while loop.time() <= due:
            tries += 1
            await asyncio.sleep(max(due - loop.time(), 7e-18))
        return tries

    assert l4slab.Lab(file).run(wait()) < 5


@pytest.mark.slow
def test_aioquic_as_it_is_shares_with_cubic_and_is_the_same_again() -> None:
    pytest.importorskip("aioquic")
    place = Path(__file__).parents[2] / "examples/lab/test_aioquic.py"
    spec = importlib.util.spec_from_file_location("example", place)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.test_an_upload_gets_its_share_and_is_the_same_again()
