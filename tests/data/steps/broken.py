"""Steps that never run, or that raise."""

from torch.nn import functional


def yields(model, optimizer, micro_batches):
    """A generator of losses."""
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        yield loss.item()
    optimizer.step()


async def waits(model, optimizer, micro_batches):
    """A coroutine."""
    optimizer.step()


async def waits_and_yields(model, optimizer, micro_batches):
    """A generator that is awaited."""
    yield optimizer.step()


def asks_for_no_sync(model, optimizer, micro_batches):
    """Written for a wrapped model."""
    with model.no_sync():
        optimizer.step()


def counts_wrongly(model, optimizer, micro_batches):
    """An error deep in torch, from a line of its own."""
    inputs, targets = micro_batches[0]
    functional.cross_entropy(model(inputs), targets[:, :1])
