"""The modules of the core, at every level, depend on each other without a circle."""

import graphlib
import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "crates" / "core" / "src"
UNIT_TESTS = re.compile(r"#\[cfg\(test\)\]\n(?:pub\S* )?mod \w+ \{.*?\n\}\n", re.DOTALL)
TOKENS = re.compile(r"\w+|::|[{},;]|\S")


def imports(tokens, prefix=()):
    """Every path of one `use` tree, as tuples of names."""
    path, seen = prefix, False
    for token in tokens:
        if token == "{":
            yield from imports(tokens, path)
            seen = True
        elif token in {",", "}", ";"}:
            if not seen:
                yield path
            path, seen = prefix, False
            if token != ",":
                return
        elif token != "::":
            path = (*path, token)


def dependencies(module, text):
    """Paths from the crate's root that a module names, in `use` and elsewhere."""
    text = UNIT_TESTS.sub("", re.sub(r"//.*", "", text))
    uses = [path for use in re.findall(r"\buse ([^;]+;)", text) for path in imports(iter(TOKENS.findall(use)))]
    inline = [tuple(path.split("::")) for path in re.findall(r"\b(?:crate|self|super)(?:::\w+)+", text)]
    for path in uses + inline:
        base = () if path[0] == "crate" else module
        for name in path:
            base = base[:-1] if name == "super" else base if name in {"crate", "self"} else (*base, name)
        yield base


def circles(sources):
    """A circle between the modules of one folder, for each folder that has one. `sources`: text by module."""
    graphs = {}
    for module, text in sources.items():
        for other in dependencies(module, text):
            known = next(other[:n] for n in range(len(other), -1, -1) if other[:n] in sources)
            common = next(n for n in range(len(module), -1, -1) if module[:n] == known[:n])
            if common < min(len(module), len(known)):
                nodes = graphs.setdefault(module[:common], {})
                nodes.setdefault(module[common], set()).add(known[common])
    for folder, graph in graphs.items():
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as found:
            yield "::".join(folder), found.args[1]


def test_no_folder_of_the_core_has_a_circle():
    paths = [path for path in SOURCES.rglob("*.rs") if path.stem != "tests"]
    sources = {path.relative_to(SOURCES).with_suffix("").parts: path.read_text() for path in paths}
    assert list(circles({**sources, (): sources.pop(("lib",))})) == []


def test_a_circle_is_told():
    sources = {(): "", ("a",): "use crate::b::X;", ("b",): "pub use super::{c, d::{self, e}};", ("c",): "super::a::f()"}
    assert [(folder, set(modules)) for folder, modules in circles(sources)] == [("", {"a", "b", "c"})]
    sources["c",] = "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n// super::a\n"
    assert list(circles(sources)) == []
