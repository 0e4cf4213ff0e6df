"""Show that accumulation loses nothing: 19 examples, micro-batches of 4, 3 accumulation steps.

Run it anywhere, on a CPU: python examples/accumulation_demo.py
"""

from __future__ import annotations

import torch
from torch import nn

from bench.loop import AccumulationLoop, GradientSync, Precision, SummedCrossEntropy, windows

EXAMPLES, MICRO_BATCH_SIZE, ACCUMULATION_STEPS, WORLD_SIZE = 19, 4, 3, 2


def main() -> list[int]:
    """Train on 19 examples and print what each update was made of; return its examples."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(EXAMPLES, 8, generator=generator)
    targets = torch.randint(0, 3, (EXAMPLES,), generator=generator)
    micro_batches = zip(inputs.split(MICRO_BATCH_SIZE), targets.split(MICRO_BATCH_SIZE), strict=True)

    model = nn.Linear(8, 3)
    loss = SummedCrossEntropy()  # sums, and counts what it sums over
    loop = AccumulationLoop(
        GradientSync(model),
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        loss,
        Precision("fp32", "cpu"),
        torch.device("cpu"),
    )
    examples = []
    for window in windows(micro_batches, ACCUMULATION_STEPS, loss.count):
        result = loop.run_window(window)
        counts = result.plan.all_ranks
        mean = float(result.loss_sum) / counts.units
        print(
            f"update {result.plan.update}: {counts.micro_batches} micro-batches, {counts.sequences} examples, "
            f"each weighs 1/{counts.units:.0f}, loss {mean:.4f}, {result.result}"
        )
        examples.append(counts.sequences)
    global_batch_size = MICRO_BATCH_SIZE * ACCUMULATION_STEPS * WORLD_SIZE
    print(
        f"global batch: {MICRO_BATCH_SIZE} x {ACCUMULATION_STEPS} x {WORLD_SIZE} ranks = {global_batch_size} examples"
    )
    return examples


if __name__ == "__main__":
    main()
