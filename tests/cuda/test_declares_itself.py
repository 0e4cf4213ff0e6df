"""Whatever is shown of a launch on the stand-in GPU says so, and claims no speed, loss or energy."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bench.record.bytes_only import SPEED_AND_SENSORS, VALUES
from bench.standin import environment
from tests.cuda.test_product import BENCH, SWEEP

pytestmark = pytest.mark.cuda

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("declares")


@pytest.fixture(scope="module")
def bench(folder: Path) -> Command:
    """Run `bench` in the folder on two stand-in GPUs, after one sweep there."""
    told = environment(count=2, ledger=folder / "ledger")

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*BENCH, *arguments], cwd=folder, env=os.environ | told, capture_output=True, text=True, check=False
        )

    sweep = SWEEP.format(axes="{world_size: [1, 2], amp_mode: [fp16]}").replace(
        "  seed: 1", "  seed: 1\n  micro_batch_size: 4"
    )
    (folder / "sweep.yaml").write_text(sweep, encoding="utf-8")
    done = command("sweep", "sweep.yaml", "--device", "cuda", "--out", "results", "--no-plot")
    assert done.returncode == 0, done.stderr
    assert "stand-in GPU" in done.stderr.splitlines()[0]
    assert "which shows no speed" in done.stdout
    return command


def test_rows_hold_bytes_and_counts_alone(bench: Command, folder: Path) -> None:
    rows = pd.read_parquet(folder / "results/results.parquet")
    assert list(rows.outcome) == ["ok", "ok"]
    assert set(rows.memory_method) == {"standin"}
    assert rows[sorted(SPEED_AND_SENSORS | VALUES)].isna().all(axis=None)
    # Not outside_torch_bytes: a timed part this short need not hold a sample.
    known = ["peak_requested_bytes", "peak_reserved_bytes", "outside_torch_at_most_bytes", "valid_tokens"]
    assert rows[known].min().min() > 0
    assert rows.gradient_sync_buckets.dropna().min() >= 1
    assert set().union(*rows["flags"]) <= {"ddp_warmup"}, "of the length that was asked for, not of a time"
    updates = pd.read_parquet(folder / "results/updates.parquet")
    assert updates[["seconds", "train_loss", "grad_norm"]].isna().all(axis=None)
    assert updates.valid_tokens.min() > 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["show", "results"], 0, "Stand-in NVIDIA A100-SXM4-80GB"),
        (["show", "results"], 0, "stand-in GPU: bytes, counts and errors alone"),
        (["compare", "results"], 2, "measured on a stand-in GPU"),
        (["recommend", "results"], 2, "measured on a stand-in GPU"),
        (["plan", "sweep.yaml", "--device", "cuda"], 0, "stand-in GPU: rows hold bytes"),
        (["env"], 0, "Stand-in NVIDIA A100-SXM4-80GB"),
        (["env", "--calibrate", "--device", "cuda"], 5, "the GPU here is a stand-in"),
    ],
)
def test_every_screen_says_so(bench: Command, arguments: list[str], code: int, says: str) -> None:
    done = bench(*arguments)
    assert done.returncode == code, done.stderr
    assert says in " ".join((done.stdout + done.stderr).split())


def test_page_and_pictures_say_so(bench: Command, folder: Path) -> None:
    assert bench("report", "results").returncode == 0
    assert "Stand-in NVIDIA A100-SXM4-80GB" in (folder / "results/report.html").read_text(encoding="utf-8")
    done = bench("plot", "results", "--kind", "memory-breakdown")
    assert done.returncode == 0, done.stderr
    picture = (folder / "results/plots/memory_breakdown.svg").read_text(encoding="utf-8")
    assert "Stand-in" in picture


def test_one_trial_from_flags_says_so_too(bench: Command) -> None:
    done = bench(
        "run",
        "--model",
        "gpt2-nano",
        "--device",
        "cuda",
        "--micro-batch-size",
        "2",
        "--accumulation-steps",
        "2",
        "--updates",
        "2",
        "--warmup-updates",
        "2",
    )
    assert done.returncode == 0, done.stderr
    assert "stand-in GPU: rows hold bytes" in done.stderr
