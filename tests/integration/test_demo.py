"""The example that shows accumulation loses nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

DEMO = Path(__file__).parents[2] / "examples" / "accumulation_demo.py"


@pytest.mark.slow
def test_demo_prints_two_updates_of_twelve_and_seven_and_a_global_batch_of_twenty_four(tmp_path: Path) -> None:
    """19 examples at 4 x 3; runs from any folder."""
    done = subprocess.run(
        [sys.executable, str(DEMO)], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    first, second, total = done.stdout.splitlines()
    assert first.startswith("update 0: 3 micro-batches, 12 examples, each weighs 1/12, loss ")
    assert second.startswith("update 1: 2 micro-batches, 7 examples, each weighs 1/7, loss ")
    assert total == "global batch: 4 x 3 x 2 ranks = 24 examples"
    assert done.stderr == ""
