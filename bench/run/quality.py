"""Quality of the model on data it was not trained on."""

from __future__ import annotations

import torch

from bench.run.workbench import Workbench
from bench.workload.micro_batches import cut_window


@torch.no_grad()
def validation_loss(bench: Workbench) -> float | None:
    """Evaluate the held-out sequences over all ranks, each once, at the parameters as they are [nats/token].

    Runs in evaluation mode, under the trial's own autocast and in its micro-batches, on every rank at once. None where
    the corpus is too small to hold anything out. Waits for the device.
    """
    sequences = bench.source.held_out()
    if not sequences:
        return None
    config, loop = bench.trial.config, bench.loop
    cut = cut_window(
        sequences,
        config.micro_batch_size,
        config.world_size,
        bench.ranks.rank,
        config.data.rows,
        config.seq_len,
    )
    micro_batches = [micro_batch for micro_batch in cut if micro_batch.sequences]
    total = torch.zeros((), dtype=torch.float64, device=loop.device)
    bench.model.eval()
    try:
        for micro_batch in micro_batches:
            with loop.precision.autocast():
                total += loop.loss_sum(bench.model, micro_batch.to(loop.device))
    finally:
        bench.model.train()
    units = sum(micro_batch.unit_sum for micro_batch in micro_batches)
    loss_sum, all_units = bench.ranks.sum([float(total), units])
    return loss_sum / all_units
