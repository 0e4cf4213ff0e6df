"""Labels never cover each other, a point, or the edge."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.plots.labels import Label, overlaps, place_labels

INSIDE = (0.0, 0.0, 1000.0, 700.0)
LABELS = st.lists(
    st.builds(Label, st.floats(0, 1000), st.floats(0, 700), st.floats(10, 120), st.floats(8, 16), st.booleans()),
    max_size=30,
)


@settings(max_examples=40)
@given(LABELS)
def test_placed_labels_are_inside_and_apart(labels):
    """Whatever the crowd, what is placed is readable."""
    markers = [(label.x - 5, label.y - 5, label.x + 5, label.y + 5) for label in labels]
    boxes = [box for box in place_labels(labels, INSIDE, markers, 8.0) if box is not None]
    for index, box in enumerate(boxes):
        assert 0 <= box[0] <= box[2] <= 1000
        assert 0 <= box[1] <= box[3] <= 700
        assert not any(overlaps(box, other) for other in [*boxes[:index], *markers])


def test_a_lone_label_sits_right_above_its_point():
    """With room everywhere, the first choice is taken."""
    (box,) = place_labels([Label(500, 300, 40, 10, False)], INSIDE, [(495, 295, 505, 305)], 8.0)
    assert box == (480.0, 308.0, 520.0, 318.0)


def test_a_crowded_label_is_left_out_unless_it_must_be_placed():
    """Ordinary labels give way; those of the frontier move further off."""
    wall = [(440.0, 270.0, 560.0, 330.0)]
    assert place_labels([Label(500, 300, 40, 10, False)], INSIDE, wall, 8.0) == [None]
    assert place_labels([Label(500, 300, 40, 10, True)], INSIDE, wall, 8.0) != [None]
