"""`l4slab linux exec`: commands of this machine on the kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from l4slab.cli import main
from l4slab.engines.linux import kernels, shell

needs_kernel = pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
# A link of 20 ms between two namespaces, over which a byte goes and comes back.
NETWORK = """
set -e
ip link add v0 type veth peer name v1
unshare --net sleep 3600 & far=$!
sleep 0.1
ip link set v1 netns $far
ip addr add 10.9.0.1/24 dev v0; ip link set v0 up; tc qdisc add dev v0 root netem delay 20ms
nsenter --net=/proc/$far/ns/net sh -c 'ip addr add 10.9.0.2/24 dev v1; ip link set v1 up'
nsenter --net=/proc/$far/ns/net {python} -c '
import socket
s = socket.create_server(("", 9)); c, _ = s.accept(); c.sendall(c.recv(1))' &
sleep 0.1
{python} -c '
import socket, time
s = socket.create_connection(("10.9.0.2", 9)); began = time.monotonic(); s.sendall(b"x"); s.recv(1)
print(round(1e3 * (time.monotonic() - began), 1))'
kill $far
"""


def execute(*arguments: str) -> int:
    return main(["linux", "exec", *arguments])


@needs_kernel
@pytest.mark.slow
def test_output_and_status_pass_and_sleeping_is_skipped(capfd: pytest.CaptureFixture[str]) -> None:
    script = "date +%s; sleep 60; date +%s; printf 'to err' >&2; exit 3"
    assert execute("--", "sh", "-c", script) == 3
    said = capfd.readouterr()
    began, end = map(int, said.out.split())
    assert end - began == 60
    assert said.err == "to err"


@needs_kernel
@pytest.mark.slow
def test_a_command_writes_only_where_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORD", "it's $HOME")
    script = 'echo "$WORD" >mine/file; echo no >file || touch "$TMPDIR/x"'
    assert execute("--write", "mine", "--", "sh", "-c", script) == 0
    assert (tmp_path / "mine" / "file").read_text() == "it's $HOME\n"
    assert not (tmp_path / "file").exists()
    assert "Read-only file system" in capfd.readouterr().err


@needs_kernel
@pytest.mark.slow
def test_a_command_makes_a_network(capfd: pytest.CaptureFixture[str]) -> None:
    status = execute("--", "sh", "-c", NETWORK.format(python=sys.executable))
    said = capfd.readouterr()
    assert (status, said.out) == (0, "20.0\n"), said.err


def test_folders_are_mounted_before_those_in_them(tmp_path: Path) -> None:
    script = shell.script(["true"], [tmp_path / "a" / "b", tmp_path / "a"], tmp_path, {"A": "x", "B%%": "function"})
    assert script.index(f"none /run/host{tmp_path}/a\n") < script.index(f"none /run/host{tmp_path}/a/b\n")
    assert " A=x " in script
    assert "B%%" not in script


@pytest.mark.parametrize("option", ["--write", "--kernel"])
def test_what_is_not_there_is_told(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(option, "nowhere", "--", "true") == 2
    assert "nowhere" in capsys.readouterr().err


# Readings of one clock by the vDSO and by a system call, in turn and in a child: none is before the one that came
# before it. Between two of the vDSO there are 256 ns.
CLOCKS = """
import ctypes, os, time
libc = ctypes.CDLL(None)
spec = (ctypes.c_long * 2)()
def call(clock):
    libc.syscall(228, clock, spec)
    return spec[0] * 10**9 + spec[1]
for clock in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC):
    found = [time.clock_gettime_ns(clock) for _ in range(1000)]
    assert {b - a for a, b in zip(found, found[1:])} == {256}, found
    for _ in range(300):
        found += [call(clock), time.clock_gettime_ns(clock), time.clock_gettime_ns(clock)]
    if not (child := os.fork()):
        found += [time.clock_gettime_ns(clock), call(clock)]
        assert found == sorted(set(found)), found
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    time.sleep(1)
    found += [time.clock_gettime_ns(clock), call(clock)]
    assert found == sorted(set(found)), found
    assert 10**9 <= found[-1] - found[-3] < 1.01 * 10**9
assert abs(time.time_ns() - call(time.CLOCK_REALTIME)) < 10**5
print("vvar" in open("/proc/self/maps").read())
"""


@needs_kernel
@pytest.mark.slow
def test_reading_the_clock_is_the_same_with_and_without_a_system_call(capfd: pytest.CaptureFixture[str]) -> None:
    assert execute("--", sys.executable, "-c", CLOCKS) == 0
    assert capfd.readouterr().out == "True\n"
