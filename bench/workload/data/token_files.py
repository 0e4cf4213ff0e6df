"""The user's own file of token ids: flat uint16, and what is easily taken for it.

Any file can be read as uint16, and what comes out trains, so files of other kinds are told by how they begin, and wider
ids by their upper halves.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.workload.data.cache import Made
from bench.workload.data.source_files import at_home

_CHUNK = 1 << 24  # ids looked at together, so that a file of any size is read in bounded memory
_SAMPLE = 1 << 20  # values looked at to tell wider ids
_FEWEST = 64  # values below which a pattern may be chance
_HIGHEST_UPPER_HALF = 3
"""Upper 16 bits of an id of any vocabulary in use: below 262,144."""
_MASKED = 0xFFFF
"""Upper 16 bits of a negative id, such as -100."""

_TORCH_PICKLE = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""How torch.save began a file before it wrote zip archives: a pickle of its own magic number."""
_LLMC_GPT2, _LLMC_LLAMA3 = 20240520, 20240801
"""First of the 256 int32 that begin a token file of llm.c: uint16 or uint32 ids follow."""
_FLAT = "Give a flat file of uint16 ids"


def find_token_file(name: str) -> Path:
    """Find a .bin file and check that it can hold uint16 ids, by its beginning.

    Raises:
        BenchError: No such file, empty, of another kind, with ids of another width, or an odd number of bytes.
    """
    path = at_home(name).resolve()
    if not path.is_file():
        what = " is a folder" if path.is_dir() else f": there is no file {path}"
        raise BenchError(f"data.tokens = {name}{what}. Give the path of a flat uint16 .bin file.")
    size = path.stat().st_size
    if size == 0:
        raise BenchError(f"data.tokens = {name} is an empty file. Give a flat file of uint16 token ids.")
    try:
        with path.open("rb") as file:
            begin = file.read(16)
        problem = _other_kind(begin, path) or _wider_ids(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    if problem is not None:
        raise BenchError(f"data.tokens = {name} {problem}")
    if size % 2:
        raise BenchError(
            f"data.tokens = {name} has {size} bytes, not a whole number of uint16 ids: it is cut short or of another "
            "type. Write it as numpy uint16, as nanoGPT's prepare.py does."
        )
    return path


def read_token_file(path: Path, end_of_text: int | None) -> Made:
    """Read a flat file of little-endian uint16 ids, nanoGPT's layout, in place: it is mapped, not copied.

    With `end_of_text` a document ends after each such id, and what follows the last one is a document too; without it
    the file is one stream.

    Raises:
        BenchError: The file cannot be read, or `end_of_text` never occurs.
    """
    try:
        tokens: NDArray[np.uint16] = np.memmap(path, dtype="<u2", mode="r")
    except OSError as error:
        raise _unreadable(path, error) from error
    largest, ends = 0, []
    for start in range(0, tokens.size, _CHUNK):
        chunk = np.asarray(tokens[start : start + _CHUNK])
        largest = max(largest, int(chunk.max()))
        if end_of_text is not None:
            ends.append(np.flatnonzero(chunk == end_of_text) + start + 1)
    borders = np.concatenate(ends) if ends else np.empty(0, dtype=np.int64)
    if end_of_text is not None and borders.size == 0:
        raise BenchError(
            f"data.end_of_text = {end_of_text} never occurs in {path}. "
            "Give the id that ends a document there, or leave it out."
        )
    return Made(
        tokens,
        np.unique(np.concatenate([[0], borders, [tokens.size]])).astype(np.int64),
        vocab_size=largest + 1,
        has_document_borders=end_of_text is not None,
        token_file=path,
    )


def _other_kind(begin: bytes, path: Path) -> str | None:
    """Name the kind of a file that is no flat array, and how to make one; null where it may be one."""
    if begin.startswith(b"\x93NUMPY"):
        return f"is a numpy file with a header (.npy). {_fit_in_words(path, f'numpy.load({path.name!r})')}"
    if begin.startswith(_TORCH_PICKLE) or (begin.startswith(b"PK\x03\x04") and zipfile.is_zipfile(path)):
        ids = f"torch.load({path.name!r}).numpy()"
        return f"is an archive, as torch.save (.pt) and numpy.savez (.npz) write. {_fit_in_words(path, ids)}"
    magic = int.from_bytes(begin[:4], "little")
    if magic == _LLMC_GPT2:
        how = f'numpy.fromfile({path.name!r}, "<u2")[512:].tofile("{path.stem}-flat.bin")'
        return f"begins with the header of llm.c's token files (256 int32, {magic}). {_FLAT} without it: {how}"
    if magic == _LLMC_LLAMA3:
        ids = f'numpy.fromfile({path.name!r}, "<u4")[256:]'
        return f"has the header of llm.c's token files ({magic}) and uint32 ids after it. {_fit_in_words(path, ids)}"
    return None


def _wider_ids(path: Path) -> str | None:
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
            what = "0" if not upper.any() else "the upper half of an id"
            ids = f'numpy.fromfile({path.name!r}, "{kind}")'
            return f"holds {kind} ids, it seems: read as uint16, {share} {what}. {_fit_in_words(path, ids)}"
    return None


def _fit_in_words(path: Path, ids: str) -> str:
    return f'{_FLAT}, if all are below 65,536: {ids}.astype("uint16").tofile("{path.stem}-uint16.bin")'


def _unreadable(path: Path, error: OSError) -> BenchError:
    return BenchError(f"data.tokens = {path} cannot be read: {error.strerror}. Fix its permissions.")
