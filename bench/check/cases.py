"""The cases that are proved: small windows of every awkward shape, at most 7 sequences of at most 64 tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from bench.check.oracle import IGNORED, Batch

MOST_SEQUENCES = 7
MOST_TOKENS = 64
_PROMPT_TOKENS = 3
"""Targets ignored at the start of long rows, as a prompt's are [tokens]."""
_PROMPT_FROM = 9


@dataclass(frozen=True)
class Case:
    """State one data set, how it is cut, and the optimizer."""

    name: str
    lengths: tuple[tuple[int, ...], ...]
    """Length of each sequence, by micro-batch [tokens]."""
    accumulation_steps: int
    """On one rank; several ranks share them."""
    optimizer: Literal["sgd", "adamw"]
    is_bounded: bool = False
    """Whether the gradient is clipped and the learning rate follows a schedule."""
    masked: tuple[int, ...] = ()
    """Sequences all of whose targets are ignored, by their number in the data set."""
    passes: int = 1
    """Times that the whole data set is trained on."""

    def __post_init__(self) -> None:
        flat = [length for lengths in self.lengths for length in lengths]
        assert len(flat) <= MOST_SEQUENCES, "a proof is small"
        assert max(flat) <= MOST_TOKENS, "a proof is small"

    def micro_batches(self, vocab_size: int, seed: int) -> list[Batch]:
        """Draw the micro-batches, padded at the end as ragged rows are."""
        generator = torch.Generator().manual_seed(seed)
        batches: list[Batch] = []
        for lengths in self.lengths:
            first = sum(len(inputs) for inputs, _ in batches)
            shape = (len(lengths), max(lengths))
            inputs = torch.randint(0, vocab_size, shape, generator=generator)
            targets = torch.randint(0, vocab_size, shape, generator=generator)
            for row, length in enumerate(lengths):
                inputs[row, length:], targets[row, length:] = 0, IGNORED
                if length >= _PROMPT_FROM:
                    targets[row, :_PROMPT_TOKENS] = IGNORED
                if first + row in self.masked:
                    targets[row] = IGNORED
            batches.append((inputs, targets))
        return batches

    def steps_on(self, world_size: int) -> int:
        """Give the accumulation steps on each of several ranks."""
        return -(-self.accumulation_steps // world_size)


_UNEQUAL = ((9, 2), (5, 16), (3,), (1,), (12,))
CASES = (
    Case("a full window of unequal micro-batches, then a partial one", _UNEQUAL, 3, "sgd", passes=2),
    Case("masked sequences and micro-batches", ((4, 5), (3,), (6, 2), (7,)), 4, "sgd", masked=(1, 2, 5), passes=2),
    Case("full windows of equal micro-batches", ((4,), (4,), (4,), (4,)), 2, "adamw"),
    Case("a data set smaller than a micro-batch", ((7, 3),), 3, "sgd", passes=3),
    Case("one accumulation step", ((6,), (1,), (11, 2)), 1, "adamw"),
    Case("clipped and scheduled", _UNEQUAL, 3, "adamw", is_bounded=True, passes=2),
    Case("a masked window", ((4, 3), (2,), (5,), (3,), (6,)), 2, "adamw", masked=(2, 3, 4), passes=2),
)
"""In the order of their weight: where time is short, the last are not proved."""


def deal(micro_batches: list[Batch], world_size: int, rank: int) -> list[Batch]:
    """Give the micro-batches of one rank: k goes to rank k mod R."""
    return micro_batches[rank::world_size]


def planned_windows(micro_batches: list[Batch], steps: int, world_size: int) -> list[list[Batch]]:
    """List the micro-batches of each window over all ranks."""
    shares = [deal(micro_batches, world_size, rank) for rank in range(world_size)]
    count = max(-(-len(share) // steps) for share in shares)
    return [[batch for share in shares for batch in share[u * steps : (u + 1) * steps]] for u in range(count)]
