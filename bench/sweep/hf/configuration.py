"""A Hugging Face configuration as a sweep file names it: a file, its folder, or its settings. No torch.

What decides before anything runs is read from the settings that the configuration gives; what it leaves to transformers
is not known here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.sweep.fields import TrialConfig

CONFIG_NAME = "config.json"
"""File of a model's folder that holds its configuration."""
INSTALL = "pip install 'accumbench[hf]'"

_LONGEST = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
"""What configurations call their longest sequence, the usual name first."""
_BLOCKS, _WIDTHS = ("num_hidden_layers", "n_layer"), ("hidden_size", "n_embd")


def hf_config(hf: str | Mapping[str, Any]) -> dict[str, Any]:
    """Give the settings of a configuration, model_type among them.

    Raises:
        BenchError: There is no such file, or it is no configuration; begins with `model.hf = `.
    """
    if not isinstance(hf, str):
        return dict(hf)
    path = config_path(hf)
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BenchError(
            f"model.hf = {hf}: there is no such file from {Path.cwd()} on. Give the path of a {CONFIG_NAME}: nothing "
            "is downloaded."
        ) from None
    except (OSError, ValueError) as error:
        raise BenchError(f"model.hf = {hf} cannot be read as JSON: {' '.join(str(error).split())}.") from None
    if not isinstance(read, dict) or not isinstance(read.get("model_type"), str):
        raise BenchError(
            f"model.hf = {hf} has no model_type, such as llama. Give the {CONFIG_NAME} that transformers writes."
        )
    return read


def config_path(hf: str) -> Path:
    """Find the file that a path means: itself, or the configuration in a folder."""
    path = Path(hf)
    return path / CONFIG_NAME if path.is_dir() else path


def config_hash(hf: str) -> str:
    """Name what a configuration's file says: 12 hexadecimal digits, the same whatever the order of its keys.

    Raises:
        BenchError: It cannot be read.
    """
    return hashlib.sha256(json.dumps(hf_config(hf), sort_keys=True).encode()).hexdigest()[:12]


def is_hf(text: str) -> bool:
    """Tell whether the name of a model is that of a configuration: a .json file, or a folder."""
    return text.endswith(".json") or "/" in text or (bool(text) and Path(text).is_dir())


def hf_name(hf: str | Mapping[str, Any]) -> str:
    """Name the model as rows do: its file, or its type, sizes and six digits that tell settings apart.

    Such as "llama 2 x 64 (1f83d9)": blocks x width, where the settings give them.
    """
    if isinstance(hf, str):
        return hf
    sizes = " x ".join(map(str, sizes_of(hf)))
    digits = hashlib.sha256(json.dumps(hf, sort_keys=True).encode()).hexdigest()[:6]
    return f"{hf['model_type']}{f' {sizes}' if sizes else ''} ({digits})"


def sizes_of(config: Mapping[str, Any]) -> list[int]:
    """Give blocks and width; nothing where the settings leave one of them to transformers."""
    found = [next((config[name] for name in names if name in config), None) for names in (_BLOCKS, _WIDTHS)]
    return [] if None in found else found  # type: ignore[return-value]


def hf_kind(hf: str | Mapping[str, Any]) -> str:
    """Name the architecture: the configuration's model_type; hf where it cannot be read."""
    return str(known_config(hf).get("model_type", "hf"))


def longest_sequence(config: Mapping[str, Any]) -> int | None:
    """Give the most tokens of a sequence; null where the configuration does not say."""
    return next((config[name] for name in _LONGEST if isinstance(config.get(name), int)), None)


def vocabulary(config: Mapping[str, Any]) -> int | None:
    """Give the number of token ids; null where the configuration does not say."""
    size = config.get("vocab_size")
    return size if isinstance(size, int) else None


def known_config(hf: str | Mapping[str, Any]) -> dict[str, Any]:
    """Give the settings of a configuration; none where it cannot be read, which is said before anything runs."""
    try:
        return hf_config(hf)
    except BenchError:
        return {}


def hf_faults(config: TrialConfig) -> Iterator[str]:
    """Say what keeps a trial's model of Hugging Face from being built here, before anything runs."""
    needed = [name for name, is_needed in (("transformers", config.model.hf), ("peft", config.lora)) if is_needed]
    for package in needed:
        if importlib.util.find_spec(package) is None:
            setting = "model.hf" if package == "transformers" else "lora"
            yield f"{setting} needs the package {package}: {INSTALL}"
    if config.model.hf is None:
        return
    try:
        hf_config(config.model.hf)
    except BenchError as error:
        yield str(error)
