"""What stays alive between micro-batches."""

from __future__ import annotations

import torch

from bench.measure.device import Residents
from bench.measure.witness import DispatchWitness
from tests.loops import train
from tests.oracle import TinyLM, random_batch


def peak_bytes(micro_batches: int) -> int:
    model = TinyLM(dtype=torch.float32, vocab=4096)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = [random_batch(4, 16, seed, vocab=4096) for seed in range(micro_batches)]
    with DispatchWitness(lambda: Residents(model=list(model.parameters()))) as witness:
        train(model, data, micro_batches, optimizer)
    return witness.storages.peak_bytes


def test_logits_of_one_micro_batch_are_gone_before_the_next_forward() -> None:
    """4 x 16 x 4096 logits in float32 are 1 MiB: three and nine micro-batches peak alike.

    https://github.com/NVIDIA-NeMo/Automodel/issues/3907
    """
    assert abs(peak_bytes(9) - peak_bytes(3)) < 64 * 1024
