"""The example notebooks run as they stand, and give the numbers and figures with which they are kept.

UPDATE_NOTEBOOKS=1 writes them anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
# All take some seconds of an idle core, and a kernel of their own: one is enough for the quick tests.
NOTEBOOKS = [
    pytest.param(path, id=path.stem, marks=() if path.stem == "student" else pytest.mark.slow)
    for path in sorted(EXAMPLES.glob("*.ipynb"))
]


def shown(notebook: Any) -> list[tuple[list[str], list[str]]]:
    """Of each output, its forms, and the numbers in its text."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert all(output.output_type != "error" for output in outputs)
    found = []
    for output in outputs:
        data = output.get("data", {"text/plain": output.get("text", "")})
        found.append((sorted(data), re.findall(r"\d+\.\d+", data["text/plain"])))
    return found


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_notebook_gives_what_it_shows(path: Path) -> None:
    kept = nbformat.read(path, as_version=4)
    run = nbformat.read(path, as_version=4)
    client = NotebookClient(
        run, timeout=300, kernel_name="python3", record_timing=False, resources={"metadata": {"path": str(EXAMPLES)}}
    )
    client.execute()
    if os.environ.get("UPDATE_NOTEBOOKS"):
        run.metadata["language_info"] = {"name": "python"}  # without the version
        nbformat.write(run, path)
        return
    assert shown(run) == shown(kept), f"{path.name} is stale: UPDATE_NOTEBOOKS=1 pytest {Path(__file__).name}"
    assert any("image/svg+xml" in forms for forms, _ in shown(kept))
    assert path.stat().st_size < 500_000
