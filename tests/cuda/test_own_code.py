"""Models, data and losses of the user's own on the stand-in GPU: bytes without values, and values without bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from bench.standin import environment
from tests.cuda.values import COPY_BYTES

pytestmark = pytest.mark.cuda

BENCH = [sys.executable, "-c", "from bench.cli import main; main()"]
EXAMPLES = Path(__file__).parents[2] / "examples" / "own_model"
LENGTH = "warmup_updates: 1, updates: 2, quality_updates: 3"


def _rows(out: Path, name: str, device: str, variables: dict[str, str]) -> pd.DataFrame:
    """Sweep an example on a device, from its folder."""
    text = (
        (EXAMPLES / f"{name}.yaml")
        .read_text(encoding="utf-8")
        .replace("preset: quick, rounds: 1", LENGTH)
        .replace("[4, 8, 16]", "[4, 8]")
    )
    out.mkdir()
    (out / "sweep.yaml").write_text(text.replace("device: cpu", f"device: {device}"), encoding="utf-8")
    command = [*BENCH, "sweep", str(out / "sweep.yaml"), "--out", str(out / "results")]
    paths = os.pathsep.join([str(EXAMPLES.parents[1]), *filter(None, [variables.get("PYTHONPATH")])])
    done = subprocess.run(
        command,
        env=os.environ | variables | {"PYTHONPATH": paths},
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return pd.read_parquet(out / "results" / "results.parquet").set_index("micro_batch_size")


@pytest.mark.parametrize("name", ["text_classifier", "prompt_masked_lm", "image_model"])
def test_examples_take_bytes_and_counts_on_a_gpu(tmp_path: Path, name: str) -> None:
    """From page-locked batches; the unit is the loss's own, and FLOPs are counted by torch as on a CPU."""
    rows = _rows(tmp_path / "gpu", name, "cuda", environment())
    assert set(rows["outcome"]) == {"ok"}
    assert (rows["peak_allocated_bytes"] > 0).all()
    assert rows["units"].gt(0).all()
    assert rows["units_per_s"].isna().all()
    assert rows["peak_allocated_bytes"].is_monotonic_increasing


def test_losses_are_the_cpus(tmp_path: Path) -> None:
    with_values = {
        "PYTHONPATH": str(Path(__file__).parent / "with_values"),
        "WITH_VALUES": "bench.rank.worker:_measure",
    }
    standin = environment(ledger=tmp_path / "ledger", copy_bytes=COPY_BYTES, values=True)
    gpu = _rows(tmp_path / "gpu", "prompt_masked_lm", "cuda", standin | with_values)
    cpu = _rows(tmp_path / "cpu", "prompt_masked_lm", "cpu", {})
    assert gpu["final_train_loss"].to_dict() == pytest.approx(cpu["final_train_loss"].to_dict(), rel=1e-5)
    assert (gpu["model_flops"].dropna() == cpu["model_flops"].dropna()).all()
