"""The same sequences, cut differently: a right step ends at the same parameters."""

from __future__ import annotations

from typing import Any

import torch

from bench.check.cut import compare_cuts
from bench.check.float32 import InDouble
from bench.check.step import make_step
from bench.check.watch import TOLERANCE
from tests.checked import example, subject


def test_right_step_does_not_depend_on_the_cut() -> None:
    """To within rounding, in both the parameters and the rates."""
    found = compare_cuts(make_step(example("right_step")), subject())
    assert found.parameters < TOLERANCE
    assert found.rates == ""


def test_what_depends_on_the_cut_is_measured_between_the_two_cuts_named() -> None:
    """One micro-batch is its own mean of means; three are not."""
    found = compare_cuts(make_step(example("wrong_mean_of_means")), subject())
    assert found.parameters > 0.01
    assert found.where == "1 micro-batch per window and 2 unequal micro-batches per window"


def test_what_depends_on_the_calls_is_found_in_a_step_that_takes_all_windows() -> None:
    """Something made once per call: half the weights, say."""

    def step(model: Any, optimizer: Any, micro_batches: Any, accumulation_steps: int, **_: Any) -> None:
        example("right_step")(model, optimizer, micro_batches, accumulation_steps, float("inf"), Unstepped())
        with torch.no_grad():
            model.head.bias.add_(1.0)

    class Unstepped:
        def step(self) -> None:
            """Do nothing."""

    found = compare_cuts(make_step(step), subject())
    assert found.where.endswith("a call for each window")


def test_cast_is_left_out_and_counted_under_the_mode() -> None:
    """Forward and backward are float64 then; outside of it nothing changes."""
    x = torch.full((3,), 1 / 3, dtype=torch.float64, requires_grad=True)
    with InDouble() as mode:
        y = x.float()
    assert (y.dtype, mode.casts) == (torch.float64, 1)
    y.sum().backward()
    assert x.grad is not None
    assert x.float().dtype is torch.float32
