"""A schedule that runs too fast.

With 4 accumulation steps a warm-up of 2000 updates is over after 500.
Try it here: bench check --step wrong_schedule_per_micro_batch:step
"""

import torch
from torch.nn import functional

IGNORED = -100


def step(model, optimizer, micro_batches, accumulation_steps, clip_norm, schedule):
    """Train on all micro-batches; wrong in the learning rate of every update but the first."""
    for start in range(0, len(micro_batches), accumulation_steps):
        window = micro_batches[start : start + accumulation_steps]
        valid_targets = sum(int((targets != IGNORED).sum()) for _, targets in window)
        optimizer.zero_grad()
        for index, (inputs, targets) in enumerate(window):
            logits = model(inputs)
            loss_sum = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
            (loss_sum / valid_targets).backward()
            if index + 1 == len(window):
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
                optimizer.step()
            schedule.step()  # wrong: belongs to the update
