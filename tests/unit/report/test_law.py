"""The two-point law is recovered from planted data, predicts held-out counts, and says where it fails."""

import math
import random

import pytest

from bench.report.law import fit_laws, mean_update_s
from tests.strategies import failed_row, ok_row


def rows(
    counts, update_s=0.05, micro_s=0.02, sd=0.0, rounds=3, bend=0.0, seed=0, peak=lambda a: 100 if a == 1 else 160
):
    noise = random.Random(seed)
    made = []
    for count in counts:
        for number in range(rounds):
            seconds = (update_s + count * micro_s + bend * count**2) * math.exp(noise.gauss(0, sd))
            made.append(
                ok_row(
                    round=number,
                    accumulation_steps=count,
                    global_batch_size=8 * count,
                    timed_s=20 * seconds,
                    peak_allocated_bytes=peak(count),
                )
            )
    return made


def test_it_is_exact_on_exact_data():
    """Two counts determine the line; memory differs between A = 1 and the others."""
    (law,) = fit_laws(rows([1, 4]))
    assert (law.update_s, law.micro_s) == (pytest.approx(0.05), pytest.approx(0.02))
    assert law.predict(16).update_s == pytest.approx(0.37)
    assert (law.predict(1).peak_bytes, law.predict(16).peak_bytes) == (100, 160)
    assert (law.predict(2).is_extrapolated, law.predict(16).is_extrapolated) == (False, True)
    assert law.failures == ()


def test_one_count_gives_no_law_and_two_launches_no_interval():
    """What cannot be known is null."""
    assert fit_laws(rows([4])) == []
    (law,) = fit_laws(rows([2, 4], rounds=1))
    assert law.predict(8).update_s_low is None
    assert law.predict(1).peak_bytes is None


def test_groups_do_not_mix():
    """Another micro-batch, mode or machine is another line; failures and nulls are left out."""
    other = [{**row, "micro_batch_size": 16} for row in rows([1, 2], micro_s=0.04)]
    bad = [failed_row(accumulation_steps=3), ok_row(accumulation_steps=5, timed_s=None)]
    laws = fit_laws([*rows([1, 2]), *other, *bad])
    assert [law.micro_s for law in laws] == [pytest.approx(0.02), pytest.approx(0.04)]


def test_a_bend_is_said():
    """Time that does not grow linearly breaks the law, with the count and the misfit."""
    (law,) = fit_laws(rows([1, 2, 4, 8], bend=0.002, sd=0.001))
    assert "is off the line by" in law.failures[0]


def test_noise_is_no_failure():
    """At 2 % spread from launch to launch, a straight line is not called bent."""
    failed = sum(bool(fit_laws(rows([1, 2, 4, 8], sd=0.02, seed=seed))[0].failures) for seed in range(100))
    assert failed <= 5


def test_growing_memory_is_said():
    """Peaks that grow with the count break the memory law."""
    (law,) = fit_laws(rows([2, 4, 8], peak=lambda a: 100 * a))
    assert law.failures == ("peaks at A >= 2 range from 200 B to 800 B",)


@pytest.mark.slow
def test_held_out_counts_fall_into_the_interval_at_its_rate():
    """Fitted to A = 1, 2, 4, a new launch at A = 16 lies inside the 95 % interval 93 to 97 times of 100."""
    hits, trials = 0, 600
    for seed in range(trials):
        (law,) = fit_laws(rows([1, 2, 4], sd=0.02, seed=seed))
        (truth,) = rows([16], sd=0.02, rounds=1, seed=10_000 + seed)
        predicted = law.predict(16)
        hits += predicted.update_s_low <= mean_update_s(truth) <= predicted.update_s_high
    assert 0.925 <= hits / trials <= 0.975
