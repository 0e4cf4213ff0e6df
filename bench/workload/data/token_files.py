"""The user's own file of token ids, mapped where it lies: flat, with the header of llm.c, or of numpy.

Any file can be read as flat uint16, and what comes out trains, so files of other kinds are told by how they begin, and
wider ids by their upper halves.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.workload.data.cache import Made, TokenFile
from bench.workload.data.source_files import at_home

_CHUNK = 1 << 24  # ids looked at together, so that a file of any size is read in bounded memory
_SAMPLE = 1 << 20  # values looked at to tell wider ids
_FEWEST = 64  # values below which a pattern may be chance
_HIGHEST_UPPER_HALF = 3
"""Upper 16 bits of an id of any vocabulary in use: below 262,144."""
_MASKED = 0xFFFF
"""Upper 16 bits of a negative id, such as -100."""
_NEGATIVE_FROM = 1 << 31
"""What a negative int32 is when it is read as uint32."""

_TORCH_PICKLE = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""How torch.save began a file before it wrote zip archives: a pickle of its own magic number."""
_LLMC = (20240520, 20240801)
"""First of the 256 int32 that begin a token file of llm.c, for GPT-2 and for Llama 3; the third is the count of ids."""
_LLMC_HEADER = 1024
"""Bytes of that header."""
_NUMPY = b"\x93NUMPY"
_DTYPES = {"uint16": "<u2", "uint32": "<u4", "int64": "<i8"}
"""`data.token_dtype` to the type of a flat file; an int32 that is no mask is a uint32."""


def find_token_file(name: str, token_dtype: str | None = None) -> TokenFile:
    """Find a file of ids and tell by its beginning how they lie in it.

    Args:
        name: Its path; `~` is home.
        token_dtype: Key of `_DTYPES`; null takes a flat file for uint16 unless it looks like wider ids.

    Raises:
        BenchError: No such file, empty, of another kind, cut short, or with ids of another width.
    """
    path = at_home(name).resolve()
    if not path.is_file():
        what = " is a folder" if path.is_dir() else f": there is no file {path}"
        raise BenchError(f"data.tokens = {name}{what}. Give the path of a .bin or .npy file of token ids.")
    try:
        if path.stat().st_size == 0:
            raise BenchError(f"data.tokens = {name} is an empty file. Give a file of token ids.")
        with path.open("rb") as file:
            begin = file.read(_LLMC_HEADER)
        if begin.startswith(_NUMPY):
            found = _numpy_array(name, path)
        elif int.from_bytes(begin[:4], "little") in _LLMC and len(begin) == _LLMC_HEADER:
            found = _after_header(name, path, begin)
        else:
            found = _flat(name, path, begin, token_dtype)
    except OSError as error:
        _unreadable(path, error)
    if token_dtype is not None and found.dtype != _DTYPES[token_dtype]:
        raise BenchError(
            f"data.token_dtype = {token_dtype} is not what {path.name} says of itself: its ids are "
            f"{np.dtype(found.dtype).name}. Remove token_dtype: only a flat file without a header needs it."
        )
    return found


def read_token_file(file: TokenFile, end_of_text: int | None) -> Made:
    """Read a file of ids in place: it is mapped, not copied.

    With `end_of_text` a document ends after each such id, and what follows the last one is a document too; without it
    the file is one stream.

    Raises:
        BenchError: The file cannot be read, holds a negative id, or `end_of_text` never occurs.
    """
    try:
        tokens = file.map()
    except (OSError, ValueError) as error:
        _unreadable(file.path, error)
    largest, ends = 0, []
    for start in range(0, tokens.size, _CHUNK):
        chunk = np.asarray(tokens[start : start + _CHUNK])
        _refuse_negative(file, chunk, start)
        largest = max(largest, int(chunk.max()))
        if end_of_text is not None:
            ends.append(np.flatnonzero(chunk == end_of_text) + start + 1)
    borders = np.concatenate(ends) if ends else np.empty(0, dtype=np.int64)
    if end_of_text is not None and borders.size == 0:
        raise BenchError(
            f"data.end_of_text = {end_of_text} never occurs in {file.path}. "
            "Give the id that ends a document there, or leave it out."
        )
    return Made(
        tokens,
        np.unique(np.concatenate([[0], borders, [tokens.size]])).astype(np.int64),
        vocab_size=largest + 1,
        has_document_borders=end_of_text is not None,
        token_file=file,
    )


def _refuse_negative(file: TokenFile, chunk: NDArray[np.integer[Any]], start: int) -> None:
    """Refuse what only labels hold, such as -100, also where it was stored as an unsigned number."""
    if chunk.dtype.kind == "u" and chunk.dtype.itemsize < 4:
        return
    bad = np.flatnonzero((chunk < 0) | (chunk >= _NEGATIVE_FROM))
    if bad.size:
        value = int(chunk[bad[0]])
        shown = value - 2 * _NEGATIVE_FROM if _NEGATIVE_FROM <= value < 2 * _NEGATIVE_FROM else value
        raise BenchError(
            f"data.tokens = {file.path}: value {start + int(bad[0])} is {shown}, which is no token id; ids are 0 or "
            "more. Give the file of the ids, not that of labels with masked targets."
        )


def _numpy_array(name: str, path: Path) -> TokenFile:
    """Read where in a .npy file its integers lie."""
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise BenchError(
            f"data.tokens = {name} is a numpy file (.npy) that cannot be mapped: {error}. Save an array of integers."
        ) from error
    if mapped.dtype.kind not in "iu" or mapped.ndim != 1:
        kind = f"{mapped.dtype.name} values" if mapped.dtype.kind not in "iu" else f"{mapped.ndim} dimensions"
        raise BenchError(
            f"data.tokens = {name} is a numpy file (.npy) with {kind}: its shape is {mapped.shape}. Save one row of "
            f'integer ids: numpy.save("{path.stem}-ids.npy", numpy.load({path.name!r}).reshape(-1).astype("uint32"))'
        )
    if mapped.size == 0:
        raise BenchError(f"data.tokens = {name} is a numpy file (.npy) without values. Give a file of token ids.")
    return TokenFile(path, mapped.dtype.str, mapped.offset, mapped.size)


def _after_header(name: str, path: Path, begin: bytes) -> TokenFile:
    """Read how many ids follow the header of llm.c; with the size of the file that tells their width."""
    count = int.from_bytes(begin[8:12], "little")
    left = path.stat().st_size - _LLMC_HEADER
    for dtype in (_DTYPES["uint16"], _DTYPES["uint32"]):
        if count and left == count * np.dtype(dtype).itemsize:
            return TokenFile(path, dtype, _LLMC_HEADER, count)
    raise BenchError(
        f"data.tokens = {name} begins with the header of llm.c's token files, which says that {count} ids follow, but "
        f"{left} bytes do: neither {count} uint16 nor {count} uint32. It is cut short or damaged: copy or make it "
        "again."
    )


def _flat(name: str, path: Path, begin: bytes, token_dtype: str | None) -> TokenFile:
    """Take a file without a header for ids of the given type."""
    if begin.startswith(_TORCH_PICKLE) or (begin.startswith(b"PK\x03\x04") and zipfile.is_zipfile(path)):
        raise BenchError(
            f"data.tokens = {name} is an archive, as torch.save (.pt) and numpy.savez (.npz) write. Save the ids "
            f'alone: numpy.save("{path.stem}.npy", torch.load({path.name!r}).numpy())'
        )
    if token_dtype is None and (wider := _wider_ids(path)) is not None:
        kind, said = wider
        raise BenchError(
            f"data.tokens = {name} holds {kind} ids, it seems: read as uint16, {said}. Add token_dtype: {kind} beside "
            "it, or token_dtype: uint16 if it is none."
        )
    dtype = token_dtype or "uint16"
    size, width = path.stat().st_size, np.dtype(_DTYPES[dtype]).itemsize
    if size % width:
        raise BenchError(
            f"data.tokens = {name} has {size} bytes, not a whole number of {dtype} ids: it is cut short or of another "
            "type. Write it as numpy uint16, as nanoGPT's prepare.py does, or give its type by token_dtype."
        )
    return TokenFile(path, _DTYPES[dtype], 0, size // width)


def _wider_ids(path: Path) -> tuple[str, str] | None:
    """Say that a file holds ids of 4 or 8 bytes: the upper halves of all are almost nothing, the lower ones are ids."""
    values = np.fromfile(path, dtype="<u2", count=_SAMPLE)
    for width, kind in ((8, "int64"), (4, "uint32")):
        parts = width // 2
        rows = values[: values.size // parts * parts].reshape(-1, parts)
        lower, upper, highest = rows[:, 0], rows[:, 1], rows[:, 1:]
        is_small = ((upper <= _HIGHEST_UPPER_HALF) | (upper == _MASKED)).all()
        is_wider = is_small and (highest[:, 1:] == np.where(upper == _MASKED, _MASKED, 0)[:, None]).all()
        if rows.size >= _FEWEST and lower.max() > _HIGHEST_UPPER_HALF and is_wider:
            share = "every second value is" if width == 4 else "3 of 4 values are"
            return kind, f"{share} {'the upper half of an id' if upper.any() else 0}"
    return None


def _unreadable(path: Path, error: OSError | ValueError) -> NoReturn:
    why = error.strerror if isinstance(error, OSError) else str(error)
    raise BenchError(f"data.tokens = {path} cannot be read: {why}. Fix its permissions.") from error
