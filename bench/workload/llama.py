"""Llama 3: rotary positions, RMSNorm, grouped-query attention, SwiGLU, no biases.

Dubey et al. 2024, "The Llama 3 Herd of Models"; rotary embedding of Su et al. 2021 in the half-split layout of the
published weights (without their context extension: no preset goes beyond the length they were trained with).
"""

# B = micro-batch [sequences], T = tokens of a row, D = width, V = vocabulary,
# H = query heads, K = key and value heads, E = D/H

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from bench.sweep.presets import ModelShape
from bench.workload.attention import causal_attention
from bench.workload.blocks import Checkpointing, run_blocks


class Llama(nn.Module):
    """Predict the next token at every position.

    The weights are whatever `nn` put there; `bench.workload.build.build_model` gives them their seeded values.
    """

    def __init__(self, shape: ModelShape, activation_checkpointing: Checkpointing = False) -> None:
        super().__init__()
        self.activation_checkpointing = activation_checkpointing
        self.token_embedding = nn.Embedding(shape.vocab_size, shape.width)
        assert shape.rope_theta is not None, "a llama shape without rope_theta"
        rotary = Rotary(shape.width // shape.num_heads, shape.rope_theta)  # one for all blocks: its tables are the same
        self.blocks = nn.ModuleList(LlamaBlock(shape, rotary) for _ in range(shape.num_layers))
        self.final_norm = nn.RMSNorm(shape.width, eps=shape.norm_eps)
        self.head = None if shape.tied_head else nn.Linear(shape.width, shape.vocab_size, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map inputs (B, T) int64 to logits (B, T, V), in the autocast dtype or the parameters'."""
        x = self.token_embedding(inputs)
        checkpointing = self.activation_checkpointing if self.training else False
        x = self.final_norm(run_blocks(self.blocks, x, checkpointing=checkpointing))
        if self.head is None:
            # A use of the table, not a second parameter: nothing to count, wrap or synchronise twice.
            return functional.linear(x, self.token_embedding.weight)
        logits: torch.Tensor = self.head(x)
        return logits


class LlamaBlock(nn.Module):
    """Attention, then an MLP, each on a normalised copy and added back."""

    def __init__(self, shape: ModelShape, rotary: Rotary) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(shape.width, eps=shape.norm_eps)
        self.attention = LlamaAttention(shape, rotary)
        self.mlp_norm = nn.RMSNorm(shape.width, eps=shape.norm_eps)
        self.mlp = LlamaMLP(shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map x (B, T, D) to (B, T, D)."""
        x = x + self.attention(self.attention_norm(x))
        change: torch.Tensor = self.mlp(self.mlp_norm(x))
        return x + change


class LlamaAttention(nn.Module):
    """Causal self-attention where H/K query heads share one key and value head, through a fused kernel."""

    def __init__(self, shape: ModelShape, rotary: Rotary) -> None:
        super().__init__()
        self.head_width = shape.width // shape.num_heads
        self.query = nn.Linear(shape.width, shape.num_heads * self.head_width, bias=False)
        self.key = nn.Linear(shape.width, shape.num_kv_heads * self.head_width, bias=False)
        self.value = nn.Linear(shape.width, shape.num_kv_heads * self.head_width, bias=False)
        self.project_out = nn.Linear(shape.num_heads * self.head_width, shape.width, bias=False)
        self.rotary = rotary

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map x (B, T, D) to (B, T, D); position t sees positions 0 .. t."""
        query, key, value = (
            part(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2)  # (B, H or K, T, E)
            for part in (self.query, self.key, self.value)
        )
        mixed = causal_attention(self.rotary(query), self.rotary(key), value)
        projected: torch.Tensor = self.project_out(mixed.transpose(1, 2).flatten(2))
        return projected


class LlamaMLP(nn.Module):
    """SwiGLU: one linear layer gates another, a third maps back."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.width, shape.mlp_width, bias=False)
        self.expand = nn.Linear(shape.width, shape.mlp_width, bias=False)
        self.project_out = nn.Linear(shape.mlp_width, shape.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map x (B, T, D) to (B, T, D)."""
        projected: torch.Tensor = self.project_out(functional.silu(self.gate(x)) * self.expand(x))
        return projected


class Rotary(nn.Module):
    """Turn pairs of channels by an angle that grows with the position: theta ** (-2i/E) radians per token for pair i.

    The tables are kept as plain attributes, not buffers: DDP would broadcast buffers before each forward, and a cast
    of the module to 16 bits would round the angles.
    """

    def __init__(self, head_width: int, theta: float) -> None:
        super().__init__()
        self.head_width = head_width
        self.theta = theta
        self._tables: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Turn x (B, H, T, E), computing in float32 at least, and give back x's dtype."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        cos, sin = self._table(x.shape[-2], x.device, dtype)
        first, second = x.to(dtype).chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)

    def _table(self, length: int, device: torch.device, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Give cos and sin (T, E/2) of the first T positions; made again for a longer row, other device or dtype."""
        tables = self._tables
        if tables is None or tables[0].shape[0] < length or tables[0].device != device or tables[0].dtype != dtype:
            with torch.inference_mode(False):  # a table made while evaluating must serve a later backward pass
                pairs = torch.arange(0, self.head_width, 2, device=device, dtype=torch.float64)
                positions = torch.arange(length, device=device, dtype=torch.float64)
                angles = torch.outer(positions, self.theta ** (-pairs / self.head_width))
                tables = self._tables = (angles.cos().to(dtype), angles.sin().to(dtype))
        return tables[0][:length], tables[1][:length]
