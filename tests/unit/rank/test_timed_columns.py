"""The law of a launch is that of one rank."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.measure.update_times import UpdateLaw
from bench.rank.timed_columns import _law_columns

STRAGGLER, WAITING = UpdateLaw(update_s=0.1, micro_step_s=1.02), UpdateLaw(update_s=0.2, micro_step_s=1.0)


@pytest.mark.parametrize(
    ("law", "found"),
    [
        (STRAGGLER, {"micro_step_s": 1.02, "update_step_s": 0.1}),
        (WAITING, {"micro_step_s": None, "update_step_s": None}),
        (None, {"micro_step_s": None, "update_step_s": None}),
    ],
)
def test_law_is_that_of_the_rank_whose_full_update_takes_longest(law: UpdateLaw | None, found: dict[str, Any]) -> None:
    """Who waits has shorter micro-steps and a longer exchange: the largest of each would be an update of nobody."""
    slowest_s = max(each.seconds(8) for each in (STRAGGLER, WAITING))
    bench = SimpleNamespace(
        trial=SimpleNamespace(config=SimpleNamespace(accumulation_steps=8)),
        ranks=SimpleNamespace(max=lambda values: [slowest_s]),
    )
    assert _law_columns(bench, law) == found  # type: ignore[arg-type]
