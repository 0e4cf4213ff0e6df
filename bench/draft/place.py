"""Put a sweep file, and the schema that editors read beside it, where nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

from bench.draft.sweep_file import SCHEMA_LINE
from bench.errors import BenchError
from bench.record.atomic import storage_error
from bench.sweep.schema import SCHEMA_TITLE, schema_text


def place(path: Path, text: str) -> list[str]:
    """Write a sweep file, and beside it `schema.json` where there is none; say what was done, a line each.

    Where `schema.json` is somebody else's the file does not name it: an editor would hold it against that.

    Raises:
        BenchError: The file is there already, or cannot have that name.
        StorageError: It cannot be written.
    """
    schema = path.with_name("schema.json")
    found = _read(schema)
    is_foreign = schema.exists() and SCHEMA_TITLE not in found
    _write_new(path, text.removeprefix(SCHEMA_LINE) if is_foreign else text)
    if is_foreign:
        return [
            f"wrote {path}",
            f"{schema} is not bench's, so editors get no help: `bench schema` prints what they need",
        ]
    if schema.exists():
        older = f"{schema} is another version's: `bench schema > {schema}` renews it"
        return [f"wrote {path}", *[older] * (found != schema_text())]
    _write_new(schema, schema_text())
    return [f"wrote {path}, and beside it schema.json, from which editors know the keys"]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _write_new(path: Path, text: str) -> None:
    """Make a file that is not there yet; one that cannot be written whole is taken away."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(path.parent, "the folder cannot be made", error) from None
    try:
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            try:
                stream.write(text)
                stream.flush()
            except OSError:
                path.unlink()
                raise
    except FileExistsError:
        if path.is_dir():
            raise BenchError(f"{path} is a folder. Name a file, such as --out {path / 'my-sweep.yaml'}.") from None
        raise BenchError(
            f"{path} is there already, and nothing is overwritten. Name another, such as --out {_free(path)}."
        ) from None
    except OSError as error:
        raise storage_error(path, "cannot be written", error) from None


def _free(path: Path) -> Path:
    """Find a name like this one that is free."""
    number = 2
    while (other := path.with_stem(f"{path.stem}-{number}")).exists():
        number += 1
    return other
