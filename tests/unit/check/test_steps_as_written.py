"""Steps as people write them, each with its right verdict, and a first line that is true."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench.check.exchange.lines import Line, overall
from tests.checked import checklist_of_step, subject

STEPS = Path(__file__).parents[2] / "data" / "steps"


def step_of(name: str) -> Callable[..., Any]:
    """Load file.function of tests/data/steps."""
    file, function = name.split(".")
    spec = importlib.util.spec_from_file_location(file, STEPS / f"{file}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    step: Callable[..., Any] = getattr(module, function)
    return step


def first(lines: dict[str, Line], verdict: str) -> str:
    """Give the first line of a verdict, with its name."""
    return next(f"{line.name}: {line.words}" for line in lines.values() if line.verdict == verdict)


IN_PLACE = "the step changes its inputs in place and trains on what it made of them"
BESIDE = "update: parameters change beside optimizer.step, by "
SAME = "the same however the data are cut"

VERDICTS = {
    "in_place.trains_on_token_zero": ("FAIL", "weighting:", IN_PLACE),
    "in_place.masks_every_second_target": ("FAIL", "weighting:", IN_PLACE),
    "in_place.shifts_labels": ("FAIL", "weighting:", IN_PLACE),
    "in_place.empties_buffers_after_use": ("PASS", "runs:", "the step changes its inputs in place"),
    "beside.puts_average_in": ("NOT PROVEN", f"{BESIDE}0.99 of the update's own change", SAME),
    "beside.takes_average_out_again": ("PASS", "runs:", ""),
    "beside.loads_copy_back": ("NOT PROVEN", f"{BESIDE}1 of the update's own change", SAME),
    "beside.decays_each_window": ("NOT PROVEN", BESIDE, SAME),
    "beside.decays_each_micro_batch": ("FAIL", BESIDE, "they depend on how the same data are cut"),
    "beside.scales_rate_by_micro_batches": (
        "FAIL",
        "schedule: the rate depends on how the same data are cut",
        "update 0 used 0.1 with 1 micro-batch per window, and 0.3 with 3 micro-batches per window",
    ),
    "beside.raises_rate_each_call": (
        "FAIL",
        "schedule: the rate depends on how the same data are cut",
        "with a call for each window",
    ),
    "beside.lowers_rate_each_update": ("PASS", "runs:", ""),
    "beside.steps_by_hand": ("NOT PROVEN", "examples: optimizer.step was never called", "taken apart"),
    "beside.steps_by_hand_on_means": ("FAIL", "update: optimizer.step was never called", "how the same data are cut"),
    "beside.turns_decay_off": ("FAIL", "update: relative error", "the step changes weight_decay of the optimizer"),
    "beside.casts_model": ("PASS", "runs:", ""),
    "made_of.shifts_labels_twice": ("FAIL", "weighting:", "labels are shifted twice, by one place"),
    "made_of.trains_on_padding": ("FAIL", "weighting:", "ignored targets are trained on, as class 0"),
    "made_of.smooths_labels": ("FAIL", "weighting:", "labels are smoothed"),
    "made_of.adds_penalty": ("FAIL", "weighting:", "a penalty on the weights is in it, 0.02 times the parameters"),
    "made_of.leaks_last_window": ("FAIL", "examples: 2 of 7 sequences are in no update", ""),
    "made_of.clears_gradients_once": ("FAIL", "examples: 5 of 7 sequences are in more than one update", ""),
    "made_of.counts_at_least_one": ("FAIL", "weighting:", "sequences weigh 0.86 to 0.86 times"),
    "made_of.weighs_means_of_nothing": ("FAIL", "weighting: no relative error, in masked sequences", "not a number"),
    "made_of.divides_by_micro_batches": ("FAIL", "weighting:", "sequences weigh 0.56 to 5.00 times"),
    "made_of.clips_twice": ("FAIL", "clipping: relative error", ""),
    "right.adds_up_in_float32": (
        "NOT PROVEN",
        "weighting: relative error",
        "right to that, as far as a float32 cast lets see",
    ),
    "right.is_compiled_with_cast": ("PASS", "runs:", ""),
    "right.has_closure": ("PASS", "runs:", ""),
    "right.divides_by_nothing": ("PASS", "runs:", "a window without any target divides 0 by 0"),
    "right.casts_logits": ("PASS", "runs:", ""),
    "right.has_autocast_and_scaler": ("PASS", "runs:", ""),
    "right.checkpoints": ("PASS", "runs:", ""),
    "right.is_compiled": ("PASS", "runs:", ""),
    "right.clips_by_itself": ("PASS", "runs:", "the step clips to norm 0.2 by itself, and the check took it over"),
    "right.divides_by_nothing_in_python": (
        "PASS",
        "runs:",
        "a window without any target raises ZeroDivisionError: division by zero (",
    ),
    "broken.yields": ("FAIL", "runs: the step never ran: it yields", ""),
    "broken.waits": ("FAIL", "runs: the step never ran: it is async", ""),
    "broken.waits_and_yields": ("FAIL", "runs: the step never ran: it is async and yields", ""),
    "broken.asks_for_no_sync": (
        "FAIL",
        "runs: AttributeError: 'Net' object has no attribute 'no_sync'; no_sync exists on a DistributedDataParallel",
        "broken.py, line 28: with model.no_sync():)",
    ),
    "broken.counts_wrongly": ("FAIL", "runs: ", "broken.py, line 35: functional.cross_entropy("),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VERDICTS)
def test_step_gets_its_verdict_and_a_true_first_line(name: str) -> None:
    """The words point at the cause; where a step is right, what is its own is said."""
    verdict, begin, words = VERDICTS[name]
    lines = checklist_of_step(step_of(name))
    assert overall(lines.values()) == verdict, lines
    found = first(lines, verdict)
    assert found.startswith(begin), found
    assert words in found


def test_rate_of_its_own_is_named() -> None:
    """Taken over by the reference, so that the update is proved with it."""
    line = checklist_of_step(step_of("beside.lowers_rate_each_update"))["schedule"]
    assert line.verdict == "NOT APPLICABLE"
    assert "the step sets the rate itself, and the check took it over: 0.09, 0.081" in line.words
    assert SAME in line.words


def test_cast_is_named_with_what_it_costs() -> None:
    """The error of the step without it, and with it."""
    line = checklist_of_step(step_of("right.casts_logits"))["weighting"]
    assert line.figure is not None
    assert line.figure < 1e-13
    assert "with the step's float32 cast left out, and" in line.words


def test_masked_micro_batches_weigh_nothing() -> None:
    """4 targets of class 1 and three masked micro-batches: 0.5, where each count of at least one gives 0.2857."""

    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b = nn.Parameter(torch.zeros(2))

        def forward(self, inputs: Tensor) -> Tensor:
            return self.b.expand(*inputs.shape, 2)

    window = [(torch.zeros((1, 4), dtype=torch.int64), torch.full((1, 4), value)) for value in (1, -100, -100, -100)]
    gradients = []
    for name in ("right.casts_logits", "made_of.counts_at_least_one"):
        model = Biased()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        step_of(name)(model, optimizer, [(inputs, targets.clone()) for inputs, targets in window])
        assert model.b.grad is not None
        gradients.append(float(model.b.grad[0]))
    assert gradients == pytest.approx([0.5, 2 / 7])
    lines = checklist_of_step(step_of("made_of.counts_at_least_one"))
    assert "masked sequences and micro-batches" in lines["weighting"].words


class Adapted(nn.Module):
    """A trainable layer in a reentrant checkpoint, behind what is frozen."""

    def __init__(self, is_reentrant: bool) -> None:
        super().__init__()
        self.adapter = nn.Linear(6, 6)
        self.is_reentrant = is_reentrant

    def forward(self, x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(self.adapter, x, use_reentrant=self.is_reentrant)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("is_head_frozen", [False, True])
def test_adapter_that_a_reentrant_checkpoint_starves_is_named_with_the_cure(is_head_frozen: bool) -> None:
    """Whether the loss still reaches something else or nothing at all; without reentrance it passes."""
    for is_reentrant in (True, False):
        on = subject(Adapted(is_reentrant))
        on.model.embedding.requires_grad_(False)  # type: ignore[union-attr]
        if is_head_frozen:
            on.model.head.requires_grad_(False)  # type: ignore[union-attr]
        lines = checklist_of_step(step_of("beside.takes_average_out_again"), on)
        assert overall(lines.values()) == ("FAIL" if is_reentrant else "PASS")
        if is_reentrant:
            assert "use_reentrant=False" in first(lines, "FAIL")
