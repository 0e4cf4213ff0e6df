"""Planted scaling gives its efficiency and its exposed communication."""

from itertools import combinations

import pytest

from bench.decide.scaling import exposed_communication, scaling_curves
from bench.plots.scaling import draw as draw_scaling
from tests.planted import config, launches


def test_efficiency_is_speed_per_rank_against_the_fewest_ranks():
    """The fastest cut of each world size stands for it; 1.8 times the speed on twice the ranks is 0.9."""
    rows = launches(
        [
            config(1000, world_size=1, micro_batch_size=8),
            config(900, world_size=1, micro_batch_size=4),
            config(1800, world_size=2, micro_batch_size=8),
            config(3000, world_size=4, micro_batch_size=8),
        ],
        sd=0,
        drift=0,
    )
    (curve,) = scaling_curves(rows)
    assert [point.world_size for point in curve.points] == [1, 2, 4]
    assert [point.efficiency for point in curve.points] == [1, pytest.approx(0.9), pytest.approx(0.75)]


def test_how_gradients_are_exchanged_makes_no_curve_of_its_own():
    """The fastest way of each world size stands for it."""
    rows = launches(
        [
            config(speed, world_size=ranks, gradient_sync=sync)
            for ranks, sync, speed in ((1, "last", 1000), (2, "last", 1900), (2, "every", 1500))
        ],
        sd=0,
        drift=0,
    )
    (curve,) = scaling_curves(rows)
    assert [point.efficiency for point in curve.points] == [1, pytest.approx(0.95)]


def test_curves_of_several_global_batches_are_told_apart():
    """In the legend and, for the fastest, in the title; with one global batch nothing is added."""
    configs = [
        config(1000 * ranks * share, world_size=ranks, global_batch_size=size)
        for size, share in ((64, 1.0), (128, 1.1))
        for ranks in (1, 2)
    ]
    rows = launches(configs, sd=0, drift=0)
    assert sorted(curve.name.rsplit(", ", 1)[1] for curve in scaling_curves(rows)) == [
        "global batch 128",
        "global batch 64",
    ]
    assert "global batch" not in scaling_curves(launches(configs[:2]))[0].name
    title = draw_scaling(rows).texts[0].get_text()
    assert "at global batch 128" in title.replace("\n", " ")


def test_efficiencies_at_the_ends_of_close_curves_are_written_apart():
    """Two modes that end at nearly one speed: no text lies on another."""
    modes = {"bf16": 1.0, "fp16": 0.99, "tf32": 0.98}
    configs = [
        config(1000 * ranks * share, world_size=ranks, amp_mode=mode)
        for mode, share in modes.items()
        for ranks in (1, 2)
    ]
    figure = draw_scaling(launches(configs, sd=0, drift=0))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) == 3
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_one_world_size_has_no_curve():
    """Nor have other global batches a common one."""
    assert scaling_curves(launches([config(1000), config(1100, micro_batch_size=4)])) == []
    unequal = [config(1000, world_size=1), config(1100, world_size=2, global_batch_size=128)]
    assert scaling_curves(launches(unequal)) == []


def test_exposed_communication_is_what_further_exchanges_add():
    """Update of 8 micro-steps: 1.0 s with one exchange, 1.7 s with eight: 0.1 s each; hidden from about 17 steps on."""
    rows = launches([config(1000, world_size=2, micro_batch_size=4, gradient_sync=sync) for sync in ("last", "every")])
    for row in rows:
        row["timed_s"] = 20.0 if row["gradient_sync"] == "last" else 34.0
    (found,) = exposed_communication(rows)
    assert (found.sync_s, found.share) == (pytest.approx(0.1), pytest.approx(0.1))
    assert found.steps_to_hide == 17


def test_without_a_pair_nothing_is_said():
    """Only one of the two ways, one rank, or one micro-step: no figure."""
    assert exposed_communication(launches([config(1000, world_size=2, gradient_sync="last")])) == []
