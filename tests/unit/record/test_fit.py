"""Whether a launch fits: what is not known never does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.record.derive import derive
from bench.record.fit import FIT_COLUMNS, compared_bytes, derive_fit, launch_fit, limit_bytes

GPU = {
    "outcome": "ok",
    "device": "cuda",
    "world_size": 2,
    "device_capacity_bytes": 1000,
    "alloc_retries": 0,
    "peak_reserved_bytes": 900,
    "outside_torch_bytes": 50,
    "host_peak_rss_bytes": 10**6,
}
CPU = {**GPU, "device": "cpu", "peak_reserved_bytes": None, "outside_torch_bytes": None, "host_peak_rss_bytes": 475}
UNKNOWN = {"outside_torch_bytes": None}


@pytest.mark.parametrize(
    ("row", "fits", "headroom_bytes"),
    [
        (GPU, True, 50),
        (GPU | {"outside_torch_bytes": 51}, False, 49),
        (GPU | {"outside_torch_bytes": 200}, False, -100),
        (GPU | {"alloc_retries": 1}, False, 50),
        (GPU | {"alloc_retries": None}, True, 50),
        (GPU | UNKNOWN, None, None),
        (GPU | UNKNOWN | {"peak_reserved_bytes": 951}, False, None),
        (GPU | UNKNOWN | {"outside_torch_at_most_bytes": 50}, True, 50),
        (GPU | UNKNOWN | {"outside_torch_at_most_bytes": 60}, None, 40),
        (GPU | {"outside_torch_at_most_bytes": 90}, True, 50),
        (GPU | {"peak_reserved_bytes": None}, None, None),
        (GPU | {"device_capacity_bytes": None}, None, None),
        (GPU | {"outcome": "oom", "peak_reserved_bytes": 1}, False, None),
        (GPU | {"outcome": "failed"}, None, None),
        (GPU | {"outcome": "invalid"}, None, None),
        (CPU, True, 50),
        (CPU | {"world_size": 3}, False, -425),
        (CPU | {"host_peak_rss_bytes": None}, None, None),
        (CPU | {"outcome": "oom"}, False, None),
    ],
)
def test_fit_of_a_launch(row: dict[str, Any], fits: bool | None, headroom_bytes: int | None) -> None:
    """Five in a hundred must stay free of what the worst rank takes, or on a CPU of what all ranks take together."""
    derived = derive(row, [])
    assert (derived["fits"], derived["headroom_bytes"]) == (fits, headroom_bytes)
    assert derived["headroom_share"] == (None if headroom_bytes is None else headroom_bytes / 1000)


def test_other_headroom_may_be_asked_for() -> None:
    """A row's own figure keeps 5 %."""
    assert launch_fit(GPU, 0.06).fits is False
    assert launch_fit(GPU | {"outside_torch_bytes": 100}, 0.0).fits is True


BYTES = st.none() | st.integers(0, 2000)


@given(
    st.fixed_dictionaries(
        {
            "outcome": st.sampled_from(["ok", "oom", "failed"]),
            "device": st.sampled_from(["cuda", "cpu"]),
            "world_size": st.integers(1, 4),
            **dict.fromkeys(FIT_COLUMNS[3:], BYTES),
        }
    )
)
def test_more_room_and_more_knowledge_never_turn_a_fit_into_none(row: dict[str, Any]) -> None:
    """Whoever is told that it fits would be told so with less headroom too, and with memory elsewhere known."""
    fit = derive_fit(row)
    assert (fit["headroom_bytes"] is None) == (fit["headroom_share"] is None)
    if not fit["fits"]:
        return
    assert launch_fit(row, 0.0).fits is True
    assert fit["headroom_share"] >= 0.0499
    assert row["outcome"] == "ok"
    assert row["device"] == "cpu" or row["peak_reserved_bytes"] is not None
    if row["outside_torch_bytes"] is None and row["device"] == "cuda":
        known = row | {"outside_torch_bytes": row["outside_torch_at_most_bytes"] // 2}
        assert launch_fit(known).fits is True


@pytest.mark.parametrize(
    ("row", "bytes_compared"),
    [
        (GPU, 950),
        (GPU | UNKNOWN, 900),
        (GPU | UNKNOWN | {"outside_torch_at_most_bytes": 60}, 900),
        (CPU, 950),
        (GPU | {"peak_reserved_bytes": None}, None),
    ],
)
def test_bytes_that_are_compared_do_not_fit_as_soon_as_they_exceed_the_limit(
    row: dict[str, Any], bytes_compared: int | None
) -> None:
    """At the limit nothing speaks against the launch, a byte above it the launch does not fit."""
    assert compared_bytes(row) == bytes_compared
    if bytes_compared is not None:
        capacity = next(one for one in range(1, 2000) if limit_bytes(one) >= bytes_compared)
        assert launch_fit(row | {"device_capacity_bytes": capacity}).fits is not False
        assert launch_fit(row | {"device_capacity_bytes": capacity - 1}).fits is False
