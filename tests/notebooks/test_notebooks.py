"""The notebooks run on a stored result, and are committed with outputs that can be read where they are hosted."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_BYTES = 600_000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the kernel's own libraries
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_on_the_stored_result(path: Path) -> None:
    """Every cell runs, with the working folder and the default result that a reader has."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_with_small_outputs_and_no_error(path: Path) -> None:
    """Figures are there, every code cell was run in order, nothing failed."""
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 1
    assert any("What it means" in output.get("data", {}).get("text/markdown", "") for output in outputs)
    assert path.stat().st_size < MOST_BYTES


def test_there_is_a_notebook() -> None:
    """The parametrised tests above are not empty."""
    assert NOTEBOOKS
