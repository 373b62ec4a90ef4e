"""`l4slab linux build`: kernel source and user land from the package archive, a trimmed kernel, all in the cache.

Everything comes through apt, from the archive that the machine's own apt sources name, suite sid, with its signatures
checked. Nothing needs root: packages are unpacked, not installed. Each step leaves a stamp and is not repeated.

The kernel's source is not changed but for three things: HZ of arch/um, which is no option there, is 250 as in the
kernels of Debian and Ubuntu (CUBIC's clock ticks in jiffies); a veth pair is a wire, on which the time at which TCP
wanted to send is not told (else `fq` of a router would take it for the time of arrival); and the project's TCP Prague
is put beside the other congestion controls.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from l4slab.errors import L4slabError, one_line

HZ = 250
# In veth_xmit: what stands there, and what is put in front of it.
_WIRE = ("\n\tskb_tx_timestamp(skb);\n", "\n\tskb->tstamp = 0;\n\tskb->tstamp_type = 0;")
OLDEST = (7, 2)
DATA = Path(__file__).parent / "data"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
HELPER = ("lab.c", "programs.h", "init.sh")
USER_LAND = ("busybox-static", "dash", "iproute2", "ethtool")
# Programs of the host, and the Debian packages they are in.
TOOLS = {
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "tar": "tar",
    "xz": "xz-utils",
    "make": "make",
    "gcc": "gcc libc6-dev",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
}
# To run a kernel that is there.
RUN_TOOLS = {"setpriv": "util-linux"}
_OTHER_MACHINES = (
    *("alpha", "arc", "arm", "arm64", "csky", "hexagon", "loongarch", "m68k", "microblaze", "mips", "nios2"),
    *("openrisc", "parisc", "powerpc", "riscv", "s390", "sh", "sparc", "xtensa"),
)
# Source that is not compiled and would take most of the time to unpack.
_NOT_UNPACKED = [
    *(f"*/{folder}/*.[chS]" for folder in ("drivers/gpu", "drivers/media", "drivers/staging", "drivers/infiniband")),
    *(f"*/{folder}/*.[chS]" for folder in ("drivers/scsi", "drivers/net/wireless", "drivers/net/ethernet", "sound")),
    "*/tools/testing/*",
    *(f"*/arch/{arch}/{what}" for what in ("*.[chS]", "boot/*") for arch in _OTHER_MACHINES),
]
_OBJECTS = 752  # about as many files are compiled
_NEEDED_GB = 4


class BuildError(L4slabError):
    """The laboratory cannot be built; the sentence says what is missing and how to get it."""


Progress = Callable[[str, float | None], None]


def cache() -> Path:
    """Where kernel and user land are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "l4slab" / "linux"


@dataclass(frozen=True)
class Kernel:
    """A kernel to boot. `controls`: its congestion controls, None where that is not known before it runs."""

    path: Path
    version: str
    controls: tuple[str, ...] | None


def root() -> Path:
    """The folder that is the virtual machine's file system."""
    return cache() / "root"


def installed() -> Kernel | None:
    """The kernel that runs are made with: that of `L4SLAB_KERNEL`, or the one that was built. None: not there yet."""
    if own := os.environ.get("L4SLAB_KERNEL"):
        return Kernel(Path(own), "", None)
    try:
        stamp = json.loads((cache() / "kernel.json").read_text())
        path = cache() / "linux"
        if not os.access(path, os.X_OK):
            return None
        return Kernel(path, stamp["version"], tuple(stamp["controls"]))
    except (OSError, ValueError, KeyError):
        return None


def contents(kernel: Kernel) -> str:
    """A hash of the kernel and of everything in the virtual machine's file system; of its own program its source's."""
    inside = (path for path in root().rglob("*") if path.is_symlink() or path.is_file())
    files = [kernel.path, *sorted(path for path in inside if not path.is_relative_to(root() / "lab"))]
    states = [(path, os.lstat(path)) for path in files]
    known = tuple((path, state.st_ino, state.st_size, state.st_mtime_ns) for path, state in states)
    return _contents(known) + _helper_digest()


@lru_cache(1)
def _contents(files: tuple[tuple[Path, int, int, int], ...]) -> str:
    whole = hashlib.sha256()
    for path, *_ in files:
        name = str(path.relative_to(root())) if path.is_relative_to(root()) else ""
        # The kernel of L4SLAB_KERNEL may be a link.
        inside = str(path.readlink()).encode() if name and path.is_symlink() else path.read_bytes()
        whole.update(f"{name}\0{len(inside)}\0".encode() + inside)
    return whole.hexdigest()


def is_current() -> bool:
    """Whether the kernel was made from this version's configuration and TCP Prague, or is the user's own."""
    is_ours = _stamp(cache() / "kernel.json").get("inputs") in ("own", _inputs())
    return is_ours or bool(os.environ.get("L4SLAB_KERNEL"))


def has_user_land() -> bool:
    """Whether the programs of the virtual machine are there."""
    return _stamp(cache() / "root.json").get("packages") == list(USER_LAND)


def helper() -> Path:
    """The folder in the user land with the laboratory's own program and what boots it. Each version of their source has
    its own, so that several versions of this package can use the same cache.
    """
    return root() / "lab" / _helper_digest()


def _helper_digest() -> str:
    return hashlib.sha256(b"".join((DATA / name).read_bytes() for name in HELPER)).hexdigest()[:16]


def prague_source() -> Path | None:
    """The project's TCP Prague module, where this is a source checkout or the package has it."""
    candidates = [DATA / "tcp_prague", Path(__file__).parents[4] / "kernel" / "tcp_prague"]
    return next((path for path in candidates if (path / "tcp_prague.c").is_file()), None)


def missing(tools: dict[str, str]) -> str | None:
    """What of `tools` is missing and how to get it, as a sentence; None where all are there."""
    absent = {tool: packages for tool, packages in tools.items() if shutil.which(tool) is None}
    if not absent:
        return None
    names = ", ".join(absent)
    verb = "is" if len(absent) == 1 else "are"
    packages = " ".join(dict.fromkeys(" ".join(absent.values()).split()))
    return f"{names} {verb} missing; install with: sudo apt-get install {packages}"


def build(progress: Progress, kernel: Path | None = None, jobs: int | None = None) -> Kernel:
    """Build what is not there yet. Raises BuildError.

    With `kernel`, that file is used instead of building one.
    """
    folder = cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one(folder):
            return _build(folder, progress, kernel, jobs or len(os.sched_getaffinity(0)))
    except OSError as error:
        raise BuildError(
            f"{folder} cannot be written ({error.strerror or error}); set XDG_CACHE_HOME to a folder with space"
        ) from None


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BuildError(f"another build is at work in {folder}; wait for it") from None
        yield


def _build(folder: Path, progress: Progress, kernel: Path | None, jobs: int) -> Kernel:
    wanted = _inputs()
    if kernel is not None and not os.access(kernel, os.X_OK):
        raise BuildError(f"--kernel {kernel} is not a program; give the file that make ARCH=um linux made")
    root_ready = has_user_land()
    before = installed()
    if kernel is None and before is not None and _stamp(folder / "kernel.json").get("inputs") == wanted:
        kernel_ready = True
    else:
        kernel_ready = kernel is not None
    if not (root_ready and kernel_ready):
        if (sentence := missing(TOOLS)) is not None:
            raise BuildError(sentence)
        if shutil.disk_usage(folder).free < _NEEDED_GB * 1e9 and not kernel_ready:
            raise BuildError(f"{folder} needs {_NEEDED_GB} GB of free space; free some, or set XDG_CACHE_HOME")
    apt = None
    if not root_ready:
        apt = _archive(folder, progress)
        _user_land(folder, apt, progress)
    make_helper(progress)
    if not kernel_ready:
        source = _source(folder, apt, progress)
        _compile(folder, source, wanted, jobs, progress)
    if kernel is not None:
        progress("booting the kernel", None)
        controls, version = _boot_facts(kernel.absolute())
        shutil.copy2(kernel, folder / "linux.new")
        (folder / "linux.new").replace(folder / "linux")
        stamp = {"version": version, "controls": controls, "inputs": "own"}
        _write_stamp(folder / "kernel.json", stamp)
    made = installed()
    if made is None:
        raise BuildError(f"{folder} has no kernel after the build; remove the folder and build again")
    return made


def _inputs() -> str:
    """What the kernel is made from, but for the source."""
    digest = hashlib.sha256((DATA / "kernel.config").read_bytes())
    digest.update(f"{HZ}{_WIRE}".encode())
    if (prague := prague_source()) is not None:
        digest.update((prague / "tcp_prague.c").read_bytes())
    return digest.hexdigest()[:16]


def _stamp(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_stamp(path: Path, content: Mapping[str, object]) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


def _do(command: list[str], cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """Run a program; its output. Raises BuildError with the last lines of what it said."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except FileNotFoundError:
        raise BuildError(missing(TOOLS) or f"{command[0]} is missing; install it") from None
    if done.returncode:
        raise _Failed(command[0], done.stdout)
    return done.stdout


class _Failed(BuildError):
    def __init__(self, program: str, output: str):
        self.output = output
        # What make says about itself is no reason.
        lines = [line for line in output.splitlines() if re.search(r"^E:|[Ee]rror|can't|cannot|No space", line)]
        lines = [line for line in lines if not line.startswith("make")] or lines
        said = one_line("; ".join((lines or output.splitlines())[-3:]))
        super().__init__(f"{program} failed: {said[:400] or 'it said nothing'}; the same command goes on from here")


# -- the archive ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Apt:
    options: list[str]

    def __call__(self, *arguments: str, cwd: Path | None = None) -> str:
        return _do(["apt-get", *self.options, *arguments], cwd=cwd)

    def search(self, pattern: str) -> list[str]:
        return _do(["apt-cache", *self.options, "search", "--names-only", pattern]).splitlines()


def archive_of(index_targets: str) -> str | None:
    """The Debian archive among the machine's apt sources, from `apt-get indextargets`."""
    for line in index_targets.splitlines():
        uri, _, rest = line.partition("|")
        release, _, origin = rest.partition("|")
        if "security" in uri or "-" in release:
            continue
        if origin == "Debian" or uri.rstrip("/").endswith("/debian"):
            return uri.rstrip("/")
    return None


def _archive(folder: Path, progress: Progress) -> _Apt:
    progress("reading the package archive", None)
    targets = _do(["apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(ORIGIN)", "Created-By: Packages"])
    uri = archive_of(targets)
    if uri is None:
        raise BuildError(
            "this machine's apt sources name no Debian archive, which kernel and user land come from; "
            "add one, or give a kernel with --kernel"
        )
    if not KEYRING.is_file():
        raise BuildError(f"{KEYRING} is missing; install with: sudo apt-get install debian-archive-keyring")
    state = folder / "apt"
    for part in ("lists/partial", "archives/partial"):
        (state / part).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    sources = state / "sid.list"
    sources.write_text(f"deb [signed-by={KEYRING}] {uri} sid main\n")
    settings = {
        "Dir::Etc::sourcelist": str(sources),
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::preferences": "-",
        "Dir::Etc::preferencesparts": "-",
        "Dir::State::lists": str(state / "lists"),
        "Dir::State::status": str(state / "status"),
        "Dir::State::extended_states": str(state / "extended"),
        "Dir::Cache": str(state),
        "Dir::Cache::archives": str(state / "archives"),
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
        "APT::Get::Assume-Yes": "true",
        "APT::Install-Recommends": "false",
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    apt = _Apt(options)
    try:
        apt("update", "--error-on=any")
    except _Failed as error:
        # A snapshot of the archive is older than the validity that its signature states.
        if "expired" not in error.output:
            raise
        apt = _Apt([*options, "-o", "Acquire::Check-Valid-Until=false"])
        apt("update", "--error-on=any")
    return apt


def _user_land(folder: Path, apt: _Apt, progress: Progress) -> None:
    progress("fetching the user land", None)
    apt("install", "--download-only", *USER_LAND)
    new = folder / "root.new"
    shutil.rmtree(new, ignore_errors=True)
    for part in ("bin", "sbin", "lib", "lib64"):
        (new / "usr" / part).mkdir(parents=True)
        (new / part).symlink_to(f"usr/{part}")
    for package in sorted((folder / "apt" / "archives").glob("*.deb")):
        progress(f"unpacking {package.name.partition('_')[0]}", None)
        _do(["dpkg-deb", "--extract", str(package), str(new)])
    for part in ("proc", "sys", "tmp", "run", "dev", "out", "lab"):
        (new / part).mkdir(exist_ok=True)
    busybox = next((path for path in (new / "usr/bin/busybox", new / "bin/busybox") if path.is_file()), None)
    if busybox is None:
        raise BuildError("the archive's busybox-static has no busybox; please report this")
    # Its own shell would take its own ip and tc instead of the real ones.
    for name, program in (("sh", "dash"), ("cat", "busybox")):
        link = new / "usr/bin" / name
        if not link.exists():
            link.symlink_to(program)
    for part in ("doc", "man", "locale"):
        shutil.rmtree(new / "usr/share" / part, ignore_errors=True)
    shutil.rmtree(folder / "root", ignore_errors=True)
    new.replace(folder / "root")
    _write_stamp(folder / "root.json", {"packages": list(USER_LAND)})


def make_helper(progress: Progress) -> None:
    """Compile the laboratory's own program where this version's is not there. Raises BuildError, OSError."""
    if (helper() / "lab").is_file():
        return
    if (sentence := missing({"gcc": TOOLS["gcc"]})) is not None:
        raise BuildError(sentence)
    progress("compiling senders, receivers and sampler", None)
    there = helper()
    with tempfile.TemporaryDirectory(dir=there.parent) as temporary:
        new = Path(temporary) / there.name
        new.mkdir()
        _do(["gcc", "-O2", "-static", "-o", str(new / "lab"), str(DATA / "lab.c")])
        shutil.copyfile(DATA / "init.sh", new / "init.sh")
        (new / "init.sh").chmod(0o755)
        # Another process may have been quicker.
        with suppress(OSError):
            new.rename(there)
    if not (there / "lab").is_file():
        raise BuildError(f"{there} cannot be written; remove it and build again")


# -- the kernel -------------------------------------------------------------------------------------------------------


def newest_source(search: list[str]) -> str | None:
    """The newest `linux-source-X.Y` package of an `apt-cache search` that is new enough."""
    found = []
    for line in search:
        match = re.match(r"linux-source-(\d+)\.(\d+) ", line + " ")
        if match and (version := (int(match[1]), int(match[2]))) >= OLDEST:
            found.append((version, line.split()[0]))
    return max(found)[1] if found else None


def _source(folder: Path, apt: _Apt | None, progress: Progress) -> Path:
    """The unpacked source, patched."""
    source = folder / "source"
    if not (folder / "source.json").is_file():
        apt = apt or _archive(folder, progress)
        package = newest_source(apt.search("^linux-source-[0-9.]+$"))
        if package is None:
            oldest = ".".join(map(str, OLDEST))
            raise BuildError(f"the package archive has no linux-source of {oldest} or newer; give one with --kernel")
        progress(f"fetching {package} (160 MB)", None)
        apt("download", package, cwd=folder)
        deb = max(folder.glob(f"{package}_*.deb"), key=lambda path: path.stat().st_mtime)
        progress(f"unpacking {package}", None)
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir()
        _unpack(deb, source)
        version = deb.name.split("_")[1]
        deb.unlink()
        _write_stamp(folder / "source.json", {"package": package, "version": version})
    _patch(source)
    return source


def _unpack(deb: Path, source: Path) -> None:
    excluded = [f"--exclude={pattern}" for pattern in _NOT_UNPACKED]
    with tempfile.TemporaryDirectory(dir=source.parent) as temporary:
        _do(["dpkg-deb", "--extract", str(deb), temporary])
        tarball = next(Path(temporary).glob("usr/src/linux-source-*.tar.xz"), None)
        if tarball is None:
            raise BuildError(f"{deb.name} has no source in usr/src; please report this")
        _do(
            ["tar", "-xf", str(tarball), "--strip-components=1", "-C", str(source), "--wildcards", *excluded],
            environment={"XZ_DEFAULTS": "-T0"},
        )


def _patch(source: Path) -> None:
    kconfig = source / "arch/um/Kconfig"
    text = kconfig.read_text()
    patched = re.sub(r"(config HZ\n\tint\n\tdefault )\d+", rf"\g<1>{HZ}", text)
    if f"default {HZ}\n" not in patched:
        raise BuildError(f"{kconfig} has no HZ where it was looked for; this kernel is too new for this version")
    if patched != text:
        kconfig.write_text(patched)
    veth = source / "drivers/net/veth.c"
    text = veth.read_text()
    if _WIRE[1] not in text:
        if text.count(_WIRE[0]) != 1:
            raise BuildError(f"{veth} does not send as it was known to; this kernel is too new for this version")
        veth.write_text(text.replace(_WIRE[0], "".join(reversed(_WIRE))))
    makefile = source / "net/ipv4/Makefile"
    text = makefile.read_text()
    line = "obj-y += tcp_prague.o\n"
    prague = prague_source()
    if prague is not None:
        _copy_if_changed(prague / "tcp_prague.c", source / "net/ipv4/tcp_prague.c")
        if line not in text:
            makefile.write_text(text + line)
    elif line in text:
        makefile.write_text(text.replace(line, ""))


def _copy_if_changed(here: Path, there: Path) -> None:
    if not there.is_file() or there.read_bytes() != here.read_bytes():
        shutil.copyfile(here, there)


def _compile(folder: Path, source: Path, inputs: str, jobs: int, progress: Progress) -> None:
    out = folder / "build"
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
        _do([*make, "olddefconfig"])
    else:
        _do([*make, "allnoconfig"])
        merge = source / "scripts/kconfig/merge_config.sh"
        _do([str(merge), "-m", "-O", str(out), str(out / ".config"), str(DATA / "kernel.config")], cwd=source)
        _do([*make, "olddefconfig"])
        fragment.write_text(config)
    if absent := unset_options(config, (out / ".config").read_text()):
        raise BuildError(f"the kernel's configuration refuses {', '.join(absent)}; this source is too new or too old")
    _make(make, progress, out / "make.log")
    version = _do([*make, "-s", "kernelrelease"]).split()[-1]
    strip = shutil.which("strip")
    new = folder / "linux.new"
    shutil.copyfile(out / "linux", new)
    new.chmod(0o755)
    if strip is not None:
        _do([strip, str(new)])
    new.replace(folder / "linux")
    controls = ["reno", "cubic", "dctcp", "bbr", *(["prague"] if prague_source() is not None else [])]
    _write_stamp(folder / "kernel.json", {"version": version, "controls": controls, "inputs": inputs})


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
        raise _Failed("make", log.read_text())


def _boot_facts(kernel: Path) -> tuple[list[str], str]:
    """Congestion controls and version of a kernel, from booting it."""
    from l4slab.engines.linux.machine import Machine, MachineError

    with tempfile.TemporaryDirectory(prefix="l4slab-") as temporary:
        run = Path(temporary)
        (run / "setup.sh").write_text("exit 1\n")
        try:
            Machine(kernel, root(), helper().name, run, limit_s=60).boot()
        except MachineError as error:
            facts = dict(line.split(" ", 1) for line in error.output.splitlines() if " " in line)
            if "kernel" not in facts:
                raise BuildError(f"--kernel {kernel} does not boot: {error}") from None
            return facts.get("controls", "").split(), facts["kernel"]
    raise BuildError(f"--kernel {kernel} does not boot")
