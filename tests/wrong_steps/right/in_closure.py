"""The whole window in the closure that the optimizer calls."""

import torch
from torch.nn import functional


def step(model, optimizer, micro_batches, clip_norm):
    units = sum(int((targets != -100).sum()) for _, targets in micro_batches)
    if units == 0:
        return

    def closure():
        optimizer.zero_grad()
        total = 0.0
        for inputs, targets in micro_batches:
            loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum") / units
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        return total

    optimizer.step(closure)
