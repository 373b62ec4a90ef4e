"""What killed processes leave in the temporary folder is removed, and nothing else; a core for each machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from l4slab.engines.linux import machine

# The process id in the name says nothing: in another container there may be no such process.
RUN = """
import os, sys, tempfile
os.getpid = lambda: 4194305
from l4slab.engines.linux.machine import run_folder
with run_folder() as folder:
    (folder / "packets.0.bin").write_bytes(b"x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(machine.tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def another_process() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process in a run folder of its own."""
    command = [sys.executable, "-c", RUN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def killed() -> Path:
    with another_process() as (process, folder):
        process.send_signal(signal.SIGKILL)
    assert (folder / "packets.0.bin").is_file()
    return folder


def test_a_package_may_be_in_a_folder_with_spaces(temporary: Path) -> None:
    booted = machine.Machine(temporary / "linux", Path("/my project/root"), "lab", temporary, 1)
    assert 'rootflags="/my project/root"' in booted.command()


def test_a_run_folder_is_gone_afterwards(temporary: Path) -> None:
    with machine.run_folder() as folder:
        assert folder.parent == temporary
        assert len(str(folder / "uml" / "socket")) - len(str(temporary)) < 50, "the path of a socket is short"
    assert not list(temporary.iterdir())


def test_what_a_killed_process_has_left_is_removed() -> None:
    left = killed()
    with machine.run_folder():
        assert not left.exists()


def test_the_folder_of_a_living_process_stays() -> None:
    with another_process() as (process, theirs):
        with machine.run_folder():
            pass
        assert (theirs / "packets.0.bin").is_file()
        process.communicate("")
        assert not theirs.exists()


def test_a_persons_folder_stays(temporary: Path) -> None:
    notes = temporary / "l4slab-4194305-notes"
    notes.mkdir()
    (notes / "thesis.tex").write_text("chapter 1")
    link = temporary / "l4slab-4194305-link"
    link.mkdir()
    (link / machine._OWNER).symlink_to(killed() / machine._OWNER)
    with machine.run_folder():
        assert (notes / "thesis.tex").is_file()
        assert link.is_dir()


def test_a_folder_of_another_machine_stays() -> None:
    """On a disk that several machines share, a lock need not be seen by the others."""
    left = killed()
    (left / machine._OWNER).write_text("00000000-0000-4000-8000-000000000000\n")
    with machine.run_folder():
        assert left.is_dir()


def test_each_machine_has_a_core_that_no_other_process_gives_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {9001, 9002})
    code = "import os; os.sched_getaffinity = lambda _: {9001, 9002}\n"
    code += "from l4slab.engines.linux.machine import core\nwith core() as own: print(own, flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "9001\n"
            with machine.core() as second, machine.core() as none_left:
                assert (second, none_left) == (9002, None)
        finally:
            process.kill()
    # What a killed process had is free.
    with machine.core() as first:
        assert first == 9001
