"""Every flag that a row can have, and what it says: one list, whoever raises it. No torch."""

from __future__ import annotations

from collections.abc import Iterable

from bench.statistics.health import FLAG_SENTENCES
from bench.telemetry.summary import TELEMETRY_FLAG_SENTENCES

LAUNCH_FLAG_SENTENCES: dict[str, str] = {
    "clock_step": "the wall clock was moved during the launch; durations are not affected",
    "suspended": "the launch was stopped for a while; no limit counted that time",
    "started_by_spawn": "the ranks could not be forked and were started anew; nothing measured is affected",
    "server_stalled": "the fork server did not answer and was replaced; nothing measured is affected",
    "batch_coupled": "layers such as BatchNorm look at the whole micro-batch: accumulation is not a larger batch here",
    "random_layers": "layers such as dropout draw random numbers: accumulation is a larger batch only on average",
    "weights_not_param_dtype": "the model's function made weights of another type than param_dtype says",
    "largest_window_unknown": (
        "samples of your own data set differ in size, and not all were looked at: one may need more memory"
    ),
}
"""Every flag that how a launch went, or its model, raises."""

FLAGS: dict[str, str] = FLAG_SENTENCES | TELEMETRY_FLAG_SENTENCES | LAUNCH_FLAG_SENTENCES
"""Every flag, and what it says."""


def explained(flags: Iterable[str]) -> list[str]:
    """Say what each of these flags means, each once, in the order of `FLAGS`; one of a newer version is left out."""
    found = {*flags}
    return [f"{flag}: {sentence}" for flag, sentence in FLAGS.items() if flag in found]
