"""Public bug reports about gradient scaling and clipping, each as a case. fp16 on a CPU works like on a GPU."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench.loop import AccumulationLoop, GradientSync, Precision, SummedCrossEntropy, make_schedule, windows
from tests.loops import CPU, Bias, Bomb, tokens, train
from tests.oracle import Batch, TinyLM, make_optimizer, random_batch, relative_error

IMPLEMENTATIONS = ["for_loop", "foreach", "fused"]


def data(count: int) -> list[Batch]:
    return [random_batch(2, 4, seed) for seed in range(count)]


def test_gradients_are_unscaled_once_a_window() -> None:
    """fp16 with four micro-batches and clipping runs, and equals fp32 to what fp16 can hold.

    https://github.com/microsoft/Swin-Transformer/issues/311
    """
    steps = {}
    for mode in ("fp32", "fp16"):
        model = TinyLM(dtype=torch.float32)
        steps[mode] = train(
            model, data(8), 4, make_optimizer("sgd", model), precision=Precision(mode, "cpu"), clip_norm=1.0
        ).steps
    for half, full in zip(steps["fp16"], steps["fp32"], strict=True):
        assert relative_error(half.gradient, full.gradient) < 5e-3
        assert half.gradient != full.gradient


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("optimizer_name", ["sgd", "adamw"])
@pytest.mark.parametrize("bomb", [1, 3])
def test_attempted_is_applied_plus_skipped_and_the_schedule_follows_applied(
    optimizer_name: str, implementation: str, bomb: int
) -> None:
    """One overflow in four windows: three applied, one skipped; rate, step count and weights follow the applied ones.

    https://github.com/pytorch/pytorch/issues/67590 and https://github.com/Haian-Jin/LVSM/pull/19
    """
    core = TinyLM(dtype=torch.float32)
    model = Bomb(core, bomb)
    optimizer = make_optimizer(optimizer_name, core, implementation)
    rate = optimizer.param_groups[0]["lr"]
    trained = train(
        model,
        data(8),
        2,
        optimizer,
        precision=Precision("fp16", "cpu"),
        schedule=make_schedule(optimizer, "linear", 4, 100),
        clip_norm=1.0,
    )
    results = [result.result for result in trained.results]
    skipped = (bomb - 1) // 2
    assert results == ["applied"] * skipped + ["skipped"] + ["applied"] * (3 - skipped)
    assert [result.lr / rate for result in trained.results] == pytest.approx(
        [0.25 * (1 + results[:update].count("applied")) for update in range(4)]
    )
    before = trained.steps[skipped - 1].parameters if skipped else None
    if before is not None:
        assert trained.steps[skipped].parameters == before
    assert all(math.isfinite(value) for value in trained.steps[-1].parameters)
    if optimizer_name == "adamw":
        assert {float(state["step"]) for state in optimizer.state.values()} == {3.0}
    scales = [result.loss_scale for result in trained.results]
    assert scales == [65536.0] * (skipped + 1) + [32768.0] * (3 - skipped)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("optimizer_name", ["sgd", "adamw"])
def test_skipped_update_leaves_the_trajectory_of_the_applied_ones(optimizer_name: str, implementation: str) -> None:
    """Three windows with an overflow between them end where three windows without it end."""
    ends = []
    for bomb, batches in ((3, data(8)), (0, data(2) + data(8)[4:])):
        core = TinyLM(dtype=torch.float32)
        precision = Precision("fp16", "cpu", init_scale=256.0)
        optimizer = make_optimizer(optimizer_name, core, implementation)
        ends.append(train(Bomb(core, bomb), batches, 2, optimizer, precision=precision).steps[-1].parameters)
    assert relative_error(ends[0], ends[1]) < 2e-3


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_overflow_in_the_first_window_costs_no_rate_and_no_warning(implementation: str) -> None:
    """The first rate of the schedule is used by the first applied update (warnings are errors here).

    https://github.com/pytorch/pytorch/issues/44511
    """
    core = TinyLM(dtype=torch.float32)
    optimizer = make_optimizer("sgd", core, implementation)
    schedule = make_schedule(optimizer, "constant", 2, None)
    trained = train(Bomb(core, 1), data(2), 1, optimizer, precision=Precision("fp16", "cpu"), schedule=schedule)
    assert [(r.result, r.lr) for r in trained.results] == [("skipped", 0.05), ("applied", 0.05)]


def test_clipping_acts_on_unscaled_gradients() -> None:
    """The norm reported does not depend on the scale, and fp16 clips the windows that fp32 clips.

    https://github.com/Lightning-AI/pytorch-lightning/issues/9599
    """
    norms: dict[str, list[float]] = {}
    for name, precision in {
        "fp32": Precision("fp32", "cpu"),
        "2**4": Precision("fp16", "cpu", init_scale=2.0**4),
        "2**16": Precision("fp16", "cpu", init_scale=2.0**16),
    }.items():
        model = TinyLM(dtype=torch.float32)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        results = train(model, data(8), 2, optimizer, precision=precision, clip_norm=1.0).results
        norms[name] = [float(result.grad_norm) for result in results if result.grad_norm is not None]
    limit = sorted(norms["fp32"])[2] - 1e-3
    for name in ("2**4", "2**16"):
        assert norms[name] == pytest.approx(norms["fp32"], rel=5e-3)
        assert [norm > limit for norm in norms[name]] == [norm > limit for norm in norms["fp32"]]
    assert sum(norm > limit for norm in norms["fp32"]) == 2


def test_opposite_gradients_that_cancel_are_not_clipped() -> None:
    """Only the window's total is clipped: two large opposite halves leave a small sum.

    https://github.com/huggingface/transformers/issues/1563
    """
    model = Bias()
    trained = train(
        model, [tokens(zeros=100), tokens(ones=101)], 2, torch.optim.SGD(model.parameters(), lr=1.0), clip_norm=0.01
    )
    assert trained.results[0].grad_norm is not None
    assert float(trained.results[0].grad_norm) == pytest.approx(0.5 / 201)
    assert -model.b.item() == pytest.approx(0.5 / 201)


@pytest.mark.parametrize("streamed", [False, True])
def test_scale_that_grows_every_update_never_shows_in_a_step(streamed: bool) -> None:
    """Gradient 1 at rate 1 moves by 1 each time, though the scale doubles each time.

    https://github.com/deepspeedai/DeepSpeed/pull/8588
    """

    def loss_sum(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return model.b.sum() * batch[1].numel()

    model = Bias(torch.float32)
    precision = Precision("fp16", "cpu", init_scale=4.0, growth_interval=1)
    loop = AccumulationLoop(GradientSync(model), torch.optim.SGD(model.parameters(), lr=1.0), loss_sum, precision, CPU)
    options: dict[str, Any] = {"window_mode": "streamed", "nominal_units": 7.0} if streamed else {}
    seen, scales = [], []
    for window in windows([tokens(ones=3)] * 6, 2, SummedCrossEntropy().count, **options):
        scales.append(loop.run_window(window).loss_scale)
        seen.append(model.b.item())
    assert seen == pytest.approx([-1.0, -2.0, -3.0], rel=1e-6)
    assert scales == [4.0, 8.0, 16.0]


def test_scale_on_the_host_follows_the_scaler() -> None:
    """The recorded scale is torch's own, through growth and back-off, without reading it."""
    precision = Precision("fp16", "cpu", init_scale=64.0, growth_interval=3)
    core = TinyLM(dtype=torch.float32)
    model = Bomb(core, 4, 5, 11)
    loop = AccumulationLoop(GradientSync(model), make_optimizer("sgd", core), SummedCrossEntropy(), precision, CPU)
    for window in windows(data(16), 1, SummedCrossEntropy().count):
        loop.run_window(window)
        assert precision.scaler is not None
        assert precision.loss_scale == precision.scaler.get_scale()


@pytest.mark.parametrize("amp_mode", ["fp32", "fp16"])
def test_optimizer_without_any_gradient_fails_readably(amp_mode: Any) -> None:
    """Not 'No inf checks were recorded', and not a step that does nothing.

    https://github.com/nerfstudio-project/nerfstudio/pull/1919
    """
    model = TinyLM(dtype=torch.float32)
    unused = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)
    with pytest.raises(ValueError, match="update 0: no parameter of the optimizer received a gradient"):
        train(model, data(2), 2, unused, precision=Precision(amp_mode, "cpu"))


@pytest.mark.parametrize("amp_mode", ["fp32", "bf16", "fp16"])
def test_model_stored_in_half_is_refused_by_the_scaler_alone(amp_mode: Any) -> None:
    """fp16 with float16 weights says so and names the cure; the other modes run.

    https://github.com/pytorch/pytorch/issues/74739
    """
    model = TinyLM(dtype=torch.float16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if amp_mode == "fp16":
        with pytest.raises(ValueError, match=r"weights stored in float16.* Load the model in float32"):
            train(model, data(2), 2, optimizer, precision=Precision("fp16", "cpu"))
    else:
        trained = train(model, data(2), 2, optimizer, precision=Precision(amp_mode, "cpu"))
        assert trained.results[0].result == "applied"


def test_fp16_on_a_cpu_really_runs_in_fp16_or_fails() -> None:
    """Linear layers give float16 under the autocast; an operator without a float16 form raises, in its own words.

    https://github.com/pytorch/pytorch/issues/111559
    """
    precision = Precision("fp16", "cpu")
    assert precision.scaler is not None
    assert precision.scaler.is_enabled()
    with precision.autocast():
        assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype == torch.float16
    lstm = nn.Sequential(nn.Embedding(11, 4), nn.LSTM(4, 4))

    def loss_sum(model: nn.Module, batch: Batch) -> Tensor:
        return model(batch[0])[0].float().sum()

    loop = AccumulationLoop(GradientSync(lstm), torch.optim.SGD(lstm.parameters(), lr=0.1), loss_sum, precision, CPU)
    (window,) = windows(data(1), 1, SummedCrossEntropy().count)
    with pytest.raises(RuntimeError):
        loop.run_window(window)


def test_cast_weights_are_not_kept_from_one_update_to_the_next() -> None:
    """Case 56: each forward casts the weights as they are: one autocast block a forward, none around the step.

    https://github.com/pytorch/pytorch/issues/48049
    """
    model = TinyLM(dtype=torch.float32)
    trained = train(
        model,
        [random_batch(4, 6, 0)] * 4,
        2,
        torch.optim.SGD(model.parameters(), lr=2.0),
        precision=Precision("bf16", "cpu"),
    )
    first, second = (step.loss for step in trained.steps)
    assert first is not None
    assert second is not None
    assert second < first - 0.1
