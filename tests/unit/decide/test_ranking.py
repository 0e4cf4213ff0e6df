"""The choice is never contradicted by its own intervals, whatever rounds and memories were planted."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.decide.recommend import Question, recommend
from tests.planted import config, launches


def without(rows, *dropped):
    """Drop launches by (trial number, round)."""
    return [row for row in rows if (int(row["trial_id"], 16), row["round"]) not in dropped]


def choose(rows):
    return recommend(rows, Question())


def chosen(result):
    return int(result.choice.row["trial_id"], 16)


def other(result, trial):
    return next(one for one in result.others if int(one.configuration.row["trial_id"], 16) == trial)


def test_a_lucky_round_does_not_win():
    """The machine was half as fast in round 1; whoever missed it is not twice as fast, though its mean is higher."""
    rows = launches([config(1000), config(900, micro_batch_size=4), config(950, micro_batch_size=16)], drift=0)
    for row in rows:
        if row["round"] > 0:
            row["valid_tokens_per_s"] /= 2
    result = choose(without(rows, (1, 1), (1, 2)))
    assert other(result, 1).configuration.speed > result.choice.speed
    assert chosen(result) == 0
    assert other(result, 1).verdict.ratio == pytest.approx(0.9, rel=0.01)
    assert "measured in 1 round" in other(result, 1).why
    assert any("not measured in the same rounds" in caveat for caveat in result.caveats)


def test_one_launch_does_not_win_by_a_little_against_three():
    """It is shown as not settled, with its lead."""
    rows = without(launches([config(1000), config(1050, micro_batch_size=4)]), (1, 0), (1, 1))
    result = choose(rows)
    assert chosen(result) == 0
    assert other(result, 1).standing == "open"
    assert other(result, 1).why.startswith("+")


def test_one_launch_wins_by_a_lot():
    """Launches of one configuration do not differ by half; that it was measured once is said."""
    result = choose(without(launches([config(1000), config(1500, micro_batch_size=4)]), (1, 0), (1, 1)))
    assert chosen(result) == 1
    assert any("measured in one round" in caveat for caveat in result.caveats)


def test_of_ties_one_that_another_surely_beats_is_passed_over():
    """The first takes least memory and is a tie of the fastest; the third is faster than it by its own interval."""
    speeds = (
        (997.17, 978.53, 951.03, 985.6),
        (1004.82, 977.01, 951.64, 995.82),
        (1007.9, 991.92, 966.95, 997.33),
        (1010.03, 988.24, 964.4, 1003.68),
        (1004.45, 984.11, 961.31, 993.23),
    )
    rows = launches([config(1.0, peak_allocated_bytes=1 + place) for place in range(5)], rounds=4)
    for row in rows:
        row["valid_tokens_per_s"] = speeds[int(row["trial_id"], 16)][row["round"]]
    result = choose(rows)
    assert chosen(result) == 1
    assert not [one for one in result.others if one.verdict.word == "faster"]


@st.composite
def planted_results(draw):
    """Few or many configurations, near or far, with drift, missing launches and any memories."""
    noise = random.Random(draw(st.integers(0, 10**9)))
    count, rounds = draw(st.integers(2, 12)), draw(st.integers(1, 5))
    spread = draw(st.sampled_from([0.0, 0.005, 0.02, 0.1]))
    configs = [
        config(
            1000 * math.exp(noise.gauss(0, spread)),
            micro_batch_size=2 ** noise.randrange(6),
            peak_allocated_bytes=noise.choice([None, 10**6, 10**7, 10**8]),
        )
        for _ in range(count)
    ]
    rows = launches(configs, rounds, sd=draw(st.sampled_from([0.0005, 0.005, 0.03])), drift=0.05, seed=noise.random())
    missing = draw(st.sampled_from([0.0, 0.2, 0.6]))
    kept = [row for row in rows if noise.random() >= missing]
    return kept or rows


@settings(max_examples=150)
@given(planted_results())
def test_no_line_contradicts_the_choice(rows):
    """No other is surely faster; a loser is slower; a tie is near and not surely slower; all lines have one base."""
    result = choose(rows)
    for one in result.others:
        verdict = one.verdict
        assert verdict.word != "faster"
        if one.standing == "slower":
            assert verdict.ratio < 1
            assert verdict.ratio_low is None or verdict.ratio_low < 1
        if one.standing == "tie":
            assert abs(verdict.ratio - 1) <= 0.02
            assert verdict.word != "slower"
        if one.standing == "open":
            assert verdict.word == "unclear" or verdict.ratio_low is None
