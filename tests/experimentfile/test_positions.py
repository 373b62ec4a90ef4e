"""Each mistake has its line and column, and mistakes of tables that do not depend on each other come together."""

from __future__ import annotations

from pathlib import Path

import pytest
from l4slab import _core, experimentfile, sweep
from l4slab.base.errors import InputError
from l4slab.cli import main

TEXT = """duration = "10s"
warmup = "20"

[link.b]
rate = "10Mbps"
qdisc = "dualpi2"

[[flow]]
name = "a"
cc = "cubic"
rtt = "10 m"
strat = "1s"
"""


def mistakes(folder: Path, text: str) -> list[tuple[tuple[int, int] | None, str]]:
    """Positions and keys of what is wrong with a file."""
    file = folder / "x.toml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        sweep.expand(experimentfile.load(file), "sim")
    return [(one.at, one.message) for one in (error.value, *error.value.others) if isinstance(one, InputError)]


def test_mistakes_of_several_tables_come_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.toml").write_text(TEXT)
    assert main(["run", str(tmp_path / "x.toml"), "--dry-run"]) == 2
    lines = capsys.readouterr().err.splitlines()
    begins = [
        f"l4slab: {tmp_path / 'x.toml'}:{place}" for place in ("2:1: warm", "5:1: link.b.rate", "11:1: ", "12:1: ")
    ]
    assert len(lines) == len(begins)
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=True))


def test_mistakes_that_only_resolution_finds_come_together(tmp_path: Path) -> None:
    text = TEXT.replace('"20"', '"2s"').replace("Mbps", "Mbit").replace('"10 m"\nstrat = "1s"', '"10ms"')
    wrong = text.replace("dualpi2", "dualpi").replace("cubic", "cubix")
    assert [at for at, _ in mistakes(tmp_path, wrong)] == [(6, 1), (10, 1)]


def test_what_a_sweep_sets_has_no_position(tmp_path: Path) -> None:
    text = TEXT.replace('"20"', '"2s"').replace("Mbps", "Mbit").replace('"10 m"\nstrat = "1s"', '"10ms"')
    found = mistakes(tmp_path, text + '[sweep]\n"flow.a.cc" = ["cubic", "cubix"]\n')
    assert [at for at, _ in found] == [None]


@pytest.mark.parametrize(
    ("path", "at"),
    [
        (["link", "b", "rate"], (4, 3)),
        (["link", "b", "speed"], (3, 7)),
        (["link", "é.1", "rate"], (6, 1)),
        (["flow", "two", "cc"], (11, 1)),
        (["flow", "0", "cc"], (8, 1)),
        (["at", "0", "link.b.rate"], (14, 8)),
        (["at", "1", "link.b.rate"], (17, 1)),
        (["gone"], None),
    ],
)
def test_a_key_is_found_however_it_is_written(path: list[str], at: tuple[int, int] | None) -> None:
    text = """# a comment

[link.b]
  rate = "1Mbit"
[link."é.1"]
rate = "2Mbit"
[[flow]]
cc = "cubic"
[[flow]]
name = "two"
cc = "reno"
[[at]]
time = "1s"
link.b.rate = "2Mbit"
[[at]]
time = "2s"
"link.b.rate" = "3Mbit"
"""
    assert _core.toml_position(text, path) == at


def test_a_text_that_is_no_toml_has_no_positions() -> None:
    assert _core.toml_position("a = [", ["a"]) is None
