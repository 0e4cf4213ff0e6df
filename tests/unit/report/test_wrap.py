"""Lines break at spaces alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.report.wrap import wrap

COMMAND = "bench sweep runs/a-very-long/folder-of-results/sweep.yaml --out runs/a-very-long/results --rounds 3"


@given(width=st.integers(1, 120))
def test_words_of_a_command_stay_whole_at_every_width(width: int) -> None:
    """Joined by spaces again, the lines are the command: it can be copied."""
    assert " ".join(line.strip() for line in wrap(COMMAND, width, rest="  ")) == COMMAND


def test_lines_have_their_beginnings_and_keep_to_the_width() -> None:
    assert wrap("one two three", 10, "- ", "  ") == ["- one two", "  three"]
