"""Which line says what: layers, parameters, class weights, time, the loop's own counters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from bench.check import native_lines, trial_run
from bench.check.exchange.lines import overall
from bench.check.exchange.request import ProofRequest
from bench.check.native import NativeStep
from bench.check.prove import prove
from bench.check.subject import Subject
from tests.checked import (
    VOCAB,
    FunctionalDropout,
    OverTokens,
    Softmaxed,
    WithUntrained,
    checklist_of_loop,
    checklist_of_step,
    example,
    subject,
)
from tests.patience import PATIENCE_S

PROVABLE = ("runs", "examples", "weighting", "update", "precision", "counters", "clipping", "schedule", "parameters")


@pytest.mark.parametrize("window_mode", ["buffered", "streamed"])
@pytest.mark.parametrize("amp_mode", ["fp32", "bf16", "fp16"])
def test_loop_of_bench_passes(amp_mode: str, window_mode: str) -> None:
    """In every mode: rounding in float64, and no worse than one batch in the mode itself."""
    lines = checklist_of_loop(amp_mode=amp_mode, window_mode=window_mode)
    assert {name: lines[name].verdict for name in PROVABLE} == dict.fromkeys(PROVABLE, "PASS")
    assert overall(lines.values()) == "PASS"


@pytest.mark.parametrize("implementation", ["for_loop", "foreach", "fused"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_every_implementation_of_an_optimizer_is_proved(optimizer: str, implementation: str) -> None:
    """The reference steps by the plain loop."""
    lines = checklist_of_loop(optimizer=optimizer, optimizer_implementation=implementation)
    assert lines["update"].verdict == "PASS"


def test_analytically_zero_gradient_is_named_apart_from_an_untrained_parameter() -> None:
    """It passes: the parameter is in the graph, and what its gradient holds is rounding."""
    line = checklist_of_step(example("right_step"), subject(Softmaxed()))["parameters"]
    assert line.verdict == "PASS"
    assert "mathematically zero" in line.words
    assert "between.shift" in line.words


def test_untrained_parameter_fails_by_name() -> None:
    """No loss depends on it, in any window."""
    line = checklist_of_step(example("right_step"), subject(WithUntrained()))["parameters"]
    assert (line.verdict, line.figure) == ("FAIL", 2.0)
    assert "between.forgotten.weight, between.forgotten.bias" in line.words
    assert "mathematically zero" not in line.words


def test_frozen_parameter_is_no_untrained_one() -> None:
    """It is counted apart."""
    on = subject(nn.Linear(6, 6))
    on.model.between.weight.requires_grad_(False)  # type: ignore[union-attr, operator]
    line = checklist_of_step(example("right_step"), on)["parameters"]
    assert line.verdict == "PASS"
    assert "1 frozen" in line.words


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (OverTokens(nn.BatchNorm1d(6)), "BatchNorm1d"),
        (nn.Dropout(0.3), "Dropout"),
        (nn.RReLU(), "RReLU"),
    ],
    ids=["BatchNorm", "Dropout", "RReLU"],
)
def test_coupled_or_random_layer_is_named_and_equality_is_not_claimed(layer: nn.Module, words: str) -> None:
    """The rest is proved with the layer at rest, and no false alarm is raised; the whole is not a pass."""
    lines = checklist_of_step(example("right_step"), subject(layer))
    assert lines["layers"].verdict == "NOT PROVEN"
    assert words in lines["layers"].words
    assert lines["weighting"].verdict == "PASS"
    assert overall(lines.values()) == "NOT PROVEN"


def test_layer_at_rest_stays_so_when_the_step_calls_train() -> None:
    """Most training steps do."""

    def step(model: Any, *rest: Any, **options: Any) -> None:
        model.train()
        example("right_step")(model, *rest, **options)

    def with_names(
        model: Any, optimizer: Any, micro_batches: Any, accumulation_steps: int, clip_norm: float, schedule: Any
    ) -> None:
        step(model, optimizer, micro_batches, accumulation_steps, clip_norm, schedule)

    lines = checklist_of_step(with_names, subject(nn.Sequential(OverTokens(nn.BatchNorm1d(6)), nn.Dropout(0.5))))
    assert lines["weighting"].verdict == "PASS"


def test_randomness_without_a_layer_proves_nothing() -> None:
    """Two forwards differ and nothing can be put to rest: neither pass nor fail of the equality is claimed."""
    lines = checklist_of_step(example("right_step"), subject(FunctionalDropout()))
    assert lines["layers"].verdict == "NOT PROVEN"
    assert lines["weighting"].verdict == "NOT PROVEN"
    assert overall(lines.values()) == "NOT PROVEN"


def test_class_weights_are_the_denominator() -> None:
    """The loop of bench passes; a step that divides by the plain count fails on the weighting."""
    on = subject(class_weights=torch.linspace(0.2, 3.0, VOCAB))
    assert checklist_of_loop(on)["weighting"].verdict == "PASS"
    assert checklist_of_loop(on)["counters"].verdict == "PASS"
    line = checklist_of_step(example("right_step"), on)["weighting"]
    assert line.verdict == "FAIL"


def test_time_that_is_up_proves_nothing_and_says_so() -> None:
    """No case was run, so nothing passes."""
    lines = checklist_of_loop(seconds=-1)
    assert lines["weighting"].verdict == "NOT PROVEN"
    assert "0 of 7 cases" in lines["weighting"].words
    assert "time limit" in lines["weighting"].words
    assert overall(lines.values()) == "NOT PROVEN"


def test_model_too_large_for_the_memory_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says how much it takes and how much there is."""

    class Memory:
        available = 1000 * 2**10

    monkeypatch.setattr("psutil.virtual_memory", Memory)
    (line,) = prove(ProofRequest(model="gpt2-nano"))
    assert line.verdict == "NOT PROVEN"
    assert "GiB" in line.words
    assert "parameters" in line.words


def test_step_that_raises_fails_with_its_own_words() -> None:
    """The first line of the error is shown; SystemExit is an error too."""

    def step(model: Any, optimizer: Any, micro_batches: Any) -> None:
        raise SystemExit("no data today")

    line = checklist_of_step(step)["runs"]
    assert line.verdict == "FAIL"
    assert "SystemExit: no data today" in line.words


def test_loop_that_misreports_a_counter_fails_on_the_counters() -> None:
    """The counters are held against plain counting, not against each other."""
    native = NativeStep()
    from bench.check.step import make_step

    watched = trial_run.run_case(trial_run.Case("one", ((4, 2), (3,)), 2, "sgd"), subject(), make_step(native))
    assert native_lines.counters_line(native, [watched], 1).verdict == "PASS"
    from dataclasses import replace

    plan = native.results[0].plan
    wrong = replace(plan, all_ranks=replace(plan.all_ranks, valid_tokens=8))
    native.results[0] = replace(native.results[0], plan=wrong)
    line = native_lines.counters_line(native, [watched], 1)
    assert line.verdict == "FAIL"
    assert "valid_tokens of update 0: 8 reported, 9 counted (one)" in line.words
    native.results[0] = replace(native.results[0], plan=plan, result="skipped")
    line = native_lines.counters_line(native, [watched], 1)
    assert (line.verdict, line.words) == ("FAIL", "0 updates reported as applied, but 1 optimizer steps")


def test_too_many_synchronisations_fail() -> None:
    """One round more than asked."""
    native = NativeStep(sync_rounds=3)
    from bench.check.step import make_step

    watched = trial_run.run_case(trial_run.Case("one", ((4, 2), (3,)), 2, "sgd"), subject(), make_step(NativeStep()))
    line = native_lines.sync_line(native, [watched], 2)
    assert (line.verdict, line.figure) == ("FAIL", 3.0)
    native.sync_rounds = 1
    assert native_lines.sync_line(native, [watched], 2).verdict == "PASS"


def test_worse_precision_than_one_batch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that loses more than the mode costs: gradients accumulated in 8 bits, say."""
    from bench.check import precision_line

    right = precision_line._accumulated

    def rounded(*arguments: Any) -> Any:
        return [[g + 0.03 * g.abs().max() for g in gradients] for gradients in right(*arguments)]

    assert checklist_of_loop(amp_mode="bf16")["precision"].verdict == "PASS"
    monkeypatch.setattr(precision_line, "_accumulated", rounded)
    line = checklist_of_loop(amp_mode="bf16")["precision"]
    assert line.verdict == "FAIL"
    assert line.figure is not None
    assert line.figure > 2


def test_fp16_weights_under_fp16_are_not_proved_with_the_cure() -> None:
    """The loop refuses them; the proof says why."""
    (line,) = [each for each in prove(ProofRequest(amp_mode="fp16", param_dtype="fp16")) if each.name == "precision"]
    assert line.verdict == "NOT PROVEN"
    assert "float32" in line.words


def test_validation_that_depends_on_the_cut_fails() -> None:
    """Held against one concatenated batch."""
    import time

    from bench.check.prove import prove_loop
    from bench.loop import SingleRankAgreement

    def validate(model: nn.Module, on: Subject) -> tuple[float, float]:
        return 2.5, 2.0

    lines = prove_loop(ProofRequest(), subject(), time.monotonic() + PATIENCE_S, SingleRankAgreement(), validate)
    (line,) = [each for each in lines if each.name == "validation"]
    assert (line.verdict, line.figure) == ("FAIL", 0.25)
