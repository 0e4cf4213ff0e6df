"""Each classic mistake fails on its own line, with its own figure, and on no other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.checked import checklist_of_step, example

# torch warns of the mistake in wrong_schedule_per_micro_batch by itself, where it comes before the first update.
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")

PROVABLE = ("runs", "examples", "weighting", "update", "clipping", "schedule", "parameters", "layers")


def test_right_step_passes_every_line_it_can() -> None:
    """The errors are rounding; what a step does not do is not applicable, never passed."""
    lines = checklist_of_step(example("right_step"))
    assert {name: lines[name].verdict for name in PROVABLE} == dict.fromkeys(PROVABLE, "PASS")
    assert lines["weighting"].figure is not None
    assert lines["weighting"].figure < 1e-13
    assert {lines[name].verdict for name in ("counters", "gradient_sync", "validation")} == {"NOT APPLICABLE"}


MISTAKES = {
    "wrong_mean_of_means": "weighting",
    "wrong_dropped_window": "examples",
    "wrong_clip_per_micro_batch": "clipping",
    "wrong_schedule_per_micro_batch": "schedule",
}


@pytest.mark.parametrize(("name", "line"), MISTAKES.items())
def test_wrong_example_fails_on_its_own_line_only(name: str, line: str) -> None:
    """The other lines are not FAIL: a reader finds the one mistake."""
    lines = checklist_of_step(example(name))
    assert [each for each, found in lines.items() if found.verdict == "FAIL"] == [line]


def test_mean_of_means_fails_with_the_size_of_its_error() -> None:
    """The figure is the relative error; the words say how wrongly sequences weigh. The one that is short: 5 times."""
    line = checklist_of_step(example("wrong_mean_of_means"))["weighting"]
    assert line.figure is not None
    assert line.figure > 0.1
    # The partial window holds micro-batches of 1 and 9 targets, 10 in all: they weigh 10/2 and 10/18.
    assert "weigh 0.56 to 5.00 times" in line.words
    update = checklist_of_step(example("wrong_mean_of_means"))["update"]
    assert update.verdict == "NOT PROVEN", "what follows from a wrong gradient is no second mistake, and no pass"


def test_dropped_window_is_named_with_the_number_of_sequences() -> None:
    """Two sequences of the first case are never seen."""
    lines = checklist_of_step(example("wrong_dropped_window"))
    assert "2 of 7 sequences are in no update" in lines["examples"].words
    assert "2 of 4 updates made" in lines["examples"].words


def test_schedule_that_runs_too_fast_is_named_with_both_rates() -> None:
    """Stepped three times in the first window, before its own update: 3/8 of the rate instead of 1/8."""
    line = checklist_of_step(example("wrong_schedule_per_micro_batch"))["schedule"]
    assert line.figure == pytest.approx(3.0)
    assert "update 0 used learning rate 0.00375 instead of 0.00125 (3x)" in line.words


def backward_of(model: Any, window: Any) -> None:
    units = sum(int((targets != -100).sum()) for _, targets in window)
    for inputs, targets in window:
        logits = model(inputs).flatten(0, 1)
        (functional.cross_entropy(logits, targets.flatten(), reduction="sum") / units).backward()


def test_gradients_that_leak_into_the_next_window_are_found() -> None:
    """Without zero_grad every sequence is in all later updates too."""

    def step(model: Any, optimizer: Any, micro_batches: Any) -> None:
        backward_of(model, micro_batches)
        optimizer.step()

    lines = checklist_of_step(step)
    assert lines["examples"].verdict == "FAIL"
    assert "more than one update" in lines["examples"].words
    assert lines["weighting"].verdict == "FAIL"


def test_update_per_micro_batch_is_found() -> None:
    """Five updates instead of two."""

    def step(model: Any, optimizer: Any, micro_batches: Any) -> None:
        for micro_batch in micro_batches:
            optimizer.zero_grad()
            backward_of(model, [micro_batch])
            optimizer.step()

    assert checklist_of_step(step)["examples"].verdict == "FAIL"


def test_micro_batch_fed_twice_is_found() -> None:
    """It weighs twice; no sequence is missing, so it is the weighting that fails."""

    def step(model: Any, optimizer: Any, micro_batches: Any) -> None:
        optimizer.zero_grad()
        backward_of(model, micro_batches)
        backward_of(model, micro_batches[:1])
        optimizer.step()

    line = checklist_of_step(step)["weighting"]
    assert line.verdict == "FAIL"


def test_optimizer_stepped_twice_on_one_gradient_is_found() -> None:
    """The second step is no planned update."""

    def step(model: Any, optimizer: Any, micro_batches: Any) -> None:
        optimizer.zero_grad()
        backward_of(model, micro_batches)
        optimizer.step()
        optimizer.step()

    assert checklist_of_step(step)["examples"].verdict == "FAIL"


def test_parameters_changed_beside_the_update_are_found() -> None:
    """The gradient is right and the step is not: an optimizer's post hook that shrinks the weights, for instance."""

    def step(model: Any, optimizer: Any, micro_batches: Any) -> None:
        def shrink(*_: Any) -> None:
            with torch.no_grad():
                model.head.weight.mul_(0.999)

        optimizer.zero_grad()
        backward_of(model, micro_batches)
        handle = optimizer.register_step_pre_hook(shrink)
        optimizer.step()
        handle.remove()

    lines = checklist_of_step(step)
    assert lines["weighting"].verdict == "PASS"
    assert lines["update"].verdict == "FAIL"


def test_schedule_that_is_never_stepped_fails() -> None:
    """Update 1 still uses the rate of update 0."""

    def step(model: Any, optimizer: Any, micro_batches: Any, schedule: Any) -> None:
        optimizer.zero_grad()
        backward_of(model, micro_batches)
        optimizer.step()

    line = checklist_of_step(step)["schedule"]
    assert line.verdict == "FAIL"
    assert "update 1" in line.words


def test_schedule_stepped_twice_after_the_last_update_fails() -> None:
    """The second pass begins a step too far; after the last one the schedule's own count shows it."""

    def step(model: Any, optimizer: Any, micro_batches: Any, accumulation_steps: int, schedule: Any) -> None:
        for start in range(0, len(micro_batches), accumulation_steps):
            optimizer.zero_grad()
            backward_of(model, micro_batches[start : start + accumulation_steps])
            optimizer.step()
            schedule.step()
        schedule.step()

    line = checklist_of_step(step)["schedule"]
    assert line.figure == pytest.approx(4 / 3)
    assert "update 2 used learning rate" in line.words


def test_step_that_does_nothing_proves_nothing() -> None:
    """No update: every sequence is left out, and no line passes by default."""

    def step(model: Any, optimizer: Any, micro_batches: Any) -> None:
        return

    lines = checklist_of_step(step)
    assert lines["examples"].verdict == "FAIL"
    assert {lines[name].verdict for name in ("weighting", "update", "parameters")} == {"NOT PROVEN"}
