"""Gradients of sums, divided once before the update."""

import torch
from torch.nn import functional


def step(model, optimizer, micro_batches, accumulation_steps, clip_norm, schedule):
    for start in range(0, len(micro_batches), accumulation_steps):
        units = 0
        optimizer.zero_grad()
        for inputs, targets in micro_batches[start : start + accumulation_steps]:
            loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
            loss.backward()
            units += int((targets != -100).sum())
        if units > 0:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(units)
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
            schedule.step()
