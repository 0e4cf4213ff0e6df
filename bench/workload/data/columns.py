"""Which columns of a row are read, and what may stand in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bench.errors import BenchError
from bench.workload.data.row_files import Row, kind_of
from bench.workload.data.tokenizer import Ids

_KEYS = ("text_column", "token_column", "prompt_column", "completion_column")
_ID_LIMIT = 1 << 31  # ids are below: more is a negative number that was stored as an unsigned one


@dataclass(frozen=True)
class Columns:
    """Say which columns are read."""

    kind: Literal["text", "tokens", "prompt"]
    """What they hold: text, lists of ids, or a prompt and what follows it."""
    names: tuple[str, ...]
    """One, or that of the prompt and that of its completion."""

    def check(self, there: Sequence[str], where: str) -> None:
        """Refuse a row that lacks one of them.

        Raises:
            BenchError: Names the columns that there are.
        """
        keys = {"text": ("text_column",), "tokens": ("token_column",), "prompt": _KEYS[2:]}[self.kind]
        for key, name in zip(keys, self.names, strict=True):
            if name not in there:
                raise BenchError(f"data.{key} = {name} is no column of {where}, which has {_listed(there)}. Name one.")

    def texts(self, row: Row) -> tuple[str, ...]:
        """Give the texts of a row.

        Raises:
            BenchError: A value is no text; says what to do.
        """
        return tuple(_text(name, row) for name in self.names)

    def ids(self, row: Row) -> Ids:
        """Give the ids of a row.

        Raises:
            BenchError: The value is no list of ids; says what to do.
        """
        (name,) = self.names
        value = row.values[name]
        is_array = isinstance(value, np.ndarray)
        if not is_array and not isinstance(value, list):
            advice = f"Use text_column: {name} for text." if isinstance(value, str) else _LEAVE_OUT
            raise BenchError(f"{row.where}: {name} is {kind_of(value)}, not a list of token ids. {advice}")
        if not is_array:
            for position, item in enumerate(value):
                if not isinstance(item, int) or isinstance(item, bool):
                    raise BenchError(
                        f"{row.where}: {name}[{position}] is {kind_of(item)}, not a token id. Write whole numbers only."
                    )
        bad = next((item for item in (value if not is_array else _bad(value)) if not 0 <= item < _ID_LIMIT), None)
        if bad is not None:
            raise BenchError(
                f"{row.where}: {name} holds {bad}, which is no token id: ids are 0 or more. Name the column of the "
                "ids, not that of labels with masked targets."
            )
        return np.asarray(value, dtype=np.uint32)


_LEAVE_OUT = "Give every row one, or leave the row out."


def asked_columns(data: Mapping[str, Any]) -> Columns | None:
    """Read which columns the settings name; null where they name none."""
    text, tokens, prompt, completion = (data.get(key) for key in _KEYS)
    if text is not None:
        return Columns("text", (text,))
    if tokens is not None:
        return Columns("tokens", (tokens,))
    if prompt is not None or completion is not None:
        return Columns("prompt", (prompt or "prompt", completion or "completion"))
    return None


def choose_columns(data: Mapping[str, Any], there: Sequence[str], where: str) -> Columns:
    """Choose the columns that the settings name, or the ones that go by a usual name.

    Raises:
        BenchError: They are not there, or the usual names leave a choice.
    """
    asked = asked_columns(data)
    if asked is None:
        usual = [Columns("text", ("text",)), Columns("prompt", ("prompt", "completion"))]
        found = [columns for columns in usual if set(columns.names) <= set(there)]
        if len(found) == 2:
            raise BenchError(
                f"{where} has text beside prompt and completion. Say which is meant: text_column: text, or "
                "prompt_column: prompt."
            )
        if not found:
            raise BenchError(
                f"{where} has no column text, nor prompt and completion; it has {_listed(there)}. Name yours: "
                "text_column, token_column, or prompt_column and completion_column."
            )
        asked = found[0]
    asked.check(there, where)
    return asked


def _text(name: str, row: Row) -> str:
    value = row.values[name]
    if not isinstance(value, str):
        is_ids = isinstance(value, np.ndarray) or (isinstance(value, list) and value and isinstance(value[0], int))
        advice = f"Use token_column: {name} for lists of token ids." if is_ids else _LEAVE_OUT
        said = "a list of numbers" if is_ids else kind_of(value)
        raise BenchError(f"{row.where}: {name} is {said}, not text. {advice}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BenchError(
            f"{row.where}: {name} holds half a character (\\u{ord(value[error.start]):04x}), which UTF-8 cannot hold. "
            "Write the whole character, or leave it out."
        ) from error
    return value


def _bad(ids: Any) -> list[int]:
    """List the first value that is out of range, if any."""
    positions = np.flatnonzero((ids < 0) | (ids >= _ID_LIMIT))
    return [int(ids[positions[0]])] if positions.size else []


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "") if names else "none"
