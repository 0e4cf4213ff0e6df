"""An image classifier with BatchNorm, in channels-last layout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CLASSES = 10


class Images(torch.utils.data.Dataset):
    """Random images that are made when they are asked for; yours would be read and decoded here."""

    def __init__(self, size: int, samples: int, seed: int) -> None:
        self.size, self.samples, self.seed = size, samples, seed

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(self.seed + number)
        return {
            "pixels": torch.randn(3, self.size, self.size, generator=generator),
            "labels": torch.tensor(number % CLASSES),
        }


def images(seq_len: int, seed: int, size: int = 32, samples: int = 1000) -> Images:
    """Make the data set; an image has no length, so seq_len is not used."""
    del seq_len
    return Images(size, samples, seed)


def channels_last(samples: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Stack images in the layout that the model's convolutions want."""
    pixels = torch.stack([sample["pixels"] for sample in samples]).contiguous(memory_format=torch.channels_last)
    return {"pixels": pixels, "labels": torch.stack([sample["labels"] for sample in samples])}


class Network(nn.Module):
    """Convolve, normalise by the micro-batch, pool, classify."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        self.head = nn.Linear(width, CLASSES)

    def forward(self, pixels: Tensor) -> Tensor:
        """Map pixels (B, 3, H, W) to logits (B, C)."""
        return self.head(self.body(pixels).mean((2, 3)))


def build(width: int = 16) -> nn.Module:
    """Build the model with channels-last weights."""
    return Network(width).to(memory_format=torch.channels_last)
