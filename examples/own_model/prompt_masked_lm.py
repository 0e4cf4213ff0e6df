"""A causal language model that learns completions and not their prompts: own model and data, the usual loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

IDS, IGNORED = 512, -100


class Block(nn.Module):
    """Attend to what came before, then mix channels."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, T, D) to (B, T, D)."""
        split = self.attend(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*split.unbind(0), is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.mlp_norm(x))


class LanguageModel(nn.Module):
    """Predict the next token at every position; the table of ids is the head too."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.table = nn.Embedding(IDS, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, IDS, bias=False)
        self.head.weight = self.table.weight
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Map ids (B, T) to logits (B, T, V)."""
        return self.head(self.norm(self.blocks(self.table(input_ids))))


def build(width: int = 64, layers: int = 2) -> nn.Module:
    """Build the model."""
    return LanguageModel(width, layers)


def conversations(seq_len: int, seed: int, samples: int = 400) -> list[dict[str, Tensor]]:
    """Make prompts and completions; labels are the ids one place ahead, and ignored inside the prompt."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(samples):
        prompt = int(torch.randint(1, seq_len // 2, (), generator=generator))
        completion = int(torch.randint(1, seq_len // 2, (), generator=generator))
        ids = torch.randint(1, IDS, (prompt + completion,), generator=generator)
        labels = ids[1:].clone()
        labels[: prompt - 1] = IGNORED
        made.append({"input_ids": ids[:-1], "labels": labels})
    return made


def pad(samples: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Pad a micro-batch to its longest row; causal attention never looks at what comes last."""
    filled = {"input_ids": 0, "labels": IGNORED}
    rows = {name: [sample[name] for sample in samples] for name in filled}
    return {name: nn.utils.rnn.pad_sequence(rows[name], True, value) for name, value in filled.items()}
