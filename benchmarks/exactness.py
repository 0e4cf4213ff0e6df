"""How far the accumulated gradient is from that of one concatenated batch, in float32 on the CPU.

Error = |difference| / |gradient| over all parameters, against one concatenated batch of the same weights in float64;
the concatenated batch's own float32 error stands beside it, since no accumulation can be expected to beat that by much.
Equal and unequal micro-batches, full and partial windows, buffered and streamed. Goal: at most 1e-6.

Run: python -m benchmarks.exactness
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from bench.check.oracle import Batch, set_concatenated_gradients
from bench.loop import AccumulationLoop, GradientSync, Precision, SummedCrossEntropy, windows
from bench.sweep.presets import PRESETS
from bench.workload.build import build_model
from benchmarks.figures import Figure
from benchmarks.harness import parser, run

GOAL = 1e-6
MODEL = "gpt2-tiny"
EQUAL, UNEQUAL = (32, 32, 32, 32), (3, 64, 17, 40)
"""Tokens of a row in each micro-batch of a window."""
CASES = {
    "equal micro-batches, full window": (EQUAL, 4),
    "equal micro-batches, partial window": (EQUAL[:3], 4),
    "unequal micro-batches, full window": (UNEQUAL, 4),
    "unequal micro-batches, partial window": (UNEQUAL[:2], 4),
}
STREAMED = {"window_mode": "streamed", "nominal_units": 300.0}


def batches(lengths: Sequence[int], vocab: int) -> list[Batch]:
    """Draw micro-batches of two rows; a tenth of the targets is ignored."""
    generator = torch.Generator().manual_seed(len(lengths))
    found = []
    for length in lengths:
        inputs = torch.randint(0, vocab, (2, length), generator=generator)
        targets = torch.randint(0, vocab, (2, length), generator=generator)
        targets[torch.rand(targets.shape, generator=generator) < 0.1] = -100
        found.append((inputs, targets))
    return found


def gradient(model: nn.Module) -> torch.Tensor:
    """Lay the gradients end to end, in float64."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return torch.cat([gradient.double().flatten() for gradient in gradients])


def accumulated(model: nn.Module, data: Sequence[Batch], accumulation_steps: int, is_streamed: bool) -> torch.Tensor:
    """Run one window of the loop with a learning rate of zero; its gradient."""
    loss, optimizer = SummedCrossEntropy(), torch.optim.SGD(model.parameters(), lr=0.0)
    loop = AccumulationLoop(GradientSync(model), optimizer, loss, Precision("fp32", "cpu"), torch.device("cpu"))
    options: dict[str, Any] = STREAMED if is_streamed else {}
    for window in windows(data, accumulation_steps, loss.count, **options):
        loop.run_window(window)
    return gradient(model)


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Run every case."""
    del options
    torch.set_num_threads(1)
    shape = PRESETS[MODEL]
    model = build_model(shape, 1337, False, "fp32", device=torch.device("cpu"))
    exact_model = copy.deepcopy(model).double()
    for name, (lengths, accumulation_steps) in CASES.items():
        data = batches(lengths, shape.vocab_size)
        set_concatenated_gradients(exact_model, data)
        exact = gradient(exact_model)
        set_concatenated_gradients(model, data)
        own = float((gradient(model) - exact).norm() / exact.norm())
        for mode in ("buffered", "streamed"):
            found = accumulated(model, data, accumulation_steps, mode == "streamed")
            error = float((found - exact).norm() / exact.norm())
            note = f"the concatenated batch's own: {own:.1e}"
            yield Figure("", f"gradient error, {name}, {mode}", error, at_most=GOAL, unit="error", note=note)


def main() -> None:
    """Print the errors."""
    options = parser("benchmarks.exactness", __doc__).parse_args()
    run("exactness", figures(options), options)


if __name__ == "__main__":
    main()
