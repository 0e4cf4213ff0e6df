"""The frontier holds exactly the points that no other dominates."""

from hypothesis import given
from hypothesis import strategies as st

from bench.report.frontier import pareto_frontier

POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)) | st.tuples(st.floats(0, 9), st.floats(0, 9)))


def dominates(one, other):
    return one[0] <= other[0] and one[1] >= other[1] and one != other


@given(POINTS)
def test_on_the_frontier_nothing_is_dominated_and_everything_else_is(points):
    """The definition itself, on few distinct values (many ties) and on many."""
    frontier = set(pareto_frontier(points))
    for index, point in enumerate(points):
        assert any(dominates(other, point) for other in points) == (index not in frontier)


@given(POINTS)
def test_the_frontier_rises_in_cost_and_gain(points):
    """It is ordered as it is drawn."""
    frontier = [points[index] for index in pareto_frontier(points)]
    assert frontier == sorted(frontier)
    assert [gain for _, gain in frontier] == sorted(gain for _, gain in frontier)
