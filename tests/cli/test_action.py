"""action.yml: its steps run here as they run on a forge, and a planted regression makes them fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import l4slab
import pytest
import yaml
from l4slab import experimentfile
from l4slab.results.claims import Claim

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
EXAMPLES = sorted((ROOT / "examples" / "ci").glob("*/*.yml"))
HALVED = ("self->alpha / 2", "self->alpha / 4")


def inputs_of(workflow: Path) -> dict[str, str]:
    """What a workflow gives the action."""
    (job,) = yaml.safe_load(workflow.read_text("utf-8"))["jobs"].values()
    (step,) = (step for step in job["steps"] if step.get("uses", "").startswith("OWNER/l4slab@"))
    return {name: str(value) for name, value in step["with"].items()}


def filled(text: str, inputs: Mapping[str, str]) -> str:
    """A text with `${{ inputs.NAME }}` filled in; nothing else is in the action."""
    text = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)
    assert "${{" not in text
    return text


def is_wanted(condition: str, inputs: Mapping[str, str]) -> bool:
    """Whether a step's condition holds, in a job that nobody has cancelled."""
    text = re.sub(r"inputs\.([\w-]+)", lambda found: repr(inputs[found[1]]), condition)
    words = {"!cancelled()": "True", "&&": "and", "||": "or"}
    return bool(eval(re.sub("|".join(map(re.escape, words)), lambda found: words[found[0]], text)))


def run(folder: Path, given: Mapping[str, str]) -> dict[str, subprocess.CompletedProcess[str]]:
    """The steps of the action that `given` asks for, but for the installation and the artifact; by name."""
    inputs = {name: one["default"] for name, one in ACTION["inputs"].items()} | dict(given)
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "l4slab").write_text(f'#!/bin/sh\nexec {sys.executable} -m l4slab "$@"\n')
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(l4slab.__file__).parents[1]),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    ended = {}
    has_failed = False
    for step in ACTION["runs"]["steps"]:
        if step["name"] in ("Install", "Artifact") or (has_failed and "cancelled()" not in step.get("if", "")):
            continue
        if "if" in step and not is_wanted(step["if"], inputs):
            continue
        ended[step["name"]] = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder / filled(step["working-directory"], inputs),
            env=environment | {name: filled(value, inputs) for name, value in step["env"].items()},
            capture_output=True,
            text=True,
            timeout=300,
        )
        has_failed |= ended[step["name"]].returncode != 0
    return ended


@pytest.fixture
def controller(tmp_path: Path) -> Path:
    """The example of a controller in C, in a folder of its own."""
    folder = tmp_path / "examples" / "ci" / "controller"
    shutil.copytree(ROOT / "examples" / "ci" / "controller", folder, ignore=shutil.ignore_patterns("*.so", "l4slab-*"))
    return folder


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None or shutil.which("cc") is None, reason="no C compiler")
def test_a_planted_regression_is_found_and_the_unchanged_controller_passes(controller: Path, tmp_path: Path) -> None:
    given = inputs_of(ROOT / "examples" / "ci" / "controller" / "controller.yml")
    given |= {"check": "./libscalable.so", "options": "--item codepoint --item scalable"}
    ended = run(tmp_path, given)
    assert {name: (one.returncode, one.stderr[-300:] if one.returncode else "") for name, one in ended.items()} == {
        "Prepare": (0, ""), "Files": (0, ""), "Card": (0, ""),
    }  # fmt: skip
    kept = controller / "l4slab-results"
    assert {path.name for path in kept.iterdir()} == {
        "badge.json", "card", "files", "junit-card.xml", "junit-files.xml",
    }  # fmt: skip
    summary = (tmp_path / "summary.md").read_text("utf-8")
    assert summary.count("## l4slab") == 2
    assert "2 of 2 claims hold" in summary

    base, card = tmp_path / "base", tmp_path / "card.json"
    shutil.move(kept / "files", base)
    shutil.move(kept / "card" / "card.json", card)
    shutil.rmtree(kept)
    code = controller / "scalable.c"
    text = code.read_text("utf-8")
    assert text.count(HALVED[0]) == 1
    code.write_text(text.replace(*HALVED), "utf-8")
    (controller / "libscalable.so").unlink()
    guarded = {"base": str(base), "baseline": str(card), "options": f"{given['options']} --fail-on 5%"}
    ended = run(tmp_path, given | guarded)
    assert {name: one.returncode for name, one in ended.items()} == {
        "Prepare": 0, "Files": 1, "Comparison": 1, "Card": 1,
    }  # fmt: skip
    failed = ElementTree.parse(kept / "junit-files.xml").iter("testcase")
    assert [case.attrib["name"] for case in failed if case.find("failure") is not None] == ["share-of-prague"]
    assert "| failed | share-of-prague |" in (tmp_path / "summary.md").read_text("utf-8")


def test_a_first_run_has_nothing_to_compare_with(tmp_path: Path) -> None:
    ended = run(tmp_path, {"base": "results-of-main"})
    assert list(ended) == ["Comparison"]
    assert ended["Comparison"].returncode == 0
    assert ended["Comparison"].stdout.startswith("::warning::")
    assert "results-of-main does not exist" in ended["Comparison"].stdout


@pytest.mark.parametrize(
    ("given", "package"),
    [
        ({}, "l4slab[plot]"),
        ({"version": "0.2.0"}, "l4slab[plot]==0.2.0"),
        ({"engine": "linux", "version": "0.2.0"}, "l4slab[plot,linux]==0.2.0"),
        ({"patch": "x.patch"}, "l4slab[plot,linux]"),
        ({"source": "./here", "engine": "linux"}, "./here"),
    ],
)
def test_what_is_installed(given: Mapping[str, str], package: str, tmp_path: Path) -> None:
    """With a python3 that writes its words into a file, and makes an environment whose python does the same."""
    python = tmp_path / "python3"
    writes, makes = f'echo "$@" >> {tmp_path}/said', 'mkdir -p "$3/bin"; cp "$0" "$3/bin/python"'
    python.write_text(f'#!/bin/sh\n{writes}\n[ "$2" != venv ] || {{ {makes}; }}\n')
    python.chmod(0o755)
    inputs = {name: one["default"] for name, one in ACTION["inputs"].items()} | dict(given)
    (step,) = (one for one in ACTION["runs"]["steps"] if one["name"] == "Install")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path)}
    environment |= {"GITHUB_PATH": str(tmp_path / "path")}
    environment |= {name: filled(value, inputs) for name, value in step["env"].items()}
    subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], env=environment, check=True)
    assert (tmp_path / "said").read_text("utf-8").splitlines()[1] == f"-m pip install --quiet {package}"
    assert (tmp_path / "path").read_text("utf-8") == f"{tmp_path}/l4slab/bin\n"


@pytest.mark.parametrize("workflow", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_gives_the_action_what_it_takes(workflow: Path) -> None:
    given = inputs_of(workflow)
    assert given.keys() <= ACTION["inputs"].keys()
    assert ROOT / given["directory"] == workflow.parent
    for name in given["files"].split():
        assert experimentfile.load(workflow.parent / name).tables(Claim)


def test_every_input_is_used_and_described() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    for name, one in ACTION["inputs"].items():
        assert f"inputs.{name}" in text.partition("\nruns:")[2], name
        assert one["description"].endswith(".")
        assert f"| `{name}` |" in page, name
