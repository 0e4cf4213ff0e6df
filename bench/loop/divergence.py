"""Whether all ranks still hold the same parameters, to the last bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

_INTEGER_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ELEMENTS_COPIED = 1 << 17
"""Where a copy cannot be helped, of so many elements at a time: 1 MiB."""


def parameter_sums(parameters: Iterable[nn.Parameter]) -> Tensor:
    """Add up the bits of each parameter, modulo 2**64: (parameters,) int64 on the host [one rank].

    Makes no copy of a parameter whose memory has no gaps; waits for the device once.
    """
    sums = [_sum_of_bits(parameter.detach()) for parameter in parameters]
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


def _sum_of_bits(tensor: Tensor) -> Tensor:
    """Add up a tensor's bits as 64-bit integers in the order of its memory, what is left as smaller ones; 0-d int64.

    A sum into a wider type makes a copy of its input in that type on a GPU, so the input is read as that type instead.
    """
    bits = _bits(tensor)
    in_a_word = 8 // bits.element_size()
    whole = 0 if bits.storage_offset() % in_a_word else bits.numel() // in_a_word * in_a_word
    total = (bits[:whole].view(torch.int64) if whole else bits.new_zeros(1, dtype=torch.int64)).sum()
    for rest in torch.split(bits[whole:], _ELEMENTS_COPIED):
        total = total + rest.sum(dtype=torch.int64)
    return total


def _bits(tensor: Tensor) -> Tensor:
    """Read a tensor's memory as integers of its elements' size: (elements,)."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if not torch.ops.aten.is_non_overlapping_and_dense(tensor):
        tensor = tensor.contiguous()
    return tensor.as_strided((tensor.numel(),), (1,)).view(_INTEGER_OF_SIZE[tensor.element_size()])
