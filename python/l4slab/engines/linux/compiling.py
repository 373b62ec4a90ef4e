"""Compiling a kernel: what is changed in its source, the modules that are put beside its own, and `make`.

Changed are five things: HZ of arch/um, which is no option there, is 250 as in the kernels of Debian and Ubuntu
(CUBIC's clock ticks in jiffies); a veth pair is a wire, on which the time at which TCP wanted to send is not told (else
`fq` of a router would take it for the time of arrival); a congestion control may say how many segments leave at once,
as in the kernels of L4STeam; a process reads the clock without a system call (`data/um_clock`); and the project's TCP
Prague is put beside the other congestion controls.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from l4slab.base.errors import one_line
from l4slab.engines.linux.archive import is_left_out
from l4slab.engines.linux.tools import BuildError, Failed, Progress, do

DATA = Path(__file__).parent / "data"
PRAGUE = DATA / "tcp_prague" / "tcp_prague.c"
CLOCK = DATA / "um_clock"
HZ = 250
# By file: what stands there once, and what takes its place.
_EDITS = {
    "drivers/net/veth.c": (
        "\n\tskb_tx_timestamp(skb);\n",
        "\n\tskb->tstamp = 0;\n\tskb->tstamp_type = 0;\n\tskb_tx_timestamp(skb);\n",
    ),
    "include/net/tcp.h": (
        "\n\tu32 (*min_tso_segs)(struct sock *sk);\n",
        "\n\tu32 (*min_tso_segs)(struct sock *sk);\n"
        "#define TCP_CONG_TSO_SEGS 1\n\tu32 (*tso_segs)(struct sock *sk, unsigned int mss);\n",
    ),
    "net/ipv4/tcp_output.c": (
        "\n\ttso_segs = tcp_tso_autosize(sk, mss_now, min_tso);\n",
        "\n\ttso_segs = ca_ops->tso_segs ? ca_ops->tso_segs(sk, mss_now) :\n"
        "\t\ttcp_tso_autosize(sk, mss_now, min_tso);\n",
    ),
}
# Files of the clock, and the folders of a source that get them.
_CLOCK_FILES = {
    "um_clock.c": ("arch/um/kernel",),
    "um_clock.h": ("arch/um/kernel", "arch/x86/um/vdso"),
    "um_vdso.c": ("arch/x86/um/vdso",),
}
# Where they are called: a file, what stands there once, and what takes its place.
_CLOCK_EDITS = (
    ("arch/um/kernel/Makefile", "\nobj-y += load_file.o\n", "\nobj-y += load_file.o um_clock.o\n"),
    (
        "arch/um/kernel/time.c",
        "\nstatic void time_travel_set_time(unsigned long long ns)\n{",
        "\nvoid um_clock_set(unsigned long long ns);\n\nstatic void time_travel_set_time(unsigned long long ns)\n{",
    ),
    ("arch/um/kernel/time.c", "\n\ttime_travel_time = ns;\n", "\n\ttime_travel_time = ns;\n\tum_clock_set(ns);\n"),
    (
        "arch/um/os-Linux/skas/process.c",
        "\nvoid userspace(struct uml_pt_regs *regs)\n",
        "\nvoid um_clock_add(void);\n\nvoid userspace(struct uml_pt_regs *regs)\n",
    ),
    (
        "arch/um/os-Linux/skas/process.c",
        "\n\t\tUPT_SYSCALL_NR(regs) = -1; /* Assume: It's not a syscall */\n",
        "\n\t\tum_clock_add();\n\t\tUPT_SYSCALL_NR(regs) = -1; /* Assume: It's not a syscall */\n",
    ),
    (
        "arch/um/include/asm/processor-generic.h",
        "\n\tvoid *segv_continue;\n",
        "\n\tvoid *segv_continue;\n\tstruct um_clock_calls { unsigned long count, sleeps; } calls;\n",
    ),
    (
        "arch/um/kernel/skas/syscall.c",
        "\nvoid handle_syscall(struct uml_pt_regs *r)\n",
        "\nvoid um_clock_call(void);\n\nvoid handle_syscall(struct uml_pt_regs *r)\n",
    ),
    (
        "arch/um/kernel/skas/syscall.c",
        "\nout:\n\tsyscall_trace_leave(regs);\n",
        "\nout:\n\tum_clock_call();\n\tsyscall_trace_leave(regs);\n",
    ),
    (
        "arch/x86/um/vdso/vma.c",
        "\nint arch_setup_additional_pages(struct linux_binprm *bprm, int uses_interp)\n",
        "\nstruct vm_area_struct *um_clock_map(struct mm_struct *mm, unsigned long vdso);\n\n"
        "int arch_setup_additional_pages(struct linux_binprm *bprm, int uses_interp)\n",
    ),
    (
        "arch/x86/um/vdso/vma.c",
        "\n\tmmap_write_unlock(mm);\n\n\treturn IS_ERR(vma)",
        "\n\tif (!IS_ERR(vma))\n\t\tvma = um_clock_map(mm, um_vdso_addr);\n"
        "\tmmap_write_unlock(mm);\n\n\treturn IS_ERR(vma)",
    ),
)
_OUT = "l4slab-build"  # of a source: its objects
_MODULES = "l4slab"  # of net: modules from outside of the source
_MODULES_LINE = f"obj-y += {_MODULES}/\n"
# What a source has that was compiled in place.
_NOT_COPIED = {".git", "include/config", "include/generated", "arch/um/include/generated", "arch/x86/include/generated"}
_OBJECTS = 990  # about as many files are compiled


def recipe() -> str:
    """A hash of what the default kernel is made from, but for the source."""
    digest = hashlib.sha256((DATA / "kernel.config").read_bytes())
    digest.update(f"{HZ}{_EDITS}{_CLOCK_EDITS}".encode())
    for path in (PRAGUE, *(CLOCK / name for name in _CLOCK_FILES)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def patch(source: Path, hz: int = HZ) -> None:
    """Build the parts that all kernels share. A second call changes nothing. Raises BuildError."""
    kconfig = source / "arch/um/Kconfig"
    text = kconfig.read_text()
    patched = re.sub(r"(config HZ\n\tint\n\tdefault )\d+", rf"\g<1>{hz}", text)
    if f"default {hz}\n" not in patched:
        raise BuildError(f"{kconfig} has no HZ where it was looked for; this kernel is too new for this version")
    if patched != text:
        kconfig.write_text(patched)
    for name, (stands, becomes) in _EDITS.items():
        file = source / name
        text = file.read_text()
        if becomes in text:
            continue
        if text.count(stands) != 1:
            raise BuildError(f"{file} is not as it was known to be; this kernel is too new for this version")
        file.write_text(text.replace(stands, becomes))
    makefile = source / "net/ipv4/Makefile"
    text = makefile.read_text()
    line = "obj-y += tcp_prague.o\n"
    _copy_if_changed(PRAGUE, source / "net/ipv4" / PRAGUE.name)
    if line not in text:
        makefile.write_text(text + line)
    _share_clock(source)


def _share_clock(source: Path) -> None:
    """Have processes read the clock without a system call. A source that is not as it was known to be is left alone:
    there, each reading is one.
    """
    texts: dict[str, str] = {}
    for name, stands, becomes in _CLOCK_EDITS:
        if name not in texts:
            texts[name] = (source / name).read_text() if (source / name).is_file() else ""
        if becomes not in texts[name]:
            if texts[name].count(stands) != 1:
                return
            texts[name] = texts[name].replace(stands, becomes)
    for name, folders in _CLOCK_FILES.items():
        for folder in folders:
            _copy_if_changed(CLOCK / name, source / folder / name)
    for name, text in texts.items():
        _write_if_changed(source / name, text)


def _copy_if_changed(here: Path, there: Path) -> None:
    if not there.is_file() or there.read_bytes() != here.read_bytes():
        shutil.copyfile(here, there)


def mirror(source: Path, tree: Path) -> None:
    """Make `tree` a copy of `source`. A new one has the objects of a source that was compiled by this program, too;
    in one that is there, only what differs gets the time of now and is compiled again.
    """
    is_new = not tree.is_dir()
    kept: set[Path] = set()
    for folder, names, files in os.walk(source):
        here = Path(folder).relative_to(source)
        is_out = here.parts[:1] == (_OUT,)
        left_out = _NOT_COPIED if is_new or here.parts else {*_NOT_COPIED, _OUT}
        names[:] = [name for name in names if is_out or (here / name).as_posix() not in left_out]
        (tree / here).mkdir(parents=True, exist_ok=True)
        for relative in (here / name for name in files):
            if is_out or not (is_left_out(f"/{relative}") or relative.suffix in (".o", ".cmd")):
                kept.add(relative)
                _copy(source / relative, tree / relative, is_new)
    if not is_new:
        for path in [path for path in tree.rglob("*") if path.is_symlink() or path.is_file()]:
            relative = path.relative_to(tree)
            if relative not in kept and relative.parts[0] != _OUT:
                path.unlink()


def _copy(here: Path, there: Path, is_new: bool) -> None:
    if is_new:
        shutil.copy2(here, there, follow_symlinks=False)
    elif here.is_symlink():
        if not (there.is_symlink() and there.readlink() == here.readlink()):
            there.unlink(missing_ok=True)
            there.symlink_to(here.readlink())
    elif not (there.is_file() and filecmp.cmp(here, there, shallow=False)):
        shutil.copyfile(here, there)
        there.chmod(here.stat().st_mode)


def apply(patch: Path, tree: Path) -> None:
    """Raises BuildError where a patch does not fit."""
    try:
        do(["patch", "-p1", "--forward", "--batch", "--directory", str(tree), "--input", str(patch.absolute())])
    except Failed as error:
        said = one_line(
            "; ".join(line for line in error.output.splitlines() if "FAILED" in line or "find file" in line)
        )
        raise BuildError(
            f"--patch {patch} does not fit the source: {said or 'patch refuses it'}; make it with git diff there"
        ) from None


def add_modules(modules: Sequence[Path], tree: Path) -> list[str]:
    """Have each `tcp_*.c` and `sch_*.c` of these folders compiled in; the names of the queues. Raises BuildError."""
    qdiscs: list[str] = []
    inside = tree / "net" / _MODULES
    shutil.rmtree(inside, ignore_errors=True)
    makefile = tree / "net" / "Makefile"
    text = makefile.read_text().replace(_MODULES_LINE, "")
    if not modules:
        _write_if_changed(makefile, text)
        return []
    inside.mkdir()
    (inside / "Makefile").write_text("".join(f"obj-y += {module.absolute().name}/\n" for module in modules))
    for module in modules:
        sources = [path for pattern in ("tcp_*.c", "sch_*.c") for path in sorted(module.glob(pattern))]
        if not sources:
            raise BuildError(
                f"--module {module} has no tcp_*.c and no sch_*.c; give the folder with the module's source"
            )
        there = inside / module.absolute().name
        there.mkdir()
        for path in (*sources, *module.glob("*.h")):
            shutil.copy2(path, there / path.name)
        objects = " ".join(f"{path.stem}.o" for path in sources)
        (there / "Makefile").write_text(
            f"obj-y += {objects}\nccflags-y := -I$(src) -I$(srctree)/net/ipv4 -I$(srctree)/net/sched\n"
        )
        for path in sources:
            if path.name.startswith("sch_"):
                qdiscs += re.findall(r'\.id\s*=\s*"([^"]+)"', path.read_text(errors="replace"))
    _write_if_changed(makefile, text + _MODULES_LINE)
    return qdiscs


def _write_if_changed(path: Path, text: str) -> None:
    if path.read_text() != text:
        path.write_text(text)


def compile_kernel(source: Path, jobs: int, progress: Progress) -> Path:
    """The kernel of a source, without symbols. Raises BuildError."""
    # Inside of the source, the objects know it by a relative path: a copy of both is not compiled again.
    out = source / _OUT
    out.mkdir(exist_ok=True)
    make = ["make", "-C", str(source), f"O={out}", "ARCH=um", f"-j{jobs}"]
    # The same source and compiler give the same kernel: its contents are part of every run's id.
    make += [
        "KBUILD_BUILD_TIMESTAMP=@0",
        "KBUILD_BUILD_USER=l4slab",
        "KBUILD_BUILD_HOST=l4slab",
        "KBUILD_BUILD_VERSION=1",
    ]
    progress("configuring the kernel", None)
    fragment = out / "l4slab.config"
    config = (DATA / "kernel.config").read_text()
    if fragment.is_file() and fragment.read_text() == config and (out / ".config").is_file():
        do([*make, "olddefconfig"])
    else:
        do([*make, "allnoconfig"])
        merge = source / "scripts/kconfig/merge_config.sh"
        do([str(merge), "-m", "-O", str(out), str(out / ".config"), str(DATA / "kernel.config")], cwd=source)
        do([*make, "olddefconfig"])
        fragment.write_text(config)
    if absent := unset_options(config, (out / ".config").read_text()):
        raise BuildError(f"the kernel's configuration refuses {', '.join(absent)}; this source is too new or too old")
    _make(make, progress, out / "make.log")
    made = out / "linux.stripped"
    shutil.copyfile(out / "linux", made)
    made.chmod(0o755)
    if shutil.which("strip") is not None:
        do(["strip", str(made)])
    return made


def unset_options(wanted: str, config: str) -> list[str]:
    """Options that are asked for with =y and are not set in a `.config`."""
    lines = set(config.splitlines())
    return [line.removesuffix("=y") for line in wanted.splitlines() if line.endswith("=y") and line not in lines]


def _make(make: list[str], progress: Progress, log: Path) -> None:
    made = 0
    with (
        log.open("w") as copy,
        subprocess.Popen(
            [*make, "linux"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                copy.write(line)
                if line.startswith("  CC "):
                    made += 1
                    progress("compiling the kernel", min(0.99, made / _OBJECTS))
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise Failed("make", log.read_text())
