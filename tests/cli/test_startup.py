"""What the command line imports before it answers: the libraries of tables and figures take a second or more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from l4slab.cli import cli

HEAVY = ("duckdb", "matplotlib", "numpy", "polars", "pydantic", "rich.progress")
PROGRAM = """
import sys
import l4slab.cli
status = l4slab.cli.main({arguments})
assert status == 0, status
print("imported", *(name for name in {heavy} if name in sys.modules))
"""


def imported(arguments: list[str], **environment: str) -> list[str]:
    program = PROGRAM.format(arguments=arguments, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["list"]])
def test_what_only_tells_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported(arguments) == []


def test_a_run_and_its_report_leave_matplotlib_out(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(
        'duration = "1s"\n[link.l]\nrate = "10Mbit"\nqdisc = "pfifo"\n'
        '[[flow]]\nname = "a"\ncc = "cubic"\nrtt = "10ms"\n'
    )
    for arguments in (["--dry-run"], ["--out", str(tmp_path / "out")]):
        assert not {"matplotlib", "numpy"} & {*imported(["run", str(file), *arguments])}
    # Nor what a file without SQL does not need.
    assert imported(["run", str(file), "--no-report", "--out", str(tmp_path / "new")]) == ["polars", "pydantic"]


def test_the_package_fetches_a_name_when_it_is_asked_for() -> None:
    program = "import sys, l4slab; assert 'polars' not in sys.modules; l4slab.run; assert 'polars' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("l4slab rep", ["plain,report", "plain,reproduce"]),
        ("l4slab reproduce fast", ["plain,fast-lane"]),
        ("l4slab run --engine l", ["plain,linux"]),
        ("l4slab list dualpi2_", ["plain,dualpi2_rfc9332"]),
        ("l4slab list pragu", ["plain,prague"]),
        ("l4slab advise --qdisc dualpi2_", ["plain,dualpi2_rfc9332"]),
        ("l4slab advise --rival pragu", ["plain,prague"]),
        ("l4slab matrix --queue fq_", ["plain,fq_codel", "plain,fq_pie"]),
        ("l4slab matrix quinn:cu", ["plain,quinn:cubic"]),
        ("l4slab check --stack quin", ["plain,quinn"]),
        ("l4slab agree red-", ["plain,red-tcp", "plain,red-udp"]),
    ],
)
def test_the_shell_completes(words: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    completion = BashComplete(cli, {}, "l4slab", "_L4SLAB_COMPLETE")
    assert set(found) <= set(completion.complete().split("\n"))


def test_every_command_and_option_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text("utf-8")
    for name, command in cli.commands.items():
        assert f"`{name}" in page, name
        for option in command.params if name in ("run", "reproduce", "export", "compare") else ():
            long = next((one for one in option.opts if one.startswith("--")), None)
            assert long in (None, "--engine", "--full", "--captures", "--report") or f"`{long}" in page, (name, long)
