"""Every file of a sweep's folder and of one launch; nobody else builds a path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SweepPaths:
    """Name the files of one results folder."""

    folder: Path

    @property
    def sweep_file(self) -> Path:
        """The sweep file as run."""
        return self.folder / "sweep.yaml"

    @property
    def journal(self) -> Path:
        """The truth: one line per launch."""
        return self.folder / "journal.jsonl"

    @property
    def environment(self) -> Path:
        """What the machine was."""
        return self.folder / "env.json"

    @property
    def lock(self) -> Path:
        """Held by the sweep that writes here."""
        return self.folder / ".lock"

    @property
    def proofs(self) -> Path:
        """The checklists of every configuration, each proved once."""
        return self.folder / "proofs.json"

    def proof(self, key: str) -> LaunchPaths:
        """Name the files of one proof."""
        return LaunchPaths(self.folder / "logs" / f"proof-{key}")

    def launch(self, trial_id: str, round_number: int, attempt: int) -> LaunchPaths:
        """Name the files of one launch."""
        return LaunchPaths(self.folder / "logs" / f"{trial_id}-r{round_number}-a{attempt}")


@dataclass(frozen=True)
class LaunchPaths:
    """Name the files through which the driver and the ranks of one launch speak."""

    folder: Path

    @property
    def trial_file(self) -> Path:
        """What is asked: driver to ranks."""
        return self.folder / "trial.json"

    @property
    def proof_file(self) -> Path:
        """What is to be proved, where the launch is a proof and no trial."""
        return self.folder / "proof.json"

    @property
    def rendezvous(self) -> Path:
        """Names the file where ranks of this node find each other; that file is never in the results folder."""
        return self.folder / "rendezvous"

    def rank_file(self, rank: int) -> Path:
        """What one rank answers; written aside and renamed, so it is whole or absent."""
        return self.folder / f"rank-{rank}.json"

    def rank_log(self, rank: int) -> Path:
        """Everything one rank printed."""
        return self.folder / f"rank-{rank}.log"

    def heartbeat(self, rank: int) -> Path:
        """Where one rank is right now."""
        return self.folder / f"rank-{rank}.heartbeat"

    def rank_stacks(self, rank: int) -> Path:
        """Where each thread of a rank was when it hung or crashed; empty otherwise."""
        return self.folder / f"rank-{rank}.stacks"
