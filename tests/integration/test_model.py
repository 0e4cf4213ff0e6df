"""A sweep against a model of it: whatever happens in whatever order, the folder says what the model says."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bench.errors import BenchError
from bench.record.fault_points import POINTS, install
from bench.record.journal import read_journal
from tests.integration import trivial

pytestmark = pytest.mark.slow

ATTEMPTS_AT_MOST = 3
MAYBE_KILLED = [point for point in POINTS if not point.startswith("launch.")]


class _Died(BaseException):
    """Stands for the death of the driver: nothing of ours catches it."""


class SweepModel(RuleBasedStateMachine):
    """Run, kill, refuse, damage, extend and retry, and compare with a few dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)) / "results"
        self.seeds = 2
        self.finished: dict[int, str] = {}
        """Seed of each trial with an outcome that stays, by what the model knows."""
        self.tries: dict[int, int] = {}
        self.fails: set[int] = set()

    def teardown(self) -> None:
        install(None)
        shutil.rmtree(self.folder.parent)

    def _answer(self, folder: Path, rank: int) -> dict[str, Any]:
        import json

        seed = json.loads((folder / "trial.json").read_text())["config"]["seed"]
        bad = seed in self.fails
        self.launched.append(seed)
        return trivial.answer_of(folder, rank) | {"outcome": "failed" if bad else "ok", "reason": "planned" * bad}

    def _run(self, retry_failed: bool = False, plan: Any = None) -> bool:
        """Run once; true when it came to its end."""
        self.launched: list[int] = []
        sweep = trivial.sweep_of({"seed": list(range(self.seeds))})
        launcher = trivial.InstantLauncher(self._answer)
        install(plan)
        try:
            trivial.run(sweep, self.folder, launcher=launcher, retry_failed=retry_failed)
        except (_Died, BenchError):
            return False
        finally:
            install(None)
        return True

    def _note(self, seed: int) -> None:
        self.finished[seed] = "failed" if seed in self.fails else "ok"
        self.tries[seed] = self.tries.get(seed, 0) + 1

    @rule(retry_failed=st.booleans())
    def run(self, retry_failed: bool) -> None:
        """Run to the end: exactly what the model owes is launched."""
        owed = {seed for seed in range(self.seeds) if seed not in self.finished}
        if retry_failed:
            owed |= {
                seed
                for seed, outcome in self.finished.items()
                if outcome == "failed" and self.tries[seed] < ATTEMPTS_AT_MOST
            }
        assert self._run(retry_failed)
        assert sorted(self.launched) == sorted(owed)
        for seed in owed:
            self._note(seed)

    @rule(point=st.sampled_from(MAYBE_KILLED), visit=st.integers(1, 12), dies=st.booleans())
    def run_cut_short(self, point: str, visit: int, dies: bool) -> None:
        """The driver dies, or the system refuses, at some point: what the journal then holds is what is finished."""
        visits = 0

        def plan(reached: str) -> None:
            nonlocal visits
            visits += reached == point
            if reached == point and visits == visit:
                if dies:
                    raise _Died
                raise OSError(5, "input/output error")

        before = dict(self.finished)
        self._run(plan=plan)
        after = self._in_journal()
        assert before.keys() <= after.keys(), "a finished launch was lost"
        for seed in after.keys() - before.keys():
            self._note(seed)

    @rule(more=st.integers(1, 2))
    def extend(self, more: int) -> None:
        """Add values to the axis."""
        self.seeds = min(self.seeds + more, 6)

    @rule(seed=st.integers(0, 5))
    def change_mind(self, seed: int) -> None:
        """Let a trial fail from now on, or go well again."""
        self.fails ^= {seed}

    @rule(number=st.integers(0, 5), byte=st.integers(0, 10**6))
    def damage_a_part(self, number: int, byte: int) -> None:
        """One finished launch is lost to the disk, and only that one."""
        launches = [record for record in self._records() if record["kind"] == "launch"]
        good = [record for record in launches if self._seed_of(record) in self.finished]
        last = {self._seed_of(record): record for record in good}
        if not last:
            return
        seed = sorted(last)[number % len(last)]
        if self.tries[seed] > 1:
            return  # an earlier attempt would count again, which has a test of its own
        path = self.folder / last[seed]["part"]
        content = bytearray(path.read_bytes())
        content[byte % len(content)] ^= 1
        path.write_bytes(content)
        del self.finished[seed]
        del self.tries[seed]
        assert self._run(), "it is found, named and run again"
        for each in {*self.launched}:
            self._note(each)
        assert seed in self.finished

    @invariant()
    def tables_say_what_the_model_says(self) -> None:
        """Whenever the last run came to its end, each trial has one row with the right outcome."""
        if not (self.folder / "results.parquet").exists():
            return
        table = pd.read_parquet(self.folder / "results.parquet")
        assert not table.duplicated(["trial_id", "round"]).any()

    @invariant()
    def no_number_is_given_twice(self) -> None:
        """Attempts of one trial are numbered apart for ever."""
        keys = [
            (record["trial_id"], record["round"], record["attempt"])
            for record in self._records()
            if record["kind"] == "launch"
        ]
        assert len(keys) == len(set(keys))

    def _records(self) -> tuple[dict[str, Any], ...]:
        path = self.folder / "journal.jsonl"
        return read_journal(path) if path.exists() else ()

    def _in_journal(self) -> dict[int, str]:
        launches = [record for record in self._records() if record["kind"] == "launch"]
        return {self._seed_of(each): each["outcome"] for each in launches if each["outcome"] != "interrupted"}

    def _seed_of(self, record: dict[str, Any]) -> int:
        from bench.sweep.expand import expand

        points = expand(trivial.sweep_of({"seed": list(range(6))}), trivial.CPU)
        return {point.trial_id: point.config.seed for point in points}[record["trial_id"]]  # type: ignore[union-attr]


TestSweepModel = SweepModel.TestCase
TestSweepModel.settings = settings(max_examples=20, stateful_step_count=12, suppress_health_check=list(HealthCheck))
