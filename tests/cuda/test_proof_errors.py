"""A proof on a GPU that fails for good still says what happened, and one without memory proves nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bench.check.exchange.request import ProofRequest
from bench.record.paths import LaunchPaths
from bench.standin import Faults
from tests.cuda.on_standin import GIB, run_ranks

pytestmark = pytest.mark.cuda

MODELS = Path(__file__).parents[1] / "data" / "models_on_gpu"


def _prove(folder: str, function: str) -> None:
    """Prove as on a real GPU: a stand-in that says what it is is asked for no gradient."""
    import bench.check.precision_line as module
    from bench.rank.proof_rank import prove_rank

    module.is_standin = lambda: False
    module.product_error = lambda *_: 0.0
    paths = LaunchPaths(Path(folder))
    request = ProofRequest(model=f"on_gpu:{function}", device="cuda", working_directory=str(MODELS))
    request.write(paths.proof_file, seconds_left=60.0)
    prove_rank(paths, 0)
    os._exit(0)


def _lines(folder: Path, function: str, **switches: Any) -> list[dict[str, Any]]:
    (ended,) = run_ranks(_prove, str(folder), function, ranks=1, may_fail=True, **switches)
    answer = LaunchPaths(folder).rank_file(0)
    assert answer.exists(), ended.stderr[-2000:]
    lines: list[dict[str, Any]] = json.loads(answer.read_text())["lines"]
    return lines


def test_error_that_stays_is_told_though_page_locked_memory_ends_the_process(tmp_path: Path) -> None:
    """Freeing it asks the GPU, which fails again, in a place from where C++ can only end the process."""
    (line,) = _lines(tmp_path, "that_pins", faults=Faults(illegal_access_at_launch=20))
    assert line["verdict"] == "FAIL"
    assert line["words"] == "AcceleratorError: CUDA error: an illegal memory access was encountered"


def test_lack_of_memory_on_the_gpu_proves_nothing(tmp_path: Path) -> None:
    """Kept as a failure, it would be believed by every later sweep of the folder, whatever took the memory."""
    (line,) = _lines(tmp_path, "that_takes_much", memory_bytes=2 * GIB)
    assert (line["verdict"], line["words"]) == ("NOT PROVEN", "the GPU ran out of memory")
