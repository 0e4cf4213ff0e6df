"""Which launches a sweep still owes: rounds in shuffled complete order, less what the journal already holds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bench.drive.history import History
from bench.drive.search import Probe, next_size
from bench.record.fit import limit_bytes
from bench.sweep.trial import Search, Trial

ORDER_SEED = 20240229
"""Seed of the order of launches: the same sweep runs in the same order, also when it is resumed."""

Order = Literal["shuffled", "alternating"]
"""How the launches of a round follow each other: `measure.order` of the sweep file."""

RETRIED_WHEN_ASKED = frozenset({"failed", "timeout", "hang", "killed"})
"""Outcomes that `--retry-failed` runs again."""

ATTEMPTS_AT_MOST = 3
"""Launches of one trial in one round, interrupted ones not counted: a sweep never loops."""

_ATTEMPTS_AFTER_SIGKILL = 2
"""The kernel's out-of-memory killer endangers the whole machine: it is met once more at most."""

_ATTEMPTS_WHEN_SHARED = 2
"""A launch during which another process used the GPU runs once more, without --retry-failed."""

_DISTURBED = frozenset({"ok", "oom"})
"""Outcomes that another process on the GPU may have changed: by its load, or by the memory it took."""


@dataclass(frozen=True)
class PlannedLaunch:
    """State one launch that is to come."""

    trial: Trial
    round: int
    order: int
    """Place in the round's order, from 0; kept over resumes."""
    attempt: int


@dataclass(frozen=True)
class Place:
    """State one place in the order of a sweep: a trial, or a search, which makes several launches in every round."""

    point: Trial | Search
    round: int
    order: int


def places(points: Sequence[Trial | Search], rounds: int, order: Order = "shuffled") -> Iterator[Place]:
    """Go through all places in the order in which they run.

    A round is one complete pass over the points, each round in an order of its own, so that slow drift of the machine
    spreads evenly over them: a shuffled one; or, alternating, that of the file in even rounds and its reverse in odd
    ones, so that of two trials each comes first equally often (ABBA) and a steady drift falls on both alike.
    """
    for round_number in range(rounds):
        indices = list(range(len(points)))
        if order == "shuffled":
            random.Random(f"{ORDER_SEED}-{round_number}").shuffle(indices)  # noqa: S311 - an order, not a secret
        elif round_number % 2:
            indices.reverse()
        for place, index in enumerate(indices):
            yield Place(points[index], round_number, place)


def next_launch(place: Place, history: History, retry_failed: bool = False) -> PlannedLaunch | None:
    """Say what a place owes next, given what has happened; None when it owes nothing."""
    if isinstance(place.point, Trial):
        return _owed(place.point, place, history, retry_failed)
    trials = {trial.config.micro_batch_size: trial for trial in place.point.candidates}
    if place.round > 0:
        # The first round finds what fits; the later ones measure all of it again, so that it compares by round.
        again = (_owed(trials[size], place, history, retry_failed) for size in _sizes_again(place, history))
        return next((launch for launch in again if launch is not None), None)
    for trial in place.point.candidates:
        owed = _owed(trial, place, history, retry_failed)
        if owed is not None and history.last((trial.trial_id, 0)) is not None:
            return owed
    size = next_size(accumulation_classes(place.point), probes_of(place.point, history))
    return None if size is None else _owed(trials[size], place, history, retry_failed)


def count_owed(place: Place, history: History, retry_failed: bool = False) -> int:
    """Count the launches that a place owes, as far as they are known: of an unfinished search, only the next."""
    if isinstance(place.point, Trial) or place.round == 0:
        return int(next_launch(place, history, retry_failed) is not None)
    sizes = _sizes_again(place, history)
    trials = [trial for trial in place.point.candidates if trial.config.micro_batch_size in sizes]
    return sum(_owed(trial, place, history, retry_failed) is not None for trial in trials)


def is_searching(search: Search, history: History) -> bool:
    """Tell whether what fits is still to be found, so that nobody knows how many launches that takes."""
    return next_launch(Place(search, 0, 0), history) is not None


def accumulation_classes(search: Search) -> list[list[int]]:
    """List the sizes of a search apart by class: at A = 1 no gradients live at the peak of the activations."""
    classes: dict[bool, list[int]] = {False: [], True: []}
    for trial in search.candidates:
        classes[trial.config.accumulation_steps == 1].append(trial.config.micro_batch_size)
    return [sizes for sizes in classes.values() if sizes]


def probes_of(search: Search, history: History) -> dict[int, Probe]:
    """Say what each size tried so far showed.

    What ended well fits unless its row says that it does not. An out-of-memory error beside another process, twice,
    shows only that less memory was left: the search goes on below it, so that it ends.
    """
    probes = {}
    for trial in search.candidates:
        record = history.last((trial.trial_id, 0))
        if record is None or record["outcome"] == "interrupted":
            continue
        if record["machine"] == history.machine:  # results of another GPU say nothing about this one
            probes[trial.config.micro_batch_size] = _probe_of(record)
    return probes


def _probe_of(record: Mapping[str, Any]) -> Probe:
    fits = {"ok": record.get("fits") is not False, "oom": False}.get(record["outcome"])
    capacity = record.get("capacity_bytes")
    # A journal of an older version holds the peak alone.
    taken = record.get("compared_bytes", record.get("peak_bytes"))
    return Probe(fits, taken, None if capacity is None else limit_bytes(capacity))


def _sizes_again(place: Place, history: History) -> list[int]:
    """List the sizes of a search that fitted in the first round, in this round's own order."""
    assert isinstance(place.point, Search), "a trial has one size"
    sizes = [size for size, probe in probes_of(place.point, history).items() if probe.fits]
    smallest = place.point.candidates[0].trial_id
    random.Random(f"{ORDER_SEED}-{place.round}-{smallest}").shuffle(sizes)  # noqa: S311 - an order, not a secret
    return sizes


def _owed(trial: Trial, place: Place, history: History, retry_failed: bool) -> PlannedLaunch | None:
    key = trial.trial_id, place.round
    before = history.last(key)
    if before is not None and not _runs_again(before, history.tries(key), retry_failed):
        return None
    return PlannedLaunch(trial, place.round, place.order, history.next_attempt(key))


def _runs_again(last: Mapping[str, Any], tries: int, retry_failed: bool) -> bool:
    outcome = last["outcome"]
    if outcome == "interrupted":
        return True
    if outcome in _DISTURBED and "gpu_shared" in last.get("flags", ()):
        return tries < _ATTEMPTS_WHEN_SHARED
    most = _ATTEMPTS_AFTER_SIGKILL if last.get("signal") == 9 else ATTEMPTS_AT_MOST
    return retry_failed and outcome in RETRIED_WHEN_ASKED and tries < most
