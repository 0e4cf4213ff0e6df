"""The memory pass must not keep alive what the loop lets go."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import torch
from torch import nn

from bench.measure.cpu import CpuDevice
from bench.measure.reductions import Reductions
from bench.rank.protocol import _witness


def test_witness_knows_old_gradients_and_does_not_hold_them() -> None:
    """A window starts by dropping the gradients of the one before; held, they would count twice in every peak."""
    model = nn.Linear(16, 16)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 16)).sum().backward()
    optimizer.step()
    lasting = 4 * (16 * 16 + 16)  # bytes of the parameters, and so of the gradients and of each moment
    steps = 2 * 4
    gradients = [weakref.ref(parameter.grad) for parameter in model.parameters()]
    bench = SimpleNamespace(model=model, optimizer=optimizer, device=CpuDevice(), reductions=Reductions())
    with _witness(bench) as witness:
        assert witness.storages.live_bytes == 4 * lasting + steps
        optimizer.zero_grad(set_to_none=True)
        assert [gradient() for gradient in gradients] == [None, None]
        assert witness.storages.live_bytes == 3 * lasting + steps
