"""The house has a budget of lines and words: CONTRIBUTING says how many, and this test that there are no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# By the name in CONTRIBUTING's table: where the files are, and those among them that are generated.
PARTS = {
    "Python": ("python/l4slab", ".py", {"python/l4slab/base/run.py"}),
    "Rust": ("crates", ".rs", set[str]()),
    "TypeScript": ("web/src", ".ts", {"web/src/generated/run.ts"}),
}
_LEFT_OUT = {"target", "node_modules", "__pycache__", "recipes"}


def files(part: str) -> Iterator[Path]:
    folder, suffix, generated = PARTS[part]
    for path in (ROOT / folder).rglob(f"*{suffix}"):
        inside = path.relative_to(ROOT)
        if not (_LEFT_OUT & {*inside.parts} or inside.as_posix() in generated or path.name.endswith(f".test{suffix}")):
            yield path


@pytest.mark.parametrize("part", PARTS)
def test_the_house_keeps_its_budget(part: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    row = re.search(rf"^\| {part} \|.*\| ([\d ]+) \|$", text, re.MULTILINE)
    assert row is not None
    lines = sum(path.read_text("utf-8").count("\n") for path in files(part))
    allowed = int(row[1].replace(" ", ""))
    assert lines <= allowed, (
        f"{lines} lines of {part}, and {allowed} in CONTRIBUTING: remove some, or say what they are worth"
    )
    # Who removes lines lowers the budget.
    assert lines > 0.97 * allowed


def test_the_documentation_keeps_its_budget() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    row = re.search(r"at most ([\d ]+) words", text)
    assert row is not None
    # Sphinx writes some pages itself, and they stay until the next build.
    built = {ROOT / line.removeprefix("/") for line in (ROOT / ".gitignore").read_text("utf-8").splitlines()}
    words = sum(len(page.read_text("utf-8").split()) for page in {*(ROOT / "docs").rglob("*.md")} - built)
    allowed = int(row[1].replace(" ", ""))
    assert 0.97 * allowed < words <= allowed, f"{words} words in docs, and {allowed} in CONTRIBUTING"
