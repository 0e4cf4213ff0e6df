"""Sums, divided by the targets of the window; called once per window."""

from torch.nn import functional


def step(model, optimizer, micro_batches):
    units = sum(int((targets != -100).sum()) for _, targets in micro_batches)
    if units == 0:
        return
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        logits = model(inputs)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        loss = loss / units
        loss.backward()
    optimizer.step()
