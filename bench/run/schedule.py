"""Which launches a sweep still owes: rounds in shuffled complete order, less what the journal already holds."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.run.history import History
from bench.run.search import Probe, largest_that_fits, next_size
from bench.sweep.trial import Search, Trial

ORDER_SEED = 20240229
"""Seed of the order of launches: the same sweep runs in the same order, also when it is resumed."""

RETRIED_WHEN_ASKED = frozenset({"failed", "timeout", "hang", "killed"})
"""Outcomes that `--retry-failed` runs again."""

ATTEMPTS_AT_MOST = 3
"""Launches of one trial in one round, interrupted ones not counted: a sweep never loops."""

_ATTEMPTS_AFTER_SIGKILL = 2
"""The kernel's out-of-memory killer endangers the whole machine: it is met once more at most."""

_ATTEMPTS_WHEN_SHARED = 2
"""A launch during which somebody else used the GPU is run once more, without being asked."""


@dataclass(frozen=True)
class PlannedLaunch:
    """State one launch that is to come."""

    trial: Trial
    round: int
    order: int
    """Place in the round's shuffled order, from 0; kept over resumes."""
    attempt: int


@dataclass(frozen=True)
class Place:
    """State one place in the order of a sweep: a trial, or a search that makes several launches."""

    point: Trial | Search
    round: int
    order: int


def places(points: Sequence[Trial | Search], rounds: int) -> Iterator[Place]:
    """Go through all places in the order in which they run.

    A round is one complete pass over the points, each round in an order of its own, so that slow drift of the machine
    spreads evenly over them.
    """
    for round_number in range(rounds):
        order = list(range(len(points)))
        random.Random(f"{ORDER_SEED}-{round_number}").shuffle(order)  # noqa: S311 - an order, not a secret
        for place, index in enumerate(order):
            yield Place(points[index], round_number, place)


def next_launch(place: Place, history: History, retry_failed: bool = False) -> PlannedLaunch | None:
    """Say what a place owes next, given what has happened; None when it owes nothing."""
    if isinstance(place.point, Trial):
        return _owed(place.point, place, history, retry_failed)
    trials = {trial.config.micro_batch_size: trial for trial in place.point.candidates}
    if place.round > 0:
        # The first round finds the limit; the later ones measure it again.
        largest = largest_that_fits(probes_of(place.point, history))
        return None if largest is None else _owed(trials[largest], place, history, retry_failed)
    for trial in place.point.candidates:
        owed = _owed(trial, place, history, retry_failed)
        if owed is not None and history.last((trial.trial_id, 0)) is not None:
            return owed
    size = next_size(accumulation_classes(place.point), probes_of(place.point, history))
    return None if size is None else _owed(trials[size], place, history, retry_failed)


def owed_launches(
    points: Sequence[Trial], rounds: int, records: Iterable[Mapping[str, Any]], retry_failed: bool = False
) -> list[PlannedLaunch]:
    """List what is missing of trials that need no search, in the order in which it is to run."""
    history = History(records)
    owed = (next_launch(place, history, retry_failed) for place in places(points, rounds))
    return [launch for launch in owed if launch is not None]


def accumulation_classes(search: Search) -> list[list[int]]:
    """List the sizes of a search apart by class: at A = 1 no gradients live at the peak of the activations."""
    classes: dict[bool, list[int]] = {False: [], True: []}
    for trial in search.candidates:
        classes[trial.config.accumulation_steps == 1].append(trial.config.micro_batch_size)
    return [sizes for sizes in classes.values() if sizes]


def probes_of(search: Search, history: History) -> dict[int, Probe]:
    """Say what each size tried so far showed."""
    probes = {}
    for trial in search.candidates:
        record = history.last((trial.trial_id, 0))
        if record is not None and record["outcome"] != "interrupted":
            fits = {"ok": True, "oom": False}.get(record["outcome"])
            probes[trial.config.micro_batch_size] = Probe(fits, record.get("peak_bytes"), record.get("capacity_bytes"))
    return probes


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
    if outcome == "ok" and "gpu_shared" in last.get("flags", ()):
        return tries < _ATTEMPTS_WHEN_SHARED
    most = _ATTEMPTS_AFTER_SIGKILL if last.get("signal") == 9 else ATTEMPTS_AT_MOST
    return retry_failed and outcome in RETRIED_WHEN_ASKED and tries < most
