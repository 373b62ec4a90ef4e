"""The wheels (`./dev.sh wheel`, and with `--linux` the kernel's) on a machine without Rust and compiler: contents,
and that they give the same bits.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import l4slab
import polars as pl
import pytest
from l4slab.base.packaged import study
from l4slab.engines.linux import kernels

ROOT = Path(__file__).parents[2]
FIRST_PLOT = """
import l4slab
links = {"bottleneck": l4slab.Link(rate="100Mbit", qdisc="dualpi2")}
flows = [l4slab.Flow(name="l4s", cc="prague", rtt="10ms"), l4slab.Flow(name="classic", cc="cubic", rtt="10ms")]
l4slab.run(l4slab.Experiment(duration="10s", links=links, flows=flows)).plot.overview().savefig("first.png")
"""
EXPERIMENT = """
duration = "3s"
[link.bottleneck]
rate = "10Mbit"
qdisc = "dualpi2"
[[flow]]
name = "l4s"
cc = "prague"
rtt = "10ms"
[[flow]]
name = "classic"
cc = "cubic"
rtt = "10ms"
"""


def sources() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "python", "crates", "kernel", "web", "Cargo.lock", "pyproject.toml"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


@pytest.fixture(scope="module")
def wheel() -> Path:
    built = sorted((ROOT / "dist").glob("l4slab-*.whl"), key=lambda path: path.stat().st_mtime)
    if not built:
        pytest.skip("no wheel was built: ./dev.sh wheel")
    if built[-1].stat().st_mtime < max(path.stat().st_mtime for path in sources()):
        pytest.skip("the wheel is older than its sources: ./dev.sh wheel")
    return built[-1]


@pytest.fixture(scope="module")
def kernel_wheel() -> Path:
    built = sorted((ROOT / "dist").glob("l4slab_linux-*.whl"), key=lambda path: path.stat().st_mtime)
    if not built:
        pytest.skip("no wheel of the kernel was built: ./dev.sh wheel --linux")
    known = json.loads(zipfile.ZipFile(built[-1]).read("l4slab_linux/kernel.json"))
    if known["fingerprint"] != kernels.fingerprint():
        pytest.skip("the kernel's wheel is older than its sources: ./dev.sh wheel --linux")
    return built[-1]


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A clean environment with the wheel, and variables that lead to no cargo."""
    folder = tmp_path_factory.mktemp("a clean machine")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    kept = [part for part in os.environ["PATH"].split(os.pathsep) if not (Path(part) / "cargo").exists()]
    outside = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    variables = outside | {"PATH": os.pathsep.join([str(folder / "bin"), *kept])}
    assert shutil.which("cargo", path=variables["PATH"]) is None
    subprocess.run([folder / "bin/pip", "install", "--quiet", f"{wheel}[plot]"], check=True, env=variables)
    return folder / "bin", variables


@pytest.mark.slow
def test_every_file_of_the_package_is_in_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package, prague = ROOT / "python", ROOT / "kernel/tcp_prague"
    wanted = {str(path.relative_to(package)) for path in sources() if package in path.parents}
    of_prague = [path.name for path in sources() if path.parent == prague and not path.name.startswith(".")]
    assert "tcp_prague.c" in of_prague
    wanted |= {f"l4slab/engines/linux/data/tcp_prague/{name}" for name in of_prague}
    assert wanted <= names
    assert {"l4slab/py.typed", "l4slab/_core.abi3.so"} <= names
    assert {Path(name).name for name in names if "/licenses/" in name} == {"LICENSE-APACHE", "LICENSE-MIT", "COPYING"}
    others = {name for name in names - wanted if ".dist-info/" not in name}
    assert others == {"l4slab/_core.abi3.so", "l4slab/live/page/live.html"}
    assert "-abi3-manylinux_2_28_" in wheel.name


@pytest.mark.slow
def test_it_takes_the_kernel_of_a_checkout(environment: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    programs, variables = environment
    inputs = "from l4slab.engines.linux import kernels; print(kernels.fingerprint())"
    found = subprocess.run(
        [programs / "python", "-c", inputs], check=True, cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert found.stdout.strip() == kernels.fingerprint()


@pytest.mark.slow
def test_it_draws_and_reproduces_a_study(environment: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    programs, variables = environment
    subprocess.run([programs / "python", "-c", FIRST_PLOT], check=True, cwd=tmp_path, env=variables)
    assert (tmp_path / "first.png").read_bytes().startswith(b"\x89PNG")
    out = tmp_path / "out"
    subprocess.run(
        [programs / "l4slab", "reproduce", "fast-lane", "--out", str(out)], check=True, cwd=tmp_path, env=variables
    )
    assert "<svg" in (out / "report.html").read_text("utf-8")
    theirs = l4slab.open(out).flows.filter(pl.col("experiment") == "A")
    ours = l4slab.run([file for file in study("fast-lane") if file.stem == "A"]).flows
    # Run ids say the build, which a test need not have; the columns are the study's.
    common = [name for name in ours.columns if name != "run" and name in theirs.columns]
    assert theirs.select(common).equals(ours.select(common))


@pytest.mark.slow
def test_both_wheels_run_on_the_kernel_at_once(
    environment: tuple[Path, dict[str, str]], kernel_wheel: Path, tmp_path: Path
) -> None:
    programs, variables = environment
    pip = [programs / "pip", "install", "--quiet"]
    subprocess.run([*pip, str(kernel_wheel)], check=True, env=variables)
    # It is the one that the extra asks for, which is not published.
    subprocess.run([*pip, "l4slab[linux]"], check=True, env=variables)
    home, alone = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    alone.mkdir()
    (alone / "setpriv").symlink_to(shutil.which("setpriv") or "")
    (tmp_path / "x.toml").write_text(EXPERIMENT)
    subprocess.run(
        [programs / "l4slab", "run", "x.toml", "--engine", "linux", "--out", "out"],
        check=True, cwd=tmp_path, env={"HOME": str(home), "PATH": f"{programs}:{alone}"},
    )  # fmt: skip
    flows = l4slab.open(tmp_path / "out").flows
    assert flows.filter(pl.col("flow") == "l4s")["ce_pct"].item() > 0
    assert flows["goodput_mbps"].sum() > 8
    assert not (home / ".cache/l4slab").exists()


@pytest.mark.slow
def test_the_kernel_is_the_same_bytes_in_another_wheel(kernel_wheel: Path, tmp_path: Path) -> None:
    linux = kernels.cache() / "linux"
    if kernel_wheel.stat().st_mtime < max(path.stat().st_mtime for path in sources()):
        pytest.skip("the kernel's wheel is older than the scripts that build it: ./dev.sh wheel --linux")
    if not linux.is_file() or linux.read_bytes() != zipfile.ZipFile(kernel_wheel).read("l4slab_linux/linux"):
        pytest.skip("the kernel was built again since: ./dev.sh wheel --linux")
    subprocess.run([sys.executable, ROOT / "kernel/wheel/build.py", tmp_path], check=True)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert [(tmp_path / name).read_bytes() for name in made] == [(ROOT / "dist" / name).read_bytes() for name in made]
    assert len(made) == 2
