"""The product itself on the stand-in GPU, through its command line: bytes without values, and values without bytes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.standin import Faults, environment
from tests.cuda.on_standin import GIB, MIB
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


def _sweep(
    folder: Path, axes: str, device: str, variables: dict[str, str], changes: Sequence[tuple[str, str]] = ()
) -> tuple[int, Path]:
    """Run `bench sweep`, with changes to the text of its file; give its exit code and the folder of results."""
    folder.mkdir()
    sweep, out = folder / "sweep.yaml", folder / "results"
    text = SWEEP.format(axes=axes)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    sweep.write_text(text, encoding="utf-8")
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


def test_cublas_that_does_not_start_on_a_full_gpu_is_an_oom_row_and_the_search_goes_on(tmp_path: Path) -> None:
    standin = environment(
        ledger=tmp_path / "ledger",
        memory_bytes=GIB,
        context_bytes=16 * MIB,
        faults=Faults(blas_needs_bytes=984 * MIB),
    )
    larger = ("seq_len: 32", "seq_len: 128"), ("global_batch_size: 8", "global_batch_size: 32")
    code, folder = _sweep(tmp_path / "cuda", "{micro_batch_size: {max: 32}}", "cuda", standin, larger)
    rows = _rows(folder).set_index("micro_batch_size").sort_index()
    assert code == 0, list(rows.reason)
    assert dict(rows.outcome) == {1: "ok", 8: "ok", 16: "oom", 32: "oom"}
    assert re.search(r"CUBLAS_STATUS_NOT_INITIALIZED .* \(9\d\d MiB of the GPU were free\)", rows.reason[16])


def test_fixed_length_on_two_gpus_is_flagged_where_ddp_still_times_itself(tmp_path: Path) -> None:
    standin = environment(count=2, ledger=tmp_path / "ledger")
    shorter = [("updates: 4", "updates: 1")]
    code, folder = _sweep(tmp_path / "cuda", "{world_size: [1, 2], micro_batch_size: [4]}", "cuda", standin, shorter)
    rows = _rows(folder).set_index("world_size")
    assert code == 0, list(rows.reason)
    assert {ranks: "ddp_warmup" in flags for ranks, flags in rows["flags"].items()} == {1: False, 2: True}


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


def test_file_that_init_writes_on_two_gpus_runs_whole_there(tmp_path: Path) -> None:
    """What was found is what the plan finds: both GPUs, their modes, nothing skipped."""

    def bench(*arguments: str) -> str:
        command = [*BENCH, *arguments]
        variables = environment(count=2)
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    bench("init", "--model", "gpt2-nano", "--global-batch-size", "8")
    text = (tmp_path / "gpt2-nano-gpu.yaml").read_text(encoding="utf-8")
    assert "  device: cuda\n" in text
    assert "  world_size: [1, 2]\n  " in text
    assert "  amp_mode: [fp32, tf32, bf16, fp16]\n" in text
    assert "8 combinations: 0 trials, 8 searches, 0 skipped" in bench("plan", "gpt2-nano-gpu.yaml")
