"""Scripts of packetdrill: which packets TCP must send, and when."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from l4slab.base.errors import InputError
from l4slab.base.progress import Told
from l4slab.engines.linux import kernels
from l4slab.engines.linux.tools import TOOLS, BuildError, do, missing
from l4slab.tools.kerneltests import Ended, Judged, KernelTest, by_status

SUFFIX = ".pkt"
PROGRAM = "packetdrill"
_LIMIT_S = 300
_V4 = "--local_ip=192.168.0.1 --gateway_ip=192.168.0.1 --netmask_ip=255.255.0.0 --remote_ip=192.0.2.1"
# The addresses, and the cookies of TCP Fast Open that follow from them and from the key of the scripts' `defaults.sh`.
_COOKIES = "-D TFO_COOKIE=3021b9d889017eeb -D TFO_COOKIE_ZERO=b7c12350a90dc8f5"
_IPV4 = "-D CMSG_LEVEL_IP=SOL_IP -D CMSG_TYPE_RECVERR=IP_RECVERR"
_IPV6 = "-D CMSG_LEVEL_IP=SOL_IPV6 -D CMSG_TYPE_RECVERR=IPV6_RECVERR"
VERSIONS = {
    "ipv4": f"{_V4} {_COOKIES} {_IPV4}",
    "ipv6": "--mtu=1520 --local_ip=fd3d:0a0b:17d6::1 --gateway_ip=fd3d:0a0b:17d6:8888::1 --remote_ip=fd3d:fa7b:d17d::1 "
    f"-D TFO_COOKIE=c1d1e9742a47a9bc -D TFO_COOKIE_ZERO=82af1a8f9a205c34 {_IPV6}",
    "ipv4-mapped-ipv6": f"{_V4} {_COOKIES} {_IPV6}",
}


def tests(file: Path, group: str, program: Path) -> Iterator[KernelTest]:
    """A test for each version of IP that the script has."""
    asked = re.findall(r"^--ip_version=(\S+)", file.read_text(errors="replace"), re.M)
    if unknown := [one for one in asked if one not in VERSIONS]:
        raise InputError(f"--ip_version={unknown[0]} is unknown; valid are {', '.join(VERSIONS)}", file=file)
    for version in dict.fromkeys(asked or VERSIONS):
        words = [str(program), f"--ip_version={version}", *VERSIONS[version].split(), file.name]
        script = f"cd {shlex.quote(str(file.parent))} && exec {shlex.join(words)}"
        yield KernelTest(group, f"{file.stem} {version}", script, _LIMIT_S, _judge)


def _judge(ended: Ended) -> Judged:
    """The place in the script comes first, and what was seen there after it."""
    where = next((line for line in ended.said.splitlines() if re.match(rf"\S+\{SUFFIX}:\d*", line)), None)
    return by_status(ended) if where is None or ended.status == 0 else Judged("fail", where)


def find(source: Path | None, told: Told) -> Path:
    """The program: built from its source, or that of the PATH. Raises InputError, BuildError."""
    if source is not None:
        return _built(source, told)
    if (path := shutil.which(PROGRAM)) is None:
        raise InputError(f"{PROGRAM} is not in PATH; give the folder of its source with --{PROGRAM}")
    return Path(path)


def _built(given: Path, told: Told) -> Path:
    folders = (given, given / "gtests/net/packetdrill", given / "packetdrill")
    source = next((path for path in folders if (path / "run_packet.c").is_file()), None)
    if source is None:
        raise InputError(
            f"{given} is no source of packetdrill; give the folder that has run_packet.c", key="--packetdrill"
        )
    files = sorted(path for path in source.rglob("*") if path.suffix in (".c", ".h", ".l", ".y") and path.is_file())
    digest = hashlib.sha256()
    for path in files:
        # What flex and bison have made of it is made again.
        if not (path.suffix == ".c" and {path.with_suffix(".l"), path.with_suffix(".y")} & {*files}):
            digest.update(f"{path.relative_to(source)}\0".encode() + path.read_bytes())
    out = kernels.cache() / PROGRAM / digest.hexdigest()[:16]
    if not (out / PROGRAM).is_file():
        if (sentence := missing({name: TOOLS[name] for name in ("make", "gcc", "flex", "bison")})) is not None:
            raise BuildError(sentence)
        told(f"building {PROGRAM}", None)
        work = out.with_suffix(".new")
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(source, work, ignore=shutil.ignore_patterns("*.o", PROGRAM, "lexer.c", "parser.c"))
        do(["sh", "-c", f"./configure && make {PROGRAM}"], cwd=work)
        out.mkdir(parents=True, exist_ok=True)
        (work / PROGRAM).replace(out / PROGRAM)
        shutil.rmtree(work)
    return out / PROGRAM
