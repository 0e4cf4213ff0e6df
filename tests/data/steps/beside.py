"""Steps that change parameters or rates beside the optimizer's own step; the gradients are right in all of them."""

import torch
from torch.nn import functional

IGNORED = -100


def _backward(model, optimizer, micro_batches):
    units = sum(int((targets != IGNORED).sum()) for _, targets in micro_batches)
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        logits = model(inputs).flatten(0, 1)
        (functional.cross_entropy(logits, targets.flatten(), reduction="sum") / max(units, 1)).backward()


def puts_average_in(model, optimizer, micro_batches):
    """Averaged weights for an evaluation, never taken out again."""
    old = [parameter.detach().clone() for parameter in model.parameters()]
    _backward(model, optimizer, micro_batches)
    optimizer.step()
    with torch.no_grad():
        for parameter, before in zip(model.parameters(), old, strict=True):
            parameter.lerp_(before, 0.99)


def takes_average_out_again(model, optimizer, micro_batches):
    """Right: the weights that were trained are back before the step ends."""
    _backward(model, optimizer, micro_batches)
    optimizer.step()
    trained = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict({name: value * 0.5 for name, value in trained.items()})
    model.load_state_dict(trained)


def loads_copy_back(model, optimizer, micro_batches):
    """The best weights so far, of before the update."""
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    _backward(model, optimizer, micro_batches)
    optimizer.step()
    model.load_state_dict(kept)


def decays_each_window(model, optimizer, micro_batches):
    """Decay by hand between backward and update."""
    _backward(model, optimizer, micro_batches)
    for parameter in model.parameters():
        parameter.data *= 0.99
    optimizer.step()


def decays_each_micro_batch(model, optimizer, micro_batches):
    """Decay by hand, more of it where the window is cut finer."""
    _backward(model, optimizer, micro_batches)
    optimizer.step()
    with torch.no_grad():
        for _ in micro_batches:
            for parameter in model.parameters():
                parameter.mul_(0.999)


def scales_rate_by_micro_batches(model, optimizer, micro_batches):
    """Linear scaling of the rate, by how the window happens to be cut."""
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * len(micro_batches)
    _backward(model, optimizer, micro_batches)
    optimizer.step()


def raises_rate_each_call(model, optimizer, micro_batches, accumulation_steps):
    """All windows, and a rate that grows whenever the step is called."""
    for group in optimizer.param_groups:
        group["lr"] *= 1.5
    for start in range(0, len(micro_batches), accumulation_steps):
        _backward(model, optimizer, micro_batches[start : start + accumulation_steps])
        optimizer.step()


def lowers_rate_each_update(model, optimizer, micro_batches):
    """Right: a rule of its own, the same however the data are cut."""
    for group in optimizer.param_groups:
        group["lr"] *= 0.9
    _backward(model, optimizer, micro_batches)
    optimizer.step()


def steps_by_hand(model, optimizer, micro_batches):
    """A plain SGD written out: right for itself, and not the optimizer's update."""
    _backward(model, optimizer, micro_batches)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad


def steps_by_hand_on_means(model, optimizer, micro_batches):
    """The same on the mean of means, which depends on the cut."""
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        if loss.isfinite():
            (loss / len(micro_batches)).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad


def turns_decay_off(model, optimizer, micro_batches):
    """Another optimizer than the one that was asked for."""
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.0
    _backward(model, optimizer, micro_batches)
    optimizer.step()


def casts_model(model, optimizer, micro_batches):
    """Right to the rounding of float32."""
    model.float()
    _backward(model, optimizer, micro_batches)
    optimizer.step()
