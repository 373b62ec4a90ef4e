"""One boot of the kernel: start it, wait for it, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from l4slab.base import system
from l4slab.base.errors import one_line

# Names of run folders: this, the process id for those who look, something random.
_FOLDER = "l4slab"
# In a run folder: held with `flock` by its process as long as that lives, and which boot of which kernel it runs on.
_OWNER = ".l4slab-run"
# Machines that run now, and their folders.
_running: dict[subprocess.Popen[bytes], Path] = {}
_SHARED_MEMORY_BYTES = 512 << 20
_WATCH_S = 1.0
_MEMORY = "2G"  # address space; what is touched is used


class MachineError(Exception):
    """The machine did not do what it should; one sentence, and all it said as `output`."""

    def __init__(self, sentence: str, output: str = ""):
        super().__init__(sentence)
        self.output = output


@dataclass(frozen=True)
class Machine:
    """A kernel, its file system, and the folder (short path) that it shares with the host."""

    kernel: Path
    root: Path
    helper: str  # the folder in its /lab with what it boots
    run: Path
    limit_s: float
    clock: Path | None = None  # the socket of a `Clock`; None: it runs to its end
    has_ipv6: bool = False  # else only where the set-up switches it on, and its sockets, which take IPv4, too

    def command(self) -> list[str]:
        """How it is booted. It dies with the thread that started it, however that ends."""
        return [
            *("setpriv", "--pdeathsig", "KILL", "--"),
            str(self.kernel),
            f"mem={_MEMORY}",
            *("root=/dev/root", "rootfstype=hostfs", f'rootflags="{self.root}"', "ro"),
            f"init=/lab/{self.helper}/init.sh",
            f"ipv6.disable_ipv6={int(not self.has_ipv6)}",
            "fb_tunnels=none",  # a namespace has the devices that somebody makes
            # Idle time is jumped over and computing takes none.
            "time-travel=inf-cpu" if self.clock is None else f"time-travel=ext:{self.clock}",
            *("quiet", "con0=null,fd:1", "con=null", "seccomp=auto", "noreboot"),
            *(f"uml_dir={self.run}/", "umid=uml", f"OUT={self.run}"),
        ]

    @property
    def log(self) -> Path:
        """Its output."""
        return self.run / "console.log"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The machine, from its start until it is stopped. Raises MachineError."""
        environment = {"PATH": os.environ.get("PATH", os.defpath), "TMPDIR": str(_memory_folder())}
        with core() as own:
            try:
                with self.log.open("wb") as out:
                    process = subprocess.Popen(
                        self.command(),
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                        cwd=self.run,
                        env=environment,
                        start_new_session=True,
                    )
            except FileNotFoundError:
                raise MachineError("setpriv is missing; install with: sudo apt-get install util-linux") from None
            _running[process] = self.run
            try:
                if own is not None:
                    with suppress(OSError):
                        os.sched_setaffinity(process.pid, {own})
                yield process
            finally:
                self._stop(process)

    def boot(self, watch: Callable[[], str | None] | None = None) -> str:
        """Run to the end; what it said. `watch` is called now and then: what it says is why to stop.

        Raises MachineError.
        """
        with self.running() as process:
            end = time.monotonic() + self.limit_s
            while True:
                left = end - time.monotonic()
                try:
                    status = process.wait(left if watch is None else max(0, min(left, _WATCH_S)))
                    break
                except subprocess.TimeoutExpired:
                    if watch is not None and (sentence := watch()) is not None:
                        raise MachineError(sentence, _text(self.log)) from None
                    if time.monotonic() < end:
                        continue
                    raise MachineError(
                        f"the kernel was not done after {self.limit_s:.0f} s and was stopped; "
                        "make the run shorter, or set L4SLAB_LINUX_TIMEOUT to more seconds",
                        _text(self.log),
                    ) from None
        output = _text(self.log)
        if "\nDONE" not in output:
            raise self.failure(status)
        return output

    def failure(self, status: int | None) -> MachineError:
        """Why it did not do what it should; `status`: of its process, None while that runs."""
        output = _text(self.log)
        failed = [line.removeprefix("FAILED: ") for line in output.splitlines() if line.startswith("FAILED: ")]
        if failed:
            context = _context(output)
            return MachineError(one_line(f"{failed[0]}{f' ({context})' if context else ''}"), output)
        return MachineError(_ending(status, output), output)

    def processor_s(self) -> float:
        """Processor time of the kernel and of the processes in it so far."""
        ticks = 0
        for pid in _processes_of(self.run):
            for stat in Path("/proc").glob("[0-9]*/stat"):
                with suppress(OSError):
                    number, words = stat.parent.name, stat.read_text().rpartition(")")[2].split()
                    if str(pid) in (number, words[1]):
                        ticks += sum(map(int, words[11:15] if number == str(pid) else words[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def last_error(self) -> str:
        """The last error that its programs have told of."""
        return _context(_text(self.log))

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        """The kernel and its processes: it has left its session, so it is known by its own file."""
        _running.pop(process, None)
        if process.poll() is None:
            process.kill()
            process.wait()
        for pid in _processes_of(self.run):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


@contextmanager
def core() -> Iterator[int | None]:
    """A core on which no other machine runs meanwhile, of whichever process here; None: each has one.

    The kernel and the processes in it take turns. Linux gives the next one an idle core to wake on, which takes several
    times as long as the turn itself.
    """
    for number in sorted(os.sched_getaffinity(0)):
        # A name that goes with the process, however that ends.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as name:
            try:
                name.bind(f"\0l4slab-core-{number}")
            except OSError:
                continue
            yield number
            return
    yield None


def _memory_folder() -> Path:
    """Where the machine's memory is kept as a file: in memory, where there is room."""
    shared = Path("/dev/shm")  # noqa: S108
    try:
        if shutil.disk_usage(shared).free >= _SHARED_MEMORY_BYTES and os.access(shared, os.W_OK):
            return shared
    except OSError:
        pass
    return Path(tempfile.gettempdir())


def _processes_of(run: Path) -> list[int]:
    """Processes that were started for this run folder."""
    try:
        pid = int((run / "uml" / "pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return []
    return [pid] if f"OUT={run}".encode() in command.split(b"\0") else []


def _text(log: Path) -> str:
    try:
        return log.read_text(errors="replace")
    except OSError:
        return ""


def _context(output: str) -> str:
    """The last error of the programs before the failure."""
    said = [
        line.strip()
        for line in output.splitlines()
        if any(
            word in line for word in ("Error:", "RTNETLINK", "What is", "Unknown", "Illegal", "nonexistent", "cannot")
        )
        and not line.startswith("FAILED")
    ]
    return said[-1].rstrip(".") if said else ""


def _ending(status: int | None, output: str) -> str:
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "it said nothing")
    if status is None:
        return f"the kernel does not answer; last words: {one_line(last)}"
    if status < 0:
        name = signal.Signals(-status).name
        hint = " (is /dev/shm or the temporary folder full?)" if name == "SIGBUS" else ""
        return f"the kernel was ended by {name}{hint}; last words: {last}"
    if "panic" in output.lower():
        panic = next(line for line in output.splitlines() if "panic" in line.lower())
        return f"the kernel panicked: {one_line(panic)}"
    return f"the kernel ended early with status {status}; last words: {one_line(last)}"


def stop_all() -> None:
    """Ends every machine of this process and removes its folder; for a process that will not come back to them."""
    for process, folder in list(_running.items()):
        process.kill()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def run_folder() -> Iterator[Path]:
    """A folder of its own with a short path, because the machine has a socket in it; gone afterwards.

    Folders that killed processes have left are removed first. Raises OSError.
    """
    _remove_leftovers()
    with tempfile.TemporaryDirectory(prefix=f"{_FOLDER}-{os.getpid()}-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (folder / f"{_OWNER}.new").open("w") as owner:
            system.lock(owner, wait=True)
            owner.write(_boot())
            owner.flush()
            # It appears with its lock held.
            (folder / f"{_OWNER}.new").rename(folder / _OWNER)
            yield folder


def _remove_leftovers() -> None:
    """Run folders of processes of this user that were killed.

    The lock says whether its process lives, in whichever container, but only to processes on the same kernel: a folder
    of another machine, or from before this one started, is left alone, and so is any that has no such file.
    """
    for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER}-*"):
        try:
            with open(path / _OWNER, opener=_open_own) as owner:
                system.lock(owner)
                if owner.read() == _boot():
                    shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue


def _open_own(path: str, flags: int) -> int:
    """No link, and of this user."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW)
    if os.fstat(descriptor).st_uid != os.getuid():
        os.close(descriptor)
        raise PermissionError(path)
    return descriptor


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text()
