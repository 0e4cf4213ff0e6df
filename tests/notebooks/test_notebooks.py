"""The notebooks run on a stored result, and are committed with outputs that can be read where they are hosted."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.patience import PATIENCE_S
from tests.planted import config, launches, store

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
        notebook, timeout=PATIENCE_S, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_scaling_notebook_draws_what_a_sweep_over_ranks_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """World sizes, both ways of exchanging gradients, and two accumulation counts of one micro-batch."""
    configs = [
        config(
            1000 * ranks * (0.9 if sync == "every" else 1), world_size=ranks, gradient_sync=sync, micro_batch_size=micro
        )
        for ranks in (1, 2)
        for sync in ("last", "every")
        for micro in (4, 8)
    ]
    configs.append(config(1000, micro_batch_size=8, world_size=1, gradient_sync="last", global_batch_size=128))
    monkeypatch.setenv("BENCH_RESULTS", str(store(tmp_path / "ranks", launches(configs))))
    notebook = nbformat.read(ROOT / "notebooks/scaling.ipynb", as_version=4)
    NotebookClient(
        notebook, timeout=PATIENCE_S, kernel_name="python3", resources={"metadata": {"path": str(ROOT / "notebooks")}}
    ).execute()
    outputs = [output.get("data", {}) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output for output in outputs) == 2
    texts = " ".join(output.get("text/markdown", "") for output in outputs)
    assert "Not in this result" not in texts
    assert "predicted at A = 32" in texts


def test_there_is_a_notebook() -> None:
    """The parametrised tests above are not empty."""
    assert NOTEBOOKS
