"""What no test enters is found, and so is what the list of reasons excuses in vain."""

from __future__ import annotations

from tests.cuda.entered import Excuse, Missed, missed, read_list, verdict

DEVICE, RANK = "bench/measure/cuda.py", "bench/rank/worker.py"
SOURCES = {DEVICE: ["a = 1", "b = 2"], RANK: ["if device == 'cuda':", "    x()", "else:", "    y()"]}


def report(device: list[int], rank: list[int], ways: list[list[int]]) -> dict[str, object]:
    return {
        DEVICE: {"missing_lines": device, "missing_branches": []},
        RANK: {"missing_lines": rank, "missing_branches": ways},
    }


def test_what_either_run_enters_is_entered() -> None:
    assert missed([report([], [2], [[1, 2]]), report([], [4], [[1, 4]])], SOURCES) == []


def test_the_device_counts_only_with_the_stand_in_under_it() -> None:
    assert missed([report([2], [], []), report([], [], [])], SOURCES) == [Missed(DEVICE, 2, "b = 2")]


def test_in_other_files_the_lines_that_speak_of_cuda_count_with_their_branches() -> None:
    found = missed([report([], [2], [[1, 2]]), report([], [2], [[1, 2]])], SOURCES)
    assert found == [Missed(RANK, 1, "if device == 'cuda':", 2)]


def test_a_file_that_nobody_imports_is_missed() -> None:
    assert missed([{}, {}], {"bench/telemetry/new.py": ["import os"]})


def test_what_is_listed_is_excused_and_what_is_listed_in_vain_is_named() -> None:
    found = [Missed(DEVICE, 2, "b = 2"), Missed(DEVICE, 1, "a = 1")]
    listed = [Excuse(DEVICE, "b = 2", "no"), Excuse(DEVICE, "c = 3", "no")]
    told = verdict(found, listed)
    assert told == [
        f"no test enters {DEVICE}:1: a = 1",
        f"not_entered.toml lists what is entered: {DEVICE}: c = 3",
    ]


def test_every_reason_says_something() -> None:
    assert all(len(one.reason) > 10 for one in read_list())
