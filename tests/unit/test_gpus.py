"""A peak is the maker's dense figure for exactly this GPU, or null; a key says kind and capacity."""

from __future__ import annotations

import re

import pytest

from bench.gpus import TABLE, Gpu, find_gpu, why_no_bf16_peak


def _tera(name: str | None, precision: str) -> float | None:
    gpu = find_gpu(name)
    return None if gpu is None else getattr(gpu, precision)


@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("A100-SXM4-40GB", 312),
        ("NVIDIA A100-PCIE-40GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA H100 80GB HBM3", 989.5),
        ("NVIDIA H100 PCIe", 756.5),
        ("NVIDIA H100 NVL", 835.5),
        ("NVIDIA H200", 989.5),
        ("NVIDIA H200 NVL", 835.5),
        ("NVIDIA B200", 2250),
        ("NVIDIA B300 SXM6 AC", 2250),
        ("NVIDIA GB200", 2500),
        ("NVIDIA GeForce RTX 5090", 209.5),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 503.8),
        ("NVIDIA A10", 125),
        ("NVIDIA A10G", 70),
        ("NVIDIA L4", 121),
        ("NVIDIA L40", 181),
        ("NVIDIA L40S", 362),
        ("NVIDIA GeForce RTX 3090", 71),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA RTX A6000", 154.8),
    ],
)
def test_names_as_torch_tells_them_are_known(name: str, bf16: float) -> None:
    """Variants of one chip with other clocks are told apart."""
    assert _tera(name, "bf16") == bf16


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
        "NVIDIA GeForce RTX 5090 D",
        "NVIDIA GeForce RTX 5090 Laptop GPU",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",  # with other clocks
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "NVIDIA GB300",
        "Stand-in NVIDIA A100-SXM4-80GB",
        "AMD Instinct MI300X",
    ],
)
def test_a_gpu_that_is_not_listed_has_no_peak(name: str | None) -> None:
    """A peak of something alike would be a guess.

    torchtitan takes an A100's for every GPU it does not know.
    """
    assert _tera(name, "bf16") is None


def test_what_a_gpu_does_not_have_is_null() -> None:
    """Volta and Turing have tensor cores for fp16 alone."""
    for name in ("Tesla V100-SXM2-32GB", "Tesla V100-PCIE-16GB", "Tesla T4"):
        assert _tera(name, "fp16") is not None
        assert _tera(name, "fp32") is not None
        assert _tera(name, "bf16") is None
        assert _tera(name, "tf32") is None


@pytest.mark.parametrize("gpu", TABLE, ids=lambda gpu: gpu.key)
def test_every_peak_has_a_source_and_is_dense(gpu: Gpu) -> None:
    """16-bit tensor cores are at most twice TF32's, give or take rounding: a sparse figure among dense ones shows."""
    if gpu.fp16 is None:
        assert (gpu.fp32, gpu.tf32, gpu.bf16) == (None, None, None)
        assert "no sheet" in gpu.source
        return
    assert gpu.source.startswith("NVIDIA ")
    assert re.search("sparse|sparsity|white paper", gpu.source)
    assert gpu.fp32 is not None
    assert gpu.fp16 > gpu.fp32
    if gpu.bf16 is not None:
        assert gpu.tf32 is not None
        assert gpu.bf16 == gpu.fp16
        assert gpu.bf16 == pytest.approx(2 * gpu.tf32, rel=0.03)
        assert gpu.tf32 >= gpu.fp32


@pytest.mark.parametrize("gpu", TABLE, ids=lambda gpu: gpu.key)
def test_no_name_belongs_to_two_rows(gpu: Gpu) -> None:
    """The first name that a row matches is matched by no other."""
    name = gpu.names
    while "(" in name:  # of each choice the first, from the innermost out
        name = re.sub(r"\(([^|()]*)(\|[^()]*)?\)\??", r"\1", name)
    assert [other.key for other in TABLE if re.fullmatch(other.names, name, re.IGNORECASE)] == [gpu.key]


def test_keys_are_unique_and_end_in_the_capacity() -> None:
    assert len({gpu.key for gpu in TABLE}) == len(TABLE)
    assert all(re.fullmatch(r"[a-z0-9-]+-\d+gb", gpu.key) for gpu in TABLE)


@pytest.mark.parametrize("gpu", [gpu for gpu in TABLE if gpu.silicon is not None], ids=lambda gpu: gpu.key)
def test_what_a_stand_in_plays_is_the_gpu_of_its_row(gpu: Gpu) -> None:
    """Its name is one that the row knows, and its memory what was sold, less what the driver keeps."""
    assert gpu.silicon is not None
    assert find_gpu(gpu.silicon.name) is gpu
    assert 0.9 * gpu.capacity_gb < gpu.silicon.memory_bytes / 1024**3 < 1.05 * gpu.capacity_gb


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NVIDIA A100-SXM4-80GB", None),
        ("Tesla V100-SXM2-32GB", "has no bf16 units"),
        ("Tesla T4", "has no bf16 units"),
        ("NVIDIA A100-SXM-64GB", "no sheet of its own"),
        ("NVIDIA H20", "not in the table"),
    ],
)
def test_a_missing_peak_has_its_reason(name: str, said: str | None) -> None:
    reason = why_no_bf16_peak(name)
    assert (reason is None) == (said is None)
    assert said is None or said in (reason or "")
