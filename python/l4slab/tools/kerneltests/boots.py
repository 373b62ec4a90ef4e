"""Runs tests on a kernel: many in one boot, each in namespaces of its own, and a boot per core."""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

from l4slab.engines.contract import EngineError
from l4slab.engines.linux import kernels, programs, shell
from l4slab.engines.linux.engine import disk_sentence, kernel
from l4slab.engines.linux.machine import Machine, MachineError, run_folder
from l4slab.tools.kerneltests import Ended, Judged, KernelTest, Result

_LOOK_S = 0.1
_STOPPED = 137  # by `timeout -s KILL`
# Of the kernel's own user land, which knows all that this kernel has. `sysctl` only where this machine has none.
_PROGRAMS = {name: f"usr/bin/{name}" for name in ("ip", "nstat", "ss")} | {
    name: f"usr/sbin/{name}" for name in ("tc", "ethtool")
}
_LAND = "/run/l4slab"  # where tests see it
_TMP = "/run/tmp"  # this machine's: a test has an empty /tmp to write to, with links to the folders of this one
# Debian's name of the folder, as everything in the user land is Debian's.
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_OURS = ("script", "said", "kernel", "status", "ended")
# One test, as the first process of its namespaces: all others end with it.
_ONE = """\
out=/out/programs/$1
ip link set lo up
busybox mount -t proc proc {root}/proc && busybox mount -t sysfs sys {root}/sys || exit 1
busybox mount -t tmpfs tmp {root}/tmp && busybox mount -t tmpfs tmp {root}/dev/shm || exit 1
busybox dmesg -c >/dev/null
echo $1 >/out/programs/begun
busybox timeout -s KILL $2 busybox env -i {variables} OUT=/dev/out/$1 busybox chroot {root} \
/bin/sh -c 'ln -s {tmp}/*/ /tmp/; exec /bin/sh $OUT/script' </dev/null >$out/said 2>&1
status=$?
busybox dmesg -c >$out/kernel
echo $status >$out/status
"""


def run(tests: Sequence[KernelTest], name: str, repeat: int, jobs: int, limit_s: float) -> Iterator[Result]:
    """The results, in the tests' order and as soon as they are there. A test that has not ended after `limit_s` of the
    wall clock is stopped. Raises EngineError.
    """
    kernel(name)
    asked = [(test, number) for test in tests for number in range(repeat) if not test.skip]
    ended: dict[tuple[int, int], Ended | str] = {}
    # Neighbours take about as long as each other, so each boot gets the same kinds.
    parts = [part for at in range(jobs) if (part := asked[at::jobs])]
    found = threading.Event()
    with ThreadPoolExecutor(max(1, len(parts))) as pool:
        stop = threading.Event()
        boots: set[Future[None]] = {pool.submit(_Boots(part, name, limit_s, ended, stop, found).run) for part in parts}
        try:
            for test in tests:
                while not test.skip and any((id(test), number) not in ended for number in range(repeat)):
                    done, boots = wait(boots, timeout=0, return_when=FIRST_COMPLETED)
                    for one in done:
                        one.result()
                    found.wait(_LOOK_S)
                    found.clear()
                yield _result(test, [ended[id(test), number] for number in range(0 if test.skip else repeat)])
        finally:
            stop.set()


def _result(test: KernelTest, ended: Sequence[Ended | str]) -> Result:
    if test.skip:
        return Result(test, [Judged("skip", test.skip)], [None])
    judged = [
        Judged("fail", one)
        if isinstance(one, str)
        else Judged("fail", f"it was stopped after {test.limit_s:g} s of virtual time")
        if one.status == _STOPPED
        else test.judge(one)
        for one in ended
    ]
    return Result(test, judged, [None if isinstance(one, str) else one for one in ended])


class _Boots:
    """One after the other, as a test may stop the kernel."""

    def __init__(
        self,
        tests: Sequence[tuple[KernelTest, int]],
        name: str,
        limit_s: float,
        ended: dict[tuple[int, int], Ended | str],
        stop: threading.Event,
        found: threading.Event,
    ):
        self.tests, self.name, self.limit_s = list(tests), name, limit_s
        self.ended, self.stop, self.found = ended, stop, found

    def run(self) -> None:
        """Raises EngineError where not one test can begin."""
        kernel_of = kernel(self.name)
        left = self.tests
        try:
            while left and not self.stop.is_set():
                with run_folder() as folder:
                    self._write(folder, left)
                    machine = Machine(
                        kernel_of.path, kernel_of.root, kernels.laboratory(), folder, limit_s=0, has_ipv6=True
                    )
                    why = self._boot(machine, folder, left)
                    begun = _number(folder / programs.FOLDER / "begun")
                left = [one for one in left if (id(one[0]), one[1]) not in self.ended]
                if left and not self.stop.is_set():
                    if begun is None:
                        raise EngineError(why)
                    # The one that was at work.
                    self._keep(left[0], why)
                    left = left[1:]
        except MachineError as error:
            raise EngineError(str(error)) from None
        except OSError as error:
            raise EngineError(disk_sentence(error)) from None

    def _keep(self, which: tuple[KernelTest, int], ended: Ended | str) -> None:
        self.ended[id(which[0]), which[1]] = ended
        self.found.set()

    def _write(self, folder: Path, tests: Sequence[tuple[KernelTest, int]]) -> None:
        shared = folder / programs.FOLDER
        shared.mkdir()
        for name, path in _PROGRAMS.items():
            _write_program(
                shared / "bin" / name,
                f"TC_LIB_DIR={_LAND}/{_LIBRARIES}/tc exec {_LAND}/lib64/ld-linux-x86-64.so.2 "
                f'--library-path {_LAND}/{_LIBRARIES} {_LAND}/{path} "$@"',
            )
        _write_program(shared / "last" / "sysctl", f'exec {_LAND}/usr/bin/busybox sysctl "$@"')
        for number, (test, _) in enumerate(tests):
            (shared / str(number)).mkdir()
            (shared / str(number) / "script").write_text(test.script)
        (folder / "one.sh").write_text(one_script(os.environ))
        (folder / "setup.sh").write_text(boot_script(tests))

    def _boot(self, machine: Machine, folder: Path, tests: Sequence[tuple[KernelTest, int]]) -> str:
        """Run until the end, or until one test takes too long; why it ended."""
        at, since = 0, time.monotonic()
        with machine.running() as process:
            while not self.stop.is_set():
                is_over = process.poll() is not None
                while at < len(tests) and (one := _read(folder / programs.FOLDER / str(at))) is not None:
                    self._keep(tests[at], one)
                    at, since = at + 1, time.monotonic()
                if is_over:
                    return str(machine.failure(process.returncode))
                if time.monotonic() - since > self.limit_s:
                    return f"it was stopped after {self.limit_s:g} s of the wall clock"
                time.sleep(_LOOK_S)
        return ""


def _write_program(path: Path, line: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def _read(folder: Path) -> Ended | None:
    """What a test has left; None before it has ended."""
    if not (folder / "ended").exists():
        return None
    texts = {path.name: path.read_text(errors="replace") for path in folder.iterdir() if path.is_file()}
    rest = {name: text for name, text in texts.items() if name not in _OURS}
    status = _number(folder / "status")
    return Ended(1 if status is None else status, texts.get("said", ""), texts.get("kernel", ""), rest)


def boot_script(tests: Sequence[tuple[KernelTest, int]]) -> str:
    """The script that init.sh runs instead of setting up a laboratory. It does not return."""
    lines = [
        "set -e",
        "busybox unshare -n -m -p -f true || { echo 'build the kernel again; it lacks CONFIG_PID_NS' >&2; exit 1; }",
        f"busybox mount -t tmpfs run {shell.ROOT}/run",
        f"busybox mkdir {shell.ROOT}{_LAND} {shell.ROOT}{_TMP}",
        f"busybox mount -o bind / {shell.ROOT}{_LAND}",
        f"busybox mount -o bind {shell.ROOT}/tmp {shell.ROOT}{_TMP}",  # noqa: S108
        "set +e",
        # What it has written is there when the last process that might write has ended.
        "t() { busybox unshare -n -m -p -f sh /out/one.sh $1 $2; echo >/out/programs/$1/ended; }",
        *(f"t {number} {test.limit_s:g}" for number, (test, _) in enumerate(tests)),
        "busybox sync",
        "busybox poweroff -f",
    ]
    return "\n".join(lines) + "\n"


def one_script(environment: Mapping[str, str]) -> str:
    """The script of one test; its arguments are its folder and its limit."""
    path = environment.get("PATH", os.defpath)
    words = shell.variables({**environment, "PATH": f"{programs.OUT_FOLDER}/bin:{path}:{programs.OUT_FOLDER}/last"})
    return _ONE.format(root=shell.ROOT, variables=shlex.join(words), tmp=_TMP)
