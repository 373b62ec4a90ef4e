"""A short form of `tests/mutations.py`, which tries mutated experiment files in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "mutations.py"


@pytest.mark.slow
@pytest.mark.parametrize("more", [["--count", "150"], ["--count", "30", "--run"]], ids=["dry", "run"])
def test_mutated_files_are_refused_or_run(more: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        done = subprocess.run([sys.executable, str(SCRIPT), "--seed", "1", *more], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout


def test_a_finding_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import mutations
    from l4slab import cli

    def broken(_: list[str]) -> int:
        raise KeyError("netem")

    file = tmp_path / "x.toml"
    assert mutations.attempt("duration = 1", file, run=False) == "refused"
    monkeypatch.setattr(cli, "main", broken)
    assert mutations.attempt("", file, run=False).startswith("traceback: ")
    monkeypatch.setattr(cli, "main", lambda _: 2)
    assert mutations.attempt("", file, run=False).startswith("no sentence: ")
