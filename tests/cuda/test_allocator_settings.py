"""Which of the two variables torch's allocator follows, and what the row says of it."""

from __future__ import annotations

import pytest

from tests.cuda.on_standin import MIB, run

pytestmark = pytest.mark.cuda

NEW, OLD = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


def _told() -> tuple[str, int]:
    import torch

    from bench.measure.allocator_settings import allocator_settings

    torch.ones(2, device="cuda")
    in_force = torch.cuda.memory._snapshot()["allocator_settings"]["max_split_size"]
    return allocator_settings(), in_force


@pytest.mark.parametrize("names", [(), (NEW,), (OLD,), (NEW, OLD)])
def test_row_says_what_the_allocator_goes_by(names: tuple[str, ...]) -> None:
    """Each name with a value of its own: the row's must be the one that the allocator itself has."""
    values = {NEW: 64, OLD: 32}
    text, in_force = run(_told, variables={name: f"max_split_size_mb:{values[name]}" for name in names})
    assert text == ("default" if in_force < 0 else f"max_split_size_mb:{in_force // MIB}")
    assert (in_force < 0) == (names == ())
