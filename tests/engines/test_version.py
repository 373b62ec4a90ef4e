"""What decides the results of a run is part of its id: sources, kernel, and the code that records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from l4slab import _core
from l4slab.cli import main
from l4slab.engines.contract import digest
from l4slab.engines.linux import kernels, user_land
from l4slab.engines.registry import get_engine

ROOT = Path(__file__).parents[2]
SOURCES = ("crates/core/src", "crates/plugin/src", "crates/py/src")
FILES = ("crates/core/Cargo.toml", "crates/py/build.rs", "Cargo.lock")

Hash = Callable[[Path], str]


@pytest.fixture(scope="module")
def source_hash(tmp_path_factory: pytest.TempPathFactory) -> Hash:
    """What the build script says of a source tree."""
    if shutil.which("rustc") is None:
        pytest.skip("no rustc")
    script = tmp_path_factory.mktemp("script") / "build"
    subprocess.run(["rustc", "--edition=2024", "-o", script, ROOT / "crates/py/build.rs"], check=True)

    def of(root: Path) -> str:
        environment = os.environ | {"CARGO_MANIFEST_DIR": str(root / "crates" / "py")}
        said = subprocess.run([script], env=environment, check=True, capture_output=True, text=True).stdout
        (found,) = [line.partition("L4SLAB_SOURCE_HASH=")[2] for line in said.splitlines() if "HASH=" in line]
        return found

    return of


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the hash is made of."""
    for name in SOURCES:
        shutil.copytree(ROOT / name, tmp_path / name, copy_function=shutil.copyfile)
    for name in FILES:
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_the_core_says_from_which_sources_it_was_built(source_hash: Hash) -> None:
    assert _core.source_hash() == source_hash(ROOT), "the core is of other sources: build it again (maturin develop)"


def test_a_copy_has_the_same_hash_whatever_its_times_and_line_endings(source_hash: Hash, tree: Path) -> None:
    for file in tree.rglob("*.rs"):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
        os.utime(file, (1e9, 1e9))
    (tree / SOURCES[0] / ".sim.rs.swp").write_bytes(b"an editor's")
    # What only tests and the extension module need.
    change(tree / "Cargo.lock", 'name = "rand_core"\nversion = "0.9', 'name = "rand_core"\nversion = "0.8')
    change(tree / "Cargo.lock", 'name = "pyo3"\nversion = "', 'name = "pyo3"\nversion = "9')
    assert source_hash(tree) == _core.source_hash()


@pytest.mark.parametrize("case", ["a law", "a file's name", "a dependency", "one of a dependency", "the tables"])
def test_what_decides_results_changes_the_hash(source_hash: Hash, tree: Path, case: str) -> None:
    match case:
        case "a law":
            change(tree / "crates/core/src/cc/reno.rs", "2", "3")
        case "a file's name":
            (tree / "crates/core/src/cc/reno.rs").rename(tree / "crates/core/src/cc/renoo.rs")
        case "a dependency":
            change(tree / "Cargo.lock", 'name = "libm"\nversion = "', 'name = "libm"\nversion = "9')
        case "one of a dependency":
            change(tree / "Cargo.lock", 'name = "rand_core"\nversion = "0.10', 'name = "rand_core"\nversion = "0.11')
            change(tree / "Cargo.lock", '"rand_core 0.10', '"rand_core 0.11')
        case "the tables":
            change(tree / "crates/py/src/lib.rs", '"delivered_packets"', '"delivered"')
    assert source_hash(tree) != _core.source_hash()


def test_a_source_distribution_has_the_same_hash(source_hash: Hash, tmp_path: Path) -> None:
    maturin = Path(sys.executable).with_name("maturin")
    if not maturin.is_file():
        pytest.skip("no maturin")
    subprocess.run([maturin, "sdist", "--out", tmp_path], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as made:
        made.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert source_hash(unpacked) == _core.source_hash()


def test_digests_follow_contents_but_not_line_endings(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_bytes(b"a\nb\n")
    other.write_bytes(b"a\r\nb\r\n")
    assert digest("x", one) == digest("x", other)
    other.write_bytes(b"a\nc\n")
    assert len({digest("x", one), digest("x", other), digest("y", one), digest("xa", one), digest("x")}) == 5


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder as `l4slab linux build` leaves it, with other contents."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("L4SLAB_KERNEL", raising=False)
    folder = tmp_path / "l4slab" / "linux"
    (folder / "root" / "lab").mkdir(parents=True)
    (folder / "root" / "usr" / "bin").mkdir(parents=True)
    (folder / "linux").write_bytes(b"a kernel")
    (folder / "linux").chmod(0o755)
    (folder / "kernel.json").write_text('{"version": "7.2.1", "controls": ["cubic"], "inputs": "own"}')
    (folder / "root.json").write_text(json.dumps({"packages": user_land.PACKAGES}))
    (folder / "root" / "usr" / "bin" / "tc").write_bytes(b"tc of iproute2 7.2")
    (folder / "root" / "bin").symlink_to("usr/bin")
    return folder


@pytest.mark.parametrize("part", ["linux", "root/usr/bin/tc", "root/bin"])
def test_the_version_of_the_engine_linux_follows_from_the_kernel_and_its_user_land(kernel: Path, part: str) -> None:
    before = get_engine("linux").version()
    assert len(before) == 16
    for path in kernel.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (1e9, 1e9))
    assert get_engine("linux").version() == before
    if (kernel / part).is_symlink():
        (kernel / part).unlink()
        (kernel / part).symlink_to("usr/sbin")
    else:
        # Of the same length and time, as a build of another day may be.
        new = kernel / "new"
        new.write_bytes((kernel / part).read_bytes().swapcase())
        new.chmod(0o755)
        os.utime(new, (1e9, 1e9))
        new.replace(kernel / part)
    assert get_engine("linux").version() != before


def test_the_source_of_its_own_program_counts_and_not_those_of_other_versions(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = get_engine("linux").version()
    (kernel / "root" / "lab" / "another").mkdir()
    (kernel / "root" / "lab" / "another" / "lab").write_bytes(b"senders and receivers")
    assert get_engine("linux").version() == before
    changed = tmp_path / "data"
    shutil.copytree(kernels.DATA, changed)
    (changed / "programs.h").write_bytes(b"/* */\n" + (changed / "programs.h").read_bytes())
    monkeypatch.setattr(kernels, "DATA", changed)
    assert get_engine("linux").version() != before


def test_a_kernel_of_ones_own_counts(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = get_engine("linux").version()
    own = kernel.parent / "own"
    own.write_bytes(b"another kernel")
    monkeypatch.setenv("L4SLAB_KERNEL", str(own))
    assert get_engine("linux").version() != before


def test_without_a_kernel_there_is_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("L4SLAB_KERNEL", raising=False)
    assert kernels.installed() is None
    assert get_engine("linux").version() == ""


def test_doctor_shows_the_builds(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    said = capsys.readouterr().out
    assert f"{_core.version()}, build {get_engine('sim').version()}, " in said
    if shutil.which("setpriv") is not None:
        assert f"7.2.1, build {get_engine('linux').version()}, " in said
