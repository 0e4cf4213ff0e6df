"""All windows of a data set, cut by slices; clipped and scheduled."""

import torch
from torch.nn import functional


def step(model, optimizer, micro_batches, accumulation_steps, clip_norm, schedule):
    model.train()
    for start in range(0, len(micro_batches), accumulation_steps):
        window = micro_batches[start : start + accumulation_steps]
        units = sum((targets != -100).sum().item() for _, targets in window)
        if units == 0:
            continue
        optimizer.zero_grad(set_to_none=True)
        for inputs, targets in window:
            logits = model(inputs)
            loss = functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), reduction="sum")
            (loss / units).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        schedule.step()
