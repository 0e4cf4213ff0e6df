"""What `--model` and `--data` may name: each kind is told from the text alone, and becomes a line of a sweep file.

A new kind of model or data is a case here, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypeVar

from bench.errors import BenchError
from bench.sweep.hf.configuration import hf_config, is_hf, longest_sequence, sizes_of, vocabulary
from bench.sweep.presets import PRESETS
from bench.workload.data.documents import find_columns
from bench.workload.data.row_files import Kind
from bench.workload.data.source_files import find_files, find_text_files
from bench.workload.data.token_files import find_token_file, read_token_file

Found = TypeVar("Found")

_ROWS: dict[str, Kind] = {".jsonl": "jsonl", ".parquet": "parquet"}
_IDS = {".bin", ".npy"}
_NOT_READ = {".json", ".arrow", ".csv", ".npz", ".pt", ".gz", ".zst", ".xz", ".zip"}
"""Suffixes of files that are no plain text: read as bytes they would be measured, and mean nothing."""


@dataclass(frozen=True)
class Source:
    """Hold a model or data as a sweep file names it."""

    section: dict[str, Any]
    """Its section of `base`."""
    flow: str
    """The same as YAML, on one line."""
    comment: str
    """What to know of it."""
    tokens: int | None = None
    """Tokens that the data have; null where there are always enough."""
    vocab_size: int = 0
    """Every token id of the data is below it, 0 where every model takes them; of a configuration how many it takes."""
    name: str = ""
    """What the sweep is called by; empty for what the section says."""
    longest: int | None = None
    """Most tokens of a sequence that a configuration allows; null where that is known otherwise, or not."""


def model_source(text: str) -> Source:
    """Tell what `--model` names: a preset or a function of the user's own, checked with the other settings.

    Raises:
        BenchError: It names what can only be something else.
    """
    if ":" in text and "/" not in text:
        return Source({"factory": text}, f'{{factory: "{text}"}}', "a function of your own: docs/own-model.md")
    if is_hf(text):
        return _hf_source(text)
    if text.endswith(".py"):
        raise BenchError(
            f"--model = {text} is a file. Name the function in it that builds the model, package.module:function "
            f"(docs/own-model.md), or use one of {', '.join(PRESETS)}."
        )
    said = PRESETS[text].sentence.rstrip(".") if text in PRESETS else ""
    return Source({"preset": text}, f"{{preset: {text}}}", said)


def _hf_source(text: str) -> Source:
    """Look into a Hugging Face configuration now, so that a slip is not found by the first launch.

    Raises:
        BenchError: There is no such file, it cannot be used, or it looks like the name of a hub.
    """
    if not text.isprintable():
        raise BenchError(f"--model = {text!r} holds characters that do not print. Rename the folder or the file.")
    config = _found(lambda: hf_config(text), "--model")
    kind, longest = str(config["model_type"]), longest_sequence(config)
    sizes = " x ".join(str(size) for size in sizes_of(config))
    said = f"{kind}{f', {sizes} (blocks x width)' if sizes else ''}; docs/hugging-face.md"
    return Source(
        {"hf": text},
        f"{{hf: {json.dumps(text, ensure_ascii=False)}}}",
        said,
        vocab_size=vocabulary(config) or 0,
        name=kind,
        longest=longest,
    )


def data_source(text: str) -> Source:
    """Tell what `--data` names: stdlib, synthetic, a file of token ids, or a glob of files of rows or text.

    Raises:
        BenchError: There is no such file, it cannot be used, or this version does not read its kind.
    """
    if text == "stdlib":
        return _source({"corpus": "stdlib"}, "Python's standard library, as bytes")
    if text == "synthetic":
        return _source({"synthetic": {"mean_tokens": 256}}, "random tokens: the loss means nothing")
    if not text.isprintable():
        raise BenchError(f"--data = {text!r} holds characters that do not print. Rename the folder or the files.")
    suffix = PurePath(text).suffix.lower()
    if suffix in _NOT_READ:
        raise BenchError(
            f"--data = {text}: this version does not read {suffix} files. Give a glob of plain text, .jsonl or "
            ".parquet files, a .bin or .npy file of token ids, stdlib or synthetic."
        )
    if suffix in _IDS:
        made = _found(lambda: read_token_file(find_token_file(text), None))
        return _source({"tokens": text}, f"{made.tokens.dtype} token ids", made.tokens.size, made.vocab_size)
    if suffix in _ROWS:
        return _rows_source(text, _ROWS[suffix])
    sizes = [path.stat().st_size for path in _found(lambda: find_text_files(text))]
    ends = sum(size > 0 for size in sizes)  # each document is ended by an id of its own
    return _source({"text": text}, "each byte is a token", sum(sizes) + ends)


def _rows_source(text: str, kind: Kind) -> Source:
    """Look at the columns of the first row, as every launch will."""
    columns = _found(lambda: find_columns({kind: text}, kind, find_files(kind, text, f".{kind}")))
    if columns.kind == "prompt":
        comment = "bytes; prompts are fed and not predicted; padded to a micro-batch's longest row, as trainers do"
        return _source({kind: text}, comment, rows="ragged")
    return _source({kind: text}, f"each byte of {columns.names[0]} is a token, unless you add tokenizer: FILE")


def _source(
    source: dict[str, Any], comment: str, tokens: int | None = None, vocab_size: int = 0, rows: str = "packed"
) -> Source:
    section = {**source, "rows": rows}
    # json's quotes are YAML's too: a glob may begin with *, which YAML would take for an alias.
    flow = "{" + ", ".join(f"{name}: {_flow(value)}" for name, value in section.items()) + "}"
    words = f"{comment}; packed: no padding" if rows == "packed" else comment
    return Source(section, flow, words, tokens, vocab_size)


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {inner}" for name, inner in value.items()) + "}"
    return str(value) if value in ("stdlib", "packed", "ragged") else json.dumps(value, ensure_ascii=False)


def _found(look: Callable[[], Found], option: str = "--data") -> Found:
    """Look for the files now, so that a slip is not found by the first launch."""
    try:
        return look()
    except BenchError as error:  # it speaks of the setting of a sweep file
        setting, is_setting, said = str(error).partition(" = ")
        if is_setting and " " not in setting:
            raise BenchError(f"{option} = {said}") from None
        raise BenchError(
            f"{option}: {error} (bench init takes the usual names of columns; others are keys of data in a sweep file, "
            "docs/data.md.)"
        ) from None
