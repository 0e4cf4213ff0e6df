"""Run a stack of blocks, with or without activation checkpointing."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

Checkpointing = bool | Literal["reentrant"]
"""Whether blocks are checkpointed; reentrant asks for torch's older way, use_reentrant=True."""


def run_blocks(blocks: nn.ModuleList, x: torch.Tensor, *, checkpointing: Checkpointing) -> torch.Tensor:
    """Pass x (B, T, D) through the blocks in order.

    With `checkpointing` only each block's input is kept for the backward pass, which runs the block's forward again.
    Reentrant, a block whose input needs no gradient gives its parameters none.
    """
    is_reentrant = checkpointing == "reentrant"
    for block in blocks:
        # These blocks draw no random numbers, so no generator state needs to be saved and restored.
        x = checkpoint(block, x, use_reentrant=is_reentrant, preserve_rng_state=False) if checkpointing else block(x)
    return x
