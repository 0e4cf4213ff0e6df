"""`trial.json`: everything a worker needs to know of one launch, in one file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.record.handover import read_handover
from bench.sweep.fields import MeasureSpec, TrialConfig

FORMAT = 1


@dataclass(frozen=True)
class TrialFile:
    """State one launch: the trial, how to measure it, and its ranks."""

    sweep: str
    trial_id: str
    round: int
    attempt: int
    order: int
    config: TrialConfig
    measure: MeasureSpec
    world_size: int
    gpus: tuple[int, ...]
    """Device index of each local rank, among the visible ones; empty on the CPU."""
    working_directory: str = ""
    """Folder that the user's own modules are found from; empty where there are none."""

    def write(self, path: Path) -> None:
        """Write the file; nobody reads it before the launch starts."""
        document = asdict(self) | {
            "format": FORMAT,
            "config": self.config.model_dump(mode="json"),
            "measure": self.measure.model_dump(mode="json"),
        }
        path.write_text(json.dumps(document, indent=1))

    @classmethod
    def read(cls, path: Path) -> TrialFile:
        """Read the file.

        Raises:
            ValueError: It was written by another version of this tool.
        """
        document = read_handover(path, FORMAT)
        document["config"] = TrialConfig.model_validate(document["config"])
        document["measure"] = MeasureSpec.model_validate(document["measure"])
        document["gpus"] = tuple(document["gpus"])
        return cls(**document)
