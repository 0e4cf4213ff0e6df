"""Signs of life through a mapped file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from bench.launch.heartbeat import PHASES, Heartbeat, read_beat


def test_reader_sees_phase_update_and_micro_batch_of_the_last_beat(tmp_path: Path) -> None:
    """Phase by phase through one window."""
    path = tmp_path / "beat"
    heartbeat = Heartbeat(path)
    plan = cast(Any, SimpleNamespace(update=7))
    heartbeat.window_begin(plan)
    heartbeat.phase_begin("forward")
    heartbeat.phase_begin("backward")
    heartbeat.micro_step_end()
    heartbeat.phase_begin("forward")
    beat = read_beat(path)
    assert beat is not None
    assert (beat.phase, beat.update, beat.micro_batch, beat.beats) == ("forward", 7, 1, 4)
    heartbeat.update_end(cast(Any, None))
    after = read_beat(path)
    assert after is not None
    assert (after.phase, after.micro_batch) == ("data", -1)
    assert after.monotonic_s >= beat.monotonic_s


def test_missing_or_torn_heartbeat_is_none(tmp_path: Path) -> None:
    """A rank that never beat, or a file cut short, is no error."""
    assert read_beat(tmp_path / "none") is None
    (tmp_path / "torn").write_bytes(b"\x01\x02")
    assert read_beat(tmp_path / "torn") is None
    (tmp_path / "zero").write_bytes(bytes(40))
    assert read_beat(tmp_path / "zero") is None


def test_every_phase_survives_the_round_trip(tmp_path: Path) -> None:
    """Names become numbers and come back."""
    heartbeat = Heartbeat(tmp_path / "beat")
    for phase in PHASES:
        heartbeat.beat(phase)
        beat = read_beat(tmp_path / "beat")
        assert beat is not None
        assert beat.phase == phase
