"""A condition is understood exactly, or refused with the way out."""

import pytest

from bench.errors import BenchError
from bench.report.where import parse_condition


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("micro_batch_size >= 8", [4, 8, None], [False, True, False]),
        ("micro_batch_size==8", [4, 8, None], [False, True, False]),
        ("peak_allocated_bytes < 4e9", [1, 5_000_000_000, None], [True, False, False]),
        ("lr != 3e-4", [3e-4, 1e-3, None], [False, True, False]),
        ("amp_mode == bf16", ["bf16", "fp32", None], [True, False, False]),
        ("amp_mode == 'bf16'", ["bf16", "fp32", None], [True, False, False]),
        ("reason == null", [None, "x"], [True, False]),
        ("reason != null", [None, "x"], [False, True]),
        ("activation_checkpointing == true", [True, False, None], [True, False, False]),
        ("flags == gpu_shared", [["gpu_shared", "a"], ["a"], [], None], [True, False, False, False]),
        ("flags != gpu_shared", [["gpu_shared"], [], None], [False, True, False]),
        ("started_utc >= 2026-11-29", ["2026-11-28T23:00:00Z", "2026-11-29T01:00:00Z"], [False, True]),
        ("model == a == b", ["a == b"], [True]),
    ],
)
def test_a_condition_selects(text, values, expected):
    """Missing meets only == null and != null of what is there."""
    assert parse_condition(text).mask(values) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("micro_batch >= 8", "Did you mean micro_batch_size"),
        ("zzz == 1", "docs/columns.md"),
        ("amp_mode = bf16", "expected COLUMN OP VALUE"),
        ("amp_mode ==", "expected COLUMN OP VALUE"),
        ("", "expected COLUMN OP VALUE"),
        ("peak_allocated_bytes < 4GiB", "'4GiB' is not a number. Sizes are in bytes"),
        ("grad_scaler == yes", "neither true nor false"),
        ("amp_mode < bf16", "< does not apply to amp_mode"),
        ("micro_batch_size > null", "> does not apply to null"),
        ("flags > a", "> does not apply to flags"),
    ],
)
def test_what_cannot_be_understood_says_the_way_out(text, message):
    """Each refusal names the condition or the column, and what would work."""
    with pytest.raises(BenchError, match=message.replace("(", r"\(")):
        parse_condition(text)
