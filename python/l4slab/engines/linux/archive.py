"""The machine's own Debian archive, suite sid, with signatures checked, and the kernel's source of it."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from l4slab.engines.linux.tools import BuildError, Failed, Progress, do, stamp, write_stamp

OLDEST = (7, 2)
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_OTHER_MACHINES = (
    *("alpha", "arc", "arm", "arm64", "csky", "hexagon", "loongarch", "m68k", "microblaze", "mips", "nios2"),
    *("openrisc", "parisc", "powerpc", "riscv", "s390", "sh", "sparc", "xtensa"),
)
# Source that is not compiled and would take most of the time to unpack.
_NOT_UNPACKED = [
    *(f"*/{folder}/*.[chS]" for folder in ("drivers/gpu", "drivers/media", "drivers/staging", "drivers/infiniband")),
    *(f"*/{folder}/*.[chS]" for folder in ("drivers/scsi", "drivers/net/wireless", "drivers/net/ethernet", "sound")),
    # The tests of the network (`l4slab linux test`) stay.
    "*/tools/testing/[!s]*",
    *(f"*/tools/testing/selftests/{folder}/*" for folder in ("[!knt]*", "k[!s]*", "n[!e]*", "t[!c]*")),
    *(f"*/arch/{arch}/{what}" for what in ("*.[chS]", "boot/*") for arch in _OTHER_MACHINES),
]


def is_left_out(path: str) -> bool:
    """Whether a file of the source (its path in it, with a slash before) is of no use here."""
    return any(fnmatch(path, pattern) for pattern in _NOT_UNPACKED)


@dataclass(frozen=True)
class Apt:
    """apt-get with the settings of `archive`."""

    options: list[str]

    def __call__(self, *arguments: str, cwd: Path | None = None) -> str:
        return do(["apt-get", *self.options, *arguments], cwd=cwd)

    def search(self, pattern: str) -> list[str]:
        return do(["apt-cache", *self.options, "search", "--names-only", pattern]).splitlines()


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


def archive(folder: Path, progress: Progress) -> Apt:
    """apt-get for suite sid of the archive that the machine's own sources name. Raises BuildError."""
    progress("reading the package archive", None)
    targets = do(["apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(ORIGIN)", "Created-By: Packages"])
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
    sources.write_text("".join(f"{kind} [signed-by={KEYRING}] {uri} sid main\n" for kind in ("deb", "deb-src")))
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
    apt = Apt(options)
    try:
        apt("update", "--error-on=any")
    except Failed as error:
        # A snapshot of the archive is older than the validity that its signature states.
        if "expired" not in error.output:
            raise
        apt = Apt([*options, "-o", "Acquire::Check-Valid-Until=false"])
        apt("update", "--error-on=any")
    return apt


def source_files(apt: Apt, name: str, version: str) -> dict[str, str]:
    """The files of a source package and their SHA-256; none where the archive has it no more."""
    try:
        said = apt("source", "--print-uris", f"{name}={version}")
    except Failed:
        return {}
    return dict(re.findall(r"^'[^']+' (\S+) \d+ SHA256:(\w+)$", said, re.M))


def newest_source(search: list[str]) -> str | None:
    """The newest `linux-source-X.Y` package of an `apt-cache search` that is new enough."""
    found = []
    for line in search:
        match = re.match(r"linux-source-(\d+)\.(\d+) ", line + " ")
        if match and (version := (int(match[1]), int(match[2]))) >= OLDEST:
            found.append((version, line.split()[0]))
    return max(found)[1] if found else None


_LAYOUT = 2  # changes with what is unpacked


def source(folder: Path, apt: Apt | None, progress: Progress) -> Path:
    """The unpacked source of the newest kernel there. Raises BuildError."""
    source = folder / "source"
    known = stamp(folder / "source.json")
    if known.get("layout") != _LAYOUT:
        apt = apt or archive(folder, progress)
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
        known = {"package": package, "version": deb.name.split("_")[1], "layout": _LAYOUT}
        deb.unlink()
        write_stamp(folder / "source.json", known)
    if "files" not in known:
        apt = apt or archive(folder, progress)
        write_stamp(folder / "source.json", {**known, "files": source_files(apt, "linux", str(known["version"]))})
    return source


def _unpack(deb: Path, source: Path) -> None:
    excluded = [f"--exclude={pattern}" for pattern in _NOT_UNPACKED]
    with tempfile.TemporaryDirectory(dir=source.parent) as temporary:
        do(["dpkg-deb", "--extract", str(deb), temporary])
        tarball = next(Path(temporary).glob("usr/src/linux-source-*.tar.xz"), None)
        if tarball is None:
            raise BuildError(f"{deb.name} has no source in usr/src; please report this")
        do(
            ["tar", "-xf", str(tarball), "--strip-components=1", "-C", str(source), "--wildcards", *excluded],
            environment={"XZ_DEFAULTS": "-T0"},
        )
