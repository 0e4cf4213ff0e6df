"""Goal M5 as far as a CPU shows it: what watching costs, counted in calls and not in seconds."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import bench as package
from bench.launch.heartbeat import Heartbeat
from bench.launch.trial_file import TrialFile
from bench.loop import NoObserver, Observers
from bench.measure.cpu import CpuDevice
from bench.measure.device import Device
from bench.rank.ranks import Ranks
from bench.rank.workbench import Workbench, build_workbench
from bench.sweep.fields import MeasureSpec, TrialConfig
from tests.fakes import FakeDevice
from tests.planted_launch import row_of

UPDATES, ACCUMULATION_STEPS = 5, 4
OURS = Path(package.__file__).parent
MODEL = ("gpt2.py", "blocks.py", "losses.py")
CALLS_AT_MOST = 24
"""Calls of our functions for one micro-batch, model and loss aside; each takes a microsecond or so."""


@pytest.fixture(autouse=True)
def one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch.set_num_threads(1)


def build(device: Device, folder: Path, amp_mode: str = "fp32", steps: int = ACCUMULATION_STEPS) -> Workbench:
    """Build a nano trial as a rank does, signs of life included."""
    config = TrialConfig.model_validate(
        {
            "device": "cpu",
            "model": {"preset": "gpt2-nano"},
            "data": {"synthetic": {"documents": 300, "mean_tokens": 12}, "rows": "padded"},
            "seq_len": 16,
            "amp_mode": amp_mode,
            "micro_batch_size": 2,
            "accumulation_steps": steps,
            "global_batch_size": 2 * steps,
            "optimizer": {"name": "sgd", "lr": 0.01},  # AdamW reads step counts of its own, which stay on the host
        }
    )
    measure = MeasureSpec.model_validate({"warmup_updates": 1, "updates": UPDATES, "quality_updates": 0})
    trial = TrialFile("s", "0" * 12, 0, 0, 0, config, measure, 1, ())
    return build_workbench(trial, Ranks(0, 1, None), device, [Heartbeat(folder / "heartbeat")])


class Scripted(FakeDevice):
    """Write down every call; the work itself runs on the CPU."""

    kind = "cpu"


class Reads(TorchDispatchMode):
    """Count values read from tensors into Python."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def run_timed_part(bench: Workbench) -> int:
    """Run updates as the timed part does; how many values the host read in all of it."""
    bench.profiler.begin("timed", UPDATES)
    with Reads() as reads:
        for _ in range(UPDATES):
            bench.loop.run_window(bench.feed.next_window())
    bench.profiler.end()
    return reads.count


def counted(device: FakeDevice, call: str) -> int:
    """Count the calls of one kind that the device saw."""
    return sum(name.split()[0] == call for name in device.calls)


class Careless(NoObserver):
    """Wait for the device after every micro-step, as a timer that is sure of itself does."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def micro_step_end(self) -> None:
        """Wait."""
        self._device.synchronise()


@pytest.mark.parametrize(("amp_mode", "reads_per_update"), [("fp32", 0), ("bf16", 0), ("fp16", 1)])
def test_the_device_is_marked_once_an_update_and_waited_for_at_the_edges(
    amp_mode: str, reads_per_update: int, tmp_path: Path
) -> None:
    """N + 1 marks for N updates of any number of micro-batches; no value is read but the scaler's (case 58)."""
    device = Scripted()
    reads = run_timed_part(build(device, tmp_path, amp_mode))
    assert counted(device, "mark") == UPDATES + 1
    assert counted(device, "wait") == UPDATES - 1
    first, last = (device.calls.index(f"mark {number}") for number in (0, UPDATES))
    assert {call.split()[0] for call in device.calls[first : last + 1]} == {"mark", "wait"}
    assert counted(device, "synchronise") == 2
    assert reads == reads_per_update * UPDATES


def test_a_wait_in_every_micro_step_is_counted(tmp_path: Path) -> None:
    """The count above sees what it is meant to see (case 57)."""
    device = Scripted()
    bench = build(device, tmp_path)
    bench.loop.observer = Observers(bench.loop.observer, Careless(device))
    run_timed_part(bench)
    assert counted(device, "synchronise") == 2 + UPDATES * ACCUMULATION_STEPS


@pytest.fixture
def stray(monkeypatch: pytest.MonkeyPatch) -> Callable[[Workbench], None]:
    """Plant a read of the activations' largest value into every forward of a model."""

    def plant(bench: Workbench) -> None:
        forward = bench.model.forward

        def watchful(inputs: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = forward(inputs)
            assert logits.max().item() < 1e6
            return logits

        monkeypatch.setattr(bench.model, "forward", watchful)

    return plant


def test_a_stray_read_in_the_forward_shows_in_the_row(stray: Callable[[Workbench], None], tmp_path: Path) -> None:
    """One `.item()` a micro-batch is as many reads an update as it has micro-batches (case 58)."""
    clean, _, _ = row_of(build(CpuDevice(), tmp_path))
    assert (clean["outcome"], clean["host_reads_per_update"]) == ("ok", 0)
    bench = build(CpuDevice(), tmp_path)
    stray(bench)
    assert row_of(bench)[0]["host_reads_per_update"] == ACCUMULATION_STEPS


def calls_of_ours(bench: Workbench) -> Counter[str]:
    """Count calls of our functions in a timed part by file, the model and its loss aside."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(OURS) and file.name not in MODEL:
            found[file.name] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run_timed_part(bench)
    finally:
        sys.setprofile(before)
    return found


def test_calls_of_ours_for_a_micro_batch_are_few(tmp_path: Path) -> None:
    """Of twice as many micro-batches twice as many; on a nano model a hundred calls would be a tenth of the time."""
    few, many = (calls_of_ours(build(CpuDevice(), tmp_path, steps=steps)) for steps in (4, 8))
    per_micro_batch = {name: (many[name] - few[name]) / UPDATES / 4 for name in many}
    assert 0 < sum(per_micro_batch.values()) <= CALLS_AT_MOST, per_micro_batch
