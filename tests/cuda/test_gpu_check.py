"""The script for a real GPU, on the stand-in: all that needs no speed passes before a GPU is rented."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import standin
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.cuda

NEED_SPEED_OR_VALUES = {
    "modes agree on the loss",
    "clocks agree",
    "telemetry is told",
    "launches agree",
    "watching costs nothing",
    "utilisation is possible",
}


def test_every_check_that_needs_no_speed_passes(tmp_path: Path) -> None:
    """The others say that they skip, and why."""
    variables = standin.environment(count=2, ledger=str(tmp_path / "ledger"))
    command = [sys.executable, "-m", "benchmarks.gpu_check", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 4,
        check=False,
    )
    lines = json.loads((tmp_path / "out" / "gpu_check.json").read_text())["checks"]
    status = {line["check"]: line["status"] for line in lines}
    assert done.returncode == 0, done.stdout
    assert {check for check, said in status.items() if said == "SKIP"} == NEED_SPEED_OR_VALUES, done.stdout
    assert {said for check, said in status.items() if check not in NEED_SPEED_OR_VALUES} == {"PASS"}
