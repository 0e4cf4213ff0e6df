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
    """Sequences in it, 0 when it only keeps a rank company [this rank]."""
    valid_targets: int
    """Targets that are not ignored: what its summed loss is a sum over [this rank]."""
    token_slots: int
    """B * T, the elements really fed, padding included [this rank]."""
    unit_sum: float
    """Its share of the window's denominator in the loss's own unit; valid targets for language models [this rank]."""
    padding_slots: int = 0
    """Token slots that only fill up rows: no token of a sequence is in them [this rank]."""

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


def cut_window(
    sequences: Sequence[NDArray[np.int64]],
    micro_batch_size: int,
    world_size: int,
    rank: int,
    rows: Rows,
    seq_len: int,
    has_prompts: bool = False,
) -> list[MicroBatch]:
    """Cut the sequences of one window into the micro-batches of one rank.

    `ragged` pads a micro-batch to its own longest row, `padded` and `packed` to `seq_len`. The window's last chunk may
    hold fewer than B sequences. Every rank gets ceil(chunks / R) micro-batches; one that has no chunk left for the
    last micro-step gets a single ignored slot, so that it takes part in the gradient synchronisation with a zero
    contribution.

    Args:
        sequences: The window over all ranks, each (2 .. seq_len + 1,) int64 [tokens].
        micro_batch_size: B [sequences].
        world_size: R [ranks].
        rank: This rank, 0 .. R-1.
        rows: How rows are filled up.
        seq_len: Most inputs of a row [tokens].
        has_prompts: Whether sequences hold complements of ids, which are no targets.
    """
    chunks = [sequences[i : i + micro_batch_size] for i in range(0, len(sequences), micro_batch_size)]
    micro_steps = -(-len(chunks) // world_size)
    mine = [_fill(chunk, rows, seq_len, has_prompts) for chunk in chunks[rank::world_size]]
    mine += [_nothing() for _ in range(micro_steps - len(mine))]
    return mine


def _fill(chunk: Sequence[NDArray[np.int64]], rows: Rows, seq_len: int, has_prompts: bool) -> MicroBatch:
    """Lay one chunk of sequences into padded rows."""
    lengths = [len(sequence) - 1 for sequence in chunk]
    longest = max(lengths)
    assert longest <= seq_len, f"a sequence of {longest + 1} tokens does not fit rows of {seq_len} inputs"
    width = longest if rows == "ragged" else seq_len
    if min(lengths) == width and not has_prompts:  # the two may share memory, where prompts could not be uncovered
        both = np.stack(chunk)
        inputs, targets = np.ascontiguousarray(both[:, :-1]), np.ascontiguousarray(both[:, 1:])
    else:
        inputs = np.full((len(chunk), width), _PADDING_INPUT, dtype=np.int64)
        targets = np.full((len(chunk), width), IGNORED_TARGET, dtype=np.int64)
        for row, (sequence, length) in enumerate(zip(chunk, lengths, strict=True)):
            inputs[row, :length] = sequence[:-1]
            targets[row, :length] = sequence[1:]
    tokens = sum(lengths)
    valid_targets = _uncover_prompts(inputs, targets) if has_prompts else tokens
    return MicroBatch(
        inputs=torch.from_numpy(inputs),
        targets=torch.from_numpy(targets),
        sequences=len(chunk),
        valid_targets=valid_targets,
        token_slots=inputs.size,
        unit_sum=float(valid_targets),
        padding_slots=inputs.size - tokens,
    )


def _uncover_prompts(inputs: NDArray[np.int64], targets: NDArray[np.int64]) -> int:
    """Turn complements back into ids, and as targets into ignored ones, in place; count the targets that are valid."""
    np.invert(inputs, out=inputs, where=inputs < 0)
    is_ignored = targets < 0
    targets[is_ignored] = IGNORED_TARGET
    return targets.size - int(np.count_nonzero(is_ignored))


def _nothing() -> MicroBatch:
    """Make the micro-batch of a rank that has no chunk left: one slot, ignored."""
    return MicroBatch(
        inputs=torch.full((1, 1), _PADDING_INPUT, dtype=torch.int64),
        targets=torch.full((1, 1), IGNORED_TARGET, dtype=torch.int64),
        sequences=0,
        valid_targets=0,
        token_slots=1,
        unit_sum=0.0,
        padding_slots=1,
    )
