"""Clipping in every micro-batch.

What was clipped in parts does not add up to the clipped whole.
Try it here: bench check --step wrong_clip_per_micro_batch:step
"""

import torch
from torch.nn import functional

IGNORED = -100


def step(model, optimizer, micro_batches, accumulation_steps, clip_norm, schedule):
    """Train on all micro-batches; wrong as soon as anything is clipped."""
    for start in range(0, len(micro_batches), accumulation_steps):
        window = micro_batches[start : start + accumulation_steps]
        valid_targets = sum(int((targets != IGNORED).sum()) for _, targets in window)
        optimizer.zero_grad()
        for inputs, targets in window:
            logits = model(inputs)
            loss_sum = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
            (loss_sum / valid_targets).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)  # wrong: belongs before the update
        optimizer.step()
        schedule.step()
