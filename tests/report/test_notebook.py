"""The notebooks of the documentation run as they stand, and draw. They are kept without output."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = [pytest.param(path, id=path.stem) for path in sorted(FOLDER.glob("*.ipynb"))]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_notebook_runs_and_draws(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells), f"{path.name} is kept with output: clear it"
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs
    assert all(output.output_type != "error" for output in outputs)
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
