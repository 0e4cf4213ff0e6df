"""Models small enough to be proved in float64 on a CPU: how large ones are cut down, in words too. No torch here."""

from __future__ import annotations

from dataclasses import replace

from bench.sweep.presets import ModelShape

MOST_BLOCKS = 2
"""Blocks of a large model that are kept: one of them has its input from another."""
MOST_IDS = 512
"""Token ids of a large model that are kept; the proof's data are bytes."""
LARGE_PARAMETERS = 1_000_000
"""From here on a model is large: float64 on one core takes seconds instead of fractions of one."""
_LARGE_TABLE = 4_000_000
_MOST_PARAMETERS = 4_500_000
"""Above this, what depth and vocabulary leave is made narrower too: seconds in float64, not minutes."""


def parameters_of(shape: ModelShape) -> int:
    """Count the parameters of a shape, to within its norms and biases [elements]."""
    head = shape.width // shape.num_heads
    attention = shape.width * (2 * shape.width + 2 * head * shape.num_kv_heads)
    mlp = (3 if shape.kind == "llama" else 2) * shape.width * shape.mlp_width
    positions = shape.max_seq_len if shape.kind == "gpt2" else 0
    tables = shape.vocab_size * (1 if shape.tied_head else 2) + positions
    return shape.num_layers * (attention + mlp) + tables * shape.width


def reduced(shape: ModelShape) -> tuple[ModelShape, str]:
    """Cut a large shape down to two blocks and, where its tables are large, to 512 ids; say what was done, or nothing.

    What is still too large for seconds in float64 is halved in width, with heads of the same size. Everything an
    update's arithmetic could depend on stays: the kinds of layers, tied tables, grouped heads.
    """
    if parameters_of(shape) < LARGE_PARAMETERS:
        return shape, ""
    words = []
    small = shape
    if shape.num_layers > MOST_BLOCKS:
        small = replace(small, num_layers=MOST_BLOCKS)
        words.append(f"{MOST_BLOCKS} of {shape.num_layers} blocks")
    if shape.vocab_size * shape.width > _LARGE_TABLE:
        small = replace(small, vocab_size=MOST_IDS)
        words.append(f"{MOST_IDS} of {shape.vocab_size:,} ids")
    while parameters_of(small) > _MOST_PARAMETERS and small.num_kv_heads % 2 == 0:
        small = replace(
            small,
            width=small.width // 2,
            mlp_width=small.mlp_width // 2,
            num_heads=small.num_heads // 2,
            num_kv_heads=small.num_kv_heads // 2,
        )
    if small.width < shape.width:
        words.append(f"width {small.width} of {shape.width}")
    return small, "reduced to " + ", ".join(words) if words else ""
