"""Which GPUs are watched, when a hot one is waited for, and that a CPU trial asks nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pynvml
import pytest

from bench.drive.telemetry import Telemetry
from bench.launch.launcher import LaunchEnd
from bench.telemetry import nvml
from bench.telemetry.watch import GpuWatch
from tests.fake_nvml import OWN_PID, FakeGpu, FakeNvml, ScriptClock
from tests.telemetry_script import TIMED_S, Stepped, end_of


@pytest.fixture(autouse=True)
def not_hung() -> Iterator[None]:
    """Forget before and after that NVML ever hung in this process."""
    nvml.hangs.forget()
    yield
    nvml.hangs.forget()


class Bench:
    """Hold one GPU whose temperature the test sets, and what waits."""

    def __init__(self, uuids: tuple[str, ...] = ("GPU-a",), **options: Any) -> None:
        self.temperature_c: int | None = 60
        self.waits: list[float] = []
        self.cools_by_c = 0
        self.gpu = FakeGpu(temperature_c=lambda s: self.temperature_c)
        clock = ScriptClock()
        self.watch = Stepped(GpuWatch(FakeNvml([self.gpu, FakeGpu("GPU-b")], clock), clock), clock)
        self.telemetry = Telemetry(uuids, self.watch, sleep=self.sleep, **options)

    def sleep(self, seconds: float) -> None:
        """Wait, while the GPU cools."""
        self.waits.append(seconds)
        if self.temperature_c is not None:
            self.temperature_c -= self.cools_by_c

    def launch(self, took_s: float = 1000.0, **options: Any) -> Any:
        """Run a launch that took so long; give its health."""
        with self.telemetry.watching("cuda", 1, **options) as launch:
            pass
        self.telemetry._last_launch_s = took_s
        return launch.health(end_of([self.gpu], [OWN_PID], TIMED_S))


def test_gpu_as_warm_as_at_first_is_not_waited_for() -> None:
    """Up to 3 degrees; the first launch waits for nothing."""
    bench = Bench()
    assert bench.launch().flags == ()
    bench.temperature_c = 63
    assert bench.launch().flags == ()
    assert bench.waits == []


def test_hot_gpu_is_waited_for_until_it_is_cool() -> None:
    """And then there is no doubt."""
    bench = Bench()
    bench.launch()
    bench.temperature_c, bench.cools_by_c = 70, 2
    assert bench.launch().flags == ()
    assert bench.waits == [1.0] * 4


def test_gpu_that_stays_hot_is_flagged_after_a_minute() -> None:
    """Above the first launch of this run by more than 3 degrees."""
    bench = Bench()
    bench.launch()
    bench.temperature_c = 64
    assert bench.launch().flags == ("hot_start",)
    assert sum(bench.waits) == 60.0


@pytest.mark.parametrize(
    ("options", "took_s", "waited_s"), [({"cool_down_s": 0.0}, 1000.0, 0.0), ({}, 2.5, 2.5), ({}, 0.0, 0.0)]
)
def test_wait_is_no_longer_than_the_last_launch_and_can_be_left_out(
    options: dict[str, float], took_s: float, waited_s: float
) -> None:
    """A sweep of short launches must not become one of waits."""
    bench = Bench(**options)
    bench.launch(took_s)
    bench.temperature_c = 80
    assert bench.launch().flags == ("hot_start",)
    assert sum(bench.waits) == waited_s


def test_wait_ends_when_the_sweep_is_interrupted() -> None:
    """Ctrl-C is not kept waiting; the screen is kept alive meanwhile."""
    bench = Bench()
    bench.launch()
    bench.temperature_c = 80
    shown: list[int] = []
    bench.launch(on_wait=lambda: shown.append(1), is_hurried=lambda: len(shown) == 2)
    assert (len(bench.waits), len(shown)) == (2, 2)


def test_gpu_without_a_temperature_is_not_waited_for() -> None:
    """Nothing to hold it against."""
    bench = Bench()
    bench.temperature_c = None
    bench.launch()
    bench.temperature_c = 99
    assert bench.launch().flags == ()
    bench.temperature_c = None
    assert bench.launch().flags == ()
    assert bench.waits == []


@pytest.mark.parametrize("uuids", [("GPU-a",), ("GPU-a", "GPU-b"), ()])
def test_gpus_of_the_launch_are_watched_and_no_others(uuids: tuple[str, ...]) -> None:
    """Found by what torch told before; where it told nothing all are watched, and the rank says which was its own."""
    bench = Bench(uuids)
    assert bench.launch().flags == ()
    assert [track.uuid for track in bench.watch.tracks()] == (["GPU-a"] if uuids else ["GPU-a", "GPU-b"])


def test_rank_on_another_gpu_than_expected_is_not_given_the_wrong_figures() -> None:
    """CUDA's order is not NVML's: only the UUID decides."""
    bench = Bench(("GPU-b",))
    health = bench.launch()
    assert health.flags == ("nvml_missing",)
    assert health.columns.get("power_mean_w") is None
    assert "does not know the GPU" in health.columns["telemetry_problem"]


def test_rank_that_said_nothing_had_the_gpu_it_was_to_take() -> None:
    """A launch that failed early has its health too."""
    bench = Bench()
    with bench.telemetry.watching("cuda", 1) as launch:
        pass
    silent = end_of([bench.gpu], [OWN_PID], None).ranks[0]
    end = LaunchEnd((type(silent)(0, 1, None, None),), None, 1.0, pids=(OWN_PID,))
    assert launch.health(end).columns["foreign_processes"] == 0


def test_rank_that_said_nothing_had_the_only_gpu_that_was_watched() -> None:
    """Torch had not told which one it would take."""
    bench = Bench(())
    with bench.telemetry.watching("cuda", 1) as launch:
        pass
    launch.tracks = launch.tracks[:1]
    silent = end_of([bench.gpu], [OWN_PID], None).ranks[0]
    end = LaunchEnd((type(silent)(0, 1, None, None),), None, 1.0, pids=(OWN_PID,))
    assert launch.health(end).columns["foreign_processes"] == 0


def test_launch_whose_gpus_could_not_be_watched_says_so() -> None:
    """NVML refused nothing, and gave nothing either."""
    bench = Bench()
    with bench.telemetry.watching("cuda", 1) as launch:
        pass
    launch.tracks = []
    health = launch.health(end_of([bench.gpu], [OWN_PID], TIMED_S))
    assert health.columns["telemetry_problem"] == "no GPU could be watched"


def test_gpu_that_tells_nothing_is_left_out_of_a_look() -> None:
    """What it is now is not known, so it is neither hot nor cool."""
    clock = ScriptClock()
    watch = GpuWatch(FakeNvml([FakeGpu()], clock, {"*": (0.5, pynvml.NVML_ERROR_NOT_SUPPORTED)}), clock)
    watch.choose(["GPU-a"])
    assert list(watch.look()) == ["GPU-a"]
    clock.now_s = 1.0
    assert watch.look() == {}


def test_launch_that_ended_before_the_driver_was_asked_says_so() -> None:
    """Its GPU is well known."""
    bench = Bench()
    bench.watch.is_asleep = True
    health = bench.launch()
    assert health.flags == ("nvml_missing",)
    assert health.columns["telemetry_problem"] == "the launch ended before NVML was asked"


@pytest.mark.parametrize("is_open", [True, False], ids=["to poll in", "to ask in"])
def test_launch_goes_on_where_no_thread_is_left_to_watch_it(is_open: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row says why it has no health."""
    clock = ScriptClock()
    watch = GpuWatch(FakeNvml([FakeGpu()], clock), clock)
    telemetry = Telemetry(("GPU-a",), watch)
    if is_open:
        watch.choose(["GPU-a"])

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with telemetry.watching("cuda", 1) as launch:
        pass
    health = launch.health(end_of([FakeGpu()], [OWN_PID], TIMED_S))
    telemetry.close()
    assert health.flags == ("nvml_missing",)
    assert "No thread can be started: this user may have" in health.columns["telemetry_problem"]


def test_trial_on_a_cpu_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No binding is loaded, no thread is started, no flag is raised."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    telemetry = Telemetry(("GPU-a",))
    with telemetry.watching("cpu", 2) as launch:
        pass
    health = launch.health(LaunchEnd((), None, 1.0))
    assert (health.columns, health.flags) == ({}, ())
    assert telemetry._watch is None


def test_missing_bindings_are_a_missing_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said in the row, and the launch goes on."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    telemetry = Telemetry(("GPU-a",))
    with telemetry.watching("cuda", 1) as launch:
        pass
    health = launch.health(end_of([FakeGpu()], [OWN_PID], TIMED_S))
    assert health.flags == ("nvml_missing",)
    assert "nvidia-ml-py is not installed" in health.columns["telemetry_problem"]


def test_polling_ends_when_the_launch_breaks_off() -> None:
    """An error of the launcher leaves no thread behind."""
    bench = Bench()
    with pytest.raises(OSError, match="planted"), bench.telemetry.watching("cuda", 1):
        raise OSError("planted")
    assert bench.watch.stopped == 1
