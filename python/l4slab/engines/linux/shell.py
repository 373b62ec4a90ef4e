"""`l4slab linux exec`: a command of this machine on the kernel, in virtual time, as root of its network."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from l4slab.base.errors import InputError
from l4slab.engines.contract import EngineError
from l4slab.engines.linux import kernels, programs
from l4slab.engines.linux.engine import disk_sentence, kernel
from l4slab.engines.linux.machine import Machine, MachineError, run_folder

ROOT = "/run/host"  # where init.sh mounts the file system of this machine, read only
_LOOK_S = 0.05
_OUTPUTS = ("out", "err")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Not those of another file system, or of another shell.
_NOT_PASSED = frozenset({"PWD", "OLDPWD", "SHLVL", "_", "TMPDIR"})


@dataclass(frozen=True)
class Ended:
    """The command's exit status, as a shell has it, and the seconds that went by for it."""

    status: int
    virtual_s: float


def execute(
    command: Sequence[str], writable: Sequence[Path], outputs: tuple[BinaryIO, BinaryIO], name: str = kernels.DEFAULT
) -> Ended:
    """Run a command of this machine; what it says goes to `outputs`. It may write below the folders `writable`.

    Raises InputError, EngineError.
    """
    folders = [path.absolute() for path in writable]
    for folder in folders:
        if not os.access(folder, os.W_OK):
            raise InputError(f"--write {folder} cannot be written by you; give a folder of your own")
    # A kernel that is not there is an InputError, and not a run that failed.
    kernels.ready(name)
    found = kernel(name)
    try:
        with run_folder() as folder:
            (folder / programs.FOLDER).mkdir()
            (folder / "setup.sh").write_text(script(command, folders, Path.cwd(), os.environ))
            for which in _OUTPUTS:
                (folder / which).touch()
            machine = Machine(found.path, found.root, kernels.laboratory(), folder, limit_s=0, has_ipv6=True)
            with machine.running() as process:
                _follow(process, folder, outputs)
            return _ended(machine, folder, process.returncode)
    except MachineError as error:
        raise EngineError(str(error)) from None
    except OSError as error:
        raise EngineError(disk_sentence(error)) from None


def script(command: Sequence[str], writable: Sequence[Path], directory: Path, environment: Mapping[str, str]) -> str:
    """The script that init.sh runs instead of setting up a laboratory. It does not return."""
    words = variables(environment)
    inside = ["/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(directory), *command]
    lines = [
        "set -e",
        "ip link set lo up",
        # What a test keeps there, such as the names of namespaces, is gone with the kernel.
        f"busybox mount -t tmpfs run {ROOT}/run",
    ]
    # Those above before those below, which they would hide.
    for path in sorted(writable):
        there = shlex.quote(f"{ROOT}{path}")
        lines += [f"busybox mkdir -p {there}", f"busybox mount -t hostfs -o {shlex.quote(str(path))} none {there}"]
    lines += [
        "exec 3</proc/uptime",
        "read -r began rest <&3",
        "set +e",
        f"busybox env -i {shlex.join(words)} busybox chroot {ROOT} {shlex.join(inside)} "
        "</dev/null >>/out/out 2>>/out/err",
        "status=$?",
        "read -r end rest </proc/uptime",
        'echo "$status $began $end" >/out/ended',
        "busybox sync",
        "busybox poweroff -f",
    ]
    return "\n".join(lines) + "\n"


def variables(environment: Mapping[str, str]) -> list[str]:
    """What a command gets of an environment, as words of `env`."""
    passed = {
        key: value
        for key, value in environment.items()
        if _VARIABLE.fullmatch(key) and key not in _NOT_PASSED and "\0" not in value
    }
    return [f"{key}={value}" for key, value in (passed | {"TMPDIR": programs.TEMPORARY}).items()]


def _follow(process: subprocess.Popen[bytes], folder: Path, outputs: tuple[BinaryIO, BinaryIO]) -> None:
    """Tell what the command says, as soon as it does."""
    with (folder / _OUTPUTS[0]).open("rb") as out, (folder / _OUTPUTS[1]).open("rb") as err:
        is_running = True
        while is_running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
                is_running = False
            for file, to in zip((out, err), outputs, strict=True):
                if said := file.read():
                    to.write(said)
                    to.flush()


def _ended(machine: Machine, folder: Path, returned: int | None) -> Ended:
    try:
        status, began, end = (folder / "ended").read_text().split()
    except (OSError, ValueError):
        raise machine.failure(returned) from None
    return Ended(int(status), float(end) - float(began))
