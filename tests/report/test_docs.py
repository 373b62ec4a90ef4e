"""The reference documents name every key and every column."""

import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path

import click
import jsonschema
import pytest
from l4slab import _core, cli, experimentfile, stacks
from l4slab.base import metrics
from l4slab.engines import registry
from l4slab.experimentfile import classes, tables, traffic
from l4slab.results import bars, claims, figures, published
from l4slab.sweep import expand

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = Path(experimentfile.__file__).parents[1]
MODELS = [
    *(tables.Top, tables.Link, tables.At, tables.Impair, tables.Rewrite, tables.Skip),
    *traffic.KINDS.values(),
    *(classes.Class, classes.Filter),
    *(claims.Claim, published.Published, figures.Figure, figures.RunTable, bars.Bar, bars.Cause),
]


def code(name: str) -> set[str]:
    """What stands between backquotes, and the keys of the TOML blocks."""
    text = (DOCS / name).read_text("utf-8")
    words = set(re.findall(r"`([^`\n]+)`", text))
    return words | set(re.findall(r'^"?([\w.*]+)"?\s*=', text, re.MULTILINE))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_key_is_described(model) -> None:
    assert set(experimentfile.keys_of(model)) <= code("experiment-file.md")


def test_every_section_is_described() -> None:
    text = (DOCS / "experiment-file.md").read_text("utf-8")
    for section in experimentfile.SECTIONS:
        assert f"[{section}" in text, section


def commands() -> dict[str, click.Command]:
    """Every command by the words that call it; a group only by its commands."""
    found: dict[str, click.Command] = {}
    groups: list[tuple[str, click.Group]] = [("", cli.cli)]
    for before, group in groups:
        for name, one in group.commands.items():
            if isinstance(one, click.Group):
                groups.append((f"{before}{name} ", one))
            else:
                found[before + name] = one
    return found


@pytest.mark.parametrize(
    ("option", "heading"), [("--json", "For scripts"), ("--junit", "For CI"), ("--summary", "For CI")]
)
def test_the_commands_with_an_option_are_named(option: str, heading: str) -> None:
    having = {name for name, one in commands().items() if any(option in of_it.opts for of_it in one.params)}
    section = (DOCS / "command-line.md").read_text("utf-8").partition(f"## {heading}\n\n")[2]
    first = section.partition("\n\n")[0].partition(" (`export")[0]
    assert set(re.findall(r"`([a-z ]+)`", first)) == having - {"export"}, "export --json writes tables"


def test_every_command_answers_a_question() -> None:
    text = (DOCS / "which-command.md").read_text("utf-8")
    told = re.findall(r"l4slab ((?:(?:stacks|linux) )?[a-z]+)", text)
    assert set(told) <= commands().keys()
    assert {name for name in commands() if " " not in name} <= set(told), "groups have pages of their own"
    listed = re.findall(
        r"^\| `((?:(?:stacks|linux) )?[a-z]+)", (DOCS / "command-line.md").read_text("utf-8"), re.MULTILINE
    )
    assert commands().keys() <= set(listed)


def test_pages_know_every_engine_and_medium() -> None:
    for page in ("comparison.md", "glossary.md", "command-line.md"):
        assert set(registry.ENGINES) <= code(page), page
    known = (DOCS / "access.md").read_text("utf-8")
    assert all(f"## `{medium['name']}`" in known for medium in _core.media())


def test_readme_counts_the_stacks() -> None:
    programs = {name for name in stacks.names() if stacks.find(name).recipe.kind == "program"} - {"kernel"}
    numbers = ["eight", "nine", "ten", "eleven", "twelve", "thirteen"]
    said = re.search(r"compares (\w+) QUIC stacks", " ".join((ROOT / "README.md").read_text("utf-8").split()))
    assert said is not None
    assert numbers.index(said[1]) + 8 == len(programs)
    rows = re.findall(r"^\| `([\w-]+)`", (DOCS / "stacks.md").read_text("utf-8").partition("## Calls")[0], re.MULTILINE)
    assert sorted(rows) == sorted(stacks.names())


@pytest.mark.parametrize(
    "table", [*(name.upper() for name in metrics.TABLES), "CLAIMS", "PUBLISHED", "AGREEMENT", "BARS"]
)
def test_every_column_is_described(table: str) -> None:
    known = code("results.md")
    missing = []
    for column in getattr(metrics, table):
        stem, _, last = column.rpartition("_")
        # `rtt_ms_mean`, `_p50`, `_p99` stand in one row.
        if column not in known and not (f"_{last}" in known and any(word.startswith(f"{stem}_") for word in known)):
            missing.append(column)
    assert not missing


def test_the_example_runs_as_it_stands(tmp_path: Path) -> None:
    text = (DOCS / "experiment-file.md").read_text("utf-8")
    example = next(block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[link." in block)
    file = tmp_path / "example.toml"
    file.write_text(example)
    assert len(expand(experimentfile.load(file), "sim").runs) == 20


def test_readme_and_tutorial_show_the_first_experiment_and_what_it_prints(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = (ROOT / "examples" / "first.toml").read_text("utf-8")
    tutorial = (DOCS / "tutorial.md").read_text("utf-8")
    file = tmp_path / "first.toml"

    def printed(content: str) -> str:
        file.write_text(content)
        assert cli.main(["run", str(file), "--trials", "10", "--out", str(tmp_path / "results"), "--no-report"]) == 0
        return capsys.readouterr().out

    table = printed(text).split("\n\n")[0].strip()
    for page in (tutorial, (ROOT / "README.md").read_text("utf-8")):
        assert f"```toml\n{text}```" in page
        assert f"```\n{table}\n```" in page
    blocks = tutorial.split("```")[1::2]
    claim = next(block.removeprefix("toml") for block in blocks if "[[claim]]" in block)
    verdict = next(block.strip() for block in blocks if "holds" in block)
    assert verdict in printed(f"{text}\n{claim}")


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft7Validator:
    schema = json.loads((files("l4slab.experimentfile") / "experiment.schema.json").read_text("utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def test_the_schema_takes_every_file_that_ships(validator: jsonschema.Draft7Validator) -> None:
    paths = [*PACKAGE.rglob("*.toml"), *(PACKAGE.parents[1] / "examples").rglob("*.toml")]
    paths = [path for path in paths if path.name != "Cargo.toml" and path.parent.name != "templates"]
    assert len(paths) > 100
    # The schema knows no queue that only a custom kernel has. A stack's recipe is not an experiment file.
    paths = [path for path in paths if path.name not in ("step.toml", "stack.toml")]
    wrong = {
        path.name: error.message for path in paths for error in validator.iter_errors(tomllib.loads(path.read_text()))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('rate  = "100Mbit"', 'rate  = "100Mbps"'),
        ('rate  = "100Mbit"', "rate  = 100"),
        ('qdisc = "dualpi2 target 15ms"', 'qdisc = "dualpi3"'),
        ("warmup ", "warmpu "),
        ('cc   = "prague"', 'cc   = "prague"\nserver = "iperf3 -s"'),
        ('ecn  = "classic"', 'ecn  = "clasic"'),
        ("trials   = 5", "trials   = 0"),
        ('name = "l4s"', 'kind = "webb"\nname = "l4s"'),
        ("[[claim]]\nid ", "[[claim]]\nname "),
    ],
)
def test_the_schema_refuses_mistakes(validator: jsonschema.Draft7Validator, right: str, wrong: str) -> None:
    text = next(
        block for block in re.findall(r"```toml\n(.*?)```", (DOCS / "experiment-file.md").read_text(), re.DOTALL)
    )
    assert validator.is_valid(tomllib.loads(text))
    assert right in text
    assert not validator.is_valid(tomllib.loads(text.replace(right, wrong, 1)))


def test_every_key_of_the_schema_has_a_description(validator: jsonschema.Draft7Validator) -> None:
    def undescribed(one: dict, place: str) -> list[str]:
        found = []
        for key, value in one.get("properties", {}).items():
            if "description" not in value and value.get("type") not in ("array", "object"):
                found.append(f"{place}.{key}")
            found += undescribed(value, f"{place}.{key}")
        for inner in (one.get("items"), one.get("additionalProperties"), *one.get("anyOf", ())):
            found += undescribed(inner, place) if isinstance(inner, dict) else []
        return found

    assert undescribed(validator.schema, "") == []
