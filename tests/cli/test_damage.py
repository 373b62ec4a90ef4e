"""Result tables and parts that were truncated or overwritten: which file it is, or it is written again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import l4slab
import pytest
from l4slab.base import damage
from l4slab.cli import main

EXPERIMENT = """
duration = "200ms"
per_flow = true
[link.b]
rate = "2Mbit"
qdisc = "pfifo"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[claim]]
id = "c"
sql = "select true"
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    (folder / "x.toml").write_text(EXPERIMENT)
    assert main(["run", str(folder / "x.toml"), "--out", str(folder / "out")]) == 0
    return folder / "out"


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "out"))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def overwrite(file: Path) -> None:
    """Of the same size."""
    content = file.read_bytes()
    file.write_bytes(content[:4] + b"\xa5" * (len(content) - 12) + content[-8:])


def overwrite_pages(file: Path) -> None:
    """Of the same size, with the footer as it was."""
    content = file.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    file.write_bytes(content[:4] + b"\xa5" * (len(content) - footer - 4) + content[-footer:])


def empty(file: Path) -> None:
    file.write_bytes(b"")


HOW = [cut, overwrite, overwrite_pages, empty]
READS = {
    "export": ("flows", "series", "claims", "members"),
    "export --json": ("flows", "histograms"),
    "export --flent": ("flows", "series", "members"),
    "compare": ("flows", "links"),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("command", READS)
def test_a_damaged_table_is_told(
    how: Callable[[Path], None], command: str, out: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for table in READS[command]:
        file = out / f"{table}.parquet"
        how(file)
        name, *options = command.split()
        capsys.readouterr()
        assert main([name, *([str(whole)] if name == "compare" else []), str(out), *options]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert f"{file}: is damaged and cannot be read; write it again with: l4slab report {out}" in told
        shutil.copy(whole / file.name, file)


@pytest.mark.parametrize("how", HOW)
def test_results_tell_it_too(how: Callable[[Path], None], out: Path) -> None:
    results = l4slab.open(out)
    how(out / "flows.parquet")
    with pytest.raises(l4slab.InputError, match=r"flows\.parquet: is damaged"):
        _ = results.flows
    with pytest.raises(l4slab.InputError, match=r"flows\.parquet: is damaged"):
        results.sql("select * from flows")


@pytest.mark.parametrize("how", HOW)
def test_report_writes_tables_again(how: Callable[[Path], None], out: Path, whole: Path) -> None:
    for table in ("flows", "series", "claims"):
        how(out / f"{table}.parquet")
    assert main(["report", str(out)]) == 0
    assert damage.damaged(out) is None
    assert l4slab.open(out).flows.equals(l4slab.open(whole).flows)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("command", ["report", "run"])
def test_a_damaged_part_is_told_or_computed_again(
    how: Callable[[Path], None], command: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (part,) = (out / "parts").iterdir()
    how(part)
    (out / ".tables").unlink()
    capsys.readouterr()
    if command == "run" and main(["run", str(out / "experiments/x.toml"), "--out", str(out)]) == 0:
        return
    if command == "report":
        assert main(["report", str(out)]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("l4slab: ")
    assert part.name in line
    assert "is damaged" in line
    part.unlink()
    assert main(["run", str(out / "experiments/x.toml"), "--out", str(out)]) == 0
