"""Find the largest micro-batch size that fits under planted capacities, exactly and in few probes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.drive.search import Probe, largest_that_fits, next_size
from bench.record.fit import HEADROOM, compared_bytes, launch_fit, limit_bytes

MIB = 2**20
ALL = list(range(1, 257))
OUTSIDE = 700 * MIB
"""What a planted launch takes outside torch."""
NOISE = [random.Random(7).randrange(20 * MIB) for _ in range(1025)]


def search(
    classes: list[list[int]], fits: Callable[[int], bool], peak: Callable[[int], int], limit: float
) -> tuple[int | None, list[int]]:
    """Run a search on a made-up device; give the answer and the sizes in the order tried."""
    probes: dict[int, Probe] = {}
    while (size := next_size(classes, probes)) is not None:
        assert size not in probes, "a size is tried once"
        probes[size] = Probe(True, peak(size), limit) if fits(size) else Probe(False, None, limit)
    return largest_that_fits(probes), list(probes)


def planted_row(peak_bytes: int, capacity: int) -> dict[str, object]:
    """Make what a launch on a planted GPU records: full to the last hundredth it retries, above that it ends."""
    taken = peak_bytes + OUTSIDE
    return {
        "outcome": "ok" if taken <= capacity else "oom",
        "device": "cuda",
        "world_size": 1,
        "device_capacity_bytes": capacity,
        "alloc_retries": int(taken > 0.99 * capacity),
        "peak_reserved_bytes": peak_bytes,
        "outside_torch_bytes": OUTSIDE,
    }


def planted_limits(peak: Callable[[int], int]) -> Iterator[tuple[bool, int]]:
    """Search for every limit from none to 256; whether the largest row that fits was found, and in how many probes."""
    for most in range(len(ALL) + 1):
        capacity = int(((peak(most) + peak(most + 1)) // 2 + OUTSIDE) / (1 - HEADROOM))
        rows = {size: planted_row(peak(size), capacity) for size in ALL}
        fitting = {size for size, row in rows.items() if launch_fit(row).fits}
        found, tried = search(
            [ALL],
            fitting.__contains__,
            lambda size, rows=rows: compared_bytes(rows[size]),  # type: ignore[misc]
            limit_bytes(capacity),
        )
        assert len(fitting) == most or peak is floored, "the planted device has the limit asked for"
        yield found == max(fitting, default=None), len(tried)


def straight(size: int) -> int:
    return 3000 * MIB + 200 * MIB * size


def rounded(size: int) -> int:
    """Segments of 20 MiB round every peak up."""
    return straight(size) + NOISE[size]


def floored(size: int) -> int:
    """The smallest micro-batch peaks in the optimizer's step: measured on a small model."""
    return max(1_156_828, 860_000 + 174_976 * size)


def bent(size: int) -> int:
    return 3000 * MIB + int(200 * MIB * size * (1 + 0.05 * size / 256))


@pytest.mark.parametrize("peak", [straight, rounded, floored, bent])
def test_every_limit_under_a_planted_capacity_is_found_exactly_within_seven_probes(peak: Callable[[int], int]) -> None:
    """From none at all to all that is asked for, with headroom: as the rows of the launches say."""
    for is_exact, probes in planted_limits(peak):
        assert is_exact
        assert probes <= 7


def test_straight_line_takes_five_probes() -> None:
    """The smallest, two for a line, the limit, and the size after it."""
    found, tried = search([ALL], lambda size: size <= 100, straight, straight(100) + 1)
    assert (found, tried) == (100, [1, 8, 50, 100, 101])


@given(st.integers(0, 300), st.lists(st.integers(1, 300), min_size=1, max_size=40, unique=True), st.data())
def test_search_is_exact_whatever_the_peaks_say(limit: int, sizes: list[int], data: st.DataObject) -> None:
    """Figures only guide it: with misleading ones, or none, it still ends at the truth."""
    sizes = sorted(sizes)
    peaks = {size: data.draw(st.one_of(st.none(), st.integers(1, 10**12))) for size in sizes}
    found, _ = search([sizes], lambda size: size <= limit, lambda size: peaks[size], 10**11)  # type: ignore[arg-type, return-value]
    assert found == max((size for size in sizes if size <= limit), default=None)


def test_one_accumulation_step_is_tried_although_smaller_sizes_did_not_fit() -> None:
    """Without gradients alive at the peak the largest of all can fit."""
    found, tried = search([[1, 2, 4, 8], [16]], lambda size: size in (1, 2, 16), straight, straight(2))
    assert found == 16
    assert set(tried) <= {1, 2, 4, 8, 16}
    assert 4 in tried


def test_failure_of_another_kind_ends_the_search() -> None:
    """It would meet larger sizes too, and says nothing of memory."""
    assert next_size([ALL], {1: Probe(True, 1, 2), 8: Probe(None)}) is None
