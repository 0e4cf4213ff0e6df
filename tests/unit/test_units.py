"""Counts, lists and differences read as a person would write them."""

import pytest

from bench.units import counted, cut_text, format_rate, listed, short_number, signed


@pytest.mark.parametrize(
    ("count", "thing", "text"),
    [
        (0, "round", "0 rounds"),
        (1, "round", "1 round"),
        (2, "rank", "2 ranks"),
        (1, "launch", "1 launch"),
        (3, "launch", "3 launches"),
        (2, "search", "2 searches"),
        (None, "rank", "None ranks"),
    ],
)
def test_a_noun_follows_its_count(count, thing, text):
    """One of it has no s, and what ends in a hiss gets es."""
    assert counted(count, thing) == text


def test_a_long_list_is_cut_and_counted():
    """As many as there is room for, then how many are left out; nothing is left out of a short one."""
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listed(["x"] * 1002, 1, "; ") == "x and 1,001 more"
    assert listed([], 3) == ""


def test_a_difference_has_its_sign():
    """Null is a dash, and no difference has no sign."""
    assert [signed(count) for count in (None, 0, 1024, -1)] == ["-", "0", "+1,024", "-1"]


def test_a_rate_is_a_short_number_with_its_unit():
    """12.3k, whatever stands behind it."""
    for value in (0.5, 12.0, 12_345.0, 3.2e9):
        assert format_rate(value) == f"{short_number(value)} tokens/s"
    assert short_number(12_345.0) == "12.3k"
    assert short_number(None) == format_rate(float("nan")) == "-"


def test_a_long_text_is_cut_between_words():
    """The cut shows, and no word is halved; what fits is left alone, and what has no space has no better cut."""
    text = "CUDA out of memory. Tried to allocate 2.00 GiB"
    assert cut_text(text, len(text)) == text
    assert cut_text(text, 45) == "CUDA out of memory. Tried to allocate ..."
    assert cut_text("one two three", 11) == "one two ..."
    assert cut_text("one two three", 10) == "one ..."
    assert cut_text("x" * 20, 10) == "xxxxxx ..."
    assert all(len(cut_text(text, most)) <= most for most in range(5, 60))
