"""Windows cut into the micro-batches of one rank, as the feed does it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.workload.data.sequences import Rows
from bench.workload.micro_batches import MicroBatch, lay_out, own_chunks


def cut_window(
    window: Sequence[NDArray[np.int64]],
    micro_batch_size: int,
    world_size: int,
    rank: int,
    rows: Rows,
    seq_len: int,
    has_prompts: bool = False,
) -> list[MicroBatch]:
    """Cut sequences over all ranks into this rank's micro-batches."""
    chunks = own_chunks(len(window), micro_batch_size, world_size, rank)
    return lay_out([[window[index] for index in chunk] for chunk in chunks], rows, seq_len, has_prompts)
