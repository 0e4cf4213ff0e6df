"""What works on a machine, and within what limits."""

from __future__ import annotations

import pytest

from bench.machine.what_works import what_works
from bench.telemetry.nvml import NvmlReport

TORCH = {"torch_version": "2.13.0", "has_gloo": True, "device_count": 0, "bf16_supported": False, "nccl_version": None}


@pytest.mark.parametrize(
    ("has", "said"),
    [
        ([], "; slow in bf16 and fp16, which this processor has no units for"),
        (["bf16"], "; slow in fp16, which this processor has no units for"),
        (["bf16", "fp16"], None),
        (None, None),
    ],
)
def test_types_that_the_processor_emulates_are_named(
    monkeypatch: pytest.MonkeyPatch, has: list[str] | None, said: str | None
) -> None:
    """Trials in them work, but their speed is another matter."""
    monkeypatch.setattr("bench.machine.what_works.cpu_16bit_dtypes", lambda: has)
    corpora = {"corpus_cache_folder": "corpora", "corpus_cache_writable": True}
    item = next(
        item for item in what_works("cpu", NvmlReport(), (), TORCH, corpora) if item.what == "trials on the CPU"
    )
    assert item.works
    assert item.why.endswith(said) if said else "slow" not in item.why
