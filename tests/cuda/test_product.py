"""The product itself on the stand-in GPU, through its command line: bytes without values, and values without bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.standin import Faults, environment
from tests.cuda.on_standin import MIB
from tests.cuda.values import COPY_BYTES

pytestmark = pytest.mark.cuda

BENCH = [sys.executable, "-c", "from bench.cli import main; main()"]
RANK = "bench.rank.worker:_measure"
"""The function in which a rank measures."""
SWEEP = """
format: 1
name: on-standin
base:
  model: {{preset: gpt2-nano}}
  data: {{corpus: stdlib, rows: packed}}
  seq_len: 32
  global_batch_size: 8
  seed: 1
axes: {axes}
measure: {{warmup_updates: 2, updates: 4, rounds: 1, quality_updates: 4}}
"""


def _sweep(folder: Path, axes: str, device: str, variables: dict[str, str]) -> tuple[int, Path]:
    """Run `bench sweep`; give its exit code and the folder of results."""
    folder.mkdir()
    sweep, out = folder / "sweep.yaml", folder / "results"
    sweep.write_text(SWEEP.format(axes=axes), encoding="utf-8")
    command = [*BENCH, "sweep", str(sweep), "--device", device, "--out", str(out)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr[-3000:]
    return done.returncode, out


def _rows(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "results.parquet")


def _losses(folder: Path) -> dict[str, Any]:
    """Give by amp mode, ranks and micro-batch the training loss of each update that keeps it."""
    keys = ["amp_mode", "world_size", "micro_batch_size"]
    updates = pd.read_parquet(folder / "updates.parquet").merge(_rows(folder)[["trial_id", *keys]], on="trial_id")
    return {str(key): list(group.sort_values("update").train_loss.dropna()) for key, group in updates.groupby(keys)}


def test_losses_on_one_and_two_ranks_are_the_cpus(tmp_path: Path) -> None:
    axes = "{world_size: [1, 2], amp_mode: [fp32, bf16], micro_batch_size: [2, 4]}"
    with_values = {"PYTHONPATH": str(Path(__file__).parent / "with_values"), "WITH_VALUES": RANK}
    standin = environment(count=2, ledger=tmp_path / "ledger", copy_bytes=COPY_BYTES, values=True)
    code, on_gpu = _sweep(tmp_path / "cuda", axes, "cuda", standin | with_values)
    assert code == 0, list(_rows(on_gpu).reason)
    assert list(_rows(on_gpu).outcome) == ["ok"] * 8
    _, on_cpu = _sweep(tmp_path / "cpu", axes, "cpu", {})
    expected = _losses(on_cpu)
    told = _losses(on_gpu)
    assert told.keys() == expected.keys()
    for key, losses in told.items():
        assert losses == pytest.approx(expected[key], rel=1e-5), key
        assert losses[0] > 5, "no values"


def test_a_full_gpu_gives_oom_rows_and_the_next_launch_is_undisturbed(tmp_path: Path) -> None:
    standin = environment(ledger=tmp_path / "ledger", memory_bytes=96 * MIB, context_bytes=16 * MIB)
    axes = "{amp_mode: [fp32], micro_batch_size: {max: 512}}"
    sweep = SWEEP.replace("  global_batch_size: 8\n", "  global_batch_size: 512\n")
    folder = tmp_path / "cuda"
    folder.mkdir()
    (folder / "sweep.yaml").write_text(sweep.format(axes=axes), encoding="utf-8")
    command = [*BENCH, "sweep", "sweep.yaml", "--device", "cuda", "--out", "results"]
    done = subprocess.run(command, cwd=folder, env=os.environ | standin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = _rows(folder / "results")
    assert set(rows.outcome) == {"ok", "oom"}
    largest = rows[rows.outcome == "ok"].micro_batch_size.max()
    assert rows[rows.outcome == "oom"].micro_batch_size.min() == 2 * largest
    assert all("CUDA out of memory" in reason for reason in rows[rows.outcome == "oom"].reason)


def test_cublas_that_does_not_start_is_a_failed_row(tmp_path: Path) -> None:
    standin = environment(ledger=tmp_path / "ledger", faults=Faults(blas_refused=True))
    code, folder = _sweep(tmp_path / "cuda", "{micro_batch_size: [4]}", "cuda", standin)
    (row,) = _rows(folder).to_dict("records")
    assert (code, row["outcome"]) == (1, "failed")
    assert "CUBLAS_STATUS_NOT_INITIALIZED" in row["reason"]


def test_a_sticky_error_is_a_failed_row_with_its_text(tmp_path: Path) -> None:
    standin = environment(ledger=tmp_path / "ledger", faults=Faults(illegal_access_at_launch=500))
    _, folder = _sweep(tmp_path / "cuda", "{micro_batch_size: [4]}", "cuda", standin)
    (row,) = _rows(folder).to_dict("records")
    assert row["outcome"] == "failed"
    assert "an illegal memory access was encountered" in row["reason"]
