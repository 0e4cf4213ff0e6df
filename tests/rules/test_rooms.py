"""The tree says what it is: folders of bounded size, each with its sentence, and tests that lie where the code does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_FILES = 25
MOST_LINES = 350
ROOMS = sorted(path.parent for path in (ROOT / "bench").rglob("__init__.py") if path.parent.name != "bench")


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_folder_says_what_it_is_for_and_which_file_to_read_first(room: Path) -> None:
    """A stranger finds the place of a line from `ls` and these sentences."""
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    assert said, "its __init__.py has no sentence"
    named = [word.strip("`.,:") for word in said.split() if word.startswith("`") and ".py" in word]
    assert named, f"it names no file to read first: {said}"
    assert all((room / name).exists() for name in named), f"{named} are not all there"


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_folder_holds_no_more_files_than_one_look_takes_in(room: Path) -> None:
    files = [path.name for path in room.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= MOST_FILES, f"{len(files)} files: make a room of those that belong together"


def test_file_is_short_enough_to_be_read_at_once() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in (ROOT / "bench").rglob("*.py")}
    assert {file: number for file, number in lines.items() if number > MOST_LINES} == {}


def test_tests_of_a_folder_lie_in_a_folder_of_the_same_name() -> None:
    folders = {
        path.parent.relative_to(ROOT / "tests" / "unit") for path in (ROOT / "tests" / "unit").rglob("test_*.py")
    }
    strange = [
        str(folder) for folder in folders if not (ROOT / "bench" / folder).is_dir() and folder.parts != ("benchmarks",)
    ]
    assert strange == [], "bench/ has no such folders"
