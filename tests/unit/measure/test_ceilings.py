"""A ceiling is the work of a call over its median time, the best of the sizes that fit into the time."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.measure import ceilings
from bench.measure.ceilings import ceiling_of, copy_ceiling, matmul_ceiling, time_repeats
from tests.fakes import FakeDevice

torch.set_num_threads(1)


def device(*seconds: float) -> FakeDevice:
    """Make a device whose spans between two marks last as told, in order; the last one repeats."""
    script: list[float] = []
    for one in seconds:
        script += [one, 0.0]
    return FakeDevice([*script[:-1], *([0.0, seconds[-1]] * 200)])


def test_median_and_spread_of_repeats() -> None:
    """One repeat that was disturbed moves the spread, not the ceiling."""
    found = ceiling_of([1.0, 1.0, 1.0, 1.0, 3.0], 10.0, 7)
    assert (found.per_s, found.size, found.repeats) == (10.0, 7, 5)
    assert found.spread == pytest.approx((3.0 - 0.4 * 2.0) - 1.0)


def test_fast_calls_are_timed_many_at_a_time() -> None:
    """A call of 1 ms is repeated ten times between two marks, so that marking costs nothing beside it."""
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1

    seconds, spent_s = time_repeats(device(0.001, 0.02), call, 0.1)
    assert seconds == pytest.approx([0.002] * 5)
    assert calls == 1 + 1 + 5 * 10
    assert spent_s == pytest.approx(0.001 + 5 * 0.02)


def test_repeats_end_with_the_time_but_are_never_fewer_than_five() -> None:
    """A slow call is still repeated; a fast one until the time is up."""
    assert len(time_repeats(device(1.0), lambda: None, 0.1)[0]) == 5
    # Sixteen spans of 1/64 s, which add up exactly: one to estimate, fifteen repeats.
    assert len(time_repeats(device(1 / 64), lambda: None, 16 / 64)[0]) == 15
    assert len(time_repeats(device(1 / 64), lambda: None, 100.0)[0]) == 100


def test_best_size_makes_the_ceiling() -> None:
    """2 n^3 FLOPs over the median: 4 x 4 takes as long as 2 x 2 and does eight times as much."""
    found = matmul_ceiling(device(2.0), torch.float32, (2, 4), 1000.0)
    assert found is not None
    assert (found.size, found.per_s) == (4, 2 * 4**3 / 2.0)


def test_larger_size_that_would_not_fit_into_the_time_is_left_out() -> None:
    """Seven calls of eight seconds do not fit into thirty, seven calls of one second do."""
    found = matmul_ceiling(device(1.0), torch.float32, (2, 4), 30.0)
    assert found is not None
    assert (found.size, found.per_s) == (2, 16.0)


def test_every_dtype_is_multiplied_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product that is timed is a product of random matrices of that dtype."""
    products: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    mm = torch.mm

    def seen(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        products.append((left, right, out))
        return mm(left, right, out=out)

    monkeypatch.setattr(torch, "mm", seen)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert matmul_ceiling(device(1.0), dtype, (8,), 1.0) is not None
        left, right, product = products[-1]
        assert left.dtype == right.dtype == product.dtype == dtype
        assert left.std() > 0.5
        torch.testing.assert_close(product, left @ right)


def test_device_without_memory_for_it_has_no_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size that does not fit ends the search; the sizes before it count."""
    randn = torch.randn

    def scarce(size: int, *rest: Any, **options: Any) -> torch.Tensor:
        if size > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. (a fake)")
        return randn(size, *rest, **options)

    monkeypatch.setattr(ceilings.torch, "randn", scarce)
    fits = matmul_ceiling(device(1.0), torch.float32, (2, 4), 1e6)
    assert fits is not None
    assert fits.size == 2
    assert matmul_ceiling(device(1.0), torch.float32, (4, 8), 1e6) is None


def test_copy_counts_bytes_read_and_written() -> None:
    """A thousand bytes in one second are two thousand moved."""
    found = copy_ceiling(device(1.0), 1000, 1.0)
    assert found is not None
    assert (found.per_s, found.size) == (2000.0, 1000)
