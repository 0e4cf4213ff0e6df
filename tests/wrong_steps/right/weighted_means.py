"""Means of micro-batches, each weighted by its share of the window's targets."""

import torch
from torch.nn import functional


def step(model, optimizer, micro_batches, clip_norm):
    counts = [int((targets != -100).sum()) for _, targets in micro_batches]
    total = sum(counts)
    optimizer.zero_grad()
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        mean = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        share = count / total
        (mean * share).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    if total > 0:
        optimizer.step()
