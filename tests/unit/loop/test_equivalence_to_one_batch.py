"""An accumulated window makes the update of one concatenated batch, however it is cut. float64, one rank."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.loop import SummedCrossEntropy
from tests.loops import train
from tests.oracle import (
    Batch,
    TinyLM,
    assert_equal_steps,
    concatenated,
    cut,
    make_optimizer,
    random_batch,
)

WEIGHTS = [0.5, 4.0, 0.0, 1.0, 2.0, 1.0, 1.0, 0.25, 3.0, 1.0, 1.0]
STREAMED = {"window_mode": "streamed", "nominal_units": 100.0}

# (rows, length, share of ignored targets) of each micro-batch, and the accumulation steps
CUTS: dict[str, tuple[list[tuple[int, int, float]], int]] = {
    "full windows": ([(2, 5, 0.0)] * 8, 4),
    "partial last window": ([(2, 5, 0.0)] * 10, 4),
    "unequal micro-batches": ([(1, 15, 0.1), (2, 3, 0.0), (3, 9, 0.6), (1, 1, 0.0), (4, 12, 0.3), (1, 2, 0.0)], 3),
    "one accumulation step": ([(3, 4, 0.2)] * 3, 1),
    "data set smaller than a micro-batch": ([(1, 2, 0.0)], 4),
    "an empty micro-batch": ([(2, 4, 0.0), (2, 4, 1.0), (1, 3, 0.0)], 3),
    "an empty window": ([(2, 4, 0.0)] * 2 + [(2, 4, 1.0)] * 2 + [(2, 4, 0.0)] * 2, 2),
}


def batches(shapes: list[tuple[int, int, float]]) -> list[Batch]:
    return [random_batch(rows, length, seed, ignored) for seed, (rows, length, ignored) in enumerate(shapes)]


@pytest.mark.parametrize("clip_norm", [None, 0.3])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "class weights"])
@pytest.mark.parametrize("window_options", [{}, STREAMED], ids=["buffered", "streamed"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("name", CUTS)
def test_every_update_equals_the_concatenated_batch(
    name: str, optimizer: str, window_options: dict[str, Any], weights: list[float] | None, clip_norm: float | None
) -> None:
    """Gradient, parameters and loss agree to 1e-10 over all parameters, at every update."""
    shapes, accumulation_steps = CUTS[name]
    data = batches(shapes)
    model = TinyLM()
    loss = SummedCrossEntropy(None if weights is None else torch.tensor(weights))
    trained = train(
        model,
        data,
        accumulation_steps,
        make_optimizer(optimizer, model),
        loss=loss,
        window_options=window_options,
        clip_norm=clip_norm,
    )
    assert_equal_steps(
        trained.steps, concatenated(TinyLM(), cut(data, accumulation_steps), optimizer, weights, clip_norm)
    )


@settings(max_examples=40)
@given(
    shapes=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 6), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=9
    ),
    accumulation_steps=st.integers(1, 5),
    optimizer=st.sampled_from(["sgd", "adamw"]),
    streamed=st.booleans(),
    weighted=st.booleans(),
)
def test_random_cuts_equal_the_concatenated_batch(
    shapes: list[tuple[int, int, float]], accumulation_steps: int, optimizer: str, streamed: bool, weighted: bool
) -> None:
    """No cut of any data changes an update."""
    data = batches(shapes)
    model, weights = TinyLM(), WEIGHTS if weighted else None
    trained = train(
        model,
        data,
        accumulation_steps,
        make_optimizer(optimizer, model),
        loss=SummedCrossEntropy(torch.tensor(WEIGHTS) if weighted else None),
        window_options=STREAMED if streamed else {},
        clip_norm=0.5,
    )
    assert_equal_steps(trained.steps, concatenated(TinyLM(), cut(data, accumulation_steps), optimizer, weights, 0.5))


@settings(max_examples=25)
@given(rows=st.lists(st.integers(1, 6), min_size=1, max_size=10), data=st.data())
def test_cutting_the_same_rows_otherwise_gives_the_same_update(rows: list[int], data: st.DataObject) -> None:
    """One window of one batch, cut at random places, updates alike."""
    whole = random_batch(sum(rows), 3, 7, 0.3)
    starts = [sum(rows[:i]) for i in range(len(rows))]
    pieces = [(whole[0][s : s + n], whole[1][s : s + n]) for s, n in zip(starts, rows, strict=True)]
    model, reference = TinyLM(), TinyLM()
    got = train(model, pieces, len(pieces), make_optimizer("adamw", model))
    right = train(reference, [whole], 1, make_optimizer("adamw", reference))
    assert_equal_steps(got.steps, right.steps)
