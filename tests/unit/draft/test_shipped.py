"""The shipped sweeps are found in a checkout, and are told by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.draft.shipped import gpus_needed, questions, shipped_sweeps, shipped_text
from bench.errors import BenchError

SWEEPS = Path(__file__).parents[3] / "sweeps"


def test_every_sweep_of_the_checkout_is_shipped() -> None:
    assert {path.resolve() for path in shipped_sweeps().values()} == set(SWEEPS.glob("*.yaml"))


def test_each_says_what_it_asks() -> None:
    assert set(questions()) == set(shipped_sweeps())
    assert all(question.endswith("?") for question in questions().values())


@pytest.mark.parametrize("name", shipped_sweeps())
def test_text_is_the_file_but_for_its_own_path(name: str) -> None:
    """A command in its comments can be pasted where the file landed."""
    own = (SWEEPS / f"{name}.yaml").read_text(encoding="utf-8")
    assert shipped_text(name, f"sweeps/{name}.yaml") == own
    assert "sweeps/" not in shipped_text(name, f"{name}.yaml")


def test_unknown_name_is_answered_with_the_nearest_and_all() -> None:
    with pytest.raises(
        BenchError, match=r"no shipped sweep 'quickstar'. Did you mean quickstart\? There are a100-gpt2"
    ):
        shipped_text("quickstar", "x.yaml")


def test_gpus_of_a_sweep_are_those_that_all_of_it_takes() -> None:
    assert (gpus_needed("a100-gpt2-124m"), gpus_needed("quickstart"), gpus_needed("cpu-scaling")) == (8, 0, 0)
