"""What is known of a configuration from all its launches."""

from __future__ import annotations

from typing import Any

import pytest

from bench.decide.compare import compare
from bench.decide.recommend import Question, recommend
from bench.decide.recommend_output import recommendation_text
from bench.report.configurations import Configuration, configurations_of
from tests.planted import MIB, PROVEN, config, launches


def of_ranks(**changes: Any) -> list[dict[str, Any]]:
    """Plant two configurations as fast as each other: one rank of 300 MiB, and two of 200 MiB each."""
    two = {"world_size": 2, "peak_allocated_bytes": 200 * MIB, "peak_allocated_bytes_per_rank": [200 * MIB, 190 * MIB]}
    one = {"peak_allocated_bytes": 300 * MIB, "peak_allocated_bytes_per_rank": [300 * MIB]}
    return launches([config(1000, **PROVEN, **one, **changes), config(1000, **PROVEN, **two, **changes)], sd=0.0002)


def memory_of(rows: list[dict[str, Any]]) -> list[int | None]:
    return [one.memory_bytes for one in configurations_of(rows)]


def test_ranks_on_a_cpu_share_the_host_so_their_memory_adds_up() -> None:
    """On GPUs each has its own."""
    assert memory_of(of_ranks()) == [300 * MIB, 390 * MIB]
    assert memory_of(of_ranks(device="cuda", gpu_name="A100")) == [300 * MIB, 200 * MIB]
    rows = [row | {"peak_allocated_bytes_per_rank": None} for row in of_ranks()]
    assert memory_of(rows) == [300 * MIB, 400 * MIB], "each like the worst, where no other is known"


def test_tie_goes_to_what_takes_less_of_the_host() -> None:
    """Two ranks of less memory each take more of it together."""
    result = recommend(of_ranks(), Question())
    assert result.choice.row["world_size"] == 1
    (other,) = result.others
    assert "90.0 MiB more memory" in other.why


def test_comparison_across_numbers_of_ranks_says_what_all_take_together() -> None:
    """The columns hold one rank's, as everywhere."""
    (candidate,) = compare(of_ranks()).candidates
    said = "ranks share this host's memory: 390 MiB in all on 2 ranks, 300 MiB on 1 rank of the baseline"
    assert any(said in warning for warning in candidate.warnings)
    (candidate,) = compare(of_ranks(device="cuda", gpu_name="A100")).candidates
    assert not any("share this host" in warning for warning in candidate.warnings)


def test_recommendation_names_the_memory_of_all_ranks() -> None:
    """Beside that of the worst."""
    rows = [row for row in of_ranks() if row["world_size"] == 2]
    text = " ".join(recommendation_text(recommend(rows, Question())).split())
    assert "200 MiB peak allocated, worst rank, 390 MiB of all ranks, which share this host" in text


def shortened(*sizes: int, **changes: Any) -> Configuration:
    """Plant a configuration each of whose launches shortened its windows to so many micro-steps."""
    rows = launches([config(1000)], rounds=len(sizes))
    for row, size in zip(rows, sizes, strict=True):
        row |= {"time_method": "extrapolated", "updates_attempted": 10, "micro_batches": 10 * size, **changes}
    (one,) = configurations_of(rows)
    return one


@pytest.mark.parametrize(
    ("sizes", "changes", "said"),
    [
        ((4, 4), {}, "speed extrapolated from windows of 4 micro-steps; no whole window was seen"),
        ((4, 9, 5), {}, "speed extrapolated from windows of 4 to 9 micro-steps; no whole window was seen"),
        (
            (4, 4),
            {"whole_update_s": 9.0},
            "speed extrapolated from windows of 4 micro-steps; a whole one agreed within 1 %",
        ),
        (
            (4, 4),
            {"whole_update_s": 9.0, "flags": ["law_not_met"]},
            "speed that of single whole windows, as windows of 4 micro-steps foretell another",
        ),
        ((4,), {"micro_batches": None}, "speed extrapolated from windows; no whole window was seen"),
    ],
)
def test_extrapolated_speed_says_what_was_seen(sizes: tuple[int, ...], changes: dict[str, Any], said: str) -> None:
    """How long the windows were, and what a whole one told."""
    assert shortened(*sizes, **changes).extrapolation == said


def test_speed_of_whole_windows_needs_no_words() -> None:
    """Nothing is extrapolated."""
    (one,) = configurations_of(launches([config(1000)]))
    assert one.extrapolation is None
