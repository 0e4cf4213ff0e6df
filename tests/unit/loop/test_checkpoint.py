"""Training that stops at an update boundary goes on as if it had not."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import nn

from bench.loop import (
    AccumulationLoop,
    GradientSync,
    NoObserver,
    Precision,
    SummedCrossEntropy,
    UpdateResult,
    make_schedule,
    restore_state,
    save_state,
    windows,
)
from tests.loops import CPU, Bomb
from tests.oracle import TinyLM, make_optimizer, random_batch

DATA = [random_batch(2, 3, seed) for seed in range(12)]


def build(amp_mode: Any, optimizer_name: str, bombs: tuple[int, ...] = ()) -> tuple[AccumulationLoop, nn.Module]:
    core = nn.Sequential(TinyLM(seed=1, dtype=torch.float32), nn.Dropout(0.2))
    optimizer = make_optimizer(optimizer_name, core)
    loop = AccumulationLoop(
        GradientSync(Bomb(core, *bombs)),
        optimizer,
        SummedCrossEntropy(),
        Precision(amp_mode, "cpu", **({"growth_interval": 2} if amp_mode == "fp16" else {})),
        CPU,
        clip_norm=1.0,
        schedule=make_schedule(optimizer, "linear", 2, 30),
    )
    return loop, core


def run(loop: AccumulationLoop, data: list[Any]) -> list[tuple[Any, ...]]:
    seen = []
    for window in windows(data, 2, SummedCrossEntropy().count, first_update=loop.next_update):
        result = loop.run_window(window)
        seen.append((result.plan.update, float(result.loss_sum), result.lr, result.loss_scale, result.result))
    return seen


@pytest.mark.parametrize(("amp_mode", "bombs"), [("fp32", ()), ("fp16", (3,))])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_resumed_run_continues_the_same_trajectory(amp_mode: Any, bombs: tuple[int, ...], optimizer: str) -> None:
    """Losses, rates and scales after the stop are bit-equal, dropout and a skipped update included."""
    torch.manual_seed(5)
    loop, _ = build(amp_mode, optimizer, bombs)
    whole = run(loop, DATA)
    torch.manual_seed(5)
    loop, core = build(amp_mode, optimizer, bombs)
    before = run(loop, DATA[:6])
    file = io.BytesIO()
    torch.save(save_state(loop, core), file)
    file.seek(0)
    torch.manual_seed(99)
    loop, core = build(amp_mode, optimizer)
    restore_state(loop, core, torch.load(file))
    assert loop.next_update == 3
    assert before + run(loop, DATA[6:]) == whole


class SaveInside(NoObserver):
    """Try to save between two micro-batches, and after the update."""

    def __init__(self) -> None:
        self.loop: AccumulationLoop | None = None
        self.saved_after = 0

    def micro_step_end(self) -> None:
        assert self.loop is not None
        with pytest.raises(RuntimeError, match="inside a window"):
            save_state(self.loop, self.loop.sync.model)

    def update_end(self, result: UpdateResult) -> None:
        assert self.loop is not None
        save_state(self.loop, self.loop.sync.model)
        self.saved_after += 1


def test_checkpoint_is_refused_inside_a_window() -> None:
    """Half a window's gradients are in no checkpoint; `update_end` is the place."""
    loop, _ = build("fp32", "sgd")
    loop.observer = saver = SaveInside()
    saver.loop = loop
    run(loop, DATA[:4])
    assert saver.saved_after == 2
