"""When a launch has gone on for too long, by a counted clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.launch.heartbeat import Beat, Heartbeat, read_beat
from bench.launch.watchdog import LaunchLimits, Stopped, Watchdog
from tests.fakes import full_plan


def beat(at_s: float, *, update: int = 1, micro_steps: int = 1, beats: int = 10) -> Beat:
    return Beat("forward", update, 0, at_s, beats, micro_steps)


LIMITS = LaunchLimits(start_s=100.0, total_s=5000.0, stall_s=60.0)


def test_start_limit_holds_until_every_rank_ended_a_micro_step() -> None:
    """One rank that never starts is enough."""
    watchdog = Watchdog(LIMITS, 0.0)
    beats = {0: beat(99.0), 1: beat(1.0, update=0, micro_steps=0)}
    assert watchdog.look(beats, 100.0) is None
    stopped = watchdog.look(beats, 100.5)
    assert stopped is not None
    assert stopped.outcome == "timeout"
    assert "start limit of 100 s" in stopped.reason


def test_slow_first_update_has_started_with_its_first_micro_step(tmp_path: Path) -> None:
    """It may take longer than the start limit: what is not silent is no hang, and what fits must not time out."""
    heartbeat, watchdog = Heartbeat(tmp_path / "beat"), Watchdog(LIMITS, 0.0)
    heartbeat.beat("build")

    def look(at_s: float) -> Stopped | None:
        seen = read_beat(tmp_path / "beat")
        assert seen is not None
        return watchdog.look({0: replace(seen, monotonic_s=at_s)}, at_s)

    heartbeat.window_begin(full_plan(0, micro_steps=30))
    heartbeat.phase_begin("forward")
    assert look(40.0) is None
    for number in range(1, 31):
        heartbeat.phase_begin("backward")
        heartbeat.micro_step_end()
        heartbeat.phase_begin("forward" if number < 30 else "update")
        assert look(40.0 + 50.0 * number) is None
    assert heartbeat.update == 0


def test_rank_without_data_in_its_first_windows_has_started_with_its_first_update() -> None:
    """It ends no micro-step until it has some."""
    watchdog = Watchdog(LIMITS, 0.0)
    assert watchdog.look({0: beat(90.0), 1: beat(90.0, update=1, micro_steps=0)}, 101.0) is None


def test_what_comes_before_the_first_window_counts_as_no_micro_step() -> None:
    """A start of 50 s is not a micro-step of 50 s: silence after it is a hang as soon as after any other."""
    watchdog = Watchdog(LIMITS, 0.0)
    assert watchdog.look({0: beat(1.0, update=-1, micro_steps=0, beats=1)}, 1.0) is None
    assert watchdog.look({0: beat(50.0, update=0, micro_steps=0, beats=2)}, 50.0) is None
    assert watchdog.look({0: beat(51.0, update=0, micro_steps=1, beats=3)}, 51.0) is None
    assert watchdog.stall_limit_s == 60.0


def test_silence_is_a_hang_of_the_rank_that_got_least_far() -> None:
    """The peer that waits for it is as silent, a little later."""
    watchdog = Watchdog(LIMITS, 0.0)
    assert watchdog.look({0: beat(10.0, beats=11), 1: beat(9.0)}, 69.0) is None
    stopped = watchdog.look({0: beat(10.0, beats=11), 1: beat(9.0)}, 70.5)
    assert stopped is not None
    assert (stopped.outcome, stopped.rank) == ("hang", 1)


def test_slow_micro_steps_get_twenty_times_their_median() -> None:
    """A micro-step of ten seconds is no hang at sixty-one."""
    watchdog = Watchdog(LIMITS, 0.0)
    for number in range(6):
        assert watchdog.look({0: beat(10.0 * number, micro_steps=number, beats=number)}, 10.0 * number) is None
    assert watchdog.stall_limit_s == 200.0
    last = {0: beat(50.0, micro_steps=5, beats=5)}
    assert watchdog.look(last, 240.0) is None
    assert watchdog.look(last, 251.0) is not None


def test_time_in_which_everything_was_stopped_counts_for_no_limit() -> None:
    """A suspended sweep is not a hanging one."""
    watchdog = Watchdog(LIMITS, 0.0)
    beats = {0: beat(10.0)}
    assert watchdog.look(beats, 11.0) is None
    watchdog.excuse(5000.0, 5011.0)
    assert watchdog.look(beats, 5012.0) is None
    stopped = watchdog.look(beats, 5072.0)
    assert stopped is not None
    assert stopped.outcome == "hang"


def test_limits_of_the_launch_and_of_the_sweep_end_it_whatever_it_does() -> None:
    """The first is the launch's fault, the second nobody's."""
    busy = {0: beat(5000.0)}
    over = Watchdog(LIMITS, 0.0).look(busy, 5000.5)
    assert over is not None
    assert over.outcome == "timeout"
    no_room = Watchdog(LaunchLimits(100.0, 1000.0, 60.0, sweep_s=30.0), 0.0).look({0: beat(30.0)}, 30.5)
    assert no_room is not None
    assert no_room.outcome == "interrupted"
