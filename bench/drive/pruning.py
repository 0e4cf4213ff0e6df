"""Learn from out-of-memory errors: a trial that needs more of the same memory is not tried.

Only within the same configuration otherwise, the same accumulation class (at A = 1 no gradients live at the peak, so a
larger micro-batch can fit where a smaller one at A >= 2 did not), the same memory (GPU model, capacity, allocator
settings), and never from a launch during which another process used the GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bench.sweep.fields import TrialConfig
from bench.sweep.trial import Trial


class Lessons:
    """Remember what ran out of memory here, and say what else would."""

    def __init__(self, trials: Iterable[Trial], machine: Mapping[str, Any] | None) -> None:
        """Take the trials to learn from, and what the memory is now: errors in other memory are ignored."""
        self._machine = machine
        self._configs = {trial.trial_id: trial.config for trial in trials}
        self._smallest: dict[str, tuple[int, Mapping[str, Any]]] = {}

    def learn(self, launch: Mapping[str, Any], machine: Mapping[str, Any] | None) -> None:
        """Take one launch record into account, and what the memory was when it ran."""
        config = self._configs.get(launch["trial_id"])
        if launch["outcome"] != "oom" or config is None or machine != self._machine:
            return
        if "gpu_shared" in launch.get("flags", ()):
            return
        for likeness in _likenesses(config):
            known = self._smallest.get(likeness)
            if known is None or config.micro_batch_size < known[0]:
                self._smallest[likeness] = (config.micro_batch_size, launch)

    def reason_to_prune(self, trial: Trial) -> str | None:
        """Say why a trial need not run, naming the row that shows it; None when it must run."""
        for likeness in _likenesses(trial.config):
            size, launch = self._smallest.get(likeness, (trial.config.micro_batch_size, {}))
            if size < trial.config.micro_batch_size:
                return (
                    f"micro_batch_size = {size} already ran out of memory, all else equal: trial "
                    f"{launch['trial_id']}, round {launch['round']}, attempt {launch['attempt']}"
                )
        return None


def _likenesses(config: TrialConfig) -> tuple[str, str]:
    """Write what must be equal: everything but the micro-batch size and the one batch size that follows from it."""
    settings = config.model_dump(mode="json", exclude={"micro_batch_size", "accumulation_steps", "global_batch_size"})
    settings["accumulates"] = config.accumulation_steps != 1
    return tuple(
        json.dumps(settings | {name: getattr(config, name)}, sort_keys=True)
        for name in ("global_batch_size", "accumulation_steps")
    )  # type: ignore[return-value]
