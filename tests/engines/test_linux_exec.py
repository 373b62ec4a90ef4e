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
