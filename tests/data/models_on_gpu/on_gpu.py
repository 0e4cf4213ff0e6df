"""Models of a user that do on a GPU what they do not on a CPU."""

import torch
from torch import nn


class _Model(nn.Module):
    def __init__(self, on_gpu):
        super().__init__()
        self.embedding = nn.Embedding(64, 8)
        self.head = nn.Linear(8, 64)
        self._on_gpu = on_gpu

    def forward(self, inputs):
        logits = self.head(self.embedding(inputs))
        return logits + self._on_gpu() if inputs.is_cuda else logits


def _pin():
    """Copies from page-locked memory without waiting for it."""
    pinned = torch.zeros(100_000).pin_memory()
    total = pinned.to("cuda", non_blocking=True)
    for _ in range(50):
        total = total + 0
    return total[0]


def _take():
    return torch.zeros(8 * 1024**3, dtype=torch.uint8, device="cuda")[0]


def that_pins():
    return _Model(_pin)


def that_takes_much():
    return _Model(_take)
