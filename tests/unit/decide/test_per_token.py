"""What a long run costs is what its tokens cost in the mean of the rounds, with an interval that holds its promise."""

import math
import random
import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.decide.per_token import joules_of, mean_cost, seconds_of
from bench.decide.projection import project
from bench.decide.recommend import Question, recommend
from bench.decide.recommend_output import recommendation_text
from bench.report.configurations import configurations_of
from bench.report.points import points_of
from tests.planted import config, launches
from tests.strategies import ok_row

RATES = st.lists(st.floats(1.0, 1e6), min_size=2, max_size=8)


def by_round(values):
    return {("r", 0, "s", "h", number): value for number, value in enumerate(values)}


def of_rates(rates, **changes):
    """Give the only configuration of launches with these rates."""
    rows = [ok_row(round=at, timed_s=163_840 / rate, **changes) for at, rate in enumerate(rates)]
    (one,) = configurations_of(rows)
    return one, rows


def test_two_rounds_do_the_tokens_of_both_in_the_seconds_of_both():
    """100k and 33.3k tokens/s: 50.0k, where the geometric mean says 57.7k and hours were projected 15 % too few."""
    one, rows = of_rates([100_000, 100_000 / 3])
    assert one.speed == pytest.approx(50_000)
    assert one.geometric_speed == pytest.approx(57_735, abs=1)
    assert points_of(rows)[0].speed == pytest.approx(50_000)
    projection = project(one, 180_000_000, 2.0)
    assert projection.valid_tokens_per_s == pytest.approx(50_000)
    assert projection.hours.amount == pytest.approx(1.0)
    assert projection.price.amount == pytest.approx(2.0)
    assert projection.fields()["valid_tokens_per_s_geometric_mean"] == pytest.approx(57_735, abs=1)


@given(RATES)
def test_the_speed_over_rounds_is_tokens_over_seconds(rates):
    """Whatever the rates, and never above the mean of their logarithms."""
    one, _ = of_rates(rates)
    tokens, seconds = sum(163_840 for _ in rates), sum(163_840 / rate for rate in rates)
    assert one.speed == pytest.approx(tokens / seconds)
    assert one.speed <= one.geometric_speed * (1 + 1e-9)


@given(RATES)
def test_a_configuration_alone_has_the_t_interval_of_its_mean(rates):
    """Held against scipy's own; never below nothing."""
    costs = [1 / rate for rate in rates]
    found = mean_cost(by_round(costs))
    assert found.mean == pytest.approx(statistics.fmean(costs))
    if statistics.stdev(costs) > 1e-9 * found.mean:
        reference = stats.ttest_1samp(costs, 0).confidence_interval(0.95)
        assert found.high == pytest.approx(reference.high)
        assert found.low == pytest.approx(max(0.0, reference.low))


def test_one_round_has_no_interval():
    """Of no amount that is made of it."""
    one, _ = of_rates([1000])
    projection = project(one, 3_600_000, 1.0)
    assert (projection.hours.low, projection.price.high, projection.valid_tokens_per_s_low) == (None, None, None)


@given(RATES, st.integers(1, 10**12), st.floats(0.01, 100), st.integers(1, 64))
def test_hours_price_and_joules_are_the_cost_of_a_token_times_tokens(rates, tokens, price, ranks):
    """One function: every end of every interval has the same share of its amount."""
    one, _ = of_rates(rates, world_size=ranks)
    projection = project(one, tokens, price)
    seconds = projection.seconds
    for amount, factor in (
        (projection.hours, 1 / 3600),
        (projection.gpu_hours, ranks / 3600),
        (projection.price, ranks * price / 3600),
    ):
        assert (amount.amount, amount.low, amount.high) == pytest.approx(
            tuple(part * tokens * factor for part in (seconds.mean, seconds.low, seconds.high))
        )


def test_joules_are_the_mean_over_rounds_with_an_interval_of_their_own():
    """Rounds without them do not count, and are not zero."""
    joules = [0.5, 0.6, 0.55, None]
    rows = [ok_row(round=at, timed_s=100.0) | {"joules_per_valid_token": value} for at, value in enumerate(joules)]
    (one,) = configurations_of(rows)
    assert sorted(joules_of(one).values()) == [0.5, 0.55, 0.6]
    found = project(one, 1000, None).joules
    reference = stats.ttest_1samp(joules[:3], 0).confidence_interval(0.95)
    assert (found.amount, found.low, found.high) == pytest.approx((550, 1000 * reference.low, 1000 * reference.high))


def test_what_only_others_met_is_estimated_from_them():
    """The third round took twice as long for both others, so it would have for this one."""
    others = [by_round([1.0, 1.0, 2.0]), by_round([3.0, 3.0, 6.0])]
    found = mean_cost(by_round([2.0, 2.0]), others)
    assert (found.rounds, found.rounds_missing) == (2, 1)
    assert found.mean == pytest.approx((2 + 2 + 4) / 3)


def test_rounds_of_another_result_say_nothing():
    """They share none, so there is nothing to estimate and nothing to pool."""
    costs = by_round([1.0, 1.1, 0.9])
    elsewhere = {(*block[:1], 1, *block[2:]): cost for block, cost in by_round([5.0, 9.0, 7.0]).items()}
    assert mean_cost(costs, [elsewhere] * 3) == mean_cost(costs)


def simulated(noise, configurations, rounds, of_rounds, of_launches):
    """Costs of configurations whose rounds share a part of what they do."""
    shared = [noise.gauss(0, of_rounds) for _ in range(rounds)]
    return [by_round([math.exp(each + noise.gauss(0, of_launches)) for each in shared]) for _ in range(configurations)]


SPREADS = [(0.01, 0.01), (0.0, 0.02), (0.03, 0.003), (0.05, 0.05)]


@pytest.mark.slow
@pytest.mark.parametrize(("of_rounds", "of_launches"), SPREADS)
@pytest.mark.parametrize("rounds", [2, 3, 6])
def test_the_interval_holds_the_true_cost_as_often_as_promised(of_rounds, of_launches, rounds):
    """Six configurations: of a thousand sweeps 93 % at least, whether rounds share what they do or not."""
    noise, held, sweeps = random.Random(7), 0, 1000
    true = math.exp((of_rounds**2 + of_launches**2) / 2)
    for _ in range(sweeps):
        costs, *others = simulated(noise, 6, rounds, of_rounds, of_launches)
        found = mean_cost(costs, others)
        held += found.low <= true <= found.high
    assert held >= 0.93 * sweeps


def test_pooling_narrows_the_interval_of_few_rounds():
    """Where launches differ by their own noise, five others tell how far."""
    noise, alone, pooled = random.Random(3), 0.0, 0.0
    for _ in range(200):
        costs, *others = simulated(noise, 6, 3, 0.0, 0.01)
        by_itself, among = mean_cost(costs), mean_cost(costs, others)
        alone += by_itself.high - by_itself.low
        pooled += among.high - among.low
    assert pooled < 0.8 * alone


def test_unequal_spreads_are_not_pooled():
    """Nine quiet configurations say nothing of a restless one."""
    noise = random.Random(1)
    restless = by_round([math.exp(noise.gauss(0, 0.3)) for _ in range(8)])
    quiet = [by_round([math.exp(noise.gauss(0, 0.001)) for _ in range(8)]) for _ in range(9)]
    assert mean_cost(restless, quiet) == mean_cost(restless)


def test_the_text_gives_the_interval_of_everything_that_has_one():
    """Price and energy as well as hours; what nothing bounds is said so."""
    rows = launches([config(1000)], sd=0.01)
    for row in rows:
        row["joules_per_valid_token"] = 0.5 + 0.01 * row["round"]
    text = " ".join(recommendation_text(recommend(rows, Question(run_tokens=10**9, price_per_gpu_hour=2.0))).split())
    for pattern in (
        r"take 11\.\d days, 95 % interval 1\d\.\d days to 1\d\.\d days;",
        r"price 5\d\d\.\d\d, 95 % interval \d{3}\.\d\d to \d{3}\.\d\d at 2 per rank-hour",
        r"energy 510 MJ \(142 kWh\), 95 % interval \d{3} MJ \(\d+ kWh\) to \d{3} MJ",
    ):
        assert re.search(pattern, text), pattern
    _, wild = of_rates([100_000, 100_000 / 3])
    text = " ".join(recommendation_text(recommend(wild, Question(run_tokens=360_000_000))).split())
    assert "50.0k valid tokens/s, all ranks (95 % interval 6.80k or more over 2 rounds)" in text
    assert "take 2.00 h, 95 % interval up to" in text


def test_seconds_are_those_of_the_speeds():
    """The same rounds, one over the rate."""
    one, _ = of_rates([1000, 2000])
    assert sorted(seconds_of(one).values()) == [1 / 2000, 1 / 1000]
