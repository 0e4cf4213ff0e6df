"""A peak is the maker's dense figure for exactly this GPU, or null."""

from __future__ import annotations

import re

import pytest

from bench.measure.peaks import PEAKS, MatmulPrecision, Peak, matmul_precision, peak_flops_per_s


@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("A100-SXM4-40GB", 312e12),
        ("NVIDIA A100-PCIE-40GB", 312e12),
        ("NVIDIA A100 80GB PCIe", 312e12),
        ("NVIDIA H100 80GB HBM3", 989.5e12),
        ("NVIDIA H100 PCIe", 756.5e12),
        ("NVIDIA H100 NVL", 835.5e12),
        ("NVIDIA H200", 989.5e12),
        ("NVIDIA H200 NVL", 835.5e12),
        ("NVIDIA B200", 2250e12),
        ("NVIDIA A10", 125e12),
        ("NVIDIA A10G", 70e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40", 181e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA GeForce RTX 3090", 71e12),
        ("NVIDIA GeForce RTX 4090", 165.2e12),
        ("NVIDIA RTX A6000", 154.8e12),
    ],
)
def test_names_as_torch_tells_them_are_known(name: str, bf16: float) -> None:
    """Variants of one chip with other clocks are told apart."""
    assert peak_flops_per_s(name, "bf16") == bf16


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "Fake GPU",
        "Intel(R) Xeon(R) Processor",
        "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-SXM-64GB",  # a special edition with more multiprocessors
        "GRID A100D-20C",
        "NVIDIA A10-24Q",
        "NVIDIA H100",
        "NVIDIA H20",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 3090 Ti",
        "AMD Instinct MI300X",
    ],
)
def test_a_gpu_that_is_not_listed_has_no_peak(name: str | None) -> None:
    """A peak of something alike would be a guess.

    torchtitan takes an A100's for every GPU it does not know.
    """
    assert peak_flops_per_s(name, "bf16") is None


def test_what_a_gpu_does_not_have_is_null() -> None:
    """Volta and Turing have tensor cores for fp16 alone."""
    for name in ("Tesla V100-SXM2-32GB", "Tesla V100-PCIE-16GB", "Tesla T4"):
        assert peak_flops_per_s(name, "fp16") is not None
        assert peak_flops_per_s(name, "fp32") is not None
        assert peak_flops_per_s(name, "bf16") is None
        assert peak_flops_per_s(name, "tf32") is None


@pytest.mark.parametrize("peak", PEAKS, ids=lambda peak: peak.names)
def test_every_peak_has_a_source_and_is_dense(peak: Peak) -> None:
    """16-bit tensor cores are at most twice TF32's, give or take rounding: a sparse figure among dense ones shows."""
    assert peak.source.startswith("NVIDIA ")
    assert re.search("sparse|sparsity|white paper", peak.source)
    assert peak.fp16 > peak.fp32
    if peak.bf16 is not None:
        assert peak.bf16 == peak.fp16
        assert peak.bf16 == pytest.approx(2 * peak.tf32, rel=0.03)
        assert peak.tf32 >= peak.fp32


@pytest.mark.parametrize("peak", PEAKS, ids=lambda peak: peak.names)
def test_no_name_belongs_to_two_rows(peak: Peak) -> None:
    """The first name that a row matches is matched by no other."""
    name = peak.names
    while "(" in name:  # of each choice the first, from the innermost out
        name = re.sub(r"\(([^|()]*)\|[^()]*\)", r"\1", name)
    assert [other.names for other in PEAKS if re.fullmatch(other.names, name, re.IGNORECASE)] == [peak.names]


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
