"""A Hugging Face configuration small enough to be proved in float64 on a CPU, and what was cut of it. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.check.reduced import MOST_BLOCKS, MOST_IDS

MOST_WIDTH = 256
"""Width of a large model from which on it is halved: seconds in float64, not minutes."""

_BLOCKS = ("num_hidden_layers", "n_layer")
_WIDTHS = ("hidden_size", "n_embd")
_HALVED = (*_WIDTHS, "intermediate_size", "n_inner", "num_attention_heads", "n_head", "num_key_value_heads")
_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id")


def reduced_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Cut the settings of a configuration down to two blocks, 512 ids and a width; say what was done, or nothing.

    Kinds of layers, tied tables and the ratio of heads that share keys stay. Settings of other names are left as they
    are, so what this makes may be no model at all.
    """
    small, words = dict(config), []
    for name in _BLOCKS:
        if _is_more(config.get(name), MOST_BLOCKS):
            small[name] = MOST_BLOCKS
            words.append(f"{MOST_BLOCKS} of {config[name]} blocks")
            small.update(
                {key: value[:MOST_BLOCKS] for key, value in config.items() if _is_a_list_of(value, config[name])}
            )
    if _is_more(config.get("vocab_size"), MOST_IDS):
        small["vocab_size"] = MOST_IDS
        words.append(f"{MOST_IDS} of {config['vocab_size']:,} ids")
        small.update({name: None for name in _IDS if _is_more(config.get(name), MOST_IDS - 1)})
    width = next((name for name in _WIDTHS if isinstance(config.get(name), int)), None)
    while width is not None and small[width] > MOST_WIDTH and _can_be_halved(small):
        small.update({name: small[name] // 2 for name in _HALVED if isinstance(small.get(name), int)})
    if width is not None and small[width] < config[width]:
        words.append(f"width {small[width]} of {config[width]}")
    return small, "reduced to " + ", ".join(words) if words else ""


def _can_be_halved(config: Mapping[str, Any]) -> bool:
    return all(config[name] % 2 == 0 for name in _HALVED if isinstance(config.get(name), int))


def _is_more(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > most


def _is_a_list_of(value: Any, length: int) -> bool:
    """Tell whether a setting names something of each block."""
    return isinstance(value, list) and len(value) == length
