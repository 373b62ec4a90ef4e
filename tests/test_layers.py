"""The Python package's folders depend on each other in one direction, and its modules without a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import l4slab

PACKAGE = Path(l4slab.__file__).parent
# In the order of the data. A folder depends on those before it. The last one is what `import l4slab` gives.
FOLDERS = [
    "_core", "base", "stacks", "experimentfile", "own", "engines", "sweep", "campaign", "results", "plot", "live",
    "report", "api", "tools", "gym", "cli", "",
]  # fmt: skip
# Names beside the folders with code: the packaged files.
DATA = ["studies", "suites"]


def modules() -> dict[str, Path]:
    """Every module by its name below `l4slab`; templates and recipes are code of others."""
    found = {"_core": PACKAGE / "_core.pyi"}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if not {"templates", "recipes"} & {*parts}:
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """What a module imports of the package, wherever the statement is: in a function, or under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] == "l4slab":
                below = name.split(".")[1:]
                while ".".join(below) not in known:
                    below.pop()
                yield ".".join(below)


@cache
def graph() -> dict[str, set[str]]:
    """What each module imports of the others."""
    known = modules()
    return {name: set(imports(path, known)) - {name} for name, path in known.items()}


def test_no_module_is_in_a_circle() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(name or "l4slab" for name in error.args[1])) from None


def test_folders_depend_on_those_before_them() -> None:
    place = {folder: number for number, folder in enumerate(FOLDERS)}
    wrong = [
        f"{name} imports {other}"
        for name, others in graph().items()
        for other in others
        if place[_folder(other)] > place[_folder(name)]
    ]
    assert not wrong


def test_every_name_at_the_top_has_its_place() -> None:
    ignored = {"__init__", "__main__", "__pycache__", "py", "_core"}
    found = {path.name.partition(".")[0] for path in PACKAGE.iterdir()} - ignored
    assert found == {*FOLDERS[1:-1], *DATA}
    assert len(found) <= 18


def _folder(module: str) -> str:
    first = module.partition(".")[0]
    return "" if first == "__main__" else first
