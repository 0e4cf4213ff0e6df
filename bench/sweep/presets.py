"""Model shapes by name: what `model: {preset: ...}` may say.

Sources: GPT-2 sizes from its paper's table 2 (117M there is 124M counted properly); Llama shapes from the published
`config.json` of Llama 3.2 1B and Llama 3.1 8B, with the longest sequence cut to 8192 and without frequency scaling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ModelShape:
    """Hold the numbers that fix a decoder-only transformer."""

    kind: Literal["gpt2", "llama"]
    """Family: gpt2 has LayerNorm, learned positions, GELU; llama has RMSNorm, rotary positions, SwiGLU."""
    num_layers: int
    """Transformer blocks."""
    num_heads: int
    """Query heads of one block; they share `width` equally."""
    num_kv_heads: int
    """Key and value heads of one block; fewer than `num_heads` is grouped-query attention."""
    width: int
    """Elements of the residual stream per token."""
    mlp_width: int
    """Elements of the feed-forward layer's inside per token."""
    vocab_size: int
    """Token ids are below this number."""
    max_seq_len: int
    """Most tokens of a sequence."""
    tied_head: bool
    """Whether the output matrix is the token embedding itself, counted once."""
    sentence: str
    """What the preset is for."""
    norm_eps: float = 1e-5
    """Number added under the root of the normalisation layers."""
    rope_theta: float | None = None
    """Base of the rotary frequencies; null for gpt2."""


def _gpt2(num_layers: int, width: int, num_heads: int, vocab_size: int, sentence: str) -> ModelShape:
    return ModelShape(
        kind="gpt2",
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        width=width,
        mlp_width=4 * width,
        vocab_size=vocab_size,
        max_seq_len=1024,
        tied_head=True,
        sentence=sentence,
    )


def _small_llama(num_layers: int, width: int, num_heads: int, mlp_width: int, vocab_size: int, text: str) -> ModelShape:
    return ModelShape(
        kind="llama",
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=num_heads // 2,
        width=width,
        mlp_width=mlp_width,
        vocab_size=vocab_size,
        max_seq_len=1024,
        tied_head=True,
        sentence=text,
        rope_theta=10_000.0,
    )


PRESETS: dict[str, ModelShape] = {
    "gpt2-nano": _gpt2(1, 32, 2, 257, "The smallest GPT-2, for tests and for measuring the tool's own overhead."),
    "gpt2-tiny": _gpt2(2, 64, 2, 257, "A two-block GPT-2 over bytes, for quick looks on a CPU."),
    "gpt2-mini": _gpt2(4, 256, 4, 1024, "A 3.7 M parameter GPT-2 that trains visibly on two CPU cores."),
    "gpt2-124m": _gpt2(12, 768, 12, 50257, "GPT-2 small: 124 M parameters."),
    "gpt2-350m": _gpt2(24, 1024, 16, 50257, "GPT-2 medium: 355 M parameters."),
    "llama-nano": _small_llama(1, 32, 2, 96, 257, "The smallest Llama, for tests."),
    "llama-tiny": _small_llama(2, 64, 4, 192, 257, "A two-block Llama over bytes, for quick looks on a CPU."),
    "llama-mini": _small_llama(4, 256, 4, 704, 1024, "A 3 M parameter Llama that trains visibly on two CPU cores."),
    "llama-1b": ModelShape(
        kind="llama",
        num_layers=16,
        num_heads=32,
        num_kv_heads=8,
        width=2048,
        mlp_width=8192,
        vocab_size=128256,
        max_seq_len=8192,
        tied_head=True,
        sentence="The shape of Llama 3.2 1B: 1.24 G parameters.",
        rope_theta=500_000.0,
    ),
    "llama-8b": ModelShape(
        kind="llama",
        num_layers=32,
        num_heads=32,
        num_kv_heads=8,
        width=4096,
        mlp_width=14336,
        vocab_size=128256,
        max_seq_len=8192,
        tied_head=False,
        sentence="The shape of Llama 3.1 8B: 8.03 G parameters; its full AdamW state does not fit one 80 GB GPU.",
        rope_theta=500_000.0,
    ),
}
"""Every preset by name."""
