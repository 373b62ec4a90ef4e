"""`crates/wasm/build.py` on machines that have no compiler for WebAssembly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "crates/wasm/build.py"
# Programs of such a machine: what they are called, and what they do.
RUST = {"rustc": "echo /none", "rustup": "echo 'error: no network' >&2; exit 1"}
DEPENDS = """case $* in
*rustc-web) printf 'rustc-web\\n  Depends: libc6\\n  Depends: libstd-rust-web-dev\\n' ;;
*search*) printf 'lld-9 - linker\\nlld-19 - linker\\n' ;;
esac"""
APT = {"apt-cache": DEPENDS, "apt-get": 'echo "E: Unable to fetch $*" >&2; exit 100', "dpkg-deb": "exit 1"}


NO_TARGET = "rustup cannot add the target wasm32-unknown-unknown, and"
FETCHED = "download --quiet rustc-web rust-web-src lld-19 libstd-rust-web-dev"


@pytest.mark.parametrize(
    ("programs", "sentence"),
    [
        (RUST, f"{NO_TARGET} there is no apt-get for Debian's compiler"),
        (RUST | APT | {"apt-cache": "true"}, f"{NO_TARGET} apt knows no lld"),
        (RUST | APT, f"apt-get download failed: E: Unable to fetch {FETCHED}"),
    ],
    ids=["no apt", "no linker", "no archive"],
)
def test_the_page_is_built_without_the_core_and_the_reason_is_told(
    programs: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, does in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o755)
    older = tmp_path / "core.wasm"
    older.write_bytes(b"of an older core")
    variables = {"PATH": str(folder), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, str(SCRIPT), str(older)], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == (f"dev.sh: the page is built without the core as WebAssembly: {sentence}")
    assert not older.exists()
    assert not list(tmp_path.glob("cache/l4slab/*"))
