"""Systems without POSIX and installations without the extras: what works there, and what says why it does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FILE = """
duration = "2s"
[link.bottleneck]
rate = "10Mbit"
qdisc = "pfifo limit 100"
[[flow]]
name = "it"
cc = "{cc}"
rtt = "10ms"
"""
OWN = """
from l4slab.own import Controller

class Fixed(Controller):
    def on_ack(self, ack, window):
        window.cwnd = 10

    def on_congestion(self, why, now_ns, window):
        pass
"""
# Python reads it at the start of every process, so the workers of custom code lack the same things.
WITHOUT_POSIX = """
import os, platform, signal, sys
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
for name in ("fork", "sched_getaffinity", "sysconf", "O_DIRECTORY", "getuid"):
    delattr(os, name)
del signal.SIGHUP
platform.system = lambda: "Windows"
"""
LIMITS = ("compare", "out", "out", "--fail-on", "goodput_mbps -5%")
WITHOUT_EXTRAS = """
import sys
class Missing:
    def find_spec(self, name, *_):
        if name in {"matplotlib", "numpy", "pyarrow", "distributed", "fsspec", "gymnasium", "optuna", "cmaes"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


@pytest.fixture
def l4slab(tmp_path: Path):
    def run(lacking: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "sitecustomize.py").write_text(lacking)
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, "-m", "l4slab", *arguments],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "a.toml").write_text(FILE.format(cc="prague"))
    (tmp_path / "b.toml").write_text(FILE.format(cc="own.py:Fixed"))
    return run


@pytest.mark.parametrize("file", ["a.toml", "b.toml"])
def test_the_simulator_runs_without_posix(l4slab, tmp_path: Path, file: str) -> None:
    done = l4slab(WITHOUT_POSIX, "run", file, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/report.html").is_file()
    again = l4slab(WITHOUT_POSIX, "run", file, "--out", "out")
    assert "1 runs are in out already" in again.stderr


def test_the_kernel_needs_linux(l4slab) -> None:
    done = l4slab(WITHOUT_POSIX, "run", "a.toml", "--engine", "linux", "--out", "out")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "runs on Linux only" in done.stderr


def test_the_core_alone_gives_tables_verdicts_and_a_page(l4slab, tmp_path: Path) -> None:
    claim = '[[claim]]\nid = "fills"\nsql = "select min(rate_mbps) > 9 from flows"\n'
    (tmp_path / "a.toml").write_text(FILE.format(cc="cubic") + claim)
    done = l4slab(WITHOUT_EXTRAS, "run", "a.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out/report.html").read_text()
    assert "l4slab[plot]" in page
    assert 'class="drawn"' in page, "the page itself draws the case"
    for command in (("status", "out"), ("export", "out", "--csv"), ("report", "out"), ("doctor",), LIMITS):
        done = l4slab(WITHOUT_EXTRAS, *command)
        assert "Traceback" not in done.stderr, done.stderr
    done = l4slab(WITHOUT_EXTRAS, "report", "out", "--figures", "svg")
    assert done.returncode == 2
    assert 'pip install "l4slab[plot]"' in done.stderr.splitlines()[-1]
