"""Run a stack of blocks, with or without activation checkpointing."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def run_blocks(blocks: nn.ModuleList, x: torch.Tensor, *, checkpointing: bool) -> torch.Tensor:
    """Pass x (B, T, D) through the blocks in order.

    With `checkpointing` only each block's input is kept for the backward pass, which runs the block's forward again.
    """
    for block in blocks:
        # These blocks draw no random numbers, so no generator state needs to be saved and restored.
        x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=False) if checkpointing else block(x)
    return x
