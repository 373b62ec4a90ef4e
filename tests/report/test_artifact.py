"""What reviewers and archives read is what the package has: commands, studies, versions."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import click
import pytest
from l4slab import _core
from l4slab.base.packaged import studies
from l4slab.cli import cli

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import artifact  # noqa: E402


@pytest.mark.parametrize("name", ["ARTIFACT.md", ".zenodo.json", "codemeta.json"])
def test_a_generated_file_is_current(name: str) -> None:
    assert (ROOT / name).read_text("utf-8") == artifact.files()[name], "write it with ./dev.sh generate"


def test_every_command_of_the_artifact_can_be_given() -> None:
    text = artifact.markdown()
    lines = re.findall(r"(?m)^(?:\./dev\.sh|l4slab) .*$", text) + re.findall(r"`(l4slab [^`]+)`", text)
    given = [shlex.split(line, comments=True)[1:] for line in lines]
    assert {"reproduce", "verify", "report", "doctor"} <= {words[0] for words in given}
    for words in given:
        command = cli.commands[words[0]] if words[0] != "generate" else None
        if command is not None:
            with click.Context(cli) as parent:
                command.make_context(words[0], words[1:], parent=parent, resilient_parsing=False)
    assert {words[1] for words in given if words[0] == "reproduce"} == {*studies()}


def test_the_versions_agree() -> None:
    documents = [json.loads(artifact.files()[name]) for name in (".zenodo.json", "codemeta.json")]
    assert {artifact.version(), artifact.citation()["version"], *(one["version"] for one in documents)} == {
        _core.version()
    }
    assert all(one["keywords"] == artifact.citation()["keywords"] for one in documents)
