"""Figures of several results keep them apart, by name and in the order given."""

import pytest

from bench.decide.law import fit_laws
from bench.decide.scaling import exposed_communication, scaling_curves
from bench.plots.heat_map import draw as draw_heat_map
from bench.plots.heat_map import heat_map
from bench.plots.memory_breakdown import breakdowns
from bench.plots.memory_throughput import draw as draw_memory_throughput
from bench.plots.update_times import traces_of
from bench.report.points import points_of
from tests.planted import config, launches, losses

NAMES = ("second-hand", "first-rate")
TWO = [config(1000), config(1100, micro_batch_size=16)]
PARTS = {"parameter_bytes": 100, "gradient_bytes": 100, "optimizer_state_bytes": 200}


def side_by_side(*configs, names=NAMES):
    """Give the rows of a result for each list of configurations."""
    return [
        row | {"source": at, "folder": name}
        for at, (name, one) in enumerate(zip(names, configs, strict=True))
        for row in launches(one, seed=at, drift=0.001)
    ]


def texts(figure):
    return " ".join(text.get_text().replace("\u00a0", " ") for text in figure.texts)


def test_every_trial_is_a_point_of_each_result():
    """Rounds of one are not in the point of the other."""
    rows = side_by_side(TWO, [config(500), config(550, micro_batch_size=16)])
    points = points_of(rows)
    assert [point.label.split(", ")[-1] for point in points] == ["in second-hand"] * 2 + ["in first-rate"] * 2
    assert [point.speed for point in points] == pytest.approx([1000, 1100, 500, 550], rel=0.01)


def test_the_figure_says_that_results_are_of_different_times():
    """And does not where there is one, or a pool of several under one name."""
    said = texts(draw_memory_throughput(side_by_side(TWO, TWO)))
    assert "2 results in one figure, second-hand, first-rate: measured at different times" in said
    assert "results in one figure" not in texts(draw_memory_throughput(side_by_side(TWO, TWO, names=("one", "one"))))


def test_the_breakdown_has_a_bar_for_each():
    """Even where the trial is the same."""
    names = [bar.name for bar in breakdowns([row | PARTS for row in side_by_side(TWO, TWO)])]
    assert names[1:3] == ["fp32 16 x 4, in second-hand", "fp32 8 x 8, in first-rate"]


def test_updates_go_to_the_launch_of_their_own_result():
    """Trial, round and attempt are the same in both."""
    rows = side_by_side(TWO[:1], TWO[:1])
    updates = [
        update
        | {name: row[name] for name in ("source", "trial_id", "round", "attempt")}
        | {"seconds": 1 + row["source"]}
        for row in rows
        for update in losses([5.0, 4.0])
    ]
    traces = traces_of(rows, updates)
    assert [trace.seconds for trace in traces] == [(1.0, 1.0)] * 3 + [(2.0, 2.0)] * 3
    assert [trace.configuration.row["source"] for trace in traces] == [0] * 3 + [1] * 3


def test_the_heat_map_has_a_panel_for_each_in_the_order_given():
    """What finds no room is named."""
    data = heat_map(side_by_side(TWO, TWO))
    assert (data.panels, data.panels_left_out) == (("in second-hand", "in first-rate"), ())
    rows = side_by_side(*[TWO] * 6, names=tuple("fedcba"))
    assert heat_map(rows).panels == ("in f", "in e", "in d", "in c")
    assert "No room for the panels of in b; in a" in texts(draw_heat_map(rows))


def test_no_curve_and_no_law_goes_through_two_results():
    """One rank today and two tomorrow is no scaling."""
    ranks = side_by_side([config(1000)], [config(1900, world_size=2, trial_id="b" * 12)])
    assert scaling_curves(ranks) == []
    assert len(scaling_curves([row | {"folder": "one"} for row in ranks])) == 1
    syncs = [config(1000 - 100 * at, world_size=2, gradient_sync=sync) for at, sync in enumerate(("last", "every"))]
    assert exposed_communication(side_by_side(syncs[:1], syncs[1:])) == []
    counts = [config(1000, accumulation_steps=steps, global_batch_size=8 * steps) for steps in (2, 4)]
    assert fit_laws(side_by_side(counts[:1], counts[1:])) == []
    assert len(fit_laws(side_by_side(counts, names=NAMES[:1]))) == 1
