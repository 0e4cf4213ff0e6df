"""`bench check` catches wrong steps of every kind; `python -m tests.wrong_steps` tries a thousand."""

from __future__ import annotations

import pytest

from tests.wrong_steps.judge import checked, equivalent
from tests.wrong_steps.mutants import Mutant, all_mutants, right_steps, sample

MOST = 24
FEW = 24
RIGHT = right_steps()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", sample(all_mutants(), MOST), ids=lambda one: f"{one.origin}-{one.kind}")
def test_wrong_step_is_caught_and_a_right_one_is_not_failed(mutant: Mutant) -> None:
    """What the oracle finds wrong is never a pass; what it finds right is never a failure."""
    verdict, words = checked(mutant.source, mutant.origin)
    is_right = equivalent(mutant.source, mutant.origin, FEW)
    assert (verdict != "FAIL") if is_right else (verdict != "PASS"), f"{mutant.words}: {words}"


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_right_step_passes(name: str) -> None:
    """However it is written."""
    verdict, words = checked(RIGHT[name], name)
    assert verdict == "PASS", words
