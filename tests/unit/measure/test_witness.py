"""Live bytes and host reads are exactly what was done."""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.device import Residents
from bench.measure.witness import DispatchWitness

MEBI = 1 << 20


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def mebibytes(count: int) -> torch.Tensor:
    """Make a tensor of so many MiB."""
    return torch.empty(count * MEBI, dtype=torch.uint8)


def test_known_allocations_give_a_known_peak() -> None:
    """A peak is reached and left; the peak stays, the live bytes fall."""
    with DispatchWitness() as witness:
        first = mebibytes(3)
        second = mebibytes(2)
        del first
        third = mebibytes(1)
    assert witness.result().live_peak_bytes == 5 * MEBI
    assert witness.storages.live_bytes == 3 * MEBI
    del second, third
    assert witness.storages.live_bytes == 0


def test_what_was_alive_before_counts() -> None:
    """Parameters are there when the witness comes."""
    parameter = mebibytes(2)
    with DispatchWitness(lambda: Residents(model=[parameter])) as witness:
        mebibytes(1)
    assert witness.result().live_peak_bytes == 3 * MEBI


def test_views_share_one_storage() -> None:
    """A view, a slice and a transpose add nothing, and keep their storage alive."""
    with DispatchWitness() as witness:
        whole = mebibytes(4)
        parts = [whole[:10], whole.view(4, -1).t(), whole.unsqueeze(0)]
        del whole
        gc.collect()
        assert witness.storages.live_bytes == 4 * MEBI
        del parts
    assert witness.storages.live_bytes == 0
    assert witness.result().live_peak_bytes == 4 * MEBI


def test_resize_in_place_is_followed() -> None:
    """A storage that grows counts with its new size."""
    with DispatchWitness() as witness:
        tensor = mebibytes(1)
        tensor.resize_(3 * MEBI)
    assert witness.storages.live_bytes == 3 * MEBI


def test_in_place_operations_add_nothing() -> None:
    """An operator that returns its own argument makes no storage."""
    with DispatchWitness() as witness:
        tensor = mebibytes(1)
        tensor.add_(1).mul_(2).zero_()
    assert witness.result().live_peak_bytes == MEBI


def test_backward_is_seen() -> None:
    """Gradients appear in backward, beside what forward saved for it."""
    weight = torch.nn.Parameter(torch.ones(256, 1024))  # 1 MiB
    rows = torch.ones(256, 256)  # 1/4 MiB
    with DispatchWitness(lambda: Residents(model=[weight, rows])) as witness:
        loss = (rows @ weight).sum()
        before_backward = witness.storages.live_bytes
        loss.backward()
    assert weight.grad is not None
    assert before_backward == int(1.25 * MEBI) + 4  # both operands and the loss; the product is not needed again
    assert witness.storages.live_bytes == int(2.25 * MEBI) + 4
    assert witness.storages.peak_bytes == int(2.25 * MEBI) + 8  # the loss's own gradient of 1 lives beside the weight's


def test_tensor_of_another_device_takes_no_memory_here() -> None:
    """A meta tensor has a size and no bytes."""
    with DispatchWitness() as witness:
        kept = torch.empty(MEBI, device="meta")
    assert witness.storages.live_bytes == 0
    del kept


def test_values_read_into_python_are_counted() -> None:
    """item, float, bool and int each wait for the device."""
    with DispatchWitness() as witness:
        value = torch.ones(())
        value.item()
        float(value)
        bool(value > 0)
        int(value)
        value + 1
    assert witness.result().host_reads == 4


def test_values_that_an_optimizer_keeps_on_the_host_are_not_counted() -> None:
    """Reading a step count waits for nobody."""
    step = torch.zeros(())
    with DispatchWitness(kept_on_host=[step]) as witness:
        step.item()
    assert witness.host_reads == 0


@pytest.mark.parametrize(
    ("copy", "reads"),
    [
        (lambda tensor: tensor.to("cpu"), 1),
        (lambda tensor: tensor.to("cpu", non_blocking=True), 0),
        (lambda tensor: tensor.to(torch.float64), 0),
        (lambda tensor: torch.empty(2).copy_(tensor), 1),
        (lambda tensor: torch.empty(2).copy_(tensor, non_blocking=True), 0),
        (lambda tensor: tensor.copy_(torch.ones(2)), 0),
    ],
)
def test_copies_to_the_host_are_reads_unless_nobody_waits(copy: object, reads: int) -> None:
    """A meta tensor stands for one of a GPU: what counts is the direction, and who waits."""
    with DispatchWitness(device_type="meta") as witness:
        tensor = torch.empty(2, device="meta")
        with contextlib.suppress(NotImplementedError):  # a meta tensor has no data to copy out; the call was made
            copy(tensor)  # type: ignore[operator]
    assert witness.host_reads == reads


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 64)), max_size=30))
def test_any_order_of_making_and_dropping_adds_up(steps: list[tuple[bool, int]]) -> None:
    """Live bytes are the sum of what lives; the peak is the largest such sum."""
    live: list[torch.Tensor] = []
    expected_peak = 0
    with DispatchWitness() as witness:
        for is_new, size in steps:
            if is_new or not live:
                live.append(torch.empty(size, dtype=torch.uint8))
            else:
                live.pop(size % len(live))
            total = sum(tensor.numel() for tensor in live)
            expected_peak = max(expected_peak, total)
            assert witness.storages.live_bytes == total
    assert witness.storages.peak_bytes == expected_peak
