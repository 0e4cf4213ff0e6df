"""Public bug reports about partial windows and schedules, each as a case."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch

from bench.loop import SummedCrossEntropy, make_schedule, windows
from tests.loops import bias_gradients, tokens, train
from tests.oracle import TinyLM, assert_equal_steps, concatenated, make_optimizer, random_batch

STREAMED = {"window_mode": "streamed", "nominal_units": 20.0}


def test_last_window_is_divided_by_what_it_holds() -> None:
    """6 micro-batches at 4 an update: the second update's gradient is 0.5, not 0.25.

    https://github.com/Lightning-AI/pytorch-lightning/issues/19987
    """
    assert bias_gradients([tokens(ones=5)] * 6, 4) == [0.5, 0.5]


@pytest.mark.parametrize(("tail", "updates", "valid_tokens"), [("keep", 3, 50), ("drop", 2, 40)])
def test_tail_is_an_update_or_dropped_on_request(tail: Any, updates: int, valid_tokens: int) -> None:
    """10 micro-batches at 4 an update are 3 updates of every token, or 2 of eight micro-batches' tokens.

    https://github.com/timoschick/pet/issues/36
    """
    model = TinyLM()
    trained = train(
        model,
        [random_batch(1, 5, seed) for seed in range(10)],
        4,
        make_optimizer("sgd", model),
        window_options={"tail": tail},
    )
    assert len(trained.results) == updates
    assert sum(result.plan.all_ranks.valid_tokens for result in trained.results) == valid_tokens
    assert [result.plan.is_partial for result in trained.results] == [False, False, True][:updates]


def test_dropped_tail_that_is_everything_is_a_clear_error() -> None:
    """Not a run of no updates."""
    with pytest.raises(ValueError, match="tail: drop leaves no update: 3 micro-batches never fill a window of 4"):
        next(windows([tokens(ones=1)] * 3, 4, SummedCrossEntropy().count, tail="drop"))


@pytest.mark.parametrize("options", [{}, STREAMED], ids=["buffered", "streamed"])
@pytest.mark.parametrize(("micro_batches", "steps", "updates"), [(10, 1, 10), (8, 4, 2), (1, 1, 1), (10, 4, 3)])
def test_updates_are_the_ceiling_of_n_over_a(
    micro_batches: int, steps: int, updates: int, options: dict[str, Any]
) -> None:
    """Never an empty extra window.

    https://github.com/huggingface/transformers/pull/35960
    """
    model = TinyLM()
    data = [random_batch(1, 5, seed) for seed in range(micro_batches)]
    trained = train(model, data, steps, make_optimizer("sgd", model), window_options=options)
    assert [result.result for result in trained.results] == ["applied"] * updates
    assert [result.plan.update for result in trained.results] == list(range(updates))


@pytest.mark.parametrize("options", [{}, STREAMED], ids=["buffered", "streamed"])
def test_empty_data_set_is_a_clear_error(options: dict[str, Any]) -> None:
    """Not a division by zero, not a silent success.

    https://github.com/huggingface/transformers/pull/35960
    """
    with pytest.raises(ValueError, match="no rank has any micro-batch"):
        next(windows([], 4, SummedCrossEntropy().count, **options))


def lr_trace(accumulation_steps: int) -> list[float]:
    model = TinyLM()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    data = [random_batch(1, 2, seed) for seed in range(4 * accumulation_steps)]
    trained = train(model, data, accumulation_steps, optimizer, schedule=make_schedule(optimizer, "linear", 8, 20))
    return [result.lr for result in trained.results]


def test_schedule_follows_updates_and_not_micro_batches() -> None:
    """A warm-up over 8 updates is half done after 4, with 1 or 4 accumulation steps alike.

    https://github.com/Lightning-AI/pytorch-lightning/issues/1476
    """
    assert lr_trace(4) == lr_trace(1) == [0.125, 0.25, 0.375, 0.5]


def test_end_of_a_loader_batch_does_not_end_a_window() -> None:
    """3 loader batches of 12 cut into 5, 5, 2 are 3 updates of 12 examples at 3 steps, not more.

    https://github.com/huggingface/accelerate/issues/1847
    """
    model = TinyLM()
    data = [random_batch(rows, 2, i * 3 + j) for i in range(3) for j, rows in enumerate((5, 5, 2))]
    trained = train(model, data, 3, make_optimizer("sgd", model))
    assert [result.plan.all_ranks.sequences for result in trained.results] == [12, 12, 12]


def test_limits_say_their_unit() -> None:
    """5 updates at 3 steps take 15 micro-batches; 5 micro-batches are 2 updates, the second stated partial.

    https://github.com/Lightning-AI/pytorch-lightning/issues/2242
    """
    data = [random_batch(1, 2, seed) for seed in range(100)]
    count = SummedCrossEntropy().count
    first = [window.plan for window in islice(windows(data, 3, count), 5)]
    assert sum(plan.all_ranks.micro_batches for plan in first) == 15
    limited = [window.plan for window in windows(islice(data, 5), 3, count)]
    assert [(plan.all_ranks.micro_batches, plan.is_partial) for plan in limited] == [(3, False), (2, True)]


def test_nineteen_examples_are_updates_of_twelve_and_seven() -> None:
    """19 examples, micro-batch 4, 3 accumulation steps: nothing is lost and nothing is counted twice."""
    inputs, targets = random_batch(19, 1, 5)
    data = list(zip(inputs.split(4), targets.split(4), strict=True))
    model = TinyLM()
    trained = train(model, data, 3, make_optimizer("sgd", model))
    assert [result.plan.all_ranks.units for result in trained.results] == [12.0, 7.0]
    right = concatenated(TinyLM(), [[(inputs[:12], targets[:12])], [(inputs[12:], targets[12:])]], "sgd")
    assert_equal_steps(trained.steps, right)


def test_gradients_of_one_window_never_leak_into_the_next() -> None:
    """With a rate of 0 the same micro-batches give the same gradient twice."""
    model = TinyLM()
    data = [random_batch(2, 3, seed) for seed in range(2)] * 2
    trained = train(model, data, 2, torch.optim.SGD(model.parameters(), lr=0.0))
    assert trained.steps[0].gradient == trained.steps[1].gradient
