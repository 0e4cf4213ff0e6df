"""What is said of an error in the user's own code: its line, not torch's."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.workload.user_errors import described, place_of


def raised_by(folder: Path, source: str) -> BaseException:
    """Run a module of the user's and give what it raised."""
    file = folder / "mine.py"
    file.write_text(source)
    try:
        exec(compile(source, str(file), "exec"), {})
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_last_line_of_the_users_own_code_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the library it called; from the current folder, as the user would write it."""
    monkeypatch.chdir(tmp_path)
    error = raised_by(tmp_path, "import json\n\ndef f():\n    json.loads('{')\n\nf()\n")
    assert described(error).endswith("(mine.py, line 4: json.loads('{'))")


def test_error_without_a_line_of_the_users_has_no_place() -> None:
    """Ours alone, or none."""
    assert place_of(ValueError("no traceback")) == ""
    assert described(KeyError("licence")) == "KeyError: 'licence'"
    assert described(SystemExit()) == "SystemExit: no message"


def test_long_message_is_cut_to_its_first_line(tmp_path: Path) -> None:
    """A page of torch's advice is no line of a checklist."""
    error = raised_by(tmp_path, "raise RuntimeError('first' + chr(10) + 'second')\n")
    assert described(error).startswith("RuntimeError: first (")
