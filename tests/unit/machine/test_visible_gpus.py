"""What CUDA_VISIBLE_DEVICES means, said in words."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from bench.machine.visible_gpus import explain_visible, hides_every_gpu, visible_names
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
        ("0,7,7", "'0,7,7' names 7 twice, which CUDA rejects: no GPU is visible"),
        (f"{A},GPU-aaaa", f"'{A},GPU-aaaa' names GPU 0 (A100) twice, which CUDA rejects: no GPU is visible"),
        ("1gpu2", "'1gpu2': GPU 1 as cuda:0; '1gpu2' is read as 1"),
        ("+1", "'+1': GPU 1 as cuda:0; '+1' is read as 1"),
        ("1 2", "'1 2': GPU 1 as cuda:0; '1 2' is read as 1"),
        ("0x1", "'0x1': GPU 0 as cuda:0; '0x1' is read as 0"),
        ("0x1,0", "'0x1,0' names GPU 0 twice, which CUDA rejects: no GPU is visible"),
        (
            "1,GPU-bbbb",
            "'1,GPU-bbbb': GPU 1 as cuda:0; 'GPU-bbbb' names no GPU here, and CUDA ignores it and all that follows",
        ),
        (
            "GPU-b, x",
            "'GPU-b, x': GPU 1 (A100) as cuda:0; ' x' names no GPU here, and CUDA ignores it and all that follows",
        ),
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


WORDS = st.sampled_from(
    ["0", "1", "2", "7", "-1", "-0", "+1", "1gpu2", "0x1", "1 2", " 1", "", "none", A, "GPU-", "MIG-c"]
)


@given(st.lists(WORDS | st.text("0123 +-xG\u0661\u00b2", max_size=4), max_size=4).map(",".join) | st.text(max_size=8))
@example("1gpu2")
@example("2,GPU-c0")
@example("1,01")
@example("+,1")
@example("GPU-a,GPU-a,1")
def test_list_is_read_as_torch_reads_it(value: str) -> None:
    """Any text, by torch's own parser; where that raises, for a sign alone, nothing but what stands before is named."""
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        os.environ["CUDA_VISIBLE_DEVICES"] = value
        read = torch.cuda._parse_visible_devices()
    except ValueError:  # "+", or a NUL, which no environment can hold
        return
    finally:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before
    assert visible_names(value) == read
    assert hides_every_gpu(value) is (not read)
    assert isinstance(explain_visible(value, GPUS), str)


@pytest.mark.parametrize("value", ["+", "-", "+a", "\u00b2", "x"])
def test_what_is_no_number_names_nothing(value: str) -> None:
    """A sign alone, on which torch's parser fails, is told in words too."""
    assert visible_names(f"1,{value},0") == [1]
    assert hides_every_gpu(value)
    assert "names no GPU here" in explain_visible(f"1,{value},0", GPUS)


@pytest.mark.parametrize(
    ("value", "hides"), [(None, False), ("", True), ("-1,0", True), ("0", False), (A, False), ("0,0", True)]
)
def test_hiding_is_told_from_choosing(value: str | None, hides: bool) -> None:
    """The cure depends on it."""
    assert hides_every_gpu(value) is hides
