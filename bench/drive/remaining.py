"""Which trials need not run, and how many launches the rest will take: an estimate while a search goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.drive.history import History
from bench.drive.pruning import Lessons
from bench.drive.schedule import Place, count_owed, is_searching, next_launch, probes_of
from bench.sweep.trial import Search, Skipped, Trial

_PROBES_OF_A_SEARCH = 5
"""Launches that a search is expected to take: three for a line, the limit, and the size after it."""


class Owed:
    """Judge the places of one sweep by what has happened so far, and by what out-of-memory errors have taught."""

    def __init__(self, history: History, lessons: Lessons, rounds: int) -> None:
        self._history = history
        self._lessons = lessons
        self._rounds = rounds

    def launches(self, place: Place, retry_failed: bool) -> int:
        """Count the launches a place owes; a guess where a search is still to find what fits."""
        if isinstance(place.point, Search):
            return self._of_search(place.point, place, retry_failed)
        launch = next_launch(place, self._history, retry_failed)
        return int(launch is not None and self.reason_to_leave_out(launch.trial) is None)

    def is_searching(self, place: Place) -> bool:
        """Tell whether what this place owes is a guess."""
        return isinstance(place.point, Search) and is_searching(place.point, self._history)

    def reason_to_leave_out(self, trial: Trial) -> str | None:
        """Say why a trial need not run; None if it must. One that has a row already runs in its later rounds too."""
        return None if self._was_launched(trial) else self._lessons.reason_to_prune(trial)

    def pruned(self, points: Iterable[Trial | Skipped | Search]) -> dict[str, str]:
        """Give the trials that need not run: trial id to reason."""
        trials = [point for point in points if isinstance(point, Trial)]
        reasons = {trial.trial_id: self.reason_to_leave_out(trial) for trial in trials}
        return {trial_id: reason for trial_id, reason in reasons.items() if reason is not None}

    def _of_search(self, search: Search, place: Place, retry_failed: bool) -> int:
        if not is_searching(search, self._history):
            return count_owed(place, self._history, retry_failed)
        probes = min(_PROBES_OF_A_SEARCH, len(search.candidates))
        if place.round == 0:
            return max(1, probes - len(probes_of(search, self._history)))
        # All fit but the size after the limit, where there is one.
        return max(1, probes - 1)

    def _was_launched(self, trial: Trial) -> bool:
        return any(self._history.last((trial.trial_id, number)) is not None for number in range(self._rounds))


class Remaining:
    """Keep count of what the places of one run still owe, in the order in which they run."""

    def __init__(self, owed: Owed, order: Sequence[Place], retry_failed: bool) -> None:
        self._owed = owed
        self._order = order
        self._retry_failed = retry_failed
        self._launches = [owed.launches(place, retry_failed) for place in order]

    @property
    def launches(self) -> int:
        """Count the launches that are left."""
        return sum(self._launches)

    @property
    def is_estimate(self) -> bool:
        """Tell whether a search may take more or fewer than that."""
        return any(self._owed.is_searching(place) for place in self._order if isinstance(place.point, Search))

    @property
    def done_places(self) -> int:
        """Count the places that owe nothing."""
        return self._launches.count(0)

    def note_launch(self, at: int, taught: bool) -> None:
        """Count anew after a launch of the place at this index of the order.

        Args:
            at: Which place.
            taught: Whether it ran out of memory, so that others may be pruned.
        """
        point = self._order[at].point
        # What fails again at this place is left to the next run.
        self._launches[at] = self._owed.launches(self._order[at], False)
        if not taught and isinstance(point, Trial):
            return
        for later in range(at + 1, len(self._order)):
            if taught or self._order[later].point is point:
                self._launches[later] = self._owed.launches(self._order[later], self._retry_failed)

    def note_left_out(self, at: int) -> None:
        """Note that a place need not run."""
        self._launches[at] = 0
