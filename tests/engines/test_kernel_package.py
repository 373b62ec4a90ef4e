"""The package `l4slab-linux`: when its kernel is the one that boots, and which version of l4slab it is for."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.engines.linux import compiling, engine, kernels, user_land
from l4slab.engines.registry import get_engine

from .conftest import CUBIC, ONE_LINK

ROOT = Path(__file__).parents[2]
KNOWN = {"version": "7.2.1", "controls": ["reno", "cubic"]}


def write(folder: Path, **known: str) -> None:
    """A kernel with its file system, as a build leaves them in the cache and a wheel in site-packages."""
    (folder / "root" / "usr" / "bin").mkdir(parents=True)
    (folder / "root" / "lab").mkdir()
    (folder / "root" / "usr" / "bin" / "ip").write_text("ip")
    (folder / "linux").write_text("a kernel")
    (folder / "linux").chmod(0o755)
    (folder / "root.json").write_text(json.dumps({"packages": user_land.PACKAGES}))
    (folder / "kernel.json").write_text(json.dumps(KNOWN | known))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("L4SLAB_KERNEL", raising=False)
    return kernels.cache()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site-packages" / "l4slab_linux"
    write(folder, inputs=compiling.recipe(), package="1.7.2.1")
    (folder / "__init__.py").touch()
    (folder / "root" / "lab" / kernels.laboratory()).mkdir()
    monkeypatch.syspath_prepend(folder.parent)
    return folder


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """What `l4slab doctor` says of the kernel."""
    main(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    (text,) = [finding["text"] for finding in findings if finding["what"] == "linux"]
    return str(text)


def test_its_kernel_boots_where_none_was_built(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine.build, "missing", lambda _: pytest.fail("there is nothing to compile"))
    kernel = engine.kernel()
    assert (kernel.path, kernel.root) == (package / "linux", package / "root")
    assert len(get_engine("linux").version()) == 16
    assert "of the package l4slab-linux 1.7.2.1" in told(capsys)
    assert main(["linux", "list"]) == 0
    assert "l4slab-linux 1.7.2.1" in " ".join(capsys.readouterr().out.split())


def test_what_was_built_here_comes_first_while_it_is_current(
    package: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(cache, inputs=compiling.recipe())
    of_both = get_engine("linux").version()
    assert kernels.ready().path == cache / "linux"
    assert f"in {cache} (and not that of the package l4slab-linux 1.7.2.1)" in told(capsys)
    (cache / "kernel.json").write_text(json.dumps(KNOWN | {"inputs": "of another version"}))
    assert kernels.ready().path == package / "linux"
    assert get_engine("linux").version() == of_both, "the same files are the same kernel, wherever they are"


@pytest.mark.parametrize(
    "case",
    [
        "another recipe",
        pytest.param("another laboratory", marks=pytest.mark.slow),
        pytest.param("another user land", marks=pytest.mark.slow),
    ],
)
def test_one_for_another_version_is_told_with_the_remedy(
    package: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    match case:
        case "another recipe":
            (package / "kernel.json").write_text(json.dumps(KNOWN | {"inputs": "other", "package": "9.7.3.0"}))
        case "another laboratory":
            shutil.rmtree(package / "root" / "lab")
        case "another user land":
            (package / "root.json").write_text('{"packages": []}')
    sentence = f"is for another version of l4slab; install one of version {kernels.RECIPE}.*, or build a kernel with"
    with pytest.raises(InputError, match=sentence.replace("*", r"\*")):
        kernels.ready()
    (tmp_path / "x.toml").write_text('duration = "1s"\n' + ONE_LINK + CUBIC)
    assert main(["run", str(tmp_path / "x.toml"), "--engine", "linux", "--out", str(tmp_path / "out")]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert sentence in told(capsys)
    write(cache, inputs="of another version")
    assert kernels.ready().path == cache / "linux"


def test_a_kernel_of_ones_own_boots_with_its_user_land(
    package: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("L4SLAB_KERNEL", "/own/linux")
    kernel = kernels.ready()
    assert (kernel.path, kernel.root) == (Path("/own/linux"), package / "root")
    write(cache)
    assert kernels.ready().root == cache / "root"


def test_the_number_of_the_recipe_follows_what_it_is_of() -> None:
    """Where this fails, kernel or laboratory are made in another way than those of the released packages."""
    assert (kernels.RECIPE, kernels.fingerprint()) == (3, "ef29ef3f289cf27d"), (
        "raise RECIPE in kernels.py once per release, and with it the extra `linux` of pyproject.toml and this line"
    )
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted, _ = extras["linux"]
    assert wanted.startswith(f"{kernels.PACKAGE}=={kernels.RECIPE}.*;")


def test_the_file_system_has_what_a_wheel_can_carry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = Path("/usr/lib/x86_64-linux-gnu")
    if not (libraries / "libc.so.6").is_file() or not Path("/usr/bin/dash").is_file():
        pytest.skip("needs dash and libraries of Debian on x86-64")
    packages = {name: tmp_path / name for name in ("dash", "libc6", "unused")}
    files = {"dash": ["/usr/bin/dash"], "libc6": ["libc.so.6", "ld-linux-x86-64.so.2"], "unused": ["libm.so.6"]}
    for name, paths in files.items():
        for path in (libraries / path for path in paths):
            there = packages[name] / path.relative_to("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, there)
    monkeypatch.setattr(user_land, "_PROGRAMS", (user_land._SHELL,))
    root = tmp_path / "root"
    assert user_land._fill(root, packages) == {"dash", "libc6"}
    folders = [path for path in root.rglob("*") if path.is_dir()]
    assert not [path for path in root.rglob("*") if path.is_symlink()]
    assert not [path for path in folders if not any(path.iterdir())]
    where = ["--library-path", root / "usr/lib/x86_64-linux-gnu"]
    said = subprocess.run(
        [root / "lib64/ld-linux-x86-64.so.2", *where, root / "bin/sh", "-c", "echo here"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "here\n"
