"""Whether the user's own loss is the sum that an accumulated update needs, looked at once all is measured."""

from __future__ import annotations

import sys
from typing import Any

import torch

from bench.loop.window import to_device
from bench.rank.workbench import Workbench
from bench.workload.batch_loss import BatchLoss, mean_words


def why_loss_is_wrong(bench: Workbench) -> str | None:
    """Say so where the loss of two samples together is the mean of their losses; None where it is not, or not known.

    Runs the model in evaluation mode, without gradients, on two samples [one rank]. A model that cannot be run so says
    why in the log, and its loss is left to the proof.
    """
    run = bench.loop.loss_sum
    if not isinstance(run, BatchLoss):
        return None
    two = bench.source.window(0, 2, [0, 1]) if bench.source.window_size(0, 2) == 2 else []
    if len(two) < 2:
        return None
    device = bench.device.torch_device

    def outputs_of(batch: Any) -> Any:
        return run.outputs(bench.model, batch)

    bench.model.eval()
    try:
        with torch.no_grad():
            batches = [
                to_device(laid_out, device).tensors for laid_out in bench.feed.make([two[:1], two[1:], two], False)
            ]
            words = mean_words(run.loss, outputs_of, batches[:2], batches[2])
    except Exception as error:
        sys.stderr.write(f"whether the loss is a sum was not found out: {type(error).__name__}: {error}\n")
        return None
    finally:
        bench.model.train()
    return f"{bench.trial.config.loss.factory or 'the loss'}: {words}" if words else None
