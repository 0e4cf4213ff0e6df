"""Which launches a sweep still owes: rounds in shuffled complete order, less what the journal already holds."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.sweep.trial import Trial

ORDER_SEED = 20240229
"""Seed of the order of launches: the same sweep runs in the same order, also when it is resumed."""

RETRIED_WHEN_ASKED = frozenset({"failed", "timeout", "hang", "killed"})
"""Outcomes that `--retry-failed` runs again."""

ATTEMPTS_AT_MOST = 3
"""Launches of one trial in one round, interrupted ones not counted: a sweep never loops."""


@dataclass(frozen=True)
class PlannedLaunch:
    """State one launch that is to come."""

    trial: Trial
    round: int
    order: int
    """Place in the round's shuffled order, from 0; kept over resumes."""
    attempt: int


def owed_launches(
    trials: Sequence[Trial], rounds: int, journal: Iterable[Mapping[str, Any]], retry_failed: bool = False
) -> list[PlannedLaunch]:
    """List what is missing, in the order in which it is to run.

    A round is one complete pass over the trials, each round in an order of its own, so that slow drift of the machine
    spreads evenly over the trials. An interrupted launch is run again; a failed one only when asked.
    """
    last: dict[tuple[str, int], Mapping[str, Any]] = {}
    tries: dict[tuple[str, int], int] = {}
    for record in journal:
        if record.get("kind") == "launch":
            key = record["trial_id"], record["round"]
            last[key] = record
            tries[key] = tries.get(key, 0) + (record["outcome"] != "interrupted")
    owed = []
    for round_number in range(rounds):
        order = list(range(len(trials)))
        random.Random(f"{ORDER_SEED}-{round_number}").shuffle(order)  # noqa: S311 - an order, not a secret
        for place, index in enumerate(order):
            trial = trials[index]
            key = trial.trial_id, round_number
            before = last.get(key)
            if before is None:
                owed.append(PlannedLaunch(trial, round_number, place, attempt=0))
            elif _runs_again(before["outcome"], tries[key], retry_failed):
                owed.append(PlannedLaunch(trial, round_number, place, before["attempt"] + 1))
    return owed


def _runs_again(outcome: str, tries: int, retry_failed: bool) -> bool:
    if outcome == "interrupted":
        return True
    return retry_failed and outcome in RETRIED_WHEN_ASKED and tries < ATTEMPTS_AT_MOST
