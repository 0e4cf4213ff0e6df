"""Right steps in the ways that people write them."""

import torch
from torch.nn import functional

IGNORED = -100


def _units(micro_batches):
    return max(1, sum(int((targets != IGNORED).sum()) for _, targets in micro_batches))


def _sum(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


def has_closure(model, optimizer, micro_batches):
    """Everything happens when the optimizer asks."""
    units = sum(int((targets != IGNORED).sum()) for _, targets in micro_batches)

    def closure():
        optimizer.zero_grad()
        total = torch.zeros(())
        for inputs, targets in micro_batches:
            loss = _sum(model(inputs), targets) / units
            loss.backward()
            total = total + loss.detach()
        return total

    optimizer.step(closure=closure)


def casts_logits(model, optimizer, micro_batches):
    """As most scripts do before the loss."""
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (_sum(model(inputs).to(torch.float32), targets) / _units(micro_batches)).backward()
    optimizer.step()


def has_autocast_and_scaler(model, optimizer, micro_batches):
    """Mixed precision with a scaler, on a CPU."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = _sum(model(inputs), targets) / _units(micro_batches)
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def checkpoints(model, optimizer, micro_batches):
    """The forward is run again in the backward."""
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        logits = torch.utils.checkpoint.checkpoint(model, inputs, use_reentrant=False)
        (_sum(logits, targets) / _units(micro_batches)).backward()
    optimizer.step()


def is_compiled(model, optimizer, micro_batches):
    """Forward and loss through the compiler's own graphs."""

    def loss_of(inputs, targets):
        return _sum(model(inputs), targets)

    compiled = torch.compile(loss_of, backend="aot_eager")
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (compiled(inputs, targets) / _units(micro_batches)).backward()
    optimizer.step()


def clips_by_itself(model, optimizer, micro_batches):
    """To a norm that nobody asked for, once per window."""
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (_sum(model(inputs), targets) / _units(micro_batches)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.2)
    optimizer.step()


def divides_by_nothing_in_python(model, optimizer, micro_batches):
    """Raises where a window has no target; loud, and right elsewhere."""
    share = 1 / sum(int((targets != IGNORED).sum()) for _, targets in micro_batches)
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (_sum(model(inputs), targets) * share).backward()
    optimizer.step()


def divides_by_nothing(model, optimizer, micro_batches):
    """0/0 in every parameter where a window has no target, as in one concatenated batch; right elsewhere."""
    units = torch.tensor(float(sum(int((targets != IGNORED).sum()) for _, targets in micro_batches)))
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        counted = (targets != IGNORED).double()
        picked = model(inputs).log_softmax(-1).gather(2, targets.clamp(min=0)[..., None])[..., 0]
        (-(picked * counted).sum() / units).backward()
    optimizer.step()


def adds_up_in_float32(model, optimizer, micro_batches):
    """Right to the rounding of its own buffers."""
    totals = [torch.zeros(parameter.shape) for parameter in model.parameters()]
    for inputs, targets in micro_batches:
        optimizer.zero_grad()
        (_sum(model(inputs), targets) / _units(micro_batches)).backward()
        for total, parameter in zip(totals, model.parameters(), strict=True):
            total += parameter.grad
    for total, parameter in zip(totals, model.parameters(), strict=True):
        parameter.grad = total.to(parameter.dtype)
    optimizer.step()


def is_compiled_with_cast(model, optimizer, micro_batches):
    """The cast is inside the compiler's graph."""
    compiled = torch.compile(lambda inputs, targets: _sum(model(inputs).float(), targets), backend="aot_eager")
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (compiled(inputs, targets) / _units(micro_batches)).backward()
    optimizer.step()
