"""A training step that is right.

The losses of a micro-batch are summed, and divided once by the targets of the whole window.
Try it here: bench check --step right_step:step
"""

import torch
from torch.nn import functional

IGNORED = -100


def step(model, optimizer, micro_batches, accumulation_steps, clip_norm, schedule):
    """Train on all micro-batches; the last window may hold fewer than the others."""
    for start in range(0, len(micro_batches), accumulation_steps):
        window = micro_batches[start : start + accumulation_steps]
        valid_targets = sum(int((targets != IGNORED).sum()) for _, targets in window)
        optimizer.zero_grad()
        for inputs, targets in window:
            logits = model(inputs)
            loss_sum = functional.cross_entropy(
                logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
            )
            (loss_sum / valid_targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        schedule.step()
