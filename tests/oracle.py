"""An independent answer to hold the accumulation loop against: one concatenated batch. Imports nothing of ours.

All micro-batches of all ranks of a window become one flat batch; the loss is written out from logarithms, divided once
by the units counted in plain Python; one backward, clip by hand, one optimizer step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

IGNORED = -100
Batch = tuple[Tensor, Tensor]
"""Inputs and targets of one micro-batch, equal shapes, int64."""


class TinyLM(nn.Module):
    """Predict each position from its own token alone, so that rows of any length can be laid end to end."""

    def __init__(self, seed: int = 0, vocab: int = 11, width: int = 8, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, vocab)
        generator = torch.Generator().manual_seed(seed)
        self.to(dtype)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.tanh(self.hidden(self.embedding(inputs))))


@dataclass(frozen=True)
class Step:
    """State one update: what a loop and the oracle must agree on."""

    loss: float | None
    """Per unit over all ranks; None for an empty window."""
    gradient: list[float]
    """Of all parameters one after the other, clipped, as the optimizer saw it."""
    parameters: list[float]
    """After the update."""


def flat(tensors: Sequence[Tensor | None], shapes: Sequence[Tensor]) -> list[float]:
    """Lay tensors end to end as float64; one that is None as zeros."""
    filled = [
        torch.zeros_like(shape) if tensor is None else tensor for tensor, shape in zip(tensors, shapes, strict=True)
    ]
    return torch.cat([tensor.detach().double().flatten() for tensor in filled]).tolist()


def make_optimizer(name: str, model: nn.Module, implementation: str = "for_loop") -> torch.optim.Optimizer:
    """Make SGD with momentum, or AdamW, with a rate at which a wrong gradient shows at once.

    AdamW divides by the root of the second moment plus eps. With the usual eps of 1e-8 a gradient that cancels to a
    rounding error of 1e-17 moves its parameter by 1e-9 of a full step, another way in every correct program, and later
    gradients follow. A larger eps keeps rounding where it is; a wrong gradient shows as before.
    """
    flags = {"for_loop": {"foreach": False, "fused": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, **flags[implementation])
    return torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1, eps=1e-4, **flags[implementation])


def concatenated(
    model: nn.Module,
    windows: Sequence[Sequence[Batch]],
    optimizer_name: str,
    class_weights: Sequence[float] | None = None,
    clip_norm: float | None = None,
) -> list[Step]:
    """Train on each window as one batch; `windows` holds the micro-batches of all ranks together."""
    optimizer = make_optimizer(optimizer_name, model)
    parameters = list(model.parameters())
    steps = []
    for window in windows:
        targets = [int(target) for _, batch in window for target in batch.flatten()]
        weights = [0.0 if t == IGNORED else 1.0 if class_weights is None else class_weights[t] for t in targets]
        units = math.fsum(weights)
        for parameter in parameters:
            parameter.grad = None
        if units == 0:
            steps.append(Step(None, flat([None] * len(parameters), parameters), flat(parameters, parameters)))
            continue
        inputs = torch.cat([batch.flatten() for batch, _ in window])
        logits = model(inputs)
        log_of_sum = torch.log(torch.exp(logits - logits.max()).sum(dim=1)) + logits.max()
        picked = torch.stack([row[max(target, 0)] for row, target in zip(logits, targets, strict=True)])
        loss = ((log_of_sum - picked) * torch.tensor(weights, dtype=logits.dtype)).sum() / units
        loss.backward()
        if clip_norm is not None:
            norm = math.sqrt(sum(float((p.grad**2).sum()) for p in parameters if p.grad is not None))
            for parameter in parameters:
                if norm > clip_norm and parameter.grad is not None:
                    parameter.grad *= clip_norm / (norm + 1e-6)
        gradient = flat([parameter.grad for parameter in parameters], parameters)
        optimizer.step()
        steps.append(Step(loss.item(), gradient, flat(parameters, parameters)))
    return steps


def relative_error(got: Sequence[float], right: Sequence[float]) -> float:
    """Divide the norm of the difference by the norm of what is right, over all parameters at once."""
    difference = math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(got, right, strict=True)))
    norm = math.sqrt(math.fsum(b * b for b in right))
    return difference if norm == 0 else difference / norm


def assert_equal_steps(got: Sequence[Step], right: Sequence[Step], tolerance: float = 1e-10) -> None:
    """Hold every update against the oracle: gradient, parameters and loss."""
    assert len(got) == len(right), f"{len(got)} updates, not {len(right)}"
    for update, (mine, its) in enumerate(zip(got, right, strict=True)):
        assert relative_error(mine.gradient, its.gradient) <= tolerance, f"gradient of update {update}"
        assert relative_error(mine.parameters, its.parameters) <= tolerance, f"parameters after update {update}"
        assert (mine.loss is None) == (its.loss is None), f"loss of update {update}"
        if mine.loss is not None and its.loss is not None:
            assert abs(mine.loss - its.loss) <= tolerance * max(1.0, abs(its.loss)), f"loss of update {update}"


def random_batch(rows: int, length: int, seed: int, ignored: float = 0.0, vocab: int = 11) -> Batch:
    """Draw a micro-batch; a share of its targets is ignored."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randint(0, vocab, (rows, length), generator=generator)
    targets = torch.randint(0, vocab, (rows, length), generator=generator)
    targets[torch.rand(targets.shape, generator=generator) < ignored] = IGNORED
    return inputs, targets


def cut(micro_batches: Sequence[Batch], size: int) -> list[list[Batch]]:
    """Group one rank's micro-batches into windows."""
    return [list(micro_batches[start : start + size]) for start in range(0, len(micro_batches), size)]


def merge(ranks: Sequence[Sequence[Batch]], size: int) -> list[list[Batch]]:
    """Group the micro-batches of several ranks into windows over all of them; some ranks may have none left."""
    of_rank = [cut(micro_batches, size) for micro_batches in ranks]
    longest = max(len(windows) for windows in of_rank)
    return [[b for windows in of_rank for b in (windows[u] if u < len(windows) else [])] for u in range(longest)]
