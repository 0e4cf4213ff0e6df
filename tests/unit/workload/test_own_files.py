"""The files of the user's functions are found and hashed without running any of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.workload.own_files import own_code_hash, own_files

TREE = {
    "mine.py": "import torch\nimport sizes\nfrom parts import head\nraise SystemExit\n",
    "sizes.py": "def f():\n    import late\n",
    "late.py": "",
    "alone.py": "",
    "parts/__init__.py": "from . import tail\n",
    "parts/head.py": "from .inner.deep import x\n",
    "parts/tail.py": "import nowhere.at_all\n",
    "parts/inner/__init__.py": "",
    "parts/inner/deep.py": "x = 1\n",
    "parts/other.py": "",
    "broken.py": "def (:\n",
}


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_module_and_what_it_imports_from_its_folder_are_found() -> None:
    """Relative imports, packages on the way, and imports inside functions; nothing that is installed."""
    assert sorted(own_files("mine")) == [
        *("late", "mine", "parts", "parts.head", "parts.inner", "parts.inner.deep", "parts.tail", "sizes"),
    ]
    assert not {"mine", "sizes", "parts"} & set(sys.modules)


@pytest.mark.parametrize("file", ["mine.py", "late.py", "parts/inner/deep.py", "parts/__init__.py"])
def test_change_in_any_of_them_changes_the_hash(tree: Path, file: str) -> None:
    before = own_code_hash(["mine:build"])
    (tree / file).write_text(TREE[file] + "\n# changed")
    assert own_code_hash(["mine:build"]) != before


@pytest.mark.parametrize("file", ["alone.py", "parts/other.py"])
def test_change_in_another_file_does_not(tree: Path, file: str) -> None:
    before = own_code_hash(["mine:build", None, "mine:other"])
    (tree / file).write_text("x = 2")
    assert own_code_hash(["mine:other"]) == before


def test_files_elsewhere_with_the_same_content_have_the_same_hash(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = own_code_hash(["sizes:f"])
    (tree / "copy").mkdir()
    for name in ("sizes.py", "late.py"):
        (tree / "copy" / name).write_text(TREE[name])
    monkeypatch.chdir(tree / "copy")
    assert own_code_hash(["sizes:f"]) == before


def test_no_function_has_no_hash_and_what_is_not_there_is_no_error() -> None:
    assert own_code_hash([None]) is None
    assert own_code_hash(["nowhere.at_all:f"]) is not None
    assert list(own_files("broken")) == ["broken"]


def test_of_an_installed_package_only_the_module_counts() -> None:
    assert set(own_files("torch.optim")) <= {"torch", "torch.optim"}
