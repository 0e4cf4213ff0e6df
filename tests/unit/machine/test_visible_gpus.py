"""What CUDA_VISIBLE_DEVICES means, said in words."""

from __future__ import annotations

import pytest

from bench.machine.visible_gpus import explain_visible, hides_every_gpu
from bench.telemetry.nvml import NvmlGpu, NvmlMig

A, B = "GPU-aaaa0000-1111", "GPU-bbbb0000-1111"
MIG = NvmlMig("MIG-cccc", "A100 MIG 3g.40gb", None, None)
GPUS = (NvmlGpu(0, "A100", A, mig_devices=(MIG,)), NvmlGpu(1, "A100", B))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "not set: every GPU of the machine is visible"),
        ("", "'' hides every GPU"),
        ("-1", "'-1' hides every GPU"),
        ("none", "'none' hides every GPU"),
        ("GPU-bbbb", "'GPU-bbbb': GPU 1 (A100) as cuda:0"),
        (f"{B},{A}", f"'{B},{A}': GPU 1 (A100) and GPU 0 (A100) as cuda:0 to cuda:1"),
        ("MIG-cccc", "'MIG-cccc': MIG device A100 MIG 3g.40gb of GPU 0 as cuda:0"),
        ("MIG-GPU-aaaa/1/0", "'MIG-GPU-aaaa/1/0': MIG-GPU-aaaa/1/0 as cuda:0"),
        (
            "GPU-dddd",
            "'GPU-dddd' hides every GPU: 'GPU-dddd' names no GPU here, and CUDA ignores it and all that follows",
        ),
        ("0,7,1", "'0,7,1': GPU 0 as cuda:0; '7' names no GPU here, and CUDA ignores it and all that follows"),
        ("1, 1", "'1, 1' names GPU 1 twice, which CUDA rejects: no GPU is visible"),
    ],
)
def test_value_is_explained(value: str | None, said: str) -> None:
    """Indices, UUIDs, their beginnings, MIG devices, nothing, and nonsense."""
    assert explain_visible(value, GPUS, "PCI_BUS_ID") == said


def test_numbers_are_doubted_unless_the_order_is_fixed() -> None:
    """CUDA counts the fastest first, the driver by bus."""
    assert "may differ from the order below" in explain_visible("1", GPUS)
    assert "order" not in explain_visible("1", GPUS, "PCI_BUS_ID")
    assert "order" not in explain_visible("0", GPUS[:1])


def test_unknown_machine_believes_what_is_named() -> None:
    """Without NVML nothing can be looked up."""
    assert explain_visible("3", (), "PCI_BUS_ID") == "'3': GPU 3 as cuda:0"
    assert explain_visible(A, ()) == f"'{A}': {A} as cuda:0"


@pytest.mark.parametrize(("value", "hides"), [(None, False), ("", True), ("-1,0", True), ("0", False), (A, False)])
def test_hiding_is_told_from_choosing(value: str | None, hides: bool) -> None:
    """The cure depends on it."""
    assert hides_every_gpu(value) is hides
