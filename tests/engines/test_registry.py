"""Engines answer for themselves: nothing else knows their names, and a third one needs nothing but its line."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import jinja2
import l4slab
import polars as pl
import pytest
from l4slab.base import metrics
from l4slab.base.errors import InputError
from l4slab.base.run import Run as Description
from l4slab.campaign import executors
from l4slab.cli import main
from l4slab.engines import registry
from l4slab.engines.contract import Captures, Engine, Finding, Recording, Work
from l4slab.engines.registry import ENGINES, engine_class, engines, get_engine
from l4slab.engines.sim import SimEngine
from l4slab.report import results as report

PACKAGE = Path(l4slab.__file__).parent
ROLES = ("DEFAULT", "KERNEL")  # constants of the registry that are names of engines
FILE = """
title = "x"
duration = "1s"
trials = 2
[link.bottleneck]
rate = "5Mbit"
qdisc = "pfifo limit 20"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[agree]
goodput_mbps = { median = 0.1 }
"""
DRAWN = FILE.replace("trials = 2\n", "").partition("[agree]")[0] + '[search]\n"flow.a.rtt" = ["10ms", "20ms"]\n'


class Toy(Engine):
    """A third engine: the simulator at another name, in real time, with a file of its own."""

    name = "toy"
    title = "toy"
    virtual_time = False
    keeps_files = True
    is_built = True

    def lacking(self) -> str | None:
        return None if self.is_built else "--engine toy is not built; build it"

    def version(self) -> str:
        return "0123456789abcdef"

    def check(self, description: Description) -> None:
        SimEngine().check(description)

    def columns(self, description: Description) -> dict[str, pl.Schema]:
        return SimEngine().columns(description)

    def estimate(self, work: Work) -> float:
        return work.run_s

    def execute(self, run_json: str, keep: Path | None = None, captures: Captures | None = None) -> Recording:
        if keep is not None:
            keep.mkdir(parents=True)
            (keep / "toy.log").write_text("played")
        return SimEngine().execute(run_json, None, captures)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with x.toml, where the third engine has its line."""
    monkeypatch.setitem(ENGINES, "toy", f"{__name__}:Toy")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text(FILE)
    return tmp_path


# -- names -------------------------------------------------------------------------------------------------------------


def is_name(text: object) -> bool:
    """Whether it is the name of an engine, or the beginning of one with a variant."""
    first, colon, rest = str(text).partition(":")
    return first in ENGINES and (not colon or not set(rest) & set(" \n"))


def named(tree: ast.AST) -> Iterator[int]:
    """The lines that have an engine's name, or compare with one that the registry tells."""
    roles = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == registry.__name__
        for alias in node.names
        if alias.name in ROLES
    }
    attributes = {f"registry.{role}" for role in ROLES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_name(node.value):
            yield node.lineno
        if isinstance(node, ast.Compare | ast.MatchValue):
            for inner in ast.walk(node):
                if (isinstance(inner, ast.Name) and inner.id in roles) or ast.unparse(inner) in attributes:
                    yield inner.lineno


def modules() -> list[Path]:
    return [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "engines"]


def test_no_module_outside_engines_knows_an_engine_by_name() -> None:
    wrong = [f"{path}:{line}" for path in modules() for line in named(ast.parse(path.read_text(encoding="utf-8")))]
    assert not wrong


def test_no_template_knows_an_engine_by_name() -> None:
    templates = list(PACKAGE.rglob("*.j2"))
    parsed = {path: jinja2.Environment().parse(path.read_text(encoding="utf-8")) for path in templates}
    assert templates
    assert not [
        path for path, tree in parsed.items() for one in tree.find_all(jinja2.nodes.Const) if is_name(one.value)
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('if run.engine != "sim":\n    pass', [1]),
        ('cost = {"linux": 1, "sim": 2}', [1, 1]),
        ('engine.startswith("linux:")', [1]),
        ('name = f"linux:{kernel}"', [1]),
        ("from l4slab.engines.registry import DEFAULT\nif engine == DEFAULT:\n    pass", [2]),
        ("from l4slab.engines.registry import KERNEL as K\nwhile engine in (K, 'x'):\n    pass", [2]),
        ("from l4slab.engines import registry\nx = engine is not registry.KERNEL", [2]),
        ("match engine:\n    case 'linux':\n        pass", [2]),
        ("from l4slab.engines.registry import DEFAULT\nrun(files, DEFAULT)", []),
        ('"""Runs on sim or linux."""\nprint("linux: not built")', []),
        ("if kernel == kernels.DEFAULT:\n    pass", []),
    ],
)
def test_what_counts_as_an_engines_name(text: str, lines: list[int]) -> None:
    assert list(named(ast.parse(text))) == lines


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_called_as_its_line_says(name: str) -> None:
    assert get_engine(name).name == engine_class(name).name == name
    assert {registry.DEFAULT, registry.KERNEL} <= set(ENGINES)


@pytest.mark.parametrize("name", ["sim:fast", "sim:", "simm", ":sim"])
def test_what_is_no_engine(name: str) -> None:
    with pytest.raises(InputError, match=f"--engine {name} is not an engine; "):
        get_engine(name)


# -- a third engine ----------------------------------------------------------------------------------------------------


def test_a_third_engine_runs_a_file(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "x.toml", "--engine", "toy"]) == 0
    folder = toy / "results" / "x-toy"
    assert [path.read_text() for path in folder.glob("lab/*/toy.log")] == ["played"] * 2
    assert main(["run", "x.toml"]) == 0
    capsys.readouterr()
    assert main(["status", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["experiments"] == [{"name": "x", "finished": 2, "planned": 2}]
    (folder / "flows.parquet").unlink()
    assert main(["report", str(folder)]) == 0
    assert len(pl.read_parquet(folder / "flows.parquet")) == 2
    page = (folder / "report.html").read_text()
    assert "runs are missing" not in page
    assert "<pre>l4slab run x.toml --engine toy</pre>" in page
    assert main(["compare", str(folder), "results/x"]) == 0


def test_each_table_says_which_engine(toy: Path) -> None:
    results = l4slab.run("x.toml", engine="toy", captures=False)
    for name in metrics.TABLES:
        table = getattr(results, name)
        assert table.columns[:4] == ["experiment", "run", "engine", "trial"]
        assert set(table["engine"]) <= {"toy"}
    assert set(results.flows["engine"]) == {"toy"}


def test_a_folder_holds_experiments_of_several_engines(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "y.toml").write_text(FILE)
    for name, engine in (("x", "toy"), ("y", "sim")):
        assert main(["run", f"{name}.toml", "--engine", engine, "--out", "out"]) == 0
    before = l4slab.open("out").flows
    assert before.select("experiment", "engine").rows() == [("x", "toy")] * 2 + [("y", "sim")] * 2
    capsys.readouterr()
    assert main(["status", "out", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["experiments"]
    assert [(one["finished"], one["planned"]) for one in told] == [(2, 2)] * 2
    assert report.load(Path("out")).engine("x") == "toy"
    # As an earlier version has written it.
    for name in metrics.TABLES:
        file = toy / "out" / f"{name}.parquet"
        pl.read_parquet(file).drop("engine").write_parquet(file)
    old = l4slab.open("out")
    assert old.flows.equals(before)
    assert old.sql("select distinct engine from links order by all")["engine"].to_list() == ["sim", "toy"]
    assert main(["compare", "out", "out"]) == 0


def test_a_factor_is_not_called_as_the_column(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "x.toml").write_text(FILE + '[sweep]\nengine = ["sim", "toy"]\n')
    assert main(["run", "x.toml", "--dry-run"]) == 2
    assert "sweep.engine is the name of a result column" in capsys.readouterr().err


def test_a_third_engine_is_told_of(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "toy" in engines()
    assert main(["run", "x.toml", "--engine", "toy", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["folder"] == "results/x-toy"
    assert told["estimate"]["seconds"] == 2.0
    assert main(["doctor", "--json"]) == 0
    findings = [Finding(**one) for one in json.loads(capsys.readouterr().out)["findings"]]
    assert Finding("toy", True, "build 0123456789abcdef") in findings


def test_a_third_engine_is_compared_with_the_simulator(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agree", "x.toml", "--engine", "toy", "--out", "out"]) == 0, capsys.readouterr()
    assert {path.name for path in (toy / "out").iterdir() if path.is_dir()} == {"sim", "toy"}
    rows = pl.read_parquet(toy / "out" / "agreement.parquet").filter(quantity="goodput_mbps")
    assert rows["kernel_trials"].to_list() == [2]
    assert main(["agree", "x.toml", "--engine", "sim", "--out", "out"]) == 2
    assert "--engine sim is compared with itself" in capsys.readouterr().err


def test_a_third_engine_stands_for_the_kernel_in_random_scenarios(toy: Path) -> None:
    (toy / "drawn.toml").write_text(DRAWN)
    assert main(["agree", "drawn.toml", "--random", "1", "--engine", "toy", "--out", "out"]) == 0
    assert pl.read_parquet(toy / "out" / "scenarios.parquet")["verdict"].to_list() == ["equivalent"]


def test_what_this_machine_lacks_is_a_sentence(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Toy, "is_built", False)
    agree = ["agree", "x.toml", "--out", "out", "--engine", "toy"]
    drawn = [*agree[:1], "drawn.toml", *agree[2:], "--random", "1"]
    (toy / "drawn.toml").write_text(DRAWN)
    commands = (["run", "x.toml", "--engine", "toy"], agree, drawn)
    for command in commands:
        assert main(command) == 2
        assert "--engine toy is not built; build it" in capsys.readouterr().err
    assert main(["run", "x.toml", "--engine", "toy", "--dry-run"]) == 0
    assert "cannot run them yet: --engine toy is not built" in capsys.readouterr().out
    for file in ("x.toml", "drawn.toml"):
        (toy / file).write_text((toy / file).read_text().replace('rtt = "', 'rttt = "'))
    for command in commands:
        assert main(command) == 2
        assert "rttt" in capsys.readouterr().err, "what the machine lacks hides no mistake of the file"


def test_runs_in_real_time_come_one_by_one(toy: Path) -> None:
    with executors.local(None, "toy") as one, executors.local(3, "toy") as three:
        assert (one.workers, three.workers) == (1, 3)
