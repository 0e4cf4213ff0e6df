"""A made corpus is kept whole or not at all, whoever else is at work."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import StorageError
from bench.workload.data.cache import Entry, Made, cache_folder, content_hash, open_or_make
from tests.patience import PATIENCE_S


def made(*ids: int) -> Made:
    return Made(np.array(ids, dtype=np.uint16), np.array([0, len(ids)], dtype=np.int64), vocab_size=max(ids) + 1)


def counting(answer: Made) -> tuple[Callable[[], Made], list[int]]:
    calls: list[int] = []

    def make() -> Made:
        calls.append(1)
        return answer

    return make, calls


def entry_folder() -> Path:
    (folder,) = [path for path in cache_folder().iterdir() if not path.name.startswith(".")]
    return folder


def test_second_opening_does_not_make_it_again() -> None:
    """What was made once is mapped from disk."""
    make, calls = counting(made(3, 1, 4))
    open_or_make({"a": 1}, make)
    entry = open_or_make({"a": 1}, make)
    assert entry.tokens.tolist() == [3, 1, 4]
    assert isinstance(entry.tokens, np.memmap)
    assert not entry.tokens.flags.writeable
    assert len(calls) == 1


def test_other_key_is_another_entry() -> None:
    """Two states of a source do not meet."""
    open_or_make({"a": 1}, lambda: made(1))
    assert open_or_make({"a": 2}, lambda: made(2)).tokens.tolist() == [2]


def _empty(folder: Path) -> None:
    for file in folder.iterdir():
        file.write_bytes(b"")


def _shorten_tokens(folder: Path) -> None:
    file = folder / "tokens.npy"
    file.write_bytes(file.read_bytes()[:-2])


def _empty_tokens(folder: Path) -> None:
    (folder / "tokens.npy").write_bytes(b"")


def _lose_tokens(folder: Path) -> None:
    (folder / "tokens.npy").unlink()


def _swap_tokens(folder: Path) -> None:
    np.save(folder / "tokens.npy", np.array([1], dtype=np.uint16))


def _swap_offsets(folder: Path) -> None:
    np.save(folder / "offsets.npy", np.array([0, 1], dtype=np.int64))


def _swap_both(folder: Path) -> None:
    _swap_tokens(folder)
    _swap_offsets(folder)


@pytest.mark.parametrize(
    "damage",
    [
        _empty,
        _empty_tokens,
        _shorten_tokens,
        _lose_tokens,
        _swap_tokens,
        _swap_offsets,
        _swap_both,
        shutil.rmtree,
    ],
)
def test_damaged_entry_is_made_again(damage: Callable[[Path], None]) -> None:
    """Emptied, cut, missing or foreign files are not served and do not stop the run."""
    make, calls = counting(made(3, 1, 4))
    open_or_make({"a": 1}, make)
    damage(entry_folder())
    assert open_or_make({"a": 1}, make).tokens.tolist() == [3, 1, 4]
    assert len(calls) == 2


def test_loser_of_a_race_uses_the_winners_entry() -> None:
    """An entry that appears while one is being made stands, and nothing is left aside."""

    def slow_make() -> Made:
        open_or_make({"a": 1}, lambda: made(7, 7))  # the other process is faster
        return made(7, 7)

    assert open_or_make({"a": 1}, slow_make).tokens.tolist() == [7, 7]
    assert list(cache_folder().iterdir()) == [entry_folder()]


def _open_at_once(barrier: Any, results: Any) -> None:
    barrier.wait(PATIENCE_S)
    entry: Entry = open_or_make({"race": 1}, lambda: made(*range(2000)))
    results.put((entry.facts["content_hash"], int(entry.tokens.sum())))


@pytest.mark.slow
def test_processes_that_race_all_end_well() -> None:
    """Four processes make the same corpus at once; all read the same, one entry stays."""
    context = get_context("spawn")
    barrier, results = context.Barrier(4), context.Queue()
    processes = [context.Process(target=_open_at_once, args=(barrier, results)) for _ in range(4)]
    for process in processes:
        process.start()
    answers = {results.get(timeout=PATIENCE_S) for _ in processes}
    for process in processes:
        process.join(PATIENCE_S)
    assert len(answers) == 1
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(list(cache_folder().iterdir())) == 1


def test_cache_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way out is named."""
    blocked = tmp_path / "file-in-the-way"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.raises(StorageError, match=r"cannot be kept .* Set XDG_CACHE_HOME"):
        open_or_make({"a": 1}, lambda: made(1))


def test_without_a_cache_home_the_temporary_directory_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each user has a folder of their own there, closed to others."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    open_or_make({"a": 1}, lambda: made(1))
    assert cache_folder().is_relative_to(tmp_path)
    assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700


@given(st.lists(st.integers(0, 65535), min_size=1, max_size=20), st.data())
def test_hash_depends_on_values_and_borders_alone(ids: list[int], data: st.DataObject) -> None:
    """The stored width of ids does not matter; any changed id or border does."""
    narrow, wide = np.array(ids, dtype=np.uint16), np.array(ids, dtype=np.uint32)
    offsets = np.array([0, len(ids)], dtype=np.int64)
    assert content_hash(narrow, offsets) == content_hash(wide, offsets)
    changed = narrow.copy()
    changed[data.draw(st.integers(0, len(ids) - 1))] ^= 1
    assert content_hash(changed, offsets) != content_hash(narrow, offsets)
    assert content_hash(narrow, np.array([0, 1, len(ids)], dtype=np.int64)) != content_hash(narrow, offsets)


def test_hash_does_not_depend_on_how_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus larger than one chunk hashes the same."""
    tokens, offsets = np.arange(10, dtype=np.uint16), np.array([0, 4, 10], dtype=np.int64)
    whole = content_hash(tokens, offsets)
    monkeypatch.setattr("bench.workload.data.cache._HASH_CHUNK", 3)
    assert content_hash(tokens, offsets) == whole
