"""Memory of whole launches on the stand-in GPU: what decides is measured when nobody watches, and is then divided."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.record.columns.memory import PARTS_OF_THE_PEAK
from bench.standin import environment
from tests.cuda.on_standin import GIB, MIB, run
from tests.cuda.test_product import BENCH

pytestmark = pytest.mark.cuda

CONTEXT_BYTES = 450 * MIB
"""What a process takes of the stand-in beside its allocations."""


def _sweep(folder: Path, base: dict[str, Any], axes: dict[str, Any], faults: str = "", **standin: Any) -> pd.DataFrame:
    """Run a sweep of four short updates; give its rows."""
    fixed = {"data": {"corpus": "stdlib", "rows": "packed"}, "seed": 1, "accumulation_steps": 2}
    measure = {"warmup_updates": 1, "updates": 2, "rounds": 1, "quality_updates": 0}
    document = {"format": 1, "name": "memory", "base": {**fixed, **base}, "axes": axes, "measure": measure}
    (folder / "sweep.yaml").write_text("# Question: what does it take?\n" + json.dumps(document), encoding="utf-8")
    (folder / "faults").write_text(faults, encoding="utf-8")
    told = environment(ledger=folder / "ledger", **standin) | {"BENCH_FAULTS": str(folder / "faults")}
    command = [*BENCH, "sweep", "sweep.yaml", "--device", "cuda", "--out", "results", "--no-plot"]
    done = subprocess.run(command, cwd=folder, env=os.environ | told, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr[-3000:]
    return pd.read_parquet(folder / "results" / "results.parquet")


def _updates(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "results" / "updates.parquet")


@pytest.mark.parametrize(
    ("preset", "seq_len", "amp_modes"),
    [("gpt2-124m", 1024, ["bf16"]), ("llama-mini", 256, ["fp32", "tf32", "bf16", "fp16"])],
)
def test_parts_add_up_whatever_the_allocator_left_unsplit(
    tmp_path: Path, preset: str, seq_len: int, amp_modes: list[str]
) -> None:
    """Allocated bytes depend on what came before, by up to 1 MiB a block; requested ones do not."""
    base = {"model": {"preset": preset}, "seq_len": seq_len, "micro_batch_size": 4}
    rows = _sweep(tmp_path, base, {"amp_mode": amp_modes})
    assert list(rows.outcome) == ["ok"] * len(amp_modes)
    assert [list(flags) for flags in rows["flags"]] == [[]] * len(amp_modes)
    assert list(rows[[*PARTS_OF_THE_PEAK]].sum(axis=1, skipna=False)) == list(rows.peak_requested_bytes)
    assert rows[[*PARTS_OF_THE_PEAK]].min(axis=None) >= 0
    workspaces, scale = 2 * 8519680, 4  # one of cuBLAS for each thread; the gradient scaler's scale
    assert rows.unwitnessed_bytes.between(workspaces, workspaces + scale).all()
    assert list(rows.peak_requested_bytes + rows.allocator_rounding_bytes) == list(rows.peak_allocated_bytes)
    assert (rows.allocator_rounding_bytes > 0).any()
    assert rows.fits.all()


def test_witness_moves_no_peak_of_the_row(tmp_path: Path) -> None:
    """It takes more itself here; reserved bytes, by which a launch fits, are those of before."""
    base = {"model": {"preset": "gpt2-mini"}, "seq_len": 512, "amp_mode": "bf16"}
    (row,) = _sweep(tmp_path, base, {"micro_batch_size": [2]}).to_dict("records")
    updates = _updates(tmp_path)
    assert list(updates.phase) == ["first", *["memory"] * 3, "warmup", "timed", "timed", "witness"]
    memory = updates[updates.phase == "memory"].peak_allocated_bytes
    assert row["peak_allocated_bytes"] == memory.max()
    assert row["witnessed_updates"] == 1
    assert row["launch_updates"] == 7


def _rows_with_faults(folder: Path, faults: str, **standin: Any) -> dict[str, Any]:
    base = {"model": {"preset": "gpt2-nano"}, "seq_len": 32, "micro_batch_size": 2}
    (row,) = _sweep(folder, base, {"world_size": [standin.get("count", 1)]}, faults, **standin).to_dict("records")
    return row


@pytest.mark.parametrize("action", ["oom", "kill"])
def test_whatever_happens_to_the_witness_changes_no_outcome(tmp_path: Path, action: str) -> None:
    """Seven updates of two micro-steps come before: the fifteenth forward is the witness's first."""
    row = _rows_with_faults(tmp_path, f"forward:15:{action}")
    assert (row["outcome"], pd.isna(row["reason"]), list(row["flags"])) == ("ok", True, ["not_witnessed"])
    assert row["peak_requested_bytes"] > 0
    assert row["fits"]
    told = ("activation_bytes", "temporary_bytes", "host_reads_per_update", "witnessed_updates")
    assert pd.isna(pd.Series(row)[[*told]]).all()
    assert len(_updates(tmp_path)) == 7
    plain = tmp_path / "plain"
    plain.mkdir()
    whole = _rows_with_faults(plain, "")
    same = (
        "peak_requested_bytes",
        "peak_allocated_bytes",
        "peak_reserved_bytes",
        "fits",
        "alloc_retries",
        "peak_phase",
    )
    assert {name: row[name] for name in same} == {name: whole[name] for name in same}


def test_rank_that_fails_under_its_witness_holds_nobody_up(tmp_path: Path) -> None:
    """The other rank waits in an exchange that never comes; the launch is ok all the same."""
    row = _rows_with_faults(tmp_path, "forward@1:15:oom", count=2)
    assert (row["outcome"], list(row["flags"])) == ("ok", ["ddp_warmup", "not_witnessed"])
    assert pd.isna(row["gradient_sync_buckets"])
    assert len(row["peak_reserved_bytes_per_rank"]) == 2


def test_two_ranks_divide_their_peak_too(tmp_path: Path) -> None:
    """One more update is witnessed, in which the exchange shows where DistributedDataParallel gathers gradients."""
    row = _rows_with_faults(tmp_path, "", count=2)
    assert (row["outcome"], list(row["flags"]), row["witnessed_updates"]) == ("ok", ["ddp_warmup"], 2)
    assert sum(row[part] for part in PARTS_OF_THE_PEAK) == row["peak_requested_bytes"]
    assert row["ddp_bucket_bytes"] == row["gradient_bytes"]
    assert row["gradient_sync_rounds_per_update"] == 1


def test_what_a_process_holds_outside_torch_is_its_context(tmp_path: Path) -> None:
    """Neither the parameters' checksum nor the witness may be in the time in which it is read."""
    base = {"model": {"preset": "gpt2-124m"}, "seq_len": 256}
    (row,) = _sweep(tmp_path, base, {"micro_batch_size": [1]}).to_dict("records")
    # Told by samples, five a second: null where none fell into that time, and then bounded by what the rank asked.
    assert row["outside_torch_bytes"] in (CONTEXT_BYTES, None) or pd.isna(row["outside_torch_bytes"])
    assert row["outside_torch_at_most_bytes"] == CONTEXT_BYTES


def _checksum_growth() -> dict[str, int]:
    import torch

    from bench.loop import parameters_checksum

    model = torch.nn.Module()
    for number, (rows, dtype) in enumerate([(8192, torch.float32), (8191, torch.float32), (8191, torch.bfloat16)]):
        model.register_parameter(str(number), torch.nn.Parameter(torch.empty(rows, 1023, dtype=dtype, device="cuda")))
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    parameters_checksum(model)
    return {"held": held, "grown": torch.cuda.max_memory_allocated() - held}


def test_checksum_of_parameters_makes_no_copy_of_them() -> None:
    """A sum into int64 of 32-bit numbers copies them in 64 bits first: 64 MiB here, 2 GB for a large embedding."""
    told = run(_checksum_growth, memory_bytes=4 * GIB)
    assert told["held"] > 79 * MIB
    assert told["grown"] < 1.1 * MIB
