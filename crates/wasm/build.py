"""Builds the core as WebAssembly for the page: writes FILE where that is possible, and the reason where it is not.

    python crates/wasm/build.py FILE

The target is the toolchain's own, or what rustup can add. Where neither is to be had, Debian's rustc-web compiles the
standard library, too: the packages are unpacked in the cache folder, not installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = "wasm32-unknown-unknown"
ROOT = Path(__file__).parents[2]
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / TARGET / "wasm" / "l4slab.wasm"
# What rustc-web needs of what it depends on; the rest are libraries that every machine with a C compiler has.
PARTS = re.compile(r"libstd-rust-web-.*|libllvm\d+")
RUSTUP_S = 300


class Impossible(Exception):
    """There is no compiler for the target, in a sentence."""


def main() -> int:
    """The exit status."""
    (file,) = map(Path, sys.argv[1:])
    try:
        options, environment = compiler()
    except Impossible as error:
        file.unlink(missing_ok=True)
        print(f"dev.sh: the page is built without the core as WebAssembly: {error}", file=sys.stderr)
        return 0
    command = ["cargo", "build", "--locked", "--package", "l4slab-wasm", "--profile", "wasm"]
    if file.is_file():  # the first time takes minutes, and cargo says what it compiles
        command.append("--quiet")
    environment = os.environ | environment | {"CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS": shared_paths()}
    code = subprocess.run([*command, "--target", TARGET, *options], cwd=ROOT, env=environment).returncode
    if code == 0 and (not file.is_file() or file.read_bytes() != BUILT.read_bytes()):
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(BUILT, file)
    return code


def compiler() -> tuple[list[str], dict[str, str]]:
    """What cargo is told so that it compiles for the target: options, environment. Raises Impossible."""
    if has_target():
        return [], {}
    folder = cache()
    if not folder.is_dir():
        if rustup_adds_target():
            return [], {}
        unpack(folder)
    libraries = next(path.parent for path in folder.glob("usr/lib/*/libLLVM*"))
    return ["-Zbuild-std=std,panic_abort"], {
        "RUSTC": str(folder / "usr/bin/rustc"),
        "RUSTC_BOOTSTRAP": "1",
        "LD_LIBRARY_PATH": str(libraries),
        "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER": str(next(folder.glob("usr/bin/wasm-ld-*"))),
    }


def shared_paths() -> str:
    """Flags by which panics name files the same way on every machine: without its folders."""
    subprocess.run(["cargo", "fetch", "--quiet", "--locked"], cwd=ROOT, check=False)
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    return " ".join(f"--remap-path-prefix={folder}/=" for folder in (*home.glob("registry/src/*"), cache(), ROOT))


def cache() -> Path:
    """Where Debian's compiler is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "l4slab" / "wasm"


def has_target() -> bool:
    """Whether the toolchain has the target's standard library."""
    sysroot = _says(["rustc", "--print", "sysroot"], ROOT)
    return bool(sysroot) and any(Path(sysroot, "lib/rustlib", TARGET, "lib").glob("libstd-*.rlib"))


def rustup_adds_target() -> bool:
    """Whether it has it now."""
    try:
        _says(["rustup", "target", "add", TARGET], ROOT, RUSTUP_S)
    except Impossible:
        return False
    return has_target()


def unpack(folder: Path) -> None:
    """Debian's compiler, its sources and a linker into `folder`, which appears when it is complete."""
    lacking = [tool for tool in ("apt-get", "apt-cache", "dpkg-deb") if shutil.which(tool) is None]
    if lacking:
        raise Impossible(f"rustup cannot add the target {TARGET}, and there is no {lacking[0]} for Debian's compiler")
    linkers = re.findall(r"^lld-\d+", _says(["apt-cache", "search", "--names-only", r"^lld-[0-9]+$"]), re.MULTILINE)
    if not linkers:
        raise Impossible(f"rustup cannot add the target {TARGET}, and apt knows no lld")
    packages = needed(["rustc-web", "rust-web-src", max(linkers, key=lambda name: int(name.removeprefix("lld-")))])
    print(f"dev.sh: Debian's Rust for WebAssembly goes to {folder}", file=sys.stderr)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        whole = Path(temporary, "whole")
        whole.mkdir()
        _says(["apt-get", "download", "--quiet", *packages], Path(temporary))
        for package in Path(temporary).glob("*.deb"):
            _says(["dpkg-deb", "--extract", str(package), str(whole)])
        whole.rename(folder)


def needed(packages: list[str]) -> list[str]:
    """The packages and their parts."""
    found = list(packages)
    for package in found:  # which grows
        depends = _says(["apt-cache", "depends", "--no-recommends", "--no-suggests", package])
        names = re.findall(r"^  Depends: (\S+)$", depends, re.MULTILINE)
        found += [name for name in names if PARTS.fullmatch(name) and name not in found]
    return found


def _says(command: list[str], folder: Path | None = None, at_most_s: float | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=at_most_s, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", None) or str(error)
        lines = (told.decode() if isinstance(told, bytes) else told).strip().splitlines()
        raise Impossible(f"{' '.join(command[:2])} failed: {lines[-1] if lines else error}") from None
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
