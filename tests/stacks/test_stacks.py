"""Packaged stacks: recipes, flows that name one, builds. No packaged stack is built here."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from l4slab import stacks
from l4slab.api.experiment import load as as_file
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.engines.linux import lab, recording
from l4slab.engines.linux.engine import refuse
from l4slab.experimentfile import load
from l4slab.experimentfile.traffic import COMMAND_NAMES
from l4slab.report import setup
from l4slab.sweep import expand
from l4slab.tools.check import suite
from l4slab.tools.check.programs import Program

HEAD = 'duration = "4s"\n[link.one]\nrate = "10Mbit"\nqdisc = "pfifo limit 50"\n'
FLOW = '[[flow]]\nname = "q"\nkind = "program"\nrtt = "20ms"\n'
RECIPE = """
summary = "echoes"
language = "sh"
version = "1"
controllers = ["cubic", "reno"]
ecn = "none"
build = ["cp transfer $OUT/", "echo made in $PWD"]
server = "{stack}/transfer server {cc}"
client = "{stack}/transfer client {server} {bytes} {cc}"
env = { CONF = "{stack}/conf" }
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a folder with a recipe of one's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "stack.toml").write_text(RECIPE)
    (mine / "transfer").write_text("#!/bin/sh\n")
    (mine / "transfer").chmod(0o755)
    return tmp_path / "cache" / "l4slab" / "stacks"


def described(flow: str, folder: Path | None = None) -> dict[str, Any]:
    file = (folder or Path()) / "x.toml"
    file.write_text(HEAD + FLOW + flow)
    return dict(expand(load(file), "linux").runs[0].description)


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", stacks.names())
def test_a_packaged_recipe_is_whole(name: str) -> None:
    stack = stacks.find(name)
    recipe = stack.recipe
    assert recipe.build
    assert len(set(recipe.controllers)) == len(recipe.controllers)
    known = (stacks.STACK, stacks.CC, stacks.BYTES, stacks.FPS, stacks.TEST, *stacks.RATES, stacks.COUNT, stacks.ECT)
    known += COMMAND_NAMES
    for command in (recipe.server, recipe.client):
        first = shlex.split(command)[0]
        assert first.startswith(f"{stacks.STACK}/") or first in ("sh", *recipe.needs)
        for placeholder in known:
            command = command.replace(placeholder, "")
        command = re.sub(r"\$\{[^}]*\}", "", command)  # of the shell
        assert "{" not in command
    # Whoever has several controllers is told which.
    told = stacks.CC in recipe.server + recipe.client or recipe.kernel
    assert told == (len(recipe.controllers) > 1)
    # A version is pinned: in the recipe itself, or in the file of the language's package manager.
    texts = "".join(path.read_text() for path in stack.folder.rglob("*") if path.is_file() and path.suffix != ".rs")
    assert recipe.kernel or name == "ngtcp2" or texts.count(recipe.version) >= 2


def test_there_are_stacks_of_several_languages() -> None:
    languages = {stacks.find(name).recipe.language for name in stacks.names()}
    assert len(stacks.names()) >= 8
    assert {"C", "Go", "Java", "Python", "Rust"} <= languages


def test_a_flow_has_the_commands_of_its_stack_and_asks_nobody_for_the_build() -> None:
    (flow,) = described('stack = "quinn"\ncc = "bbr"\nenv = { QLOGDIR = "{out}" }')["flows"]
    assert flow["server"] == "{stack}/quinn-transfer server"
    assert flow["client"] == f"{{stack}}/quinn-transfer client {{server}} {stacks.FOR_EVER} bbr"
    assert flow["stack"] == {"name": "quinn", "build": stacks.find("quinn").id, "cc": "bbr"}
    assert flow["cc"] is None, "the kernel has nothing to do with it"
    assert flow["env"] == {"QLOGDIR": "{out}"}
    assert flow["stop_ns"] == 4_000_000_000, "it sends for as long as the run lasts"
    json.dumps(flow)


def test_tcp_of_the_kernel_gets_its_controller_from_the_hosts() -> None:
    run = described('stack = "kernel"\ncc = "prague"\n')
    assert run["flows"][0]["cc"] == "prague"
    assert lab.script(lab.build(run)).count("echo prague >/proc/sys/net/ipv4/tcp_congestion_control") == 2
    assert recording.flows.controller_of(run["flows"][0]) == "kernel/prague"


def test_the_report_names_the_build_and_the_controller() -> None:
    run = described('stack = "quinn"\ncc = "bbr"\n')
    assert setup._flow(run["flows"][0], run).startswith(f"{stacks.find('quinn').id} with bbr, RTT 20ms")


def test_bytes_are_told_and_such_a_client_ends_by_itself() -> None:
    (flow,) = described('stack = "quic-go"\nbytes = "3MB"\n')["flows"]
    assert flow["client"].endswith("client {server} 3000000")
    assert flow["stop_ns"] is None


def test_the_recipe_is_part_of_the_run(tmp_path: Path) -> None:
    before = described('stack = "./mine"')
    assert before["flows"][0]["stack"]["name"] == "mine"
    (tmp_path / "mine" / "transfer").write_text("#!/bin/sh\n# another\n")
    assert described('stack = "./mine"') != before
    (tmp_path / "mine" / "target").mkdir()
    (tmp_path / "mine" / "target" / "x").touch()
    assert described('stack = "./mine"') == described('stack = "./mine"')


@pytest.mark.parametrize(
    ("flow", "sentence"),
    [
        ('stack = "quin"', 'flow "q": stack = "quin" is not a stack; did you mean "quinn"?'),
        ('stack = "./no"', "there is no no/stack.toml; give a folder with a recipe, or one of aioquic"),
        ('stack = "quinn"\ncc = "prague"', 'cc = "prague" is not a controller of quinn; valid are cubic, newreno, bbr'),
        ('stack = "quinn"\nclient = "x"', 'client = "x" is what stack = "quinn" says itself; leave one of them out'),
        ('stack = "quinn"\nsender = "server"', 'sender = "server" is what stack = "quinn" says itself'),
        ('stack = "quinn"\necn = "off"', 'ecn = "off" is of TCP, and quinn decides for itself; leave it out'),
        ('stack = "ngtcp2"\nbytes = "3MB"', 'bytes = "3MB" cannot be told to ngtcp2, which sends until it is ended'),
        ('server = "x"', 'client is missing; write the command of the client, or stack = "quic-go" instead of both'),
        ('server = "x"\nclient = "x {server}"\nbytes = "3MB"', 'bytes = "3MB" is of a stack'),
    ],
)
def test_a_mistake_is_one_sentence(flow: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        described(flow)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_stack_without_its_kind_is_told_the_kind() -> None:
    Path("tcp.toml").write_text(HEAD + FLOW.replace('kind = "program"\n', "") + 'stack = "quinn"\n')
    with pytest.raises(InputError, match='stack = "quinn" is not a key here; it needs kind = "program"'):
        expand(load(Path("tcp.toml")), "linux")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("server =", "servr =", 'servr is not a key of a recipe; did you mean "server"?'),
        ('version = "1"', "", "version is missing; add it"),
        ('["cubic", "reno"]', "[]", 'controllers = [] is no list of texts; write such as ["a", "b"]'),
        ('version = "1"', "version = 1", "version = 1 is of another type; write a text"),
        ('ecn = "none"', 'sender = "me"', "sender = 'me' is none of client, server"),
        ('ecn = "none"', "needs = { go = 1 }", "is no table of texts"),
        ('ecn = "none"', "ecn = ", "which is not TOML"),
    ],
)
def test_a_recipe_with_a_mistake_is_named(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "mine" / "stack.toml").write_text(RECIPE.replace(old, new))
    with pytest.raises(InputError) as refused:
        described('stack = "./mine"')
    assert "mine/stack.toml, w" in str(refused.value)
    assert sentence in str(refused.value)


def test_a_stack_is_built_once_and_then_found(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = described('stack = "./mine"')
    with pytest.raises(ValueError, match=r'stack = "mine" is not built .*; build it with: l4slab stacks build FOLDER'):
        refuse(run, None)
    assert main(["stacks", "build", "./mine"]) == 0
    refuse(run, None)
    with pytest.raises(ValueError, match=r'stack = "quinn" is not built .*; build it with: l4slab stacks build quinn'):
        refuse(described('stack = "quinn"'), None)
    (build,) = cache.glob("mine-1-*")
    plan = lab.build(run).plan
    (server,) = [line for line in plan if line.startswith("program ") and " server " in line]
    assert f"{build}/transfer server cubic" in server
    assert f"setting CONF={build}/conf" in plan
    (build / "mark").touch()
    assert main(["stacks", "build", "./mine"]) == 0
    assert (build / "mark").exists(), "what is built is not built again"
    assert "was built before" in capsys.readouterr().out
    assert main(["stacks", "build", "./mine", "--again"]) == 0
    assert not (build / "mark").exists()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "cp transfer $OUT/",
            "echo gone wrong; exit 3",
            'the step "echo gone wrong; exit 3" of its recipe failed with',
        ),
        (
            'ecn = "none"',
            'needs = { nosuch = "https://no.such" }',
            "nosuch, which is not in PATH; get it: https://no.such",
        ),
        ('ecn = "none"', 'python = "3.99"', "mine needs Python 3.99 or newer; install it, so that it is in PATH"),
    ],
)
def test_a_build_that_fails_says_why_and_leaves_no_build(
    old: str, new: str, sentence: str, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine" / "stack.toml"
    file.write_text(file.read_text().replace(old, new))
    assert main(["stacks", "build", "./mine"]) == 1
    assert sentence in said(capsys)
    assert not list(cache.glob("mine-*/built.json"))


def test_an_unknown_stack_cannot_be_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stacks", "build", "quin"]) == 2
    assert 'quin is not a stack; did you mean "quinn"?' in said(capsys)


def test_the_list_says_what_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "stacks", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["stacks"]
    assert [one["name"] for one in entries] == stacks.names()
    assert not any(one["is_built"] for one in entries)
    assert main(["list", "quinn"]) == 0
    assert "not built: l4slab stacks build quinn" in " ".join(capsys.readouterr().out.split())


def test_check_puts_a_stack_in_the_place_of_the_controller() -> None:
    asked = suite("bbr", program=Program(stack="quinn"))
    assert asked.cc == "quinn bbr"
    assert len(asked.experiments) >= 10
    flows = [
        flow
        for experiment in asked.experiments
        for run in expand(as_file(experiment, {}), "linux").runs
        for flow in run.description["flows"]
        if flow["kind"] == "program"
    ]
    assert {flow["stack"]["cc"] for flow in flows} == {"bbr"}
    # Neither the ECN of TCP nor transfers of given sizes can be asked of it.
    assert all(flow["ecn"] is None and str(stacks.FOR_EVER) in flow["client"] for flow in flows)
    kernels_own = suite("prague", program=Program(stack="kernel"))
    assert len(kernels_own.experiments) >= len(asked.experiments)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--stack", "quin"], '--stack quin is not a stack; did you mean "quinn"?'),
        (["--stack", "quinn", "--client", "x"], "--stack says its commands itself"),
        (["--stack", "quinn", "--engine", "linux", "prague"], 'cc = "prague" is not a controller of quinn'),
    ],
)
def test_a_mistake_about_a_stack_to_check_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *words, "--dry-run"]) == 2
    assert sentence in said(capsys)
