"""Steps that change the tensors they are handed: before training on them, which is wrong, or after, which is not."""

from torch.nn import functional

IGNORED = -100


def _train(model, optimizer, micro_batches):
    units = sum(int((targets != IGNORED).sum()) for _, targets in micro_batches)
    if not units:
        return
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        logits = model(inputs).flatten(0, 1)
        (functional.cross_entropy(logits, targets.flatten(), reduction="sum") / units).backward()
    optimizer.step()


def trains_on_token_zero(model, optimizer, micro_batches):
    """A buffer is cleared too early."""
    for inputs, _ in micro_batches:
        inputs.fill_(0)
    _train(model, optimizer, micro_batches)


def masks_every_second_target(model, optimizer, micro_batches):
    """A helper masks prompts in the caller's tensors, and takes half of the answers with them."""
    for _, targets in micro_batches:
        targets[:, 1::2] = IGNORED
    _train(model, optimizer, micro_batches)


def shifts_labels(model, optimizer, micro_batches):
    """Labels are moved by one place in the caller's tensors, which hold them moved already."""
    for _, targets in micro_batches:
        targets[:, :-1] = targets[:, 1:].clone()
        targets[:, -1] = IGNORED
    _train(model, optimizer, micro_batches)


def empties_buffers_after_use(model, optimizer, micro_batches):
    """Right: what is gone has been trained on."""
    units = sum(int((targets != IGNORED).sum()) for _, targets in micro_batches)
    optimizer.zero_grad()
    while micro_batches:
        inputs, targets = micro_batches.pop(0)
        logits = model(inputs).flatten(0, 1)
        (functional.cross_entropy(logits, targets.flatten(), reduction="sum") / units).backward()
        inputs.zero_()
        targets.fill_(IGNORED)
    optimizer.step()
