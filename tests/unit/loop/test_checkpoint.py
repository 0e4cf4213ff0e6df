"""Training that stops at an update boundary goes on as if it had not."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import nn

from bench.loop import (
    AccumulationLoop,
    CheckpointHook,
    GradientSync,
    NoObserver,
    Observers,
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


def parameters_of(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def stop_and_resume(
    amp_mode: Any, optimizer: str, bombs: tuple[int, ...], later_bombs: tuple[int, ...], stop_after: int
) -> tuple[list[torch.Tensor], list[torch.Tensor], list[str]]:
    """Train six updates at once, and again with a stop; return both ends' parameters and the results at once."""
    torch.manual_seed(5)
    loop, core = build(amp_mode, optimizer, bombs)
    results = [seen[-1] for seen in run(loop, DATA)]
    whole = parameters_of(core)

    torch.manual_seed(5)
    loop, core = build(amp_mode, optimizer, bombs)
    file = io.BytesIO()
    hook = CheckpointHook(lambda done: torch.save(save_state(loop, core), file), every_updates=stop_after)
    loop.observer = hook
    run(loop, DATA[: 2 * stop_after])
    file.seek(0)
    torch.manual_seed(99)
    loop, core = build(amp_mode, optimizer, later_bombs)
    restore_state(loop, core, torch.load(file))
    run(loop, DATA[loop.micro_batches_done :])
    return whole, parameters_of(core), results


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize(
    ("amp_mode", "bombs", "later_bombs", "skipped"),
    [("fp32", (), (), 0), ("fp16", (3,), (), 1), ("fp16", (9,), (5,), 1), ("fp16", (3, 8), (4,), 2)],
    ids=["fp32", "skip before", "skip after", "skips before and after"],
)
def test_resumed_run_ends_at_bit_equal_parameters(
    amp_mode: Any, bombs: tuple[int, ...], later_bombs: tuple[int, ...], skipped: int, optimizer: str
) -> None:
    """A checkpoint after update 2 of 6, the rest in a new loop: not one bit differs, skipped updates included."""
    whole, resumed, results = stop_and_resume(amp_mode, optimizer, bombs, later_bombs, stop_after=2)
    assert results.count("skipped") == skipped
    assert all(torch.equal(one, other) for one, other in zip(whole, resumed, strict=True))


PARTS = ("model", "optimizer", "schedule", "precision", "random_cpu", "micro_batches_done")


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_state_is_needed(part: str) -> None:
    """What is left at its initial value changes the end: so the test above would see a part that is not restored."""
    torch.manual_seed(5)
    loop, core = build("fp16", "adamw", (3,))
    initial = save_state(loop, core)
    initial = torch.load(_file(initial))
    run(loop, DATA[:6])
    state = torch.load(_file(save_state(loop, core)))
    run(loop, DATA[6:])
    whole = parameters_of(core)
    for changed in (state, state | {part: initial[part]}):
        loop, core = build("fp16", "adamw")
        restore_state(loop, core, changed)
        run(loop, DATA[loop.micro_batches_done :])
        same = all(torch.equal(one, other) for one, other in zip(whole, parameters_of(core), strict=True))
        assert same == (changed is state)


def _file(state: dict[str, Any]) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


class AskInside(NoObserver):
    """Ask for a checkpoint between two micro-batches of a chosen window."""

    def __init__(self, hook: CheckpointHook, update: int) -> None:
        self.hook, self.update, self.is_there = hook, update, False

    def window_begin(self, plan: Any) -> None:
        self.is_there = plan.update == self.update

    def micro_step_end(self) -> None:
        if self.is_there:
            self.hook.ask()
            self.is_there = False


def test_checkpoint_asked_for_inside_a_window_waits_for_its_end() -> None:
    """It comes once, after the update under way, and holds that update."""
    loop, core = build("fp32", "sgd")
    saved: list[tuple[int, int, int]] = []

    def save(done: int) -> None:
        state = save_state(loop, core)
        saved.append((done, state["next_update"], state["micro_batches_done"]))

    hook = CheckpointHook(save)
    loop.observer = Observers(AskInside(hook, update=1), hook)
    run(loop, DATA)
    assert saved == [(2, 2, 4)]


def test_checkpoint_every_few_updates_counts_skipped_ones() -> None:
    """Boundaries are those of windows, whatever the scaler did."""
    loop, _ = build("fp16", "sgd", (1,))
    saved: list[int] = []
    loop.observer = CheckpointHook(saved.append, every_updates=2)
    run(loop, DATA)
    assert saved == [2, 4, 6]
    with pytest.raises(ValueError, match="every_updates = 0"):
        CheckpointHook(saved.append, every_updates=0)


@pytest.mark.parametrize("unit", ["epoch", "validation"])
def test_schedule_by_epoch_or_validation_is_resumed(unit: Any) -> None:
    """Updates leave the rate alone; a stop between two epochs loses neither the rate nor the plateau's patience."""

    def build_with(unit: Any) -> tuple[AccumulationLoop, nn.Module]:
        loop, core = build("fp32", "sgd")
        loop.optimizer.param_groups[0]["lr"] = 0.1
        loop.schedule = (
            torch.optim.lr_scheduler.StepLR(loop.optimizer, step_size=1, gamma=0.5)
            if unit == "epoch"
            else torch.optim.lr_scheduler.ReduceLROnPlateau(loop.optimizer, factor=0.5, patience=1)
        )
        loop.schedule_unit = unit
        return loop, core

    def epoch(loop: AccumulationLoop) -> list[float]:
        rates = [seen[2] for seen in run(loop, DATA)]
        loop.epoch_end()
        loop.validation_end(1.0)  # never better than the first
        return rates

    torch.manual_seed(5)
    loop, core = build_with(unit)
    epochs = [epoch(loop) for _ in range(4)]
    assert all(len(set(rates)) == 1 for rates in epochs), "no update moved it"
    assert epochs[0][0] > epochs[3][0]
    whole = parameters_of(core)
    torch.manual_seed(5)
    loop, core = build_with(unit)
    before = [epoch(loop) for _ in range(2)]
    state = torch.load(_file(save_state(loop, core)), weights_only=False)
    loop, core = build_with(unit)
    restore_state(loop, core, state)
    assert before + [epoch(loop) for _ in range(2)] == epochs
    assert all(torch.equal(one, other) for one, other in zip(whole, parameters_of(core), strict=True))
