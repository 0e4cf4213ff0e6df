"""Kept proofs are used again only as they were written; a disk that refuses them ends the sweep by name."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

from bench.check.exchange.lines import Line, Verdict
from bench.drive import proofs
from bench.drive.proofs import Proofs
from bench.drive.recording import row_of
from bench.drive.schedule import PlannedLaunch
from bench.errors import StorageError
from bench.launch.launcher import LaunchEnd, Launcher
from bench.launch.outcome import RankEnd
from bench.record.fault_points import install
from bench.record.paths import SweepPaths
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.trial import Trial
from tests.integration import trivial


class ProvingLauncher(Launcher):
    """Answer at once on the weighting, with one and the same error, and count how often it was asked."""

    def __init__(self, verdict: Verdict = "PASS", words: str = "made up") -> None:
        super().__init__(preload=())
        self.asked = 0
        self.verdict = verdict
        self.words = words

    def run(self, work: str, paths: Any, ranks: Any, *_: Any, **__: Any) -> LaunchEnd:
        self.asked += 1
        lines = [Line("weighting", self.verdict, 3.25e-17, self.words).as_row()]
        ends = tuple(RankEnd(rank, 0, {"outcome": "ok", "lines": lines}, None) for rank in ranks)
        return LaunchEnd(ends, None, 0.01, pids=(4711,))


@pytest.fixture
def paths(tmp_path: Path) -> SweepPaths:
    paths = SweepPaths(tmp_path / "results")
    paths.folder.mkdir()
    return paths


@pytest.fixture(scope="module")
def trial() -> Trial:
    (trial,) = expand(trivial.sweep_of({"seed": [0]}), trivial.CPU)
    assert isinstance(trial, Trial)
    return trial


def test_kept_proof_is_not_made_again(paths: SweepPaths, trial: Trial) -> None:
    """The file alone is enough for the columns."""
    launcher = ProvingLauncher()
    columns = Proofs(paths, launcher).for_trial(trial)
    assert Proofs(paths, launcher).for_trial(trial) == columns
    assert columns["proof_error"] == 3.25e-17
    assert launcher.asked == 1


def test_what_could_not_be_proven_is_tried_once_in_each_run(paths: SweepPaths, trial: Trial) -> None:
    """It may have had no time or memory then; a verdict is kept."""
    launcher = ProvingLauncher("NOT PROVEN")
    proofs = Proofs(paths, launcher)
    assert [proofs.for_trial(trial)["proof"] for _ in range(2)] == ["NOT PROVEN"] * 2
    assert launcher.asked == 1
    later = ProvingLauncher()
    assert Proofs(paths, later).for_trial(trial)["proof"] == "PASS"
    assert Proofs(paths, later).for_trial(trial)["proof"] == "PASS"
    assert later.asked == 1


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_proof_on_a_gpu_gives_it_back_before_the_launch_begins(
    device: str, paths: SweepPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes would be taken for somebody else's by the look before the launch."""
    waited_for: list[tuple[int, ...]] = []
    monkeypatch.setattr(proofs, "wait_for_release", lambda pids, **_: waited_for.append(pids))
    sweep = trivial.sweep_of({"seed": [0]}, {"device": device})
    (trial,) = expand(sweep, MachineFacts("cuda", 1))
    assert isinstance(trial, Trial)
    Proofs(paths, ProvingLauncher()).for_trial(trial)
    assert waited_for == ([(4711,)] if device == "cuda" else [])


def test_no_flipped_bit_of_kept_proofs_becomes_a_column(paths: SweepPaths, trial: Trial) -> None:
    """Where the file is not what was written, the proof is made again; three hundred seeded bits."""
    launcher = ProvingLauncher()
    columns = Proofs(paths, launcher).for_trial(trial)
    whole, chance = paths.proofs.read_bytes(), random.Random(3)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        paths.proofs.write_bytes(damaged)
        assert Proofs(paths, launcher).for_trial(trial) == columns
    assert launcher.asked > 200


@pytest.mark.parametrize("point", ["file.write", "file.fsync", "file.rename"])
def test_proof_that_cannot_be_kept_ends_the_sweep_by_name(paths: SweepPaths, trial: Trial, point: str) -> None:
    """A full disk is exit 4 with the path, not a traceback; what was kept before stays as it was."""

    def full(reached: str) -> None:
        if reached == point:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    install(full)
    try:
        with pytest.raises(StorageError, match=r"proofs\.json: cannot be written .*No space left"):
            Proofs(paths, ProvingLauncher()).for_trial(trial)
    finally:
        install(None)
    assert list(paths.folder.glob("*.json")) == []


def test_folder_that_takes_no_proof_ends_the_sweep_by_name(paths: SweepPaths, trial: Trial) -> None:
    """The launch's own folder cannot be made."""
    (paths.folder / "logs").write_text("a file in the way")
    with pytest.raises(StorageError, match=r"logs/proof-.* cannot be made"):
        Proofs(paths, ProvingLauncher()).for_trial(trial)


def test_a_device_that_computes_wrongly_makes_its_launches_invalid(paths: SweepPaths, trial: Trial) -> None:
    """The proof says so, the row of a launch that ended well too, and the next run asks the device again."""
    wrong = "arithmetic: fp32 on GPU: a gradient is off by 1.0e+00; limit 1.2e-04"
    proofs = Proofs(paths, ProvingLauncher("FAIL", wrong))
    proofs.for_trial(trial)
    assert proofs.why_arithmetic_is_wrong(trial) == wrong
    ended_well = LaunchEnd((RankEnd(0, 0, {"outcome": "ok", "rank": 0}, None),), None, 0.01)
    row, _ = row_of("s", PlannedLaunch(trial, 0, 0, 0), ended_well, "2026-01-01T00:00:00+00:00", contradiction=wrong)
    assert (row["outcome"], row["reason"]) == ("invalid", wrong)
    later = ProvingLauncher()
    again = Proofs(paths, later)
    again.for_trial(trial)
    assert later.asked == 1
    assert again.why_arithmetic_is_wrong(trial) is None


def test_a_wrong_step_is_no_fault_of_the_device(paths: SweepPaths, trial: Trial) -> None:
    proofs = Proofs(paths, ProvingLauncher("FAIL"))
    proofs.for_trial(trial)
    assert proofs.why_arithmetic_is_wrong(trial) is None
    assert Proofs(paths, later := ProvingLauncher()).for_trial(trial)["proof"] == "FAIL"
    assert later.asked == 0
