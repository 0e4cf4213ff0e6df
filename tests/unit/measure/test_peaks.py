"""The precision in which a trial multiplies, and the peak of a GPU in it."""

from __future__ import annotations

import pytest

from bench.measure.peaks import MatmulPrecision, matmul_precision, peak_flops_per_s


def test_peaks_are_in_flops_per_second() -> None:
    assert peak_flops_per_s("NVIDIA A100-SXM4-80GB", "tf32") == 156e12
    assert peak_flops_per_s("Tesla V100-SXM2-32GB", "bf16") is None
    assert peak_flops_per_s(None, "bf16") is None


@pytest.mark.parametrize(
    ("amp_mode", "param_dtype", "precision"),
    [
        ("fp32", "fp32", "fp32"),
        ("tf32", "fp32", "tf32"),
        ("bf16", "fp32", "bf16"),
        ("fp16", "fp32", "fp16"),
        ("fp32", "bf16", "bf16"),
        ("tf32", "fp16", "fp16"),
        ("fp16", "bf16", "fp16"),
    ],
)
def test_matrices_are_multiplied_in_autocasts_precision_else_in_the_weights(
    amp_mode: MatmulPrecision, param_dtype: str, precision: MatmulPrecision
) -> None:
    """Weights stored in 16 bits are multiplied in 16 bits, also without autocast."""
    assert matmul_precision(amp_mode, param_dtype) == precision  # type: ignore[arg-type]
