"""A sweep file and the editors' schema land where nothing is overwritten, whole or not at all."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from bench.draft.place import place
from bench.draft.sweep_file import SCHEMA_LINE
from bench.errors import BenchError, StorageError
from bench.sweep.schema import schema_text

TEXT = SCHEMA_LINE + "format: 1\n"


def test_file_and_schema_lie_beside_each_other(tmp_path: Path) -> None:
    """Folders on the way are made."""
    path = tmp_path / "new" / "folder" / "q.yaml"
    (said,) = place(path, TEXT)
    assert path.read_text(encoding="utf-8") == TEXT
    assert path.with_name("schema.json").read_text(encoding="utf-8") == schema_text()
    assert said == f"wrote {path}, and beside it schema.json, from which editors know the keys"


def test_second_file_finds_the_schema_there(tmp_path: Path) -> None:
    place(tmp_path / "a.yaml", TEXT)
    assert place(tmp_path / "b.yaml", TEXT) == [f"wrote {tmp_path / 'b.yaml'}"]


def test_schema_of_another_version_is_kept_and_said(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"title": "Sweep file of bench"}', encoding="utf-8")
    _, said = place(tmp_path / "a.yaml", TEXT)
    assert said == f"{schema} is another version's: `bench schema > {schema}` renews it"
    assert schema.read_text(encoding="utf-8") == '{"title": "Sweep file of bench"}'
    assert (tmp_path / "a.yaml").read_text(encoding="utf-8") == TEXT


@pytest.mark.parametrize("content", ['{"title": "Orders"}', "", None])
def test_schema_of_somebody_else_is_kept_and_not_named(tmp_path: Path, content: str | None) -> None:
    """An editor would hold the sweep file against it, and underline everything. None stands for a folder."""
    schema = tmp_path / "schema.json"
    schema.mkdir() if content is None else schema.write_text(content, encoding="utf-8")
    _, said = place(tmp_path / "a.yaml", TEXT)
    assert "is not bench's" in said
    assert (tmp_path / "a.yaml").read_text(encoding="utf-8") == "format: 1\n"
    assert schema.is_dir() if content is None else schema.read_text(encoding="utf-8") == content


@pytest.mark.parametrize("kind", ["file", "link", "broken link"])
def test_nothing_that_exists_is_overwritten(tmp_path: Path, kind: str) -> None:
    """A free name is advised."""
    path, other = tmp_path / "q.yaml", tmp_path / "other"
    (tmp_path / "q-2.yaml").touch()
    if kind == "file":
        path.write_text("mine", encoding="utf-8")
    else:
        path.symlink_to(other)
        if kind == "link":
            other.write_text("mine", encoding="utf-8")
    with pytest.raises(BenchError, match=r"q.yaml is there already, .* --out .*q-3.yaml") as caught:
        place(path, TEXT)
    assert caught.value.exit_code == 2
    assert kind == "broken link" or path.read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "schema.json").exists()


def test_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"is a folder. Name a file, such as --out .*my-sweep.yaml"):
        place(tmp_path, TEXT)


def test_folder_that_refuses_is_a_storage_error(tmp_path: Path) -> None:
    """/sys takes no files from anybody, root included."""
    with pytest.raises(StorageError, match=r"/sys/q.yaml: cannot be written: "):
        place(Path("/sys/q.yaml"), TEXT)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file: the folder cannot be made: "):
        place(tmp_path / "file" / "q.yaml", TEXT)


def test_file_that_cannot_be_written_whole_is_taken_away(tmp_path: Path) -> None:
    """Half a sweep file might read as another sweep."""
    path = tmp_path / "q.yaml"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, hard))  # python ignores the signal, and gets the error
    try:
        with pytest.raises(StorageError, match="cannot be written"):
            place(path, TEXT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
