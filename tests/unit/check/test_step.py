"""How a step is read and called."""

from __future__ import annotations

from typing import Any

import pytest

from bench.check.step import make_step
from bench.errors import BenchError
from bench.workload.user_code import load

MICRO_BATCHES: Any = ["a", "b", "c", "d", "e"]


def test_step_without_accumulation_steps_is_called_once_per_window() -> None:
    """The last window is shorter."""
    calls: list[Any] = []

    def step(model: Any, optimizer: Any, micro_batches: Any) -> None:
        calls.append(micro_batches)

    make_step(step).train(None, None, MICRO_BATCHES, 2)  # type: ignore[arg-type]
    assert calls == [["a", "b"], ["c", "d"], ["e"]]


def test_step_with_accumulation_steps_is_called_once_with_what_it_names() -> None:
    """All micro-batches; clip_norm and schedule only where they are named."""
    calls: list[Any] = []

    def step(model: Any, optimizer: Any, micro_batches: Any, *, clip_norm: float, accumulation_steps: int = 1) -> None:
        calls.append((micro_batches, accumulation_steps, clip_norm))

    made = make_step(step)
    assert made.takes == {"accumulation_steps", "clip_norm"}
    made.train(None, None, MICRO_BATCHES, 2, 0.5)  # type: ignore[arg-type]
    assert calls == [(MICRO_BATCHES, 2, 0.5)]


def test_own_names_of_the_first_three_and_own_defaults_are_allowed() -> None:
    """Only what the check must fill in has a fixed name."""

    def step(net: Any, opt: Any, batches: Any, verbose: bool = False, **rest: Any) -> None:
        return

    assert make_step(step).takes == frozenset()


@pytest.mark.parametrize("function", [lambda model: None, lambda a, b, c, d: None, 3], ids=["few", "unknown", "number"])
def test_function_that_cannot_be_called_as_a_step_is_refused(function: Any) -> None:
    """The message names what it takes and what it must take."""
    with pytest.raises(BenchError, match=r"takes \(|not a function"):
        make_step(function)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("json", "not of the form"),
        ("json:", "not of the form"),
        ("no_such_package.x:step", "No module named 'no_such_package'"),
        ("json:no_such", "json has no no_such"),
    ],
)
def test_reference_that_leads_nowhere_is_named(reference: str, words: str) -> None:
    """With the option it came from."""
    with pytest.raises(BenchError, match=words) as error:
        load(reference, "--step")
    assert str(error.value).startswith(f"--step = {reference}")
