"""Modules split into top-level blocks."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.workload.data.corpus import load_corpus
from bench.workload.data.stdlib import module_files, split_blocks


@pytest.mark.parametrize(
    ("source", "blocks"),
    [
        ("import a\nimport b\n", ["import a\n", "import b\n"]),
        ("x = [\n1,\n]\ny = 2\n", ["x = [\n1,\n]\n", "y = 2\n"]),
        ('s = """\ndef f():\n"""\nt = 1', ['s = """\ndef f():\n"""\n', "t = 1"]),
        (
            "a = 1\n\n\n@deco\n@other(\n1)\ndef f():\n    pass\n",
            ["a = 1\n\n\n", "@deco\n@other(\n1)\ndef f():\n    pass\n"],
        ),
        ("a = 1\n\n# about f\n\ndef f(): ...\n", ["a = 1\n\n", "# about f\n\ndef f(): ...\n"]),
        ("a = 1  # same line\n# next\nb = 2\n# last\n", ["a = 1  # same line\n", "# next\nb = 2\n# last\n"]),
        ("a = 1; b = 2\nc = 3\n", ["a = 1; b = 2\n", "c = 3\n"]),
        ("a = '''x\n'''; b = '''y\n'''; c = 1\nd = 1\n", ["a = '''x\n'''; b = '''y\n'''; c = 1\n", "d = 1\n"]),
        ("if x:\n    a = 1\nelse:\n    b = 1\nc = 1\n", ["if x:\n    a = 1\nelse:\n    b = 1\n", "c = 1\n"]),
        ("#!/usr/bin/env python\n# Copyright\n\nimport a\n", ["#!/usr/bin/env python\n# Copyright\n\nimport a\n"]),
        ("a = 1\r\nb = 2\r\n", ["a = 1\r\n", "b = 2\r\n"]),
        ("a = 1\n\x0c\nb = 2\n", ["a = 1\n\x0c\n", "b = 2\n"]),
        ("# only a comment\n", ["# only a comment\n"]),
        ("this is not python\nat all\n", ["this is not python\nat all\n"]),
        ("", []),
    ],
)
def test_a_block_is_a_top_level_statement_with_what_belongs_to_it(source: str, blocks: list[str]) -> None:
    """Decorators and comments above go with the statement below, blank lines with the one above."""
    assert [block.decode() for block in split_blocks(source.encode())] == blocks


def test_declared_encoding_is_followed() -> None:
    """An old file in Latin-1 is split, not refused."""
    source = b"# -*- coding: latin-1 -*-\na = '\xe9'\nb = 1\n"
    assert split_blocks(source) == [b"# -*- coding: latin-1 -*-\na = '\xe9'\n", b"b = 1\n"]


def test_old_escapes_give_no_warning() -> None:
    """Warnings about a library's source are not the user's."""
    assert split_blocks(rb"a = '\d'" + b"\nb = 1\n") == [rb"a = '\d'" + b"\n", b"b = 1\n"]


@given(
    st.lists(
        st.sampled_from(["a = 1\n", "\n", "# c\n", "@d\n", "def f(): ...\n", '"""\n', "(\n", ")\n", "x;y\n"]),
        max_size=12,
    )
)
def test_no_text_is_lost(lines: list[str]) -> None:
    """Blocks joined again are the file, whether it parses or not."""
    source = "".join(lines).encode()
    blocks = split_blocks(source)
    assert b"".join(blocks) == source
    assert all(blocks)


def test_tests_packages_and_caches_are_left_out(tmp_path: Path) -> None:
    """What differs between installations of the same Python is not read."""
    for name in (
        "b.py",
        "a.py",
        "a/z.py",
        "test/t.py",
        "a/tests/t.py",
        "site-packages/s.py",
        "a/__pycache__/c.py",
        "n.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    found = [str(path.relative_to(tmp_path)) for path in module_files(tmp_path)]
    assert found == ["a/z.py", "a.py", "b.py"]


def test_changed_library_folder_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder's time of change is part of the cache key; the files are not looked at when it stands."""
    library = tmp_path / "lib"
    library.mkdir()
    (library / "a.py").write_text("ab\n")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(library))
    assert load_corpus({}).tokens.tolist() == [97, 98, 10, 256]
    (library / "b.py").write_text("c")
    assert load_corpus({}).tokens.tolist() == [97, 98, 10, 256, 99, 256]
