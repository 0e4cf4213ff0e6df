"""Public bug reports about loss denominators, each as a case. One rank; several are in test_ddp."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.loop import (
    AccumulationLoop,
    GradientSync,
    Precision,
    SummedCrossEntropy,
    WindowCounts,
    batch_coupled_layers,
    count_valid,
    windows,
)
from bench.sweep.fields import TrialConfig
from bench.sweep.rules import contradictions
from tests.loops import CPU, Bias, Bomb, bias_gradients, tokens, train
from tests.oracle import IGNORED, TinyLM, assert_equal_steps, concatenated, cut, make_optimizer, random_batch


def test_short_and_long_row_weigh_by_their_tokens() -> None:
    """10 tokens of one kind and 100 of the other give 0.409, not the 0 of a mean of means.

    https://github.com/huggingface/transformers/issues/24725
    """
    assert bias_gradients([tokens(zeros=10), tokens(ones=100)], 2) == pytest.approx([0.5 * 90 / 110], abs=1e-15)


@pytest.mark.parametrize("rows", [1, 8, 32])
def test_reported_loss_is_the_same_for_every_split(rows: int) -> None:
    """32 x 1, 8 x 4 and 1 x 32 report one loss.

    https://github.com/huggingface/transformers/issues/35204
    """
    inputs, targets = random_batch(32, 6, 3, 0.4)
    pieces = list(zip(inputs.split(rows), targets.split(rows), strict=True))
    model = TinyLM(dtype=torch.float32)
    trained = train(model, pieces, len(pieces), torch.optim.SGD(model.parameters(), lr=0.0))
    (right,) = concatenated(TinyLM(), [[(inputs, targets)]], "sgd")
    assert trained.steps[0].loss == pytest.approx(right.loss, rel=1e-6)


class MeanLoss(nn.Module):
    """A model that computes its own mean loss and swallows any count it is given."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, targets: Tensor, **kwargs: Any) -> Tensor:
        return functional.cross_entropy(self.model(inputs).flatten(0, 1), targets.flatten())


class Wrapper(nn.Module):
    """A wrapper such as adapters use: passes everything on."""

    def __init__(self, base_model: nn.Module) -> None:
        super().__init__()
        self.base_model = base_model

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.base_model(*args, **kwargs)


@pytest.mark.parametrize("wrap", [lambda model: model, Wrapper], ids=["bare", "wrapped"])
def test_model_that_ignores_loss_arguments_is_not_trusted_to_normalise(wrap: Any) -> None:
    """A mean times its own valid count is a sum, whatever the model's signature promises.

    https://github.com/huggingface/transformers/issues/37766
    """
    data = [random_batch(1, length, length, 0.2) for length in (3, 9, 5, 14)]
    core = TinyLM()
    model = wrap(MeanLoss(core))

    def loss_sum(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs, targets = batch
        return model(inputs, targets, num_items_in_batch=1) * count_valid(targets)

    loop = AccumulationLoop(GradientSync(model), make_optimizer("sgd", core), loss_sum, Precision("fp32", "cpu"), CPU)
    for window in windows(data, 4, SummedCrossEntropy().count):
        loop.run_window(window)
    (right,) = concatenated(TinyLM(), [data], "sgd")
    after = torch.cat([parameter.detach().flatten() for parameter in core.parameters()])
    assert torch.allclose(after, torch.tensor(right.parameters, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("window", "weights", "right"),
    [
        ([tokens(9, 1), tokens(1, 9)], [1.0, 4.0], 0.3),
        ([tokens(9, 1, 5), tokens(1, 9, 70)], [1.0, 4.0], 0.3),
        ([tokens(9, 1), tokens(1, 9)], [0.0, 2.0], 0.5),
    ],
    ids=["weighted", "with ignored labels", "a class of weight 0"],
)
def test_class_weights_divide_by_the_weights_of_the_whole_window(
    window: list[Any], weights: list[float], right: float
) -> None:
    """Neither the mean of means (0.14) nor the plain count (0.75) is right.

    https://github.com/pytorch/pytorch/issues/72047
    """
    assert bias_gradients(window, 2, weights) == pytest.approx([right], abs=1e-15)


def test_micro_batch_without_supervised_token_adds_nothing() -> None:
    """8 ignored tokens beside 4 valid ones leave the gradient at 0.5; the mean of means halves it.

    https://github.com/NVIDIA-NeMo/Automodel/issues/3796
    """
    assert bias_gradients([tokens(ignored=8), tokens(ones=4)], 2) == [0.5]


@pytest.mark.parametrize(
    "options", [{}, {"window_mode": "streamed", "nominal_units": 9.0}], ids=["buffered", "streamed"]
)
@pytest.mark.parametrize("amp_mode", ["fp32", "fp16"])
def test_window_without_supervised_token_changes_nothing_and_is_empty(amp_mode: Any, options: dict[str, Any]) -> None:
    """No step, no decay, no momentum, no scaler complaint; it has no loss and is neither applied nor skipped.

    https://github.com/NVIDIA-NeMo/Automodel/issues/3796 and https://github.com/nerfstudio-project/nerfstudio/pull/1919
    """
    data = [random_batch(2, 3, 0), random_batch(2, 3, 1, 1.0), random_batch(2, 3, 2)]
    model = TinyLM(dtype=torch.float32)
    trained = train(
        model, data, 1, make_optimizer("adamw", model), window_options=options, precision=Precision(amp_mode, "cpu")
    )
    assert [result.result for result in trained.results] == ["applied", "empty", "applied"]
    assert trained.steps[1].loss is None
    assert trained.steps[1].parameters == trained.steps[0].parameters
    assert trained.steps[2].parameters != trained.steps[1].parameters


@pytest.mark.parametrize(("amp_mode", "result"), [("fp16", "skipped"), ("fp32", "applied")])
def test_micro_batch_that_is_not_finite_never_leaves_half_an_update(amp_mode: Any, result: str) -> None:
    """fp16 skips the whole update and says so; elsewhere the loss of the update is not finite, so nobody trusts it.

    https://github.com/PrimeIntellect-ai/prime-rl/pull/1961
    """
    data = [random_batch(1, 4, seed) for seed in range(4)]
    core = TinyLM(dtype=torch.float32)
    model = Bomb(core, 2)
    before = [parameter.clone() for parameter in core.parameters()]
    trained = train(model, data, 4, make_optimizer("sgd", core), precision=Precision(amp_mode, "cpu"))
    assert [r.result for r in trained.results] == [result]
    assert trained.results[0].plan.all_ranks.valid_tokens == 16
    unchanged = all(torch.equal(was, parameter) for was, parameter in zip(before, core.parameters(), strict=True))
    assert unchanged == (result == "skipped")
    assert all(bool(torch.isfinite(p).all()) for p in core.parameters()) == (result == "skipped")


def test_counts_are_exact_for_a_16_bit_model() -> None:
    """257 valid tokens three times are 771; added up in bfloat16 they would stick at 256.

    https://github.com/NVIDIA/Megatron-LM/pull/7081
    """
    model = Bias(torch.bfloat16)
    trained = train(model, [tokens(ones=257)] * 3, 3, torch.optim.SGD(model.parameters(), lr=0.0))
    counts = trained.results[0].plan.all_ranks
    assert (counts.valid_tokens, counts.units, counts.micro_batches) == (771, 771.0, 3)
    assert isinstance(counts.valid_tokens, int)


def test_weights_in_bf16_accumulate_in_bf16_and_autocast_does_not() -> None:
    """Stored bf16 and autocast bf16 are two things: the type of the gradients tells them apart.

    https://github.com/deepspeedai/DeepSpeed/issues/2768
    """
    for stored, amp_mode in ((torch.bfloat16, "fp32"), (torch.float32, "bf16")):
        model = TinyLM(dtype=stored)
        train(
            model,
            [random_batch(2, 3, s) for s in range(4)],
            4,
            make_optimizer("sgd", model),
            precision=Precision(amp_mode, "cpu"),
        )
        assert {parameter.grad.dtype for parameter in model.parameters() if parameter.grad is not None} == {stored}


@pytest.mark.parametrize(("total", "micro", "world"), [(4, 8, 1), (10, 4, 1), (130, 32, 8)])
def test_global_batch_that_does_not_divide_is_refused_with_its_numbers(total: int, micro: int, world: int) -> None:
    """Never zero accumulation steps, never another batch in silence.

    https://github.com/verl-project/verl/issues/405 and https://github.com/tloen/alpaca-lora/pull/266
    """
    config = TrialConfig(global_batch_size=total, micro_batch_size=micro, world_size=world)
    (problem,) = contradictions(config)
    assert f"{total} is not a multiple of micro_batch_size x world_size = {micro} x {world}" in problem.sentence()


def test_batch_norm_is_named_and_its_single_example_fails_readably() -> None:
    """Statistics per micro-batch are no bug of the loop: the layer is named; one example cannot be normalised.

    https://github.com/pytorch/pytorch/issues/46516
    """
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    assert batch_coupled_layers(model) == [
        "1 (BatchNorm1d) normalises by the statistics of each micro-batch, not of the window"
    ]
    data = [(torch.randn(n, 3), torch.zeros(n, dtype=torch.int64)) for n in (4, 4, 1)]
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        train(model, data, 3, torch.optim.SGD(model.parameters(), lr=0.1))


def test_units_may_be_examples() -> None:
    """A regression divides by its examples, in any cut; the loss is whatever sums."""
    torch.manual_seed(0)
    x, y = torch.randn(7, 3, dtype=torch.float64), torch.randn(7, 1, dtype=torch.float64)
    model, reference = nn.Linear(3, 1).double(), nn.Linear(3, 1).double()
    reference.load_state_dict(model.state_dict())

    def loss_sum(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return functional.mse_loss(model(batch[0]), batch[1], reduction="sum")

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loop = AccumulationLoop(GradientSync(model), optimizer, loss_sum, Precision("fp32", "cpu"), CPU)
    pieces = list(zip(x.split(3), y.split(3), strict=True))
    for window in windows(pieces, 3, lambda b: WindowCounts(1, len(b[0]), len(b[0]), len(b[0]), float(len(b[0])))):
        loop.run_window(window)
    functional.mse_loss(reference(x), y).backward()
    assert model.weight.grad is not None
    assert reference.weight.grad is not None
    assert torch.allclose(model.weight.grad, reference.weight.grad, rtol=0, atol=1e-14)


def test_unequal_rows_with_ignored_labels_equal_one_batch() -> None:
    """The whole kind at once, on the tiny language model.

    https://github.com/huggingface/transformers/pull/34191
    """
    data = [random_batch(1, length, length, 0.5) for length in (15, 3, 9, 1, 12, 2)]
    model = TinyLM()
    trained = train(model, data, 4, make_optimizer("adamw", model))
    assert_equal_steps(trained.steps, concatenated(TinyLM(), cut(data, 4), "adamw"))
    assert sum(int((targets != IGNORED).sum()) for _, targets in data) == sum(
        result.plan.all_ranks.valid_tokens for result in trained.results
    )
