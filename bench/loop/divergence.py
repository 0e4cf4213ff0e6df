"""Whether all ranks still hold the same parameters, to the last bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

_INTEGER_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def parameter_sums(parameters: Iterable[nn.Parameter]) -> Tensor:
    """Add up the bits of each parameter, read as integers, modulo 2**64: (parameters,) int64 on the host [one rank].

    Makes no copy of a parameter; waits for the device once.
    """
    sums = [_bits(parameter.detach()).sum(dtype=torch.int64) for parameter in parameters]
    return torch.stack(sums).cpu() if sums else torch.zeros(0, dtype=torch.int64)


def parameters_checksum(model: nn.Module) -> str:
    """Give 16 hexadecimal digits that are equal for equal parameters [one rank]."""
    return hashlib.sha256(parameter_sums(model.parameters()).numpy().tobytes()).hexdigest()[:16]


def diverged_parameters(model: nn.Module, group: dist.ProcessGroup | None = None) -> list[str]:
    """Name the parameters that are not bit-equal on all ranks; the same answer on every rank.

    Args:
        model: The bare model of this rank.
        group: A group of the hosts (gloo).
    """
    sums = parameter_sums(model.parameters())
    gathered = [torch.empty_like(sums) for _ in range(dist.get_world_size(group))]
    dist.all_gather(gathered, sums, group=group)
    differs = torch.stack([other != gathered[0] for other in gathered]).any(dim=0).tolist()
    return [name for (name, _), is_other in zip(model.named_parameters(), differs, strict=True) if is_other]


def _bits(tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.contiguous().view(_INTEGER_OF_SIZE[tensor.element_size()])
