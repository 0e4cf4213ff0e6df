"""The oracle of the wrong steps: right ones are right, classic mistakes are not, and it knows nothing of `bench`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.wrong_steps import oracle
from tests.wrong_steps.judge import equivalent
from tests.wrong_steps.mutants import all_mutants, right_steps
from tests.wrong_steps.oracle import IGNORED, LAYOUTS, draw
from tests.wrong_steps.ranks import on_ranks

FEW = 12
RIGHT = right_steps()


def test_generator_makes_more_than_it_must_from_steps_written_differently() -> None:
    """Every kind, and each text once."""
    mutants = all_mutants()
    assert len(RIGHT) >= 5
    assert len({mutant.source for mutant in mutants}) == len(mutants) >= 300
    kinds = {"dropped", "doubled", "moved", "factor", "reduction", "condition", "inserted"}
    assert {mutant.kind for mutant in mutants} == kinds


@pytest.mark.parametrize("name", RIGHT)
def test_right_step_is_right_to_the_oracle(name: str) -> None:
    """Each of them, on a few of the layouts; `python -m tests.wrong_steps` takes all."""
    assert equivalent(RIGHT[name], name, FEW)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("summed", "loss / units", "loss / len(micro_batches)"),
        ("summed", "    optimizer.zero_grad()\n", ""),
        ("sliced", "schedule.step()", "pass"),
        ("counted", " or is_last", ""),
        ("scaled_after", "units = 0", "units = 1"),
        ("on_ranks", "dist.all_reduce(parameter.grad)", "pass"),
    ],
)
def test_mistake_is_wrong_to_the_oracle(name: str, right: str, wrong: str) -> None:
    """Weighting, leak, schedule, last window, denominator, ranks."""
    assert right in RIGHT[name]
    assert not equivalent(RIGHT[name].replace(right, wrong), name, FEW)


def test_layouts_hold_what_they_must() -> None:
    """Masked rows and micro-batches, both optimizers, partial windows; a target in each window."""
    layouts = [draw(number, 1 + number % 2) for number in range(LAYOUTS)]
    assert len(layouts) >= 200
    masked = [targets == IGNORED for layout in layouts for window in layout.windows for _, targets in window]
    assert any(bool(each.all()) for each in masked)
    assert any(len(each) > 1 and bool(each.all(1).any()) and not bool(each.all()) for each in masked)
    assert {layout.optimizer for layout in layouts} == {"sgd", "adamw"}
    assert any(len(one.windows[-1]) < one.accumulation_steps * one.world_size for one in layouts)
    for layout in layouts:
        for window in layout.windows:
            assert any(bool((targets != IGNORED).any()) for _, targets in window)


def test_oracle_imports_nothing_of_bench() -> None:
    """It must not share a mistake with what it judges."""
    tree = ast.parse(Path(oracle.__file__).read_text())
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [module for module in modules if module.split(".")[0] == "bench"]


def test_rank_that_leaves_frees_the_other() -> None:
    """By an error, not by waiting for ever."""
    import torch

    def job(rank: int, dist: object) -> None:
        if rank == 1:
            raise ValueError("gone")
        dist.all_reduce(torch.ones(()))  # type: ignore[attr-defined]

    with pytest.raises((ValueError, RuntimeError), match=r"gone|left"):
        on_ranks(2, job)
