"""`--only`: select trials by their settings, in the words of `--where`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bench.errors import BenchError

if TYPE_CHECKING:
    from bench.sweep.trial import Search, Skipped, Trial


def trials_that_meet(conditions: Sequence[str]) -> Callable[[Trial], bool]:
    """Make the test that a trial's settings meet every condition.

    Raises:
        BenchError: A condition cannot be understood, or is about what only a finished launch has.
    """
    from bench.record.config_columns import config_columns
    from bench.report.named_results import SHOWN_BY_NAME
    from bench.report.where import parse_condition

    parsed = [parse_condition(text, "--only") for text in conditions]
    for condition in parsed:
        if SHOWN_BY_NAME[condition.column].rule != "config":
            raise BenchError(
                f"--only: {condition.column} is measured, so not known before a launch. Use a setting, such as "
                "amp_mode or micro_batch_size."
            )

    def meets(trial: Trial) -> bool:
        settings = config_columns(trial.config)
        return all(condition.mask([settings[condition.column]])[0] for condition in parsed)

    return meets


def require_trial(conditions: Sequence[str], points: Sequence[Trial | Skipped | Search]) -> None:
    """Refuse conditions that no trial of a sweep meets, before anything is made or run.

    Raises:
        BenchError: No trial meets them; says which values there are.
    """
    from bench.record.config_columns import config_columns
    from bench.report.where import nothing_meets
    from bench.sweep.trial import Search, Skipped

    # The smallest size of a search says whether it runs.
    chosen = [point.candidates[0] if isinstance(point, Search) else point for point in points]
    trials = [point for point in chosen if not isinstance(point, Skipped)]
    if trials and not any(map(trials_that_meet(conditions), trials)):
        settings = [config_columns(trial.config) for trial in trials]
        raise nothing_meets(conditions, lambda column: [one[column] for one in settings], "trial", "--only")
