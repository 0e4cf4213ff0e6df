"""Every planted fault of telemetry gives exactly its flag, and a launch without one gives none."""

from __future__ import annotations

import inspect
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pynvml
import pytest

from bench.record.flags import FLAGS, LAUNCH_FLAG_SENTENCES
from bench.statistics.health import FLAG_SENTENCES
from bench.telemetry import nvml
from bench.telemetry.summary import TELEMETRY_FLAG_SENTENCES
from bench.telemetry.time_limit import LimitedThread, NoAnswerError
from bench.telemetry.watch import GpuWatch
from tests.fake_nvml import FUNCTIONS, GIB, OWN_PID, FakeGpu, FakeNvml
from tests.patience import HANG_S, PATIENCE_S, wait_until
from tests.telemetry_script import play

GPU = FakeGpu()
NOT_SUPPORTED, NO_PERMISSION, NOT_LOADED, FUNCTION_NOT_FOUND, LOST = 3, 4, 9, 13, 15
NO_COUNTERS: dict[str, Any] = {"nvmlDeviceGetViolationStatus": (0.0, NOT_SUPPORTED)}
OLD_NAMES: dict[str, Any] = {"nvmlDeviceGetCurrentClocksEventReasons": (0.0, FUNCTION_NOT_FOUND)}
MIDDLE_S = 5.0


@pytest.fixture(autouse=True)
def not_hung() -> Iterator[None]:
    """Forget before and after that NVML ever hung in this process."""
    nvml.hangs.forget()
    yield
    nvml.hangs.forget()


def during(value: Any, normal: Any, from_s: float = MIDDLE_S, to_s: float = MIDDLE_S + 0.05) -> Any:
    """Tell something else for a while, by default at one sample in the middle of the timed part."""
    return lambda s: value if from_s <= s < to_s else normal


def growing(share: float) -> Any:
    """Count that share of the time [ns]."""
    return lambda s: int(share * s * 1e9)


def healthy(**figures: Any) -> FakeGpu:
    return replace(GPU, **{name: told if callable(told) else _always(told) for name, told in figures.items()})


def _always(value: Any) -> Any:
    return lambda s: value


def with_others(from_s: float, to_s: float) -> FakeGpu:
    """Let a stranger compute on the GPU for a while; our rank is there from 1 s on."""

    def listed(s: float) -> list[tuple[int, int]]:
        ours = [(OWN_PID, 9 * GIB)] if s >= 1 else []
        return [*ours, (99, GIB)] if from_s <= s < to_s else ours

    return healthy(processes=listed)


FAULTS: dict[str, tuple[FakeGpu, dict[str, Any], set[str]]] = {
    "nothing": (GPU, {}, set()),
    "hardware: heat, one sample": (healthy(reasons=during(0x48, 0)), {}, {"throttled_hw"}),
    "hardware: power brake, one sample": (healthy(reasons=during(0x88, 0)), {}, {"throttled_hw"}),
    "hardware: heat, by the older name": (
        healthy(reasons=during(0x40, 0)),
        {"refused": OLD_NAMES},
        {"throttled_hw"},
    ),
    "hardware: heat before the timed part": (healthy(reasons=during(0x48, 0, 0.0, 1.95)), {}, set()),
    "hardware: heat after the timed part": (healthy(reasons=during(0x48, 0, 8.05, 9.0)), {}, set()),
    "hardware: no cause stated": (healthy(reasons=during(0x8, 0)), {}, set()),
    "software: heat, counted 5 %": (healthy(thermal_violation_ns=growing(0.05)), {}, {"throttled_thermal"}),
    "software: heat, counted 0.9 %": (healthy(thermal_violation_ns=growing(0.009)), {}, set()),
    "software: heat, polled": (
        healthy(reasons=during(0x20, 0)),
        {"refused": NO_COUNTERS},
        {"throttled_thermal"},
    ),
    "software: heat, in a poll but 0 counted": (healthy(reasons=during(0x20, 0)), {}, set()),
    "software: power cap all the time": (healthy(reasons=0x4, power_violation_ns=growing(1.0)), {}, set()),
    "idle, application clocks, sync boost, display": (healthy(reasons=0x1 | 0x2 | 0x10 | 0x100), {}, set()),
    "clock: last third 4 % lower": (healthy(sm_clock_mhz=during(1344, 1400, 6.0, 99)), {}, {"clock_drop"}),
    "clock: last third 2 % lower": (healthy(sm_clock_mhz=during(1372, 1400, 6.0, 99)), {}, set()),
    "clock: rises": (healthy(sm_clock_mhz=during(1344, 1400, 0, 4.0)), {}, set()),
    "clock: one low sample": (healthy(sm_clock_mhz=during(300, 1400)), {}, set()),
    "clock: below 75 % of the default": (healthy(sm_clock_mhz=860), {}, {"clock_low"}),
    "clock: just above 75 % of the default": (healthy(sm_clock_mhz=870), {}, set()),
    "clock: below 75 % of the highest, no default": (
        healthy(sm_clock_mhz=1050),
        {"refused": {"nvmlDeviceGetDefaultApplicationsClock": (0.0, NOT_SUPPORTED)}},
        {"clock_low"},
    ),
    "clock: low before the timed part": (healthy(sm_clock_mhz=during(300, 1400, 0.0, 1.95)), {}, set()),
    "others: between two full samples": (with_others(5.1, 5.15), {}, set()),
    "others: at one full sample": (
        with_others(5.0, 5.25),
        {},
        {"gpu_shared"},
    ),
    "others: before the launch": (
        with_others(0.0, 1.0),
        {},
        {"gpu_shared"},
    ),
    "others: during warm-up": (with_others(1.0, 1.5), {}, {"gpu_shared"}),
    "container: the host's ids, ours alone": (healthy(processes=during([], [(31, GIB)], 0.0, 1.0)), {}, set()),
    "container: the host's ids, two processes": (
        healthy(processes=during([], [(31, GIB), (32, GIB)], 0.0, 1.0)),
        {},
        {"gpu_shared"},
    ),
    "container: a stranger has our id on the host": (
        healthy(processes=[(OWN_PID, GIB), (31, GIB)]),
        {},
        {"gpu_shared"},
    ),
    "container: a stranger alone, with our id": (healthy(processes=[(OWN_PID, GIB)]), {}, {"gpu_shared"}),
    "container: nothing is listed": (healthy(processes=[]), {}, set()),
    "ECC: an error in the timed part": (healthy(ecc_uncorrected=during(1, 0, 5.0, 99)), {}, {"ecc_error"}),
    "ECC: an error in the warm-up": (healthy(ecc_uncorrected=during(1, 0, 1.0, 99)), {}, {"ecc_error"}),
    "ECC: errors from before": (healthy(ecc_uncorrected=5), {}, set()),
    "NVML: too old": (GPU, {"refused": {"nvmlInit": (0.0, FUNCTION_NOT_FOUND)}}, {"nvml_missing"}),
    "NVML: not loaded": (GPU, {"refused": {"nvmlInit": (0.0, NOT_LOADED)}}, {"nvml_missing"}),
    "NVML: no permission": (GPU, {"refused": {"nvmlInit": (0.0, NO_PERMISSION)}}, {"nvml_missing"}),
    "NVML: another version": (GPU, {"refused": {"nvmlInit": (0.0, 18)}}, {"nvml_missing"}),
    "NVML: does not know the GPU": (GPU, {"uuids": ["GPU-b"]}, {"nvml_missing"}),
    "NVML: everything is refused": (GPU, {"refused": {"*": (0.0, NO_PERMISSION)}}, {"nvml_missing"}),
    "GPU: lost before the launch": (GPU, {"refused": {"*": (0.0, LOST)}}, {"nvml_missing"}),
    "GPU: lost in the timed part": (GPU, {"refused": {"*": (5.0, LOST)}}, {"nvml_missing"}),
    "GPU: lost after the timed part": (GPU, {"refused": {"*": (8.5, LOST)}}, set()),
    "launch failed before it was timed": (GPU, {"timed_s": None}, set()),
    "launch failed, GPU shared": (
        with_others(0.0, 1.0),
        {"timed_s": None},
        {"gpu_shared"},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_gives_exactly_its_flag(name: str) -> None:
    """100 % of the table, and nothing beside it."""
    gpu, options, expected = FAULTS[name]
    assert set(play([gpu], **options).flags) == expected


@pytest.mark.parametrize("name", FAULTS)
def test_fault_of_one_gpu_of_two_is_found(name: str) -> None:
    """The other GPU is well, and hides nothing."""
    gpu, options, expected = FAULTS[name]
    both = [FakeGpu("GPU-z", processes=lambda s: [(4712, GIB)] if s >= 1 else []), gpu]
    if "uuids" in options:
        options = options | {"uuids": ["GPU-z", *options["uuids"]]}
    assert set(play(both, own_pids=(4712, OWN_PID), **options).flags) == expected


@pytest.mark.slow
@pytest.mark.parametrize("hangs_from_s", [0.0, 5.0])
def test_call_that_hangs_is_a_missing_nvml_and_the_launch_goes_on(hangs_from_s: float) -> None:
    """Nothing waits longer than the limit of one call, and what was told before is kept."""
    never = threading.Event()
    gpu = healthy(power_mw=lambda s: never.wait(PATIENCE_S) if s >= hangs_from_s else 300_000)
    health = play([gpu], call_limit_s=HANG_S)
    never.set()
    assert set(health.flags) == {"nvml_missing"}
    assert "does not answer" in health.columns["telemetry_problem"]
    assert (health.columns.get("power_mean_w") is None) == (hangs_from_s == 0.0)


@pytest.mark.slow
def test_launch_after_a_hang_asks_nothing_until_the_call_came_back() -> None:
    """The second launch is flagged at once, and no second thread hangs; the third is watched as if nothing was."""
    never = threading.Event()
    play([healthy(power_mw=lambda s: never.wait(PATIENCE_S))], call_limit_s=HANG_S)
    asked: list[float] = []
    assert set(play([healthy(power_mw=asked.append)]).flags) == {"nvml_missing"}
    assert asked == []
    never.set()
    wait_until(lambda: nvml.hangs.problem() is None, "the call comes back")
    health = play([GPU])
    assert (health.flags, health.columns["power_mean_w"]) == ((), 300.0)


@pytest.mark.slow
def test_polling_goes_on_when_the_call_that_hung_comes_back() -> None:
    """With the same thread, in the same launch; its late answer is not taken for that of the next question."""
    never = threading.Event()
    told: list[float] = []

    def power_mw(s: float) -> int:
        told.append(s)
        return 300_000 if len(told) != 3 else int(never.wait(PATIENCE_S))

    watch = GpuWatch(FakeNvml([healthy(power_mw=power_mw)], time.monotonic), period_s=0.01, call_limit_s=HANG_S)
    watch.choose([GPU.uuid])
    watch.start()
    wait_until(lambda: watch.problem, "a call hangs")
    never.set()
    wait_until(lambda: len(watch.tracks()[0].samples) >= 6, "samples come again")
    (track,) = watch.stop()
    watch.close()
    assert {sample.power_mw for sample in track.samples[:-1]} == {300_000}


def test_library_that_comes_back_is_asked_again_but_not_for_ever() -> None:
    """Three hangs in a row, each of which may have cost a launch a minute, are enough."""
    hangs, thread = nvml.Hangs(), SimpleNamespace(hangs=True)
    assert hangs.problem() is None
    for number in range(1, 4):
        hangs.note(cast(Any, thread))
        assert "does not answer" in (hangs.problem() or "")
        thread.hangs = False
        assert (hangs.problem() is None) == (number < 3)
        thread.hangs = True
    hangs.forget()
    assert hangs.problem() is None


def test_launches_that_get_no_sample_do_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the library starts is no answer: each launch would wait for the call that hangs, though it comes back."""
    asked: list[str] = []

    def ask(thread: LimitedThread, question: Any, limit_s: float) -> Any:
        asked.append("question")
        if len(asked) % 2:
            return question()  # the library starts
        monkeypatch.setattr(thread, "_is_left_behind", False)  # the call has come back when NVML is asked next
        raise NoAnswerError(thread)

    monkeypatch.setattr(LimitedThread, "ask", ask)
    for _ in range(5):
        asked_before = len(asked)
        assert set(play([GPU]).flags) == {"nvml_missing"}
        assert len(asked) - asked_before <= 2
    assert len(asked) == 6


class Limits(FakeNvml):
    """Note the limit of each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__([GPU], lambda: 0.0)
        self.limits_s: dict[str, set[float]] = {}
        self._now: list[float] = []
        ask = LimitedThread.ask

        def noting(thread: LimitedThread, question: Any, limit_s: float) -> Any:
            self._now.append(limit_s)
            return ask(thread, question, limit_s)

        monkeypatch.setattr(LimitedThread, "ask", noting)

    def _call(self, name: str, *arguments: Any) -> Any:
        self.limits_s.setdefault(name, set()).add(self._now[-1])
        return super()._call(name, *arguments)


@pytest.mark.parametrize("uuids", [[GPU.uuid], []])
def test_calls_that_may_bring_up_a_gpu_have_the_long_limit(uuids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call for a handle does, not the start of the library; with persistence mode off it takes seconds."""
    fake = Limits(monkeypatch)
    monkeypatch.setitem(sys.modules, "pynvml", cast(Any, fake))
    assert nvml.read_nvml(first_limit_s=40.0, call_limit_s=30.0).gpus[0].uuid == GPU.uuid
    watch = GpuWatch(fake, call_limit_s=30.0, first_limit_s=40.0)
    watch.choose(uuids)
    assert list(watch.look()) == [GPU.uuid]
    watch.close()
    longest = {"nvmlInit", "nvmlShutdown", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByUUID"}
    assert {name for name, limits in fake.limits_s.items() if limits == {40.0}} == fake.limits_s.keys() & longest
    assert {name for name, limits in fake.limits_s.items() if limits == {30.0}} == fake.limits_s.keys() - longest
    assert longest - fake.limits_s.keys() == (set() if uuids else {"nvmlDeviceGetHandleByUUID"})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_script_has_the_functions_of_the_real_bindings(name: str) -> None:
    """With as many arguments as are used: else the script would prove nothing."""
    fake = FakeNvml([GPU], lambda: 0.0)
    assert callable(getattr(fake, name))
    real = inspect.signature(inspect.unwrap(getattr(pynvml, name)))
    used = {"nvmlDeviceGetHandleByUUID": ["u"], "nvmlDeviceGetMemoryInfo": ["h", "v"]}.get(name)
    if used is not None:
        real.bind(*used)


def test_every_flag_is_explained_in_the_documentation() -> None:
    """docs/method.md lists each with its sentence, and no other."""
    page = (Path(__file__).parents[3] / "docs" / "method.md").read_text()
    section = page.partition("\n## Flags\n")[2].partition("\n*")[0]
    listed = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, flags=re.MULTILINE)
    assert dict(listed) == FLAGS
    assert len(listed) == len(FLAGS)


@pytest.mark.parametrize("name", ["_flag", "flags.append"])
def test_every_flag_of_a_launch_is_explained(name: str) -> None:
    """Those that samples raise are asserted to be where they are raised."""
    sources = [path.read_text() for path in (Path(__file__).parents[3] / "bench" / "launch").glob("*.py")]
    raised = {flag for text in sources for flag in re.findall(rf'{re.escape(name)}\("(\w+)"\)', text)}
    assert raised
    assert raised <= LAUNCH_FLAG_SENTENCES.keys()


def test_flags_of_telemetry_and_of_samples_have_names_of_their_own() -> None:
    """One name, one meaning; and every telemetry flag but hot_start is planted above."""
    assert len(FLAGS) == len(FLAG_SENTENCES) + len(TELEMETRY_FLAG_SENTENCES) + len(LAUNCH_FLAG_SENTENCES)
    planted = {flag for _, _, expected in FAULTS.values() for flag in expected}
    assert planted == TELEMETRY_FLAG_SENTENCES.keys() - {"hot_start"}
