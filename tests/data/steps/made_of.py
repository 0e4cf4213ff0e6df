"""Steps whose gradient is made of something else than the sequences, or of the sequences in a wrong weighting."""

import torch
from torch.nn import functional

IGNORED = -100


def _units(micro_batches):
    return max(1, sum(int((targets != IGNORED).sum()) for _, targets in micro_batches))


def _sum(model, inputs, targets, **options):
    return functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum", **options)


def shifts_labels_twice(model, optimizer, micro_batches):
    """The targets are the next tokens already."""
    units = max(1, sum(int((targets[:, 1:] != IGNORED).sum()) for _, targets in micro_batches))
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        logits = model(inputs)[:, :-1].flatten(0, 1)
        (functional.cross_entropy(logits, targets[:, 1:].flatten(), reduction="sum") / units).backward()
    optimizer.step()


def trains_on_padding(model, optimizer, micro_batches):
    """Ignored targets became the padding token's."""
    units = sum(targets.numel() for _, targets in micro_batches)
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (_sum(model, inputs, targets.clamp(min=0)) / units).backward()
    optimizer.step()


def smooths_labels(model, optimizer, micro_batches):
    """Another loss than the one that is to be proved."""
    units = _units(micro_batches)
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (_sum(model, inputs, targets, label_smoothing=0.1) / units).backward()
    optimizer.step()


def adds_penalty(model, optimizer, micro_batches):
    """L2 by hand, once per window."""
    units = _units(micro_batches)
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (_sum(model, inputs, targets) / units).backward()
    (0.01 * sum(parameter.square().sum() for parameter in model.parameters())).backward()
    optimizer.step()


def leaks_last_window(model, optimizer, micro_batches, accumulation_steps):
    """What is left at the end is neither stepped nor thrown away: the next pass gets it."""
    for index, (inputs, targets) in enumerate(micro_batches):
        start = index - index % accumulation_steps
        window = micro_batches[start : start + accumulation_steps]
        (_sum(model, inputs, targets) / _units(window)).backward()
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def clears_gradients_once(model, optimizer, micro_batches, accumulation_steps):
    """Right in the first window of a pass alone: the gradients of each are still there in the next."""
    optimizer.zero_grad()
    for start in range(0, len(micro_batches), accumulation_steps):
        window = micro_batches[start : start + accumulation_steps]
        for inputs, targets in window:
            (_sum(model, inputs, targets) / _units(window)).backward()
        optimizer.step()


def counts_at_least_one(model, optimizer, micro_batches):
    """A masked micro-batch counts as one target."""
    units = sum(max(1, int((targets != IGNORED).sum())) for _, targets in micro_batches)
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (_sum(model, inputs, targets) / units).backward()
    optimizer.step()


def weighs_means_of_nothing(model, optimizer, micro_batches):
    """Means weighed by their counts: 0/0 where a micro-batch is masked, and its gradient is no number either."""
    total = _units(micro_batches)
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        counted = (targets != IGNORED).double()
        picked = model(inputs).log_softmax(-1).gather(2, targets.clamp(min=0)[..., None])[..., 0]
        mean = -(picked * counted).sum() / counted.sum()
        (mean * float(counted.sum()) / total).backward()
    optimizer.step()


def divides_by_micro_batches(model, optimizer, micro_batches):
    """Means over targets, masked micro-batches left out, then divided by all of them."""
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        if torch.isfinite(loss):
            (loss / len(micro_batches)).backward()
    optimizer.step()


def clips_twice(model, optimizer, micro_batches, clip_norm):
    """The second clip finds a norm that is a millionth too large, and clips again."""
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (_sum(model, inputs, targets) / _units(micro_batches)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
