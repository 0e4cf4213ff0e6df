"""Reports of others about memory that was measured wrongly, each as a test of ours."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from bench.cli import main
from bench.launch.trial_file import TrialFile
from bench.measure.cpu import CpuDevice
from bench.measure.device import Witnessed
from bench.measure.witness import DispatchWitness
from bench.rank import worker
from bench.rank.columns import facts_before
from bench.record.paths import LaunchPaths
from bench.record.reduce import reduce_ranks
from bench.units import format_bytes
from tests.patience import PATIENCE_S
from tests.planted import config, launches, store
from tests.small_launch import build, columns_of

torch.set_num_threads(1)

MEBI = 1 << 20


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def test_error_that_is_kept_keeps_no_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 42: what is kept of an exception is text; its frames, and the model in them, are gone.

    https://github.com/pytorch/pytorch/issues/27600
    """
    (tmp_path / "faults").write_text("forward:2:raise")
    monkeypatch.setenv("BENCH_FAULTS", str(tmp_path / "faults"))
    bench = build(cpu_threads_per_rank=1)
    trial: TrialFile = bench.trial
    trial.write(LaunchPaths(tmp_path).trial_file)
    models: list[weakref.ref[nn.Module]] = []

    def watched(*arguments: Any) -> Any:
        built = bench_of(*arguments)
        models.append(weakref.ref(built.model))
        return built

    bench_of = worker.build_workbench
    monkeypatch.setattr(worker, "build_workbench", watched)
    assert worker.run_rank(LaunchPaths(tmp_path), 0) == "failed"
    gc.collect()
    assert [model() for model in models] == [None]
    assert "a fault on purpose" in json.loads(LaunchPaths(tmp_path).rank_file(0).read_text())["traceback"]


@pytest.mark.parametrize("variable", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_allocator_settings_are_in_the_row(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 46: what is set is among the environment; what is in force, as torch tells, is a column; `compare` warns.

    https://github.com/pytorch/pytorch/issues/123548
    """
    monkeypatch.setenv(variable, "max_split_size_mb:64")
    facts = facts_before(build())
    assert json.loads(facts["environment_json"])[variable] == "max_split_size_mb:64"
    assert facts["allocator_settings"] == "default", "a CPU has no such allocator"


def test_launch_whose_peak_was_reset_to_nothing_is_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 47: a peak below what is resident is no peak, and nothing of such a launch is trusted.

    https://github.com/flagos-ai/Torch-FL/pull/364
    """

    @contextlib.contextmanager
    def forgetful(*_: Any) -> Iterator[Any]:
        witness = SimpleNamespace(phase_begin=lambda phase: None, result=lambda: Witnessed(690, 0))
        yield witness

    monkeypatch.setattr(CpuDevice, "witness", forgetful)
    monkeypatch.setenv("BENCH_FAULTS", "")
    build(cpu_threads_per_rank=1).trial.write(LaunchPaths(tmp_path).trial_file)
    assert worker.run_rank(LaunchPaths(tmp_path), 0) == "invalid"
    assert "the peak of 690 B is less than" in json.loads(LaunchPaths(tmp_path).rank_file(0).read_text())["reason"]


class Hungry(nn.Module):
    """Take 300 MiB in each forward and give them back at once."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        scratch = torch.empty(300 * MEBI, dtype=torch.uint8)
        del scratch
        output: torch.Tensor = self.model(inputs)
        return output


def test_what_is_taken_and_given_back_within_a_forward_is_in_the_peak() -> None:
    """Case 48: the peak is the highest moment inside the update, not what is left after it.

    https://github.com/php-testo/testo/pull/300
    """
    plain, hungry = build(), build()
    hungry.loop.sync.model = Hungry(hungry.model)
    before, after = columns_of(plain), columns_of(hungry)
    assert 300 * MEBI <= after["peak_allocated_bytes"] < 300 * MEBI + before["peak_allocated_bytes"]
    assert (after["peak_phase"], after["temporary_bytes"] >= 300 * MEBI) == ("forward", True)
    assert after["optimizer_state_bytes"] == before["optimizer_state_bytes"]


def test_high_water_mark_of_the_host_sees_what_no_sampler_could() -> None:
    """Case 49: 300 MiB that live within one call that holds the interpreter; the kernel notes them all the same.

    https://github.com/Algorithmiq/monoprop/pull/205
    """
    program = (
        "from bench.measure.host import host_peak_rss_bytes as peak\n"
        "before = peak()\n"
        f"len(b'x' * {300 * MEBI})\n"
        "print(peak() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert 295 * MEBI <= int(done.stdout) <= 310 * MEBI


def test_bytes_are_stored_whole_and_shown_in_powers_of_1024(tmp_path: Path) -> None:
    """Case 52: 256 MiB are 268435456 bytes in the column, MiB on every screen, and nowhere MB or GB.

    https://github.com/meta-pytorch/torchtune/issues/1346
    """
    with DispatchWitness() as witness:
        kept = torch.empty(256 * MEBI, dtype=torch.uint8)
    peak = witness.result().live_peak_bytes
    del kept
    assert peak == 268_435_456
    assert format_bytes(peak) == "256 MiB"
    rows = launches([config(1000, peak_allocated_bytes=peak), config(990, micro_batch_size=4)], rounds=3)
    folder = store(tmp_path / "results", rows)
    shown = {
        command: CliRunner().invoke(main, [command, str(folder)], env={"COLUMNS": "200"}).stdout
        for command in ("show", "compare", "recommend")
    }
    for command, text in shown.items():
        assert "MiB" in text, command
        assert not re.search(r"\b[KMGT]B\b", text), command
    as_json = CliRunner().invoke(main, ["show", str(folder), "--format", "json"]).stdout
    assert json.loads(as_json)["rows"][0]["peak_allocated_bytes"] == peak


def test_largest_of_samples_that_rise_and_fall_is_kept() -> None:
    """Case 52: the maximum runs over bytes alone, so that the last sample does not win by its unit.

    https://github.com/microsoft/onnxruntime-genai/issues/887
    """
    with DispatchWitness() as witness:
        for mebibytes in (3, 9, 5):
            torch.empty(mebibytes * MEBI, dtype=torch.uint8)
    assert witness.result().live_peak_bytes == 9 * MEBI


def test_rank_that_needs_more_than_rank_0_is_the_headline() -> None:
    """Case 53: the largest of the ranks, with every rank's value beside it.

    https://github.com/allenai/allennlp/issues/4318
    """
    ranks = [
        {"rank": rank, "columns": {"peak_allocated_bytes": peak, "host_peak_rss_bytes": peak}}
        for rank, peak in ((0, 100), (1, 100 + 300 * MEBI))
    ]
    row, _ = reduce_ranks(ranks)
    assert row["peak_allocated_bytes"] == row["host_peak_rss_bytes"] == 100 + 300 * MEBI
    assert row["peak_allocated_bytes_per_rank"] == row["host_peak_rss_bytes_per_rank"] == [100, 100 + 300 * MEBI]


@pytest.mark.slow
def test_casts_of_weights_do_not_pile_up_with_accumulation_steps() -> None:
    """Case 56: one autocast block a forward drops its casts; three and twelve micro-batches peak alike.

    https://github.com/ecmwf/anemoi-core/issues/134
    """
    few, many = (columns_of(build(2, steps, amp_mode="bf16", window_mode="streamed")) for steps in (3, 12))
    assert few["peak_allocated_bytes"] == many["peak_allocated_bytes"]
