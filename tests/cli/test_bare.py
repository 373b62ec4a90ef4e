"""Systems without POSIX and installations without the extras: what works there, and what says why it does not."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
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
for name in ("matplotlib", "numpy", "pyarrow", "distributed", "fsspec", "gymnasium", "optuna", "cmaes"):
    sys.modules[name] = None
"""


PROGRAM = """
import json, sys
from l4slab.cli import main
for words in json.loads(sys.argv[1]):
    print("exit status", main(words), file=sys.stderr, flush=True)
"""


@pytest.fixture
def l4slab(tmp_path: Path):
    """`l4slab(lacking, *commands)`: commands in one process that lacks this; exit status and standard error of each."""

    def run(lacking: str, *commands: Sequence[str]) -> list[tuple[int, str]]:
        (tmp_path / "sitecustomize.py").write_text(lacking)
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(commands)],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        errors = re.split(r"^exit status (\d+)\n", done.stderr, flags=re.MULTILINE)
        return list(zip(map(int, errors[1::2]), errors[::2], strict=False))

    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "a.toml").write_text(FILE.format(cc="prague"))
    (tmp_path / "b.toml").write_text(FILE.format(cc="own.py:Fixed"))
    return run


@pytest.mark.slow
def test_the_simulator_runs_without_posix(l4slab, tmp_path: Path) -> None:
    words = ("run", "a.toml", "b.toml", "--out", "out")
    first, again = l4slab(WITHOUT_POSIX, words, words)
    assert first[0] == again[0] == 0, first[1] + again[1]
    assert (tmp_path / "out/report.html").is_file()
    assert "2 runs are in out already" in again[1]


def test_the_kernel_needs_linux(l4slab) -> None:
    ((status, said),) = l4slab(WITHOUT_POSIX, ("run", "a.toml", "--engine", "linux", "--out", "out"))
    assert (status, len(said.splitlines())) == (2, 1)
    assert "runs on Linux only" in said


def test_the_core_alone_gives_tables_verdicts_and_a_page(l4slab, tmp_path: Path) -> None:
    claim = '[[claim]]\nid = "fills"\nsql = "select min(rate_mbps) > 9 from flows"\n'
    (tmp_path / "a.toml").write_text(FILE.format(cc="cubic") + claim)
    others = (("status", "out"), ("export", "out", "--csv"), ("report", "out"), ("doctor",), LIMITS)
    first, *done, figures = l4slab(
        WITHOUT_EXTRAS, ("run", "a.toml", "--out", "out"), *others, ("report", "out", "--figures", "svg")
    )
    assert first[0] == 0, first[1]
    assert len(done) == len(others)
    page = (tmp_path / "out/report.html").read_text()
    assert 'class="drawn"' in page, "the page itself draws the case"
    assert figures[0] == 2
    assert 'pip install "l4slab[plot]"' in figures[1].splitlines()[-1]
