"""Run small sweeps through the real driver and give their tables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from bench.drive.driver import run_sweep
from bench.drive.telemetry import Telemetry
from bench.drive.work import rank_launcher
from bench.launch.launcher import Launcher, StartMethod
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.file import load_sweep
from bench.sweep.trial import Sweep, Trial
from benchmarks.harness import Quiet


@dataclass(frozen=True)
class Results:
    """Hold the tables of one sweep."""

    rows: pd.DataFrame
    """One row per launch, skips too."""
    updates: pd.DataFrame

    @property
    def launches(self) -> pd.DataFrame:
        """Give the rows of launches."""
        return self.rows[self.rows["outcome"] != "skipped"]

    def updates_of(self, row: Any, phase: str | None = None) -> pd.DataFrame:
        """Give the updates of one launch, of one phase or of all."""
        table = self.updates
        same = (table["trial_id"] == row.trial_id) & (table["round"] == row.round)
        return table[same if phase is None else same & (table["phase"] == phase)]


@dataclass
class Lab:
    """Hold where to write, what device is meant, and how much work fits it."""

    folder: Path
    facts: MachineFacts
    finished: dict[str, Results] = field(default_factory=dict)
    """Tables of the sweeps run so far, so that several checks can look at one sweep."""

    def __post_init__(self) -> None:
        self._launchers: dict[StartMethod, Launcher] = {}
        self.folder.mkdir(parents=True, exist_ok=True)
        self._faults = self.folder / "faults"
        self._faults.write_text("")
        if self.device == "cpu":
            # Read by each rank when it starts; the fork server's environment is fixed from here on.
            os.environ["BENCH_FAULTS"] = str(self._faults)

    @property
    def device(self) -> str:
        """Name the device: cpu or cuda."""
        return self.facts.device

    @property
    def work(self) -> dict[str, Any]:
        """Give the settings of a trial that takes a few seconds here."""
        if self.device == "cuda":
            return {"model": {"preset": "gpt2-124m"}, "data": {"rows": "packed"}, "seq_len": 1024}
        synthetic = {"documents": 400, "mean_tokens": 40}
        return {
            "model": {"preset": "gpt2-nano"},
            "data": {"synthetic": synthetic, "rows": "packed"},
            "seq_len": 64,
            "cpu_threads_per_rank": 1,
        }

    def sweep(
        self, name: str, base: Mapping[str, Any], axes: Mapping[str, Any], measure: Mapping[str, Any] | None = None
    ) -> Sweep:
        """Write a sweep file and read it back as a user's."""
        document = {
            "format": 1,
            "name": name,
            "base": {**self.work, "device": self.device, **base},
            "axes": axes,
            "measure": {"warmup_updates": 2, "updates": 5, "quality_updates": 9, "timeout_s": 180.0, **(measure or {})},
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(f"# Question: does {name} hold on this machine?\n" + json.dumps(document, indent=1))  # is YAML
        return load_sweep(path)

    def trials(self, sweep: Sweep) -> list[Trial]:
        """Give the trials that this machine can run."""
        return [point for point in expand(sweep, self.facts) if isinstance(point, Trial)]

    def run(self, sweep: Sweep, start_method: StartMethod = "forkserver", folder: str | None = None) -> Results:
        """Run a sweep and read its tables."""
        out = self.folder / (folder or sweep.name)
        # Nothing here compares speeds, so a hot GPU is not waited for.
        telemetry = Telemetry(self.facts.gpu_uuids, cool_down_s=0.0)
        if start_method not in self._launchers:  # kept, as the launches of a sweep share a server
            self._launchers[start_method] = rank_launcher(start_method)
        run_sweep(sweep, out, self.facts, _Silent(), launcher=self._launchers[start_method], telemetry=telemetry)
        results = Results(pd.read_parquet(out / "results.parquet"), pd.read_parquet(out / "updates.parquet"))
        self.finished[folder or sweep.name] = results
        return results

    def plant_out_of_memory(self, trial: Trial | None) -> None:
        """Let the kernel refuse memory to one trial's first forward; to none with None. On a CPU alone."""
        self._faults.write_text(f"{trial.trial_id}/forward:1:limit_memory" if trial else "")


class _Silent(Quiet):
    """Watch a sweep and say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""
