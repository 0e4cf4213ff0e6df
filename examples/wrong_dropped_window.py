"""The last window is lost.

`if (i + 1) % accumulation_steps == 0` never holds for what is left at the end.
Try it here: bench check --step wrong_dropped_window:step
"""

import torch
from torch.nn import functional

IGNORED = -100


def step(model, optimizer, micro_batches, accumulation_steps, clip_norm, schedule):
    """Train on full windows only; the rest is forwarded and thrown away."""
    optimizer.zero_grad()
    for index, (inputs, targets) in enumerate(micro_batches):
        start = index - index % accumulation_steps
        window = micro_batches[start : start + accumulation_steps]
        valid_targets = sum(int((targets != IGNORED).sum()) for _, targets in window)
        logits = model(inputs)
        loss_sum = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        (loss_sum / valid_targets).backward()
        if (index + 1) % accumulation_steps == 0:  # wrong: a window that ends with the data ends too
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
