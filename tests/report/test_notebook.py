"""The example notebook runs as it stands, and draws a share for each cell of its factorial."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_heat_map_notebook() -> None:
    notebook = nbformat.read(EXAMPLES / "heat-map.ipynb", as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}
    ).execute()
    table, drawing = (cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    assert "shape: (6, 5)" in table[-1].data["text/plain"]
    assert any("image/png" in output.get("data", {}) for output in drawing)
