"""How many launches are left: exact without a search, and exact again once it has found what fits."""

from __future__ import annotations

from typing import Any

from bench.drive.history import History
from bench.drive.pruning import Lessons
from bench.drive.remaining import Owed, Remaining
from bench.drive.schedule import Place, next_launch, places, probes_of
from bench.drive.search import largest_that_fits
from bench.drive.search_lines import search_lines
from bench.sweep.fields import TrialConfig
from bench.sweep.trial import Search, Trial

CAPACITY = 1000


def trial(size: int, seed: int = 0) -> Trial:
    config = TrialConfig(
        device="cpu", micro_batch_size=size, accumulation_steps=2, global_batch_size=2 * size, seed=seed
    )
    return Trial(f"{seed:06x}{size:06x}", config, ())


SEARCH = Search(tuple(trial(size) for size in range(1, 65)))


class Run:
    """Run launches whose peak is ten bytes a sequence, and keep count of what is left."""

    def __init__(self, points: list[Trial | Search], rounds: int, capacity: int = CAPACITY) -> None:
        self._trials = {each.trial_id: each for point in points for each in getattr(point, "candidates", (point,))}
        self._capacity = capacity
        self.history = History()
        self._lessons = Lessons(self._trials.values(), None)
        self.owed = Owed(self.history, self._lessons, rounds)
        self.order = list(places(points, rounds))
        self.remaining = Remaining(self.owed, self.order, False)
        self.counts = [(self.remaining.launches, self.remaining.is_estimate)]
        self.launched: list[tuple[int, int]] = []
        """Round and size."""

    def finish(self) -> Run:
        for at, place in enumerate(self.order):
            self._run_place(at, place)
        return self

    def _run_place(self, at: int, place: Place) -> None:
        while (launch := next_launch(place, self.history)) is not None:
            if isinstance(place.point, Trial) and self.owed.reason_to_leave_out(launch.trial) is not None:
                self.remaining.note_left_out(at)
                return
            size = launch.trial.config.micro_batch_size
            peak, outcome = 10 * size, "ok" if 10 * size <= self._capacity else "oom"
            record: dict[str, Any] = {"kind": "launch", "trial_id": launch.trial.trial_id, "round": place.round}
            record |= {"attempt": 0, "outcome": outcome, "peak_bytes": peak, "capacity_bytes": self._capacity}
            self.history.add(record)
            self._lessons.learn(record, None)
            self.launched.append((place.round, size))
            self.remaining.note_launch(at, taught=outcome == "oom")
            self.counts.append((self.remaining.launches, self.remaining.is_estimate))


def test_later_rounds_of_a_search_measure_every_size_that_fitted_in_the_first() -> None:
    """The size that did not fit is left alone; a round is a pass over everything that can be compared."""
    run = Run([SEARCH], rounds=3, capacity=410).finish()
    first = [size for number, size in run.launched if number == 0]
    fitted = sorted(size for size in first if size <= 41)
    assert max(fitted) == 41
    assert 42 in first
    for number in (1, 2):
        assert sorted(size for other, size in run.launched if other == number) == fitted
    orders = [[size for other, size in run.launched if other == number] for number in (1, 2)]
    assert orders[0] != orders[1], "every round has an order of its own"


def test_what_is_left_is_an_estimate_until_the_search_is_over_and_exact_from_then_on() -> None:
    """It ends at nothing, and counts down by one from the search's last probe on."""
    run = Run([SEARCH, trial(1, seed=5)], rounds=3, capacity=410).finish()
    known = [left for left, is_estimate in run.counts if not is_estimate]
    assert run.counts[0][1], "nobody knows at first"
    assert known == list(range(len(known)))[::-1]
    assert len(known) > 2 * 3, "two rounds of at least three sizes"


def test_without_a_search_the_number_is_exact_from_the_start() -> None:
    """Also when an out-of-memory error leaves others out: they are taken off at once."""
    small = [trial(size) for size in (1, 2, 4)]
    assert [left for left, _ in Run(list(small), rounds=2).finish().counts] == [6, 5, 4, 3, 2, 1, 0]
    assert not any(is_estimate for _, is_estimate in Run(list(small), rounds=2).finish().counts)
    run = Run([trial(size) for size in (1, 8, 16, 32)], rounds=1, capacity=10).finish()
    launched = len(run.launched)
    assert launched < 4, "some are pruned"
    assert run.counts[-1][0] == 0


def test_trial_that_was_pruned_by_an_earlier_run_is_not_counted_twice() -> None:
    """What the folder's history prunes is no launch to come, and leaving it out takes nothing off."""
    run = Run([trial(size) for size in (1, 8)], rounds=1, capacity=10)
    run.history.add({"kind": "launch", "trial_id": trial(8).trial_id, "round": 0, "attempt": 0, "outcome": "oom"})
    assert Remaining(run.owed, run.order, False).launches == 1


def test_what_a_search_found_is_said() -> None:
    """The size that was searched for, whether it is the last one asked for, or that none fits."""
    assert search_lines([SEARCH], Run([SEARCH], 1, capacity=10_000).finish().history) == [
        "the largest micro-batch that fits is 64, the largest size to try"
    ]
    history = Run([SEARCH], 1, capacity=400).finish().history
    largest = largest_that_fits(probes_of(SEARCH, history))
    assert search_lines([SEARCH], history) == [f"the largest micro-batch that fits is {largest}"]
    assert search_lines([SEARCH], Run([SEARCH], 1, capacity=5).finish().history) == ["no micro-batch fits, not even 1"]
    assert search_lines([SEARCH], History()) == []
