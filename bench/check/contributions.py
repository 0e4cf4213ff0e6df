"""Find out what a wrong gradient is made of: the weight it gives to each sequence.

A gradient is a weighted sum of the sequences' own gradients, whatever an accumulation did with them. Solving for the
weights by least squares tells a sequence that was left out, or came twice, from one that only weighs too much.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bench.check.oracle import Batch, rows_of, set_concatenated_gradients, units_of

_ENTRIES_AT_MOST = 20_000
"""Entries of the gradient that the equations are made of, evenly spread."""


def contributions(
    model: nn.Module, gradient: Sequence[Tensor], windows: Sequence[Sequence[Batch]], class_weights: Tensor | None
) -> tuple[float, ...] | None:
    """Give the weight of each sequence in a gradient, as a multiple of what is right in its own window.

    Leaves other gradients in `model` than it found.

    Args:
        model: At the parameters the gradient was taken at.
        gradient: One tensor per parameter of the model.
        windows: All windows of the data set; the order of the sequences is theirs.
        class_weights: Of the loss.

    Returns:
        One number per sequence, 1 where all is right and 0 where it is left out; None when the sequences' gradients
        do not differ enough to tell.
    """
    columns, right = [], []
    for window in windows:
        units = units_of(window, class_weights)
        for row in rows_of(window):
            own = units_of([row], class_weights)
            if own == 0:
                continue
            set_concatenated_gradients(model, [row], class_weights)
            columns.append(
                _entries([p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()])
            )
            right.append(own / units)
    matrix = torch.stack(columns, dim=1)
    scale = matrix.norm(dim=0)
    if int(torch.linalg.matrix_rank(matrix / scale, rtol=1e-6)) < len(columns):
        return None
    found = torch.linalg.lstsq(matrix / scale, _entries(gradient)[:, None]).solution[:, 0] / scale
    shares: list[float] = (found / torch.tensor(right, dtype=found.dtype)).tolist()
    return tuple(shares)


def _entries(tensors: Sequence[Tensor]) -> Tensor:
    total = sum(tensor.numel() for tensor in tensors)
    stride = max(1, total // _ENTRIES_AT_MOST)
    return torch.cat([tensor.detach().flatten()[::stride].double() for tensor in tensors])
