"""The wheel and the source archive of `l4slab-linux`, of a cache as `l4slab linux build` leaves it."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from l4slab.base.errors import InputError
from l4slab.engines.linux import compiling, kernels, user_land

ROOT = Path(__file__).parents[2]
STATIC = b"\x7fELF\x02" + bytes(59)  # without program headers
RELEASED = 1_790_000_000


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernel_wheel", ROOT / "kernel/wheel/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builder: ModuleType) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    licences = tmp_path / "common"
    licences.mkdir()
    (licences / "GPL-2").write_text("the text of the GPL")
    monkeypatch.setattr(builder, "COMMON", licences)
    (tmp_path / "doc" / "libc6-dev").mkdir(parents=True)
    (tmp_path / "doc" / "libc6-dev" / "copyright").write_text("see /usr/share/common-licenses/LGPL-2.1.")
    (licences / "LGPL-2.1").write_text("the text of the LGPL")
    monkeypatch.setattr(builder, "DOCS", tmp_path / "doc")
    monkeypatch.setattr(builder.tools, "linked", lambda: {"libc6-dev": "glibc 2.36-9"})
    of_packages = {
        "packages": user_land.PACKAGES,
        "layout": user_land._LAYOUT,
        "contents": [{"package": "iproute2", "sources": ["iproute2 7.3.0-1"]}],
        "sources": {"iproute2 7.3.0-1": {"iproute2_7.3.0-1.dsc": "ab"}},
    }
    of_source = {"package": "linux-source-7.2", "version": "7.2.1-1", "files": {"linux_7.2.1-1.dsc": "cd"}}
    of_kernel = {"version": "7.2.1", "controls": ["reno"], "inputs": compiling.recipe()}
    files: dict[str, str | bytes] = {
        "linux": STATIC,
        "kernel.json": json.dumps(of_kernel),
        "root.json": json.dumps(of_packages),
        "source.json": json.dumps(of_source),
        "root/usr/sbin/tc": "tc",
        "root/proc/.folder": "",
        "root/lab/of-another-version/lab": "lab",
        "copyright/iproute2": "On Debian, see /usr/share/common-licenses/GPL-2.",
        "source/COPYING": "GPL",
        "source/LICENSES/preferred/GPL-2.0": "GPL",
        "source/LICENSES/exceptions/Linux-syscall-note": "note",
        "source/l4slab-build/.config": "CONFIG_64BIT=y\n",
        "source/Makefile": "",
    }
    folder = kernels.cache()
    for name, contents in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    for name in ("linux", "root/usr/sbin/tc"):
        (folder / name).chmod(0o755)
    os.utime(folder / "source/Makefile", (RELEASED, RELEASED))

    def make_laboratory(root: Path, _: object) -> None:
        there = root / "lab" / kernels.laboratory()
        there.mkdir()
        (there / "lab").write_bytes(STATIC)
        (there / "lab").chmod(0o755)

    monkeypatch.setattr(builder.build, "make_laboratory", make_laboratory)
    return folder


def test_a_wheel_is_valid_and_has_what_boots(builder: ModuleType, cache: Path, tmp_path: Path) -> None:
    wheel, _ = builder.make(tmp_path / "dist")
    version = f"{kernels.RECIPE}.7.2.1"
    assert wheel.name == f"l4slab_linux-{version}-py3-none-manylinux_2_17_x86_64.whl"
    made = zipfile.ZipFile(wheel)
    info = f"l4slab_linux-{version}.dist-info"
    rows = list(csv.reader(io.StringIO(made.read(f"{info}/RECORD").decode())))
    assert sorted(name for name, *_ in rows) == sorted(made.namelist()) == made.namelist()
    for name, digest, size in rows:
        contents = made.read(name)
        if name != f"{info}/RECORD":
            found = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).decode().rstrip("=")
            assert (digest, int(size)) == (f"sha256={found}", len(contents))
    modes = {entry.filename.removeprefix("l4slab_linux/"): entry.external_attr >> 16 for entry in made.infolist()}
    programs = {name for name, mode in modes.items() if mode == 0o100755}
    assert programs == {"linux", "root/usr/sbin/tc", f"root/lab/{kernels.laboratory()}/lab"}
    assert {mode for name, mode in modes.items() if name not in programs} == {0o100644}
    assert "root/lab/of-another-version/lab" not in modes
    known = json.loads(made.read("l4slab_linux/kernel.json"))
    assert (known["package"], known["fingerprint"]) == (version, kernels.fingerprint())
    made.extractall(tmp_path / "site-packages")
    (tmp_path / "site-packages/l4slab_linux/linux").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path / "site-packages")
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
        assert kernels.ready().package == version


def test_every_part_has_its_licence_and_its_source(builder: ModuleType, cache: Path, tmp_path: Path) -> None:
    wheel, archive = builder.make(tmp_path / "dist")
    made = zipfile.ZipFile(wheel)
    licences = {name.partition("/licenses/")[2] for name in made.namelist() if "/licenses/" in name}
    of_kernel = {"COPYING", "GPL-2.0", "Linux-syscall-note"}
    assert licences == of_kernel | {"LICENSE-MIT", "LICENSE-APACHE"} | {
        "debian/iproute2", "debian/libc6-dev", "common/GPL-2", "common/LGPL-2.1",
    }  # fmt: skip
    metadata = made.read(f"{archive.name.removesuffix('.tar.gz')}.dist-info/METADATA").decode()
    assert {line[14:] for line in metadata.splitlines() if line.startswith("License-File: ")} == licences
    sources = json.loads(made.read("l4slab_linux/sources.json"))
    assert sorted(sources) == ["glibc 2.36-9", "iproute2 7.3.0-1", "linux 7.2.1-1"]
    assert sources["linux 7.2.1-1"] == {"linux_7.2.1-1.dsc": "cd"}
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
        said = packed.extractfile(f"{archive.name.removesuffix('.tar.gz')}/sources.json")
        assert said is not None
        assert json.loads(said.read()) == sources
    engine = "l4slab/engines/linux"
    assert {"PKG-INFO", "pyproject.toml", "build.py", "kernel.config", "l4slab_linux/__init__.py"} <= names
    assert {f"{engine}/compiling.py", f"{engine}/data/lab.c", f"{engine}/data/tcp_prague/tcp_prague.c"} <= names
    assert {f"{engine}/data/um_clock/{name}" for name in ("um_clock.c", "um_clock.h", "um_vdso.c")} <= names
    assert {f"licenses/{name}" for name in licences} <= names


def test_the_same_kernel_is_the_same_bytes(
    builder: ModuleType, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [path.read_bytes() for path in builder.make(tmp_path / "first")]
    for path in cache.rglob("*"):
        if path != cache / "source/Makefile":
            os.utime(path, (1e9, 1e9))
    (cache / "root/proc/.folder").chmod(0o600)
    assert [path.read_bytes() for path in builder.make(tmp_path / "second")] == first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(RELEASED + 86400))
    wheel, _ = builder.make(tmp_path / "third")
    assert {entry.date_time[:3] for entry in zipfile.ZipFile(wheel).infolist()} == {(2026, 9, 22)}


def test_what_is_no_package_is_told(
    builder: ModuleType, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = bytearray(STATIC + bytes(56))
    header[32], header[54], header[56], header[64] = 64, 56, 1, 3  # one program header: an interpreter
    (cache / "linux").write_bytes(header)
    with pytest.raises(InputError, match="linux is not linked statically"):
        builder.make(tmp_path / "dist")
    with_another = {"libgcc-13-dev": "gcc-13 13.2.0-1"}  # the kernel, and the program that is linked now
    (cache / "kernel.json").write_text(
        json.dumps({"version": "7.2.1", "controls": [], "inputs": compiling.recipe(), "linked": with_another})
    )
    with pytest.raises(InputError, match=r"libgcc-13-dev/copyright is missing, and nothing is passed on without"):
        builder.make(tmp_path / "dist")
    (cache / "source.json").write_text('{"version": "7.2.1-1"}')
    with pytest.raises(InputError, match="does not say which source"):
        builder.make(tmp_path / "dist")
    (cache / "kernel.json").write_text('{"version": "7.2.1", "controls": [], "inputs": "own"}')
    with pytest.raises(InputError, match="no kernel of this version of l4slab; build it with: l4slab linux build"):
        builder.make(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()
