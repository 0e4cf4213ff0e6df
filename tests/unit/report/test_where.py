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


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("amp_mode == bf16 and micro_batch_size == 8", ["'amp_mode == bf16'", "'micro_batch_size == 8'"]),
        ("micro_batch_size >= 8 AND seq_len < 4e3", ["'micro_batch_size >= 8'", "'seq_len < 4e3'"]),
        ("amp_mode==bf16 && world_size==2, seq_len=8", ["amp_mode==bf16", "world_size==2", "seq_len=8"]),
        ('amp_mode == "bf16" and model == "x"', ["'amp_mode == \"bf16\"'", "'model == \"x\"'"]),
        ("reason == null and sweep == a", ["'reason == null'", "'sweep == a'"]),
    ],
)
def test_several_conditions_in_one_are_told_apart(text, parts):
    """With the options that say the same; a value that merely holds the word is a value, and so is one in quotes."""
    with pytest.raises(BenchError) as error:
        parse_condition(text)
    first, second = str(error.value).splitlines()
    assert f"holds {len(parts)} conditions" in first
    assert second.split("--where ")[1:] == [f"{part} " for part in parts[:-1]] + parts[-1:]
    for whole in ("sweep == salt and pepper", "reason == 'a and micro_batch_size == 8'", "sweep == R&D"):
        assert parse_condition(whole).value in ("salt and pepper", "a and micro_batch_size == 8", "R&D")


def test_there_is_no_or():
    """Rows that match one of two are two questions."""
    with pytest.raises(BenchError, match="there is no `or`, as a row must match every --baseline"):
        parse_condition("amp_mode == bf16 or amp_mode == fp16", "--baseline")
