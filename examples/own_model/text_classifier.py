"""A text classifier whose rare class weighs more: own model, data, padding and loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS, CLASSES, PADDING = 1000, 3, 0


class Classifier(nn.Module):
    """Average the embeddings of a text, padding left out, and classify it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, width)
        self.body = nn.Linear(width, width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Map ids (B, T) to logits (B, C)."""
        is_word = (input_ids != PADDING).unsqueeze(-1)
        mean = (self.table(input_ids) * is_word).sum(1) / is_word.sum(1)
        return self.head(torch.tanh(self.body(mean)))


def build(width: int = 64) -> nn.Module:
    """Build the model."""
    return Classifier(width)


def texts(seq_len: int, seed: int, samples: int = 600) -> list[dict[str, Tensor]]:
    """Make texts of 2 to seq_len words, two of three of class 0; yours would be read from files."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for number in range(samples):
        label = max(0, number % 6 - 3)
        length = int(torch.randint(2, seq_len + 1, (), generator=generator))
        words = torch.randint(1, WORDS // CLASSES, (length,), generator=generator) + label * (WORDS // CLASSES)
        made.append({"input_ids": words, "labels": torch.tensor(label)})
    return made


def pad(samples: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Pad the texts of a micro-batch to its longest."""
    ids = nn.utils.rnn.pad_sequence([sample["input_ids"] for sample in samples], True, PADDING)
    return {"input_ids": ids, "labels": torch.stack([sample["labels"] for sample in samples])}


class WeightedLoss:
    """Sum cross-entropies by the weights of their classes; the units are those weights."""

    unit = "weight"

    def __init__(self, weights: list[float]) -> None:
        self.weights = torch.tensor(weights)

    def __call__(self, outputs: Tensor, batch: dict[str, Any]) -> Tensor:
        """Return the sum over the batch, never the mean."""
        return functional.cross_entropy(outputs, batch["labels"], self.weights.to(outputs), reduction="sum")

    def units(self, batch: dict[str, Any]) -> float:
        """Add up the weights of the batch's classes: what that sum is divided by."""
        return float(self.weights[batch["labels"]].double().sum())
