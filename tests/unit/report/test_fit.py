"""The fit of a configuration is that of its worst launch, in words."""

from __future__ import annotations

from typing import Any

import pytest

from bench.record.fit import launch_fit
from bench.report.fit import fit_of, fits_of

ROW = {
    "outcome": "ok",
    "device": "cuda",
    "world_size": 1,
    "device_capacity_bytes": 1000,
    "peak_reserved_bytes": 800,
    "outside_torch_bytes": 100,
}
UNKNOWN = {"outside_torch_bytes": None}


@pytest.mark.parametrize(
    ("changes", "fits", "words"),
    [
        ([{}, {}], True, "900 B of 1000 B in use, 100 B free"),
        (
            [{}, {"peak_reserved_bytes": 880}],
            False,
            "980 B of 1000 B in use, 20 B free, less than the 5 % headroom asked for",
        ),
        (
            [{}, UNKNOWN],
            None,
            "fit not judged: 900 B of 1000 B in use, 100 B free, other processes included",
        ),
        ([UNKNOWN], None, "fit not judged: 800 B of 1000 B reserved, memory outside torch not measured"),
        (
            [UNKNOWN | {"outside_torch_at_most_bytes": 150}],
            True,
            "950 B of 1000 B in use, 50 B free, other processes included",
        ),
        (
            [UNKNOWN | {"outside_torch_at_most_bytes": 190}],
            None,
            "fit not judged: 990 B of 1000 B in use, 10 B free, other processes included",
        ),
        (
            [UNKNOWN | {"peak_reserved_bytes": 960}],
            False,
            "960 B of 1000 B reserved, memory outside torch not measured: less than the 5 % headroom asked for is free",
        ),
        ([{"alloc_retries": 2}, {"alloc_retries": 1}], False, "3 allocations had to be retried: the memory was full"),
        ([{"peak_reserved_bytes": None}], None, "fit not judged: bytes in use or capacity unknown"),
        ([{"device_capacity_bytes": None}], None, "fit not judged: bytes in use or capacity unknown"),
        ([{"outcome": "failed"}], None, "fit not judged: bytes in use or capacity unknown"),
    ],
)
def test_worst_launch_decides_and_what_is_unknown_is_said(
    changes: list[dict[str, Any]], fits: bool | None, words: str
) -> None:
    """One launch of which it is not known leaves the whole unknown, unless another shows that it does not fit."""
    fit = fit_of([ROW | change for change in changes], 0.05)
    assert (fit.fits, fit.words) == (fits, words)


def test_quick_look_at_all_launches_agrees_with_the_rule() -> None:
    """By columns or row by row, it is one rule."""
    rows = [
        ROW | {"peak_reserved_bytes": bytes_, "outside_torch_bytes": more} for bytes_ in (700, 900) for more in (0, 99)
    ]
    rows += [ROW | {"outcome": "oom"}, ROW | {"alloc_retries": 1}, ROW | UNKNOWN]
    assert fits_of(rows, 0.05) == [launch_fit(row, 0.05).fits for row in rows]
    assert fits_of(rows, 0.05).count(False) == 3
