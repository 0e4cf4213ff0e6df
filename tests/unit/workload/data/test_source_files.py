"""Text files are found by glob, and under their own names."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.workload.data.source_files import find_text_files


def names(pattern: Path) -> list[str]:
    """Name what a glob finds."""
    return [path.name for path in find_text_files(str(pattern))]


def test_file_with_brackets_in_its_name_is_found(tmp_path: Path) -> None:
    """Though the same text is a glob of another name."""
    (tmp_path / "x[1].txt").write_text("mine")
    (tmp_path / "x1.txt").write_text("another")
    assert names(tmp_path / "x[1].txt") == ["x[1].txt"]
    (tmp_path / "x[1].txt").unlink()
    assert names(tmp_path / "x[1].txt") == ["x1.txt"]


def test_glob_below_a_folder_with_brackets_is_a_glob(tmp_path: Path) -> None:
    """What exists is taken literally, what follows is not."""
    (tmp_path / "run [a-c]" / "deep").mkdir(parents=True)
    (tmp_path / "run [a-c]" / "deep" / "y.txt").write_text("q")
    assert names(tmp_path / "run [a-c]" / "**" / "[x-z].txt") == ["y.txt"]


@settings(max_examples=80)
@given(st.text("[]*?!-ab", min_size=1, max_size=6), st.text("[]*?!-ab", min_size=1, max_size=6))
def test_any_name_that_exists_is_found_and_nothing_else(folder: str, name: str) -> None:
    """Whatever a glob would make of it."""
    with tempfile.TemporaryDirectory() as base:
        inside = Path(base) / folder
        inside.mkdir()
        for other in {"a", "b", "ab", "ba", name}:
            (inside / other).write_text("text")
        assert names(inside / name) == [name]


def test_folder_and_set_of_characters_are_explained(tmp_path: Path) -> None:
    """The advice fits what was given."""
    with pytest.raises(BenchError, match=r"It is a folder: name its files, as in .*/\*\*/\*\.txt"):
        find_text_files(str(tmp_path))
    with pytest.raises(BenchError, match=r"\[ \] is a set of characters"):
        find_text_files(str(tmp_path / "x[1].txt"))


def test_unknown_home_is_refused_in_words(tmp_path: Path) -> None:
    """A user that does not exist has none."""
    with pytest.raises(BenchError, match="matches no file"):
        find_text_files("~nobody-of-this-name/x.txt")
