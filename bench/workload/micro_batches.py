"""A window of sequences becomes the micro-batches of one rank.

Chunk k of B consecutive sequences goes to rank k mod R as its micro-step k // R. So the window holds the same
sequences and the same valid targets whatever B and R are; only where the chunks run differs.
"""

# B = micro-batch [sequences], T = width of a micro-batch [token slots], R = world size

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from bench.workload.data.sequences import Rows

IGNORED_TARGET = -100
"""Target that contributes nothing to the loss; the default `ignore_index` of torch's cross-entropy."""

_PADDING_INPUT = 0  # any valid id does: attention is causal, padding is last, and its targets are ignored


@dataclass(frozen=True)
class MicroBatch:
    """What one rank feeds to one forward and backward."""

    inputs: torch.Tensor
    """(B, T) int64 token ids."""
    targets: torch.Tensor
    """(B, T) int64 ids of the next tokens; -100 is ignored."""
    sequences: int
    """Sequences in it [this rank]."""
    valid_targets: int
    """Targets that are not ignored: what its summed loss is a sum over [this rank]."""
    token_slots: int
    """B * T, the elements really fed, padding included [this rank]."""
    unit_sum: float
    """Its share of the window's denominator in the loss's own unit; valid targets for language models [this rank]."""
    padding_slots: int = 0
    """Token slots that only fill up rows: no token of a sequence is in them [this rank]."""

    @property
    def token_pairs(self) -> int:
        """Sum the width of their row over the token slots: what attention costs."""
        return self.token_slots * self.inputs.shape[1]

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Name the tensors as batches of the user's own are named."""
        return {"input_ids": self.inputs, "labels": self.targets}

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Unpack as the pair that a loss takes: inputs, targets."""
        return iter((self.inputs, self.targets))

    def to(self, device: torch.device | str, non_blocking: bool = True) -> MicroBatch:
        """Copy the two tensors to a device, by default without waiting for the copy; the counts stay.

        A copy from page-locked memory that the host waits for would drain the GPU's queue at every micro-batch. What
        is there already is given back as it is.
        """
        if self.inputs.device == device:
            return self
        return replace(
            self,
            inputs=self.inputs.to(device, non_blocking=non_blocking),
            targets=self.targets.to(device, non_blocking=non_blocking),
        )


def own_chunks(num_sequences: int, micro_batch_size: int, world_size: int, rank: int) -> list[range]:
    """Say which sequences of a window are one rank's, a range for each of its micro-batches.

    The window's last chunk may hold fewer than B sequences, and a rank may have one chunk less than another.

    Args:
        num_sequences: Sequences of the window over all ranks.
        micro_batch_size: B [sequences].
        world_size: R [ranks].
        rank: This rank, 0 .. R-1.
    """
    starts = range(rank * micro_batch_size, num_sequences, world_size * micro_batch_size)
    return [range(start, min(start + micro_batch_size, num_sequences)) for start in starts]


def lay_out(
    chunks: Sequence[Sequence[NDArray[np.int64]]],
    rows: Rows,
    seq_len: int,
    has_prompts: bool = False,
    is_pinned: bool = False,
) -> list[MicroBatch]:
    """Lay chunks of sequences into micro-batches.

    `ragged` pads a micro-batch to its own longest row, `padded` and `packed` to `seq_len`.

    Args:
        chunks: For each micro-batch its sequences, each (2 .. seq_len + 1,) int64 [tokens].
        rows: How rows are filled up.
        seq_len: Most inputs of a row [tokens].
        has_prompts: Whether sequences hold complements of ids, which are no targets.
        is_pinned: Whether they lie in page-locked memory, from where a copy to a GPU need not wait: one block for all,
            since the allocator asks the GPU about each.
    """
    lengths = [[len(sequence) - 1 for sequence in chunk] for chunk in chunks]
    longest = max(map(max, lengths), default=0)
    assert longest <= seq_len, f"a sequence of {longest + 1} tokens does not fit rows of {seq_len} inputs"
    shapes = [(len(chunk), max(chunk) if rows == "ragged" else seq_len) for chunk in lengths]
    tensors = _empty_in_one_pinned_block(shapes) if is_pinned else _empty(shapes)
    return [_fill(*each, has_prompts) for each in zip(chunks, lengths, *tensors, strict=True)]


Tensors = tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]


def _empty(shapes: Sequence[tuple[int, int]]) -> Tensors:
    """Make inputs and targets, each by itself: small arrays come again from where the last ones were."""
    inputs, targets = ([torch.from_numpy(np.empty(shape, np.int64)) for shape in shapes] for _ in range(2))
    return inputs, targets


def _empty_in_one_pinned_block(shapes: Sequence[tuple[int, int]]) -> Tensors:
    """Make inputs and targets as views of one page-locked block."""
    slots = [height * width for height, width in shapes]
    parts = torch.split(torch.empty(2 * sum(slots), dtype=torch.int64, pin_memory=True), [*slots, *slots])
    views = [part.view(shape) for part, shape in zip(parts, [*shapes, *shapes], strict=True)]
    return views[: len(shapes)], views[len(shapes) :]


def _fill(
    chunk: Sequence[NDArray[np.int64]],
    lengths: Sequence[int],
    inputs: torch.Tensor,
    targets: torch.Tensor,
    has_prompts: bool,
) -> MicroBatch:
    """Lay one chunk of sequences into the rows of two tensors, each (B, T) int64."""
    into, ahead = inputs.numpy(), targets.numpy()
    if min(lengths) < inputs.shape[1]:
        into.fill(_PADDING_INPUT)
        ahead.fill(IGNORED_TARGET)
    for row, (sequence, length) in enumerate(zip(chunk, lengths, strict=True)):
        into[row, :length] = sequence[:-1]
        ahead[row, :length] = sequence[1:]
    tokens = sum(lengths)
    valid_targets = _uncover_prompts(into, ahead) if has_prompts else tokens
    return MicroBatch(
        inputs=inputs,
        targets=targets,
        sequences=len(chunk),
        valid_targets=valid_targets,
        token_slots=inputs.numel(),
        unit_sum=float(valid_targets),
        padding_slots=inputs.numel() - tokens,
    )


def _uncover_prompts(inputs: NDArray[np.int64], targets: NDArray[np.int64]) -> int:
    """Turn complements back into ids, and as targets into ignored ones, in place; count the targets that are valid."""
    np.invert(inputs, out=inputs, where=inputs < 0)
    is_ignored = targets < 0
    targets[is_ignored] = IGNORED_TARGET
    return targets.size - int(np.count_nonzero(is_ignored))
