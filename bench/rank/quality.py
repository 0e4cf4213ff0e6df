"""Quality of the model on data it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from bench.loop import Precision
from bench.loop.window import LossSum, to_device
from bench.rank.workbench import Workbench
from bench.workload.micro_batches import own_chunks


def validation_loss(bench: Workbench) -> float | None:
    """Evaluate the held-out sequences over all ranks, each once, at the parameters as they are [nats/token].

    Runs in evaluation mode, under the trial's own autocast and in its micro-batches, on every rank at once. None where
    the corpus is too small to hold anything out, or nothing that is held out has a target. Waits for the device. Every
    micro-batch is a sign of life: a long validation is no hang.
    """
    sequences = bench.source.held_out()
    if not sequences:
        return None
    config, loop = bench.trial.config, bench.loop
    chunks = own_chunks(len(sequences), config.micro_batch_size, config.world_size, bench.ranks.rank)
    micro_batches = bench.feed.make([sequences[chunk.start : chunk.stop] for chunk in chunks], False)
    total = summed_loss(
        bench.model,
        loop.loss_sum,
        micro_batches,
        loop.precision,
        loop.device,
        on_micro_batch=lambda: bench.beat("validate"),
    )
    units = sum(micro_batch.unit_sum for micro_batch in micro_batches)
    loss_sum, all_units = bench.ranks.sum([total, units])
    bench.beat("data")
    return loss_sum / all_units if all_units else None


@torch.no_grad()
def summed_loss(
    model: nn.Module,
    loss_sum: LossSum,
    micro_batches: Iterable[Any],
    precision: Precision,
    device: torch.device,
    on_micro_batch: Callable[[], None] = lambda: None,
) -> float:
    """Add up the losses of micro-batches in evaluation mode, in float64 [nats, this rank]. Waits for the device.

    `on_micro_batch` is called before each. A GPU may lag behind by as many kernels as its queue holds, no more.
    """
    total = torch.zeros((), dtype=torch.float64, device=device)
    model.eval()
    try:
        for micro_batch in micro_batches:
            on_micro_batch()
            with precision.autocast():
                total += loss_sum(model, to_device(micro_batch, device))
    finally:
        model.train()
    return float(total)
