"""The classic mistake: the mean of each micro-batch's mean.

A micro-batch of 3 targets then weighs as much as one of 30.
Try it here: bench check --step wrong_mean_of_means:step
"""

import torch
from torch.nn import functional


def step(model, optimizer, micro_batches, accumulation_steps, clip_norm, schedule):
    """Train on all micro-batches; wrong wherever they hold unequal numbers of targets."""
    for start in range(0, len(micro_batches), accumulation_steps):
        window = micro_batches[start : start + accumulation_steps]
        optimizer.zero_grad()
        for inputs, targets in window:
            loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            (loss / len(window)).backward()  # wrong: divides by micro-batches, not by targets
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        schedule.step()
