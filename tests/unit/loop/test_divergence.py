"""The checksum of parameters: equal for equal bits, another for any other, and without a copy."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.loop.divergence import parameter_sums, parameters_checksum

ODD = {
    "whole words": lambda: torch.zeros(8, 3),
    "a rest": lambda: torch.zeros(7),
    "less than a word": lambda: torch.zeros(1),
    "halves with a rest": lambda: torch.zeros(5, dtype=torch.bfloat16),
    "in the middle of a word": lambda: torch.zeros(9)[1:],
    "in another order": lambda: torch.zeros(4, 6).t(),
    "with gaps": lambda: torch.zeros(4, 6)[:, :3],
    "complex": lambda: torch.zeros(3, dtype=torch.complex64),
    "doubles": lambda: torch.zeros(3, dtype=torch.float64),
    "nothing": lambda: torch.zeros(0),
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_any_changed_element_changes_the_sum(make: object) -> None:
    """Wherever it lies, however the tensor lies in memory."""
    tensor = make()  # type: ignore[operator]
    before = parameter_sums([nn.Parameter(tensor)])
    assert (before.tolist(), before.dtype) == ([0], torch.int64)
    for place in range(tensor.numel()):
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(place), tensor.shape))
        tensor[index] = 1.0
        assert parameter_sums([nn.Parameter(tensor)]) != before, index
        tensor[index] = 0.0
    assert torch.equal(parameter_sums([nn.Parameter(tensor)]), before)


def test_sum_is_over_what_the_tensor_holds_and_nothing_beside_it() -> None:
    """A view of a larger memory is a parameter of its own."""
    whole = torch.ones(12)
    middle = nn.Parameter(whole[4:8])
    before = parameter_sums([middle])
    whole[:4], whole[8:] = 7.0, 7.0
    assert torch.equal(parameter_sums([middle]), before)
    assert torch.equal(parameter_sums([nn.Parameter(torch.ones(4))]), before)


def test_checksum_is_that_of_every_parameter_in_order() -> None:
    """Two models with the same tensors in another order are not the same."""
    layers = [nn.Linear(3, 2), nn.Linear(2, 3)]
    checksum = parameters_checksum(nn.Sequential(*layers))
    assert checksum == parameters_checksum(nn.Sequential(*layers))
    assert len(checksum) == 16
    assert checksum != parameters_checksum(nn.Sequential(*layers[::-1]))
    with torch.no_grad():
        layers[1].bias[2] += 1
    assert checksum != parameters_checksum(nn.Sequential(*layers))
