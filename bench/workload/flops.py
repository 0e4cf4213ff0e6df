"""Floating-point operations of a preset, by formula: what training spends, from the shapes alone. No torch.

A product of (m, k) and (k, n) is 2 m k n FLOPs; only matrix products count. Per token slot, with N' the elements of
the matrices that a token is multiplied by:

    forward            2 N' + 4 L D T
    forward + backward 6 N' + 12 L D T        T = width of the row, L = blocks, D = width

as Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1, and Chowdhery et al. 2022, "PaLM",
appendix B. N' holds the head's matrix whether it is tied or not, and no lookup: a table that only embeds multiplies
nothing. Attention is counted over all T positions, not half of them, although the mask is causal: that is PaLM's
convention, so published figures compare, and it is what a kernel without a causal short cut computes. Grouped-query
attention shares keys and values, which makes their projections smaller and the attention itself no cheaper.

The tests hold every preset against `torch.utils.flop_counter`, to the last FLOP. A count by torch takes 0.3 s for
GPT-2 of 124 M parameters, and a launch has 0.1 s; this takes microseconds and follows rows of any width.
"""

from __future__ import annotations

from bench.sweep.presets import ModelShape

FLOPS_FORMULA_VERSION = "1: 6 N + 12 L D T, attention not halved"
"""Convention of all FLOP counts in a row; the number changes with it."""


def model_flops(shape: ModelShape, token_slots: int, token_pairs: int) -> int:
    """Count what forward and backward must compute, each once [FLOPs].

    Args:
        shape: The preset's shape.
        token_slots: Elements fed, padding included.
        token_pairs: Sum over token slots of the width of their row: pairs of positions that attention multiplies.
    """
    blocks = shape.num_layers * _block_elements(shape)
    forward = 2 * (blocks + _head_elements(shape)) * token_slots + _attention_flops(shape, token_pairs)
    # Each product of the forward pass has two of its size in the backward pass: one for either factor's gradient.
    return 3 * forward


def hardware_flops(
    shape: ModelShape, token_slots: int, token_pairs: int, activation_checkpointing: bool | str = False
) -> int:
    """Count the same with what activation checkpointing computes again [FLOPs].

    A block is run again in the backward pass up to the last tensor that it must give back, which is the input of the
    MLP's last product: torch stops there, so that product is not repeated. Reentrant checkpointing runs the whole block
    again. What a fused attention kernel computes again inside its backward pass is not counted: it depends on the
    kernel, not on the configuration.
    """
    flops = model_flops(shape, token_slots, token_pairs)
    if not activation_checkpointing:
        return flops
    left_out = 0 if activation_checkpointing == "reentrant" else shape.width * shape.mlp_width
    repeated = shape.num_layers * (_block_elements(shape) - left_out)
    return flops + 2 * repeated * token_slots + _attention_flops(shape, token_pairs)


def _block_elements(shape: ModelShape) -> int:
    """Count the elements of one block's matrices; biases and norms multiply no matrix."""
    key_value_width = shape.width // shape.num_heads * shape.num_kv_heads
    attention = shape.width * (2 * shape.width + 2 * key_value_width)
    mlp_matrices = 2 if shape.kind == "gpt2" else 3
    return attention + mlp_matrices * shape.width * shape.mlp_width


def _head_elements(shape: ModelShape) -> int:
    return shape.width * shape.vocab_size


def _attention_flops(shape: ModelShape, token_pairs: int) -> int:
    """Count the forward products of queries with keys and of weights with values, all blocks."""
    return shape.num_layers * 4 * shape.width * token_pairs
