"""GPT-2: learned positions, pre-LayerNorm blocks, GELU, one table for the token embedding and the head.

Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"; without dropout, so that the loss curves of
two cuts of the same data can be compared.
"""

# B = micro-batch [sequences], T = tokens of a row, D = width, H = heads, V = vocabulary

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from bench.sweep.presets import ModelShape
from bench.workload.blocks import Checkpointing, run_blocks


class GPT2(nn.Module):
    """Predict the next token at every position.

    The weights are whatever `nn` put there; `bench.workload.build.build_model` gives them their seeded values.
    """

    def __init__(self, shape: ModelShape, activation_checkpointing: Checkpointing = False) -> None:
        super().__init__()
        self.activation_checkpointing = activation_checkpointing
        self.token_embedding = nn.Embedding(shape.vocab_size, shape.width)
        self.position_embedding = nn.Embedding(shape.max_seq_len, shape.width)
        self.blocks = nn.ModuleList(GPT2Block(shape) for _ in range(shape.num_layers))
        self.final_norm = nn.LayerNorm(shape.width)
        self.head = None if shape.tied_head else nn.Linear(shape.width, shape.vocab_size, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map inputs (B, T) int64 to logits (B, T, V), in the autocast dtype or the parameters'."""
        positions = torch.arange(inputs.shape[1], device=inputs.device)
        x = self.token_embedding(inputs) + self.position_embedding(positions)
        checkpointing = self.activation_checkpointing if self.training else False
        x = self.final_norm(run_blocks(self.blocks, x, checkpointing=checkpointing))
        if self.head is None:
            # A use of the table, not a second parameter: nothing to count, wrap or synchronise twice.
            return functional.linear(x, self.token_embedding.weight)
        logits: torch.Tensor = self.head(x)
        return logits


class GPT2Block(nn.Module):
    """Attention, then an MLP, each on a normalised copy and added back."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.width)
        self.attention = GPT2Attention(shape)
        self.mlp_norm = nn.LayerNorm(shape.width)
        self.mlp = GPT2MLP(shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map x (B, T, D) to (B, T, D)."""
        x = x + self.attention(self.attention_norm(x))
        change: torch.Tensor = self.mlp(self.mlp_norm(x))
        return x + change


class GPT2Attention(nn.Module):
    """Causal self-attention with H heads, through torch's fused kernel."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.num_heads = shape.num_heads
        self.query_key_value = nn.Linear(shape.width, 3 * shape.width)
        self.project_out = nn.Linear(shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map x (B, T, D) to (B, T, D); position t sees positions 0 .. t."""
        query, key, value = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, H, T, D/H)
            for part in self.query_key_value(x).chunk(3, dim=-1)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        projected: torch.Tensor = self.project_out(mixed.transpose(1, 2).flatten(2))
        return projected


class GPT2MLP(nn.Module):
    """Two linear layers with GELU (tanh form, as GPT-2) between."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.expand = nn.Linear(shape.width, shape.mlp_width)
        self.project_out = nn.Linear(shape.mlp_width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map x (B, T, D) to (B, T, D)."""
        projected: torch.Tensor = self.project_out(functional.gelu(self.expand(x), approximate="tanh"))
        return projected
